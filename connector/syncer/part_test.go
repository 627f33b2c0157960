package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// planned returns the changes of a plan that were not sent, by record and lane.
func (w *world) planned(p *state.Plan) map[string]state.Change {
	w.t.Helper()
	out := map[string]state.Change{}
	for _, lane := range []string{state.LaneCustomer, state.LaneMandate} {
		changes, err := w.ledger.PlanChanges(w.t.Context(), *p, lane, 0, 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, c := range changes {
			out[c.Payer.SourceID+" "+lane] = c
		}
	}
	return out
}

// approvePart approves the named changes of a plan, by record and lane.
func (w *world) approvePart(p *state.Plan, names ...string) {
	w.t.Helper()
	var ids []int64
	for _, name := range names {
		c, ok := w.planned(p)[name]
		if !ok {
			w.t.Fatalf("plan %d has no change %q", p.ID, name)
		}
		ids = append(ids, c.ID)
	}
	if err := w.ledger.Do(w.t.Context(),
		func(tx *state.Tx) error { return tx.ApproveSome(p.ID, ids, "tester", "some") }); err != nil {
		w.t.Fatal(err)
	}
}

// sync makes one run that nobody is asked by.
func (w *world) sync() syncer.Result {
	w.t.Helper()
	return w.runWith(context.Background(), syncer.RunOptions{Kind: connector.RunSync})
}

// awaits fails the test unless the run waits for approval and has made so many customers.
func (w *world) awaits(res syncer.Result, created int) {
	w.t.Helper()
	if res.Outcome != connector.RunAwaitingApproval || res.Counts.Created != created || res.Err != nil {
		w.t.Fatalf("run ended %s with %+v, %v; want it to wait with %d created", res.Outcome, res.Counts, res.Err, created)
	}
}

// has fails the test unless the service has exactly the customers with these keys.
func (w *world) has(keys ...string) {
	w.t.Helper()
	if got := slices.Sorted(maps.Keys(w.byKey())); !slices.Equal(got, keys) {
		w.t.Errorf("the service has %v, want %v", got, keys)
	}
}

// covers F74, S13
func TestAPartThatIsApprovedIsSentAndTheRestWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(25)
	res := w.sync()
	w.awaits(res, 0)
	w.approvePart(res.Plan, "C0003 customer", "C0007 customer", "C0007 mandate")
	res = w.sync()
	w.awaits(res, 2)
	w.has("C0003", "C0007")
	if res.Counts.LinksRequested != 1 {
		t.Errorf("%d signing links were asked for, want that of C0007", res.Counts.LinksRequested)
	}
	if waiting, err := w.ledger.WaitingPlans(t.Context()); err != nil || len(waiting) != 1 ||
		waiting[0].ID != res.Plan.ID || !strings.HasPrefix(waiting[0].Limits, "47 changes were left out") {
		t.Errorf("these wait: %+v, %v; want what is left of the plan", waiting, err)
	}
	before := w.service.Writes()
	w.awaits(w.sync(), 0)
	if n := w.service.Writes() - before; n != 0 {
		t.Errorf("a run over the same facts sent %d requests", n)
	}
}

// What was left out waits, however little it is and whatever the limits are, also of a
// run that approves its plan; what comes anew is for the limits alone.
//
// covers F74, S13
func TestWhatWasLeftOutWaitsForAWordOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(22)
	res := w.sync()
	w.approvePart(res.Plan, slices.DeleteFunc(slices.Sorted(maps.Keys(w.planned(res.Plan))), func(name string) bool {
		return strings.HasPrefix(name, "C0000") || strings.HasPrefix(name, "C0001")
	})...)
	w.awaits(w.sync(), 20)
	w.books.put("N1", "New", "new@example.com")
	w.awaits(w.sync(), 1)
	for i := range 30 {
		w.books.put(fmt.Sprintf("M%02d", i), fmt.Sprintf("More %d", i), fmt.Sprintf("more%d@example.com", i))
	}
	w.awaits(w.run(), 30) // above the limits, and approved
	if got := w.byKey(); got["C0000"].ID+got["C0001"].ID != "" || len(got) != 51 {
		t.Errorf("of %d customers two are what was left out", len(got))
	}
	res = w.sync()
	if err := w.ledger.Do(t.Context(), func(tx *state.Tx) error { return tx.Approve(res.Plan.ID, "tester") }); err != nil {
		t.Fatal(err)
	}
	if done := w.complete(w.sync()); done.Counts.Created != 2 || done.Counts.LinksRequested != 2 {
		t.Errorf("after the approval: %+v, want the two", done.Counts)
	}
}

// covers F74, S13, F03
func TestAPartIsSentOnceThoughThePowerIsCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(25)
	res := w.sync()
	w.approvePart(res.Plan, "C0001 customer", "C0002 customer", "C0003 customer")
	w.restart()
	w.syncer.Settings.Workers, w.syncer.Settings.Grace = 1, 0
	ctx, cut := context.WithCancel(t.Context())
	meddle(w).onMade = cut // the only worker sends nothing after its first create
	broken, err := w.syncer.Run(ctx, w.connection(),
		syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test"})
	if err != nil || broken.Outcome != connector.RunIncomplete {
		t.Fatalf("the run that was cut ended %s, %v", broken.Outcome, err)
	}
	if n := len(w.byKey()); n == 0 || n == 3 {
		t.Fatalf("the cut left %d of 3 customers: it was too late or too early", n)
	}
	w.restart()
	w.sync()
	w.has("C0001", "C0002", "C0003")
	w.awaits(w.sync(), 0)
	w.has("C0001", "C0002", "C0003")
}

// A plan that says the same keeps what was approved, whatever is planned beside it; a
// change that says something else has to be approved anew.
//
// covers F74, S13
func TestAChangeThatChangesLosesItsApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(25)
	res := w.sync()
	w.approvePart(res.Plan, "C0001 customer", "C0002 customer")
	again := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	if again.Plan.ID != res.Plan.ID || !w.planned(again.Plan)["C0001 customer"].Approved {
		t.Errorf("a plan that says the same has number %d and forgot the approval", again.Plan.ID)
	}
	w.books.put("C0001", "Somebody else", "payer1@example.com") // this one changed
	for i := range 25 {
		w.books.put(fmt.Sprintf("D%04d", i), fmt.Sprintf("Later %d", i), fmt.Sprintf("later%d@example.com", i))
	}
	res = w.sync()
	w.awaits(res, 1)
	w.has("C0002")
	if c := w.planned(res.Plan)["C0001 customer"]; c.Approved || c.LeftOut {
		t.Errorf("the changed change is approved %t, left out %t; want nobody's word on it", c.Approved, c.LeftOut)
	}
}

// covers F74, S13
func TestNothingOfARejectedPlanIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(25)
	res := w.sync()
	w.approvePart(res.Plan, "C0001 customer")
	reject := func(plan int64) error {
		return w.ledger.Do(t.Context(), func(tx *state.Tx) error { return tx.Reject(plan, "tester", "no") })
	}
	if err := reject(res.Plan.ID); err != nil {
		t.Fatal(err)
	}
	if err := reject(res.Plan.ID); !errors.Is(err, state.ErrPlanNotWaiting) {
		t.Errorf("rejected twice: %v", err)
	}
	for name, run := range map[string]func() syncer.Result{"a run that asks nobody": w.sync,
		"a run that approves": w.run} {
		got := run()
		if got.Outcome != connector.RunIncomplete || got.Plan.ID != res.Plan.ID || got.Plan.State != state.PlanRejected ||
			got.Note != syncer.Rejected(*got.Plan) {
			t.Errorf("%s ended %s over plan %+v: %s", name, got.Outcome, got.Plan, got.Note)
		}
	}
	if n := w.service.Writes(); n != 0 {
		t.Errorf("%d writes of a rejected plan", n)
	}

	// Other facts make another plan. Rejected changes wait there, however few remain.
	w.books.mu.Lock()
	w.books.records = w.books.records[:24]
	w.books.mu.Unlock()
	w.syncer.Settings.Guards.MaxCreates = 100
	w.books.put("N1", "New", "new@example.com")
	res = w.sync()
	w.awaits(res, 1)
	w.has("N1")

	// It can be approved all the same.
	if err := reject(res.Plan.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.ledger.Do(t.Context(), func(tx *state.Tx) error { return tx.Approve(res.Plan.ID, "tester") }); err != nil {
		t.Fatal(err)
	}
	if done := w.complete(w.sync()); done.Counts.Created != 24 {
		t.Errorf("after the approval: %+v, want 24 created", done.Counts)
	}
}
