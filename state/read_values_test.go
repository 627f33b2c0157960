package state

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/state/internal/dbtest"
)

func TestWhatACustomerWasReadToHoldIsKeptUntilItIsNewsNoMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planSome(run, canaryName, "c1")
	d.finishPlan(run)
	d.send(run, "c1", connector.ChangeDone, "")
	d.closeRun(run, connector.RunComplete)
	payer := func() Payer { return d.payerOf(acme, "c1") }
	reads := func() *Read {
		t.Helper()
		r, err := d.LastRead(t.Context(), payer())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := reads(); r != nil {
		t.Errorf("before any read it was read to hold %+v", r)
	}
	differs := []connector.FieldChange{{Path: "addresses[0].country", From: canaryName}}
	ticket, err := d.Ticket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.do(func(tx *Tx) error {
		if _, err := tx.SaveRemote(connector.RemoteCustomer{ID: "b-c1", Name: canaryName,
			ExternalData: map[string]string{"acct": "c1"}}, ticket); err != nil {
			return err
		}
		if err := tx.SetConfirmed(payer()); err != nil {
			return err
		}
		return tx.SetRead(payer(), differs)
	})
	if r := reads(); r == nil || !r.At.Equal(d.Now()) || !cmp.Equal(differs, r.Differs) {
		t.Errorf("it was read to hold %+v", r)
	}
	const box = "SELECT read_values FROM payers"
	kept := one[[]byte](t, d.Ledger, box)
	d.do(func(tx *Tx) error { return tx.SetRead(payer(), differs) })
	if !bytes.Equal(kept, one[[]byte](t, d.Ledger, box)) { // sealed again, it would be another one
		t.Error("a read that shows the same was written")
	}
	if h, err := d.SubjectData(t.Context(), RecordID{acme, "c1"}); err != nil || h.Payer.Read == nil ||
		len(h.Payer.Read.Differs) != 1 {
		t.Errorf("the payer's export holds %+v, %v", h.Payer, err)
	}
	d.do(func(tx *Tx) error { return tx.SetApplied(payer(), personalCustomer("c1")) })
	if r := reads(); r == nil || len(r.Differs) != 0 {
		t.Errorf("once something else counts as sent, it was read to hold %+v", r)
	}
	d.do(func(tx *Tx) error { return tx.SetRead(payer(), differs) })
	var boxes [][]byte
	if !dbtest.OnPostgres() {
		boxes = d.sealedOf(canaryName)
	}
	d.over()
	d.forget("c1")
	if len(boxes) > 0 {
		d.expectNowhere(boxes)
	}
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM payers WHERE read_values IS NULL AND read_digest = ''"); n != 1 {
		t.Error("what a forgotten payer's customer holds is kept")
	}
	d.do(func(tx *Tx) error { return tx.SetRead(payer(), differs) })
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM payers WHERE read_values IS NULL"); n != 1 {
		t.Error("what a forgotten payer's customer holds is kept anew")
	}
}
