package connector

import "errors"

// Standing is how a payer's mandate stands, in the one word that may be written back into
// the books. Standings are a public interface: tables and webhooks of others hold them.
type Standing string

// The standings.
const (
	StandingNone      Standing = "none" // no mandate
	StandingAsked     Standing = "asked"
	StandingSigned    Standing = "signed"
	StandingActive    Standing = "active"
	StandingCancelled Standing = "cancelled"
)

// Standings are all standings, in the order in which a mandate goes through them.
var Standings = []Standing{StandingNone, StandingAsked, StandingSigned, StandingActive, StandingCancelled}

// Standing returns the standing that a status stands for; "" stands for no mandate. It is
// false for a status that is not documented, of which nothing is told to others.
func (s MandateStatus) Standing() (Standing, bool) {
	switch s {
	case "":
		return StandingNone, true
	case MandateCreated:
		return StandingAsked, true
	case MandatePending, MandateMigrating: // the payer has done what there is to do
		return StandingSigned, true
	case MandateActive:
		return StandingActive, true
	case MandateCancelled:
		return StandingCancelled, true
	}
	return "", false
}

// Write is one change of the one field of a payer's record that write-back may write.
type Write struct {
	ID         string // the same however often it is sent
	Connection string
	SourceID   string
	Key        string // of the customer, as the mapping writes it
	BillingID  string
	MandateID  string
	From, To   Standing
	Field      WrittenField // the field as it was read right before; its zero value where it cannot be read
	Value      string       // what it is to hold
}

// WrittenField is what the field holds.
type WrittenField struct {
	Value   string // as the writer of that system spells it; "" for nothing
	Version string // of the record, where the system wants it back
	Closed  string // why nobody can write to the record, as the end of a sentence; "" when one can
}

// How a write ends that did not succeed. Any other error means that nobody knows.
var (
	// ErrStale means that nothing was written, because the record was edited since it was
	// read: it is to be read again.
	ErrStale = errors.New("the record was edited since it was read")
	// ErrNotWritten means that nothing was written, for a reason that is not the record's.
	ErrNotWritten = errors.New("nothing was written")
)

// WriteRefusedError means that nothing was written, and that the system will not write it to
// this record another time either.
type WriteRefusedError struct {
	Why string // a sentence without personal values
	Err error
}

// Error returns why.
func (e *WriteRefusedError) Error() string { return e.Why }

// Unwrap returns the cause.
func (e *WriteRefusedError) Unwrap() error { return e.Err }
