package syncer_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

func (w *world) merge(record, into string) error {
	w.t.Helper()
	m, err := w.syncer.MergeOf(w.t.Context(), w.connection(), record, into)
	if err != nil {
		return err
	}
	return w.syncer.SayMerge(w.t.Context(), m, ann)
}

// covers F48
func TestTwoRecordsOfOnePayerAreMerged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second bool // which of the two have a customer when it is said
		keys          []string
		told          map[string]string
	}{
		"neither has a customer":      {keys: []string{"A2"}},
		"the one that stays has one":  {second: true, keys: []string{"A2"}},
		"the one that leaves has one": {first: true, keys: []string{"A2"}},
		"each has one with a mandate": {first: true, second: true, keys: []string{"A1", "A2"},
			told: map[string]string{"A1": string(connector.ReasonLeftWithMandate)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			put := func(id string) { w.books.put(id, "Northwind "+id, id+"@example.com") }
			if c.first {
				put("A1")
				w.complete(w.run())
			}
			if c.second {
				put("A2")
				w.complete(w.run())
			}
			put("A1")
			put("A2")
			w.plan()
			before := w.byKey()
			w.does(w.merge("A1", "A2"))
			if err := w.merge("A1", "A2"); !errors.Is(err, syncer.ErrSaidBefore) {
				t.Errorf("merged twice: %v", err)
			}
			w.complete(w.run())
			w.complete(w.run())
			w.has(c.keys...)
			if diff := cmp.Diff(c.told, w.attention()); diff != "" && len(c.told)+len(w.attention()) > 0 {
				t.Errorf("people are told (-want +got):\n%s", diff)
			}
			if c.first != c.second && w.byKey()["A2"].ID != before["A1"].ID+before["A2"].ID {
				t.Errorf("A2's customer is %s, want the one that was there", w.byKey()["A2"].ID)
			}
			w.books.put("A1", "Northwind A1 Ltd", "A1@example.com") // it changes in the books, and stays what a person said
			w.complete(w.run())
			w.has(c.keys...)
			w.does(w.syncer.SayUnmerge(t.Context(), state.RecordID{Connection: "acme", SourceID: "A1"}, ann))
			w.complete(w.run())
			w.has("A1", "A2")
		})
	}
}

func TestRecordsThatAreNotTwoAreNotMerged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"A1", "A2", "A3"} {
		w.books.put(id, "Northwind "+id, id+"@example.com")
	}
	w.complete(w.run())
	w.does(w.merge("A1", "A2"))
	for _, c := range []struct {
		record, into string
		want         error
	}{
		{"A3", "A3", state.ErrSameRecord}, {"A3", "nobody", state.ErrNoRecord}, {"nobody", "A3", state.ErrNoRecord},
		{"A3", "A1", state.ErrMerged}, {"A2", "A3", state.ErrMerged},
	} {
		if err := w.merge(c.record, c.into); !errors.Is(err, c.want) {
			t.Errorf("%s into %s: %v, want %v", c.record, c.into, err, c.want)
		}
	}
	if err := w.syncer.SayUnmerge(t.Context(), state.RecordID{Connection: "acme", SourceID: "A3"}, ann); !errors.Is(err,
		state.ErrNotMerged) {
		t.Errorf("taken back unsaid: %v", err)
	}
}
