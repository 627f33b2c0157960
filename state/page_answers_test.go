package state

import (
	"errors"
	"testing"

	"payersync/connector"
)

// A page's answer is returned once, within the write that asked, and to a reader of the page.
func TestWhatWasAskedOfAPageIsGivenOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planLink(run, "c1", "cus_1")
	shown := remote("cus_1", key("c1"))
	d.do(func(tx *Tx) error { _, err := tx.SaveRemote(shown, 1); return err })
	other := connector.RemoteCustomer{ID: "cus_2", Name: "Nobody's"}
	var pass *Listing
	owner := func(tx *Tx, id, want string) {
		t.Helper()
		p, err := tx.PayerByBillingID(id)
		if got := p.SourceID; got != want || (want == "") != errors.Is(err, ErrNoPayer) {
			t.Errorf("%s is of %q (%v), want %q", id, got, err, want)
		}
	}
	d.do(func(tx *Tx) (err error) {
		if pass, err = tx.BeginPass(); err != nil {
			return err
		}
		if _, err := tx.AskOfPage(pass, []connector.RemoteCustomer{shown, other}); err != nil {
			return err
		}
		if err := tx.exec("UPDATE payers SET billing_id = 'cus_2' WHERE source_id = 'c1'"); err != nil {
			return err
		}
		owner(tx, "cus_1", "c1") // as it was asked
		owner(tx, "cus_1", "")   // as it is
		owner(tx, "cus_2", "")
		owner(tx, "cus_2", "c1")
		_, _, digest, err := d.indexed(shown)
		if err != nil {
			return err
		}
		if err := tx.exec("UPDATE remote_customers SET ticket = 99 WHERE billing_id = 'cus_1'"); err != nil {
			return err
		}
		for i, want := range []bool{false, true} {
			if known, err := tx.inIndex("cus_1", digest, pass.Ticket); err != nil || (known.ticket == 99) != want {
				t.Errorf("asked for the %d. time, the index has ticket %d (%v)", i+1, known.ticket, err)
			}
		}
		_, err = tx.AskOfPage(pass, []connector.RemoteCustomer{shown, other})
		return err
	})
	d.do(func(tx *Tx) error {
		if err := tx.exec("UPDATE payers SET billing_id = 'cus_1' WHERE source_id = 'c1'"); err != nil {
			return err
		}
		owner(tx, "cus_1", "c1") // another write is not told what one before has asked
		owner(tx, "cus_2", "")
		return nil
	})
}
