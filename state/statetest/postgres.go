package statetest

import (
	"errors"
	"os"
	"testing"

	"payersync/state/internal/testdb"
)

// Postgres returns the address of a new database without tables, on the PostgreSQL that the test
// binary starts. Where none is installed the test is skipped, but never in CI.
func Postgres(t testing.TB) (dsn string) {
	t.Helper()
	dsn, err := testdb.New()
	if errors.Is(err, testdb.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}
