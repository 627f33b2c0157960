package syncer_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/syncer"
	"payersync/internal/longtest"
	"payersync/state/statetest"
)

// rowsWorld is a world with this many records, few of them payers, read by two runs.
func rowsWorld(t *testing.T, records int) *world {
	t.Helper()
	w := newWorld(t)
	for i := range records {
		w.books.putAs(fmt.Sprintf("R%05d", i),
			map[string]string{"No": fmt.Sprintf("R%05d", i), "Name": fmt.Sprintf("Name %d", i),
				"Email": fmt.Sprintf("a%d@example.com", i), "Postcode": "LS1 4AP",
				"Group": map[bool]string{true: "payer", false: "supplier"}[i < 10]})
	}
	for range 2 {
		w.complete(w.run())
	}
	return w
}

func TestAReadingOfRecordsThatDidNotChangeWritesAsMuchForManyAsForFew(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*world) syncer.Result{
		"a snapshot": (*world).run,
		"a list that is read whole": func(w *world) syncer.Result {
			return w.diaryRun(&diary{books: w.books}, "acme", connector.RunBackfill)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var before map[string]int
			for _, records := range []int{1_000, 2_000} {
				w := rowsWorld(t, records)
				w.complete(read(w))
				written := statetest.CountWrites(w.t, w.path)
				if res := w.complete(read(w)); res.Counts.Pulled != records || res.Counts.Unchanged != 10 ||
					res.Counts.Excluded != records-10 {
					t.Errorf("the run counts %+v of %d records", res.Counts, records)
				}
				got := written()
				if got["source_records"] != 0 || got["runs"] == 0 {
					t.Errorf("rows written: %v, want the run's and none of records", got)
				}
				if before != nil {
					if diff := cmp.Diff(before, got); diff != "" {
						t.Errorf("rows written for 1,000 records and for 2,000 (-1,000 +2,000):\n%s", diff)
					}
				}
				before = got
			}
		})
	}
}

// A process dies before or after each commit of a run that finds some records gone, one back
// and one changed. Nobody counts as gone before that reading has come to its end, and the
// next run finds what this one would have.
//
// covers F44, F45
func TestARunThatDiesAtAnyCommitTakesNobodyForGoneWhoIsThere(t *testing.T) {
	longtest.Story(t, longtest.Computing)
	t.Parallel()
	statetest.OnlySQLite(t, "it copies the files at every commit")
	w := newWorld(t)
	put := func(i int, name string) {
		no := fmt.Sprintf("R%05d", i)
		w.books.putAs(no, map[string]string{"No": no, "Name": name, "Email": no + "@example.com", "Postcode": "LS1 4AP",
			"Group": map[bool]string{true: "payer", false: "supplier"}[i < 3]})
	}
	for i := range 150 {
		put(i, "as it was")
	}
	w.complete(w.run())
	all := slices.Clone(w.books.records)
	w.books.records = slices.Delete(slices.Clone(all), 120, 121)
	w.complete(w.run())
	w.books.records = slices.Delete(all, 140, 142)
	put(130, "otherwise")
	if err := w.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, ending := range []string{"", ".key", ".mark"} {
		b, err := os.ReadFile(w.path + ending)
		if err != nil {
			t.Fatal(err)
		}
		files[ending] = b
	}
	gone := func() []string {
		return slices.Sorted(maps.Keys(statetest.Counted(t, w.path,
			"SELECT source_id, 1 FROM source_records WHERE unseen = 1")))
	}
	before, after := []string{"R00120"}, []string{"R00140", "R00141"}
	for _, late := range []bool{false, true} {
		for dies, reached := 1, true; reached; dies++ {
			for ending, b := range files {
				if err := os.WriteFile(w.path+ending, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			commits, dead := 0, errors.New("the process died")
			reached = false
			w.openWith(func(done bool) error {
				if !done {
					commits++
				}
				if reached = reached || commits == dies && done == late; reached {
					return dead
				}
				return nil
			})
			_, _ = w.syncer.Run(t.Context(), w.connection(),
				syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test"})
			if err := w.ledger.Close(); err != nil {
				t.Fatal(err)
			}
			for _, id := range gone() {
				if !slices.Contains(before, id) && !slices.Contains(after, id) {
					t.Fatalf("after commit %d (%t) %s counts as gone", dies, late, id)
				}
			}
			w.open()
			w.complete(w.run())
			if diff := cmp.Diff(after, gone()); diff != "" {
				t.Fatalf("after commit %d (%t) and another run, gone are (-want +got):\n%s", dies, late, diff)
			}
			if err := w.ledger.Close(); err != nil {
				t.Fatal(err)
			}
			if reached && dies > 100 {
				t.Fatal("the run makes no end of commits")
			}
			if !reached && dies < 8 {
				t.Fatalf("the run made %d commits alone", commits)
			}
		}
	}
	w.open()
}

func TestARecordThatLeavesAndReturnsIsWrittenForThatAlone(t *testing.T) {
	t.Parallel()
	w := rowsWorld(t, 300)
	all := w.books.records
	for _, c := range []struct {
		what  string
		shown int
		rows  bool // some are written
	}{{"five leave", 295, true}, {"they stay away", 295, false}, {"they return", 300, true}, {"they stay", 300, false}} {
		w.books.records = all[:c.shown]
		written := statetest.CountWrites(w.t, w.path)
		w.complete(w.run())
		if got := written()["source_records"]; (got > 0) != c.rows || got > 4*5 {
			t.Errorf("%s: %d rows of records were written", c.what, got)
		}
	}
}

// A file that ends in the middle shows nothing of what comes behind: nobody is gone by it,
// and nothing is planned of whom it did not show.
//
// covers F45
func TestWhatAnUndecidedReadingDidNotShowIsNeitherGoneNorPlanned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 150 {
		no := fmt.Sprintf("R%05d", i)
		w.books.putAs(no, map[string]string{"No": no, "Name": no, "Email": no + "@example.com", "Postcode": "LS1 4AP",
			"Group": map[bool]string{true: "payer", false: "supplier"}[i == 0 || i == 149]})
	}
	w.complete(w.run())
	w.mapping += "  # another version of it\n"
	w.books.broken = fmt.Errorf("a quotation mark is left open: %w", accounting.ErrUndecided)
	planned := statetest.CountWrites(w.t, w.path)
	if res := w.run(); res.Counts.Pulled != 100 {
		t.Errorf("the run counts %+v, want the 100 records before the place where it ended", res.Counts)
	}
	if got := planned()["source_records"]; got != 100 {
		t.Errorf("%d rows of records were written, want the 100 that another mapping decided on", got)
	}
	w.books.broken = nil
	w.complete(w.run())
	if p := w.payer("R00149"); p.BillingID == "" {
		t.Errorf("the payer behind it is %+v", p)
	}
}
