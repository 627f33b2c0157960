package syncer_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// move says on a person's word that a payer's customer is to be a record's.
func (w *world) move(from, record string) error {
	w.t.Helper()
	m, err := w.syncer.MoveOf(w.t.Context(), w.connection(), w.payer(from), record)
	if err != nil {
		return err
	}
	return w.syncer.SayMove(w.t.Context(), m, syncer.Operator{Name: "Ann", Reason: "renumbered"})
}

// covers F48
func TestARenumberedRecordKeepsItsCustomerAndMandateWhenAPersonSaysSo(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]*sandbox.Fault{
		"as it should be": nil,
		"a lost answer":   {Kind: sandbox.LostResponse, Method: http.MethodPut, Path: "/api/customers", Count: 2},
		"a lost request":  {Kind: sandbox.LostRequest, Method: http.MethodPut, Path: "/api/customers", Count: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.books.put("A1", "Northwind", "a@example.com")
			w.complete(w.run())
			before := w.payer("A1")
			w.books.putAs("A1", map[string]string{"No": "N7", "Name": "Northwind", "Email": "a@example.com",
				"Postcode": "LS1 4AP", "Group": "payer"})
			w.run()
			if diff := cmp.Diff(map[string]string{"A1": string(connector.ReasonKeyChanged)}, w.attention()); diff != "" {
				t.Fatalf("people are told (-want +got):\n%s", diff)
			}
			m, err := w.syncer.MoveOf(t.Context(), w.connection(), w.payer("A1"), "A1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]connector.FieldChange{{Path: "externalData.customerNo", From: "A1", To: "N7"}},
				m.Diff); diff != "" {
				t.Errorf("the move shows (-want +got):\n%s", diff)
			}
			if err := w.move("A1", "A1"); err != nil {
				t.Fatal(err)
			}
			if fault != nil {
				w.service.Inject(*fault)
				w.run()
				w.restart()
			}
			w.complete(w.run())
			w.complete(w.run())
			after := w.payer("A1")
			if after.BillingID != before.BillingID || after.MandateID != before.MandateID || after.Key.Value != "N7" ||
				after.LinkState != connector.LinkLinked {
				t.Errorf("the payer was %+v and is %+v", before, after)
			}
			if got := w.byKey(); len(got) != 1 || got["N7"].ID != before.BillingID {
				t.Errorf("the customers are %v", got)
			}
			if told := w.attention(); len(told) != 0 {
				t.Errorf("people are told of %v", told)
			}
			if err := w.move("A1", "A1"); !errors.Is(err, syncer.ErrNothingToMove) {
				t.Errorf("a move to where it is: %v", err)
			}
		})
	}
}

// covers F48
func TestARecordThatCameBackAsAnotherOneTakesItsCustomerAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.books.put("B1", "Southwind", "b@example.com")
	w.complete(w.run())
	before := w.payer("A1")
	w.books.put("N7", "Northwind Ltd", "a@example.com")
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	if err := w.move("A1", "N7"); !errors.Is(err, state.ErrInTheBooks) {
		t.Errorf("while both are in the books: %v", err)
	}
	w.books.set(connector.Record{SourceID: "A1", State: connector.RecordArchived})
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	if err := w.move("B1", "A1"); !errors.Is(err, syncer.ErrNotSent) {
		t.Errorf("to a record that is gone: %v", err)
	}
	if err := w.move("A1", "N7"); err != nil {
		t.Fatal(err)
	}
	w.complete(w.run())
	w.complete(w.run())
	after := w.payer("N7")
	if after.BillingID != before.BillingID || after.MandateID != before.MandateID || after.Key.Value != "N7" ||
		after.LinkState != connector.LinkLinked {
		t.Errorf("the payer was %+v and is %+v", before, after)
	}
	if got := w.byKey(); len(got) != 2 || got["N7"].ID != before.BillingID {
		t.Errorf("the customers are %v", got)
	}
	if c, _ := w.service.Customer(before.BillingID); c.Name != "Northwind Ltd" {
		t.Errorf("the customer is called %q", c.Name)
	}
	if old := w.payer("A1"); old.BillingID != "" || old.MandateID != "" || old.Applied != nil {
		t.Errorf("the old payer is %+v", old)
	}
	if told := w.attention(); len(told) != 0 {
		t.Errorf("people are told of %v", told)
	}
	if err := w.move("N7", "B1"); !errors.Is(err, state.ErrInTheBooks) {
		t.Errorf("to a record that has its own customer: %v", err)
	}
}

// covers F48
func TestAKeyThatSomebodyElseHasIsNotWrittenByAMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	before := w.payer("A1")
	w.books.putAs("A1", map[string]string{"No": "N7", "Name": "Northwind", "Email": "a@example.com", "Group": "payer"})
	w.run()
	if err := w.move("A1", "A1"); err != nil {
		t.Fatal(err)
	}
	stranger := w.add(`{"name":"Eastwind","externalData":{"customerNo":"N7"}}`)
	if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	was := w.raw(before.BillingID)
	w.run()
	if now := w.raw(before.BillingID); now != was {
		t.Errorf("the customer was\n%s\nand is\n%s", was, now)
	}
	w.sweep() // which shows the customer with the key that it still has
	if diff := cmp.Diff(map[string]string{"A1": string(connector.ReasonKeyDoubled)}, w.attention()); diff != "" {
		t.Errorf("people are told (-want +got):\n%s", diff)
	}
	if err := w.service.Edit(stranger, []byte(`{"name":"Eastwind","externalData":{"customerNo":"E1"}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.complete(w.run())
	if p := w.payer("A1"); p.Key.Value != "N7" || p.BillingID != before.BillingID {
		t.Errorf("the payer is %+v", p)
	}
}

// Nothing that was asked for the customer which was handed over counts for the next one.
//
// covers F48
func TestARecordThatComesBackAfterItsCustomerWasMovedGetsACustomerAndALinkOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	moved := w.payer("A1").BillingID
	w.books.set(connector.Record{SourceID: "A1", State: connector.RecordArchived})
	w.books.put("N7", "Eastwind", "n@example.com")
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	if err := w.move("A1", "N7"); err != nil {
		t.Fatal(err)
	}
	w.complete(w.run())
	// the bytes of its first create would be answered with that customer
	w.books.put("A1", "Northwind & Daughters", "a@example.com")
	w.complete(w.run())
	w.complete(w.run())
	p := w.payer("A1")
	if p.BillingID == "" || p.BillingID == moved || p.MandateID == "" {
		t.Errorf("the payer is %+v, want a customer and a mandate of its own; people are told of %v", p, w.attention())
	}
	if other := w.payer("N7"); other.BillingID != moved {
		t.Errorf("the other payer is %+v", other)
	}
}
