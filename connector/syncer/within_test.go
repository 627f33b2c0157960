package syncer_test

import (
	"fmt"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// crowded is a world with three changed payers beside 25 new ones, above the limit, whose operator holds back
// only the part above it.
func crowded(t *testing.T, change func(w *world, no string, i int)) *world {
	t.Helper()
	w := newWorld(t)
	for i := range 15 {
		w.books.put(fmt.Sprintf("A%02d", i), fmt.Sprintf("Old %d", i), fmt.Sprintf("old%d@example.com", i))
	}
	w.complete(w.run())
	for i := range 3 {
		change(w, fmt.Sprintf("A%02d", i), i)
	}
	w.fill(25)
	w.syncer.Settings.Guards.HoldOnlyAbove = true
	return w
}

func moved(w *world, no string, i int) {
	w.books.putAs(no, map[string]string{"No": no, "Name": fmt.Sprintf("Old %d", i),
		"Email": fmt.Sprintf("old%d@example.com", i), "Postcode": "YO1 7HY", "Group": "payer"})
}

func renamed(w *world, no string, i int) {
	w.books.put(no, fmt.Sprintf("New %d", i), fmt.Sprintf("old%d@example.com", i))
}

// covers F74, S13
func TestWhatIsWithinItsOwnLimitIsSentBesideWhatIsAbove(t *testing.T) {
	t.Parallel()
	w := crowded(t, moved)
	plan := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	const above, within = "25 customers would be created (the limit is 20).",
		"3 changes of kinds that are within their own limits are not on hold."
	if plan.Plan.Limits != above+" "+within || plan.Plan.State != state.PlanWaiting {
		t.Errorf("the plan is %s, %q", plan.Plan.State, plan.Plan.Limits)
	}
	if c := w.planned(plan.Plan)["A00 customer"]; c.Approved {
		t.Error("a run that only plans has approved a change")
	}
	res := w.sync()
	w.awaits(res, 0)
	if res.Counts.Updated != 3 || res.Counts.LinksRequested != 0 || res.Plan.Limits != above+" "+within {
		t.Errorf("%+v, told %q; want three updated", res.Counts, res.Plan.Limits)
	}
	for name, c := range w.planned(res.Plan) {
		if c.Approved || c.LeftOut || strings.HasPrefix(name, "A") {
			t.Errorf("%s is left: %+v", name, c)
		}
	}
	before := w.service.Writes()
	res = w.sync()
	w.awaits(res, 0)
	if n := w.service.Writes() - before; n != 0 || res.Plan.Limits != above {
		t.Errorf("the next run sent %d, told %q", n, res.Plan.Limits)
	}
	if err := w.ledger.Do(t.Context(), func(tx *state.Tx) error { return tx.Approve(res.Plan.ID, "tester") }); err != nil {
		t.Fatal(err)
	}
	if done := w.complete(w.sync()); done.Counts.Created != 25 || done.Counts.LinksRequested != 25 {
		t.Errorf("after the approval: %+v", done.Counts)
	}
}

// A change that counts to any limit that the plan is above waits, and what is above stays
// above for the next run.
//
// covers F74, F75, S13
func TestOfWhatIsAboveNothingIsSentUnasked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change           func(w *world, no string, i int)
		limits           func(*syncer.Guards)
		created, updated int
	}{
		"it is not wished for": {moved, func(g *syncer.Guards) { g.HoldOnlyAbove = false }, 0, 0},
		"everything is above": {moved,
			func(g *syncer.Guards) { g.MaxChanges, g.MaxChangesFloor = syncer.Limit{Count: 2}, 0 }, 0, 0},
		"updates are above": {moved,
			func(g *syncer.Guards) { g.MaxChanges, g.MaxChangesFloor, g.MaxCreates = syncer.Limit{Count: 2}, 0, 25 }, 25, 0},
		"names are above": {renamed, func(g *syncer.Guards) {
			g.MaxIdentity, g.MaxChangesFloor, g.MaxCreates = syncer.Limit{Count: 2}, 0, 25
			g.MaxChanges = syncer.Limit{Count: 9}
		}, 25, 0},
		"names and creates are": {renamed, func(g *syncer.Guards) {
			g.MaxIdentity, g.MaxChangesFloor = syncer.Limit{Count: 2}, 0
			g.MaxChanges = syncer.Limit{Count: 9}
		}, 0, 0},
		"updates as many as allowed": {moved,
			func(g *syncer.Guards) { g.MaxChanges, g.MaxChangesFloor = syncer.Limit{Count: 3}, 0 }, 0, 3},
		"one value would be emptied": {func(w *world, no string, i int) {
			if moved(w, no, i); i == 0 {
				w.books.putAs(no, map[string]string{"No": no, "Name": "Old 0", "Email": "", "Postcode": "LS1 4AP",
					"Group": "payer"})
			}
		}, func(*syncer.Guards) {}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := crowded(t, tt.change)
			tt.limits(&w.syncer.Settings.Guards)
			for range 2 {
				res := w.sync()
				w.awaits(res, tt.created)
				if res.Counts.Updated != tt.updated {
					t.Errorf("%+v, want %d updated; %s", res.Counts, tt.updated, res.Plan.Limits)
				}
				tt.created, tt.updated = 0, 0
			}
		})
	}
}

// A person's no, a rejection, and a standstill hold back all there is.
//
// covers F45, F74, S13
func TestANoHoldsBackWhatIsWithinTheLimitsToo(t *testing.T) {
	t.Parallel()
	for name, no := range map[string]func(w *world) syncer.Result{
		"asked": func(w *world) syncer.Result {
			return w.runWith(w.t.Context(), syncer.RunOptions{Kind: connector.RunSync, Approve: func(p state.Plan) (bool, error) {
				if strings.Contains(p.Limits, "not on hold") {
					w.t.Errorf("a person who is asked is told %q", p.Limits)
				}
				return false, nil
			}})
		},
		"rejected": func(w *world) syncer.Result {
			plan := w.runWith(w.t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
			if err := w.ledger.Do(w.t.Context(),
				func(tx *state.Tx) error { return tx.Reject(plan.Plan.ID, "tester", "no") }); err != nil {
				w.t.Fatal(err)
			}
			return w.sync()
		},
		"a standstill": func(w *world) syncer.Result {
			w.books.mu.Lock()
			w.books.records = w.books.records[:3]
			w.books.mu.Unlock()
			return w.sync()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := crowded(t, moved)
			before := w.service.Writes()
			if res := no(w); w.service.Writes() != before || res.Outcome == connector.RunComplete {
				t.Errorf("%s: the run ended %s and sent %d", name, res.Outcome, w.service.Writes()-before)
			}
		})
	}
}
