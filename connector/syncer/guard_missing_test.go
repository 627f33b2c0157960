package syncer_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
)

// answers gives other answers than the service would, where set.
type answers struct {
	syncer.Billing
	read   func(id string) error
	create func() (c connector.RemoteCustomer, given bool, err error)
}

func (a *answers) Customer(ctx context.Context, id string) (connector.RemoteCustomer, error) {
	if a.read != nil {
		if err := a.read(id); err != nil {
			return connector.RemoteCustomer{}, err
		}
	}
	return a.Billing.Customer(ctx, id)
}

func (a *answers) CreateCustomer(ctx context.Context, body []byte) (connector.RemoteCustomer, error) {
	if a.create != nil {
		if c, given, err := a.create(); given {
			return c, err
		}
	}
	return a.Billing.CreateCustomer(ctx, body)
}

func (w *world) answer(a *answers) {
	a.Billing = w.billing
	w.syncer.Billing, w.syncer.Reconciler.Billing = a, a
}

// unread makes a customer that no read can show.
func unread(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodGet, Path: "/api/customers/*"})
	w.run()
	w.service.ClearFaults()
	return w
}

// lostAndMistaken makes a create: its first sending has no answer, and its second is answered with another
// record's customer.
func lostAndMistaken(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	n := 0
	w.answer(&answers{create: func() (connector.RemoteCustomer, bool, error) {
		n++
		switch n {
		case 1:
			return connector.RemoteCustomer{}, true, &connector.RemoteError{Fault: connector.FaultUnknown}
		case 2:
			return connector.RemoteCustomer{ID: "x", ExternalData: map[string]string{"customerNo": "ZZ"}}, true, nil
		}
		return connector.RemoteCustomer{}, false, nil
	}})
	w.run()
	if got := w.attention()["A1"]; got != string(connector.ReasonAnswerMismatch) {
		t.Fatalf("attention = %q, want answer_mismatch", got)
	}
	return w
}

// covers F08, F43
func TestACustomerThatGoesBeforeItWasEverReadIsToldAndKeepsNoRunIncomplete(t *testing.T) {
	t.Parallel()
	w := unread(t)
	if err := w.service.Delete(w.payer("A1").BillingID); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Hour)
	w.sweep()
	w.run()
	w.complete(w.run())
	if got := w.attention()["A1"]; got != string(connector.ReasonCustomerMissing) {
		t.Errorf("attention = %q, want customer_missing", got)
	}
	w.books.putAs("A1", map[string]string{"No": "A1", "Name": "Northwind", "Group": "supplier"})
	w.books.putAs("R2", map[string]string{"No": "A1", "Name": "Southwind", "Email": "s@example.com", "Postcode": "LS1 4AP",
		"Group": "payer"})
	w.run()
	w.complete(w.run())
	if p := w.payer("R2"); p.LinkState != connector.LinkLinked {
		t.Errorf("the next with its key is %s (%v), want it linked", p.LinkState, w.attention())
	}
}

// covers F43, L1
func TestAnEditMadeWhileANewCustomerCouldNotBeReadIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	gone := true
	w.answer(&answers{read: func(string) error {
		if gone {
			return &connector.RemoteError{Fault: connector.FaultNotFound, Status: http.StatusNotFound}
		}
		return nil
	}})
	w.run()
	w.clock.advance(6 * time.Minute)
	w.run()
	w.books.put("A1", "Southwind", "a@example.com")
	w.run()
	gone = false
	w.run()
	w.complete(w.run())
	if got := w.byKey()["A1"].Name; got != "Southwind" || len(w.attention()) != 0 {
		t.Errorf("the customer is called %q, attention %v", got, w.attention())
	}
}

// covers F07, L1
func TestACreateThatWasClosedIsMadeAnewWhenItsFirstSendingCanArriveNoMore(t *testing.T) {
	t.Parallel()
	w := lostAndMistaken(t)
	w.clock.advance(time.Minute)
	w.retry("A1")
	if res := w.run(); res.Outcome != connector.RunIncomplete || len(w.byKey()) != 0 {
		t.Errorf("the run while it may arrive is %s, customers %v", res.Outcome, w.byKey())
	}
	w.clock.advance(time.Hour)
	w.run()
	w.complete(w.run())
	if len(w.byKey()) != 1 || len(w.attention()) != 0 {
		t.Errorf("customers %v, attention %v; want one and none", w.byKey(), w.attention())
	}
}

// covers F07, F48
func TestARecordThatWaitsForItsCreateFailsNobodyElse(t *testing.T) {
	t.Parallel()
	w := lostAndMistaken(t)
	w.clock.advance(time.Minute)
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	w.run()
	w.books.putAs("A1", map[string]string{"No": "A1", "Name": "Northwind", "Group": "supplier"})
	w.books.putAs("R2", map[string]string{"No": "A1", "Name": "Southwind", "Email": "s@example.com", "Postcode": "LS1 4AP",
		"Group": "payer"})
	w.books.put("Z9", "Other", "z@example.com")
	w.run()
	w.clock.advance(time.Hour)
	w.run()
	w.complete(w.run())
	if c := w.byKey(); len(c) != 2 || c["A1"].Name != "Southwind" || c["Z9"].Name != "Other" {
		t.Errorf("customers %v, want the two that are asked for", c)
	}
}

// covers F04, F10
func TestAnUpdateThatArrivesLateIsLookedForWithoutASweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.renameTwiceTheFirstLate()
	w.clock.advance(time.Hour)
	w.run()
	w.complete(w.run())
	if got := w.byKey()["A1"].Name; got != "Second" {
		t.Errorf("the customer is called %q, want Second", got)
	}
}

// covers F44
func TestNothingIsTakenUpForARecordThatHasLeft(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		path string
		edit bool
		told connector.Reason
	}{
		"a request for a link": {"/api/customers/*/directdebitmandates", false, connector.ReasonRecordGone},
		"an update":            {"/api/customers", true, connector.ReasonLeftWithMandate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.books.put("A1", "Northwind", "a@example.com")
			if fault.edit {
				w.complete(w.run())
				w.books.put("A1", "Southwind", "a@example.com")
			}
			w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPut, Path: fault.path})
			w.run()
			w.service.ClearFaults()
			w.books.set(connector.Record{SourceID: "A1", State: connector.RecordArchived, Data: []byte("{}")})
			w.service.ResetRequests()
			w.complete(w.run())
			if left := slices.DeleteFunc(w.service.Requests(),
				func(r sandbox.Request) bool { return r.Method == http.MethodGet }); len(left) != 0 {
				t.Errorf("sent %v for a record that is archived", left)
			}
			if got := w.attention()["A1"]; got != string(fault.told) {
				t.Errorf("attention = %q, want %s", got, fault.told)
			}
		})
	}
}
