package syncer_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
	"payersync/state/statetest"
)

// beside is a world whose service has its own accounting connection, with external data in that format, to a
// system it calls XERO.
func beside(t *testing.T, shape, key string) *world {
	t.Helper()
	w := newWorld(t, func(o *sandbox.Options, d *billing.Dialect) {
		o.Switches.ExternalData, d.ExternalData = shape, "object"
	})
	w.mapping = strings.Replace(standardMapping, "customerNo", key, 1)
	return w
}

// native adds a customer as the service's own connection makes it.
func (w *world) native(name, id string) string {
	w.t.Helper()
	return w.add(fmt.Sprintf(`{"name":%q,"people":[{"name":%q,"email":"a@example.com"}],"externalData":[{"connectorType":"XERO","id":%q}],"notes":"theirs"}`, name, name, id))
}

// xero makes a run over the books that the service calls XERO.
func (w *world) xero(choice syncer.TwoWay) syncer.Result {
	w.t.Helper()
	conn := w.connection()
	conn.TwoWay, conn.Native = choice, "XERO"
	return w.complete(w.syncs(conn, true))
}

func (w *world) twoWay() state.TwoWay {
	w.t.Helper()
	known, err := w.ledger.TwoWay(w.t.Context(), "acme")
	if err != nil {
		w.t.Fatal(err)
	}
	return known
}

// customersWritten counts the requests that would create or change a customer.
func (w *world) customersWritten() (n int) {
	for _, r := range w.service.Requests() {
		if r.Method != "GET" && strings.HasPrefix(r.Path, "/api/customers") &&
			!strings.HasSuffix(r.Path, "/directdebitmandates") {
			n++
		}
	}
	return n
}

// Two that write one record undo each other, and a customer that one makes the other makes
// once more.
//
// covers F171
func TestBesideTheServicesOwnConnectionCustomersAreLinkedAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{"array", "object"} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			w := beside(t, shape, "XERO")
			theirs := w.native("Northwind", "A1")
			w.books.put("A1", "Northwind", "a@example.com")
			w.books.put("B1", "Southwind", "b@example.com")
			res := w.xero(syncer.TwoWayAuto)
			told := res.Note
			if !strings.Contains(told,
				"1 customer carries a key of this kind of accounting system that payersync did not write") ||
				!strings.Contains(told, "connections[].two_way") {
				t.Errorf("the run says %q", told)
			}
			w.books.put("A1", "Northwind Renamed", "new@example.com")
			w.clock.advance(time.Hour)
			w.xero(syncer.TwoWayAuto)
			if n := w.customersWritten(); n != 0 || len(w.service.Customers()) != 1 ||
				w.service.Customers()[0].Name != "Northwind" {
				t.Errorf("%d writes; %d customers, theirs is\n%s", n, len(w.service.Customers()), w.raw(theirs))
			}
			if p := w.payer("A1"); p.BillingID != theirs {
				t.Errorf("A1 is linked to %q, want %q", p.BillingID, theirs)
			}
			if got := w.attention(); got["A1"] != string(connector.ReasonTwoWay) || got["B1"] != string(connector.ReasonTwoWay) {
				t.Errorf("people are told of %v", got)
			}
			if known := w.twoWay(); known.Found.IsZero() || !known.LinkOnly || known.Matching != 1 || known.Example != theirs {
				t.Errorf("the ledger knows %+v", known)
			}

			// A person who knows better goes on, and can stop it again.
			w.clock.advance(time.Hour)
			w.xero(syncer.TwoWayWrite)
			named := []string{}
			for _, c := range w.service.Customers() {
				named = append(named, c.Name)
			}
			slices.Sort(named)
			if got := w.attention(); !slices.Equal(named, []string{"Northwind Renamed", "Southwind"}) || len(got) != 0 ||
				w.twoWay().LinkOnly {
				t.Errorf("customers %q, attention %v, %+v", named, got, w.twoWay())
			}
			w.books.put("B1", "Southwind Renamed", "b@example.com")
			w.clock.advance(time.Hour)
			n := w.customersWritten()
			w.xero(syncer.TwoWayAuto)
			if w.customersWritten() != n || !w.twoWay().LinkOnly {
				t.Errorf("%d more writes after a return to auto", w.customersWritten()-n)
			}
		})
	}
}

// covers F171
func TestOnlyWhatOthersWroteShowsAConnectionOfTheServicesOwn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		key   string
		given func(w *world)
		guard bool
	}{
		"nothing":                            {"XERO", func(*world) {}, false},
		"one stray customer":                 {"XERO", func(w *world) { w.native("Stray", "Z9") }, false},
		"two customers of no record of ours": {"XERO", func(w *world) { w.native("One", "Z8"); w.native("Two", "Z9") }, true},
		"one of a record, under our own key": {"customerNo", func(w *world) { w.native("Northwind", "A1") }, true},
		"another system's customers": {"XERO", func(w *world) {
			for i := range 3 {
				w.add(fmt.Sprintf(`{"name":"Q%d","externalData":[{"connectorType":"QUICKBOOKS","id":"A%d"}]}`, i, i+1))
			}
		}, false},
		"a colleague's, with a scope": {"XERO", func(w *world) {
			o := w.another()
			o.mapping = w.mapping + "scope: tenant\n"
			o.books.put("A1", "Fjord", "f1@example.com")
			o.books.put("A2", "Fjord Two", "f2@example.com")
			conn := o.as("fjord", "fjord", o.books)
			conn.Native = "XERO"
			o.complete(o.syncs(conn, true))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := beside(t, "array", tt.key)
			tt.given(w)
			w.books.put("A1", "Northwind", "a@example.com")
			for range 2 {
				w.clock.advance(25 * time.Hour)
				w.xero(syncer.TwoWayAuto)
			}
			if known := w.twoWay(); known.LinkOnly != tt.guard || known.Found.IsZero() == tt.guard {
				t.Errorf("the ledger knows %+v, want link only: %t", known, tt.guard)
			}
		})
	}
}

// An installation that was there before the guard has customers whose key is called XERO, and
// a ledger that was put back has some that it does not know.
//
// covers F171
func TestOurOwnPairsShowNothingNeitherAfterAnUpgradeNorAfterARestore(t *testing.T) {
	t.Parallel()
	for name, putBack := range map[string]bool{"after an upgrade": false, "after a restore": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := beside(t, "array", "XERO")
			copied := w.path + ".copy"
			w.books.put("A1", "Northwind", "a@example.com")
			w.xero("") // as a program did that knew of no guard
			w.copyTo(copied)
			w.books.put("A2", "Southwind", "b@example.com")
			w.books.put("A3", "Eastwind", "c@example.com")
			w.xero("")
			if putBack {
				w.putBack(copied)
				w.clock.advance(time.Hour)
				w.sweep()
			}
			w.books.put("A1", "Northwind Renamed", "a@example.com")
			for range 2 {
				w.clock.advance(25 * time.Hour)
				w.sweep()
				w.xero("")
			}
			names := map[string]bool{}
			for _, c := range w.service.Customers() {
				names[c.Name] = true
			}
			if known := w.twoWay(); known.LinkOnly || !known.Found.IsZero() || len(w.service.Customers()) != 3 ||
				!names["Northwind Renamed"] {
				t.Errorf("the ledger knows %+v; customers %v", known, names)
			}
		})
	}
}

// copyTo copies the ledger as it is now.
func (w *world) copyTo(path string) {
	w.t.Helper()
	if err := w.ledger.Close(); err != nil {
		w.t.Fatal(err)
	}
	data, err := os.ReadFile(w.path)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

// putBack puts an older copy of the ledger in its place.
func (w *world) putBack(path string) {
	w.t.Helper()
	statetest.OnlySQLite(w.t, "a file is put back")
	if err := w.ledger.Close(); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path, w.path); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

// carried has somebody else carry the books' change of a record to its customer.
func (w *world) carried(key, name string) {
	w.t.Helper()
	c := w.byKey()[key]
	var raw map[string]any
	if err := json.Unmarshal(c.Raw, &raw); err != nil {
		w.t.Fatal(err)
	}
	raw["name"] = name
	raw["people"].([]any)[0].(map[string]any)["name"] = name
	body, err := json.Marshal(raw)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.service.Edit(c.ID, body); err != nil {
		w.t.Fatal(err)
	}
}

// Changes that customers show before payersync has sent them are somebody else's work: one now
// and then is a person's, and nearly all of them a connection's.
//
// covers F171
func TestChangesThatOthersCarryFirstShowAConnectionOfTheServicesOwn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name               string
		records, carried   int
		restored, linkOnly bool
	}{
		{"nearly all", 8, 6, false, true},
		{"all, of few", 4, 4, false, false},
		{"half of them", 12, 6, false, false},
		{"our own, in a ledger that was put back", 8, 0, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fill(tt.records)
			w.xero(syncer.TwoWayAuto)
			w.xero(syncer.TwoWayAuto) // every customer was seen to carry its key
			copied := w.path + ".copy"
			w.copyTo(copied)
			w.clock.advance(time.Hour)
			w.rename(tt.records, "Renamed")
			if tt.restored { // what is on the customers is our own work, which the ledger knows no more
				w.xero(syncer.TwoWayAuto)
				w.putBack(copied)
				w.clock.advance(25 * time.Hour)
				w.sweep()
			}
			for i := range tt.carried {
				w.carried(fmt.Sprintf("C%04d", i), fmt.Sprintf("Renamed %d", i))
			}
			conn := w.connection()
			conn.TwoWay, conn.Native = syncer.TwoWayAuto, "XERO"
			w.syncs(conn, true) // what was carried is planned again, over the new facts
			if known := w.twoWay(); !known.Found.IsZero() {
				t.Fatalf("it is found in the middle of a run: %+v", known)
			}
			w.rename(tt.records, "Renamed again")
			before := w.customersWritten()
			res := w.xero(syncer.TwoWayAuto)
			if known := w.twoWay(); known.LinkOnly != tt.linkOnly || tt.linkOnly &&
				(known.Echoes != tt.carried || !strings.Contains(res.Note, "before payersync had sent them")) {
				t.Errorf("it is known as %+v, and the run says %q", known, res.Note)
			}
			if wrote := w.customersWritten() - before; (wrote == 0) != tt.linkOnly {
				t.Errorf("%d customers were written", wrote)
			}
		})
	}
}
