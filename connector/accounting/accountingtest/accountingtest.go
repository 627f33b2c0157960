// Package accountingtest is the conformance suite for every accounting source. An adapter's test describes
// its system as a Harness and calls Run. The suite supports snapshot sources and sources of changes. A
// Company omits the acts its system does not have, and the suite skips their checks.
//
// The adapter's own tests cover its requests, its formats and its limits.
package accountingtest

import (
	"context"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// Harness opens accounting systems to test a source with.
type Harness struct {
	// Open starts a system of its own with n active customers and a source for it. It stops both with
	// t.Cleanup and reports its own failures to t.
	Open func(t testing.TB, n int) Company

	// Many is a number of customers on more than one page.
	Many int
}

// Company is one accounting system under test, with its possible acts. Source, Truth, Edit, Spoil and Break
// are always needed. Any other act may be nil if the system does not have it.
type Company struct {
	Source accounting.Source

	// Truth returns what a complete read must give now, in any order, without
	// spoilt records. SourceID, State, MergedInto and Data count; Data is compared
	// as JSON.
	Truth func() []connector.Record

	Add     func() (id string)           // adds a customer
	Edit    func(id string)              // changes a value of the customer's data
	Archive func(id string)              // the source reports it as archived
	Delete  func(id string)              // the source reports it as deleted
	Merge   func(loser, survivor string) // the source reports loser as merged into survivor
	Spoil   func(id string)              // makes the customer's record unreadable, and no other
	Break   func() (mend func())         // makes reads fail, best after their first page
	Held    func() int                   // files or connections the source holds at the moment
	Now     func() time.Time             // the system's clock; nil is time.Now

	// The acts of a live system during a read.
	Serve    func(after func())    // calls after behind every served page of customers; nil ends that
	Tie      func(ids []string)    // gives the customers one and the same time of last edit
	Leave    func(id string)       // removes the customer from the system without a trace
	Erase    func(id string)       // takes the customer's personal data away; at least a full read shows it
	Pass     func(d time.Duration) // moves the system's clock on
	Troubles []Trouble             // expired token, minute and day limits, 5xx, HTML instead of JSON, …
}

// Run tests the promises of accounting.Source on the source of h. The calling test must not be parallel:
// goroutines of other tests would count as leaks.
func Run(t *testing.T, h Harness) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			company := h.Open(t, h.size(c))
			if c.lacks != nil {
				if act := c.lacks(t.Context(), company); act != "" {
					t.Skip("the system cannot " + act)
				}
			}
			if err := c.run(t.Context(), company); err != nil {
				t.Error(err)
			}
		})
	}
}

// check is one promise. Its run returns how the promise was broken, so the suite itself can be tested with
// broken sources.
type check struct {
	name  string
	many  bool                                  // needs more than one page
	lacks func(context.Context, Company) string // what the check needs and the system cannot do; "" when it can
	run   func(context.Context, Company) error
}

func (h Harness) size(c check) int {
	if c.many {
		return h.Many
	}
	return 5
}

var checks = []check{
	{name: "description is stable and well formed", run: describesItself},
	{name: "data holds declared fields of declared types", run: holdsDeclaredFields},
	{name: "ids identify", many: true, run: givesIDs},
	{name: "complete read equals the truth", many: true, run: readsTheTruth},
	{name: "snapshot ignores since", lacks: lacksSnapshots, run: ignoresSince},
	{name: "edit is seen by the next read", run: seesAnEdit},
	{name: "added customer is seen by the next read", lacks: lacksAdd, run: seesAnAddition},
	{name: "archived customer is reported", lacks: lacksArchive, run: reportsArchived},
	{name: "deleted customer is reported", lacks: lacksDelete, run: reportsDeleted},
	{name: "merged customer names its survivor", lacks: lacksMerge, run: reportsMerged},
	{name: "unchanged record hashes alike", run: hashesAlike},
	{name: "bad record stops nobody else", run: isolatesABadRecord},
	{name: "failed read is not complete", many: true, run: failsVisibly},
	{name: "cancelled context ends the read", many: true, run: obeysItsContext},
	{name: "consumer that stops early leaks nothing", many: true, run: leaksNothing},
	{name: "reads between changes end at a full dump", run: endsAtAFullDump},
	{name: "edits under the read lose nothing", many: true, lacks: lacksServe, run: losesNothing},
	{name: "changes under the reads end at a full dump", many: true, lacks: lacksServe, run: endsAtAFullDumpUnderFire},
	{name: "customers that leave under the read hide nobody", many: true, lacks: lacksLeave, run: hidesNobody},
	{name: "erased customer is seen by the next full read", lacks: lacksErase, run: seesAnErasure},
	{name: "trouble is overcome or reported as what it is", many: true, lacks: lacksTroubles, run: outlivesTrouble},
}

func lacksAdd(_ context.Context, c Company) string { return missing("add customers", c.Add != nil) }

func lacksArchive(_ context.Context, c Company) string {
	return missing("archive customers", c.Archive != nil)
}

func lacksDelete(_ context.Context, c Company) string {
	return missing("report deleted customers", c.Delete != nil)
}

func lacksMerge(_ context.Context, c Company) string {
	return missing("merge customers", c.Merge != nil)
}

func lacksSnapshots(ctx context.Context, c Company) string {
	info, err := c.Source.Describe(ctx)
	return missing("give snapshots", err != nil || info.Snapshot)
}

func missing(act string, can bool) string {
	if can {
		return ""
	}
	return act
}
