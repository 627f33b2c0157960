package reconcile_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/reconcile"
)

// slowList hands out its pages after something else has happened.
type slowList struct {
	*fakeBilling
	meanwhile func()
}

func (s *slowList) Customers(ctx context.Context) iter.Seq2[[]connector.RemoteCustomer, error] {
	pages := s.fakeBilling.Customers(ctx)
	if s.meanwhile != nil {
		happens := s.meanwhile
		s.meanwhile = nil
		happens()
	}
	return pages
}

// covers F46, S4, S17
func TestTwoListsReadAtTheSameTimeDoNotSettleTheIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.billing.put("c1", "K1", "", "")
	w.billing.put("c2", "K2", "", "")
	w.billing.hide["c2"] = 2 // at one moment the pages shift, for everybody who reads them then
	slow := &slowList{fakeBilling: w.billing}
	slow.meanwhile = func() {
		w.now = w.now.Add(time.Second)
		if _, err := w.rec.Pass(t.Context()); err != nil { // another connection's run lists too
			t.Error(err)
		}
		w.now = w.now.Add(time.Second)
	}
	first := *w.rec
	first.Billing = slow
	if _, err := first.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	x, err := w.ledger.Index(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if holders, err := w.ledger.KeyHolders(t.Context(), connector.Key{Name: "no", Value: "K2"}); err != nil ||
		!x.Believed.IsZero() && len(holders) == 0 {
		t.Errorf("the index counts as settled since %s and lacks a customer that exists (%v)", x.Believed, err)
	}
}

// covers F32, F43
func TestAListReadBeforeADeletionDoesNotBringTheCustomerBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	slow := &slowList{fakeBilling: w.billing}
	slow.meanwhile = func() { // after the page was read, the customer is deleted and a webhook tells
		delete(w.billing.customers, "c1")
		w.receive("d1", "c1")
		if _, err := w.rec.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	}
	first := *w.rec
	first.Billing = slow
	if _, err := first.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := w.ledger.Payer(t.Context(), "acme", "A1")
	if err != nil || p.LinkState != connector.LinkMissing {
		t.Errorf("the payer is %s, %v; want missing, as the newer read said", p.LinkState, err)
	}
}

// covers F32, F43
func TestANotFoundThatStartedEarlierDoesNotOverwriteALaterRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	kept := w.billing.customers["c1"]
	delete(w.billing.customers, "c1") // a replica that lags
	w.receive("d1", "c1")
	w.billing.onGet = func() {
		w.billing.mu.Lock()
		w.billing.customers["c1"] = kept
		w.billing.mu.Unlock()
		if _, err := w.rec.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := w.rec.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, err := w.ledger.Payer(t.Context(), "acme", "A1"); err != nil || p.LinkState != connector.LinkLinked {
		t.Errorf("the payer is %s, %v; want linked, as the newer read said", p.LinkState, err)
	}
}

// covers F49, L4
func TestADoubledKeyHealsOnAListThatGrowsAllTheTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	w.billing.put("c9", "A1", "", "")
	if _, err := w.rec.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(w.billing.customers, "c9") // the person did what was asked
	for i := range 48 {
		w.now = w.now.Add(time.Hour)
		w.billing.put(fmt.Sprintf("new%02d", i), fmt.Sprint("other", i), "", "") // business goes on
		if _, err := w.rec.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := w.ledger.Payer(t.Context(), "acme", "A1"); err != nil || p.LinkState != connector.LinkLinked {
		t.Errorf("after two days of sweeps the payer is %s, %v; want linked", p.LinkState, err)
	}
}

// covers F54, L5
func TestOneCustomerThatCannotBeReadDoesNotHideTheOthersFromASweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	w.link("A2", "c2")
	w.link("A3", "c3")
	w.billing.hide["c1"] = 100 // not listed, and its GET fails
	delete(w.billing.customers, "c2")
	w.billing.put("c9", "A3", "", "")
	poisoned := &poisonedReads{fakeBilling: w.billing, id: "c1"}
	rec := reconcile.Reconciler{Ledger: w.ledger, Billing: poisoned, Lookup: w.rec.Lookup}
	for range 3 {
		_, _ = rec.Sweep(t.Context()) // it may well say that one customer could not be read
	}
	want := map[string]string{"A2": string(connector.ReasonCustomerMissing), "A3": string(connector.ReasonKeyDoubled)}
	got := w.reasons()
	for id, reason := range want {
		if got[id] != reason {
			t.Errorf("attention of %s = %q, want %q", id, got[id], reason)
		}
	}
}

// poisonedReads fails every read of one customer.
type poisonedReads struct {
	*fakeBilling
	id string
}

func (p *poisonedReads) Customer(ctx context.Context, id string) (connector.RemoteCustomer, error) {
	if id == p.id {
		return connector.RemoteCustomer{},
			&connector.RemoteError{Op: "get customer", Fault: connector.FaultUnavailable, Status: 500}
	}
	return p.fakeBilling.Customer(ctx, id)
}

// covers F33, F50, L1
func TestAKeyThatIsRemovedWithoutAWebhookIsNoticedByTheSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 {
		w.link(fmt.Sprint("A", i), fmt.Sprint("c", i))
	}
	want := map[string]string{}
	for i := range 3 { // the last sweep sees a list without any key
		id := fmt.Sprint("c", i)
		bare := w.billing.customers[id]
		bare.ExternalData = nil
		w.billing.customers[id] = bare
		if _, err := w.rec.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		want[fmt.Sprint("A", i)] = string(connector.ReasonKeyRemoved)
		if diff := cmp.Diff(want, w.reasons()); diff != "" {
			t.Errorf("attention (-want +got):\n%s", diff)
		}
	}
}

// covers F50
func TestAListThatLeavesKeysOutCostsASweepOneRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		w.link(fmt.Sprint("A", i), fmt.Sprint("c", i))
	}
	w.billing.bareList = true
	before := w.billing.gets
	if _, err := w.rec.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, reads := w.reasons(), w.billing.gets-before; len(got) > 0 || reads != 1 {
		t.Errorf("attention = %v after %d reads, want none after 1", got, reads)
	}
}

func TestReadsOfSingleCustomersReportTheirProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 {
		id := fmt.Sprint("c", i)
		w.link(fmt.Sprint("A", i), id)
		w.billing.hide[id] = 1
	}
	var steps []string
	ctx := reconcile.WithProgress(t.Context(),
		func(done, total int) { steps = append(steps, fmt.Sprintf("%d of %d", done, total)) })
	if _, err := w.rec.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 of 3", "2 of 3", "3 of 3"}, steps); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

// covers F42, L3
func TestABurstForACustomerThatIsBeingCreatedIsNotGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 6 {
		w.receive(fmt.Sprint("d", i), "c1")
		if _, err := w.rec.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]int{"parked": 6}, w.inbox()); diff != "" {
		t.Errorf("inbox (-want +got):\n%s", diff)
	}
}
