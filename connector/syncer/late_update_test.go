package syncer_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/state"
)

// covers F04, F10, L1
func TestAnUpdateThatArrivesLateIsMendedByTheNextRunAfterASweep(t *testing.T) {
	t.Parallel()
	for name, unseen := range map[string]time.Duration{"seen at once": 0, "seen after three days": 72 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.renameTwiceTheFirstLate()
			w.clock.advance(12 * time.Minute)
			if got := w.byKey()["A1"].Name; got != "First" {
				t.Fatalf("name = %q: the late update did not arrive", got)
			}
			w.clock.advance(unseen)
			w.sweep()
			w.complete(w.run())
			if got := w.byKey()["A1"].Name; got != "Second" {
				t.Errorf("name = %q, want Second again", got)
			}
			w.service.ResetRequests()
			w.complete(w.run())
			if n := len(w.service.Requests()); n != 0 {
				t.Errorf("the run after it sent %d requests", n)
			}
		})
	}
}

// Once a look from after that day has shown what was wanted, a change is somebody's own.
//
// covers F04
func TestAChangeMadeInTheServiceLongAfterALateUpdateIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.renameTwiceTheFirstLate()
	second, _ := w.service.Customer(id)
	w.clock.advance(12 * time.Minute)
	if err := w.service.Edit(id, second.Raw); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(25 * time.Hour)
	w.sweep()
	if err := w.service.Edit(id,
		json.RawMessage(`{"name":"Theirs","people":[{"email":"a@example.com"}],"externalData":{"customerNo":"A1"}}`)); err != nil {
		t.Fatal(err)
	}
	w.sweep()
	w.complete(w.run())
	if got := w.byKey()["A1"].Name; got != "Theirs" {
		t.Errorf("name = %q, want Theirs", got)
	}
}

// What others had changed before a restore, and was told, is not put right by it.
//
// covers F64, S5
func TestWhatOthersChangedBeforeARestoreIsToldStill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	c := w.byKey()["A1"]
	if err := w.service.Edit(c.ID, json.RawMessage(strings.ReplaceAll(string(c.Raw), "Northwind", "Theirs"))); err != nil {
		t.Fatal(err)
	}
	w.sweep()
	w.complete(w.run())
	if err := w.ledger.Do(t.Context(), (*state.Tx).MarkRestored); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Hour)
	w.edit("mandate:", "own: [name, people]\nmandate:") // everybody is planned anew
	w.sweep()
	w.complete(w.run())
	if got, told := w.byKey()["A1"].Name, w.attention()["A1"]; got != "Theirs" ||
		told != string(connector.ReasonForeignChange) {
		t.Errorf("name = %q, told %q; want Theirs and foreign_change", got, told)
	}
}

// covers F64, L1
func TestWhatWasSentBetweenABackupAndItsRestoreIsBroughtInLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	c := w.byKey()["A1"]
	sent := strings.ReplaceAll(string(c.Raw), "Northwind", "Northwind Ltd") // by the ledger that was lost
	if err := w.service.Edit(c.ID, json.RawMessage(sent)); err != nil {
		t.Fatal(err)
	}
	if err := w.ledger.Do(t.Context(), (*state.Tx).MarkRestored); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Hour)
	w.sweep()
	w.complete(w.run())
	if got := w.byKey()["A1"].Name; got != "Northwind" {
		t.Errorf("name = %q, want Northwind as the books have it", got)
	}
}

// covers F11, L1
func TestARecordThatGoesBackIsSentAlthoughItsUpdateWasOverwritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "old@example.com")
	w.complete(w.run())
	reads := 0
	m.onRead = func(id string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		if reads++; reads != 2 {
			return c, err
		}
		theirs := strings.ReplaceAll(string(c.Raw), "Northwind", "Renamed") // just after the update
		if err := w.service.Edit(id, json.RawMessage(theirs)); err != nil {
			return c, err
		}
		return m.Client.Customer(t.Context(), id)
	}
	w.books.put("A1", "Northwind", "new@example.com")
	w.run()
	if got := w.attention()["A1"]; got != string(connector.ReasonForeignChange) {
		t.Fatalf("attention = %q, want foreign_change", got)
	}
	w.books.put("A1", "Northwind", "old@example.com")
	w.complete(w.run())
	if raw := string(w.byKey()["A1"].Raw); !strings.Contains(raw, "old@example.com") ||
		strings.Contains(raw, "new@example.com") {
		t.Errorf("the customer is %s, want the old address alone", raw)
	}
}

// covers F05, F49, L1
func TestARecordThatGoesBackIsSentAlthoughItsUpdateWasNeverAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.Late, Delay: 10 * time.Minute, Method: http.MethodPut,
		Path: "/api/customers", Count: 1})
	reads := 0
	m.onRead = func(_ string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		if reads++; reads > 1 { // so that it is sent once only
			return c, unanswered("get customer")
		}
		return c, err
	}
	w.run()
	m.onRead = nil
	copied := w.add(`{"name":"Copy","externalData":{"customerNo":"A1"}}`)
	w.sweep()
	w.run() // gives the update up
	w.clock.advance(12 * time.Minute)
	if err := w.service.Delete(copied); err != nil {
		t.Fatal(err)
	}
	if got := w.byKey()["A1"].Name; got == "Northwind" {
		t.Fatal("the update did not arrive")
	}
	w.books.put("A1", "Northwind", "a@example.com")
	w.sweep()
	w.sweep()
	w.run()
	w.complete(w.run())
	if got := w.byKey()["A1"].Name; got != "Northwind" {
		t.Errorf("name = %q, want Northwind again", got)
	}
}

// renameTwiceTheFirstLate renames a customer twice, so that the request for the
// first name is on its way for ten minutes and the second is in place.
func (w *world) renameTwiceTheFirstLate() (id string) {
	w.t.Helper()
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	w.service.Inject(sandbox.Fault{Kind: sandbox.Late, Delay: 10 * time.Minute, Method: http.MethodPut,
		Path: "/api/customers", Count: 1})
	w.books.put("A1", "First", "a@example.com")
	w.run()
	w.books.put("A1", "Second", "a@example.com")
	w.run()
	w.complete(w.run())
	c := w.byKey()["A1"]
	if c.Name != "Second" {
		w.t.Fatalf("name = %q, want Second", c.Name)
	}
	return c.ID
}

func (w *world) sweep() {
	w.t.Helper()
	if _, err := w.syncer.Reconciler.Sweep(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}
