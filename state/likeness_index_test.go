package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/state/internal/dbtest"

	"github.com/google/go-cmp/cmp"
)

// planned saves records of acme with a planned create each, and does not index their traits.
func (d *desk) planned(of map[string]Likeness) {
	d.t.Helper()
	run := d.run(acme)
	for id, k := range of {
		r := record(id, "x")
		d.save(run, acme, r)
		v := included(r, &NewChange{Action: connector.ActionCreate, Wanted: customer(id, id)})
		v.Likeness = &k
		d.decide(run, acme, v)
	}
	d.closeRun(run, connector.RunComplete)
}

// indexedTraits returns the index of traits, as rows of source id and hash in order.
func (d *desk) indexedTraits() []string {
	d.t.Helper()
	found, err := d.ids(d.t.Context(),
		"SELECT coalesce(p.source_id, 'nobody') || ' ' || o.hash FROM likenesses o LEFT JOIN payers p ON p.payer_id = o.payer_id")
	if err != nil {
		d.t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

// keptTraits returns the traits that the payers keep, in the same form.
func (d *desk) keptTraits() (out []string) {
	d.t.Helper()
	type row struct {
		id   string
		like likeness
	}
	rows, err := list(d.t.Context(), d.Ledger, "SELECT source_id, likeness FROM payers", nil,
		func(r *row) []any { return []any{&r.id, &r.like} })
	if err != nil {
		d.t.Fatal(err)
	}
	for _, r := range rows {
		for _, h := range r.like {
			out = append(out, fmt.Sprint(r.id, " ", int64(h)))
		}
	}
	slices.Sort(out)
	return out
}

func TestTheIndexOfTraitsHasWhatThePayersKeep(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ann := Likeness{Name: "northwind", Emails: []string{"ann@x"}, Postcodes: []string{"LS1"}}
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(d.keptTraits(), d.indexedTraits()); diff != "" {
			t.Errorf("%s (-kept +indexed):\n%s", when, diff)
		}
	}
	d.planned(map[string]Likeness{"c1": ann, "c2": ann, "c3": {Name: "southwind"}, "c4": {}})
	if got := d.indexedTraits(); len(got) > 0 {
		t.Errorf("before the end of the plan, %q are in the index", got)
	}
	d.indexTraits()
	if same("after the plan"); len(d.indexedTraits()) != 9 {
		t.Errorf("in the index are %q", d.indexedTraits())
	}

	d.planned(map[string]Likeness{"c2": {Name: "eastwind", Emails: []string{"ann@x"}}, "c4": ann, "c5": ann})
	d.planned(map[string]Likeness{"c5": {Name: "westwind"}}) // a changed record whose payer is not in the index yet
	d.indexTraits()
	same("after records changed")

	d.do(func(tx *Tx) error {
		return tx.SaveLikeness(acme, "c3", Likeness{Name: "southwind", Phones: []string{"+441"}})
	})
	same("after a payer was learnt anew")

	if _, err := d.Forget(t.Context(), RecordID{acme, "c1"}, Entry{Actor: "ada", Reason: "asked"}); err != nil {
		t.Fatal(err)
	}
	if same("after one was forgotten"); slices.ContainsFunc(d.keptTraits(),
		func(s string) bool { return strings.HasPrefix(s, "c1 ") }) {
		t.Errorf("the traits of a forgotten payer are kept: %q", d.keptTraits())
	}

	d.do(func(tx *Tx) error { return tx.dropPayers(acme) })
	if same("after the payers were dropped"); len(d.indexedTraits()) > 0 {
		t.Errorf("payers that are gone left %q", d.indexedTraits())
	}
	d.planned(map[string]Likeness{"c6": ann})
	d.indexTraits()
	if same("after the next plan"); len(d.indexedTraits()) != 4 {
		t.Errorf("a payer after dropped ones has %q", d.indexedTraits())
	}
}

// An interrupted plan leaves payers without an index, and the next one adds them; the first may have ended between
// two writes.
func TestPayersOfAnInterruptedPlanAreFoundByTheNext(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ann := Likeness{Name: "northwind", Emails: []string{"ann@x"}}
	d.planned(map[string]Likeness{"c1": ann, "c2": ann})
	d.do(func(tx *Tx) error {
		return tx.exec("INSERT INTO likenesses (hash, payer_id) SELECT ?, max(payer_id) FROM payers",
			int64(tx.l.likeness(ann)[0]))
	})
	d.indexTraits()
	if found := d.twins("n1", ann); len(found.Twice) != 2 {
		t.Errorf("found are %+v", found)
	}
}

// A plan of a few creates looks for each, and a plan of many passes over the index once.
func TestBothWaysToFindTwinsFindTheSame(t *testing.T) {
	t.Parallel()
	ann, bo := Likeness{Name: "northwind", Emails: []string{"ann@x"}},
		Likeness{Name: "southwind", Phones: []string{"+441"}}
	creates := map[string]Likeness{
		"c1": ann, "c2": ann, "c3": bo, "c4": {Name: "northwind"}, "c5": {Name: "other", Emails: []string{"ann@x"}},
		"c6": {Name: "alone", Emails: []string{"alone@x"}},
	}
	for i := range mostSimilar + 2 {
		creates[fmt.Sprint("m", i)] = Likeness{Name: "many", Emails: []string{"many@x"}}
	}
	for others, wantMany := range map[int]bool{1: true, 300: false} {
		d := newDesk(t)
		d.planned(creates)
		linked := map[string]Likeness{"k0": bo}
		for i := range others {
			linked[fmt.Sprint("k", i+1)] = Likeness{Name: fmt.Sprint("payer ", i)}
		}
		d.known(linked)
		run := d.run("other")
		d.save(run, "other", record("o1", "x"))
		d.decide(run, "other", Decision{SourceID: "o1", ContentHash: record("o1", "x").Hash(), Verdict: Included,
			Key: connector.Key{Name: "id", Value: "o1"}, Likeness: &ann})
		d.indexTraits()
		var alike int
		var books []OtherBooks
		d.do(func(tx *Tx) error {
			many, err := tx.createsMany(acme)
			if many != wantMany {
				t.Errorf("beside %d payers, the creates are many: %t", others, many)
			}
			if err == nil {
				err = tx.exec("UPDATE source_records SET replan = 0")
			}
			if err == nil {
				_, err = tx.ReplanSimilar(acme, false)
			}
			if err == nil {
				alike, err = tx.countAlike(acme)
			}
			if err == nil {
				err = tx.exec("UPDATE payers SET billing_id = 'bo1' WHERE source_id = 'o1'")
			}
			if err == nil {
				books, _, err = tx.OtherBooks(acme)
			}
			return err
		})
		if got := column(t, d.Ledger, "SELECT source_id FROM source_records WHERE replan = 1"); got != "c1 c2 c3" {
			t.Errorf("beside %d payers, woken are %s", others, got)
		}
		if want := []OtherBooks{{Books{"other", "csv", "t1"}, 2}}; !slices.Equal(books, want) {
			t.Errorf("beside %d payers, other books are %+v, want %+v", others, books, want)
		}
		if want := 5 + mostSimilar + 2; alike != want { // all but the one with nothing in common
			t.Errorf("beside %d payers, %d creates look like another payer, want %d", others, alike, want)
		}
	}
}

// earlierTraits are rows of likenesses before migration 97.
var earlierTraits = []struct{ kind, value string }{
	{"name", "0123456789abcdef0123456789abcdef"}, {"email", "fedcba98765432100123456789abcdef"},
	{"name email", "80000000000000000000000000000000"},
	{"name phone", "7fffffffffffffff0000000000000000"}, {"name postcode", "ffffffffffffffffffffffffffffffff"},
	{"name postcode", "fffffffffffffff80000000000000000"},
}

// migrated returns their hashes as a payer keeps them, without the one that another postcode equals.
func migrated(t *testing.T) string {
	t.Helper()
	kinds := map[string]traitKind{"name": likeName, "email": likeEmail, "name email": likeNameEmail,
		"name phone": likeNamePhone, "name postcode": likeNamePostcode}
	var out likeness
	for _, e := range earlierTraits {
		n, err := strconv.ParseUint(e.value[:16], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, hash(int64(n)&^kindBits|int64(kinds[e.kind])))
	}
	slices.Sort(out)
	return slices.Compact(out).text()
}

func TestTheTraitsOfAnEarlierVersionAreKept(t *testing.T) {
	t.Parallel()
	d := ofVersion(t, 96)
	seal, err := loadKey(d.opts.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	ann := Likeness{Name: "northwind", Emails: []string{"ann@x"}}
	statements := []string{"UPDATE payers SET likeness = 'digest' WHERE source_id = 'c1'"}
	for _, e := range earlierTraits {
		statements = append(statements,
			fmt.Sprintf("INSERT INTO likenesses (kind, value, connection, source_id) VALUES ('%s', '%s', 'acme', 'c1')", e.kind,
				e.value))
	}
	for _, e := range []struct{ kind, text string }{{"name", "northwind"}, {"email", "ann@x"},
		{"name email", "northwind\x00ann@x"}} {
		statements = append(statements,
			fmt.Sprintf("INSERT INTO likenesses (kind, value, connection, source_id) VALUES ('%s', '%s', 'acme', 'c2')", e.kind,
				seal.likeness(e.kind+"\x00"+e.text)))
	}
	raw(t, d.opts.Path, append(statements, "UPDATE payers SET likeness = 'digest' WHERE source_id = 'c2'")...)
	d.Ledger = d.opens(FoundInStep)
	if got := one[string](t, d.Ledger, "SELECT likeness FROM payers WHERE source_id = 'c1'"); got != migrated(t) {
		t.Errorf("the traits are %s, want %s", got, migrated(t))
	}
	if got, want := one[string](t, d.Ledger, "SELECT likeness FROM payers WHERE source_id = 'c2'"),
		d.likeness(ann).text(); got != want {
		t.Errorf("the traits are %s, and would be computed as %s", got, want)
	}
	if diff := cmp.Diff(d.keptTraits(), d.indexedTraits()); diff != "" {
		t.Errorf("the index (-kept +indexed):\n%s", diff)
	}
	if found := d.twins("n1", ann); len(found.Twice) != 1 || found.Twice[0].SourceID != "c2" {
		t.Errorf("found are %+v", found)
	}
	if got := one[bool](t, d.Ledger, "SELECT indexed_to = (SELECT max(payer_id) FROM payers) FROM ledger"); !got {
		t.Error("the index does not count as whole")
	}
}

func TestTheTraitsOfEveryAccountAreKept(t *testing.T) {
	t.Parallel()
	owner, node := twoRoles(t)
	makeTables(t, owner, 96)
	statements := []string{"SELECT 1"}
	for _, account := range []string{"1", "2"} {
		statements = append(statements,
			"INSERT INTO main.accounts (account_id, name, made_at, changed_at, author, hook_hash) VALUES ("+account+", 'a"+account+"', '', '', '', repeat('"+account+"', 64))",
			"SET payersync.account = "+account, "INSERT INTO main.ledger (only_row) VALUES (1)",
			"INSERT INTO main.connections (name, source_kind, updated_at) VALUES ('acme', 'csv', '')")
		for _, id := range []string{"c1", "c2"} {
			statements = append(statements,
				"INSERT INTO main.source_records (connection, source_id, content_hash, record, state, updated_at) VALUES ('acme', '"+id+"', '', '', 'active', '')",
				"INSERT INTO main.payers (connection, source_id, key_name, key_value, updated_at, likeness) VALUES ('acme', '"+id+"', 'no', '"+id+"', '', 'digest')")
		}
		for _, e := range earlierTraits {
			statements = append(statements,
				fmt.Sprintf("INSERT INTO main.likenesses (kind, value, connection, source_id) VALUES ('%s', '%s', 'acme', 'c2')",
					e.kind, e.value))
		}
	}
	if err := dbtest.ExecuteAt(owner, strings.Join(statements, "; ")); err != nil {
		t.Fatal(err)
	}
	s := openRoles(t, ServerOptions{Address: node, Owner: owner})
	hashes := strings.Count(migrated(t), ",") + 1
	for _, account := range []int64{1, 2} {
		session := ofAccount(s.read, account, 1)
		if got := rowsOf(t, session, "SELECT likeness, '' FROM main.payers WHERE source_id = 'c2'"); len(got) != 1 ||
			strings.TrimSpace(got[0]) != migrated(t) {
			t.Errorf("account %d: the traits are %q, want %s", account, got, migrated(t))
		}
		if got := rowsOf(t, session,
			"SELECT count(*), max(l.indexed_to) FROM main.likenesses o JOIN main.payers p ON p.payer_id = o.payer_id AND p.source_id = 'c2', main.ledger l"); got[0] != fmt.Sprint(hashes, " ", 2) {
			t.Errorf("account %d: the index has %q, want %d hashes", account, got, hashes)
		}
	}
}
