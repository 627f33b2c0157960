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

// The statuses that the billing service documents.
const (
	MandateCreated   MandateStatus = "CREATED"
	MandatePending   MandateStatus = "PENDING"
	MandateActive    MandateStatus = "ACTIVE"
	MandateCancelled MandateStatus = "CANCELLED"
)

// Known reports whether the status is one that the billing service documents.
func (s MandateStatus) Known() bool {
	switch s {
	case MandateCreated, MandatePending, MandateActive, MandateCancelled:
		return true
	}
	return false
}

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
	case "":
		return "no mandate"
	}
	return "unknown status " + string(s)
}

// way is the order in which a mandate goes through its statuses.
var way = []MandateStatus{MandateCreated, MandatePending, MandateActive, MandateCancelled}

// LeadsTo reports whether a mandate with this status may have another one later
// without anything unusual: the same, or one further on its way. It is false where
// either is not documented.
func (s MandateStatus) LeadsTo(later MandateStatus) bool {
	from, to := slices.Index(way, s), slices.Index(way, later)
	return s == later || from >= 0 && to > from
}
