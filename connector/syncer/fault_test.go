package syncer_test

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"
	"sync"
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

	// after the answer to a GET
	onRead func(id string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error)
	// instead of the answer, when it is not nil
	onCreate func(body []byte) error
	// changes the answer to a create
	onAnswer func(*connector.RemoteCustomer)
	// after the answer to a create
	onMade   func()
	onUpdate func(id string) // before a PUT
	// after the answer with a signing link
	onRequest func(id string, m connector.Mandate, err error) (connector.Mandate, error)
	onPage    func([]connector.RemoteCustomer) []connector.RemoteCustomer // of the list
	// what a search found
	onSearch func([]connector.RemoteCustomer) []connector.RemoteCustomer
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
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusNotFound, Method: http.MethodGet,
		Path: "/api/customers/*", Count: 1})
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
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusConflict, Method: http.MethodPost,
		Path: "/api/customers", Count: 1})
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
	w.service.Inject(sandbox.Fault{Kind: sandbox.Late, Delay: 5 * time.Minute, Method: http.MethodPost,
		Path: "/api/customers", Count: 1})
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
	w.runWith(ctx, syncer.RunOptions{Kind: connector.RunSync, Progress: func(p syncer.Progress) {
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
		if err := w.ledger.Do(context.Background(),
			func(tx *state.Tx) error { return reconcile.Missing(tx, p, ticket) }); err != nil {
			t.Error(err)
		}
		return c, &connector.RemoteError{Op: "get customer", Fault: connector.FaultUnavailable}
	}
	w.run()
	if got := w.attention()["A1"]; got != string(connector.ReasonCustomerMissing) {
		t.Errorf("attention = %q, want customer_missing", got)
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
	// so it is sent after the plan
	w.service.Inject(sandbox.Fault{Kind: sandbox.EmptyBody, Method: http.MethodGet, Path: "/api/customers", Count: 1})
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
	res, err := w.syncer.Run(context.Background(), conn,
		syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test"})
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
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunSync, Progress: func(p syncer.Progress) {
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
	if res := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunSync}); res.Counts.Created != 20 {
		t.Fatalf("counts = %+v, want 20 created without approval", res.Counts)
	}
	w.service.ClearFaults()
	w.clock.advance(time.Hour)
	if res := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunSync}); res.Outcome != connector.RunComplete {
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
