package connector

import "slices"

// Mandate is a direct debit mandate as the billing service states it. Bank
// account numbers are deliberately not part of it: they are neither shown nor
// stored (connector/RULES.md#the-payers-word).
type Mandate struct {
	ID            string
	CustomerID    string
	Status        MandateStatus
	ServiceTime   string // the service's time of the status, as it came; "" when not given
	URL           string // the signing link: a secret; "" when the answer had none
	FailureReason Secret // why a bank cancelled it; for debugging with the service, never for a payer to see
}

// MandateStatus is a mandate's status, spelt as the billing service spells it.
// Values beyond the listed ones are kept and shown, never acted on.
type MandateStatus string

// The known statuses. The interface lists the first four. A mandate brought over from another provider has the fifth
// until it is active or cancelled.
const (
	MandateCreated   MandateStatus = "CREATED"
	MandatePending   MandateStatus = "PENDING"
	MandateActive    MandateStatus = "ACTIVE"
	MandateCancelled MandateStatus = "CANCELLED"
	MandateMigrating MandateStatus = "MIGRATING"
)

// MandateStatuses are all known statuses, in display order.
var MandateStatuses = []MandateStatus{MandateCreated, MandatePending, MandateMigrating, MandateActive, MandateCancelled}

// Known reports whether it is known what the status means.
func (s MandateStatus) Known() bool { return slices.Contains(MandateStatuses, s) }

// Underway reports whether the mandate becomes active without anything from the
// payer: it is signed, or brought over from another provider. Nothing can be
// collected under it yet, and no link is asked for.
func (s MandateStatus) Underway() bool { return s == MandatePending || s == MandateMigrating }

// Label returns the status in an accountant's words.
func (s MandateStatus) Label() string {
	switch s {
	case MandateCreated:
		return "awaiting signature"
	case MandatePending:
		return "signed, waiting for the bank"
	case MandateActive:
		return "active"
	case MandateCancelled:
		return "cancelled"
	case MandateMigrating:
		return "being moved from another provider"
	case "":
		return "no mandate"
	}
	return "unknown status " + string(s)
}

// LeadsTo reports whether a mandate may normally change from this status to later: the same status, or a further one.
// It is false if either is undocumented.
func (s MandateStatus) LeadsTo(later MandateStatus) bool {
	from, to := slices.Index(MandateStatuses, s), slices.Index(MandateStatuses, later)
	return s == later || from >= 0 && to > from
}
