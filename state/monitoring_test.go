package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// countWith counts and puts what has no order in one.
func (d *desk) countWith(c *Counter) MonitoringCounts {
	d.t.Helper()
	n, err := c.Count(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	byText := func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	slices.SortFunc(n.Runs, func(a, b RunCount) int { return byText(a, b) })
	slices.SortFunc(n.Sent, func(a, b SentCount) int { return byText(a, b) })
	slices.SortFunc(n.LastEnded, func(a, b RunSpan) int { return byText(a, b) })
	slices.SortFunc(n.LastComplete, func(a, b RunSpan) int { return byText(a, b) })
	return n
}

// An old counter and a new one count alike at every step of a story: settled rows once, and no row twice or
// never.
func TestWhatIsCountedStepByStepIsWhatIsCountedAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	counter := d.NewCounter()
	var last MonitoringCounts
	look := func(what string) MonitoringCounts {
		t.Helper()
		last = d.countWith(counter)
		if diff := cmp.Diff(d.countWith(d.NewCounter()), last); diff != "" {
			t.Fatalf("%s (-at once +step by step):\n%s", what, diff)
		}
		return last
	}
	look("an empty ledger")
	run := d.run(acme)
	if n := look("a run"); len(n.OpenRuns) != 1 || !n.OpenRuns[0].StartedAt.Equal(d.Now()) || len(n.Runs) != 0 {
		t.Errorf("a run is under way: %+v", n)
	}
	other := d.run("bravo") // outlives the others
	d.freeze(run, d.planCreate(run, acme, "c1"), `{"name":"c1"}`)
	if n := look("a create that left"); len(n.Unanswered) != 1 ||
		n.Unanswered[0] != (UnansweredCount{acme, connector.ActionCreate, 1, d.Now()}) {
		t.Errorf("unanswered: %+v", n.Unanswered)
	}
	d.freeze(run, d.planCreate(run, acme, "c2"), `{"name":"c2"}`)
	d.do(func(tx *Tx) error { return tx.EndAttempt(Attempt{ID: 2}, AttemptRefused) })
	if n := look("a later one that was refused"); len(n.Sent) != 1 ||
		n.Sent[0] != (SentCount{acme, connector.ActionCreate, AttemptRefused, 1}) {
		t.Errorf("sent: %+v", n.Sent)
	}
	d.do(func(tx *Tx) error { return tx.EndAttempt(Attempt{ID: 1}, AttemptAnswered) })
	if n := look("an answer to the first"); len(n.Unanswered) != 0 || len(n.Sent) != 2 {
		t.Errorf("sent: %+v, unanswered %+v", n.Sent, n.Unanswered)
	}
	d.clock.move(time.Minute)
	d.closeRun(run, connector.RunFailed)
	if n := look("a run that failed"); len(n.LastEnded) != 1 || n.LastEnded[0].Outcome != "failed" ||
		n.LastEnded[0].FinishedAt.Sub(n.LastEnded[0].StartedAt) != time.Minute || len(n.LastComplete) != 0 {
		t.Errorf("newest runs: %+v", n.LastEnded)
	}
	d.runWith("other", connector.RunPlan)
	if n := look("a plan"); n.LastEnded[0].Outcome != "failed" {
		t.Errorf("a plan is the newest run: %+v", n.LastEnded)
	}
	d.do(func(tx *Tx) error {
		_, _, err := tx.CloseRun(other, "bravo", connector.RunComplete, "", connector.NewIDs())
		return err
	})
	if n := look("the run that outlived the others"); len(n.LastComplete) != 1 || n.LastComplete[0].Connection != "bravo" {
		t.Errorf("complete: %+v", n.LastComplete)
	}
	if counter.runs.upTo != 3 || len(counter.runs.open) != 0 || counter.sent.upTo != 2 || len(counter.sent.open) != 0 {
		t.Errorf("not all has settled: %+v, %+v", counter.runs, counter.sent)
	}
}

func TestNumbersSayWhatWaitsAndHowLarge(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it asks how large the files are")
	d := newDesk(t)
	began := d.Now()
	d.receive(delivery("evt-1", "b1"))
	d.clock.move(time.Minute)
	d.receive(delivery("evt-2", "b2"))
	odd := delivery("evt-3", "")
	odd.State = connector.InboxQuarantined
	d.receive(odd)
	d.do(func(tx *Tx) error {
		return tx.PostponeDeliveries(OpenDelivery{BillingID: "b2", IDs: []int64{2}, UpTo: 2}, connector.InboxParked,
			time.Hour)
	})
	n := d.countWith(d.NewCounter())
	want := map[string]int{"received": 1, "parked": 1, "quarantined": 1}
	if diff := cmp.Diff(want, n.Waiting); diff != "" || !n.OldestWaits.Equal(began) {
		t.Errorf("waiting since %s (-want +got):\n%s", n.OldestWaits, diff)
	}
	if n.Size < smallestDB || n.WAL == 0 {
		t.Errorf("the ledger has %d bytes and %d in its log", n.Size, n.WAL)
	}
	f, err := d.Funnel(t.Context())
	if err != nil || f.Inbox["parked"] != n.Waiting["parked"] || f.Attention["event_not_understood"] != 1 {
		t.Errorf("status counts %+v, %v", f, err)
	}
}

func TestWhatIsLeftOfABudgetIsWhatTheNextTurnGoesBy(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	limits := connector.Limits{PerMinute: 3, PerDay: 100}
	left := func() Left {
		t.Helper()
		l, err := d.BudgetLeft(t.Context(), org, limits)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := left(); *l.Minute != 3 || *l.Day != 100 {
		t.Errorf("of a budget that nobody used %d and %d are left", *l.Minute, *l.Day)
	}
	for want := 2; want >= 0; want-- {
		d.take(limits)
		if l := left(); *l.Minute != want || *l.Day != 97+want {
			t.Errorf("%d and %d are left, want %d and %d", *l.Minute, *l.Day, want, 97+want)
		}
	}
	d.clock.move(time.Minute)
	if l := left(); *l.Minute != 3 || *l.Day != 97 {
		t.Errorf("after a minute %d and %d are left", *l.Minute, *l.Day)
	}
	until := d.Now().Add(time.Hour)
	if err := d.ParkScope(t.Context(), org, until); err != nil {
		t.Fatal(err)
	}
	if l := left(); !l.ParkedUntil.Equal(until) {
		t.Errorf("parked until %s, want %s", l.ParkedUntil, until)
	}
	d.clock.move(2 * time.Hour)
	if l, err := d.BudgetLeft(t.Context(), org, connector.Limits{}); err != nil || l != (Left{}) {
		t.Errorf("without limits %+v is left, %v", l, err)
	}
}

func TestWhoWatchesCommitsLearnsHowEachEnded(t *testing.T) {
	t.Parallel()
	var ended []error
	full := errors.New("the disk is full")
	var broken bool
	o := newOptions(t, newClock())
	o.Commit = func(done bool) error {
		if broken && !done {
			return full
		}
		return nil
	}
	o.Committing = func() func(error) { return func(err error) { ended = append(ended, err) } }
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	write := func() error { return l.Do(context.Background(), func(tx *Tx) error { return tx.BeginJob("sweep") }) }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if err := l.Do(context.Background(), func(*Tx) error { return full }); !errors.Is(err, full) {
		t.Fatal(err)
	}
	broken = true
	if err := write(); !errors.Is(err, full) {
		t.Fatal(err)
	}
	if len(ended) != 3 || ended[0] != nil || ended[1] != nil || !errors.Is(ended[2], full) {
		t.Errorf("told: %v; want two commits, of which one kept nothing of a write that failed by itself, and one failure",
			ended)
	}
}
