package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// written is a profile that fits itself.
type written string

func (p written) Meaning() string                  { return string(p) }
func (p written) FitsItself(context.Context) error { return nil }

// by makes a run with a profile.
func (w *world) by(profile written, trigger string, o syncer.RunOptions) syncer.Result {
	w.t.Helper()
	conn := w.connection()
	conn.Profile = profile
	if o.Kind == "" {
		o.Kind = connector.RunSync
	}
	o.Trigger, o.Actor, o.Holder = trigger, "tester", "test"
	res, err := w.syncer.Run(w.t.Context(), conn, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// writes is how many requests to change something the service had.
func (w *world) writes() int {
	return len(w.bodies(http.MethodPost, "/api/customers")) + len(w.bodies(http.MethodPut, "/api/customers"))
}

func TestAfterAnEditOfTheProfileNothingIsSentWithoutAnApprovalOfItsPlan(t *testing.T) {
	t.Parallel()
	for _, holdOnlyAbove := range []bool{false, true} {
		t.Run(fmt.Sprintf("hold only above %t", holdOnlyAbove), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.syncer.Settings.Guards.HoldOnlyAbove = holdOnlyAbove
			w.fill(3)
			w.complete(w.by("first", "schedule", syncer.RunOptions{}))
			w.trust()
			w.books.put("new", "Waiting Ltd", "waiting@example.com")
			early := w.by("first", "manual", syncer.RunOptions{Kind: connector.RunPlan}) // a plan approved before the edit
			w.does(w.ledger.Do(t.Context(), func(tx *state.Tx) error { return tx.Approve(early.Plan.ID, "anna") }))
			before := w.writes()

			var edited *syncer.EditedProfile
			if res := w.by("second", "schedule", syncer.RunOptions{}); !errors.As(res.Err, &edited) ||
				res.Outcome != connector.RunIncomplete || res.Counts.Pulled != 0 {
				t.Errorf("a scheduled run ended %s with %v", res.Outcome, res.Err)
			}
			for range 2 {
				if res := w.by("second", "manual", syncer.RunOptions{}); res.Outcome != connector.RunAwaitingApproval ||
					res.Plan.Profile != "second" {
					t.Errorf("a person's run ended %s, %v", res.Outcome, res.Err)
				}
			}
			no := func(state.Plan) (bool, error) { return false, nil }
			if res := w.by("second", "manual", syncer.RunOptions{Approve: no}); res.Outcome != connector.RunAwaitingApproval {
				t.Errorf("after a no, the run ended %s, %v", res.Outcome, res.Err)
			}
			if n := w.writes(); n != before {
				t.Fatalf("%d requests were sent with a profile that nobody accepted", n-before)
			}
			yes := func(state.Plan) (bool, error) { return true, nil }
			w.complete(w.by("second", "manual", syncer.RunOptions{Approve: yes}))
			w.complete(w.by("second", "schedule", syncer.RunOptions{}))
			if n := w.writes(); n != before+1 {
				t.Errorf("%d requests were sent after the approval", n-before)
			}
		})
	}
}

func TestARejectedPlanOfAnEditedProfileKeepsTheScheduleStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	w.complete(w.by("first", "schedule", syncer.RunOptions{}))
	plan := w.by("second", "manual", syncer.RunOptions{Kind: connector.RunPlan}).Plan
	w.does(w.ledger.Do(t.Context(), func(tx *state.Tx) error { return tx.Reject(plan.ID, "anna", "wrong names") }))
	var edited *syncer.EditedProfile
	if res := w.by("second", "schedule", syncer.RunOptions{}); !errors.As(res.Err, &edited) {
		t.Errorf("a scheduled run ended %s with %v", res.Outcome, res.Err)
	}
	w.complete(w.by("first", "schedule", syncer.RunOptions{}))
	if stopped, err := w.ledger.EditedProfiles(t.Context()); err != nil || len(stopped) > 0 {
		t.Errorf("after the edit was undone, %v are stopped, %v", stopped, err)
	}
}
