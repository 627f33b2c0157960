package state

import (
	"context"
	"fmt"
	"testing"
	"time"

	"payersync/connector"
)

// covers F64
func TestThatAListShowsACustomerAsItIsKnownIsWrittenWhereItMattersWhen(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before  func(d *desk)
		written bool
	}{
		"nothing happened": {func(*desk) {}, false},
		"a restore":        {func(d *desk) { d.do((*Tx).MarkRestored) }, true},
		"an answer": {func(d *desk) {
			d.do(func(tx *Tx) error { return tx.Answered(Payer{Connection: acme, SourceID: "c1"}) })
		}, true},
		"a request for a link": {func(d *desk) {
			d.do(func(tx *Tx) error { _, err := tx.BeginRequest(d.payerOf(acme, "c1")); return err })
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.planLinkedPayer("c1", "b1")
			d.list("b1")
			d.list("b1")
			tt.before(d)
			s := d.list("b1")
			if got := one[int64](t, d.Ledger, "SELECT ticket FROM remote_customers"); (got == s.Ticket) != tt.written {
				t.Errorf("the ticket of the customer is %d, of the list %d", got, s.Ticket)
			}
			again := d.list("b1")
			if got := one[int64](t, d.Ledger, "SELECT ticket FROM remote_customers"); got == again.Ticket &&
				name != "a request for a link" {
				t.Error("the next list writes it once more")
			}
		})
	}
}

// Two lists are compared at the same time. The one that ends last must not use rows marked by the other
// since.
func TestAListThatAnotherOvertookAtItsEndSaysOfNoMandateThatItShowedIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	m := connector.Mandate{ID: "m1", CustomerID: "b1", Status: connector.MandateActive}
	d.mandate(m, connector.CauseSweep)
	list := func(shows bool) *Listing {
		d.clock.move(time.Hour)
		s := d.startList("b1")
		if shows {
			d.do(func(tx *Tx) error {
				return tx.saveMandate(&Known{Observation: Observation{List: s, Cause: connector.CauseSweep, CauseID: "1"},
					Status: m.Status}, m)
			})
		}
		return s
	}
	first, second := list(true), list(false)
	began := d.Now()
	third := list(true)
	for _, s := range []*Listing{first, second} {
		if err := d.Compare(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
	d.finish(third)
	for _, s := range []*Listing{first, second} {
		d.do(func(tx *Tx) error { return tx.FinishPass(s) })
	}
	rows, err := d.Mandates(t.Context(), Filter{})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	if got := rows[0].LastSeenAt; got <= stamp(began).(string) || got > stamp(d.Now()).(string) {
		t.Errorf("last seen %s, want what the third said, which began after %s", got, stamp(began))
	}
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM mandates WHERE listed = 1"); n != 0 {
		t.Error("it still counts as shown by the list that ended last")
	}
}

// More rows than one statement marks.
func TestAListMarksEveryRowThatItShows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	var all []connector.Mandate
	for i := range 2*idsAtOnce + 1 {
		all = append(all, connector.Mandate{ID: fmt.Sprint("m", i), CustomerID: "b1", Status: connector.MandateActive})
	}
	show := func(s *Listing, mandates []connector.Mandate) {
		d.do(func(tx *Tx) error {
			for _, m := range mandates {
				k := &Known{Observation: Observation{List: s, Cause: connector.CauseSweep, CauseID: "1"}}
				if s != nil {
					k.Status = m.Status
				}
				if err := tx.saveMandate(k, m); err != nil {
					return err
				}
			}
			return nil
		})
	}
	show(nil, all)
	for _, shown := range []int{len(all), idsAtOnce, len(all), 1, 0} {
		d.clock.move(time.Hour)
		s := d.startList("b1")
		show(s, all[:shown])
		d.finish(s)
		if n := one[int](t, d.Ledger, "SELECT count(*) FROM mandates WHERE listed = 1"); n != shown {
			t.Errorf("%d rows count as shown by a list that showed %d", n, shown)
		}
	}
}
