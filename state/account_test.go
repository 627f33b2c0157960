package state

import (
	"errors"
	"testing"
)

// covers F77, S12
func TestALedgerBelongsToTheAccountOfItsFirstRun(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ours, others := Account{"api.example.com", "0a1b2c3d"}, Account{"api.example.com", "99999999"}
	if got, err := d.Account(t.Context()); err != nil || got != (Account{}) {
		t.Errorf("a new ledger belongs to %v, %v", got, err)
	}
	for range 2 {
		d.do(func(tx *Tx) error { return tx.TakeAccount(ours) })
	}
	var other *ErrOtherAccount
	if err := d.Do(t.Context(), func(tx *Tx) error { return tx.TakeAccount(others) }); !errors.As(err, &other) || other.Ledger != ours || other.Config != others {
		t.Errorf("another account: %v, want a refusal that names both", err)
	}
	d.do(func(tx *Tx) error { return tx.MoveAccount(others, Entry{Actor: "amy", Reason: "new credentials"}) })
	if got, err := d.Account(t.Context()); err != nil || got != others {
		t.Errorf("after the move it belongs to %v, %v", got, err)
	}
	var actor, subject, reason string
	if err := d.queryRow(t.Context(), "SELECT actor, subject, reason FROM audit ORDER BY seq DESC LIMIT 1").Scan(&actor, &subject, &reason); err != nil {
		t.Fatal(err)
	}
	if actor != "amy" || subject != others.String() || reason != "new credentials" {
		t.Errorf("the audit log says %q moved it to %q because %q", actor, subject, reason)
	}
}

// covers F77
func TestALedgerKnowsCustomersOnceOneWasListedOrSent(t *testing.T) {
	t.Parallel()
	knows := func(d *desk) bool {
		t.Helper()
		k, err := d.KnowsCustomers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	d := newDesk(t)
	d.run(acme)
	if knows(d) {
		t.Error("a run that has read nothing knows customers")
	}
	d.do(func(tx *Tx) error { _, err := tx.SaveRemote(remote("b1", key("c1")), 1, 0); return err })
	if !knows(d) {
		t.Error("a customer was listed, and none is known")
	}
}

func TestTheAccountOfAnEarlierVersionsLedgerIsKnown(t *testing.T) {
	t.Parallel()
	l := upgraded(t, "UPDATE connections SET fingerprint = 'api.example.com:8443 client 0a1b2c3d'")
	if got, err := l.Account(t.Context()); err != nil || got != (Account{"api.example.com:8443", "0a1b2c3d"}) {
		t.Errorf("the ledger belongs to %v, %v", got, err)
	}
}
