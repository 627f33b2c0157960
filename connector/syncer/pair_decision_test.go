package syncer_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// handmade is a customer that somebody entered by hand, as a look-alike of record A1.
const handmade = `{"name":"Northwind","externalData":{"crm":"77"},"custom":12345678901234567890}`

func (w *world) say(sourceID, billingID string, word state.PairVerdict) {
	w.t.Helper()
	if err := w.ledger.Do(w.t.Context(), func(tx *state.Tx) error {
		_, err := tx.SavePairDecision("acme", sourceID, billingID, word)
		return err
	}); err != nil {
		w.t.Fatalf("%s %s and %s: %v", word, sourceID, billingID, err)
	}
}

// likened is a world in which record A1 is held because it looks like the customer.
func likened(t *testing.T) (w *world, customer string) {
	t.Helper()
	w = newWorld(t)
	customer = w.add(handmade)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	if got := w.attention()["A1"]; got != string(connector.ReasonLikeness) {
		t.Fatalf("A1 is held for %q, want %q", got, connector.ReasonLikeness)
	}
	return w, customer
}

// adopted fails the test unless A1 is linked to the only customer, and that one has the key, the wanted
// values and all foreign values.
func (w *world) adopted(customer string) {
	w.t.Helper()
	c, _ := w.service.Customer(customer)
	if p := w.payer("A1"); p.BillingID != customer || p.LinkState != connector.LinkLinked || p.Applied == nil {
		w.t.Errorf("the payer is %+v, want linked to %s", p, customer)
	}
	if n := len(w.service.Customers()); n != 1 || c.ExternalData["customerNo"] != "A1" || c.ExternalData["crm"] != "77" ||
		!strings.Contains(string(c.Raw), "12345678901234567890") || !strings.Contains(string(c.Raw), "a@example.com") {
		w.t.Errorf("of %d customers the adopted one is %s", n, c.Raw)
	}
	if got := w.attention(); len(got) != 0 {
		w.t.Errorf("a person is told of %v", got)
	}
	if said, err := w.ledger.PairDecisions(w.t.Context(), "acme"); len(said) != 0 || err != nil {
		w.t.Errorf("after it was carried out, %v is said, %v", said, err)
	}
}

// covers F76
func TestAnAcceptedCustomerIsAdoptedByAPlanAndGetsItsKey(t *testing.T) {
	t.Parallel()
	w, customer := likened(t)
	w.service.ResetRequests()
	w.say("A1", customer, state.WordAccept)
	plan := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	if plan.Plan == nil || plan.Plan.Adopts != 1 || plan.Plan.Creates != 0 {
		t.Errorf("the plan is %+v, want one to adopt", plan.Plan)
	}
	if n := len(w.bodies(http.MethodPut, "/api/customers")); n != 0 {
		t.Errorf("a word and a plan sent %d updates", n)
	}
	if res := w.complete(w.run()); res.Counts.Adopted != 1 || res.Counts.LinksRequested != 1 {
		t.Errorf("counts = %+v, want one adopted, and a link", res.Counts)
	}
	w.adopted(customer)
	w.service.ResetRequests()
	w.complete(w.run())
	if n := len(w.service.Requests()); n != 0 {
		t.Errorf("the next run sent %d requests, want none", n)
	}
}

// A word says that a plan may be made. Above the limits it waits like any other.
//
// covers F74
func TestAPlanOfAcceptedCustomersWaitsAboveTheLimits(t *testing.T) {
	t.Parallel()
	w, customer := likened(t)
	w.syncer.Settings.Guards = syncer.Guards{MaxChanges: syncer.Limit{Count: 0}}
	w.say("A1", customer, state.WordAccept)
	if res := w.runWith(t.Context(),
		syncer.RunOptions{Kind: connector.RunSync}); res.Outcome != connector.RunAwaitingApproval {
		t.Errorf("outcome = %s, want that it waits", res.Outcome)
	}
	if c, _ := w.service.Customer(customer); c.ExternalData["customerNo"] != "" {
		t.Errorf("the customer got its key without approval: %s", c.Raw)
	}
}

// Between the update and the link, the customer is nobody's: no sweep misses the key on it,
// and the next run reads it before it sends anything.
//
// covers F03, F76
func TestAnAdoptionOnAWordThatGotNoAnswerIsFinishedByTheNextRun(t *testing.T) {
	t.Parallel()
	for _, kind := range []sandbox.FaultKind{sandbox.LostResponse, sandbox.LostRequest, sandbox.ErrorAfter,
		sandbox.ErrorBefore} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w, customer := likened(t)
			w.say("A1", customer, state.WordAccept)
			w.service.Inject(sandbox.Fault{Kind: kind, Method: http.MethodPut, Path: "/api/customers", Count: 2})
			w.run()
			w.restart()
			if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := w.attention()["A1"]; got != string(connector.ReasonOutcomeUnknown) && got != "" {
				t.Errorf("meanwhile A1 needs a person for %s", got)
			}
			w.complete(w.run())
			w.adopted(customer)
		})
	}
}

// covers F76
func TestAWordIsSpentWhenTheCustomerIsNotToBeHad(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		taken func(w *world, customer string) error
		want  connector.Reason
	}{
		{"another key", func(w *world, customer string) error {
			return w.service.Edit(customer, json.RawMessage(`{"name":"Northwind","externalData":{"customerNo":"Z9"}}`))
		}, connector.ReasonOtherKey},
		{"gone", func(w *world, customer string) error { return w.service.Delete(customer) },
			connector.ReasonCustomerMissing},
	}
	for _, when := range []string{"before the plan", "after the plan"} {
		for _, tt := range tests {
			t.Run(tt.name+" "+when, func(t *testing.T) {
				t.Parallel()
				w, customer := likened(t)
				w.say("A1", customer, state.WordAccept)
				if when == "after the plan" {
					w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
				}
				if err := tt.taken(w, customer); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					w.clock.advance(20 * time.Minute)
					w.run()
				}
				if got := w.attention()["A1"]; got != string(tt.want) {
					t.Errorf("A1 needs a person for %q, want %q", got, tt.want)
				}
				said, err := w.ledger.PairDecisions(t.Context(), "acme")
				if err != nil || len(said) != 1 || said[0].Word != state.WordSpent {
					t.Errorf("%v is said, %v; want that it is spent", said, err)
				}
				if n := len(w.bodies(http.MethodPost, "/api/customers")) + len(w.bodies(http.MethodPut, "/api/customers")); n != 0 {
					t.Errorf("%d requests were sent for it", n)
				}
				w.say("A1", customer, state.WordReject)
				if res := w.complete(w.run()); res.Counts.Created != 1 {
					t.Errorf("after it was rejected: %+v, want one created", res.Counts)
				}
			})
		}
	}
}

// covers F76
func TestARecordWhoseLookAlikesWereRejectedIsCreated(t *testing.T) {
	t.Parallel()
	w, customer := likened(t)
	w.say("A1", customer, state.WordReject)
	if res := w.complete(w.run()); res.Counts.Created != 1 || res.Counts.Held != 0 {
		t.Errorf("counts = %+v, want one created", res.Counts)
	}
	if p := w.payer("A1"); p.BillingID == customer || p.LinkState != connector.LinkLinked {
		t.Errorf("the payer is %+v", p)
	}
	if c, _ := w.service.Customer(customer); c.ExternalData["customerNo"] != "" {
		t.Errorf("the rejected customer was changed: %s", c.Raw)
	}
}

// A word that is said while a run is between its plan and its requests is in time.
//
// covers F76
func TestAWordThatComesAfterThePlanStopsItsCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	customer := w.add(`{"name":"North Wind & Co","externalData":{"crm":"77"},"custom":12345678901234567890}`)
	w.books.put("A1", "Northwind", "a@example.com")
	w.books.put("B1", "Southwind", "b@example.com")
	w.syncer.Settings.Guards = syncer.Guards{MaxCreates: 1}
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunSync, Approve: func(p state.Plan) (bool, error) {
		if p.Creates != 2 {
			t.Errorf("the plan is %+v, want two to create", p)
		}
		w.say("A1", customer, state.WordAccept)
		return true, nil
	}})
	w.complete(w.run())
	if n := len(w.bodies(http.MethodPost, "/api/customers")); n != 1 {
		t.Errorf("%d customers were made, want B1's alone", n)
	}
	if p := w.payer("A1"); p.BillingID != customer || p.LinkState != connector.LinkLinked {
		t.Errorf("the payer is %+v, want linked to %s", p, customer)
	}
}

// covers F03, F76
func TestAnAdoptionByKeyThatGotNoAnswerIsFinishedByTheNextRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	customer := w.add(`{"name":"Northwind Ltd.","people":[{"name":"Ann","email":"a@example.com"}],"externalData":{"customerNo":"A1","crm":"77"},"custom":12345678901234567890}`)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPut, Path: "/api/customers", Count: 2})
	w.run()
	w.restart()
	w.complete(w.run())
	w.adopted(customer)
}

// A customer that carries the record's key, and is not the record's by a person's word, is
// left alone until a person says otherwise.
//
// covers F76
func TestACustomerWithTheKeyThatWasRejectedIsAdoptedWhenAPersonSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	customer := w.add(`{"name":"Northwind","externalData":{"customerNo":"A1","crm":"77"},"custom":12345678901234567890}`)
	w.books.put("A1", "Northwind", "a@example.com")
	w.plan()
	w.say("A1", customer, state.WordReject)
	before := w.raw(customer)
	w.complete(w.run())
	if got := w.attention()["A1"]; got != string(connector.ReasonKeyDisputed) || w.raw(customer) != before ||
		len(w.service.Customers()) != 1 {
		t.Errorf("A1 needs a person for %q, and of %d customers this one is %s", got, len(w.service.Customers()),
			w.raw(customer))
	}
	h, err := w.syncer.HolderOf(t.Context(), w.connection(), w.payer("A1"))
	if err != nil || h.Customer != customer {
		t.Fatalf("the customer with the key is %q, %v", h.Customer, err)
	}
	w.does(w.syncer.Accept(t.Context(), h, ann))
	w.complete(w.run())
	w.adopted(customer)
}
