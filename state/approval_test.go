package state

import (
	"fmt"
	"testing"
)

// The approval of a whole plan is one row, whoever asks for it.
func TestAWholePlanIsApprovedInOneRow(t *testing.T) {
	t.Parallel()
	for name, approve := range map[string]func(*Tx, Plan) error{
		"within the limits": func(tx *Tx, p Plan) error { return tx.ApproveWithinLimits(p.ID) },
		"by a person":       func(tx *Tx, p Plan) error { return tx.Approve(p.ID, "Olive") },
	} {
		d := newDesk(t)
		run := d.run(acme)
		for i := range 40 {
			d.planCreate(run, acme, fmt.Sprint("c", i))
		}
		plan := d.finishPlan(run)
		d.do(func(tx *Tx) error { return approve(tx, plan) })
		if n := one[int](t, d.Ledger, "SELECT count(*) FROM changes WHERE approved = 1"); n != 0 {
			t.Errorf("%s: %d changes were written again", name, n)
		}
		d.expectApproved(name, plan, 40)

		d.do(func(tx *Tx) error { return tx.exec("UPDATE plans SET state = 'approved' WHERE plan_id = ?", plan.ID) })
		d.planCreate(run, acme, "new")
		d.expectApproved(name+", and one more planned", d.finishPlan(run), 40)
	}
}

// A plan that was approved as a whole, and lists the same change anew, does not approve it.
func TestAnApprovedPlanDoesNotApproveWhatItListsLater(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planCreate(run, acme, "c1")
	d.planCreate(run, acme, "c2")
	plan := d.finishPlan(run)
	d.do(func(tx *Tx) error { return tx.Approve(plan.ID, "Olive") })
	d.do(func(tx *Tx) error { return tx.dropPlanned(acme, "c2", LaneCustomer) })
	d.planCreate(run, acme, "c2")
	again := d.finishPlan(run)
	if again.ID != plan.ID || again.Open.Creates != 1 {
		t.Errorf("plan %d has %d creates to be approved, want plan %d with 1", again.ID, again.Open.Creates, plan.ID)
	}
	d.expectApproved("a change made anew", plan, 1)
}

func (d *desk) expectApproved(name string, p Plan, want int) {
	d.t.Helper()
	share, err := d.ShareOf(d.t.Context(), p)
	if err != nil {
		d.t.Fatal(err)
	}
	n, err := d.ReleasedCount(d.t.Context(), acme, LaneCustomer)
	if err != nil || n != want || share.Approved != want {
		d.t.Errorf("%s: %d changes are released, and the plan counts %d; want %d, %v", name, n, share.Approved, want, err)
	}
}
