package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"payersync/connector"
)

// past is one payer with a create, updates and webhooks a day apart.
func (d *desk) past(id string, updates int) {
	d.t.Helper()
	run := d.run(acme)
	for i := range updates + 1 {
		r, want := personalRecord(id), personalCustomer(id)
		want.Name = fmt.Sprintf("%s %d", canaryName, i)
		r.Data = []byte(fmt.Sprintf(`{"name":%q}`, want.Name))
		change := &NewChange{Action: connector.ActionUpdate, Wanted: want, Diff: connector.Diff(connector.Customer{}, want)}
		if i == 0 {
			change = &NewChange{Action: connector.ActionCreate, Wanted: want}
		}
		d.save(run, acme, r)
		d.decide(run, acme, included(r, change))
		c := d.open(acme, id, LaneCustomer)
		d.do(func(tx *Tx) error {
			var a Attempt
			var err error
			if i == 0 {
				a, err = tx.FreezeCreate(run, c, []byte("{}"), 0)
				err = errors.Join(err, tx.LinkPayer(c.Payer, "b-"+id, true))
			} else {
				a, err = tx.FreezeUpdate(run, c, []byte("{}"), []byte("{}"))
			}
			_, received := tx.Receive(Delivery{Key: fmt.Sprintf("%s-%d", id, i), Type: "customer", BillingID: "b-" + id,
				Body: []byte(canaryName), State: connector.InboxReceived})
			return errors.Join(err, tx.EndAttempt(a, AttemptAnswered), tx.CloseDone(run, c), received)
		})
		open := d.waiting()[0]
		d.do(func(tx *Tx) error { return tx.CloseDeliveries(open, connector.InboxReflected, "") })
		d.clock.move(day)
	}
	d.closeRun(run, connector.RunComplete)
}

func TestWhatIsOldIsKeptNoLongerAndTheNewestOfEveryPayerIs(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's own catalogue")
	d := newDesk(t)
	d.past("c1", 9) // ten changes and webhooks, 10 days to a day old
	d.do(func(tx *Tx) error {
		_, err := tx.Receive(Delivery{Key: "odd", Type: "?", Body: []byte(canaryName), State: connector.InboxQuarantined,
			Detail: "not understood"})
		return err
	})
	d.clock.move(30 * day)
	limits := Retention{Bodies: 35 * day, Details: 34 * day}
	would, err := d.WouldRetain(t.Context(), limits)
	if err != nil {
		t.Fatal(err)
	}
	before := d.rows()
	done, err := d.Retain(t.Context(), limits)
	if err != nil || done != would || done != (Retained{Bodies: 6, Details: 6}) {
		t.Errorf("it did %+v and would have done %+v, %v", done, would, err)
	}
	if again, err := d.Retain(t.Context(), limits); err != nil || again != (Retained{}) {
		t.Errorf("a second time it did %+v, %v", again, err)
	}
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM changes WHERE body IS NOT NULL AND wanted IS NOT NULL"); n != 4 {
		t.Errorf("%d changes have their details, want those of 33 to 31 days and the newest of before", n)
	}
	if body, err := d.DeliveryBody(t.Context(), "odd"); err != nil || string(body) != canaryName {
		t.Errorf("what nobody has understood holds %q, %v", body, err)
	}
	if _, err := d.DeliveryBody(t.Context(), "c1-0"); !errors.Is(err, ErrBodyErased) {
		t.Errorf("an old delivery: %v", err)
	}
	for key, text := range d.rows() {
		if table := strings.Fields(key)[0]; table != "changes" && table != "inbox" && table != "ledger" &&
			before[key] != text {
			t.Errorf("%s has changed", key)
		}
	}
	if err := errors.Join(d.Integrity(t.Context()), openRest(t.Context(), d.Ledger)); err != nil {
		t.Error(err)
	}
	d.clock.move(1000 * day)
	if done, err := d.Retain(t.Context(), limits); err != nil || done.Details != 3 {
		t.Errorf("years later it did %+v, %v; the newest change stays", done, err)
	}
	d.do(func(tx *Tx) error { _, err := tx.DismissDelivery("odd", "a test"); return err })
	for _, after := range []struct {
		wait time.Duration
		want int
	}{{0, 0}, {34 * day, 0}, {2 * day, 1}} {
		d.clock.move(after.wait)
		if done, err := d.Retain(t.Context(), limits); err != nil || done.Bodies != after.want {
			t.Errorf("%s after it was closed: %+v, %v", after.wait, done, err)
		}
	}
}

// Details still in use are kept, however old.
func TestWhatIsStillNeededIsKept(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"a request without an end":     "UPDATE attempts SET ended = '' WHERE change_id = 1",
		"the newest update of another": "UPDATE attempts SET billing_id = 'b-other', action = 'update' WHERE change_id = 1",
		"what is to be taken back":     "UPDATE payers SET unlink_at = 1",
		"a customer nobody has seen":   "UPDATE payers SET applied = NULL",
		"an open change":               "UPDATE changes SET state = 'unknown' WHERE change_id = 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.past("c1", 3)
			d.do(func(tx *Tx) error { return tx.exec(change) })
			d.clock.move(1000 * day)
			if _, err := d.Retain(t.Context(), Retention{Bodies: day, Details: day}); err != nil {
				t.Fatal(err)
			}
			if n := one[int](t, d.Ledger, "SELECT count(*) FROM changes WHERE change_id = 1 AND body IS NOT NULL"); n != 1 {
				t.Error("it is not kept")
			}
		})
	}
}

func TestRetentionStopsBetweenTwoWrites(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(func(tx *Tx) error {
		var errs []error
		for i := range 3*retainBatch + 5 {
			_, err := tx.Receive(Delivery{Key: fmt.Sprint("k", i), Type: "customer", Body: []byte("x"),
				State: connector.InboxIgnored})
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	d.clock.move(40 * day)
	ctx, stop := context.WithCancel(t.Context())
	d.asked = func(done bool) error {
		if done {
			stop()
		}
		return nil
	}
	done, err := d.Retain(ctx, Retention{Bodies: 30 * day})
	if !errors.Is(err, context.Canceled) || done.Bodies != retainBatch {
		t.Errorf("it did %+v and ended with %v", done, err)
	}
	if done, err := d.Retain(t.Context(), Retention{Bodies: 30 * day}); err != nil || done.Bodies != 2*retainBatch+5 {
		t.Errorf("then it did %+v, %v", done, err)
	}
}
