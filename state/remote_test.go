package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// saveRemote applies a single read of a customer.
func (d *desk) saveRemote(c connector.RemoteCustomer, ticket int64) (fresh bool) {
	d.t.Helper()
	d.do(func(tx *Tx) (err error) {
		fresh, err = tx.SaveRemote(c, ticket)
		return err
	})
	return fresh
}

// saveListed applies what a list pass shows of a customer.
func (d *desk) saveListed(c connector.RemoteCustomer, s *Listing) (fresh bool) {
	d.t.Helper()
	d.do(func(tx *Tx) (err error) {
		fresh, err = tx.see(Observation{CustomerID: c.ID, Customer: &c, Ticket: s.Ticket, List: s})
		return err
	})
	return fresh
}

func (d *desk) beginPass() (s *Listing) {
	d.t.Helper()
	d.do(func(tx *Tx) (err error) {
		s, err = tx.BeginPass()
		return err
	})
	return s
}

// list makes a complete pass that sees these customers, a minute after the last.
func (d *desk) list(ids ...string) *Listing {
	d.t.Helper()
	s := d.startList(ids...)
	d.finish(s)
	return s
}

// finish ends a pass that leaves nothing in doubt.
func (d *desk) finish(s *Listing) {
	d.t.Helper()
	if err := d.Compare(context.Background(), s); err != nil {
		d.t.Fatal(err)
	}
	d.do(func(tx *Tx) error { return errors.Join(tx.FinishPass(s), tx.JudgePass(s.Pass, 0, 0)) })
}

// startList makes a pass that does not come to its end.
func (d *desk) startList(ids ...string) *Listing {
	d.t.Helper()
	d.clock.move(time.Minute)
	s := d.beginPass()
	for _, id := range ids {
		d.saveListed(remote(id, key(id)), s)
	}
	return s
}

func (d *desk) holders(k connector.Key) []string {
	d.t.Helper()
	out, err := d.KeyHolders(context.Background(), k)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func (d *desk) index(quarantine time.Duration) Index {
	d.t.Helper()
	x, err := d.Index(context.Background(), quarantine)
	if err != nil {
		d.t.Fatal(err)
	}
	return x
}

// covers F32
func TestAReadThatStartedEarlierNeverOverwritesALaterOne(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	older, newer := remote("b1", key("old")), remote("b1", key("new"))
	if !d.saveRemote(newer, 7) {
		t.Error("the first read was refused")
	}
	if d.saveRemote(older, 6) {
		t.Error("a read that started earlier was applied")
	}
	if got := d.holders(key("old")); len(got) != 0 {
		t.Errorf("the older read's key is held by %v", got)
	}
	if !d.saveRemote(newer, 7) {
		t.Error("another page of the same read was refused")
	}
	d.do(func(tx *Tx) error {
		for _, s := range []struct {
			id     string
			ticket int64
			want   bool
		}{{"b1", 6, false}, {"b1", 7, true}, {"b1", 9, true}, {"b1", 8, false}, {"nobody", 99, false}} {
			if got, err := tx.see(Observation{CustomerID: s.id, Ticket: s.ticket}); got != s.want || err != nil {
				t.Errorf("touching %s with ticket %d: %v, %v; want %v", s.id, s.ticket, got, err, s.want)
			}
		}
		return nil
	})
	if d.saveRemote(older, 8) {
		t.Error("a read older than the touch was applied")
	}
}

// covers F48, F50, F52
func TestKeysAreFoundExactToTheByte(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	near := []string{"A-1", "a-1", "A-1 ", " A-1", "A\u20111", "A-1\u200b", "Å", "A\u030a", "%", "_-1", "A-1=", ""}
	for i, v := range near {
		d.saveRemote(remote(fmt.Sprintf("b%02d", i), key(v)), 1)
	}
	for i, v := range near {
		if diff := cmp.Diff([]string{fmt.Sprintf("b%02d", i)}, d.holders(key(v))); diff != "" {
			t.Errorf("holders of %q (-want +got):\n%s", v, diff)
		}
	}
	if got := d.holders(connector.Key{Name: "Acct", Value: "A-1"}); len(got) != 0 {
		t.Errorf("another key name is held by %v", got)
	}
}

// covers F49
func TestDoubledKeysAreShown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.planLinkedPayer("c2", "b2")
	d.saveRemote(remote("b1", key("c1")), 1)
	d.saveRemote(remote("b2", key("c2")), 1)
	d.saveRemote(remote("b9", key("c1")), 1)
	d.do(func(tx *Tx) error {
		doubled, err := tx.DoubledKeys()
		if err != nil || len(doubled) != 1 || doubled[0].SourceID != "c1" || doubled[0].LinkState != connector.LinkConflict {
			t.Errorf("doubled are %+v, %v; want c1", doubled, err)
		}
		if n, err := tx.KeyCount(key("c1")); n != 2 || err != nil {
			t.Errorf("c1 is carried by %d customers, %v; want 2", n, err)
		}
		_, err = tx.ForgetRemote("b9", 1)
		return err
	})
	if diff := cmp.Diff([]string{"b1"}, d.holders(key("c1"))); diff != "" {
		t.Errorf("holders after b9 was forgotten (-want +got):\n%s", diff)
	}
}

// covers F08, F43
func TestAForgottenCustomerIsNotBroughtBackByAnOlderRead(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	forget := func(ticket int64) (done bool) {
		d.do(func(tx *Tx) (err error) {
			done, err = tx.ForgetRemote("b1", ticket)
			return err
		})
		return done
	}
	d.saveRemote(remote("b1", key("k1")), 5)
	if forget(4) || len(d.holders(key("k1"))) != 1 {
		t.Error("an older read forgot the customer")
	}
	if !forget(6) || len(d.holders(key("k1"))) != 0 {
		t.Error("a later read did not forget the customer")
	}
	if d.saveRemote(remote("b1", key("k1")), 5) || len(d.holders(key("k1"))) != 0 {
		t.Error("an older list brought the customer back")
	}
	if !d.saveRemote(remote("b1", key("k1")), 7) || len(d.holders(key("k1"))) != 1 {
		t.Error("a later read does not show the customer again")
	}
}

func TestTheIndexFollowsACustomerThatChanges(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := remote("b1", key("k1"))
	d.saveRemote(c, 1)
	c.ExternalData, c.Emails = map[string]string{"acct": "k2", "other": "x"}, nil
	d.saveRemote(c, 2)
	if got := d.holders(key("k1")); len(got) != 0 {
		t.Errorf("the old key is still held by %v", got)
	}
	if diff := cmp.Diff([]string{"b1"}, d.holders(key("k2"))); diff != "" {
		t.Errorf("holders of the new key (-want +got):\n%s", diff)
	}
	alike, err := d.Alike(t.Context(), connector.Customer{People: []connector.Person{{Email: "b1@example.com"}}}, "nokey",
		acme, "c1")
	if len(alike) != 0 || err != nil {
		t.Errorf("the old address is still like %v, %v", alike, err)
	}
}

// covers F76
func TestAlikeFindsCustomersByNameAndByEveryAddress(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "linked")
	for _, c := range []connector.RemoteCustomer{
		{ID: "name", Name: " northwind   TRADING "},
		{ID: "mail1", Name: "x", Emails: []string{"else@example.com", "ADA@example.com"}},
		{ID: "mail2", Name: "y", Emails: []string{"ben@example.com"}},
		{ID: "ours", Name: "Northwind Trading", ExternalData: map[string]string{"acct": "1"}},
		{ID: "theirs", Name: "Northwind Trading", ExternalData: map[string]string{"acct2": "1"}},
		{ID: "linked", Name: "Northwind Trading"},
		{ID: "address as a name", Name: "ada@example.com"},
		{ID: "nameless", Emails: []string{""}},
	} {
		d.saveRemote(c, 1)
	}
	tests := []struct {
		name string
		c    connector.Customer
		want []string
	}{
		{"by name", connector.Customer{Name: "Northwind Trading"}, []string{"name", "theirs"}},
		{"by the first address", connector.Customer{Name: "?", People: []connector.Person{{Email: "ada@example.com"}}},
			[]string{"mail1"}},
		{"by the second address",
			connector.Customer{Name: "?", People: []connector.Person{{Email: "nobody@example.com"}, {Email: "ben@example.com"}}},
			[]string{"mail2"}},
		{"by everything", connector.Customer{Name: "Northwind Trading",
			People: []connector.Person{{Email: "Ben@Example.com"}, {}, {Email: "ada@example.com"}}},
			[]string{"mail1", "mail2", "name", "theirs"}},
		{"by nothing", connector.Customer{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := d.Alike(t.Context(), tt.c, "acct", acme, "c1")
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("alike, %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestKeysOfAnyLengthAreFoundAndToldApart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 9000)
	for name, c := range map[string]struct{ key, other connector.Key }{
		"short": {connector.Key{Name: "acct", Value: "1"}, connector.Key{Name: "acct", Value: "2"}},
		"other at the end": {connector.Key{Name: "acct", Value: long + "1"},
			connector.Key{Name: "acct", Value: long + "2"}},
		"one longer": {connector.Key{Name: "acct", Value: long},
			connector.Key{Name: "acct", Value: long + "x"}},
		"at the bound": {connector.Key{Name: "acct", Value: long[:connector.MaxIndexed]},
			connector.Key{Name: "acct", Value: long[:connector.MaxIndexed+1]}},
		"other scope": {connector.Key{Name: "acct", Value: long, Scope: long + "1"},
			connector.Key{Name: "acct", Value: long, Scope: long + "2"}},
		"without the scope": {connector.Key{Name: "acct", Value: long, Scope: "GB"},
			connector.Key{Name: "acct", Value: long}},
		"a long name": {connector.Key{Name: long + "1", Value: "1"},
			connector.Key{Name: long + "2", Value: "1"}},
		"a long name, another value": {connector.Key{Name: long, Value: long + "1"},
			connector.Key{Name: long, Value: long + "2"}},
		"U+0000": {connector.Key{Name: "acct", Value: "1\x00"},
			connector.Key{Name: "acct", Value: "1\ufffd"}},
		"U+0000 in the middle": {connector.Key{Name: "acct", Value: "1\x002"},
			connector.Key{Name: "acct", Value: "1\x003"}},
		"U+0000 in the name": {connector.Key{Name: "a\x00b", Value: "1"}, connector.Key{Name: "a\x00c", Value: "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			carries := func(id string, k connector.Key) connector.RemoteCustomer {
				return connector.RemoteCustomer{ID: id, Name: "Same Name", ExternalData: k.Pairs()}
			}
			d.saveRemote(carries("b1", c.key), 1)
			d.saveRemote(carries("b2", c.other), 1)
			d.saveRemote(connector.RemoteCustomer{ID: "b3", Name: "Same Name"}, 1)
			for _, k := range []struct {
				key  connector.Key
				want string
			}{{c.key, "b1"}, {c.other, "b2"}} {
				if diff := cmp.Diff([]string{k.want}, d.holders(k.key)); diff != "" {
					t.Errorf("who has %.30q (-want +got):\n%s", k.key, diff)
				}
				d.do(func(tx *Tx) error {
					n, err := tx.KeyCount(k.key)
					if n != 1 || err != nil {
						t.Errorf("%d customers have %.30q, %v", n, k.key, err)
					}
					return nil
				})
				carriers := map[string]connector.Key{}
				found, err := d.KeysWithoutPayer(t.Context(), acme, k.key.Name)
				for _, f := range found {
					carriers[f.BillingID] = f.Key
				}
				if carriers[k.want] != (connector.Key{Name: k.key.Name, Value: k.key.Indexed().Value,
					Scope: k.key.Indexed().Scope}) || carriers["b3"].Name != "" || err != nil {
					t.Errorf("carriers of %.30q: %.200q, %v", k.key.Name, carriers, err)
				}
				alike, err := d.Alike(t.Context(), connector.Customer{Name: "Same Name"}, k.key.Name, acme, "c1")
				want := slices.DeleteFunc([]string{"b1", "b2", "b3"}, func(id string) bool {
					return id == k.want || id != "b3" && c.key.Name == c.other.Name
				})
				if diff := cmp.Diff(want, alike); diff != "" || err != nil {
					t.Errorf("alike without a key named %.30q, %v (-want +got):\n%s", k.key.Name, err, diff)
				}
			}
			if got := one[int](t, d.Ledger,
				"SELECT count(*) FROM remote_traits WHERE length(CAST(value AS BLOB)) > ? OR instr(value, char(0)) > 0",
				3*connector.MaxIndexed+2); got != 0 {
				t.Errorf("%d values of the index are none that every database takes", got)
			}
			if d.saveRemote(carries("b1", c.other), 2); len(d.holders(c.key)) != 0 || len(d.holders(c.other)) != 2 {
				t.Errorf("after the key moved, %v have it and %v the other", d.holders(c.key), d.holders(c.other))
			}
		})
	}
}

// A ledger of before may hold long values as they are: the next list puts them right.
func TestALongKeyThatIsIndexedAsItWasIsPutRightByTheNextList(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	long := key(strings.Repeat("x", 9000))
	d.saveRemote(remote("b1", long), 1)
	raw(t, d.opts.Path, "UPDATE remote_traits SET value = 'acct=' || replace(hex(zeroblob(4500)), '0', 'x') WHERE kind = 'key'", "UPDATE remote_customers SET digest = 'as it was'")
	pass := d.beginPass()
	d.saveListed(remote("b1", long), pass)
	if diff := cmp.Diff([]string{"b1"}, d.holders(long)); diff != "" {
		t.Errorf("who has it (-want +got):\n%s", diff)
	}
}

func TestAMemberOfAnyNameIsKnownToMove(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	long := strings.Repeat("x", 9000)
	paths := []string{long + "1", "a\x00b", "version"}
	for i := range 2 {
		id := fmt.Sprintf("c%d", i)
		c := d.planLinked(run, id, "b"+id, connector.ActionUpdate)
		d.do(func(tx *Tx) error { return tx.CloseConfirmed(run, c, paths, "It moved.") })
	}
	d.do(func(tx *Tx) error {
		known, err := tx.KnownToMove(append(paths, long+"2", "a\x00c", "a\ufffdb"))
		if diff := cmp.Diff(paths, known); diff != "" || err != nil {
			t.Errorf("known to move, %v (-want +got):\n%s", err, diff)
		}
		return nil
	})
}
