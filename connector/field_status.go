package connector

import "errors"

// FieldStatus is the state of a payer's mandate, as one word for writing back into the accounting system.
// Field statuses are a public interface: tables and webhooks of other systems contain them.
type FieldStatus string

// The field statuses.
const (
	FieldNone      FieldStatus = "none" // no mandate
	FieldAsked     FieldStatus = "asked"
	FieldSigned    FieldStatus = "signed"
	FieldActive    FieldStatus = "active"
	FieldCancelled FieldStatus = "cancelled"
)

// FieldStatuses are all field statuses, in the order of a mandate's life.
var FieldStatuses = []FieldStatus{FieldNone, FieldAsked, FieldSigned, FieldActive, FieldCancelled}

// FieldStatus returns the field status for a status; "" is the status for no mandate. It is false for an undocumented
// status: payersync reports nothing to others about it.
func (s MandateStatus) FieldStatus() (FieldStatus, bool) {
	switch s {
	case "":
		return FieldNone, true
	case MandateCreated:
		return FieldAsked, true
	case MandatePending, MandateMigrating: // the payer has nothing left to do
		return FieldSigned, true
	case MandateActive:
		return FieldActive, true
	case MandateCancelled:
		return FieldCancelled, true
	}
	return "", false
}

// Write is one change of the single field writable by write-back in a payer's record.
type Write struct {
	ID         string // the same however often it is sent
	Connection string
	SourceID   string
	Key        string // of the customer, as the mapping writes it
	BillingID  string
	MandateID  string
	From, To   FieldStatus
	Field      WrittenField // the field's value right before; its zero value if unreadable
	Value      string       // the new value
}

// WrittenField is the field's value.
type WrittenField struct {
	Value   string // as the writer of that system spells it; "" for nothing
	Version string // of the record, if the system requires it
	Closed  string // why nobody can write to the record, as the end of a sentence; "" when one can
}

// The failures of a write. Any other error means an unknown outcome.
var (
	// ErrStale means nothing was written because the record was edited since it was read. Read it again.
	ErrStale = errors.New("the record was edited since it was read")
	// ErrNotWritten means nothing was written, for a reason unrelated to the record.
	ErrNotWritten = errors.New("nothing was written")
)

// WriteRefusedError means nothing was written, and the system will refuse to write this record in future too.
type WriteRefusedError struct {
	Why string // a sentence without personal values
	Err error
}

// Error returns why.
func (e *WriteRefusedError) Error() string { return e.Why }

// Unwrap returns the cause.
func (e *WriteRefusedError) Unwrap() error { return e.Err }
