package state

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// saveRemote applies a single read of a customer.
func (d *desk) saveRemote(c connector.RemoteCustomer, ticket, pass int64) (fresh bool) {
	d.t.Helper()
	d.do(func(tx *Tx) (err error) {
		fresh, err = tx.SaveRemote(c, ticket, pass)
		return err
	})
	return fresh
}

func (d *desk) beginPass() (pass, ticket int64) {
	d.t.Helper()
	d.do(func(tx *Tx) (err error) {
		pass, ticket, err = tx.BeginPass()
		return err
	})
	return pass, ticket
}

// list makes a complete pass that sees these customers, a minute after the last.
func (d *desk) list(ids ...string) (pass int64) {
	d.t.Helper()
	pass = d.startList(ids...)
	d.do(func(tx *Tx) error { return tx.FinishPass(pass, ids) })
	return pass
}

// startList makes a pass that does not come to its end.
func (d *desk) startList(ids ...string) (pass int64) {
	d.t.Helper()
	d.clock.move(time.Minute)
	pass, ticket := d.beginPass()
	for _, id := range ids {
		d.saveRemote(remote(id, key(id)), ticket, pass)
	}
	return pass
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
	if !d.saveRemote(newer, 7, 0) {
		t.Error("the first read was refused")
	}
	if d.saveRemote(older, 6, 0) {
		t.Error("a read that started earlier was applied")
	}
	if got := d.holders(key("old")); len(got) != 0 {
		t.Errorf("the older read's key is held by %v", got)
	}
	if !d.saveRemote(newer, 7, 0) {
		t.Error("another page of the same read was refused")
	}
	d.do(func(tx *Tx) error {
		for _, s := range []struct {
			id     string
			ticket int64
			want   bool
		}{{"b1", 6, false}, {"b1", 7, true}, {"b1", 9, true}, {"b1", 8, false}, {"nobody", 99, false}} {
			if got, err := tx.TouchRemote(s.id, s.ticket); got != s.want || err != nil {
				t.Errorf("touching %s with ticket %d: %v, %v; want %v", s.id, s.ticket, got, err, s.want)
			}
		}
		return nil
	})
	if d.saveRemote(older, 8, 0) {
		t.Error("a read older than the touch was applied")
	}
}

// covers F48, F50, F52
func TestKeysAreFoundExactToTheByte(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	near := []string{"A-1", "a-1", "A-1 ", " A-1", "A\u20111", "A-1\u200b", "Å", "A\u030a", "%", "_-1", "A-1=", ""}
	for i, v := range near {
		d.saveRemote(remote(fmt.Sprintf("b%02d", i), key(v)), 1, 0)
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
	d.saveRemote(remote("b1", key("c1")), 1, 0)
	d.saveRemote(remote("b2", key("c2")), 1, 0)
	d.saveRemote(remote("b9", key("c1")), 1, 0)
	d.do(func(tx *Tx) error {
		doubled, err := tx.DoubledKeys()
		if err != nil || len(doubled) != 1 || doubled[0].SourceID != "c1" || doubled[0].LinkState != connector.LinkLinked {
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
	d.saveRemote(remote("b1", key("k1")), 5, 0)
	if forget(4) || len(d.holders(key("k1"))) != 1 {
		t.Error("an older read forgot the customer")
	}
	if !forget(6) || len(d.holders(key("k1"))) != 0 {
		t.Error("a later read did not forget the customer")
	}
	if d.saveRemote(remote("b1", key("k1")), 5, 0) || len(d.holders(key("k1"))) != 0 {
		t.Error("an older list brought the customer back")
	}
	if !d.saveRemote(remote("b1", key("k1")), 7, 0) || len(d.holders(key("k1"))) != 1 {
		t.Error("a later read does not show the customer again")
	}
}

// covers F49
func TestStaleHoldersAreCustomersWithOurKeyThatAPassDidNotList(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "linked")
	d.planLinkedPayer("c2", "b2")
	d.saveRemote(remote("linked", key("c1")), 1, 0)
	d.saveRemote(remote("copy", key("c1")), 1, 0)
	d.saveRemote(remote("stranger", key("nobody's")), 1, 0)
	d.list("elsewhere")
	pass := d.list("elsewhere again")
	if got, err := d.StaleHolders(t.Context(), pass); !slices.Equal(got, []string{"copy"}) || err != nil {
		t.Errorf("stale are %v, %v; want the copy alone", got, err)
	}
}

func TestTheIndexFollowsACustomerThatChanges(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := remote("b1", key("k1"))
	d.saveRemote(c, 1, 0)
	c.ExternalData, c.Emails = map[string]string{"acct": "k2", "other": "x"}, nil
	d.saveRemote(c, 2, 0)
	if got := d.holders(key("k1")); len(got) != 0 {
		t.Errorf("the old key is still held by %v", got)
	}
	if diff := cmp.Diff([]string{"b1"}, d.holders(key("k2"))); diff != "" {
		t.Errorf("holders of the new key (-want +got):\n%s", diff)
	}
	alike, err := d.Alike(t.Context(), connector.Customer{People: []connector.Person{{Email: "b1@example.com"}}}, "nokey")
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
		d.saveRemote(c, 1, 0)
	}
	tests := []struct {
		name string
		c    connector.Customer
		want []string
	}{
		{"by name", connector.Customer{Name: "Northwind Trading"}, []string{"name", "theirs"}},
		{"by the first address", connector.Customer{Name: "?", People: []connector.Person{{Email: "ada@example.com"}}}, []string{"mail1"}},
		{"by the second address", connector.Customer{Name: "?", People: []connector.Person{{Email: "nobody@example.com"}, {Email: "ben@example.com"}}}, []string{"mail2"}},
		{"by everything", connector.Customer{Name: "Northwind Trading", People: []connector.Person{{Email: "Ben@Example.com"}, {}, {Email: "ada@example.com"}}},
			[]string{"mail1", "mail2", "name", "theirs"}},
		{"by nothing", connector.Customer{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := d.Alike(t.Context(), tt.c, "acct")
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("alike, %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// covers S4, S17, F46
func TestTheIndexIsSettledByTwoEqualCompletePasses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		passes  func(d *desk)
		settled int // minutes after the first instant; 0 for not settled
	}{
		{"no pass", func(*desk) {}, 0},
		{"one pass", func(d *desk) { d.list("b1") }, 0},
		{"two equal", func(d *desk) { d.list("b1", "b2"); d.list("b2", "b1") }, 1},
		{"two empty", func(d *desk) { d.list(); d.list() }, 1},
		{"one more", func(d *desk) { d.list("b1"); d.list("b1", "b2") }, 0},
		{"one less", func(d *desk) { d.list("b1", "b2"); d.list("b1") }, 0},
		{"same number, other customer", func(d *desk) { d.list("b1"); d.list("b2") }, 0},
		{"an unfinished one is not the second", func(d *desk) { d.list("b1"); d.startList("b1") }, 0},
		{"an unfinished one between does not part them", func(d *desk) { d.list("b1"); d.startList(); d.list("b1") }, 1},
		{"equal, but not consecutive", func(d *desk) { d.list("b1"); d.list("b1", "b2"); d.list("b1") }, 0},
		{"the newest pair counts", func(d *desk) { d.list("b1"); d.list("b1"); d.list("b1", "b2"); d.list("b1", "b2") }, 3},
		{"ids that run together", func(d *desk) { d.list("1", "23"); d.list("12", "3") }, 0},
		{"overlapping, equal", func(d *desk) {
			first := d.startList("b1", "b2")
			second := d.startList("b1", "b2")
			d.clock.move(time.Second)
			d.do(func(tx *Tx) error { return tx.FinishPass(first, []string{"b1", "b2"}) })
			d.do(func(tx *Tx) error { return tx.FinishPass(second, []string{"b1", "b2"}) })
		}, 0},
		{"overlapping, different", func(d *desk) {
			first := d.startList("b1")
			second := d.startList("b1", "b2")
			d.clock.move(time.Second)
			d.do(func(tx *Tx) error { return tx.FinishPass(first, []string{"b1"}) })
			d.do(func(tx *Tx) error { return tx.FinishPass(second, []string{"b1", "b2"}) })
		}, 0},
		{"ended the other way round, different", func(d *desk) {
			first := d.startList("b1")
			second := d.startList("b1", "b2")
			d.do(func(tx *Tx) error { return tx.FinishPass(second, []string{"b1", "b2"}) })
			d.do(func(tx *Tx) error { return tx.FinishPass(first, []string{"b1"}) })
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			first := d.Now()
			tt.passes(d)
			want := time.Time{}
			if tt.settled > 0 {
				want = first.Add(time.Duration(tt.settled) * time.Minute)
			}
			if got := d.index(0).Settled; !got.Equal(want) {
				t.Errorf("settled at %v, want %v", got, want)
			}
		})
	}
}

// covers F36, F64
func TestPassesOfAClockThatWasAheadDoNotCountAfterARestore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.list("b1")
	d.list("b1")
	d.clock.move(-time.Hour)
	d.do((*Tx).MarkRestored)
	if x := d.index(15 * time.Minute); !x.Settled.IsZero() || !x.LastPass.IsZero() || x.Customers != 0 {
		t.Errorf("after the restore the index is %+v, want nothing believed", x)
	}
}

// covers F64
func TestPassesBeforeARestoreAndItsQuarantineDoNotCount(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const quarantine = 15 * time.Minute
	d.list("b1")
	d.list("b1")
	if x := d.index(quarantine); x.Settled.IsZero() || x.Customers != 1 || !x.Restored.IsZero() {
		t.Fatalf("before the restore the index is %+v, want it settled", x)
	}
	d.clock.move(time.Minute)
	restored := d.Now()
	d.do((*Tx).MarkRestored)
	if x := d.index(quarantine); !x.Settled.IsZero() || !x.LastPass.IsZero() || x.Customers != 0 || !x.Restored.Equal(restored) {
		t.Errorf("after the restore the index is %+v, want nothing believed", x)
	}
	d.list("b1")
	d.list("b1")
	if x := d.index(quarantine); !x.Settled.IsZero() {
		t.Errorf("inside the quarantine the index is %+v", x)
	}
	d.clock.move(quarantine)
	d.list("b1")
	d.list("b1")
	if x := d.index(quarantine); x.Settled.Before(restored.Add(quarantine)) {
		t.Errorf("after the quarantine the index is %+v, want it settled again", x)
	}
}

// covers F43, F45, S17
func TestPruningNeedsTwoAgreeingPassesAndSparesTheLinked(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "linked")
	there := func() (got []string) {
		for _, id := range []string{"gone", "linked", "stays"} {
			if len(d.holders(key(id))) > 0 {
				got = append(got, id)
			}
		}
		return got
	}
	all := []string{"gone", "linked", "stays"}
	d.list(all...)
	steps := []struct {
		name string
		pass func() int64
		want []string
	}{
		{"the first pass without it", func() int64 { return d.list("stays") }, all},
		{"an unfinished pass", func() int64 { return d.startList("stays") }, all},
		{"a pass that disagrees", func() int64 { return d.list("stays", "new") }, all},
		{"the first of two that agree", func() int64 { return d.list("stays") }, all},
		{"the second of two that agree", func() int64 { return d.list("stays") }, []string{"linked", "stays"}},
	}
	for _, s := range steps {
		pass := s.pass()
		if diff := cmp.Diff(s.want, there()); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", s.name, diff)
		}
		unseen, err := d.Unseen(t.Context(), pass)
		if err != nil || !slices.Contains(unseen, "linked") {
			t.Errorf("after %s unseen are %v, %v; want the linked payer", s.name, unseen, err)
		}
	}
}

// A customer that was made while a pass was under way is news, not missing.
func TestACustomerMadeDuringAPassIsNotUnseen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.list("b0")
	pass := d.startList("b0")
	d.saveRemote(remote("b1", key("c1")), 99, 0)
	d.do(func(tx *Tx) error { return tx.FinishPass(pass, []string{"b0"}) })
	if unseen, err := d.Unseen(t.Context(), pass); len(unseen) != 0 || err != nil {
		t.Errorf("unseen are %v, %v; want nobody", unseen, err)
	}
	if last, err := d.LastPass(t.Context()); err != nil || last.IsZero() {
		t.Errorf("the last pass is %v, %v", last, err)
	}
}
