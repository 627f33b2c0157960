package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"payersync/connector"

	"github.com/google/go-cmp/cmp"
)

// known saves records of acme with what their payers may be known by, the first of them
// with a customer.
func (d *desk) known(of map[string]Likeness, linked ...string) {
	d.t.Helper()
	run := d.run(acme)
	for id, k := range of {
		d.save(run, acme, record(id, "x"))
		d.decide(run, acme, Decision{SourceID: id, ContentHash: record(id, "x").Hash(), Verdict: Included,
			Key: connector.Key{Name: "no", Value: id}, Likeness: &k})
	}
	d.indexTraits()
	for _, id := range linked {
		d.do(func(tx *Tx) error {
			return tx.exec("UPDATE payers SET billing_id = 'b' || source_id WHERE connection = ? AND source_id = ?", acme, id)
		})
	}
}

// indexTraits adds the payers to the index, as the end of a plan does.
func (d *desk) indexTraits() {
	d.t.Helper()
	if err := d.IndexLikenesses(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) twins(id string, k Likeness) SimilarPayers {
	d.t.Helper()
	found, err := d.SimilarPayers(d.t.Context(), acme, id, k)
	if err != nil {
		d.t.Fatal(err)
	}
	return found
}

// covers F47
func TestTwinsAreKnownByNameAndOneThingMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ann := Likeness{Name: "northwind", Emails: []string{"ann@x", "office@x"}, Phones: []string{"+441"},
		Postcodes: []string{"LS1"}}
	d.known(map[string]Likeness{
		"c1": ann, "c2": {Name: "northwind", Emails: []string{"ann@x"}},
		"c3": {Name: "northwind", Emails: []string{"ann@x"}, Postcodes: []string{"YO1"}},
		"c4": {Name: "northwind", Phones: []string{"+441"}}, "c5": {Name: "other", Emails: []string{"ann@x"}},
		"c6": {Name: "northwind"},
	}, "c1", "c4")
	tests := map[string]struct {
		as         Likeness
		want, gone SimilarPayers // gone: when c4 has left the books
	}{
		"the same": {ann, SimilarPayers{Twice: []SimilarPayer{{acme, "c1", "bc1"}, {acme, "c2", ""}}},
			SimilarPayers{Left: []SimilarPayer{{acme, "c4", "bc4"}}, Twice: []SimilarPayer{{acme, "c1", "bc1"}, {acme, "c2", ""}}}},
		"another address": {Likeness{Name: "northwind", Emails: []string{"bo@x"}, Phones: []string{"+441"}}, SimilarPayers{},
			SimilarPayers{Left: []SimilarPayer{{acme, "c4", "bc4"}}}},
		"a name alone":     {Likeness{Name: "northwind"}, SimilarPayers{}, SimilarPayers{}},
		"an address alone": {Likeness{Name: "somebody", Emails: []string{"ann@x"}}, SimilarPayers{}, SimilarPayers{}},
		"nothing":          {Likeness{}, SimilarPayers{}, SimilarPayers{}},
		"without a postcode": {Likeness{Name: "northwind", Emails: []string{"office@x"}},
			SimilarPayers{Twice: []SimilarPayer{{acme, "c1", "bc1"}}}, SimilarPayers{Twice: []SimilarPayer{{acme, "c1", "bc1"}}}},
		"a name as an e-mail": {Likeness{Name: "ann@x", Emails: []string{"northwind"}}, SimilarPayers{}, SimilarPayers{}},
	}
	for name, tt := range tests {
		if diff := cmp.Diff(tt.want, d.twins("n1", tt.as)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	d.do(func(tx *Tx) error {
		return tx.exec("UPDATE source_records SET state = 'archived' WHERE source_id = 'c4'")
	})
	for name, tt := range tests {
		if diff := cmp.Diff(tt.gone, d.twins("n1", tt.as)); diff != "" {
			t.Errorf("%s, when one has left (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(SimilarPayers{}, d.twins("c1", Likeness{})); diff != "" {
		t.Errorf("a record is a twin of its own:\n%s", diff)
	}
}

// covers F47
func TestWhatManyHaveInCommonSaysNothing(t *testing.T) {
	t.Parallel()
	same := Likeness{Name: "northwind", Emails: []string{"ann@x"}}
	for n, want := range map[int]int{mostSimilar: mostSimilar, mostSimilar + 1: 0} {
		d := newDesk(t)
		known := map[string]Likeness{"n1": same}
		for i := range n {
			known[fmt.Sprintf("c%d", i)] = same
		}
		d.known(known)
		if got := d.twins("n1", same); len(got.Twice) != want {
			t.Errorf("of %d, %d are told, want %d", n, len(got.Twice), want)
		}
		found, err := d.Lookalikes(t.Context(), acme, "n1")
		if err != nil || len(found) != n || !found[0].Name || !found[0].Email || found[0].Left {
			t.Errorf("of %d, shown are %+v, %v", n, found, err)
		}
	}
}

// covers F47
func TestAPersonTellsRecordsApart(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	same := Likeness{Name: "northwind", Emails: []string{"ann@x"}}
	d.known(map[string]Likeness{"c1": same, "c2": same})
	apart := func(a, b string) (news bool, err error) {
		err = d.Do(t.Context(), func(tx *Tx) (err error) {
			news, err = tx.KeepApart(acme, a, b)
			return err
		})
		return news, err
	}
	for _, c := range []struct {
		a, b string
		news bool
		err  error
	}{{"c1", "c1", false, ErrSameRecord}, {"c1", "c9", false, ErrNoRecord}, {"c2", "c1", true, nil},
		{"c1", "c2", false, nil}} {
		if news, err := apart(c.a, c.b); news != c.news || !errors.Is(err, c.err) {
			t.Errorf("%s and %s: news %t, %v; want %t, %v", c.a, c.b, news, err, c.news, c.err)
		}
	}
	for _, id := range []string{"c1", "c2"} {
		shown, err := d.Lookalikes(t.Context(), acme, id)
		if found := d.twins(id, same); len(found.Twice)+len(shown) != 0 || err != nil {
			t.Errorf("%s has twins %+v, look-alikes %v, %v", id, found, shown, err)
		}
	}
}

// What an earlier version linked is known by what its customers hold.
//
// covers F70, F47
func TestPayersOfAnEarlierVersionAreLearnt(t *testing.T) {
	t.Parallel()
	l := upgraded(t)
	want := column(t, l, "SELECT source_id FROM payers WHERE billing_id IS NOT NULL AND applied IS NOT NULL")
	found, err := l.Unlearnt(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	if err := l.Do(context.Background(), func(tx *Tx) error {
		for _, p := range found {
			ids = append(ids, p.SourceID)
			if err := tx.SaveLikeness(p.Connection, p.SourceID, Likeness{Name: p.Applied.Name}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(ids) == 0 || len(ids) != len(strings.Fields(want)) {
		t.Errorf("to learn are %v, want %s", ids, want)
	}
	if again, err := l.Unlearnt(t.Context(), 1000); len(again) != 0 || err != nil {
		t.Errorf("%d are to learn again, %v", len(again), err)
	}
}

// Common values prove nothing, and only a few of many similar payers are named.
func TestWhatAllHaveInCommonHoldsNobody(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.crowd(1000)
	if found, err := d.Lookalikes(t.Context(), acme, "m98"); len(found) < mostLookalikes || err != nil {
		t.Errorf("%d look-alikes, %v", len(found), err)
	}
	if got := d.twins("m98", ofCrowd); len(got.Twice) != 0 {
		t.Errorf("%+v", got)
	}
}

// BenchmarkLookAlikes looks for look-alikes where all have one name and one e-mail address:
// in a large ledger it takes no longer than in a small one.
func BenchmarkLookAlikes(b *testing.B) {
	for _, many := range []int{200, 20_000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			d := newDesk(b)
			d.crowd(many)
			for i := 0; b.Loop(); i++ {
				id := fmt.Sprintf("m%d", i*97%many+1)
				if _, err := d.Lookalikes(b.Context(), acme, id); err != nil {
					b.Fatal(err)
				}
				d.twins(id, ofCrowd)
			}
		})
	}
}

var ofCrowd = Likeness{Name: "payer", Emails: []string{"office@x"}}

// crowd adds so many payers that have all in common.
func (d *desk) crowd(many int) {
	d.t.Helper()
	d.known(map[string]Likeness{"a": {Name: "payer"}})
	d.do(func(tx *Tx) error {
		const count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
		return errors.Join(
			tx.exec(count+` INSERT INTO source_records (connection, source_id, content_hash, record, state, updated_at, decision)
				SELECT s.connection, 'm' || i, '', s.record, 'active', '', 'included' FROM n, source_records s WHERE s.source_id = 'a'`, many),
			tx.exec(count+" INSERT INTO payers (payer_id, connection, source_id, key_name, key_value, updated_at, likeness) SELECT 1 + i, '"+acme+"', 'm' || i, 'no', i, '', ? FROM n", many, tx.l.likeness(ofCrowd).text()))
	})
	d.indexTraits()
}
