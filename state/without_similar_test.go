package state

import (
	"database/sql"
	"testing"

	"payersync/connector"

	"github.com/google/go-cmp/cmp"
)

// scopedNumber is a key of acme's organisation.
func scopedNumber(value string) connector.Key {
	return connector.Key{Name: "no", Value: value, Scope: "org"}
}

func TestOfAStrangerNothingIsToBeAsked(t *testing.T) {
	t.Parallel()
	ann := Likeness{Name: "northwind", Emails: []string{"ann@x"}, Phones: []string{"+441"}, Postcodes: []string{"LS1"}}
	shown := func(id string, c connector.RemoteCustomer) func(d *desk) {
		return func(d *desk) {
			c.ID = id
			d.do(func(tx *Tx) error { _, err := tx.SaveRemote(c, 1); return err })
		}
	}
	payer := func(key connector.Key, k Likeness) func(d *desk) {
		return func(d *desk) {
			run := d.run("other")
			d.save(run, "other", record("o1", "x"))
			d.decide(run, "other", Decision{SourceID: "o1", ContentHash: record("o1", "x").Hash(), Verdict: Included, Key: key,
				Likeness: &k})
			d.indexTraits()
		}
	}
	tests := map[string]struct {
		known func(d *desk)
		is    bool // a stranger
	}{
		"nobody is there":               {func(*desk) {}, true},
		"a payer with the key":          {payer(scopedNumber("n1"), Likeness{}), false},
		"a payer with another key":      {payer(scopedNumber("n2"), Likeness{}), true},
		"the number of another company": {payer(connector.Key{Name: "no", Value: "n1", Scope: "else"}, Likeness{}), true},
		"a customer with the key": {shown("b1",
			connector.RemoteCustomer{ExternalData: map[string]string{"no": "n1", "noScope": "org"}}), false},
		"a customer with the bare number": {shown("b1",
			connector.RemoteCustomer{ExternalData: map[string]string{"no": "n1"}}), false},
		"a customer with another number": {shown("b1",
			connector.RemoteCustomer{ExternalData: map[string]string{"no": "n11"}}), true},
		"a customer with the name":    {shown("b1", connector.RemoteCustomer{Name: "Northwind"}), false},
		"a customer with the address": {shown("b1", connector.RemoteCustomer{Emails: []string{"ann@x"}}), false},
		"a customer like nobody": {shown("b1",
			connector.RemoteCustomer{Name: "Southwind", Emails: []string{"bo@x"}}), true},
		"a payer with name and address": {payer(scopedNumber("n2"),
			Likeness{Name: "northwind", Emails: []string{"ann@x"}}), false},
		"a payer with name and postcode": {payer(scopedNumber("n2"),
			Likeness{Name: "northwind", Postcodes: []string{"LS1"}}), false},
		"a payer with the name alone":      {payer(scopedNumber("n2"), Likeness{Name: "northwind"}), true},
		"a request of another under way":   {requestUnderWay, false},
		"a word that it is a customer":     {aWord("accept"), false},
		"a word that it is not a customer": {aWord("reject"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			d.save(run, acme, record("r1", "x"))
			d.closeRun(run, connector.RunComplete)
			tt.known(d)
			asked := NewRecord{SourceID: "r1", Key: scopedNumber("n1"),
				Customer: connector.Customer{Name: "Northwind", People: []connector.Person{{Email: "ann@x"}}}, Likeness: ann}
			nobody := NewRecord{SourceID: "r2", Key: connector.Key{Name: "id", Value: "z"},
				Customer: connector.Customer{Name: "Zed"}, Likeness: Likeness{Name: "zed"}}
			unclean := nobody
			unclean.SourceID, unclean.Key.Value = "r3\x00", "z\x00"
			got, err := d.WithoutSimilar(t.Context(), acme, []NewRecord{asked, nobody, unclean})
			if diff := cmp.Diff([]bool{tt.is, true, true}, got); err != nil || diff != "" {
				t.Fatalf("%v (-want +got):\n%s", err, diff)
			}
			if tt.is {
				d.nothingOf(asked)
			}
		})
	}
}

// requestUnderWay leaves a create with the key that nobody's payer has any more.
func requestUnderWay(d *desk) {
	d.do(func(tx *Tx) error {
		_, err := tx.begin(sql.NullInt64{}, connector.ActionCreate,
			Payer{Connection: "other", SourceID: "o1", Key: scopedNumber("n1")})
		return err
	})
}

func aWord(word string) func(d *desk) {
	return func(d *desk) {
		d.do(func(tx *Tx) error {
			return tx.exec("INSERT INTO words (connection, source_id, billing_id, word, ticket, said_at) VALUES (?, 'r1', 'b9', ?, 1, ?)", acme, word, stamp(tx.now))
		})
	}
}

// nothingOf asks about a stranger whatever a plan asks about others.
func (d *desk) nothingOf(n NewRecord) {
	d.t.Helper()
	ctx := d.t.Context()
	rival, e1 := d.KeyRival(ctx, n.Key, acme, n.SourceID)
	creates, e2 := d.CreatesUnderWay(ctx, n.Key)
	holders, e3 := d.KeyHolders(ctx, n.Key)
	linked, e4 := d.KeyLinkedTo(ctx, n.Key, acme, n.SourceID)
	bare, e5 := d.UnscopedHolders(ctx, n.Key, acme, n.SourceID)
	word, e6 := d.Accepted(ctx, acme, n.SourceID, n.Key)
	alike, e7 := d.Alike(ctx, n.Customer, n.Key.Name, acme, n.SourceID)
	twins, e8 := d.SimilarPayers(ctx, acme, n.SourceID, n.Likeness)
	for _, err := range []error{e1, e2, e3, e4, e5, e6, e7, e8} {
		if err != nil {
			d.t.Fatal(err)
		}
	}
	if rival+linked+word.BillingID != "" ||
		len(creates)+len(holders)+len(bare)+len(alike)+len(twins.Left)+len(twins.Twice) > 0 {
		d.t.Errorf("of a stranger there is something to tell: %q %v %v %q %v %+v %v %+v", rival, creates, holders, linked,
			bare, word, alike, twins)
	}
}
