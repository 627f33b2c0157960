package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

func TestACustomerWithAnUnclaimedKeyIsFreeForOneConnectionAfterAWholeReading(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.save(run, acme, record("c1", "x"))
	key := connector.Key{Name: "acct", Value: "7", Scope: "org"}
	d.saveRemote(connector.RemoteCustomer{ID: "b1", Name: "Quay Ltd", ExternalData: key.Pairs()}, 1)
	d.saveRemote(connector.RemoteCustomer{ID: "b2", Name: "Quay Ltd", ExternalData: map[string]string{"acct": "8"}}, 1)
	carried, err := d.KeysWithoutPayer(t.Context(), acme, "acct")
	if diff := cmp.Diff([]CarriedKey{{"b1", key}, {"b2", connector.Key{Name: "acct", Value: "8"}}}, carried); diff != "" ||
		err != nil {
		t.Fatalf("keys without a payer, %v (-want +got):\n%s", err, diff)
	}
	note := func(whole bool, found ...CarriedKey) {
		t.Helper()
		d.do(func(tx *Tx) error { return tx.SaveUnclaimedKeys(acme, found, whole) })
	}
	expect := func(when, connection string, free int, alike ...string) {
		t.Helper()
		var n int
		d.do(func(tx *Tx) (err error) {
			n, err = tx.FreeCustomers(connection, "acct")
			return err
		})
		got, err := d.Alike(t.Context(), connector.Customer{Name: "Quay Ltd"}, "acct", connection, "c1")
		if diff := cmp.Diff(alike, got); n != free || diff != "" || err != nil {
			t.Errorf("%s: %d customers are free, want %d; %v, alike are (-want +got):\n%s", when, n, free, err, diff)
		}
	}
	accepted := func() connector.Reason {
		t.Helper()
		a, err := d.Accepted(t.Context(), acme, "c1", connector.Key{Name: "acct", Value: "c1", Scope: "org"})
		if err != nil {
			t.Fatal(err)
		}
		return a.Why()
	}
	if _, err := d.word("c1", "b1", WordAccept); err != nil {
		t.Fatal(err)
	}
	if accepted() != connector.ReasonOtherKey {
		t.Errorf("a customer whose key may be a record's is not to be had for %q", accepted())
	}
	d.do(func(tx *Tx) error { return tx.RevokePairDecision(acme, "c1", "b1") })

	expect("nothing is noted", acme, 0)
	note(true, carried[0])
	expect("the books were not read whole", acme, 1)
	d.do(func(tx *Tx) error { return tx.RecordRead(run, true, connector.Proof{Passes: 1}) })
	expect("the books were read whole", acme, 1, "b1")
	expect("another connection", "other", 0)
	if _, err := d.word("c1", "b1", WordAccept); err != nil || accepted() != "" {
		t.Errorf("a free customer is not to be had for %q, %v", accepted(), err)
	}
	note(true)
	d.tickets(3)
	note(true, carried[0])
	if accepted() != connector.ReasonOtherKey {
		t.Errorf("a customer whose key was noted after the word is not to be had for %q", accepted())
	}
	d.do(func(tx *Tx) error { return tx.RevokePairDecision(acme, "c1", "b1") })

	note(false, carried...)
	expect("half a reading adds nobody", acme, 1, "b1")
	note(true, carried...)
	expect("both are free", acme, 2, "b1", "b2")
	note(false, carried[1])
	expect("half a reading may show that a record has the key", acme, 1, "b2")
	d.saveRemote(connector.RemoteCustomer{ID: "b2", Name: "Quay Ltd", ExternalData: map[string]string{"acct": "9"}}, 2)
	expect("the customer got another number", acme, 0)
}
