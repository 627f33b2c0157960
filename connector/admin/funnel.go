package admin

import (
	"context"

	"payersync/connector/readiness"
	"payersync/state"
)

// Stage is a record's progress towards a mandate for collections. Each stage includes the stages before it.
type Stage string

// The stages.
const (
	InBooks   Stage = "books"   // it counts as a payer
	InService Stage = "service" // its customer is there, and certainly its own
	Asked     Stage = "asked"   // to sign
	Signed    Stage = "signed"
	Active    Stage = "active" // it can be debited
)

// Stages are all stages in their order.
var Stages = []Stage{InBooks, InService, Asked, Signed, Active}

// Title returns the stage in a few words.
func (s Stage) Title() string {
	switch s {
	case InBooks:
		return "Payers"
	case InService:
		return "In the service"
	case Asked:
		return "Asked to sign"
	case Signed:
		return "Signed"
	case Active:
		return "Active"
	}
	return string(s)
}

// Has reports whether a record of a class and step has reached the stage; "" is reached by all. Records
// outside the books, or excluded, have reached none. A record in conflict counts as no further.
func (s Stage) Has(class readiness.Class, step readiness.Stage) bool {
	switch s {
	case "":
		return true
	case InBooks:
		return class.Counts(step)
	case InService:
		return Asked.Has(class, step) || class == readiness.Unasked && class.Counts(step)
	case Asked:
		return Signed.Has(class, step) || class == readiness.Awaiting || class == readiness.Cancelled ||
			class == readiness.Unknown
	case Signed:
		return Active.Has(class, step) || class == readiness.Unlooked || class == readiness.Signed
	case Active:
		return class == readiness.Debitable
	}
	return false
}

// Reached returns how many records have reached a stage.
func (r Report) Reached(s Stage) (n int) {
	for _, t := range r.Totals {
		if s.Has(t.Class, t.Step) {
			n += t.Records
		}
	}
	return n
}

// Most returns the most frequent class and step of payers not debitable, with their number; "" if all are debitable.
func (r Report) Most() (most Total) {
	for _, t := range r.Totals {
		if t.Class != readiness.Debitable && t.Class.Counts(t.Step) && t.Records > most.Records {
			most = t
		}
	}
	return most
}

// Desk is the work list: the tasks for a person, and each connection's last reading.
type Desk struct {
	Reasons []state.ReasonCount // findings for a person
	Plans   []state.Plan        // waiting for approval
	Runs    []state.RunRow      // the newest of each connection
	Reads   []state.ReadRow     // when the books of each connection were last read to their end
	Sources []state.SourceRow   // how the last run met them
}

// deskOf looks at the desk.
func deskOf(ctx context.Context, ledger *state.Ledger) (d Desk, err error) {
	if d.Reasons, err = ledger.ReasonCounts(ctx); err != nil {
		return d, err
	}
	if d.Plans, err = ledger.WaitingPlans(ctx); err != nil {
		return d, err
	}
	if d.Runs, err = ledger.LatestRuns(ctx); err != nil {
		return d, err
	}
	if d.Reads, err = ledger.LastReads(ctx); err != nil {
		return d, err
	}
	d.Sources, err = ledger.Sources(ctx)
	return d, err
}
