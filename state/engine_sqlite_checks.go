package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"modernc.org/sqlite" // and the database/sql driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"payersync/connector"
	"payersync/state/files"
)

// prepareFile creates an absent ledger file with mode 0600 and inspects an existing one without
// opening it (fault F66).
func prepareFile(folder *files.Folder, name string) error {
	path := filepath.Join(folder.Path(), name)
	making.Lock()
	defer making.Unlock()
	if err := refuseNetworkFS(folder.Path()); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err := folder.Create(name)
		if errors.Is(err, fs.ErrExist) {
			return nil // another process made it in the meantime
		}
		if err != nil {
			return &OpenError{Path: path, Why: "it could not be made: " + plain(err),
				Next: "Check that the folder exists and may be written to."}
		}
		return errors.Join(f.Close(), refusePlanted(folder, name))
	case err != nil:
		return &OpenError{Path: path, Why: plain(err), Next: "Check the path and its permissions."}
	case !info.Mode().IsRegular():
		return &OpenError{Path: path, Why: "it is not a regular file",
			Next: "Name the file itself in ledger.path, not a folder or a symbolic link."}
	case info.Size() > 0 && info.Size() < smallestDB:
		// SQLite would take the rest of a ledger for a new one.
		return &OpenError{Path: path, Why: "the file is cut short",
			Next: "Keep the file as it is and restore the last backup."}
	case info.Mode().Perm()&0o077 != 0:
		return &OpenError{Path: path,
			Why:  fmt.Sprintf("other users of this machine may open it (mode %04o)", info.Mode().Perm()),
			Next: "Run: chmod 600 " + path}
	}
	if err := refuseReadOnly(path); err != nil {
		return err
	}
	return refusePlanted(folder, name)
}

// refusePlanted refuses a ledger if a foreign file is in the place of one of SQLite's own files. As root,
// SQLite gives the files it finds there to the ledger's owner.
func refusePlanted(folder *files.Folder, name string) error {
	if err := connector.Each([]string{"-wal", "-shm", "-journal"},
		func(ending string) error { return folder.CheckBeside(name+ending, name) }); err != nil {
		return &OpenError{
			Path: filepath.Join(folder.Path(), name), Why: err.Error(),
			Next: "Find out how it came there and move it away; if it is SQLite's own, give it to the ledger's owner.",
		}
	}
	return nil
}

// refuseReadOnly refuses a ledger without write access for this user to the file, or to the folder
// for SQLite's log. SQLite itself would say so too late and in words that could be taken for
// damage.
func refuseReadOnly(path string) error {
	const write, read, search = 2, 4, 1 // access(2)
	for _, needs := range []struct {
		path string
		mode uint32
	}{{path, read | write}, {filepath.Dir(path), write | search}} {
		if err := syscall.Access(needs.path, needs.mode); err != nil {
			return &OpenError{
				Path: path, Why: fmt.Sprintf("this user may not write to %s: %v", needs.path, err),
				Next: "Give the ledger and its folder to the user that payersync runs as, or run payersync as their owner.",
			}
		}
	}
	return nil
}

// checkFile refuses a file that is not a ledger or has a schema from another program. It reports
// whether the first writing connection would change the file: a new one, or one without a
// write-ahead log. It reads through a connection of its own, because a writer's settings alone
// would change the file.
func (e *sqliteFile) checkFile(ctx context.Context, seal *sealer) (fresh bool, err error) {
	path := e.path
	db, err := sql.Open("sqlite", e.readOnly)
	if err != nil {
		return false, fmt.Errorf("open the ledger: %w", err)
	}
	defer func() { _ = db.Close() }()
	var tables, id int
	var journal string
	for _, look := range []struct {
		query string
		into  any
	}{{"SELECT count(*) FROM sqlite_master", &tables}, {"PRAGMA application_id", &id}, {"PRAGMA journal_mode", &journal}} {
		if err := db.QueryRowContext(ctx, look.query).Scan(look.into); err != nil {
			return false, unreadable(ctx, path, err)
		}
	}
	if tables > 0 && id != applicationID {
		return false, &OpenError{Path: path, Why: "it is a database of another program",
			Next: "Give ledger.path a file of its own."}
	}
	if tables > 0 {
		if err := e.checkSchema(ctx, db, seal); err != nil {
			return false, err
		}
	}
	return tables == 0 || id != applicationID || journal != "wal", nil
}

// enterWAL makes the writing connection, and with it the log of a new file. While another process
// does the same, SQLite refuses at once, regardless of its timeout. payersync retries for as long
// as the timeout.
func (l *Ledger) enterWAL(ctx context.Context) error {
	return tryAgain(ctx, 20*time.Millisecond, BusyTimeout, func() (again bool, err error) {
		err = l.writer.PingContext(ctx)
		return primaryCode(err) == sqlite3.SQLITE_BUSY, err
	})
}

// generationFile marks a new file as a ledger before it creates the first table. After an interruption, the next start
// continues (fault F70).
func (l *Ledger) generationFile(ctx context.Context) error {
	var id int
	if err := l.writer.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return fmt.Errorf("read the ledger's mark: %w", err)
	}
	if id == applicationID {
		return nil
	}
	if _, err := l.writer.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		return fmt.Errorf("mark the ledger: %w", err)
	}
	return nil
}

// checkSettings reads the connection settings back: a misspelt one would pass
// in silence.
func (*sqliteFile) checkSettings(ctx context.Context, db executor) error {
	for _, want := range []struct{ pragma, value string }{
		{"journal_mode", "wal"}, {"synchronous", "2"}, {"foreign_keys", "1"}, {"trusted_schema", "0"}, {"secure_delete", "1"},
		// in memory: a missing folder for temporary files looks like a full disk, and sorted values would be there in clear
		{"temp_store", "2"},
	} {
		var got string
		if err := db.QueryRowContext(ctx, "PRAGMA "+want.pragma).Scan(&got); err != nil || got != want.value {
			return fmt.Errorf("check the ledger's setting %s: want %s, got %q: %w", want.pragma, want.value, got,
				errors.Join(err, errUnsafe))
		}
	}
	var version string
	if err := db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version); err != nil {
		return fmt.Errorf("read the SQLite version: %w", err)
	}
	if olderVersion(version, minSQLite) {
		return fmt.Errorf("SQLite %s is older than %s: %w", version, minSQLite, errUnsafe)
	}
	return nil
}

var errUnsafe = errors.New("refusing to write with unsafe settings")

// olderVersion reports whether dotted version a comes before b.
func olderVersion(a, b string) bool {
	var x, y [3]int
	_, _ = fmt.Sscanf(a, "%d.%d.%d", &x[0], &x[1], &x[2])
	_, _ = fmt.Sscanf(b, "%d.%d.%d", &y[0], &y[1], &y[2])
	for i := range x {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return false
}

// quickCheck looks through the whole file.
func (e *sqliteFile) quickCheck(ctx context.Context) error {
	db, err := sql.Open("sqlite", e.readOnly)
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	defer func() { _ = db.Close() }()
	var found string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return unreadable(ctx, e.path, err)
	}
	if found != "ok" {
		return damaged(e.path, found)
	}
	return nil
}

// sqliteTrouble is troubleOf for errors of SQLite.
func sqliteTrouble(err error) trouble {
	switch primaryCode(err) {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		return diskFull
	case sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT:
		return givenUp
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return inUse
	case sqlite3.SQLITE_READONLY:
		return readOnly
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return corrupt
	}
	return none
}

// primaryCode returns the SQLite result code in err, without what says more about
// the same failure; 0 when err is not SQLite's.
func primaryCode(err error) int {
	var cause *sqlite.Error
	if !errors.As(err, &cause) {
		return 0
	}
	return cause.Code() & 0xFF
}

// integrity makes SQLite's own integrity check, and compares the schema with the migrations.
func (*sqliteFile) integrity(ctx context.Context, v *verifier) error {
	err := v.each(ctx, fmt.Sprintf("PRAGMA integrity_check(%d)", maxDamages), func(row []sql.NullString) {
		if row[0].String != "ok" {
			v.report("", row[0].String)
		}
	})
	if err != nil {
		return err
	}
	_, err = checkSchema(ctx, v.db, nil, "")
	var strange *strangeSchemaError
	if !errors.As(err, &strange) {
		return err
	}
	for _, object := range strange.strange {
		v.report("", object)
	}
	return nil
}

// references reports rows that refer to a missing one.
func (*sqliteFile) references(ctx context.Context, v *verifier) error {
	return v.each(ctx, `SELECT "table", rowid, parent FROM pragma_foreign_key_check`, func(row []sql.NullString) {
		v.report(fmt.Sprintf("%s, row %s", row[0].String, row[1].String), "refers to a row of "+row[2].String+" that is gone")
	})
}
