package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// receive stores a delivery and reports whether it is new.
func (d *desk) receive(v Delivery) (fresh bool) {
	d.t.Helper()
	d.do(func(tx *Tx) (err error) {
		fresh, err = tx.Receive(v)
		return err
	})
	return fresh
}

func delivery(key, billingID string) Delivery {
	return Delivery{Key: key, Type: "dd-mandate", BillingID: billingID, Body: []byte(`{"customerId":"` + billingID + `"}`),
		State: connector.InboxReceived}
}

func (d *desk) waiting() []OpenDelivery {
	d.t.Helper()
	open, err := d.OpenDeliveries(context.Background(), 2*time.Second, 100)
	if err != nil {
		d.t.Fatal(err)
	}
	return open
}

// covers F31
func TestADeliveryIsKeptOnceHoweverOftenItComes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	other := d.another()
	var fresh atomic.Int32
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			l := d.Ledger
			if i%2 == 1 {
				l = other
			}
			err := l.Do(context.Background(), func(tx *Tx) error {
				is, err := tx.Receive(delivery("evt-1", "b1"))
				if is {
					fresh.Add(1)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := fresh.Load(); n != 1 {
		t.Errorf("%d of 100 deliveries with one key were new, want 1", n)
	}
	if open := d.waiting(); len(open) != 1 || open[0].UpTo != 1 {
		t.Errorf("waiting are %v, want one", open)
	}
}

func TestTheNextDeliveryIsTheOneThatIsDueFirst(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	next := func() time.Time {
		t.Helper()
		at, err := d.NextDelivery(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if at := next(); !at.IsZero() {
		t.Errorf("in an empty inbox one is due at %s", at)
	}
	d.receive(delivery("evt-1", "b1"))
	d.do(func(tx *Tx) error { return tx.PostponeDeliveries(d.waitingAt(1), connector.InboxParked, time.Hour) })
	if at := next(); !at.Equal(d.Now().Add(time.Hour)) {
		t.Errorf("a delivery parked for an hour is due at %s", at)
	}
	d.receive(delivery("evt-2", "b2"))
	if at := next(); !at.Equal(d.Now()) {
		t.Errorf("a fresh delivery is due at %s", at)
	}
	for _, o := range d.waiting() {
		d.do(func(tx *Tx) error { return tx.CloseDeliveries(o, connector.InboxReflected, "") })
	}
	if at := next(); !at.Equal(d.Now().Add(time.Hour)) {
		t.Errorf("once the fresh one is reflected, the next is due at %s", at)
	}
	d.do(func(tx *Tx) error { return tx.CloseDeliveries(d.waitingAt(1), connector.InboxIgnored, "") })
	if at := next(); !at.IsZero() {
		t.Errorf("once all are settled, one is due at %s", at)
	}
}

func TestARepeatNeverRewritesADelivery(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.receive(delivery("evt-1", "b1"))
	forged := delivery("evt-1", "b2")
	forged.Body, forged.State = []byte("other"), connector.InboxIgnored
	if d.receive(forged) {
		t.Error("the repeat counts as new")
	}
	body, err := d.DeliveryBody(t.Context(), "evt-1")
	if err != nil || string(body) != string(delivery("evt-1", "b1").Body) {
		t.Errorf("the body is %q, %v", body, err)
	}
	rows, err := d.Inbox(t.Context(), Filter{Connection: "does not narrow", State: "received"})
	if err != nil || len(rows) != 1 || rows[0].BillingID != "b1" {
		t.Errorf("the inbox is %+v, %v", rows, err)
	}
	if body, err := d.DeliveryBody(t.Context(), "evt-2"); body != nil || err != nil {
		t.Errorf("a delivery that never came has body %q, %v", body, err)
	}
}

func TestDeliveriesOfOneCustomerAreOneTask(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	for i, id := range []string{"b2", "b1", "b2", "b1", "b1"} {
		d.receive(delivery(fmt.Sprint("evt-", i), id))
	}
	quarantined := delivery("evt-9", "")
	quarantined.State, quarantined.Detail = connector.InboxQuarantined, "The body is not JSON."
	d.receive(quarantined)
	want := []OpenDelivery{{BillingID: "b2", IDs: []int64{1, 3}, UpTo: 3, Key: "evt-2", Since: d.Now()},
		{BillingID: "b1", IDs: []int64{2, 4, 5}, UpTo: 5, Key: "evt-4", Known: true, Since: d.Now()}}
	if diff := cmp.Diff(want, d.waiting()); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	rows, err := d.Attention(t.Context(), Filter{State: string(connector.ReasonEventNotUnderstood)})
	if err != nil || len(rows) != 1 || rows[0].SourceID != "evt-9" || rows[0].Detail != quarantined.Detail {
		t.Errorf("attention is %+v, %v; want the quarantined delivery", rows, err)
	}
}

// planLinkedPayer links a payer to a customer and closes what was planned.
func (d *desk) planLinkedPayer(id, billingID string) {
	d.t.Helper()
	run := d.run(acme)
	c := d.planLinked(run, id, billingID, connector.ActionUpdate)
	d.do(func(tx *Tx) error { return tx.CloseDone(run, c) })
	d.closeRun(run, connector.RunComplete)
}

// covers L3
func TestClosingCoversWhatTheReadCoveredAndNoMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.receive(delivery("evt-1", "b1"))
	d.receive(delivery("evt-2", "b1"))
	d.receive(delivery("evt-3", "b2"))
	covered, began := d.waiting()[0], d.Now()
	d.receive(delivery("evt-4", "b1")) // arrives while the read is under way
	d.clock.move(time.Second)
	d.do(func(tx *Tx) error { return tx.CloseDeliveries(covered, connector.InboxReflected, "") })
	want := []OpenDelivery{{BillingID: "b2", IDs: []int64{3}, UpTo: 3, Key: "evt-3", Since: began},
		{BillingID: "b1", IDs: []int64{4}, UpTo: 4, Key: "evt-4", Since: began}}
	if diff := cmp.Diff(want, d.waiting()); diff != "" {
		t.Errorf("still waiting (-want +got):\n%s", diff)
	}
	rows, err := d.Inbox(t.Context(), Filter{State: "reflected"})
	if err != nil || len(rows) != 2 || rows[0].ProcessedAt == nil || *rows[0].ProcessedAt != stamp(d.Now()) {
		t.Errorf("reflected are %+v, %v; want two with their time", rows, err)
	}
}

func TestPostponedDeliveriesWaitAndNewOnesDoNot(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.receive(delivery("evt-1", "b1"))
	for range 2 {
		d.do(func(tx *Tx) error { return tx.PostponeDeliveries(d.waitingAt(1), connector.InboxParked, time.Minute) })
		if open := d.waiting(); len(open) != 0 {
			t.Fatalf("postponed deliveries are due: %v", open)
		}
		d.clock.move(time.Minute)
	}
	if open := d.waiting(); len(open) != 1 || open[0].Attempts != 2 {
		t.Fatalf("after the wait %v are due, want one with two attempts", open)
	}
	d.do(func(tx *Tx) error { return tx.PostponeDeliveries(d.waitingAt(1), connector.InboxReceived, time.Hour) })
	d.receive(delivery("evt-2", "b1"))
	if open := d.waiting(); len(open) != 1 || open[0].UpTo != 2 || open[0].Attempts != 0 {
		t.Errorf("a new delivery of the customer: %v are due, want both at once, with all the tries of the new one", open)
	}
}

// waitingAt is the task that covers the nth delivery, of b1.
func (d *desk) waitingAt(n int64) OpenDelivery {
	return OpenDelivery{BillingID: "b1", IDs: []int64{n}, UpTo: n}
}

func TestAReplayedDeliveryWaitsAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.receive(delivery("evt-1", "b1"))
	d.receive(delivery("evt-2", ""))
	d.do(func(tx *Tx) error { return tx.CloseDeliveries(d.waitingAt(1), connector.InboxIgnored, "nobody's") })
	for key, want := range map[string]bool{"evt-1": true, "evt-2": false, "evt-3": false} {
		d.do(func(tx *Tx) error {
			if got, err := tx.ReplayDelivery(key); got != want || err != nil {
				t.Errorf("replaying %s: %v, %v; want %v", key, got, err, want)
			}
			return nil
		})
	}
	if open := d.waiting(); len(open) != 2 || open[0].BillingID != "b1" || open[0].Attempts != 0 {
		t.Errorf("waiting are %v, want evt-1 as if new", open)
	}
}

// repeat notes that a delivery came again and reports whether it waits anew.
func (d *desk) repeat(key string) (again bool) {
	d.t.Helper()
	d.do(func(tx *Tx) (err error) {
		again, err = tx.RepeatDelivery(key)
		return err
	})
	return again
}

// covers L3
func TestADeliveryThatComesAgainDuringAReadIsNotCoveredByIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.receive(delivery("evt-1", "b1"))
	read := d.waiting()[0]
	d.do(func(tx *Tx) error { _, err := tx.BeginDrain([]OpenDelivery{read}); return err })
	if d.repeat("evt-1") {
		t.Error("a delivery that waits is said to wait anew")
	}
	d.do(func(tx *Tx) error { return tx.CloseDeliveries(read, connector.InboxReflected, "") })
	if open := d.waiting(); len(open) != 0 {
		t.Errorf("due at once after the read are %v, want none: the customer was read just now", open)
	}
	d.clock.move(2 * time.Second)
	if open := d.waiting(); len(open) != 1 || open[0].Key != "evt-1" {
		t.Errorf("due two seconds after the read are %v, want the delivery that came again", open)
	}
}

// covers F35
func TestRepeatsOfOneCustomerShareAReadAndNewsDoesNotWaitForThem(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.receive(delivery("evt-1", "b1"))
	d.receive(delivery("evt-2", "b1"))
	reflect := func() {
		t.Helper()
		open := d.waiting()
		if len(open) != 1 {
			t.Fatalf("due are %v, want one customer", open)
		}
		d.do(func(tx *Tx) error {
			_, err := tx.BeginDrain(open[:1])
			return errors.Join(err, tx.CloseDeliveries(open[0], connector.InboxReflected, ""))
		})
	}
	reflect()
	for i := range 100 {
		d.clock.move(10 * time.Millisecond)
		if key := fmt.Sprint("evt-", 1+i%2); d.repeat(key) != (i < 2) {
			t.Fatalf("repeat %d opens %s: %t", i, key, i >= 2)
		}
		if open := d.waiting(); len(open) != 0 {
			t.Fatalf("due after a repeat is %v", open)
		}
	}
	d.receive(delivery("evt-3", "b1"))
	reflect()
	d.repeat("evt-3")
	d.clock.move(-time.Hour) // a read of the future is not waited for
	reflect()
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM inbox"); n != 3 {
		t.Errorf("the inbox has %d rows, want 3", n)
	}
	if n := one[int](t, d.Ledger, "SELECT sum(repeats) FROM inbox"); n != 101 {
		t.Errorf("%d repeats were counted, want 101", n)
	}
}

func TestARepeatOpensNothingThatNamesNobodyOrWaitsForAPerson(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, as := range []connector.InboxState{connector.InboxQuarantined, connector.InboxIgnored} {
		v := delivery(string(as), "")
		v.State = as
		d.receive(v)
		if d.repeat(v.Key) {
			t.Errorf("a repeat opens what is %s", as)
		}
	}
	parked := delivery("parked", "b1")
	d.receive(parked)
	d.do(func(tx *Tx) error { return tx.PostponeDeliveries(d.waiting()[0], connector.InboxParked, time.Minute) })
	if d.repeat("parked") || len(d.waiting()) != 0 {
		t.Errorf("due after the repeat of a parked delivery are %v, want none", d.waiting())
	}
}

// Any signed delivery comes back byte for byte, and none is read as SQL. Only invalid text is shown
// differently in a text column.
//
// covers F38, F52, F87
func FuzzADeliveryComesBackAsItCame(f *testing.F) {
	for _, seed := range []string{"evt-1", "", "'; DROP TABLE inbox; --", "a\x00b", "\xff\xfe", "Zoë\u202e", `{"a":1}`} {
		f.Add(seed, seed, seed, []byte(seed))
	}
	d := newDesk(f)
	n := 0
	f.Fuzz(func(t *testing.T, key, kind, billingID string, body []byte) {
		if !utf8.ValidString(key + kind + billingID) {
			t.Skip("parsed text is valid UTF-8")
		}
		n++
		v := Delivery{Key: fmt.Sprintf("%d %s", n, key), Type: kind, BillingID: billingID, Body: append([]byte{}, body...),
			State: connector.InboxReceived}
		if err := d.Do(context.Background(), func(tx *Tx) error { _, err := tx.Receive(v); return err }); err != nil {
			t.Fatal(err)
		}
		got, err := d.DeliveryBody(context.Background(), v.Key)
		if diff := cmp.Diff(v.Body, got); diff != "" || err != nil {
			t.Errorf("the body came back as (-want +got), %v:\n%s", err, diff)
		}
		kindGot := one[string](t, d.Ledger, "SELECT event_type FROM inbox WHERE delivery_key = ?", connector.Clean(v.Key))
		idGot := one[string](t, d.Ledger, "SELECT billing_id FROM inbox WHERE delivery_key = ?", connector.Clean(v.Key))
		if kindGot != connector.Clean(kind) || idGot != connector.Clean(billingID) {
			t.Errorf("came back as %q of %q, want %q of %q", kindGot, idGot, kind, billingID)
		}
	})
}
