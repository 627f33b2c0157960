package syncer_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// unlink says on a person's word that the customer of A1 is not its own.
func (w *world) unlink() {
	w.t.Helper()
	u, err := w.syncer.UnlinkOf(w.t.Context(), w.payer("A1"), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	w.does(w.syncer.SayUnlink(w.t.Context(), u, ann))
}

// newest returns the newest change of A1 with an action that has ended as done.
func (w *world) newest(action connector.Action) int64 {
	w.t.Helper()
	past, err := w.ledger.ChangesOf(w.t.Context(), "acme", "A1")
	if err != nil {
		w.t.Fatal(err)
	}
	id := int64(0)
	for _, c := range past {
		if c.Action == action && c.State == connector.ChangeDone {
			id = c.ID
		}
	}
	if id == 0 {
		w.t.Fatalf("no %s of A1 is done", action)
	}
	return id
}

func (w *world) undo(action connector.Action) error {
	w.t.Helper()
	u, err := w.syncer.UndoOf(w.t.Context(), w.connection(), w.payer("A1"), w.newest(action))
	if err != nil {
		return err
	}
	return w.syncer.SayUndo(w.t.Context(), u, ann)
}

// members returns a customer's members, but for its mandate.
func (w *world) members(id string) map[string]any {
	w.t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(w.raw(id)), &out); err != nil {
		w.t.Fatal(err)
	}
	for _, key := range []string{"directDebitMandate"} {
		delete(out, key)
	}
	return out
}

// released fails the test unless A1 is held without a customer, and the customer is what it
// was before, member for member.
func (w *world) released(customer string, before map[string]any) {
	w.t.Helper()
	if after := w.members(customer); !reflect.DeepEqual(before, after) {
		w.t.Errorf("the customer is not as it was (-was +is):\n%s", cmp.Diff(before, after))
	}
	if p := w.payer("A1"); p.BillingID != "" || p.Unlink != (state.Unlink{}) || p.Applied != nil {
		w.t.Errorf("the payer is %+v, want without a customer", p)
	}
	if diff := cmp.Diff(map[string]string{"A1": string(connector.ReasonUnlinked)}, w.attention()); diff != "" {
		w.t.Errorf("people are told (-want +got):\n%s", diff)
	}
	if n := len(w.service.Customers()); n != 1 {
		w.t.Errorf("there are %d customers, want the one", n)
	}
}

// covers F76
func TestAWrongMatchIsUndoneAndTheCustomerIsAsItWas(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]*sandbox.Fault{
		"as it should be":   nil,
		"a lost answer":     {Kind: sandbox.LostResponse, Method: http.MethodPut, Path: "/api/customers", Count: 2},
		"a lost request":    {Kind: sandbox.LostRequest, Method: http.MethodPut, Path: "/api/customers", Count: 2},
		"an error after":    {Kind: sandbox.ErrorAfter, Method: http.MethodPut, Path: "/api/customers", Count: 2},
		"an error before":   {Kind: sandbox.ErrorBefore, Method: http.MethodPut, Path: "/api/customers", Count: 2},
		"a late request":    {Kind: sandbox.Late, Method: http.MethodPut, Path: "/api/customers", Count: 1},
		"a read is refused": {Kind: sandbox.ErrorBefore, Method: http.MethodGet, Path: "/api/customers/*", Count: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, customer := likened(t)
			before := w.members(customer)
			w.say("A1", customer, state.WordAccept)
			w.complete(w.run())
			w.books.put("A1", "Northwind Trading", "new@example.com")
			w.complete(w.run())
			if w.members(customer)["name"] != "Northwind Trading" {
				t.Fatalf("the customer is %s", w.raw(customer))
			}
			w.does(w.undo(connector.ActionAdopt))
			if fault != nil {
				w.service.Inject(*fault)
			}
			w.run()
			for range 3 {
				w.restart()
				w.clock.advance(state.Arrival + time.Minute)
				w.service.ReleaseLate()
				w.run()
			}
			w.released(customer, before)
			w.service.ResetRequests()
			w.complete(w.run())
			if n := len(w.bodies(http.MethodPut, "/api/customers")) + len(w.bodies(http.MethodPost, "/api/customers")); n != 0 {
				t.Errorf("a run after it sent %d requests", n)
			}
		})
	}
}

// After a wrong match the record is nobody's, until a person says who it is.
//
// covers F76
func TestARecordThatWasUnlinkedWaitsForAPersonsWord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		say       func(w *world, old string) string // returns whose customer it is then; "" for a new one
		customers int
	}{
		"another customer": {func(w *world, _ string) string {
			id := w.add(`{"name":"Northwind Sons"}`)
			w.run()
			w.say("A1", id, state.WordAccept)
			return id
		}, 2},
		"one of its own":        {func(w *world, old string) string { w.say("A1", old, state.WordReject); return "" }, 2},
		"the old one after all": {func(w *world, old string) string { w.say("A1", old, state.WordAccept); return old }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, customer := likened(t)
			w.say("A1", customer, state.WordAccept)
			w.complete(w.run())
			w.unlink()
			w.complete(w.run())
			if got := w.attention()["A1"]; got != string(connector.ReasonUnlinked) {
				t.Errorf("A1 needs a person for %q", got)
			}
			if w.members(customer)["name"] != "Northwind" || w.byKey()["A1"].ID != "" {
				t.Errorf("the customer is %s, want its name, and no key", w.raw(customer))
			}
			want := c.say(w, customer)
			w.complete(w.run())
			p := w.payer("A1")
			if p.BillingID == "" || want != "" && p.BillingID != want || want == "" && p.BillingID == customer {
				t.Errorf("A1 is linked to %q, want %q", p.BillingID, want)
			}
			if got := w.byKey()["A1"]; got.ID != p.BillingID || len(w.service.Customers()) != c.customers {
				t.Errorf("of %d customers, the one with the key is %s", len(w.service.Customers()), got.ID)
			}
			if told := w.attention(); len(told) != 0 || p.MandateID == "" {
				t.Errorf("people are told of %v, and the mandate is %q", told, p.MandateID)
			}
		})
	}
}

// covers F76
func TestAnUnlinkIsSentAsItsPlanShowedIt(t *testing.T) {
	t.Parallel()
	w, customer := likened(t)
	w.say("A1", customer, state.WordAccept)
	w.complete(w.run())
	w.does(w.undo(connector.ActionAdopt))
	w.service.ResetRequests()
	_, changes := w.plan()
	if len(changes) != 1 || !changes[0].Unlinks || len(w.bodies(http.MethodPut, "/api/customers")) != 0 {
		t.Fatalf("the plan holds %+v, want the one that lets the customer go", changes)
	}
	for _, d := range changes[0].Diff {
		if d.Path == "externalData.customerNo" && d != (connector.FieldChange{Path: "externalData.customerNo", From: "A1"}) {
			t.Errorf("it shows %+v", d)
		}
	}
	if err := w.service.Edit(customer,
		json.RawMessage(strings.ReplaceAll(w.raw(customer), `"Northwind"`, `"Southwind"`))); err != nil {
		t.Fatal(err)
	}
	w.service.ResetRequests()
	w.run() // which finds it otherwise than shown
	if n := len(w.bodies(http.MethodPut, "/api/customers")); n != 0 {
		t.Errorf("%d updates were sent that no plan had shown", n)
	}
	w.complete(w.run())
	if got := w.members(customer)["name"]; got != "Southwind" {
		t.Errorf("the customer is called %q, want what a colleague wrote since", got)
	}
}

// covers F76
func TestAPersonTakesAnUnlinkBack(t *testing.T) {
	t.Parallel()
	w, customer := likened(t)
	w.say("A1", customer, state.WordAccept)
	w.complete(w.run())
	w.unlink()
	w.plan()
	if err := w.ledger.Do(t.Context(), func(tx *state.Tx) error {
		return tx.MoveKey(w.payer("A1"), connector.Key{Name: "customerNo", Value: "N7"})
	}); !errors.Is(err, state.ErrUnlinking) {
		t.Errorf("a customer that is let go is moved: %v", err)
	}
	w.does(w.syncer.TakeUnlinkBack(t.Context(), w.payer("A1"), ann))
	if err := w.syncer.TakeUnlinkBack(t.Context(), w.payer("A1"), ann); !errors.Is(err, state.ErrNotUnlinking) {
		t.Errorf("taken back twice: %v", err)
	}
	w.service.ResetRequests()
	w.complete(w.run())
	w.adopted(customer)
	if n := len(w.bodies(http.MethodPut, "/api/customers")); n != 0 {
		t.Errorf("%d updates were sent", n)
	}
}

// A record that has left lets its customer go as well, and nobody else's create is in its way.
//
// covers F76
func TestARecordThatLeftLetsItsCustomerGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	id := w.payer("A1").BillingID
	w.books.putAs("A1", map[string]string{"No": "A1", "Name": "Northwind", "Email": "a@example.com", "Group": "other"})
	w.run()
	w.unlink()
	w.complete(w.run())
	if p := w.payer("A1"); p.BillingID != "" {
		t.Errorf("the payer is %+v", p)
	}
	if got := w.members(id); got["name"] != "Northwind" || w.byKey()["A1"].ID != "" {
		t.Errorf("the customer is %v, want all but its key", got)
	}
	if told := w.attention(); len(told) != 0 {
		t.Errorf("people are told of %v", told)
	}
}

// covers F76
func TestAnUpdateIsUndoneUntilTheRecordChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	id := w.payer("A1").BillingID
	before := w.members(id)
	w.books.put("A1", "Northwind GmbH", "b@example.com")
	w.complete(w.run())
	w.does(w.undo(connector.ActionUpdate))
	_, changes := w.plan()
	if len(changes) != 1 || changes[0].Action != connector.ActionUpdate || changes[0].Unlinks {
		t.Fatalf("the plan holds %+v, want one update", changes)
	}
	w.complete(w.run())
	if after := w.members(id); !reflect.DeepEqual(before, after) {
		t.Errorf("the customer is not as it was (-was +is):\n%s", cmp.Diff(before, after))
	}
	w.service.ResetRequests()
	w.complete(w.run())
	if n := len(w.bodies(http.MethodPut, "/api/customers")); n != 0 || len(w.attention()) != 0 {
		t.Errorf("a run after it sent %d updates, and people are told of %v", n, w.attention())
	}
	w.books.put("A1", "Northwind SE", "b@example.com")
	w.complete(w.run())
	if got := w.members(id)["name"]; got != "Northwind SE" {
		t.Errorf("the record changed, and its customer is called %q", got)
	}
	for action, want := range map[connector.Action]error{connector.ActionCreate: syncer.ErrNothingBefore,
		connector.ActionLink: syncer.ErrNothingBefore} {
		if err := w.undo(action); !errors.Is(err, want) {
			t.Errorf("undo of a %s: %v, want %v", action, err, want)
		}
	}
	if _, err := w.syncer.UndoOf(t.Context(), w.connection(), w.payer("A1"), 4711); !errors.Is(err, state.ErrNoChange) {
		t.Errorf("undo of no change: %v", err)
	}
}
