package state

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// profiles returns the customers of the index that no payer is linked to.
func (d *desk) profiles() (out []Profile) {
	d.t.Helper()
	for page, err := range d.Profiles(d.t.Context()) {
		if err != nil {
			d.t.Fatal(err)
		}
		out = append(out, page...)
	}
	return out
}

func (d *desk) mayBe(id string) (out []string) {
	d.t.Helper()
	found, err := d.MatchCandidates(d.t.Context(), acme, id)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, c := range found {
		out = append(out, c.BillingID)
	}
	return out
}

func TestTheIndexKeepsTheProfileOfACustomerThatIsNobodys(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c0", "b0")
	c := connector.RemoteCustomer{ID: "b1", Name: "Ada Ltd", Emails: []string{"ada@x.example"},
		Phones:       []string{"0113 496 0000"},
		Addresses:    []connector.Address{{Line1: "4 Quay", PostCode: "LS1 4AP", City: "Leeds"}},
		ExternalData: map[string]string{"vat": "GB1"}}
	d.saveRemote(c, 1)
	if diff := cmp.Diff([]Profile{{c}}, d.profiles()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	newest, news, err := d.UnmatchedProfiles(t.Context(), acme)
	if err != nil || newest != 1 || !news {
		t.Errorf("newest %d, news %t, %v", newest, news, err)
	}
	d.do(func(tx *Tx) error { return tx.SaveMatchCandidates(acme, newest, nil) })
	d.saveRemote(c, 2)
	if _, news, err = d.UnmatchedProfiles(t.Context(), acme); err != nil || news {
		t.Errorf("a customer that is shown as it was is news: %t, %v", news, err)
	}
	c.Phones = nil
	d.saveRemote(c, 3)
	if newest, news, err = d.UnmatchedProfiles(t.Context(), acme); err != nil || newest != 2 || !news ||
		d.profiles()[0].Phones != nil {
		t.Errorf("another phone is no news: newest %d, %t, %v, %v", newest, news, err, d.profiles())
	}
	d.planLinkedPayer("c1", "b1")
	if got := d.profiles(); len(got) != 0 {
		t.Errorf("a linked customer is yielded: %v", got)
	}
	d.saveRemote(c, 4)
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM remote_profiles"); n != 0 {
		t.Errorf("%d profiles of linked customers are kept", n)
	}
}

func TestAProfileIsSealed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.saveRemote(connector.RemoteCustomer{ID: "b1", Name: "Ada Ltd", Emails: []string{"ada@x.example"}}, 1)
	box := one[[]byte](t, d.Ledger, "SELECT profile FROM remote_profiles")
	if len(box) == 0 || bytes.Contains(box, []byte("Ada")) || bytes.Contains(box, []byte("ada@")) {
		t.Errorf("the profile is kept as %q", box)
	}
}

func TestCandidatesAreOpenUntilSomebodyDecides(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.save(d.run(acme), acme, record("c1", "x"), record("c2", "y"), record("c3", "z"))
	for i, id := range []string{"b1", "b2", "b3"} {
		d.saveRemote(connector.RemoteCustomer{ID: id, Name: id}, int64(i+1))
	}
	d.do(func(tx *Tx) error {
		return tx.SaveMatchCandidates(acme, 3,
			[]MatchCandidate{{"c1", "b1", 41, "name_part"}, {"c1", "b2", 90, "name_same"}, {"c1", "b3", 59, ""},
				{"c2", "b3", 70, ""}})
	})
	if got := d.mayBe("c1"); !slices.Equal(got, []string{"b2", "b3", "b1"}) {
		t.Errorf("candidates %v, want the best first", got)
	}
	count := func(want int) {
		t.Helper()
		if n, err := d.MatchCount(t.Context(), acme); err != nil || n != want {
			t.Errorf("%d records have candidates, %v; want %d", n, err, want)
		}
	}
	count(2)
	open, err := d.OpenMatches(t.Context(), acme)
	if err != nil || len(open) != 2 || open[0].SourceID != "c1" || len(open[0].Candidates) != 3 ||
		open[0].Candidates[0].BillingID != "b2" || open[0].Since == "" || open[0].PutOff {
		t.Errorf("open are %+v, %v", open, err)
	}
	say := func(record, customer string, word PairVerdict) {
		t.Helper()
		if _, err := d.word(record, customer, word); err != nil {
			t.Fatal(err)
		}
	}
	say("c1", "b2", WordReject)
	if got := d.mayBe("c1"); !slices.Equal(got, []string{"b3", "b1"}) {
		t.Errorf("candidates %v without the rejected one", got)
	}
	say("c3", "b3", WordAccept)
	if got := d.mayBe("c1"); !slices.Equal(got, []string{"b1"}) {
		t.Errorf("candidates %v without the one that is another record's", got)
	}
	count(1)
	say("c1", "b1", WordAccept)
	count(0)
}

func TestAPersonsUnlinkStandsWhenAnotherCustomerIsAccepted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.save(d.run(acme), acme, record("c1", "x"))
	d.do(func(tx *Tx) error {
		return tx.exec("INSERT INTO words (connection, source_id, billing_id, word, reason, ticket, said_at) VALUES (?, 'c1', 'b1', 'spent', 'unlinked', 1, '2026-01-01')", acme)
	})
	if said := d.said(); len(said) != 1 || !said[0].Apart() {
		t.Fatalf("%+v", said)
	}
	if _, err := d.word("c1", "b2", WordAccept); err != nil {
		t.Fatal(err)
	}
	if rejected, err := d.Rejected(t.Context(), acme, "c1", "b1"); err != nil || !rejected {
		t.Errorf("the unlinked customer may be proposed again: %t, %v", rejected, err)
	}
}
