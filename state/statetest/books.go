package statetest

import (
	"database/sql"
	"testing"
)

// Books makes a SQLite file at path for a SQL source to read, by these statements.
func Books(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("make the books: %v", err)
		}
	}
}
