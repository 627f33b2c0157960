package syncer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/reconcile"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// meddler stands between the connector and the service and lets a test act at
// one point of a call, as another process, a colleague or the network would.
type meddler struct {
	*billing.Client

	mu         sync.Mutex
	askInstead bool // onRequest answers, and no request for a signing link leaves
	asked      int  // requests for a signing link

	onRead    func(id string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) // after the answer to a GET
	onCreate  func(body []byte) error                                                                  // instead of the answer, when it is not nil
	onAnswer  func(*connector.RemoteCustomer)                                                          // changes the answer to a create
	onMade    func()                                                                                   // after the answer to a create
	onUpdate  func(id string)                                                                          // before a PUT
	onRequest func(id string, m connector.Mandate, err error) (connector.Mandate, error)               // after the answer with a signing link
	onPage    func([]connector.RemoteCustomer) []connector.RemoteCustomer                              // of the list
	onSearch  func([]connector.RemoteCustomer) []connector.RemoteCustomer                              // what a search found
}

// meddle puts a meddler into the world.
func meddle(w *world) *meddler {
	m := &meddler{Client: w.billing}
	w.syncer.Billing, w.syncer.Reconciler.Billing = m, m
	return m
}

func (m *meddler) Customer(ctx context.Context, id string) (connector.RemoteCustomer, error) {
	c, err := m.Client.Customer(ctx, id)
	m.mu.Lock()
	hook := m.onRead
	m.mu.Unlock()
	if hook == nil {
		return c, err
	}
	return hook(id, c, err)
}

func (m *meddler) Customers(ctx context.Context) iter.Seq2[[]connector.RemoteCustomer, error] {
	return func(yield func([]connector.RemoteCustomer, error) bool) {
		for page, err := range m.Client.Customers(ctx) {
			if m.onPage != nil {
				page = m.onPage(page)
			}
			if !yield(page, err) {
				return
			}
		}
	}
}

func (m *meddler) SearchCustomers(ctx context.Context, text string) ([]connector.RemoteCustomer, error) {
	hits, err := m.Client.SearchCustomers(ctx, text)
	if m.onSearch != nil {
		hits = m.onSearch(hits)
	}
	return hits, err
}

func (m *meddler) CreateCustomer(ctx context.Context, body []byte) (connector.RemoteCustomer, error) {
	if m.onCreate != nil {
		if err := m.onCreate(body); err != nil {
			return connector.RemoteCustomer{}, err
		}
	}
	c, err := m.Client.CreateCustomer(ctx, body)
	if err == nil && m.onMade != nil {
		m.onMade()
	}
	if err == nil && m.onAnswer != nil {
		m.onAnswer(&c)
	}
	return c, err
}

func (m *meddler) UpdateCustomer(ctx context.Context, id string, body []byte) error {
	if m.onUpdate != nil {
		m.onUpdate(id)
	}
	return m.Client.UpdateCustomer(ctx, id, body)
}

func (m *meddler) RequestMandateLink(ctx context.Context, id string) (connector.Mandate, error) {
	m.mu.Lock()
	m.asked++
	m.mu.Unlock()
	if m.askInstead {
		return m.onRequest(id, connector.Mandate{}, nil)
	}
	mandate, err := m.Client.RequestMandateLink(ctx, id)
	if m.onRequest == nil {
		return mandate, err
	}
	return m.onRequest(id, mandate, err)
}

const linkPath = "/api/customers/*/directdebitmandates"

// linkRequests counts the requests for a signing link that left.
func (w *world) linkRequests() (n int) {
	for _, r := range w.service.Requests() {
		if r.Method == http.MethodPut && strings.HasSuffix(r.Path, "/directdebitmandates") {
			n++
		}
	}
	return n
}

func (w *world) add(raw string) string {
	w.t.Helper()
	id, err := w.service.Add(json.RawMessage(raw))
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// cancelledElsewhere makes a mandate for a customer at the service's console and lets the
// payer cancel it; the connector is told nothing.
func (w *world) cancelledElsewhere(id string) {
	w.t.Helper()
	m, err := w.billing.RequestMandateLink(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.service.PayerCancel(m.ID); err != nil {
		w.t.Fatal(err)
	}
	w.service.ResetRequests()
}

func unanswered(op string) error {
	return &connector.RemoteError{Op: op, Fault: connector.FaultUnknown, Detail: "no usable answer came"}
}

// ---- two live customers for one key ----

// covers F43, S1, S4, S17
func TestOneNotFoundDoesNotTurnAnAdoptionIntoACreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(`{"name":"Old Name","externalData":{"customerNo":"A1"}}`)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusNotFound, Method: http.MethodGet, Path: "/api/customers/*", Count: 1})
	w.run()
	w.run()
	if n := len(w.service.Customers()); n != 1 {
		t.Errorf("%d customers live, want the one that was listed all along", n)
	}
	w.byKey()
}

// covers F03, S1, S3
func TestARefusedReplayDoesNotProveThatTheFirstAttemptMadeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPost, Path: "/api/customers", Count: 1})
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusConflict, Method: http.MethodPost, Path: "/api/customers", Count: 1})
	w.run()
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	w.clock.advance(5 * time.Minute)
	w.run()
	w.byKey()
}

// covers F04, F06, S1
func TestListsFromBeforeALateArrivalDoNotAllowASecondCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *sandbox.Options, _ *billing.Dialect) { o.Switches.HashMemory = 10 * time.Minute })
	w.books.put("A1", "Northwind", "a@example.com")
	// The first attempt is under way for five minutes, the second never leaves.
	w.service.Inject(sandbox.Fault{Kind: sandbox.Late, Delay: 5 * time.Minute, Method: http.MethodPost, Path: "/api/customers", Count: 1})
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPost, Path: "/api/customers", Count: 1})
	w.run()
	for range 2 { // two scheduled sweeps agree, before the late request arrives
		w.clock.advance(time.Minute)
		w.sweep()
	}
	w.clock.advance(5 * time.Minute)
	if n := len(w.service.Customers()); n != 1 { // the late request has arrived
		t.Fatalf("%d customers, want 1", n)
	}
	w.clock.advance(15 * time.Minute)
	w.run()
	w.byKey()
}

// covers F06, S1
func TestAServiceThatForgetsAtOnceStillGetsOneCustomer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *sandbox.Options, _ *billing.Dialect) { o.Switches.HashMemory = -1 })
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPost, Path: "/api/customers", Count: 1})
	w.run()
	w.run()
	w.byKey()
}

// covers F06, S1
func TestAReplayLooksAtTheIndexThatAlreadyShowsTheCustomer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *sandbox.Options, _ *billing.Dialect) { o.Switches.HashMemory = time.Minute })
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPost, Path: "/api/customers", Count: 2})
	w.run()
	w.clock.advance(5 * time.Minute)
	w.sweep() // it lists the customer with its key
	w.run()
	w.byKey()
}

// covers F48, S1
func TestTwoRecordsWithOneKeyAreHeldAlsoAfterAnInterruptedPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.putAs("R1", map[string]string{"No": "SAME", "Name": "First", "Group": "payer"})
	w.books.putAs("R2", map[string]string{"No": "SAME", "Name": "Second", "Group": "payer"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.runWith(ctx, syncer.Options{Kind: connector.RunSync, Progress: func(p syncer.Progress) {
		if p.Stage == "plan" {
			cancel() // the process is stopped between two commits of the plan
		}
	}})
	w.restart()
	res := w.run()
	if n := len(w.service.Customers()); n != 0 || res.Counts.Held != 2 {
		t.Errorf("%d customers were made, counts %+v; want none and both held", n, res.Counts)
	}
}

// covers F17, F43, L1
func TestAFailedReadBackHidesNothingThatAnotherProcessFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	m.onRead = func(id string, c connector.RemoteCustomer, _ error) (connector.RemoteCustomer, error) {
		ticket, err := w.ledger.Ticket(context.Background()) // the other process reads a moment later, and gets an answer
		if err != nil {
			t.Error(err)
		}
		p := w.payer("A1")
		w.clock.advance(20 * time.Minute)
		if err := w.ledger.Do(context.Background(), func(tx *state.Tx) error { return reconcile.Missing(tx, p, ticket) }); err != nil {
			t.Error(err)
		}
		return c, &connector.RemoteError{Op: "get customer", Fault: connector.FaultUnavailable}
	}
	w.run()
	if got := w.attention()["A1"]; got != string(connector.ReasonCustomerMissing) {
		t.Errorf("attention = %q, want customer_missing", got)
	}
}

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
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPut, Path: "/api/customers/*/directdebitmandates", Count: 1})
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
		return connector.Mandate{}, &connector.RemoteError{Op: "request mandate link", Fault: connector.FaultUnauthorized, Err: connector.ErrTokenRenewed}
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
		if _, again := w.syncer.Reconciler.Check(context.Background(), w.payer("A1").BillingID, connector.CauseWebhook, "d1"); again != nil {
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
	if _, err := w.syncer.RequestLink(t.Context(), p, syncer.Operator{Name: "kim"}); !errors.Is(err, syncer.ErrReasonNeeded) {
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
	if _, err := w.syncer.RequestLink(t.Context(), p, syncer.Operator{Name: "kim", Reason: "new bank account"}); !errors.Is(err, syncer.ErrOtherMandate) {
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
		w.add(`{"name":"Typed By Hand","externalData":{"customerNo":"A1"}}`), w.add(`{"name":"Typed Again","externalData":{"customerNo":"A1"}}`),
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
		w.runWith(t.Context(), syncer.Options{Kind: connector.RunPlan}) // plans to adopt the second, while that is there
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
	res := w.runWith(t.Context(), syncer.Options{Kind: connector.RunSync, Progress: func(p syncer.Progress) {
		if p.Stage == "plan" {
			_ = w.service.Delete(id) // a colleague removes it between the plan and its application
		}
	}})
	if res.Outcome == connector.RunComplete {
		t.Errorf("the run is complete with %+v, although the next one has a customer to create", res.Counts)
	}
}

// covers F79, V2
func TestARunOfAnIncrementalSourceCountsWhatEarlierRunsLeftFrozen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.mapping = strings.Replace(standardMapping, `customer.people[0].email != ""`, "false", 1)
	w.books.put("A1", "Northwind", "a@example.com")
	m.onCreate = func([]byte) error {
		return &connector.RemoteError{Op: "create customer", Fault: connector.FaultUnavailable, Detail: "nothing was sent"}
	}
	w.changesRun()
	w.nothingChanged()
	w.clock.advance(time.Hour)
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Method: http.MethodGet, Path: "/api/customers"})
	res := w.changesRun()
	if res.Outcome == connector.RunComplete {
		t.Errorf("the run is complete with %+v, although a create is frozen and unsent", res.Counts)
	}
}

// covers F79, V2
func TestARunThatSentOnlyAnOlderCreateOfAnUnreadRecordIsNotComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	m.onCreate = func([]byte) error { return unanswered("create customer") }
	w.changesRun()
	w.nothingChanged()
	w.edit("name: trim(Name)\n  people:", "name: upper(Name)\n  people:")
	m.onCreate = nil
	w.clock.advance(time.Hour)
	w.service.Inject(sandbox.Fault{Kind: sandbox.EmptyBody, Method: http.MethodGet, Path: "/api/customers", Count: 1}) // so it is sent after the plan
	if res := w.changesRun(); res.Outcome == connector.RunComplete {
		t.Errorf("the run is complete with %+v, although the customer was made by the mapping before", res.Counts)
	}
	w.complete(w.changesRun())
	if got := w.byKey()["A1"].Name; got != "NORTHWIND" {
		t.Errorf("name = %q, want NORTHWIND", got)
	}
}

// changesRun makes a run of a source that gives only what changed.
func (w *world) changesRun() syncer.Result {
	w.t.Helper()
	conn := w.connection()
	conn.Info.Snapshot = false
	res, err := w.syncer.Run(context.Background(), conn, syncer.Options{Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test"})
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// nothingChanged makes the books of a source that gives only what changed empty.
func (w *world) nothingChanged() {
	w.books.mu.Lock()
	defer w.books.mu.Unlock()
	w.books.records = nil
}

// covers V3
func TestASharedKeyKeepsItsAge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.putAs("R1", map[string]string{"No": "SAME", "Name": "First", "Group": "payer"})
	w.books.putAs("R2", map[string]string{"No": "SAME", "Name": "Second", "Group": "payer"})
	w.run()
	before, err := w.ledger.AttentionOf(t.Context(), "acme", "R1")
	if err != nil {
		t.Fatal(err)
	}
	w.clock.advance(24 * time.Hour)
	w.run()
	after, err := w.ledger.AttentionOf(t.Context(), "acme", "R1")
	if err != nil {
		t.Fatal(err)
	}
	if len(before) != 1 || len(after) != 1 || before[0].Since != after[0].Since {
		t.Errorf("attention was %+v and is %+v, want the same age", before, after)
	}
}

// covers F49
func TestAnAdoptionStopsWhenTheKeyWasDoubledSinceThePlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(`{"name":"Old Name","externalData":{"customerNo":"A1"}}`)
	w.books.put("A1", "Northwind", "a@example.com")
	w.runWith(t.Context(), syncer.Options{Kind: connector.RunSync, Progress: func(p syncer.Progress) {
		if p.Stage == "plan" { // a colleague copies the customer, and the sweep sees it
			w.add(`{"name":"Copy","externalData":{"customerNo":"A1"}}`)
			if _, err := w.syncer.Reconciler.Sweep(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}})
	if n := len(w.bodies(http.MethodPut, "/api/customers")); n != 0 || w.payer("A1").LinkState == connector.LinkLinked {
		t.Errorf("%d updates were sent and the payer is %s, want none and conflict", n, w.payer("A1").LinkState)
	}
}

// covers F49
func TestNoUpdateIsSentForAKeyThatTheIndexShowsTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	w.add(`{"name":"Copy","externalData":{"customerNo":"A1"}}`)
	w.books.put("A1", "Northwind Ltd", "a@example.com")
	w.books.put("A2", "Southwind", "b@example.com") // makes this very run read the list
	w.clock.advance(time.Hour)
	w.run()
	if n := len(w.bodies(http.MethodPut, "/api/customers")); n != 0 {
		t.Errorf("%d updates were sent for a key that two customers carry, want none", n)
	}
}

// covers F74, G20
func TestLinksLeftOverFromPermittedCreatesNeedNoApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(20) // as many as the limits allow
	w.service.Inject(sandbox.Fault{Kind: sandbox.Throttled, Method: http.MethodPut, Path: linkPath, Count: 40})
	if res := w.runWith(t.Context(), syncer.Options{Kind: connector.RunSync}); res.Counts.Created != 20 {
		t.Fatalf("counts = %+v, want 20 created without approval", res.Counts)
	}
	w.service.ClearFaults()
	w.clock.advance(time.Hour)
	if res := w.runWith(t.Context(), syncer.Options{Kind: connector.RunSync}); res.Outcome != connector.RunComplete {
		t.Errorf("outcome %s (%s), want the links of the permitted creates asked for", res.Outcome, res.Plan.Limits)
	}
}

// covers F50, L5
func TestAKeyPutBackWhileAnotherRecordCreatesItBreaksNoSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	id := w.payer("A1").BillingID
	before, _ := w.service.Customer(id)
	if err := w.service.Edit(id, json.RawMessage(`{"name":"Northwind"}`)); err != nil { // the key is removed
		t.Fatal(err)
	}
	w.sweep()
	w.books.putAs("A1", map[string]string{"No": "A1", "Name": "Northwind", "Group": "supplier"}) // no payer any more
	w.books.putAs("R2", map[string]string{"No": "A1", "Name": "Other Person", "Group": "payer"})
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPost, Path: "/api/customers", Count: 2})
	w.run()
	if err := w.service.Edit(id, before.Raw); err != nil { // and put back
		t.Fatal(err)
	}
	w.clock.advance(time.Hour)
	if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
		t.Errorf("the sweep of every customer ends with: %v", err)
	}
	if res := w.run(); res.Outcome == connector.RunFailed {
		t.Errorf("the run ends %s: %v", res.Outcome, res.Err)
	}
}

// covers F50
func TestAListThatShowsNoKeysRefutesNoLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	m.onPage = func(page []connector.RemoteCustomer) []connector.RemoteCustomer {
		for i := range page { // its rows are summaries: the interface does not show them
			page[i].ExternalData = map[string]string{}
		}
		return page
	}
	w.sweep()
	if p := w.payer("A1"); p.LinkState != connector.LinkLinked {
		t.Errorf("the payer is %s, although a read of the customer shows its key", p.LinkState)
	}
}

// covers F58
func TestACancelledMandateIsNotCalledALostLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	m.onRequest = func(_ string, mandate connector.Mandate, _ error) (connector.Mandate, error) {
		if err := w.service.PayerCancel(mandate.ID); err != nil {
			t.Error(err)
		}
		return connector.Mandate{}, unanswered("request mandate link")
	}
	w.run()
	if got := w.attention()["A1"]; got != string(connector.ReasonMandateCancelled) {
		t.Errorf("attention = %q, want mandate_cancelled", got)
	}
}

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
	if err := w.service.Edit(id, json.RawMessage(`{"name":"Theirs","people":[{"email":"a@example.com"}],"externalData":{"customerNo":"A1"}}`)); err != nil {
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
	if got, told := w.byKey()["A1"].Name, w.attention()["A1"]; got != "Theirs" || told != string(connector.ReasonForeignChange) {
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
	if raw := string(w.byKey()["A1"].Raw); !strings.Contains(raw, "old@example.com") || strings.Contains(raw, "new@example.com") {
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
	w.service.Inject(sandbox.Fault{Kind: sandbox.Late, Delay: 10 * time.Minute, Method: http.MethodPut, Path: "/api/customers", Count: 1})
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
	w.service.Inject(sandbox.Fault{Kind: sandbox.Late, Delay: 10 * time.Minute, Method: http.MethodPut, Path: "/api/customers", Count: 1})
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

// covers F107
func TestEqualRefusalsInARowStopTheRunAndHoldNobodyForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.syncer.Settings.Workers = 1
	w.fill(60)
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusPaymentRequired, Method: http.MethodPost, Path: "/api/customers"})
	res := w.run()
	var refused *syncer.RefusedError
	if !errors.As(res.Err, &refused) || refused.Status != http.StatusPaymentRequired || res.Outcome != connector.RunIncomplete {
		t.Fatalf("the run ended %s: %v; want it incomplete with what was refused", res.Outcome, res.Err)
	}
	if n := len(w.bodies(http.MethodPost, "/api/customers")); n > 8 {
		t.Errorf("%d creates left although the service refused every one alike", n)
	}
	if got := w.attention(); len(got) != 0 {
		t.Errorf("records need a person for what is none of theirs: %v", got)
	}
	w.service.ClearFaults()
	w.complete(w.run())
	if got := len(w.byKey()); got != 60 || len(w.attention()) != 0 {
		t.Errorf("%d customers and %d records for a person after the service takes them again, want 60 and none", got, len(w.attention()))
	}
}

// covers F107
// What waits for its turn when the last refusal comes does not leave, and is no
// worse for it.
func TestWhatWaitsForItsTurnDoesNotLeaveAfterTheLastRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slowly(10)
	w.syncer.Settings.Workers, w.syncer.Settings.Guards.MaxCreates = 64, 100
	w.fill(60)
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusPaymentRequired, Method: http.MethodPost, Path: "/api/customers"})
	res := w.run()
	var refused *syncer.RefusedError
	if !errors.As(res.Err, &refused) {
		t.Fatalf("the run ended %s: %v; want it incomplete with what was refused", res.Outcome, res.Err)
	}
	if n := len(w.bodies(http.MethodPost, "/api/customers")); n > 10 {
		t.Errorf("%d creates left although the service refused every one alike", n)
	}
	w.service.ClearFaults()
	w.slowly(0)
	w.complete(w.run())
	if got := len(w.byKey()); got != 60 || len(w.attention()) != 0 {
		t.Errorf("%d customers and %d records for a person after the service takes them again, want 60 and none", got, len(w.attention()))
	}
}

// covers F67
// The same when a run is interrupted: what is under way is finished, and nothing
// begins.
func TestWhatWaitsForItsTurnDoesNotLeaveAfterAnInterruption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slowly(10)
	w.syncer.Settings.Workers, w.syncer.Settings.Guards.MaxCreates = 64, 100
	w.fill(60)
	m := meddle(w)
	ctx, interrupt := context.WithCancel(t.Context())
	var made, left atomic.Int64
	creates := func() int64 { return int64(len(w.bodies(http.MethodPost, "/api/customers"))) }
	m.onMade = func() {
		if made.Add(1) == 5 {
			left.Store(creates())
			interrupt()
		}
	}
	res := w.runWith(ctx, syncer.Options{Kind: connector.RunSync, Approve: func(state.Plan) (bool, error) { return true, nil }})
	if res.Outcome != connector.RunIncomplete || !errors.Is(res.Err, context.Canceled) {
		t.Errorf("the run ended %s: %v; want it interrupted", res.Outcome, res.Err)
	}
	if strings.Contains(res.Err.Error(), "without an answer") {
		t.Errorf("what never left counts as not answered: %v", res.Err)
	}
	if n := creates(); n > left.Load()+3 { // what was under way
		t.Errorf("%d creates left although the run was interrupted after %d", n, left.Load())
	}
	m.onMade = nil
	w.slowly(0)
	w.complete(w.run())
	if got, n := len(w.byKey()), creates(); got != 60 || n != 60 {
		t.Errorf("%d customers by %d creates in the end, want 60 by 60", got, n)
	}
}

// covers F107
// A record that is refused for what it says stops nobody else's.
func TestRecordsThatAreRefusedForWhatTheySayStopNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.syncer.Settings.Workers = 1
	w.fill(20)
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusUnprocessableEntity, Method: http.MethodPost, Path: "/api/customers", Count: 10})
	if res := w.run(); res.Err != nil || res.Counts.Failed != 10 || res.Counts.Created != 10 {
		t.Errorf("counts = %+v, %v; want ten failed and ten created", res.Counts, res.Err)
	}
}

// covers F79, V2
func TestWhatARunLeavesForAPersonCountsInEveryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	m.onRequest = func(string, connector.Mandate, error) (connector.Mandate, error) {
		return connector.Mandate{}, unanswered("request mandate link")
	}
	if res := w.complete(w.run()); res.Attention != 1 || w.attention()["A1"] != string(connector.ReasonLinkLost) {
		t.Errorf("a lost link counts as %d for a person in its run: %v", res.Attention, w.attention())
	}
	w.clock.advance(time.Minute)
	for range 2 {
		if res := w.complete(w.run()); res.Attention != 1 || res.Counts.Held != 1 || res.News {
			t.Errorf("in a later run it counts as %d, %+v, news %t; want once until it is settled, and no news", res.Attention, res.Counts, res.News)
		}
	}
}

// covers F58
// Where the service gives the same mandate again.
func TestARunTakesLostLinksUpWhereTheServiceGivesTheSameMandate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.fill(8)
	m.onRequest = func(string, connector.Mandate, error) (connector.Mandate, error) {
		return connector.Mandate{}, unanswered("request mandate link")
	}
	w.run()
	if n := len(w.attention()); n != 8 {
		t.Fatalf("%d records need a person, want the 8 whose link is lost", n)
	}
	m.onRequest = nil
	w.complete(w.run())
	if n := len(w.attention()); n != 8 {
		t.Errorf("%d records need a person; a run asked again although it is not known what that does", n)
	}
	w.syncer.Settings.SameMandate = true
	w.complete(w.run())
	mandates, err := w.ledger.Mandates(t.Context(), state.Filter{})
	if n := len(w.attention()); n != 0 || len(mandates) != 8 || err != nil {
		t.Errorf("%d records need a person and there are %d mandates, %v; want none and 8", n, len(mandates), err)
	}
	before := w.service.Writes()
	w.complete(w.run())
	if n := w.service.Writes() - before; n != 0 {
		t.Errorf("%d requests that write over unchanged books", n)
	}
}

// A customer was made while the clock was minutes behind, which is put right. Reads lag
// and do not find it: it is not missing, although it seems to be minutes old.
//
// covers F36, F105, S17
func TestAClockThatIsPutRightMakesNoCustomerMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusNotFound, Method: http.MethodGet, Path: "/api/customers/*"})
	w.run() // makes it, and does not find it
	w.clock.advance(8 * time.Minute)
	w.run()
	if got := w.payer("A1").LinkState; got == connector.LinkMissing {
		t.Error("the customer counts as missing")
	}
	w.service.ClearFaults()
	w.run()
	w.complete(w.run())
	if got := w.payer("A1").LinkState; got != connector.LinkLinked || w.attention()["A1"] != "" {
		t.Errorf("A1 is %s, and told is %q; want linked", got, w.attention()["A1"])
	}
}
