package sqltabletest

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// SQLite makes an empty database in a file below the test's own folder. Its Name is the path.
func SQLite(t testing.TB) Database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "books.sqlite")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(off)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return Database{DB: db, Driver: "sqlite", Name: path}
}
