package state

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// inboxCounts are the counts by type and state that a query returns.
func (d *desk) inboxCounts(query string) map[string]int {
	d.t.Helper()
	type row struct {
		name, state string
		n           int
	}
	rows, err := list(d.t.Context(), d.Ledger, query, nil, func(r *row) []any { return []any{&r.name, &r.state, &r.n} })
	if err != nil {
		d.t.Fatal(err)
	}
	out := map[string]int{}
	for _, r := range rows {
		out[r.name+" "+r.state] = r.n
	}
	return out
}

// expectCounts compares the kept counts with those of the inbox.
func (d *desk) expectCounts(after string) {
	d.t.Helper()
	kept := d.inboxCounts("SELECT event_type, state, deliveries FROM inbox_counts WHERE deliveries <> 0")
	there := d.inboxCounts("SELECT event_type, state, count(*) FROM inbox GROUP BY event_type, state")
	if diff := cmp.Diff(there, kept); diff != "" {
		d.t.Fatalf("after %s the counts differ from the inbox (-inbox +counts):\n%s", after, diff)
	}
}

func TestTheCountsOfDeliveriesAreThoseOfTheInbox(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	random := rand.New(rand.NewPCG(1, 2))
	states := []connector.InboxState{connector.InboxReceived, connector.InboxReceived, connector.InboxQuarantined,
		connector.InboxIgnored}
	key := func() string { return fmt.Sprint("evt-", random.IntN(60)) }
	some := func() Delivery {
		v := delivery(key(), fmt.Sprint("b", random.IntN(4)))
		v.Type, v.State = fmt.Sprint("type-", random.IntN(3)), states[random.IntN(len(states))]
		if random.IntN(5) == 0 {
			v.BillingID, v.MandateID = "", "m1"
		}
		return v
	}
	changed := func(_ bool, err error) error { return err }
	steps := []struct {
		name string
		do   func(*Tx, []OpenDelivery) error
	}{
		{"arrivals", func(tx *Tx, _ []OpenDelivery) error {
			var all []*arrival
			for range 1 + random.IntN(70) {
				all = append(all, d.newArrival(some()))
			}
			return tx.receive(all)
		}},
		{"a repeat", func(tx *Tx, _ []OpenDelivery) error { return changed(tx.RepeatDelivery(key())) }},
		{"a replay", func(tx *Tx, _ []OpenDelivery) error { return changed(tx.ReplayDelivery(key())) }},
		{"a dismissal", func(tx *Tx, _ []OpenDelivery) error { return changed(tx.DismissDelivery(key(), "no")) }},
		{"another reading", func(tx *Tx, _ []OpenDelivery) error { return changed(tx.RereadDelivery(some())) }},
		{"a split", func(tx *Tx, _ []OpenDelivery) error {
			return changed(tx.SplitDelivery(key(), []Delivery{some(), some()}))
		}},
		{"a read", func(tx *Tx, open []OpenDelivery) error {
			return tx.CloseDeliveries(open[0], connector.InboxReflected, "")
		}},
		{"a wait", func(tx *Tx, open []OpenDelivery) error {
			return tx.PostponeDeliveries(open[len(open)-1], connector.InboxParked, time.Second)
		}},
		{"a customer", func(tx *Tx, open []OpenDelivery) error { return changed(tx.NameDeliveries(open[len(open)-1])) }},
	}
	for range 200 {
		d.clock.move(time.Second)
		step, open := steps[random.IntN(len(steps))], append(d.waiting(), OpenDelivery{})
		d.do(func(tx *Tx) error { return step.do(tx, open) })
		d.expectCounts(step.name)
	}
}

func TestADeliveryThatIsNotKeptIsNotCounted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.receive(delivery("evt-1", "b1"))
	err := d.Do(context.Background(), func(tx *Tx) error {
		if _, err := tx.Receive(delivery("evt-2", "b1")); err != nil {
			return err
		}
		return fmt.Errorf("the write fails")
	})
	if err == nil {
		t.Error("the write did not fail")
	}
	d.expectCounts("a write that failed")
}
