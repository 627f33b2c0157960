package state

import (
	"errors"
	"testing"
)

// covers F77, S12
func TestALedgerBelongsToTheAccountOfItsFirstRun(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ours := Account{"api.example.com/v1", "0a1b2c3d"}
	renewed, elsewhere := Account{ours.Address, "99999999"}, Account{"api.example.net/v1", "0a1b2c3d"}
	take := func(a Account) error {
		return d.Do(t.Context(), func(tx *Tx) error { return tx.TakeAccount(a, "amy") })
	}
	belongs := func(to Account, reason string) {
		t.Helper()
		if got, err := d.Account(t.Context()); err != nil || got != to {
			t.Errorf("it belongs to %v, %v; want %v", got, err, to)
		}
		var last string
		if err := d.queryRow(t.Context(),
			"SELECT coalesce((SELECT actor || ': ' || subject || ': ' || reason FROM audit ORDER BY seq DESC LIMIT 1), '')").Scan(&last); err != nil || last != reason {
			t.Errorf("the audit log ends with %q, %v; want %q", last, err, reason)
		}
	}
	belongs(Account{}, "")
	for range 2 {
		if err := take(ours); err != nil {
			t.Fatal(err)
		}
	}
	belongs(ours, "")
	if err := take(elsewhere); err != nil { // nothing ties it to the first yet
		t.Fatal(err)
	}
	const free = "nothing had been read from the account before, and nothing sent to it"
	belongs(elsewhere, "amy: "+elsewhere.String()+": "+free)
	if err := take(ours); err != nil {
		t.Fatal(err)
	}
	d.do(func(tx *Tx) error { _, err := tx.SaveRemote(remote("b1", key("c1")), 1); return err })
	if err := take(renewed); err != nil {
		t.Errorf("other credentials at the same address are refused: %v", err)
	}
	belongs(renewed, "amy: "+renewed.String()+": new credentials of the same account")
	var other *ErrOtherAccount
	if err := take(elsewhere); !errors.As(err, &other) || other.Ledger != renewed || other.Config != elsewhere {
		t.Errorf("another address: %v, want a refusal that names both", err)
	}
	d.do(func(tx *Tx) error { return tx.MoveAccount(elsewhere, Entry{Actor: "amy", Reason: "they have moved"}) })
	belongs(elsewhere, "amy: "+elsewhere.String()+": they have moved")
}

func TestAnAddressIsTheSameWithoutThePathThatEarlierVersionsDidNotNote(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"api.example.com", "api.example.com/v1", true}, {"API.example.com/v1", "api.example.com/v1", true},
		{"api.example.com/sandbox/v1", "api.example.com/live/v1", false}, {"api.example.com", "api.example.com:8443", false},
		{"api.example.com", "api.example.net", false},
	} {
		if got := (Account{Address: tt.a}).SameAddress(Account{Address: tt.b}); got != tt.same {
			t.Errorf("%s and %s are the same: %t", tt.a, tt.b, got)
		}
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
	d.do(func(tx *Tx) error { _, err := tx.SaveRemote(remote("b1", key("c1")), 1); return err })
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
