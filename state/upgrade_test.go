package state

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
)

// upgraded opens a ledger that an earlier version left behind in the middle of everything
// (connector/syncer/before_test.go says of what), after statements were run on it.
func upgraded(t *testing.T, statements ...string) *Ledger {
	t.Helper()
	onlyOnSQLite(t, "older versions had a file only")
	path := unpacked(t, filepath.Join("..", "connector", "syncer", "testdata", "before", "schema12"))
	raw(t, path, statements...)
	l, err := Open(t.Context(), Options{Path: path, KeyFile: path + ".key", Now: func() time.Time {
		return time.Date(2026, 11, 23, 13, 23, 0, 0, time.UTC)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// lastVersion returns the path of the ledger that the last version left behind (connector/alarm/upgrade_test.go).
func lastVersion(t *testing.T) string {
	t.Helper()
	onlyOnSQLite(t, "the ledger is a file")
	return unpacked(t, filepath.Join("..", "connector", "alarm", "testdata"))
}

// unpacked puts a ledger of testdata and its key into a folder, and returns the ledger's path.
func unpacked(t *testing.T, from string) string {
	t.Helper()
	unzip, err := gzip.NewReader(bytes.NewReader(readFile(t, filepath.Join(from, "payersync.db.gz"))))
	if err != nil {
		t.Fatal(err)
	}
	old, err := io.ReadAll(unzip)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "payersync.db")
	for name, b := range map[string][]byte{path: old, path + ".key": readFile(t, filepath.Join(from, "ledger-key.txt"))} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// column returns the first column of a query, in order, in one line.
func column(t *testing.T, l *Ledger, query string) string {
	t.Helper()
	found, err := l.ids(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}

// covers F70
func TestWhatAnEarlierVersionKnewIsKnownInTheNewColumns(t *testing.T) {
	t.Parallel()
	l := upgraded(t)
	const noted = "(SELECT ticket FROM ledger)" // nothing has taken one since
	for _, c := range []struct{ what, query, want string }{
		{"is looked at by the next plan", "SELECT source_id FROM source_records WHERE rests = 1",
			"C3 E1 G1 H1 K3 K4 O2 S1 S2 X1 X2"},
		{"shares its key", "SELECT source_id FROM source_records WHERE contested = 1", "S1 S2 X1 X2"},
		{"could not be read", "SELECT source_id FROM source_records WHERE unreadable = 1", "line 77"},
		{"is planned again, perhaps on a person's word", "SELECT source_id FROM source_records WHERE retried_at > 0",
			"CB L6 R1 U1 U7 X1"},
		{"says so with a ticket", "SELECT source_id FROM source_records WHERE retried_at > 0 AND retried_at <> " + noted, ""},

		{"has a customer of which nothing is known",
			"SELECT source_id FROM payers WHERE billing_id IS NOT NULL AND applied_hash = ''", "A1 A2 CB U1"},
		{"was overwritten", "SELECT source_id FROM payers WHERE applied_hash <> '' AND shows = ''", "U5 U7"},
		{"was overwritten after it was applied",
			`SELECT p.source_id FROM payers p JOIN changes c ON c.connection = p.connection AND c.source_id = p.source_id
			WHERE c.reason = 'foreign_change' AND p.applied_hash = c.wanted_hash AND p.answered_at > 0 AND p.answered_at < p.confirmed_at`, "U5 U7"},
		{"shows something else than what was applied",
			"SELECT source_id FROM payers WHERE shows <> '' AND shows <> applied_hash", ""},
		{"was confirmed at another time",
			"SELECT source_id FROM payers WHERE confirmed_at <> CASE applied_hash WHEN '' THEN 0 ELSE " + noted + " END", ""},
		{"was made and never read", "SELECT source_id FROM payers WHERE billing_id IS NOT NULL AND seen_at = 0", "N1"},
		{"was read without a customer", "SELECT source_id FROM payers WHERE billing_id IS NULL AND seen_at <> 0", ""},
		{"was answered since it was read",
			"SELECT source_id FROM payers WHERE answered_at >= confirmed_at AND billing_id IS NOT NULL AND confirmed_at > 0",
			"N1"},

		{"has an update without an end",
			"SELECT source_id FROM attempts WHERE ended = '' AND (action = 'update' OR action = 'adopt')",
			"A1 A2 U1 U2 U3 UA UB"},
		{"has a create without an end", "SELECT DISTINCT source_id FROM attempts WHERE ended = '' AND action = 'create'",
			"C1 C2 C3 C5 CA CB X1"},
		{"has a request for a link without an end",
			"SELECT DISTINCT source_id FROM attempts WHERE ended = '' AND action = 'link'", "L1 L2 LA LB LL LW"},
		{"has ended otherwise", "SELECT DISTINCT ended FROM attempts WHERE ended <> ''", "answered looked"},
		{"is over", "SELECT source_id FROM attempts WHERE over <> 0", ""},

		{"is a restore in doubt", "SELECT restored_at FROM ledger WHERE restored_at IS NOT doubt_of OR doubt <> 0", ""},
		{"is out", "SELECT source_id FROM source_records WHERE class = 'out'", "E1"},
		{"is held", "SELECT source_id FROM source_records WHERE class = 'held' AND decision = 'held'",
			"C3 G1 H1 KC O2 P2 P3 S1 S2 X1 X2 line 77"},
		{"is told of its link", "SELECT source_id FROM source_records WHERE class = 'held' AND decision <> 'held'",
			"CA CR CW K2 K3 K4 K5 N1 R1 R2 U5 U7 UA UB UC"},
		{"is working", "SELECT source_id FROM source_records WHERE class = 'working'", ""},
		{"was let go as held or left out", "SELECT source_id FROM source_records WHERE let_go = 1",
			"C3 E1 G1 H1 KC O2 P2 P3 S1 S2 X1 X2 line 77"},
		{"is a list without a ticket", "SELECT CAST(pass_id AS TEXT) FROM passes WHERE ticket <> " + noted, ""},
	} {
		if got := column(t, l, c.query); got != c.want {
			t.Errorf("what %s: %q, want %q", c.what, got, c.want)
		}
	}
}

// A restore that was followed by no list a day later is in doubt from the first ticket on.
//
// covers F70
func TestARestoreRightBeforeAnUpgradeIsInDoubt(t *testing.T) {
	t.Parallel()
	for at, doubted := range map[string]bool{"2026-11-22T13:18:00.000Z": true, "2026-11-22T13:17:59.999Z": false} {
		l := upgraded(t, "UPDATE ledger SET restored_at = '"+at+"'",
			"UPDATE passes SET started_at = '2026-11-23T13:18:00.000Z'")
		last := one[int64](t, l, "SELECT ticket FROM ledger")
		if _, err := l.Ticket(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		if doubted {
			want = last
		}
		if got := one[int64](t, l, "SELECT doubt FROM ledger"); got != want {
			t.Errorf("restored at %s: in doubt is what has a ticket up to %d, want %d", at, got, want)
		}
	}
}

// An update without an answer, or answered when a later one had left, may undo the later
// one for a day. A look after that has shown that it did not.
//
// covers F70
func TestAnUpdateThatMayUndoALaterOneHasNotEndedAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	const (
		two    = "UPDATE attempts SET billing_id = 'b' WHERE source_id IN ('U2', 'U3') AND action = 'update'"
		first  = "UPDATE attempts SET ended = 'answered', source_id = 'first', end_ticket = (SELECT max(ticket) FROM attempts WHERE billing_id = 'b')"
		which  = " WHERE attempt_id = (SELECT min(attempt_id) FROM attempts WHERE billing_id = 'b')"
		second = "UPDATE attempts SET source_id = 'second' WHERE billing_id = 'b' AND source_id <> 'first'"
		seen   = "UPDATE remote_customers SET billing_id = 'b' WHERE billing_id = (SELECT billing_id FROM payers WHERE source_id = 'M1')"
		at     = "UPDATE remote_customers SET listed_at = '2026-11-24T13:19:00.00"
		open   = "SELECT source_id FROM attempts WHERE ended = '' AND end_ticket = 0 AND billing_id = 'b'"
	)
	for _, c := range []struct {
		what       string
		statements []string
		want       string
	}{
		{"answered before the later one left", []string{two, first + which, second, seen}, "second"},
		{"answered after the later one had left", []string{two, first + " + 1" + which, second, seen}, "first second"},
		{"seen a day later", []string{two, first + " + 1" + which, second, seen, at + "0Z'"}, "first second"},
		{"seen more than a day later", []string{two, first + " + 1" + which, second, seen, at + "1Z'"}, ""},
	} {
		if got := column(t, upgraded(t, c.statements...), open); got != c.want {
			t.Errorf("%s: without an end are %q, want %q", c.what, got, c.want)
		}
	}
}

// A line that could not be read, and that no plan had looked at before the upgrade, is
// known to be such a one from the next reading on.
//
// covers F70
func TestALineThatCouldNotBeReadBeforeAnUpgradeIsKnownByTheNextReading(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	line := connector.Record{SourceID: "line 7", State: connector.RecordActive, Data: []byte("{}"),
		Problem: "The line has 3 fields, the header 5."}
	run := d.run(acme)
	d.save(run, acme, line)
	d.closeRun(run, connector.RunIncomplete)
	d.do(func(tx *Tx) error { return tx.exec("UPDATE source_records SET unreadable = 0") }) // as the upgrade leaves it
	d.save(d.run(acme), acme, line)
	if !one[bool](t, d.Ledger, "SELECT unreadable FROM source_records") {
		t.Error("the line counts as one that could be read")
	}
}

// An upgrade takes away features, and no row or value that another feature reads.
//
// covers F70
func TestAnUpgradeKeepsEveryRowThatTheLastVersionLeft(t *testing.T) {
	t.Parallel()
	path := lastVersion(t)
	db := rawDB(t, path)
	tables := rowsOf(t, db, `SELECT m.name, group_concat('quote("' || c.name || '")') FROM sqlite_master m, pragma_table_info(m.name) c WHERE `+ourTables+" GROUP BY m.name")
	rows := func() map[string]string {
		out := map[string]string{}
		for _, of := range tables {
			table, columns, _ := strings.Cut(of, " ")
			found := rowsOf(t, db, "SELECT "+columns+" FROM "+table)
			slices.Sort(found)
			out[table] = strings.Join(found, "\n")
		}
		return out
	}
	before := rows()
	l, err := Open(t.Context(), Options{Path: path, KeyFile: path + ".key"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if before["payers"] == "" || before["mandate_history"] == "" || before["alarms"] == "" || before["changes"] == "" {
		t.Errorf("the ledger of before is empty: %d tables", len(tables))
	}
	for table, after := range rows() {
		if after != before[table] {
			t.Errorf("%s has other rows:\n%s\nbefore:\n%s", table, after, before[table])
		}
	}
}
