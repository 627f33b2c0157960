package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/syncer"
	"payersync/state"
	"slices"
)

// diary is a source that gives what changed, notes what it was asked for, and
// asks a limiter before it answers.
type diary struct {
	*books
	asked   []time.Time
	proof   connector.Proof
	limiter accounting.Limiter
	partial bool // its full reads leave records out
	alone   bool // nobody is there to approve anything
	calls   int
}

func (d *diary) Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		if d.limiter != nil {
			release, err := d.limiter.Acquire(ctx)
			if err != nil {
				yield(connector.Page{}, err)
				return
			}
			release()
		}
		d.calls++
		d.asked = append(d.asked, since)
		for page, err := range d.books.Customers(ctx, since) {
			page.Proof = d.proof
			if !yield(page, err) {
				return
			}
		}
	}
}

// diaryRun makes a run of a connection that is read incrementally.
func (w *world) diaryRun(d *diary, name string, kind connector.RunKind) syncer.Result {
	w.t.Helper()
	conn := w.connection()
	conn.Name, conn.Source, conn.Info.Snapshot, conn.Info.Partial, conn.FullEvery = name, d, false, d.partial,
		7*24*time.Hour
	approve := func(state.Plan) (bool, error) { return true, nil }
	if d.alone {
		approve = nil
	}
	res, err := w.syncer.Run(context.Background(), conn,
		syncer.RunOptions{Kind: kind, Trigger: "manual", Actor: "tester", Holder: "test", Approve: approve})
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func (w *world) sourceState(name string) state.SourceRow {
	w.t.Helper()
	rows, err := w.ledger.Sources(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rows {
		if r.Connection == name {
			return r
		}
	}
	w.t.Fatalf("there is no connection %s", name)
	return state.SourceRow{}
}

func TestEverythingIsReadAgainWhenTheLastFullReadIsTooOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	d := &diary{books: w.books}
	began := w.clock.now()
	var want []time.Time
	for _, step := range []struct {
		wait  time.Duration
		kind  connector.RunKind
		since time.Duration // since the beginning; negative for everything
	}{
		{0, connector.RunSync, -1},
		{time.Hour, connector.RunSync, -5 * time.Minute},
		{6 * 24 * time.Hour, connector.RunSync, time.Hour - 5*time.Minute},
		{23 * time.Hour, connector.RunSync, -1}, // a week after the first
		{time.Hour, connector.RunBackfill, -1},
		{6 * 24 * time.Hour, connector.RunSync, 7*24*time.Hour + time.Hour - 5*time.Minute},
	} {
		w.clock.advance(step.wait)
		w.complete(w.diaryRun(d, "acme", step.kind))
		at := time.Time{}
		if step.since != -1 {
			at = began.Add(step.since)
		}
		want = append(want, at)
	}
	if diff := cmp.Diff(want, d.asked); diff != "" {
		t.Errorf("read since (-want +got):\n%s", diff)
	}
}

// covers F36
func TestEverythingIsReadAgainAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		ahead bool // the clock was ahead at the full read already
	}{{"a full read of the future", true}, {"a reading position in the future", false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fill(3)
			d := &diary{books: w.books}
			if !tt.ahead {
				w.complete(w.diaryRun(d, "acme", connector.RunSync))
			}
			w.clock.advance(3 * 24 * time.Hour)
			w.complete(w.diaryRun(d, "acme", connector.RunSync))
			w.clock.advance(-2 * 24 * time.Hour)
			w.complete(w.diaryRun(d, "acme", connector.RunSync))
			if last := d.asked[len(d.asked)-1]; !last.IsZero() {
				t.Errorf("read since %s at %s, want everything", last, w.clock.now())
			}
			at := w.clock.now()
			w.clock.advance(time.Hour)
			w.complete(w.diaryRun(d, "acme", connector.RunSync))
			if last := d.asked[len(d.asked)-1]; !last.Equal(at.Add(-5 * time.Minute)) {
				t.Errorf("the run after it read since %s, want %s", last, at.Add(-5*time.Minute))
			}
		})
	}
}

// covers S17
func TestProofOfACompleteReadIsTheSumOfItsPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(250)
	d := &diary{books: w.books, proof: connector.Proof{Pages: 1, Repeats: 2}}
	if res := w.diaryRun(d, "acme", connector.RunPlan); res.Proof != (connector.Proof{Pages: 3, Repeats: 6, Passes: 1}) {
		t.Errorf("proof %+v", res.Proof)
	}
	w.books.broken = &connector.RemoteError{Op: "read", Fault: connector.FaultUnavailable, Detail: "no answer"}
	if res := w.diaryRun(d, "acme", connector.RunPlan); res.Proof != (connector.Proof{}) {
		t.Errorf("a read that broke off has the proof %+v", res.Proof)
	}
}

// standsStill fails the test unless the run ended at a standstill that says why, and
// nobody is taken for gone.
func (w *world) standsStill(res syncer.Result, why string) state.Plan {
	w.t.Helper()
	var stands *syncer.Standstill
	if res.Outcome != connector.RunIncomplete || !errors.As(res.Err, &stands) || !strings.Contains(res.Err.Error(), why) {
		w.t.Fatalf("the run ended %s: %v; want a standstill for %q", res.Outcome, res.Err, why)
	}
	for id, reason := range w.attention() {
		if reason == string(connector.ReasonRecordGone) || reason == string(connector.ReasonLeftWithMandate) {
			w.t.Errorf("%s is taken for gone", id)
		}
	}
	return stands.Plan
}

// waiting returns the plans that wait for a person.
func (w *world) waiting() []state.Plan {
	w.t.Helper()
	plans, err := w.ledger.WaitingPlans(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return plans
}

func (w *world) approve(plan int64) {
	w.t.Helper()
	if err := w.ledger.Do(context.Background(),
		func(tx *state.Tx) error { return tx.Approve(plan, "tester") }); err != nil {
		w.t.Fatal(err)
	}
}

// covers F44, F45, F109
func TestRecordsMissingFromAFullReadAreGoneUnlessTheyAreMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(30)
	d := &diary{books: w.books}
	w.complete(w.diaryRun(d, "acme", connector.RunSync))
	d.alone = true
	all := w.books.records

	w.books.records = all[:12] // 18 of 30 are missing, and the limit is 10
	first := w.standsStill(w.diaryRun(d, "acme", connector.RunBackfill),
		"18 of 30 known records are missing from a full reading of the accounting system (the limit is 10)")
	w.clock.advance(time.Hour)
	// it reads everything, or nobody would see what became of it
	again := w.standsStill(w.diaryRun(d, "acme", connector.RunSync), "18 of 30")
	if waiting := w.waiting(); len(waiting) != 1 || waiting[0].ID != first.ID || again.ID != first.ID ||
		waiting[0].Missing != 18 {
		t.Errorf("plans %+v wait, want the first alone, with 18 missing", waiting)
	}
	w.books.records = all[:28]
	w.clock.advance(time.Hour)
	res := w.complete(w.diaryRun(d, "acme", connector.RunSync))
	if want := map[string]string{"C0028": string(connector.ReasonLeftWithMandate),
		"C0029": string(connector.ReasonLeftWithMandate)}; !cmp.Equal(want, w.attention()) {
		t.Errorf("attention %v, want %v; counts %+v", w.attention(), want, res.Counts)
	}
	if waiting := w.waiting(); len(waiting) > 0 {
		t.Errorf("%+v waits although the records are back", waiting)
	}
	w.books.records = all[:27]
	w.clock.advance(time.Hour)
	if w.complete(w.diaryRun(d, "acme", connector.RunSync)); len(w.attention()) != 2 {
		t.Errorf("an incremental read took what it does not show for gone: %v", w.attention())
	}
	if got := len(w.service.Customers()); got != 30 {
		t.Errorf("%d customers are in the service, want all 30", got)
	}
	w.books.records = all
	w.complete(w.diaryRun(d, "acme", connector.RunBackfill))
	if len(w.attention()) > 0 {
		t.Errorf("records that came back still need a person: %v", w.attention())
	}
}

// An empty list with status 200 is what a permission that was taken away looks
// like, and a small organisation is below every limit.
//
// covers F45, F109, S17
func TestEmptyFullReadIsNotBelieved(t *testing.T) {
	t.Parallel()
	for _, partial := range []bool{false, true} {
		w := newWorld(t)
		w.fill(3)
		d := &diary{books: w.books, partial: partial}
		w.complete(w.diaryRun(d, "acme", connector.RunSync))
		d.alone = true
		all := w.books.records
		w.books.records = nil
		w.standsStill(w.diaryRun(d, "acme", connector.RunBackfill), "none of the 3 known records")
		w.books.records = all
		w.complete(w.diaryRun(d, "acme", connector.RunBackfill))
	}
}

// covers F109, S17
func TestSnapshotThatSuddenlyHasFarFewerRowsStandsStill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(40)
	w.books.put("B1", "Bad", "not an address")
	w.run()
	all, needing := w.books.records, w.attention()
	if len(needing) != 1 {
		t.Fatalf("attention %v, want one", needing)
	}
	alone := syncer.RunOptions{Kind: connector.RunSync}
	for name, tt := range map[string]struct {
		rows []connector.Record
		why  string
	}{
		"no row":         {nil, "none of the 41 known records"},
		"a part of them": {all[:20], "21 of 41 known records are missing"},
		"other rows": {[]connector.Record{{SourceID: "X1", State: connector.RecordActive,
			Data: []byte(`{"No": "X1", "Name": "Of another company", "Email": "x1@example.com", "Postcode": "", "Group": "payer"}`)}}, "none of the 41 known records"},
	} {
		w.books.records = tt.rows
		writes := w.service.Writes()
		for _, kind := range []connector.RunKind{connector.RunPlan, connector.RunSync} {
			w.standsStill(w.runWith(t.Context(), syncer.RunOptions{Kind: kind}), tt.why)
		}
		if diff := cmp.Diff(needing, w.attention()); diff != "" || w.service.Writes() != writes {
			t.Errorf("%s: %d writes, attention (-want +got):\n%s", name, w.service.Writes()-writes, diff)
		}
	}
	w.books.records = all[:37] // 4 of 41: below the limit, whatever a standstill has met meanwhile
	w.complete(w.runWith(t.Context(), alone))
	left := string(connector.ReasonLeftWithMandate)
	want := map[string]string{"C0037": left, "C0038": left, "C0039": left}
	if waiting := w.waiting(); len(waiting) > 0 || !cmp.Equal(want, w.attention()) {
		t.Errorf("%+v waits, attention %v, want %v", waiting, w.attention(), want)
	}
	w.books.records = all[:35] // rows that went earlier are not counted again
	w.complete(w.runWith(t.Context(), alone))
}

// covers F109
func TestMissingRecordsGoWhenAPersonLetsThemGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(40)
	w.run()
	all, alone := w.books.records, syncer.RunOptions{Kind: connector.RunSync}
	w.books.records = all[:20]
	plan := w.standsStill(w.runWith(t.Context(), alone), "20 of 40")
	w.approve(plan.ID)

	w.books.records = all[:19] // not what was approved
	other := w.standsStill(w.runWith(t.Context(), alone), "21 of 40")
	if other.ID == plan.ID {
		t.Error("the approval of 20 let 21 go")
	}
	w.approve(other.ID)
	w.restart()
	if res := w.complete(w.runWith(t.Context(), alone)); !strings.Contains(res.Note, "21 of 40") ||
		res.Counts.Unchanged != 19 {
		t.Errorf("note %q, %+v", res.Note, res.Counts)
	}
	if res := w.complete(w.runWith(t.Context(), alone)); res.Note != "" || len(w.waiting()) > 0 {
		t.Errorf("the run after it says %q, %+v waits", res.Note, w.waiting())
	}
	w.books.records = all[:1]
	res := w.complete(w.run()) // its own approval, as of backfill --yes
	if !strings.Contains(res.Note, "18 of 19") || len(w.service.Customers()) != 40 {
		t.Errorf("note %q, %d customers", res.Note, len(w.service.Customers()))
	}
}

// The same where records that are gone have a payer to show for it.
//
// covers F44, F109
func TestApprovedMissingRecordsOfAListAreTakenForGoneByTheNextRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(30)
	d := &diary{books: w.books}
	w.complete(w.diaryRun(d, "acme", connector.RunSync))
	d.alone, w.books.records = true, w.books.records[:12]
	plan := w.standsStill(w.diaryRun(d, "acme", connector.RunBackfill), "18 of 30")
	w.approve(plan.ID)
	w.complete(w.diaryRun(d, "acme", connector.RunSync))
	if got := len(w.attention()); got != 18 {
		t.Errorf("%d payers are shown as gone, want 18", got)
	}
	if d.asked[len(d.asked)-1] != (time.Time{}) {
		t.Error("the run after the approval did not read everything")
	}
	w.complete(w.diaryRun(d, "acme", connector.RunSync))
	if d.asked[len(d.asked)-1] == (time.Time{}) {
		t.Error("everything is read again although the standstill is over")
	}
}

// covers F45, S17
func TestNothingIsMissedInAReadThatLeavesRecordsOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(30)
	d := &diary{books: w.books, partial: true}
	w.complete(w.diaryRun(d, "acme", connector.RunSync))
	for _, left := range []int{12, 28} { // above the limit, and below
		w.books.records = w.books.records[:30][:left]
		if res := w.diaryRun(d, "acme", connector.RunBackfill); res.Note != "" || len(w.attention()) > 0 {
			t.Errorf("%d records left: note %q, attention %v", left, res.Note, w.attention())
		}
	}
}

// covers F108, S17
func TestRunWorksOnWhatAnUndecidedReadGaveAndConcludesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	w.books.putAs("C0009", map[string]string{"No": "C0009", "Name": "", "Email": "", "Postcode": "", "Group": "payer"})
	w.run()
	all, before := w.books.records, w.attention()
	if len(before) != 1 {
		t.Fatalf("attention %v, want one for the payer without a name", before)
	}
	w.books.records = nil
	w.books.put("C0005", "A new payer", "new@example.com")
	w.books.set(connector.Record{SourceID: "line 9", State: connector.RecordActive, Data: []byte("{}"),
		Problem: "Line 9 makes no sense."})
	w.books.broken = fmt.Errorf("cannot read books.csv: line 9 makes no sense; correct it: %w", accounting.ErrUndecided)
	res := w.run()
	if res.Outcome != connector.RunIncomplete || res.Err != nil || res.Counts.Created != 1 ||
		!strings.Contains(res.Note, "Cannot read books.csv: line 9 makes no sense") {
		t.Errorf("the run ended %s, %+v, note %q, error %v", res.Outcome, res.Counts, res.Note, res.Err)
	}
	before["line 9"] = string(connector.ReasonRecordUnreadable)
	if diff := cmp.Diff(before, w.attention()); diff != "" {
		t.Errorf("attention (-want +got):\n%s", diff)
	}
	if plan := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan}); plan.Outcome != connector.RunIncomplete {
		t.Errorf("a plan over it ended %s", plan.Outcome)
	}
	w.books.records, w.books.broken = all[:3], nil
	w.complete(w.run())
	if want := map[string]string{"C0005": string(connector.ReasonLeftWithMandate)}; !cmp.Equal(want, w.attention()) {
		t.Errorf("after a whole read a person is shown %v, want %v", w.attention(), want)
	}
}

// covers F13, S18, L7
func TestParkedSourceMakesNoCallBeforeItsTimeAndOthersGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	budget := accounting.NewBudget(w.ledger, "books acme", connector.Limits{PerDay: 2}, w.clock.now)
	parked, other := &diary{books: w.books, limiter: budget}, &diary{books: &books{}}
	w.complete(w.diaryRun(parked, "acme", connector.RunSync))
	until := w.clock.now().Add(18 * time.Hour)
	if err := budget.Park(t.Context(), until); err != nil { // as after a Retry-After of hours
		t.Fatal(err)
	}
	for range 3 {
		w.clock.advance(time.Hour)
		res := w.diaryRun(parked, "acme", connector.RunSync)
		if res.Outcome != connector.RunIncomplete || !res.RetryAt.Equal(until) ||
			connector.FaultOf(res.Err) != connector.FaultThrottled {
			t.Fatalf("a parked source's run ended %s, to go on at %s: %v", res.Outcome, res.RetryAt, res.Err)
		}
		w.complete(w.diaryRun(other, "another", connector.RunSync))
	}
	if parked.calls != 1 || other.calls != 3 {
		t.Errorf("the parked source had %d calls, the other %d; want 1 and 3", parked.calls, other.calls)
	}
	if got := w.sourceState("acme"); got.State != state.SourceParked || !got.ParkedUntil.Equal(until) {
		t.Errorf("the ledger shows %+v", got)
	}
	w.clock.advance(16 * time.Hour)
	w.complete(w.diaryRun(parked, "acme", connector.RunSync))
	if got := w.sourceState("acme"); got.State != state.SourceActive || !got.ParkedUntil.IsZero() {
		t.Errorf("afterwards the ledger shows %+v", got)
	}
}

// covers F29, S17
func TestNothingIsConcludedFromADisconnectedSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	d := &diary{books: w.books}
	w.complete(w.diaryRun(d, "acme", connector.RunSync))
	all := w.books.records
	w.books.records, w.books.broken = all[:1], &accounting.Disconnected{Reason: "the consent was withdrawn"}
	res := w.diaryRun(d, "acme", connector.RunBackfill)
	if res.Outcome != connector.RunFailed ||
		!slices.Equal(connector.StepsOf(res.Err), []connector.Step{{Do: connector.DoConnect}}) {
		t.Errorf("the run ended %s: %v", res.Outcome, res.Err)
	}
	if got := w.sourceState("acme").State; got != state.SourceDisconnected || len(w.attention()) > 0 ||
		len(w.service.Customers()) != 3 {
		t.Errorf("the source is %s, attention %v, %d customers", got, w.attention(), len(w.service.Customers()))
	}
	w.books.records, w.books.broken = all, nil
	w.complete(w.diaryRun(d, "acme", connector.RunBackfill))
	if got := w.sourceState("acme").State; got != state.SourceActive {
		t.Errorf("the source is %s after it was connected again", got)
	}
}
