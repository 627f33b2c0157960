package syncer_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// ---- signing links ----

// covers F58
func TestALinkRequestWithoutAnAnswerIsNotMadeInALoop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPut, Path: linkPath, Count: 25})
	w.run()
	w.run()
	if n := w.linkRequests(); n > 3 {
		t.Errorf("%d requests for one signing link left in two runs, want 3 at most", n)
	}
}

// covers F58
func TestALinkRequestInItsPauseIsNotMadeByTheNextRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	failRead := false
	m.onRequest = func(string, connector.Mandate, error) (connector.Mandate, error) {
		failRead = true // the outage lasts a little longer than the request
		return connector.Mandate{}, unanswered("request mandate link")
	}
	m.onRead = func(id string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		c.Mandate = nil // nor does the service show that one was made
		if failRead {
			failRead = false
			return c, &connector.RemoteError{Op: "get customer", Fault: connector.FaultUnavailable}
		}
		return c, err
	}
	for range 8 {
		w.run()
	}
	if n := w.linkRequests(); n > 3 {
		t.Errorf("%d requests for one signing link left in eight runs, want 3 at most before a pause", n)
	}
}

// covers F50, F58, L4
func TestALostLinkRequestOfAPayerInConflictEndsWhenItsMandateIsSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	m.onRequest = func(string, connector.Mandate, error) (connector.Mandate, error) {
		return connector.Mandate{}, unanswered("request mandate link")
	}
	m.onRead = func(id string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		c.Mandate = nil // the mandate shows only later
		return c, err
	}
	w.run()
	m.onRead = nil
	id := w.payer("A1").BillingID
	if err := w.service.Edit(id, json.RawMessage(`{"name":"Northwind","externalData":{"customerNo":"X"}}`)); err != nil {
		t.Fatal(err)
	}
	if n := w.openLinks(); n != 1 {
		t.Fatalf("%d requests without an answer, want 1", n)
	}
	if _, err := w.syncer.Reconciler.Check(t.Context(), id, connector.CauseWebhook, "d1"); err != nil {
		t.Fatal(err)
	}
	w.books.putAs("A1", map[string]string{"No": "A1", "Name": "Northwind", "Group": "supplier"})
	w.complete(w.run())
	if p := w.payer("A1"); w.openLinks() != 0 || p.LinkState != connector.LinkConflict || w.linkRequests() != 1 {
		t.Errorf("%d requests are open, the payer is %s, %d requests left", w.openLinks(), p.LinkState, w.linkRequests())
	}
}

// covers F49, F58, L4
func TestALostLinkRequestOfAPayerInConflictIsGivenUpWhenALookShowsNoMandate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPut,
		Path: "/api/customers/*/directdebitmandates", Count: 1})
	w.run()
	copied := w.add(`{"name":"Copy","externalData":{"customerNo":"A1"}}`)
	w.sweep()
	w.books.putAs("A1", map[string]string{"No": "A1", "Name": "Northwind", "Group": "supplier"})
	w.run()
	if n := w.openLinks(); n != 0 {
		t.Errorf("%d requests without an answer, want none", n)
	}
	if err := w.service.Delete(copied); err != nil {
		t.Fatal(err)
	}
	w.sweep()
	w.sweep()
	w.books.put("A1", "Northwind", "a@example.com")
	w.run()
	w.complete(w.run())
	if m := w.byKey()["A1"].Mandates; len(m) != 1 {
		t.Errorf("the customer has %d mandates, want 1", len(m))
	}
}

// openLinks counts the requests for a signing link that have no answer.
func (w *world) openLinks() int {
	w.t.Helper()
	changes, err := w.ledger.Changes(context.Background(), "acme", state.LaneMandate, false, 0, 10)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(changes)
}

// Another process asked and the payer cancelled while the access token was renewed.
//
// covers F21, F58, S7
func TestNoLinkReplacesAMandateThatWasCancelledWhileTheTokenWasRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	m.onRequest = func(_ string, mandate connector.Mandate, _ error) (connector.Mandate, error) {
		if err := w.service.PayerCancel(mandate.ID); err != nil {
			t.Error(err)
		}
		return connector.Mandate{},
			&connector.RemoteError{Op: "request mandate link", Fault: connector.FaultUnauthorized,
				Err: connector.ErrTokenRenewed}
	}
	w.run()
	if n := w.linkRequests(); n != 1 {
		t.Errorf("%d requests for a signing link left, want 1", n)
	}
	if got := w.attention()["A1"]; got != string(connector.ReasonMandateCancelled) {
		t.Errorf("attention = %q, want mandate_cancelled", got)
	}
}

// covers F21
func TestARefusedTokenDelaysNoSigningLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	var revoke sync.Once
	m.onRead = func(_ string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		revoke.Do(w.service.RevokeTokens) // between the last look and the request
		return c, err
	}
	w.complete(w.run())
	if c := w.byKey()["A1"]; len(c.Mandates) != 1 || w.linkRequests() != 2 {
		t.Errorf("%d mandates after %d requests, want one after two", len(c.Mandates), w.linkRequests())
	}
}

// covers F32, F58
func TestTheSigningLinkIsKeptWhenAWebhooksReadOvertakesItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	m.onRequest = func(_ string, mandate connector.Mandate, err error) (connector.Mandate, error) {
		if _, again := w.syncer.Reconciler.Check(context.Background(), w.payer("A1").BillingID, connector.CauseWebhook,
			"d1"); again != nil {
			t.Error(again)
		}
		return mandate, err
	}
	w.run()
	link, err := w.ledger.SigningLink(t.Context(), w.payer("A1").MandateID)
	if err != nil || link == "" {
		t.Errorf("the ledger has no signing link of %s, %v; attention is %v", w.payer("A1").MandateID, err, w.attention())
	}
}

// covers F58, S7
func TestNoLinkReplacesACancelledMandateThatASweepSawDuringTheAdoption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.add(`{"name":"Northwind","externalData":{"customerNo":"A1"}}`)
	w.cancelledElsewhere(id)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	first := true
	m.onRead = func(_ string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		if first {
			first = false
			if _, again := w.syncer.Reconciler.Sweep(context.Background()); again != nil {
				t.Error(again)
			}
		}
		return c, err
	}
	// The name is kept as it is, so that no second read follows.
	w.mapping = strings.Replace(standardMapping, "mandate:", "own: [name]\nmandate:", 1)
	w.run()
	if n := w.linkRequests(); n != 0 {
		t.Errorf("%d signing links were asked for after a cancellation, want none", n)
	}
}

// covers F58, S7
func TestNoLinkReplacesACancelledMandateThatIsShownWithoutAnID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.add(`{"name":"Northwind","externalData":{"customerNo":"A1"}}`)
	w.cancelledElsewhere(id)
	m := meddle(w)
	bare := func(c connector.RemoteCustomer) connector.RemoteCustomer {
		if c.Mandate != nil {
			c.Mandate = &connector.Mandate{Status: c.Mandate.Status, CustomerID: c.ID}
		}
		return c
	}
	m.onRead = func(_ string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		return bare(c), err
	}
	m.onPage = func(page []connector.RemoteCustomer) []connector.RemoteCustomer {
		for i := range page {
			page[i] = bare(page[i])
		}
		return page
	}
	w.books.put("A1", "Northwind", "a@example.com")
	w.run()
	if n := w.linkRequests(); n != 0 {
		t.Errorf("%d signing links were asked for after a cancellation, want none", n)
	}
}

// covers F33, F58, S7
func TestNoLinkReplacesACancelledMandateOfWhichTheLedgerHasNotHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.mapping = strings.Replace(standardMapping, `customer.people[0].email != ""`, "false", 1)
	w.complete(w.run())
	w.cancelledElsewhere(w.payer("A1").BillingID) // its webhooks were lost, no sweep has run since
	w.mapping = standardMapping
	w.run()
	if n := w.linkRequests(); n != 0 {
		t.Errorf("%d signing links were asked for after a cancellation, want none", n)
	}
}

// A person asks for a link, and nobody knows whether the request made a mandate. A run
// does not ask once more before a look has told.
//
// covers F58
func TestAnOperatorsRequestWithoutAnAnswerIsLookedForBeforeTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	const none, all = `request: "false"`, `request: customer.people[0].email != ""`
	w.edit(all, none)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	m.onRequest = func(string, connector.Mandate, error) (connector.Mandate, error) {
		return connector.Mandate{}, unanswered("request mandate link")
	}
	p := w.payer("A1")
	if _, err := w.syncer.RequestLink(t.Context(), p, syncer.Operator{Name: "kim"}); err == nil {
		t.Fatal("the request counts as answered")
	}
	m.onRequest = nil
	w.edit(none, all)
	w.complete(w.run())
	if n := w.linkRequests(); n != 1 {
		t.Errorf("%d signing links were asked for, want the one", n)
	}
	if got := w.attention()["A1"]; got != string(connector.ReasonLinkLost) {
		t.Errorf("people are told %q, want link_lost", got)
	}
}

// covers F58, S7
func TestAnOperatorsRequestLooksFirstWhetherTheMandateWasCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	p := w.payer("A1")
	if err := w.service.PayerCancel(p.MandateID); err != nil { // the webhook is on its way
		t.Fatal(err)
	}
	if _, err := w.syncer.RequestLink(t.Context(), p, syncer.Operator{Name: "kim"}); !errors.Is(err,
		syncer.ErrReasonNeeded) {
		t.Errorf("err = %v, want ErrReasonNeeded; the payer has %d mandates", err, len(w.byKey()["A1"].Mandates))
	}
}

// Two people, or one who presses twice, ask for a new mandate of one payer at once: the service
// makes another mandate for each request, so that one of them is told and sends nothing.
//
// covers F58, S7
func TestOfTwoWhoAskAtOnceForANewMandateOneAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *sandbox.Options, _ *billing.Dialect) { o.Switches.LinkWhenCreated = "new" })
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	p := w.payer("A1")
	if err := w.service.PayerCancel(p.MandateID); err != nil {
		t.Fatal(err)
	}
	const people = 4
	told := make([]error, people)
	var group sync.WaitGroup
	for i := range people {
		group.Go(func() {
			_, told[i] = w.syncer.RequestLink(t.Context(), p, syncer.Operator{Name: "kim", Reason: "new bank account"})
		})
	}
	group.Wait()
	refused := 0
	for _, err := range told {
		switch {
		case errors.Is(err, syncer.ErrOtherMandate):
			refused++
		case err != nil:
			t.Error(err)
		}
	}
	if n := len(w.byKey()["A1"].Mandates); n != 2 || refused != people-1 {
		t.Errorf("the payer has %d mandates, and %d of %d were told; want 2 and %d", n, refused, people, people-1)
	}
	if _, err := w.syncer.RequestLink(t.Context(), p,
		syncer.Operator{Name: "kim", Reason: "new bank account"}); !errors.Is(err, syncer.ErrOtherMandate) {
		t.Errorf("later, of the mandate that was replaced: %v", err)
	}
}

// covers V1, V3
func TestAPayerWhoseCreateMadeAMandateIsNotLeftWithoutALinkInSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *sandbox.Options, _ *billing.Dialect) { o.Switches.CreateLink = "mandate" })
	w.books.put("A1", "Northwind", "a@example.com")
	w.run()
	w.run()
	link, err := w.ledger.SigningLink(t.Context(), w.payer("A1").MandateID)
	if err != nil {
		t.Fatal(err)
	}
	if link == "" && len(w.attention()) == 0 {
		t.Error("the payer waits for a signature, there is no signing link, and nobody is told")
	}
}
