package statetest

import (
	"errors"
	"os"
	"testing"

	"payersync/internal/longtest"
	"payersync/state/internal/dbtest"
)

// Postgres returns the address of a new database without tables, on the test binary's PostgreSQL. It
// skips the test in a short run. Without PostgreSQL it skips the test, too, but never in CI.
func Postgres(t testing.TB) (dsn string) {
	t.Helper()
	needPostgres(t)
	dsn, err := dbtest.New()
	if errors.Is(err, dbtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

// needPostgres skips a test in a short run, unless the run is one on PostgreSQL.
func needPostgres(t testing.TB) {
	t.Helper()
	if !dbtest.OnPostgres() {
		longtest.Story(t, longtest.Postgres)
	}
}

// Ask returns the one value of a query on a database that Postgres gave, as an account sees it.
func Ask(t testing.TB, dsn, account, query string) string {
	t.Helper()
	value, err := dbtest.AskAt(dsn, account, query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

// Try returns why a statement fails on a database, as the role of the address.
func Try(dsn, statement string) error { return dbtest.ExecuteAt(dsn, statement) }

// Execute runs a statement on a database from Postgres, as its owner.
func Execute(t testing.TB, dsn, statement string) {
	t.Helper()
	if err := dbtest.ExecuteAt(dsn, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
