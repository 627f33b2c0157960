package syncer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// In these stories requests arrive after another event settled all known facts about them: a found customer,
// a doubled key, a removed record.

// lateCreate is a world with one create on its way for ten minutes, still without an answer.
func lateCreate(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.Late, Delay: 10 * time.Minute, Method: http.MethodPost,
		Path: "/api/customers", Count: 1})
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPost, Path: "/api/customers"})
	w.run()
	w.service.ClearFaults()
	return w
}

// made returns the bodies that made a customer with the key, in order of the requests.
func (w *world) made(key string) (names []string) {
	w.t.Helper()
	for _, c := range w.service.Customers() {
		var customer struct {
			Name         string            `json:"name"`
			ExternalData map[string]string `json:"externalData"`
		}
		if err := json.Unmarshal(c.Raw, &customer); err != nil {
			w.t.Fatal(err)
		}
		if customer.ExternalData["customerNo"] == key && customer.Name != "By hand" {
			names = append(names, customer.Name)
		}
	}
	slices.Sort(names)
	return names
}

// leaves are the ways in which a record stops laying claim to its key.
var leaves = map[string]func(*books){
	"excluded": func(b *books) {
		b.putAs("A1", map[string]string{"No": "A1", "Name": "Northwind", "Group": "supplier"})
	},
	"another key": func(b *books) {
		b.putAs("A1", map[string]string{"No": "B7", "Name": "Northwind", "Email": "a@example.com", "Postcode": "LS1 4AP",
			"Group": "payer"})
	},
	"deleted": func(b *books) {
		b.set(connector.Record{SourceID: "A1", State: connector.RecordDeleted, Data: []byte("{}")})
	},
}

// A create gets no answer, and a colleague types customers with its key: one, which is found, or two, which
// double it. They are deleted, the record is removed, and another one has the key. The first request is still
// on its way, so no second one is sent.
//
// covers F05, F99, S1, S2
func TestALateCreateKeepsItsKeyWhateverWasFoundMeanwhile(t *testing.T) {
	t.Parallel()
	for _, typed := range []int{0, 1, 2} {
		for how, leave := range leaves {
			t.Run(fmt.Sprintf("%d found, %s", typed, how), func(t *testing.T) {
				t.Parallel()
				w := lateCreate(t)
				var byHand []string
				for range typed {
					byHand = append(byHand, w.add(`{"name":"By hand","externalData":{"customerNo":"A1"}}`))
				}
				w.run() // finds them
				for _, id := range byHand {
					if err := w.service.Delete(id); err != nil {
						t.Fatal(err)
					}
				}
				w.clock.advance(6 * time.Minute)
				w.sweep()
				leave(w.books)
				w.books.putAs("R2", map[string]string{"No": "A1", "Name": "Southwind", "Email": "s@example.com",
					"Postcode": "LS1 4AP", "Group": "payer"})
				w.run()
				if w.attention()["R2"] == "" && len(w.made("A1")) > 0 {
					t.Errorf("a customer was made for R2 while the create of A1 may still arrive")
				}
				w.clock.advance(5 * time.Minute) // the first create arrives
				w.run()
				w.clock.advance(time.Hour)
				for range 4 {
					w.sweep()
					w.run()
				}
				if got := w.made("A1"); len(got) != 1 {
					t.Errorf("the customers %v with the key were made by us, want one", got)
				}
				if w.payer("R2").BillingID == "" && w.attention()["R2"] == "" {
					t.Errorf("R2 has no customer, and nobody is told")
				}
			})
		}
	}
}

// An update gets no answer after one attempt, and is given up because the key is off
// the customer for a moment. A newer one is confirmed; then the old one arrives.
//
// covers F05, F99, S6, L1
func TestALateUpdateIsUndoneAfterANewerOneWasConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	id := w.payer("A1").BillingID
	w.service.Inject(sandbox.Fault{Kind: sandbox.Late, Delay: 90 * time.Second, Method: http.MethodPut,
		Path: "/api/customers", Count: 1})
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodGet, Path: "/api/customers/*", Skip: 1})
	w.books.put("A1", "Old", "a@example.com")
	w.run() // it gets no answer, and neither does a second look
	w.service.ClearFaults()
	before, _ := w.service.Customer(id)
	if err := w.service.Edit(id, json.RawMessage(`{"name":"Northwind","externalData":{}}`)); err != nil {
		t.Fatal(err)
	}
	w.run() // gives the update up: the key is off
	if err := w.service.Edit(id, before.Raw); err != nil {
		t.Fatal(err)
	}
	w.books.put("A1", "New", "a@example.com")
	w.sweep()
	w.run()
	w.complete(w.run())
	if got := w.byKey()["A1"].Name; got != "New" {
		t.Fatalf("the customer is called %q, want New", got)
	}
	w.clock.advance(2 * time.Minute) // the old update arrives
	if got := w.byKey()["A1"].Name; got != "Old" {
		t.Fatalf("the customer is called %q; the old update did not arrive", got)
	}
	w.clock.advance(time.Hour)
	w.sweep()
	w.sweep()
	w.run()
	w.complete(w.run())
	if got := w.byKey()["A1"].Name; got != "New" {
		t.Errorf("the customer is called %q for good, want New", got)
	}
}

// A removed record keeps the link to its customer, whose key a colleague removed. Another record with that
// key gets no customer of its own, and a finding says why.
//
// covers F48, S1
func TestAKeyWhoseCustomerLostItIsAnothersUntilAPersonSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	if err := w.service.Edit(w.payer("A1").BillingID, json.RawMessage(`{"name":"Northwind"}`)); err != nil {
		t.Fatal(err)
	}
	w.sweep()
	leaves["excluded"](w.books)
	w.books.putAs("R2", map[string]string{"No": "A1", "Name": "Southwind", "Email": "s@example.com", "Postcode": "LS1 4AP",
		"Group": "payer"})
	w.run()
	w.complete(w.run())
	if got := w.attention()["R2"]; got != string(connector.ReasonOtherKey) {
		t.Errorf("R2 needs a person for %q, want other_key", got)
	}
	if got := len(w.service.Customers()); got != 1 {
		t.Errorf("%d customers, want the one", got)
	}
}

// The answer to a create comes when its record has another customer: a process that had
// lost its lock gets it, say. The link stays where it is, and a person is told.
//
// covers F07, S2
func TestAnAnswerThatComesLateMovesNoLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	m := meddle(w)
	other := w.add(`{"name":"Northwind"}`)
	w.syncer.Settings.Adopt = syncer.AdoptExact
	m.onMade = func() {
		p := w.payer("A1")
		if err := w.ledger.Do(context.Background(),
			func(tx *state.Tx) error { return tx.LinkPayer(p, other, true) }); err != nil {
			t.Error(err)
		}
	}
	w.run()
	if got := w.payer("A1").BillingID; got != other {
		t.Errorf("A1 is linked to %q, want %q still", got, other)
	}
	if got := w.attention()["A1"]; got != string(connector.ReasonKeyRemoved) { // its own customer does not carry the key
		t.Errorf("A1 needs a person for %q, want key_removed", got)
	}
}

// A customer that was just made loses its key before it was ever read back. The update
// that meets it waits, and is sent when the key is there again.
//
// covers F08, V2
func TestAnUpdateOfANewCustomerWaitsUntilThatShowsItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.EmptyBody, Method: http.MethodGet, Path: "/api/customers/*"})
	w.run() // makes it, and cannot read it back
	w.service.ClearFaults()
	made := w.service.Customers()[0]
	if err := w.service.Edit(made.ID, json.RawMessage(`{"name":"Northwind"}`)); err != nil {
		t.Fatal(err)
	}
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	w.clock.advance(5 * time.Minute)
	if res := w.run(); res.Outcome == connector.RunComplete {
		t.Errorf("the run is complete although an update waits: %+v", res.Counts)
	}
	if w.attention()["A1"] == "" {
		t.Error("nobody is told")
	}
	if err := w.service.Edit(made.ID, made.Raw); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(5 * time.Minute)
	w.run()
	w.complete(w.run())
	if got := w.byKey()["A1"].Name; got != "Northwind Ltd" {
		t.Errorf("the customer is called %q for good, want Northwind Ltd", got)
	}
}

// A customer that was just made loses its key before it was ever read back, and for good:
// runs do not wait for it for ever. A person is told, and a sweep that shows the key again
// lets the update go.
//
// covers F08, V2
func TestANewCustomerThatNeverShowsItsKeyIsToldAndKeepsNoRunFromEnding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.EmptyBody, Method: http.MethodGet, Path: "/api/customers/*"})
	w.run() // makes it, and cannot read it back
	w.service.ClearFaults()
	made := w.service.Customers()[0]
	if err := w.service.Edit(made.ID, json.RawMessage(`{"name":"Northwind"}`)); err != nil {
		t.Fatal(err)
	}
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	w.clock.advance(time.Hour)
	w.run()
	w.complete(w.run())
	if got := w.attention()["A1"]; got != string(connector.ReasonKeyRemoved) {
		t.Errorf("A1 needs a person for %q, want key_removed", got)
	}
	if err := w.service.Edit(made.ID, made.Raw); err != nil {
		t.Fatal(err)
	}
	if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.complete(w.run())
	if got := w.byKey()["A1"].Name; got != "Northwind Ltd" {
		t.Errorf("the customer is called %q, want Northwind Ltd", got)
	}
	if got := w.attention()["A1"]; got != "" {
		t.Errorf("A1 still needs a person for %q", got)
	}
}

// A customer with a doubled key is read, and then the other one, which has lost the key
// meanwhile. Nobody reads the first again, and the plan that finds it alone says how its
// link stands.
//
// covers F49, V2
func TestAKeyThatIsDoubledNoMoreLeavesNoConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	other := w.add(`{"name":"By hand","externalData":{"customerNo":"A1"}}`)
	w.sweep()
	if got := w.payer("A1").LinkState; got != connector.LinkConflict {
		t.Fatalf("A1 is %s while its key is doubled, want conflict", got)
	}
	if err := w.service.Edit(other, json.RawMessage(`{"name":"By hand"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.syncer.Reconciler.Check(t.Context(), other, connector.CauseSweep, "test"); err != nil {
		t.Fatal(err)
	}
	w.complete(w.run())
	if got := w.payer("A1").LinkState; got != connector.LinkLinked {
		t.Errorf("A1 is %s, and told is %q; want linked", got, w.attention()["A1"])
	}
}
