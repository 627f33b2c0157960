package statetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"

	"payersync/state/internal/dbtest"
)

// CountWrites counts the rows that anybody writes to the ledger at path from now on, by table.
func CountWrites(t testing.TB, path string) (written func() map[string]int) {
	t.Helper()
	OnlySQLite(t, "writes are counted by its triggers")
	const none = "SELECT '', 0 LIMIT 0"
	tables := Counted(t, path,
		"SELECT name, 1 FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'written'")
	statements := "DROP TABLE IF EXISTS written; CREATE TABLE written (of TEXT PRIMARY KEY, n INTEGER NOT NULL);"
	for table := range tables {
		for _, act := range []string{"INSERT", "UPDATE", "DELETE"} {
			statements += fmt.Sprintf(`CREATE TRIGGER IF NOT EXISTS count_%s_%s AFTER %[2]s ON %[1]s
				BEGIN INSERT INTO written (of, n) VALUES ('%[1]s', 1) ON CONFLICT (of) DO UPDATE SET n = n + 1; END;`, table, act)
		}
	}
	Counted(t, path, statements+none)
	return func() map[string]int {
		t.Helper()
		return Counted(t, path, "SELECT of, n FROM written")
	}
}

// LogSize returns a function that returns the length of the write log of the ledger at path. On
// SQLite a reader keeps it from being begun anew until the test ends.
func LogSize(t testing.TB, path string) (size func() int64) {
	t.Helper()
	if dbtest.OnPostgres() {
		return func() int64 {
			t.Helper()
			return int64(Counted(t, path, "SELECT 'log', pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")["log"])
		}
	}
	db, err := open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	holds, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holds.Close() })
	for _, statement := range []string{"PRAGMA wal_checkpoint(TRUNCATE)", "BEGIN DEFERRED",
		"SELECT count(*) FROM ledger"} {
		if _, err := holds.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return func() int64 {
		t.Helper()
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
}

// Counted returns the rows of statements on the ledger at path, a text and a number each, unknown
// to processes that have it open.
func Counted(t testing.TB, path, statements string) map[string]int {
	t.Helper()
	out, err := counted(t, path, statements)
	if err != nil {
		t.Fatalf("ask the ledger: %v", err)
	}
	return out
}

// Dump returns the rows of a query on the ledger at path, a line each, after the query.
func Dump(t testing.TB, path, query string) string {
	t.Helper()
	out, err := dump(t, path, query)
	if err != nil {
		t.Fatalf("ask the ledger: %v", err)
	}
	return out
}

func dump(t testing.TB, path, query string) (out string, err error) {
	db, err := open(path, "?mode=ro")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
		out += fmt.Sprintf("%s %q\n", query, values)
	}
	return out, rows.Err()
}

func counted(t testing.TB, path, statements string) (out map[string]int, err error) {
	db, err := open(path, "?_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(t.Context(), statements)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out = map[string]int{}
	for rows.Next() {
		var text string
		var n int
		if err := rows.Scan(&text, &n); err != nil {
			return nil, err
		}
		out[text] = n
	}
	return out, rows.Err()
}

// open opens the database of the ledger at path; the settings are SQLite's.
func open(path, settings string) (*sql.DB, error) {
	if dbtest.OnPostgres() {
		dsn, err := dbtest.DSN(path)
		if err != nil {
			return nil, err
		}
		return sql.Open("pgx", dsn+" search_path=main payersync.account=1")
	}
	return sql.Open("sqlite", "file:"+path+settings)
}
