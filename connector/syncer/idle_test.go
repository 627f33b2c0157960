package syncer_test

import (
	"fmt"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/internal/longtest"
	"payersync/state"
)

// idleReadings are the ways in which a run may read unchanged records.
func idleReadings() map[string]func(*world) syncer.Result {
	listed := func(kind connector.RunKind) func(*world) syncer.Result {
		return func(w *world) syncer.Result { return w.diaryRun(&diary{books: w.books}, "acme", kind) }
	}
	return map[string]func(*world) syncer.Result{
		"a snapshot":                (*world).run,
		"changes since":             listed(connector.RunSync),
		"a list that is read whole": listed(connector.RunBackfill),
		"a plan":                    listed(connector.RunPlan),
	}
}

// payers puts so many payers into the books, and runs until a run finds nothing.
func (w *world) payers(n int, run func(*world) syncer.Result) {
	w.t.Helper()
	for i := range n {
		w.books.put(fmt.Sprintf("R%05d", i), fmt.Sprintf("Name %d", i), fmt.Sprintf("a%d@example.com", i))
	}
	w.complete(w.run())
	for range 2 {
		run(w)
	}
}

func (w *world) commits() int64 {
	w.t.Helper()
	n, err := w.ledger.Commits(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func TestARunThatFindsNothingMakesTwoCommits(t *testing.T) {
	t.Parallel()
	for name, run := range idleReadings() {
		for _, rows := range longtest.Number([]int{1, 20}, []int{1, 20, 500}) {
			t.Run(fmt.Sprintf("%s of %d", name, rows), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.payers(rows, run)
				w.clock.advance(time.Minute)
				before := w.commits()
				res := w.complete(run(w))
				if n := w.commits() - before; n > 2 {
					t.Errorf("%d commits, want two: one that opens the run, one that closes it", n)
				}
				if res.Counts.Unchanged != rows {
					t.Errorf("the run counts %+v, want %d unchanged", res.Counts, rows)
				}
				if res.Plan == nil || res.Plan.ID == 0 {
					t.Fatalf("the run says it has plan %+v", res.Plan)
				}
				w.isNoted(res)
			})
		}
	}
}

// isNoted fails the test unless a run without changes is stored with its begin, its reading and its end.
func (w *world) isNoted(res syncer.Result) {
	w.t.Helper()
	ctx := w.t.Context()
	run, err := w.ledger.Run(ctx, res.RunID)
	if err != nil || run.Outcome != "complete" || run.FinishedAt == nil {
		w.t.Fatalf("the run is kept as %+v, %v", run, err)
	}
	plan, err := w.ledger.FindPlan(ctx, fmt.Sprint(res.Plan.ID))
	want := state.PlanApplied
	if res.Kind == connector.RunPlan {
		want = state.PlanDraft
	}
	if err != nil || plan.RunID != res.RunID || plan.State != want || plan.Hash == "" || plan.Hash != res.Plan.Hash {
		w.t.Errorf("the plan is kept as %+v, %v; want that of run %d, %s", plan, err, res.RunID, want)
	}
	position, err := w.ledger.Cursor(ctx, "acme", "customers")
	if at := w.clock.now().Add(-5 * time.Minute).Format(time.RFC3339Nano); err != nil || position != at {
		w.t.Errorf("the next reading begins at %s, %v; want %s", position, err, at)
	}
}

func TestARunThatFindsNothingCountsWhatStandsInTwoCommits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.payers(20, (*world).run)
	w.books.put("BAD", "", "no-name@example.com") // it has no name, so it is held
	for range 3 {
		w.run()
	}
	before := w.commits()
	res := w.run()
	if n := w.commits() - before; n > 2 || res.Attention != 1 || res.Counts.Held != 1 || res.Plan == nil ||
		res.Plan.Holds != 1 {
		t.Errorf("%d commits, attention %d, %+v, plan %+v; want two commits, and the held record in each", n, res.Attention,
			res.Counts, res.Plan)
	}
}

func TestAPlanThatWaitsStillWaitsAfterARunThatFindsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.payers(20, (*world).run)
	for i := range 30 { // more than the limit of creates
		w.books.put(fmt.Sprintf("N%05d", i), fmt.Sprintf("Newcomer %d", i), fmt.Sprintf("n%d@example.org", i))
	}
	first := w.sync()
	if first.Outcome != connector.RunAwaitingApproval {
		t.Fatalf("the run ended as %s", first.Outcome)
	}
	second := w.sync()
	if second.Outcome != connector.RunAwaitingApproval || second.Plan.ID != first.Plan.ID ||
		second.Plan.State != state.PlanWaiting || second.Counts.Waiting != 30 {
		t.Errorf("the next run: %s, plan %+v, %+v; want plan %d to wait", second.Outcome, second.Plan, second.Counts,
			first.Plan.ID)
	}
}
