package state

import (
	"context"
	"fmt"
	"testing"

	"payersync/connector"
)

// held holds what run did not meet, and returns the plan.
func (d *desk) held(run int64, missing int) (p Plan) {
	d.t.Helper()
	d.do(func(tx *Tx) (err error) {
		p, err = tx.HoldMissing(run, acme, mapping, missing, "too many")
		return err
	})
	return p
}

// A record counts as missing once a plan has looked at it, and not for ever.
//
// covers F109
func TestOnlyRecordsThatAPlanLookedAtCanBeMissing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	counts := func() string {
		unseen, known, err := d.MissingCount(context.Background(), acme)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d of %d", unseen, known)
	}
	first := d.run(acme)
	for i := range 4 {
		d.planCreate(first, acme, fmt.Sprint("c", i))
	}
	bad := record("line 9", "no row")
	bad.Problem = "The line has too few fields."
	d.save(first, acme, record("never planned", "x"), bad)
	d.decide(first, acme, Decision{SourceID: bad.SourceID, ContentHash: bad.Hash(), Verdict: Held, Topic: TopicRecord,
		Reason: connector.ReasonRecordUnreadable})
	d.finishPlan(first)
	d.closeRun(first, connector.RunComplete)

	second := d.run(acme)
	d.save(second, acme, record("c0", "as before"), record("another", "y"))
	d.readWhole(second)
	if got := counts(); got != "3 of 4" {
		t.Errorf("%s are missing, want 3 of 4", got)
	}
	d.do(func(tx *Tx) error { return tx.DropMissing(second, acme) })
	if got := counts(); got != "0 of 1" {
		t.Errorf("%s are missing after it was taken note of, want none", got)
	}
}

// covers F109
func TestApprovalLetsExactlyTheMissingRecordsGo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	for i := range 3 {
		d.planCreate(run, acme, fmt.Sprint("c", i))
	}
	ordinary := d.finishPlan(run)
	d.closeRun(run, connector.RunIncomplete)
	read := func(ids ...string) int64 {
		run := d.run(acme)
		for _, id := range ids {
			d.save(run, acme, record(id, "as before"))
		}
		d.readWhole(run)
		return run
	}
	run = read("c0")
	first, again := d.held(run, 2), d.held(run, 2)
	if first.ID != again.ID || first.State != PlanWaiting || first.Missing != 2 {
		t.Errorf("held %+v and %+v, want one plan that waits with 2", first, again)
	}
	d.do(func(tx *Tx) error { return tx.Approve(first.ID, "tester") })
	if got := d.held(run, 2); got.ID != first.ID || got.State != PlanApproved {
		t.Errorf("the same again is %+v, want it approved", got)
	}
	if p := d.finishPlan(run); p.Missing != 0 || p.Creates != ordinary.Creates {
		t.Errorf("an ordinary plan is %+v, want one as before: %+v", p, ordinary)
	}
	if waits, err := d.MissingWait(t.Context(), acme); err != nil || !waits {
		t.Errorf("an ordinary plan took the place of what was approved: %v", err)
	}
	d.closeRun(run, connector.RunIncomplete)
	run = read()
	if got := d.held(run, 3); got.ID == first.ID || got.State != PlanWaiting {
		t.Errorf("one more is %+v, want a plan that waits", got)
	}
	d.do(func(tx *Tx) error { return tx.EndMissing(acme) })
	if waits, err := d.MissingWait(t.Context(), acme); err != nil || waits {
		t.Errorf("it still waits: %v", err)
	}
	d.closeRun(run, connector.RunIncomplete)
	if err := d.Do(t.Context(), func(tx *Tx) error {
		_, err := tx.HoldMissing(run, acme, mapping, 3, "")
		return err
	}); err == nil {
		t.Error("a run that was closed held records")
	}
}
