package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

func quarantinedDelivery(key, eventType, body string) Delivery {
	return Delivery{Key: key, Type: eventType, Body: []byte(body), State: connector.InboxQuarantined,
		Detail: "It names neither a customer nor a mandate."}
}

func TestTheQuarantineIsReadInParts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, key := range []string{"q1", "q2", "q3"} {
		d.receive(quarantinedDelivery(key, "t", `{"x":"`+key+`"}`))
	}
	d.receive(delivery("evt-1", "b1"))
	d.do(func(tx *Tx) error { return tx.exec("UPDATE inbox SET body = x'' WHERE delivery_key = 'q2'") })
	var got []string
	for after := int64(0); ; {
		part, err := d.QuarantinedAfter(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) == 0 {
			break
		}
		for _, q := range part {
			if q.ReceivedAt.IsZero() || q.Type != "t" {
				t.Errorf("read %+v", q)
			}
			got, after = append(got, q.Key+" "+string(q.Body)), q.ID
		}
	}
	if want := `q1 {"x":"q1"},q2 ,q3 {"x":"q3"}`; strings.Join(got, ",") != want {
		t.Errorf("read %v, want %s", got, want)
	}
}

func TestTheEventsOfAQuarantinedDeliveryBecomeDeliveries(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.receive(quarantinedDelivery("batch", "", `[1,2]`))
	d.receive(delivery("evt-2", "b2"))
	events := []Delivery{delivery("evt-1", "b1"), delivery("evt-2", "b2"), quarantinedDelivery("evt-3", "", `{}`)}
	for _, want := range []bool{true, false} {
		d.do(func(tx *Tx) error {
			if still, err := tx.SplitDelivery("batch", events); still != want || err != nil {
				t.Errorf("splitting it: %v, %v; want %v", still, err, want)
			}
			return nil
		})
	}
	if open := d.waiting(); len(open) != 2 {
		t.Errorf("waiting are %v, want those of b1 and b2", open)
	}
	left, err := d.QuarantinedAfter(t.Context(), 0, 9)
	if err != nil || len(left) != 1 || left[0].Key != "evt-3" {
		t.Errorf("quarantined are %+v, %v; want the event that is not understood", left, err)
	}
	batch, err := d.DeliveryNamed(t.Context(), "batch")
	if err != nil || batch.State != string(connector.InboxIgnored) || batch.Detail != eventsApart {
		t.Errorf("the batch is %+v, %v", batch, err)
	}
	if _, err := d.DeliveryBody(t.Context(), "batch"); !errors.Is(err, ErrBodyErased) {
		t.Errorf("the body of the batch: %v", err)
	}
}

func TestTypesAreCountedFromTheInbox(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	began := d.Now()
	for i := range 5 {
		d.receive(quarantinedDelivery(fmt.Sprint("new", i), "zebra.new", `{}`))
		d.clock.move(time.Minute)
	}
	d.receive(quarantinedDelivery("odd", "", `{}`))
	d.receive(delivery("evt-1", "b1"))
	last := d.Now()
	got, err := d.EventTypes(t.Context())
	want := []EventType{
		{Type: "zebra.new", Count: 5, First: began, Last: began.Add(4 * time.Minute), Quarantined: 5, QuarantinedAt: began,
			QuarantinedLast: began.Add(4 * time.Minute)},
		{Count: 1, First: last, Last: last, Quarantined: 1, QuarantinedAt: last, QuarantinedLast: last},
		{Type: "dd-mandate", Count: 1, First: last, Last: last},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("types, %v (-want +got):\n%s", err, diff)
	}
	all := func(string) bool { return true }
	if n, _, err := d.NotUnderstoodSince(t.Context(), all); n != 0 || err != nil {
		t.Errorf("%d are not understood in a row, %v; want none, the last was", n, err)
	}
	d.receive(quarantinedDelivery("odd again", "", `{}`))
	if n, since, err := d.NotUnderstoodSince(t.Context(), all); n != 1 || !since.Equal(last) || err != nil {
		t.Errorf("%d are not understood in a row since %v, %v", n, since, err)
	}
}
