package syncer_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// marked is books that can tell whether a reading would give what an earlier one gave.
type marked struct {
	*books
	readings  int
	silent    bool   // it cannot tell now
	blank     bool   // nor ever
	meanwhile func() // is done while it is read
}

func (m *marked) Mark(context.Context) (string, error) {
	if m.silent {
		return "", errors.New("it is being written")
	}
	if m.blank {
		return "", nil
	}
	text, err := json.Marshal(m.records)
	return string(text), err
}

func (m *marked) Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error] {
	m.readings++
	if m.meanwhile != nil {
		m.meanwhile()
	}
	return m.books.Customers(ctx, since)
}

// markedWorld is a world of two payers whose books are marked, and were read whole.
func markedWorld(t *testing.T) (*world, *marked, func() syncer.Result) {
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a1@example.com")
	w.books.put("A2", "Southwind", "a2@example.com")
	m := &marked{books: w.books}
	run := func() syncer.Result {
		t.Helper()
		conn := w.connection()
		conn.Source = m
		res, err := w.syncer.Run(t.Context(), conn, syncer.RunOptions{
			Kind: connector.RunSync, Approve: func(state.Plan) (bool, error) { return true, nil }, Trigger: "manual",
			Actor: "tester", Holder: "test",
		})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	w.complete(run())
	return w, m, run
}

func TestBooksThatGiveWhatTheyGaveAreNotReadAgain(t *testing.T) {
	t.Parallel()
	w, m, run := markedWorld(t)
	for range 2 {
		res := w.complete(run())
		if m.readings != 1 || res.Counts != (state.Counts{Pulled: 2, Unchanged: 2}) || res.Proof.Passes != 1 {
			t.Fatalf("%d readings, %+v, proof %+v; want one reading, and both records unchanged", m.readings, res.Counts,
				res.Proof)
		}
	}
	w.books.put("A2", "Southwind Ltd", "a2@example.com")
	if res := w.complete(run()); m.readings != 2 || res.Counts.Updated != 1 || res.Counts.Unchanged != 1 {
		t.Errorf("after an edit: %d readings, %+v", m.readings, res.Counts)
	}
	if n := len(w.service.Customers()); n != 2 {
		t.Errorf("%d customers, want 2", n)
	}
}

// Records are planned and sent, whichever run read them.
func TestWhatIsLeftToDoIsDoneThoughTheBooksAreNotReadAgain(t *testing.T) {
	t.Parallel()
	w, m, run := markedWorld(t)
	w.books.put("A2", "Southwind Ltd", "a2@example.com")
	w.books.put("A3", "Eastwind", "a3@example.com")
	conn := w.connection()
	conn.Source = m
	if _, err := w.syncer.Run(t.Context(), conn,
		syncer.RunOptions{Kind: connector.RunPlan, Trigger: "manual", Actor: "tester", Holder: "test"}); err != nil {
		t.Fatal(err)
	}
	if n := len(w.service.Customers()); m.readings != 2 || n != 2 {
		t.Fatalf("%d readings and %d customers after a plan, want 2 and 2", m.readings, n)
	}
	if res := w.complete(run()); m.readings != 2 || res.Counts.Created != 1 || res.Counts.Updated != 1 ||
		res.Counts.Unchanged != 1 {
		t.Errorf("%d readings, %+v; want both changes sent without another reading", m.readings, res.Counts)
	}
}

// covers F202
func TestBooksAreReadAgainWhereTheLedgerMayHoldSomethingElse(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*world, *marked, func() syncer.Result){
		"an edited mapping":     func(w *world, _ *marked, _ func() syncer.Result) { w.mapping += "# edited\n" },
		"a source that is dumb": func(_ *world, m *marked, _ func() syncer.Result) { m.silent = true },
		"a source that never tells": func(_ *world, m *marked, run func() syncer.Result) {
			m.blank = true
			run()
		},
		"a payer was forgotten": func(w *world, _ *marked, run func() syncer.Result) {
			w.books.putAs("A2", map[string]string{"No": "A2", "Name": "Southwind", "Email": "a2@example.com",
				"Postcode": "LS1 4AP", "Group": "left"})
			run()
			if _, err := w.ledger.Forget(w.t.Context(), state.RecordID{Connection: "acme", SourceID: "A2"},
				state.Entry{Actor: "tester", Reason: "asked to"}); err != nil {
				w.t.Fatal(err)
			}
		},
		"another reading broke off": func(w *world, _ *marked, run func() syncer.Result) {
			was := w.books.records[0]
			w.books.put("A1", "Eastwind", "a1@example.com")
			w.books.broken = errors.New("the connection broke")
			run()
			w.books.records[0], w.books.broken = was, nil
		},
		"another reading was brought to a standstill": func(w *world, m *marked, run func() syncer.Result) {
			was := w.books.records
			w.books.records = nil
			conn := w.connection()
			conn.Source = m
			res, err := w.syncer.Run(w.t.Context(), conn,
				syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test"})
			if err != nil || res.Outcome == connector.RunComplete {
				w.t.Fatalf("the short reading is %s, %v; want a standstill", res.Outcome, err)
			}
			w.books.records = was
		},
		"they were edited while they were read": func(w *world, m *marked, run func() syncer.Result) {
			w.books.put("A1", "Eastwind", "a1@example.com")
			m.meanwhile = func() { w.books.put("A1", "Westwind", "a1@example.com") }
			run()
			m.meanwhile = nil
			w.books.put("A1", "Eastwind", "a1@example.com")
		},
		"a source that cannot tell was read in between": func(w *world, m *marked, run func() syncer.Result) {
			was := w.books.records[0]
			w.books.put("A1", "Eastwind", "a1@example.com")
			w.complete(w.run())
			w.books.records[0] = was
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, m, run := markedWorld(t)
			change(w, m, run)
			before := m.readings
			w.complete(run())
			if m.readings == before {
				t.Fatal("the books were not read again")
			}
			for _, r := range w.books.records {
				var f struct{ Name string }
				if err := json.Unmarshal(r.Data, &f); err != nil {
					t.Fatal(err)
				}
				if c, made := w.byKey()[r.SourceID]; made && c.Name != f.Name {
					t.Errorf("customer %s is called %s, the books say %s", r.SourceID, c.Name, f.Name)
				}
			}
			if what == "a source that is dumb" || what == "a source that never tells" {
				return
			}
			before = m.readings
			if res := w.complete(run()); m.readings != before {
				t.Errorf("they are read once more, though nothing has changed since: %+v", res.Counts)
			}
		})
	}
}
