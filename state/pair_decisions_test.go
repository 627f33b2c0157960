package state

import (
	"context"
	"errors"
	"testing"

	"payersync/connector"

	"github.com/google/go-cmp/cmp"
)

// word says a word and returns whether it was news, and why it was not taken.
func (d *desk) word(sourceID, billingID string, word PairVerdict) (news bool, err error) {
	d.t.Helper()
	err = d.Do(context.Background(), func(tx *Tx) (err error) {
		news, err = tx.SavePairDecision(acme, sourceID, billingID, word)
		return err
	})
	return news, err
}

func (d *desk) said() []PairDecision {
	d.t.Helper()
	said, err := d.PairDecisions(d.t.Context(), acme)
	if err != nil {
		d.t.Fatal(err)
	}
	return said
}

// covers F76
func TestAWordTakesThePlaceOfAnotherAndContradictsNone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c0", "b0")
	d.save(d.run(acme), acme, record("c1", "x"), record("c2", "y"))
	for _, s := range []struct {
		source, customer string
		word             PairVerdict
		news             bool
		err              error
	}{
		{"c1", "b1", WordAccept, true, nil},
		{"c1", "b1", WordAccept, false, nil},
		{"c2", "b1", WordAccept, false, ErrAccepted},
		{"c2", "b1", WordReject, true, nil},
		{"c1", "b2", WordReject, true, nil},
		{"c1", "b3", WordAccept, true, nil}, // instead of b1
		{"c2", "b1", WordAccept, true, nil}, // instead of a rejection
		{"c1", "b0", WordAccept, false, ErrCustomerTaken},
		{"c0", "b3", WordAccept, false, ErrLinkedAlready},
		{"c0", "b0", WordReject, false, ErrLinkedAlready},
		{"nobody", "b9", WordReject, false, ErrNoRecord},
	} {
		if news, err := d.word(s.source, s.customer, s.word); news != s.news || !errors.Is(err, s.err) {
			t.Errorf("%s %s and %s: news %t, %v; want %t, %v", s.word, s.source, s.customer, news, err, s.news, s.err)
		}
	}
	want := []PairDecision{{"c1", "b2", WordReject, ""}, {"c1", "b3", WordAccept, ""}, {"c2", "b1", WordAccept, ""}}
	if diff := cmp.Diff(want, d.said()); diff != "" {
		t.Errorf("what is said (-want +got):\n%s", diff)
	}
}

// covers F76
func TestASpentWordStandsUntilAPersonSaysAnother(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.save(d.run(acme), acme, record("c1", "x"))
	if _, err := d.word("c1", "b1", WordAccept); err != nil {
		t.Fatal(err)
	}
	d.saveRemote(connector.RemoteCustomer{ID: "b1", ExternalData: map[string]string{"acct": "7"}}, 1)
	accepted := func(keyName string) Accepted {
		a, err := d.Accepted(t.Context(), acme, "c1", connector.Key{Name: keyName, Value: "c1"})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := accepted("other"); a.Why() != "" || a.BillingID != "b1" {
		t.Errorf("a customer with a key of another name is %+v", a)
	}
	if a := accepted("acct"); a.Why() != connector.ReasonOtherKey {
		t.Errorf("a customer with another key is not to be had for %q", a.Why())
	}
	if a, err := d.Accepted(t.Context(), acme, "c1", connector.Key{Name: "acct", Value: "7"}); err != nil ||
		a.Why() != "" || a.At == 0 {
		t.Errorf("a customer with the record's own key is %+v, %v", a, err)
	}
	carried, err := d.KeysWithoutPayer(t.Context(), acme, "acct")
	if err != nil || len(carried) != 1 || carried[0].BillingID != "b1" || carried[0].Key.Value != "7" {
		t.Errorf("the key is carried by %v, %v", carried, err)
	}
	d.do(func(tx *Tx) error { return tx.AcceptedIsGone(acme, "c1", "b1", connector.ReasonOtherKey) })
	if a := accepted("other"); a.Why() != connector.ReasonOtherKey {
		t.Errorf("a spent word is not to be had for %q", a.Why())
	}
	if news, err := d.word("c1", "b1", WordAccept); !news || err != nil || accepted("other").Why() != "" {
		t.Errorf("it cannot be said again: %t, %v", news, err)
	}
}

// A word is taken back for as long as nothing was sent because of it: not once the record is
// linked, nor while a request is under way whose answer may link it, and once only, whoever asks.
//
// covers F76
func TestAWordIsTakenBackForAsLongAsNothingWasSent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("linked", "b0")
	run := d.run(acme)
	for _, id := range []string{"frozen", "unknown"} {
		c := d.planCreate(run, acme, id)
		if _, err := d.word(id, "b-"+id, WordReject); err != nil {
			t.Fatal(err)
		}
		c, _ = d.freeze(run, d.open(acme, id, LaneCustomer), "{}")
		if id == "unknown" {
			d.do(func(tx *Tx) error { return tx.LeaveUnknown(run, c, "") })
		}
	}
	d.save(run, acme, record("said", "x"), record("spent", "y"), record("never", "z"))
	for _, id := range []string{"said", "spent"} {
		if _, err := d.word(id, "b-"+id, WordAccept); err != nil {
			t.Fatal(err)
		}
	}
	d.do(func(tx *Tx) error { return tx.AcceptedIsGone(acme, "spent", "b-spent", connector.ReasonOtherKey) })
	for _, tt := range []struct {
		source, customer string
		want             error
	}{
		{"linked", "b0", ErrLinkedAlready},
		{"frozen", "b-frozen", ErrUnderWay},
		{"unknown", "b-unknown", ErrUnderWay},
		{"spent", "b-spent", ErrNoPairDecision},
		{"never", "b-never", ErrNoPairDecision},
		{"said", "b-other", ErrNoPairDecision},
		{"said", "b-said", nil},
		{"said", "b-said", ErrNoPairDecision}, // by somebody else, a moment later
	} {
		before := len(d.said())
		err := d.Do(t.Context(), func(tx *Tx) error { return tx.RevokePairDecision(acme, tt.source, tt.customer) })
		taken := before - len(d.said())
		if !errors.Is(err, tt.want) || (taken == 1) != (tt.want == nil) {
			t.Errorf("of %s and %s %d words were taken back, %v; want %v", tt.source, tt.customer, taken, err, tt.want)
		}
	}
}

// Shared values of a record and a customer are listed by kind. Customers that are linked, have a key of ours,
// or were rejected are not among them.
func TestWhoLooksAlikeIsSaidByWhatTheyHaveInCommon(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c0", "b-linked")
	d.save(d.run(acme), acme, record("c1", "x"))
	for i, c := range []connector.RemoteCustomer{
		{ID: "b-both", Name: "Ada Ltd", Emails: []string{"ada@x.example"}},
		{ID: "b-name", Name: "ADA  Ltd", Emails: []string{"other@x.example"}},
		{ID: "b-mail", Name: "Eve", Emails: []string{"Ada@X.example"}},
		{ID: "b-second", Name: "Eve", Emails: []string{"bills@x.example"}},
		{ID: "b-none", Name: "Eve", Emails: []string{"eve@x.example"}},
		{ID: "b-ours", Name: "Ada Ltd", ExternalData: map[string]string{"acct": "7"}},
		{ID: "b-linked", Name: "Ada Ltd"},
		{ID: "b-apart", Name: "Ada Ltd"},
	} {
		d.saveRemote(c, int64(i+1))
	}
	if _, err := d.word("c1", "b-apart", WordReject); err != nil {
		t.Fatal(err)
	}
	record := connector.Customer{Name: "Ada Ltd",
		People: []connector.Person{{Email: "ada@x.example"}, {Name: "no address"}, {Email: "bills@x.example"}}}
	for limit, want := range map[int][]string{
		-1: {"b-both", "b-mail", "b-name", "b-second"},
		2:  {"b-both", "b-mail"},
	} {
		got, err := d.AllAlike(t.Context(), record, "acct", acme, "c1", limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at most %d look alike (-want +got):\n%s", limit, diff)
		}
	}
	if got, err := d.AllAlike(t.Context(), connector.Customer{}, "acct", acme, "c1", -1); err != nil || len(got) != 0 {
		t.Errorf("a record without a name and an address looks like %v, %v", got, err)
	}
}
