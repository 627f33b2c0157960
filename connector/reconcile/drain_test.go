package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

func TestCustomersThatWaitTogetherShareTheirWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 16 {
		id := fmt.Sprint("c", i)
		w.link(fmt.Sprint("A", i), id)
		w.billing.put(id, fmt.Sprint("A", i), fmt.Sprint("m", i), connector.MandatePending)
		w.receive(fmt.Sprint("d", i), id)
		w.receive(fmt.Sprint("e", i), id)
	}
	before, err := w.ledger.Commits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.rec.Drain(t.Context())
	if err != nil || res.Reflected != 16 || res.Moved != 16 || w.billing.gets != 16 {
		t.Errorf("drain = %+v, %v with %d reads; want each customer read once", res, err, w.billing.gets)
	}
	if after, err := w.ledger.Commits(t.Context()); err != nil || after-before != 4 {
		t.Errorf("%d commits, %v; want two for each eight customers", after-before, err)
	}
	if diff := cmp.Diff(map[string]int{"reflected": 32}, w.inbox()); diff != "" {
		t.Errorf("inbox (-want +got):\n%s", diff)
	}
}

func TestACustomerThatCannotBeRecordedHoldsUpNoOtherOfItsGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 {
		id := fmt.Sprint("c", i)
		w.link(fmt.Sprint("A", i), id)
		w.receive(fmt.Sprint("d", i), id)
	}
	w.billing.customers["c2"] = connector.RemoteCustomer{} // the ledger takes no customer without an id
	if _, err := w.rec.Drain(t.Context()); err == nil {
		t.Error("drain said nothing of the customer without an id")
	}
	if diff := cmp.Diff(map[string]int{"reflected": 2, "received": 1}, w.inbox()); diff != "" {
		t.Errorf("inbox (-want +got):\n%s", diff)
	}
}

// BenchmarkDrain reflects webhooks about customers that all moved, from a service that answers at once.
func BenchmarkDrain(b *testing.B) {
	const customers = 500
	w := newWorld(b)
	for i := range customers {
		w.link(fmt.Sprint("A", i), fmt.Sprint("c", i))
	}
	status := []connector.MandateStatus{connector.MandatePending, connector.MandateActive}
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		for i := range customers {
			id := fmt.Sprint("c", i)
			w.billing.put(id, fmt.Sprint("A", i), fmt.Sprint("m", i), status[n%2])
			w.receive(fmt.Sprint(n, "d", i), id)
		}
		b.StartTimer()
		if res, err := w.rec.Drain(b.Context()); err != nil || res.Reflected != customers {
			b.Fatalf("drain = %+v, %v", res, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*customers), "us/customer")
}

func TestAFindingAboutAFormerMandateEndsWhenAnotherIsShown(t *testing.T) {
	t.Parallel()
	for _, status := range []connector.MandateStatus{connector.MandateCancelled, "PAUSED"} {
		w := newWorld(t)
		w.link("A1", "c1")
		for i, m := range []connector.Mandate{{ID: "m1", Status: status}, {ID: "m2", Status: connector.MandateCreated}} {
			w.billing.put("c1", "A1", m.ID, m.Status)
			w.receive(fmt.Sprint("d", i), "c1")
			w.now = w.now.Add(10 * time.Second)
			if _, err := w.rec.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if told := w.reasons()["A1"]; (told != "") != (i == 0) {
				t.Errorf("after %s of %s people are told %q", m.ID, m.Status, told)
			}
		}
	}
}
