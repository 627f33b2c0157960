package state

import (
	"errors"
	"fmt"
	"testing"

	"payersync/connector"
)

func TestApprovalIsWrittenToTheAuditLog(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planCreate(run, acme, "c1")
	p := d.finishPlan(run)
	d.do(func(tx *Tx) error { return tx.SetPlanState(p.ID, PlanWaiting, "limits") })
	found, err := d.FindPlan(t.Context(), p.Hash[:8])
	if err != nil || found.ID != p.ID || found.Limits != "limits" || found.Creates != 1 {
		t.Fatalf("found %+v, %v; want the waiting plan", found, err)
	}
	if _, err := d.FindPlan(t.Context(), p.Hash[:7]); !errors.Is(err, ErrPlanNotWaiting) {
		t.Errorf("seven characters: got %v, want %v", err, ErrPlanNotWaiting)
	}
	if _, err := d.FindPlan(t.Context(), "%%%%%%%%"); !errors.Is(err, ErrPlanNotWaiting) {
		t.Errorf("a pattern: got %v, want %v", err, ErrPlanNotWaiting)
	}
	d.do(func(tx *Tx) error { return tx.Approve(p.ID, "ada") })
	if got := one[string](t, d.Ledger,
		"SELECT actor || ':' || action || ':' || subject || ':' || reason FROM audit"); got != "ada:approve plan:1:"+p.Hash {
		t.Errorf("the audit log says %q", got)
	}
	if err := d.Do(t.Context(), func(tx *Tx) error { return tx.Approve(p.ID, "ben") }); !errors.Is(err,
		ErrPlanNotWaiting) {
		t.Errorf("approving twice: got %v, want %v", err, ErrPlanNotWaiting)
	}
}

// covers F74, S13
func TestAPartOfAPlanIsApprovedAsItIsOrNotAtAll(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	first, second := d.planCreate(run, acme, "c1"), d.planCreate(run, acme, "c2")
	plan := d.finishPlan(run)
	some := func(plan int64, ids ...int64) error {
		return d.Do(t.Context(), func(tx *Tx) error { return tx.ApproveSome(plan, ids, "ada", "--record c1") })
	}
	share := func() Share {
		s, err := d.ShareOf(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		s.Reads, s.Newest = "", 0
		return s
	}
	if err := some(plan.ID, first.ID, second.ID+1); !errors.Is(err, ErrPlanChanged) {
		t.Errorf("approving a change that the plan does not have: got %v, want %v", err, ErrPlanChanged)
	}
	if share := share(); share != (Share{Pending: 2}) {
		t.Errorf("then %+v; want nothing approved or left out", share)
	}
	if err := some(plan.ID, first.ID); err != nil {
		t.Fatal(err)
	}
	if share := share(); share != (Share{Pending: 2, Approved: 1, LeftOut: 1}) {
		t.Errorf("then %+v; want one approved and one left out", share)
	}
	d.do(func(tx *Tx) error { return tx.ApproveWithinLimits(plan.ID) })
	if d.open(acme, "c2", LaneCustomer).Approved {
		t.Error("the limits let a change go that a person left out")
	}
	again := d.finishPlan(run)
	if again.ID != plan.ID || again.State != PlanWaiting || again.Open != (Weight{LeftOut: 1}) {
		t.Errorf("the plan is %+v, want the same one with a change left out", again)
	}
	if err := some(plan.ID, second.ID); err != nil {
		t.Fatal(err)
	}
	if whole := d.finishPlan(run); whole.State != PlanApproved || whole.Open != (Weight{}) {
		t.Errorf("with all of it approved the plan is %+v", whole)
	}
	if err := some(plan.ID, first.ID); !errors.Is(err, ErrPlanNotWaiting) {
		t.Errorf("approving a part of what is approved: got %v, want %v", err, ErrPlanNotWaiting)
	}
}

// covers F74, S13
func TestARejectedPlanIsThatPlanWhileItSaysTheSame(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planCreate(run, acme, "c1")
	plan := d.finishPlan(run)
	d.do(func(tx *Tx) error { return tx.Approve(plan.ID, "ada") })
	reject := func() error {
		return d.Do(t.Context(), func(tx *Tx) error { return tx.Reject(plan.ID, "bob", "wrong export") })
	}
	var open *ErrRunOpen
	if err := reject(); !errors.As(err, &open) {
		t.Errorf("rejecting while a run may be sending it: got %v, want that a run is open", err)
	}
	d.closeRun(run, connector.RunIncomplete)
	if err := reject(); err != nil {
		t.Fatal(err)
	}
	if n, err := d.ReleasedCount(t.Context(), acme, LaneCustomer); n != 0 || err != nil {
		t.Errorf("%d changes of it may be sent, %v; want none", n, err)
	}
	second := d.run(acme)
	again := d.finishPlan(second)
	if again.ID != plan.ID || again.State != PlanRejected || again.RejectedBy != "bob" ||
		again.Rejection != "wrong export" || again.RejectedAt.IsZero() {
		t.Errorf("the same again is %+v, want the rejected plan", again)
	}
	if rejected, err := d.RejectedPlans(t.Context()); len(rejected) != 1 || err != nil {
		t.Errorf("these are rejected: %v, %v", rejected, err)
	}
	if waiting, err := d.WaitingPlans(t.Context()); len(waiting) != 0 || err != nil {
		t.Errorf("these wait: %v, %v; want none", waiting, err)
	}
	d.planCreate(second, acme, "c2")
	if grown := d.finishPlan(second); grown.ID == plan.ID || grown.State != PlanDraft ||
		grown.Open != (Weight{Creates: 1, LeftOut: 1}) {
		t.Errorf("the grown plan is %+v, want a new one that keeps back what was rejected", grown)
	}
	if all, err := d.StoredPlans(t.Context(), acme); err != nil || len(all) != 2 || all[0].State != PlanSuperseded ||
		all[0].RejectedBy != "bob" {
		t.Errorf("the plans are %+v, %v", all, err)
	}
}

func TestAPlanReadsByWhichOfItsChangesWait(t *testing.T) {
	t.Parallel()
	approve := func(at ...int) func(*desk, Plan, []Change) {
		return func(d *desk, p Plan, changes []Change) {
			var ids []int64
			for _, n := range at {
				ids = append(ids, changes[n].ID)
			}
			d.do(func(tx *Tx) error { return tx.ApproveSome(p.ID, ids, "bob", "") })
		}
	}
	drop := func(at int) func(*desk, Plan, []Change) {
		return func(d *desk, _ Plan, changes []Change) {
			d.do(func(tx *Tx) error { return tx.dropPlanned(acme, changes[at].Payer.SourceID, LaneCustomer) })
		}
	}
	seen := map[string]int{}
	for i, meanwhile := range []func(*desk, Plan, []Change){
		func(*desk, Plan, []Change) {}, approve(0), approve(1), approve(2), approve(0, 1), approve(0, 2), approve(0, 1, 2, 3),
		drop(0), drop(1), drop(2), drop(3),
	} {
		d := newDesk(t)
		run := d.run(acme)
		var changes []Change
		for _, id := range []string{"c1", "c2", "c3", "c4"} {
			changes = append(changes, d.planCreate(run, acme, id))
		}
		plan := d.finishPlan(run)
		d.do(func(tx *Tx) error { return tx.SetPlanState(plan.ID, PlanWaiting, "It is above the limit.") })
		before, err := d.ShareOf(t.Context(), plan)
		meanwhile(d, plan, changes)
		share, wrong := d.ShareOf(t.Context(), plan)
		if err != nil || wrong != nil || (before.Reads == share.Reads) != (i == 0) {
			t.Errorf("case %d reads %q, before %q: %v, %v", i, share.Reads, before.Reads, err, wrong)
		}
		if other, twice := seen[share.Reads]; twice {
			t.Errorf("case %d reads as case %d", i, other)
		}
		seen[share.Reads] = i
	}
}

func TestAPlanReadsOtherwiseOnceAnythingOfItIsAnother(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(d *desk, run int64, plan Plan, first Change){
		"another change is planned": func(d *desk, run int64, _ Plan,
			_ Change) {
			d.planCreate(run, acme, "c3")
			d.finishPlan(run)
		},
		"a part is approved": func(d *desk, _ int64, p Plan, c Change) {
			d.do(func(tx *Tx) error { return tx.ApproveSome(p.ID, []int64{c.ID}, "bob", "") })
		},
		"it is rejected": func(d *desk, run int64, p Plan, _ Change) {
			d.closeRun(run, connector.RunIncomplete)
			d.do(func(tx *Tx) error { return tx.Reject(p.ID, "bob", "no") })
		},
		"a change is taken back": func(d *desk, _ int64, _ Plan, c Change) {
			d.do(func(tx *Tx) error { return tx.dropPlanned(acme, c.Payer.SourceID, LaneCustomer) })
		},
		"one that says the same is made": func(d *desk, run int64, _ Plan, _ Change) { d.finishPlan(run) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			first := d.planCreate(run, acme, "c1")
			d.planCreate(run, acme, "c2")
			plan := d.finishPlan(run)
			d.do(func(tx *Tx) error {
				return tx.SetPlanState(plan.ID, PlanWaiting, "2 customers would be created (the limit is 1).")
			})
			was, err := d.FindPlan(t.Context(), fmt.Sprint(plan.ID))
			if err != nil {
				t.Fatal(err)
			}
			share, err := d.ShareOf(t.Context(), was)
			if err != nil {
				t.Fatal(err)
			}
			meanwhile(d, run, plan, first)
			err = d.Do(t.Context(), func(tx *Tx) error { return tx.StillReads(plan.ID, share.Reads) })
			if same := name == "one that says the same is made"; same != (err == nil) || !same &&
				!errors.Is(err, ErrPlanChanged) {
				t.Errorf("got %v", err)
			}
		})
	}
}
