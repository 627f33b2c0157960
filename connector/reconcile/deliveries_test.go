package reconcile_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/state"
)

// covers F42, L3
func TestADeliveryForAnUnknownCustomerIsParkedAndThenLeftToTheSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive("d1", "stranger")
	for range 10 {
		if _, err := w.rec.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Hour)
	}
	if diff := cmp.Diff(map[string]int{"ignored": 1}, w.inbox()); diff != "" {
		t.Errorf("inbox (-want +got):\n%s", diff)
	}
	if w.billing.gets != 0 {
		t.Errorf("%d reads of a customer that is not ours", w.billing.gets)
	}
}

// receiveMandate stores a delivery that names a mandate and nothing else.
func (w *world) receiveMandate(key, mandateID string) {
	w.t.Helper()
	w.do(func(tx *state.Tx) error {
		_, err := tx.Receive(state.Delivery{Key: key, Type: "dd-mandate", MandateID: mandateID, Body: []byte(`{}`),
			State: connector.InboxReceived})
		return err
	})
}

// covers F42, L3
func TestADeliveryThatNamesOnlyAMandateIsReflectedOnItsCustomer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.billing.put("c1", "A1", "m1", connector.MandateCreated)
	w.link("A1", "c1")
	w.billing.put("c1", "A1", "m1", connector.MandateCreated)
	w.receive("d0", "c1")
	if _, err := w.rec.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.billing.put("c1", "A1", "m1", connector.MandateActive)
	w.receiveMandate("d1", "m1")
	w.receiveMandate("d2", "m1")
	w.receiveMandate("d3", "m9")
	gets := w.billing.gets
	res, err := w.rec.Drain(t.Context())
	if want := (reconcile.DrainResult{Reflected: 1, Parked: 1, Moved: 1}); err != nil || res != want ||
		w.billing.gets != gets+1 {
		t.Errorf("drain = %+v, %v with %d reads; want %+v with one", res, err, w.billing.gets-gets, want)
	}
	if diff := cmp.Diff([]string{">CREATED", "CREATED>ACTIVE"}, w.moves()); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	// The mandate that nobody knew becomes known while its delivery is parked.
	w.billing.put("c1", "A1", "m9", connector.MandateCreated)
	if _, err := w.rec.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.billing.put("c1", "A1", "m9", connector.MandatePending)
	w.now = w.now.Add(time.Minute)
	if res, err := w.rec.Drain(t.Context()); err != nil || res.Reflected != 1 || res.Moved != 1 {
		t.Errorf("drain = %+v, %v once the mandate is known; want it reflected", res, err)
	}
	if diff := cmp.Diff(map[string]int{"reflected": 4}, w.inbox()); diff != "" {
		t.Errorf("inbox (-want +got):\n%s", diff)
	}
}

func TestADeliveryOfAMandateNobodyKnowsIsParkedAndThenLeftToTheSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiveMandate("d1", "m9")
	w.receiveMandate("d2", "m8")
	for range 10 {
		if _, err := w.rec.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Hour)
	}
	if diff := cmp.Diff(map[string]int{"ignored": 2}, w.inbox()); diff != "" || w.billing.gets != 0 {
		t.Errorf("after %d reads the inbox is (-want +got):\n%s", w.billing.gets, diff)
	}
}

// covers L3, L7
func TestADeliveryStaysInTheInboxUntilTheServiceAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link("A1", "c1")
	w.billing.put("c1", "A1", "m1", connector.MandateActive)
	w.receive("d1", "c1")
	w.billing.broken = &connector.RemoteError{Op: "get customer", Fault: connector.FaultUnavailable, Detail: "no answer"}
	if _, err := w.rec.Drain(t.Context()); err == nil {
		t.Error("drain said nothing of the outage")
	}
	w.billing.broken = nil
	w.now = w.now.Add(time.Hour)
	if res, err := w.rec.Drain(t.Context()); err != nil || res.Reflected != 1 {
		t.Errorf("drain = %+v, %v; want one reflected", res, err)
	}
}
