package reconcile_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/state"
	"payersync/state/statetest"
)

// fill links so many payers to customers with a mandate and a financial status, and puts as many
// customers beside them who are nobody's.
func (w *world) fill(customers int) {
	w.t.Helper()
	for i := range customers {
		id := fmt.Sprintf("c%06d", i)
		w.link(fmt.Sprintf("A%06d", i), id)
		w.billing.put(id, fmt.Sprintf("A%06d", i), "m"+id, connector.MandateActive)
		c := w.billing.customers[id]
		c.Financial = "GOOD"
		w.billing.customers[id] = c
		stranger := fmt.Sprintf("s%06d", i)
		w.billing.customers[stranger] = connector.RemoteCustomer{ID: stranger, Name: "By hand " + stranger}
	}
}

// sweep sweeps a day later.
func (w *world) sweep() {
	w.t.Helper()
	w.now = w.now.Add(24 * time.Hour)
	if _, err := w.rec.Sweep(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// lastSeen returns when the mandates were seen last.
func (w *world) lastSeen() map[string]string {
	w.t.Helper()
	rows, err := w.ledger.Mandates(w.t.Context(), state.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range rows {
		out[r.MandateID] = r.LastSeenAt
	}
	return out
}

// at returns a time as the ledger writes it.
func (*world) at(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func TestASweepOfCustomersThatDidNotChangeWritesAsMuchForManyAsForFew(t *testing.T) {
	t.Parallel()
	var before map[string]int
	for _, customers := range []int{20, 40} {
		w := newWorld(t)
		w.fill(customers)
		w.sweep()
		w.sweep()
		written := statetest.CountWrites(t, w.path)
		w.sweep()
		got := written()
		for _, table := range []string{"remote_customers", "remote_traits", "mandates", "financial_statuses", "payers",
			"source_records"} {
			if got[table] != 0 {
				t.Errorf("%d rows of %s were written", got[table], table)
			}
		}
		if got["passes"] == 0 {
			t.Error("the pass was not written")
		}
		if before != nil {
			if diff := cmp.Diff(before, got); diff != "" {
				t.Errorf("rows written for 40 customers and for 80 (-40 +80):\n%s", diff)
			}
		}
		before = got
	}
}

// covers F32, S9
func TestAReadBesideWhichAListBeganIsMadeAgain(t *testing.T) {
	t.Parallel()
	drain := func(w *world) error {
		res, err := w.rec.Drain(t.Context())
		if res.Superseded != 0 || w.inbox()["reflected"] != 1 {
			t.Errorf("drain = %+v, inbox %v", res, w.inbox())
		}
		return err
	}
	look := func(w *world) error {
		exists, err := w.rec.Check(t.Context(), "c1", connector.CauseWebhook, "d1")
		if !exists {
			t.Error("the customer counts as gone")
		}
		return err
	}
	for name, tt := range map[string]struct {
		read func(*world) error
		gone bool // the read says that the customer does not exist; otherwise it shows another status
	}{
		"a delivery, another status": {drain, false}, "a delivery, no customer": {drain, true},
		"a look, another status": {look, false}, "a look, no customer": {look, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.link("A1", "c1")
			w.billing.put("c1", "A1", "m1", connector.MandateActive)
			w.sweep()
			w.receive("d1", "c1")
			known := w.billing.customers["c1"]
			if delete(w.billing.customers, "c1"); !tt.gone {
				w.billing.put("c1", "A1", "m1", connector.MandateCancelled)
			}
			w.billing.onGet = func() { // it is as it was again before the answer arrives, and a list shows that
				w.billing.customers["c1"] = known
				w.sweep()
			}
			if err := tt.read(w); err != nil || w.billing.gets != 2 {
				t.Errorf("%d reads, %v; want two", w.billing.gets, err)
			}
			if diff := cmp.Diff([]string{">ACTIVE"}, w.moves()); diff != "" || len(w.reasons()) != 0 {
				t.Errorf("told: %v, history (-want +got):\n%s", w.reasons(), diff)
			}
		})
	}
}

func TestAMandateWasLastSeenWhenTheListBeganThatShowedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(2)
	want := map[string]string{}
	seen := func(what string, ids ...string) {
		t.Helper()
		for _, id := range ids {
			want[id] = w.at(w.now)
		}
		if diff := cmp.Diff(want, w.lastSeen()); diff != "" {
			t.Errorf("after %s, last seen (-want +got):\n%s", what, diff)
		}
	}
	const first, second = "mc000000", "mc000001"
	w.sweep()
	seen("the first", first, second)
	w.sweep()
	seen("one that shows all as it was", first, second)
	with := maps.Clone(w.billing.customers)
	c := with["c000001"]
	c.Mandate = nil
	w.billing.customers["c000001"] = c
	w.sweep()
	seen("one that does not show the second", first)
	w.sweep()
	seen("one more that does not", first)
	w.billing.customers = with
	w.now = w.now.Add(time.Hour)
	w.billing.broken = errors.New("it went down")
	if _, err := w.rec.Sweep(t.Context()); err == nil {
		t.Error("a list that broke off is one")
	}
	seen("one that broke off")
	w.billing.broken = nil
	w.sweep()
	seen("one that shows all again", first, second)
}

// A list that began earlier ends after one begun during it: a mandate's last sighting is not later than the
// beginning of the newest list with it.
func TestOfTwoListsAtOnceNoneSaysThatItShowedWhatItDidNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(1)
	w.sweep()
	with := w.billing.customers["c000000"]
	without := with
	without.Mandate = nil
	shown := w.now
	show := func(c connector.RemoteCustomer) {
		w.now = w.now.Add(time.Hour)
		if w.billing.customers["c000000"] = c; c.Mandate != nil {
			shown = w.now
		}
	}
	for _, beside := range []connector.RemoteCustomer{without, with, without} {
		for _, itself := range []connector.RemoteCustomer{without, with, without} {
			first := *w.rec
			first.Billing = &slowList{fakeBilling: w.billing, meanwhile: func() {
				show(beside)
				if _, err := w.rec.Pass(t.Context()); err != nil {
					t.Error(err)
				}
			}}
			show(itself)
			if _, err := first.Pass(t.Context()); err != nil {
				t.Error(err)
			}
			if got := w.lastSeen()["mc000000"]; got > w.at(shown) {
				t.Errorf("last seen %s, and the last that showed it began at %s", got, w.at(shown))
			}
		}
	}
}

// BenchmarkUnchangedSweep sweeps customers of whom half are ours, and none has changed, and says
// how much is written to the log for each.
func BenchmarkUnchangedSweep(b *testing.B) {
	const linked = 1000
	w := newWorld(b)
	w.fill(linked)
	w.sweep()
	w.sweep()
	size := statetest.LogSize(b, w.path)
	before := size()
	for b.Loop() {
		w.sweep()
	}
	customers := float64(b.N * 2 * linked)
	b.ReportMetric(float64(size()-before)/customers, "log-B/customer")
	b.ReportMetric(float64(size()-before)/float64(b.N), "log-B/sweep")
	b.ReportMetric(customers/b.Elapsed().Seconds(), "customers/s")
}
