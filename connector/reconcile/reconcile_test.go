package reconcile_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/state"
	"payersync/state/statetest"
)

// fakeBilling is a billing service reduced to what reconcile reads. Its list can
// drop customers, as paging under change does, and its answers can be held back.
type fakeBilling struct {
	mu        sync.Mutex
	customers map[string]connector.RemoteCustomer
	gets      int
	hide      map[string]int // how many more list passes leave a customer out
	bareList  bool           // the list leaves externalData out of every customer
	broken    error          // answer of every call
	onGet     func()         // called while a GET is under way, after its answer was decided
}

func (f *fakeBilling) Customer(_ context.Context, id string) (connector.RemoteCustomer, error) {
	f.mu.Lock()
	f.gets++
	c, ok := f.customers[id]
	broken, onGet := f.broken, f.onGet
	f.onGet = nil
	f.mu.Unlock()
	if onGet != nil {
		onGet()
	}
	if broken != nil {
		return c, broken
	}
	if !ok {
		return c, &connector.RemoteError{Op: "get customer", Fault: connector.FaultNotFound, Status: 404}
	}
	return c, nil
}

func (f *fakeBilling) Customers(context.Context) iter.Seq2[[]connector.RemoteCustomer, error] {
	f.mu.Lock()
	defer f.mu.Unlock()
	var page []connector.RemoteCustomer
	for _, id := range slices.Sorted(maps.Keys(f.customers)) {
		if f.hide[id] > 0 {
			f.hide[id]--
			continue
		}
		c := f.customers[id]
		if f.bareList {
			c.ExternalData = nil
		}
		page = append(page, c)
	}
	broken := f.broken
	return func(yield func([]connector.RemoteCustomer, error) bool) {
		for part := range slices.Chunk(page, 100) {
			if !yield(part, nil) {
				return
			}
		}
		if broken != nil {
			yield(nil, broken)
		}
	}
}

func (f *fakeBilling) put(id, key, mandate string, status connector.MandateStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := connector.RemoteCustomer{ID: id, Name: "Payer " + id, ExternalData: map[string]string{"no": key}}
	if mandate != "" {
		c.Mandate = &connector.Mandate{ID: mandate, Status: status}
	}
	f.customers[id] = c
}

type world struct {
	t       testing.TB
	path    string
	now     time.Time
	billing *fakeBilling
	ledger  *state.Ledger
	rec     *reconcile.Reconciler
	run     int64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "payersync.db"), now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
		billing: &fakeBilling{customers: map[string]connector.RemoteCustomer{}, hide: map[string]int{}}}
	statetest.New(t, w.path)
	var err error
	if w.ledger, err = state.Open(context.Background(),
		state.Options{Path: w.path, KeyFile: w.path + ".key", Now: func() time.Time { return w.now }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.ledger.Close() })
	w.rec = &reconcile.Reconciler{Ledger: w.ledger, Billing: w.billing,
		Lookup: reconcile.Lookup{MaxAge: 24 * time.Hour, Quarantine: 15 * time.Minute}}
	w.do(func(tx *state.Tx) error {
		if err := tx.PinConnection(state.Connection{Name: "acme", Info: connector.SourceInfo{Kind: "books"}}); err != nil {
			return err
		}
		if err := tx.SaveMapping("m1", "version: 1", "tester"); err != nil {
			return err
		}
		w.run, err = tx.OpenRun(state.NewRun{Connection: "acme", Kind: connector.RunSync, Trigger: "manual", Mapping: "m1",
			Holder: "test"})
		return err
	})
	return w
}

func (w *world) do(fn func(*state.Tx) error) {
	w.t.Helper()
	if err := w.ledger.Do(context.Background(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// link makes a payer that is linked to a customer of the service.
func (w *world) link(sourceID, billingID string) {
	w.t.Helper()
	w.billing.put(billingID, sourceID, "", "")
	record := connector.Record{SourceID: sourceID, State: connector.RecordActive, Data: []byte(`{}`)}
	w.do(func(tx *state.Tx) error {
		if err := tx.SavePage(w.run, "acme", []connector.Record{record}); err != nil {
			return err
		}
		key := connector.Key{Name: "no", Value: sourceID}
		if err := tx.SaveDecisions(w.run, "acme", "m1",
			state.Decision{SourceID: sourceID, ContentHash: record.Hash(), Verdict: state.Included, Key: key}); err != nil {
			return err
		}
		if err := tx.LinkPayer(state.Payer{Connection: "acme", SourceID: sourceID}, billingID, true); err != nil {
			return err
		}
		ticket, err := tx.Ticket()
		if err != nil {
			return err
		}
		_, err = reconcile.Observe(tx,
			reconcile.OfCustomer(w.billing.customers[billingID], ticket, connector.CauseCreate, "run 1"))
		return err
	})
}

func (w *world) receive(key, billingID string) {
	w.t.Helper()
	w.do(func(tx *state.Tx) error {
		_, err := tx.Receive(state.Delivery{Key: key, Type: "dd-mandate", BillingID: billingID, Body: []byte(`{}`),
			State: connector.InboxReceived})
		return err
	})
}

// moves returns the history of customer c1 as "from>to".
func (w *world) moves() []string {
	w.t.Helper()
	rows, err := w.ledger.History(context.Background(), "c1")
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, r := range rows {
		out = append(out, r.FromStatus+">"+r.ToStatus)
	}
	return out
}

func (w *world) inbox() map[string]int {
	w.t.Helper()
	f, err := w.ledger.Funnel(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return f.Inbox
}

func (w *world) reasons() map[string]string {
	w.t.Helper()
	rows, err := w.ledger.Attention(context.Background(), state.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range rows {
		out[r.SourceID] = r.Reason
	}
	return out
}

// covers F31, F32
func TestDrainReadsACustomerOnceHoweverManyDeliveriesSpeakOfIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	w.billing.put("c1", "A1", "m1", connector.MandatePending)
	for i := range 5 {
		w.receive(fmt.Sprint("d", i), "c1")
	}
	res, err := w.rec.Drain(t.Context())
	if err != nil || res.Reflected != 1 || res.Moved != 1 || w.billing.gets != 1 {
		t.Errorf("drain = %+v, %v with %d reads; want one", res, err, w.billing.gets)
	}
	if diff := cmp.Diff(map[string]int{"reflected": 5}, w.inbox()); diff != "" {
		t.Errorf("inbox (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{">PENDING"}, w.moves()); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	again, err := w.rec.Drain(t.Context())
	if err != nil || again != (reconcile.DrainResult{}) {
		t.Errorf("a second drain did %+v, %v", again, err)
	}
}

// covers F32, S8, S9
func TestAReadThatStartedEarlierNeverOverwritesOneThatStartedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	w.billing.put("c1", "A1", "m1", connector.MandatePending)
	w.receive("d1", "c1")
	w.billing.onGet = func() { // while the slow read is under way, a newer one is applied
		w.billing.put("c1", "A1", "m1", connector.MandateActive)
		if _, err := w.rec.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	}
	res, err := w.rec.Drain(t.Context())
	if err != nil || res.Superseded != 1 {
		t.Fatalf("drain = %+v, %v; want one superseded", res, err)
	}
	if diff := cmp.Diff([]string{">ACTIVE"}, w.moves()); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// covers F33, L2
func TestASweepRepairsWhatNoWebhookTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	w.billing.put("c1", "A1", "m1", connector.MandateCancelled)
	res, err := w.rec.Sweep(t.Context())
	if err != nil || res.Repaired != 1 || res.Customers != 1 {
		t.Errorf("sweep = %+v, %v; want one repaired", res, err)
	}
	if got := w.reasons()["A1"]; got != string(connector.ReasonMandateCancelled) {
		t.Errorf("attention = %q", got)
	}
	if again, err := w.rec.Sweep(t.Context()); err != nil || again.Repaired != 0 {
		t.Errorf("a second sweep repaired %d, %v", again.Repaired, err)
	}
}

// covers F43, F45, S17
func TestACustomerIsMissingOnlyWhenAReadConfirmsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	w.link("A2", "c2")
	w.billing.hide["c1"] = 1 // the list lost it, the service did not
	delete(w.billing.customers, "c2")
	res, err := w.rec.Sweep(t.Context())
	if err != nil || res.Missing != 1 {
		t.Fatalf("sweep = %+v, %v; want one missing", res, err)
	}
	if diff := cmp.Diff(map[string]string{"A2": string(connector.ReasonCustomerMissing)}, w.reasons()); diff != "" {
		t.Errorf("attention (-want +got):\n%s", diff)
	}
}

func TestABrokenListIsNoPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	delete(w.billing.customers, "c1")
	w.billing.broken = &connector.RemoteError{Op: "list customers", Fault: connector.FaultUnavailable, Detail: "no answer"}
	if _, err := w.rec.Sweep(t.Context()); connector.FaultOf(err) != connector.FaultUnavailable {
		t.Errorf("err = %v, want unavailable", err)
	}
	if got := w.reasons(); len(got) != 0 {
		t.Errorf("attention = %v after a list that broke off", got)
	}
	if last, err := w.ledger.LastPass(t.Context()); err != nil || !last.IsZero() {
		t.Errorf("the last complete pass began at %v, %v; want none", last, err)
	}
}

// covers F49, F50
func TestDoubledAndRemovedKeysAreShownAndHealByThemselves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	w.link("A2", "c2")
	w.billing.put("c9", "A1", "", "")
	w.billing.put("c2", "changed by hand", "", "")
	res, err := w.rec.Sweep(t.Context())
	if err != nil || res.Doubled != 1 {
		t.Fatalf("sweep = %+v, %v; want one doubled", res, err)
	}
	want := map[string]string{"A1": string(connector.ReasonKeyDoubled), "A2": string(connector.ReasonOtherKey)}
	if diff := cmp.Diff(want, w.reasons()); diff != "" {
		t.Errorf("attention (-want +got):\n%s", diff)
	}
	delete(w.billing.customers, "c9")
	w.billing.put("c2", "A2", "", "")
	for range 3 {
		if _, err := w.rec.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.reasons(); len(got) != 0 {
		t.Errorf("attention = %v after the keys were put right", got)
	}
	for _, id := range []string{"A1", "A2"} {
		if p, err := w.ledger.Payer(t.Context(), "acme", id); err != nil || p.LinkState != connector.LinkLinked {
			t.Errorf("%s is %s, %v; want linked", id, p.LinkState, err)
		}
	}
}

// covers F56
func TestAnUnknownStatusIsKeptAndShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	w.billing.put("c1", "A1", "m1", "DORMANT")
	if _, err := w.rec.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{">DORMANT"}, w.moves()); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if got := w.reasons()["A1"]; got != string(connector.ReasonStatusUnknown) {
		t.Errorf("attention = %q", got)
	}
}

// A status that was not known to an earlier version is explained by the next look.
func TestAMandateThatIsMovedFromAnotherProviderNeedsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	for _, tt := range []struct {
		status connector.MandateStatus
		reason connector.Reason
	}{{"DORMANT", connector.ReasonStatusUnknown}, {"MIGRATING", ""}, {"ACTIVE", ""}} {
		w.billing.put("c1", "A1", "m1", tt.status)
		if _, err := w.rec.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.reasons()["A1"]; got != string(tt.reason) {
			t.Errorf("%s: attention = %q", tt.status, got)
		}
	}
}

// covers F57
func TestAReplacedMandateKeepsTheHistoryOfBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	for _, m := range []struct {
		id     string
		status connector.MandateStatus
	}{{"m1", connector.MandateActive}, {"m1", connector.MandateCancelled}, {"m2", connector.MandateCreated},
		{"m2", connector.MandateActive}} {
		w.billing.put("c1", "A1", m.id, m.status)
		if _, err := w.rec.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{">ACTIVE", "ACTIVE>CANCELLED", ">CREATED", "CREATED>ACTIVE"}
	if diff := cmp.Diff(want, w.moves()); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if p, err := w.ledger.Payer(t.Context(), "acme", "A1"); err != nil || p.MandateID != "m2" {
		t.Errorf("current mandate = %s, %v; want m2", p.MandateID, err)
	}
	if got := w.reasons(); len(got) != 0 {
		t.Errorf("attention = %v once the new mandate is active", got)
	}
}

// A mandate that a bank takes up again is the same mandate.
//
// covers F57
func TestAMandateThatComesBackEndsWhatWasToldOfItsCancellation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	for _, m := range []struct {
		status connector.MandateStatus
		told   string
	}{{connector.MandateActive, ""}, {connector.MandateCancelled, string(connector.ReasonMandateCancelled)},
		{connector.MandateActive, ""}} {
		w.billing.put("c1", "A1", "m1", m.status)
		if _, err := w.rec.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.reasons()["A1"]; got != m.told {
			t.Errorf("while it is %s it is told of %q, want %q", m.status, got, m.told)
		}
	}
	want := []string{">ACTIVE", "ACTIVE>CANCELLED", "CANCELLED>ACTIVE"}
	if diff := cmp.Diff(want, w.moves()); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// Two answers, each with a link, arrive in any order, and a read in between: the latest
// mandate alone has one.
//
// covers F132
func TestTheLinkOfAMandateThatWasReplacedIsNeverHandedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	var tickets [4]int64
	w.do(func(tx *state.Tx) (err error) {
		for i := range tickets {
			if tickets[i], err = tx.Ticket(); err != nil {
				return err
			}
		}
		return nil
	})
	answer := func(ticket int64, id, url string) {
		w.do(func(tx *state.Tx) error {
			_, err := reconcile.Observe(tx, reconcile.Observation{
				CustomerID: "c1", Mandate: &connector.Mandate{ID: id, Status: connector.MandateCreated, URL: url}, Ticket: ticket,
				Cause: connector.CauseLink, CauseID: "test",
			})
			return err
		})
	}
	links := func() (out [2]string) {
		for i, id := range []string{"m1", "m2"} {
			var err error
			if out[i], err = w.ledger.SigningLink(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	for _, step := range []struct {
		ticket  int64
		id, url string
		want    [2]string
	}{
		{tickets[0], "m1", "https://sign.example/1", [2]string{"https://sign.example/1", ""}},
		{tickets[2], "m2", "", [2]string{}},                        // a look shows another mandate
		{tickets[1], "m1", "https://sign.example/1b", [2]string{}}, // which overtook this answer
		// and this one, with the link of the latest
		{tickets[1], "m2", "https://sign.example/2", [2]string{"", "https://sign.example/2"}},
		{tickets[3], "m2", "", [2]string{"", "https://sign.example/2"}},
	} {
		if answer(step.ticket, step.id, step.url); links() != step.want {
			t.Errorf("after %s %q with ticket %d the links are %q, want %q", step.id, step.url, step.ticket, links(), step.want)
		}
	}
}
