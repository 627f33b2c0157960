package statetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"payersync/state"
	"payersync/state/internal/dbtest"
)

// OnPostgres reports whether the ledgers of these tests keep their rows in a PostgreSQL.
func OnPostgres() bool { return dbtest.OnPostgres() }

// OnServer reports whether the ledger at path keeps its rows in a PostgreSQL.
func OnServer(path string) bool { return dbtest.OnServer(path) }

// NewOnServer makes a ledger at path with its key beside it and its rows in a PostgreSQL, regardless of the
// flag. It returns the address for other processes with UseServer. Without PostgreSQL it skips the test, but
// never in CI.
func NewOnServer(t testing.TB, path string) (dsn string) {
	t.Helper()
	_ = Postgres(t) // it is installed
	if err := errors.Join(dbtest.Server(path), state.CreateKey(path+".key")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Remove(path) })
	dsn, err := dbtest.DSN(path)
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

// UseServer declares in a test process that the rows of the ledger at path are in the database of
// NewOnServer.
func UseServer(path, dsn string) { dbtest.Use(path, dsn) }

// Opposite gives a new ledger at path the other engine than the one at beside.
func Opposite(beside, path string) error {
	if dbtest.OnServer(beside) {
		dbtest.File(path)
		return nil
	}
	return dbtest.Server(path)
}

// Copy replaces the ledger at to by a copy of the ledger at from. Nobody has either open. Files
// beside a ledger stay in place, and the key is not copied.
func Copy(from, to string) error {
	if dbtest.OnServer(from) {
		return dbtest.CopyOf(from, to)
	}
	dbtest.File(to)
	for _, side := range []string{"-wal", "-shm"} {
		if err := os.Remove(to + side); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	bytes, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, bytes, 0o600)
}

// Remove removes a server's rows of the unopened ledger at path. Files go with their folder.
func Remove(path string) error { return dbtest.Remove(path) }

// PutBack marks the closed ledger at path as restored. A file's mark reveals a restore by itself; for a
// server the restoring person notes it. commits is the last known count of commits.
func PutBack(path string, commits int64, at time.Time) error {
	if !dbtest.OnServer(path) {
		return nil
	}
	return dbtest.Execute(path,
		fmt.Sprintf("UPDATE main.ledger SET commits = %d, restored_at = '%[2]s', put_back_at = '%[2]s'", commits+1,
			at.UTC().Format("2006-01-02T15:04:05.000Z")))
}

// CutOff ends every session with the ledger at path open, like a restart of the server.
func CutOff(path string) error {
	return dbtest.Execute(path,
		"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()")
}

// LetRunGo ends the lease of a connection's open run in the ledger at path, regardless of the
// clock. For a file, its lock does that.
func LetRunGo(path, connection string) error {
	if !dbtest.OnServer(path) {
		return nil
	}
	return dbtest.Execute(path,
		"UPDATE main.runs SET lease_until = '1970-01-01T00:00:00.000Z' WHERE finished_at IS NULL AND connection = '"+connection+"'")
}
