package syncer_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// ---- poison records and stuck states ----

// covers F54, L5
func TestOneCustomerThatCannotBeReadBackDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	poison := ""
	m.onRead = func(id string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		if poison == "" {
			poison = id
		}
		if id == poison { // one record that the service fails to show
			return c, &connector.RemoteError{Op: "get customer", Fault: connector.FaultUnavailable, Status: 500}
		}
		return c, err
	}
	w.books.put("A1", "Northwind", "a@example.com")
	w.run()
	w.books.put("A2", "Southwind", "b@example.com")
	for range 3 {
		w.clock.advance(time.Hour)
		w.run()
	}
	if _, made := w.byKey()["A2"]; !made {
		t.Error("A2 was never created, because A1 cannot be read")
	}
}

// covers F54, L5
func TestAFewCreatesThatNeverGetAnAnswerDelayNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	m.onCreate = func(body []byte) error {
		if bytes.Contains(body, []byte("Poison")) {
			return unanswered("create customer")
		}
		return nil
	}
	for _, id := range []string{"P1", "P2", "P3", "P4", "P5", "P6"} {
		w.books.put(id, "Poison "+id, strings.ToLower(id)+"@example.com")
	}
	w.run()
	w.books.put("A2", "Southwind", "b@example.com")
	for range 3 {
		w.clock.advance(time.Hour)
		w.run()
	}
	if _, made := w.byKey()["A2"]; !made {
		t.Error("A2 was never created, because six others get no answer")
	}
}

// covers V1, V3
func TestACustomerThatIsNeverConfirmedIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	m.onRead = func(_ string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		c.ExternalData = nil
		return c, err
	}
	w.books.put("A1", "Northwind", "a@example.com")
	for range 3 {
		w.run()
		w.clock.advance(24 * time.Hour)
	}
	if p := w.payer("A1"); p.LinkState == connector.LinkCreating && len(w.attention()) == 0 {
		t.Error("after three days the payer is still creating, and nobody is told")
	}
}

// covers L1, F251
func TestACustomerTypedByHandForAnUnansweredCreateIsToldAndGetsOursOnAPersonsWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPost, Path: "/api/customers", Count: 2})
	w.run()
	w.add(`{"name":"Typed By Hand","externalData":{"customerNo":"A1"}}`)
	w.clock.advance(time.Hour)
	w.run()
	w.run()
	if got := w.byKey()["A1"].Name; got != "Typed By Hand" {
		t.Errorf("the linked customer is called %q by now", got)
	}
	if got := w.attention()["A1"]; got != string(connector.ReasonForeignChange) {
		t.Errorf("told %q, want foreign_change", got)
	}
	w.retry("A1")
	w.complete(w.run())
	if got := w.byKey()["A1"].Name; got != "Northwind" {
		t.Errorf("after a person's word the linked customer is called %q, want Northwind", got)
	}
}

// Whether the create took effect nobody ever learns: the customers with its key are
// deleted. What is made then is made with the same bytes, and brought up to date.
//
// covers F06, F49, S3
func TestACreateWhoseKeyWasDoubledBeforeItWasAnsweredKeepsItsBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPost, Path: "/api/customers", Count: 2})
	w.run()
	ids := []string{
		w.add(`{"name":"Typed By Hand","externalData":{"customerNo":"A1"}}`),
		w.add(`{"name":"Typed Again","externalData":{"customerNo":"A1"}}`),
	}
	w.clock.advance(time.Hour)
	w.run()
	if got := w.attention()["A1"]; got != string(connector.ReasonKeyDoubled) {
		t.Fatalf("attention = %q, want key_doubled", got)
	}
	for _, id := range ids {
		if err := w.service.Delete(id); err != nil {
			t.Fatal(err)
		}
		w.clock.advance(time.Hour)
		w.sweep()
		w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan}) // plans to adopt the second, while that is there
	}
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	w.clock.advance(25 * time.Hour)
	w.run()
	w.complete(w.run())
	bodies := w.bodies(http.MethodPost, "/api/customers")
	for _, b := range bodies {
		if !bytes.Equal(b, bodies[0]) {
			t.Errorf("other bytes were sent:\n%s\n%s", bodies[0], b)
		}
	}
	if c := w.byKey(); len(c) != 1 || c["A1"].Name != "Northwind Ltd" {
		t.Errorf("customers = %+v, want one, with the newest name", c)
	}
}

// covers F36, F64, S4
func TestAnUnansweredCreateWaitsAfterARestoreAlsoWhenItsTimeLiesAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPost, Path: "/api/customers", Count: 2})
	w.run()
	w.clock.advance(-5 * time.Minute) // the clock was ahead, and is set back
	if err := w.ledger.Do(t.Context(), (*state.Tx).MarkRestored); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(10 * time.Minute)
	w.service.ResetRequests()
	w.run()
	if n := len(w.bodies(http.MethodPost, "/api/customers")); n != 0 {
		t.Errorf("%d creates were sent ten minutes after the restore, want none", n)
	}
	w.clock.advance(48 * time.Hour)
	w.run()
	w.complete(w.run())
}

// covers F49
func TestAnUnansweredUpdateIsNotSentWhileTheKeyIsDoubled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPut, Path: "/api/customers", Count: 2})
	w.run()
	w.add(`{"name":"Copy","externalData":{"customerNo":"A1"}}`)
	w.sweep()
	if p := w.payer("A1"); p.LinkState != connector.LinkConflict {
		t.Fatalf("the payer is %s, want conflict", p.LinkState)
	}
	w.service.ResetRequests()
	w.run()
	if n := len(w.bodies(http.MethodPut, "/api/customers")); n != 0 {
		t.Errorf("%d updates were sent for a key that two customers carry, want none", n)
	}
}

// covers F43
func TestAnUpdateOfACustomerThatIsGoneByThenMarksItMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	w.clock.advance(20 * time.Minute)
	m.onUpdate = func(id string) {
		if err := w.service.Delete(id); err != nil {
			t.Error(err)
		}
	}
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	w.run()
	if got := w.attention()["A1"]; got != string(connector.ReasonCustomerMissing) {
		t.Errorf("attention = %q and the payer is %s, want customer_missing", got, w.payer("A1").LinkState)
	}
}

// ---- outcomes ----

// covers F79, V2
func TestARunThatVoidedAChangeForTheNextRunIsNotComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.add(`{"name":"Northwind","externalData":{"customerNo":"A1"}}`)
	w.books.put("A1", "Northwind", "a@example.com")
	res := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunSync, Progress: func(p syncer.Progress) {
		if p.Stage == "plan" {
			_ = w.service.Delete(id) // a colleague removes it between the plan and its application
		}
	}})
	if res.Outcome == connector.RunComplete {
		t.Errorf("the run is complete with %+v, although the next one has a customer to create", res.Counts)
	}
}
