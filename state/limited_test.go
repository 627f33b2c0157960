package state

import (
	"fmt"
	"slices"
	"testing"
)

// ofNobody are the tables without rows of a single connection, or without its name: users limited to some
// connections read them completely.
var ofNobody = []string{
	"budgets", "forget_keys", "goose_db_version", "ledger", "letter_approvals", "letter_desk", "letter_journal",
	"login_links", "logins", "mapping_versions",
	"passes", "remote_customers", "remote_profiles", "remote_traits", "round_trips", "sign_in_attempts", "slots",
	"subscription", "tombstones", "users", "webhook_refusals", "webhook_rotations",
}

// seen returns a number as the reads of a ledger get it.
func seen(t *testing.T, l *Ledger, query string) (n int) {
	t.Helper()
	if err := l.queryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func TestEveryTableSaysWhichRowsAreOfAConnection(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's own catalogue")
	d := library(t)
	tables, err := list(t.Context(), d.Ledger,
		"SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'", nil,
		func(s *string) []any { return []any{s} })
	if err != nil {
		t.Fatal(err)
	}
	some := d.LimitedTo([]string{"beta", "o'hara"})
	for _, table := range tables {
		_, said := ofConnections[table]
		if said == slices.Contains(ofNobody, table) {
			t.Errorf("it is not said, or twice, which rows of %s are of a connection: ofConnections or ofNobody", table)
		}
		of := one[int](t, d.Ledger,
			"SELECT count(*) FROM pragma_table_info(?) WHERE name IN ('connection', 'source_id', 'mandate_id')", table)
		if of > 0 && !said && table != "letter_approved" {
			t.Errorf("%s has rows of single connections, and everybody reads them", table)
		}
		// This only tests the query; the rows are tested below.
		whole, part := one[int](t, d.Ledger, "SELECT count(*) FROM "+table), seen(t, some, "SELECT count(*) FROM "+table)
		if part > whole || !said && part != whole {
			t.Errorf("%s has %d rows, and %d for some", table, whole, part)
		}
	}
}

func TestALedgerOfSomeConnectionsShowsNothingOfOthers(t *testing.T) {
	t.Parallel()
	d := library(t)
	for name, want := range map[string]int{"acme": 16, "beta": 6, "nobody": 0, "' OR 1=1 --": 0} {
		only := d.LimitedTo([]string{name})
		found, err := only.Records(t.Context(), RecordFilter{})
		if err != nil || len(found) != want {
			t.Errorf("%d records of %s, %v", len(found), name, err)
		}
		for _, sort := range []RecordSort{ByKey, ByLink, ByMandate, BySince, ByChanged} {
			rows, err := only.Records(t.Context(), RecordFilter{Sort: sort})
			if err != nil || len(rows) != want {
				t.Errorf("by %s: %d records of %s, %v", sort, len(rows), name, err)
			}
		}
		for _, r := range found {
			if r.Connection != name {
				t.Errorf("among those of %s is %s", name, r.ID())
			}
		}
		counts, err := only.ReasonCounts(t.Context())
		told := 0
		for _, c := range counts {
			told += c.Count
		}
		if of := one[int](t, d.Ledger, "SELECT count(*) FROM attention WHERE connection = ?", name); err != nil ||
			told != of {
			t.Errorf("of %s %d are told, and %d counted, %v", name, of, told, err)
		}
		if of, n := one[int](t, d.Ledger,
			"SELECT count(*) FROM mandates m JOIN payers p ON p.mandate_id = m.mandate_id WHERE p.connection = ?", name),
			seen(t, only, "SELECT count(*) FROM mandates"); of != n {
			t.Errorf("%s has %d mandates, and shows %d", name, of, n)
		}
	}
	none := d.LimitedTo(nil)
	if n := seen(t, none, "SELECT count(*) FROM source_records"); n != 0 {
		t.Errorf("of no connections %d records are shown", n)
	}
	// A write through such a ledger is one of the whole ledger, and sees all of it.
	if err := none.Do(t.Context(), func(tx *Tx) error {
		var n int
		err := tx.row([]any{&n}, "SELECT count(*) FROM source_records")
		if err == nil && n != 22 {
			err = fmt.Errorf("a write sees %d records", n)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
