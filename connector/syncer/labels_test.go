package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/state"
)

// labels returns what every record of the ledger is known by, as "connection/id number name e-mail".
func (w *world) labels() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	if err := w.ledger.EachLabel(context.Background(), 0, func(r state.LabelRow) error {
		out[r.SourceID] = strings.Join([]string{r.Number, r.Name, r.Email}, "|")
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) wantLabels(when string, want map[string]string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.labels()); diff != "" {
		w.t.Errorf("labels %s (-want +got):\n%s", when, diff)
	}
}

// Excluded and unsendable records have names too, and people search for them.
func TestEveryRecordOfTheSourceHasALabel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("C1", "Ada Ltd", "ada@example.com")
	w.books.put("C2", "Grace Ltd", "not an address")
	w.books.put("C3", "", "emmy@example.com")
	w.books.putAs("C4", map[string]string{"No": "C4", "Name": "Left Out Ltd", "Group": "supplier"})
	w.books.putAs("C5", map[string]string{"No": "", "Name": "Numberless Ltd", "Group": "payer"})
	w.books.set(connector.Record{SourceID: "line 7", State: connector.RecordActive, Data: []byte(`{"Name":"Doubled Ltd"}`),
		Problem: "Lines 7 and 8 have the same number."})
	w.books.set(connector.Record{SourceID: "line 9", State: connector.RecordActive, Data: []byte(`{}`),
		Problem: "Line 9 has 3 fields, the header 5."})
	w.books.set(connector.Record{SourceID: "C6", State: connector.RecordArchived,
		Data: []byte(`{"No":"C6","Name":"Archived Ltd"}`)})
	w.run()
	w.wantLabels("after the first run", map[string]string{
		"C1": "C1|Ada Ltd|ada@example.com", "C2": "C2|Grace Ltd|not an address", "C3": "C3||emmy@example.com",
		"C4": "C4|Left Out Ltd|",
		"C5": "|Numberless Ltd|", "line 7": "|Doubled Ltd|", "line 9": "||", "C6": "C6|Archived Ltd|",
	})
}

// covers F45
func TestALabelIsThereAlthoughTheRunCameToNoPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(2)
	w.books.broken = errors.New("the source is away")
	if res := w.sync(); res.Outcome == connector.RunComplete {
		t.Fatalf("the run ended %s", res.Outcome)
	}
	w.wantLabels("after a reading that broke off",
		map[string]string{"C0000": "C0000|Payer 0|payer0@example.com", "C0001": "C0001|Payer 1|payer1@example.com"})
}

func TestALabelFollowsTheRecordAndTheMapping(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := &diary{books: w.books}
	w.books.put("C1", "ada ltd", "ada@example.com")
	w.books.put("C2", "grace ltd", "grace@example.com")
	w.complete(w.diaryRun(d, "acme", connector.RunSync))
	for n := range 3 { // a name that changes with every run
		w.clock.advance(time.Hour)
		w.books.put("C1", fmt.Sprintf("ada %d", n), "ada@example.com")
		w.complete(w.diaryRun(d, "acme", connector.RunSync))
		w.wantLabels("after it was renamed",
			map[string]string{"C1": fmt.Sprintf("C1|ada %d|ada@example.com", n), "C2": "C2|grace ltd|grace@example.com"})
	}

	w.clock.advance(time.Hour)
	all := w.books.records
	w.books.records = nil // nothing changed
	w.mapping = strings.Replace(w.mapping, "name: trim(Name)\n", "name: upper(Name)\n", 1)
	w.complete(w.diaryRun(d, "acme", connector.RunSync))
	upper := map[string]string{"C1": "C1|ADA 2|ada@example.com", "C2": "C2|GRACE LTD|grace@example.com"}
	w.wantLabels("after the mapping changed and nothing was read", upper)

	gone := all[1]
	gone.State, gone.Data = connector.RecordDeleted, []byte(`{"No":"C2"}`)
	w.books.records = []connector.Record{gone}
	w.clock.advance(time.Hour)
	w.complete(w.diaryRun(d, "acme", connector.RunSync))
	w.wantLabels("after a record was deleted that says no more who it was", upper)
}

// covers F70
func TestALedgerOfTheVersionBeforeGetsItsLabelsWhenEverythingIsRead(t *testing.T) {
	t.Parallel()
	b := openBefore(t, "schema5", 0, time.Hour)
	b.wantLabels("right after the upgrade", map[string]string{})
	b.run(1)
	known := b.labels()
	for _, r := range b.books["acme"].records {
		if _, there := known[r.SourceID]; !there {
			t.Errorf("record %s was read and has no label", r.SourceID)
		}
	}
}
