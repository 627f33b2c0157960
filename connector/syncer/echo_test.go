package syncer_test

import (
	"errors"
	"testing"
	"time"

	"payersync/connector"
	"payersync/state"
)

// What payersync writes into the books comes back with the next reading, and is no change; what
// somebody changed beside it is one.
//
// covers F146
func TestOurOwnWritesIntoTheBooksAreNoChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.written = []connector.WrittenPart{{Field: "Status"}}
	numbers := []string{"C1", "C2", "C3", "C4"}
	put := func(no, name, status string) {
		w.books.putAs(no, map[string]string{"No": no, "Name": name, "Email": no + "@example.com", "Postcode": "LS1 4AP",
			"Group": "payer", "Status": status})
	}
	for _, no := range numbers {
		put(no, "Customer "+no, "")
	}
	w.complete(w.run())
	for _, no := range numbers {
		id := state.RecordID{Connection: "acme", SourceID: no}
		if err := w.ledger.Do(t.Context(), func(tx *state.Tx) error {
			return errors.Join(tx.FreezeWrite(state.FrozenWrite{RecordID: id, Setup: "s", ID: "w" + no,
				Wanted: connector.FieldActive, Body: []byte("set")}), tx.WriteApplied(id, "w"+no, state.WritebackField{}))
		}); err != nil {
			t.Fatal(err)
		}
		put(no, "Customer "+no, "active")
	}
	put("C4", "Another name", "active")
	w.clock.advance(time.Hour)
	res := w.complete(w.run())
	want := state.Counts{Pulled: 4, Unchanged: 3, Updated: 1, OwnEchoes: 3}
	if res.Counts != want {
		t.Errorf("the run behind our writes: %+v, want %+v", res.Counts, want)
	}
	w.clock.advance(time.Hour)
	if res := w.complete(w.run()); res.Counts != (state.Counts{Pulled: 4, Unchanged: 4}) {
		t.Errorf("the run after that: %+v", res.Counts)
	}
}
