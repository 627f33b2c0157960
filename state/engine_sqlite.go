package state

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3" // and the database/sql driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"payersync/connector"
	"payersync/state/files"
)

// applicationID marks a SQLite file as a payersync ledger.
const applicationID = 1885434739

// minSQLite is the first SQLite release that cannot corrupt a database when its
// write-ahead log is reset.
const minSQLite = "3.51.3"

// smallestDB is the size in bytes of the smallest SQLite database there can be.
const smallestDB = 512

// making keeps two ledgers of one process from making the same file: closing a
// plain file handle would drop the locks SQLite holds on it (fault F66).
var making sync.Mutex

// BusyTimeout is for how long a write to a file waits for another process that writes.
const BusyTimeout = 10 * time.Second

// sqliteFile is the engine of a ledger in one SQLite file. It opens readers read-only, checks the file beside
// them, and sets the options for durable commits. Files beside the ledger show whether it is still in its
// place and no older than before.
type sqliteFile struct {
	folder   *files.Folder // that the file lies in
	name     string        // of the file in it
	path     string        // of the file, with no link in it
	readOnly string        // how a reader opens it
	looked   integrityNote // what the note beside it said when it was opened
	brief    bool          // see Options
}

func newSQLiteFile(folder *files.Folder, name string) *sqliteFile {
	e := &sqliteFile{folder: folder, name: name, path: filepath.Join(folder.Path(), name)}
	e.readOnly = e.with("&_pragma=query_only(1)")
	return e
}

// with returns how the file is opened with the settings of every connection and these.
func (e *sqliteFile) with(settings string) string {
	return (&url.URL{Scheme: "file", Path: e.path}).String() +
		fmt.Sprintf("?_pragma=busy_timeout(%d)", BusyTimeout.Milliseconds()) +
		"&mode=rw&_pragma=foreign_keys(1)&_pragma=trusted_schema(0)&_pragma=temp_store(2)" + settings
}

// prepare brings a restore to its end that was interrupted, and looks at the file.
func (e *sqliteFile) prepare() error {
	if _, err := finishRestore(e.folder, e.name, func(string) error { return nil }); err != nil {
		return err
	}
	return prepareFile(e.folder, e.name)
}

func (e *sqliteFile) open(ctx context.Context, l *Ledger) (err error) {
	if l.place, err = os.Lstat(e.path); err != nil {
		return fmt.Errorf("look at the ledger's files: %w", err)
	}
	looked := e.lastIntegrityCheck(l.Now())
	fresh, err := e.checkFile(ctx, l.seal)
	if err != nil {
		return err
	}
	l.sound = startIntegrityCheck(e.quickCheck, l.look, looked, l.Now, e.brief)
	if fresh { // it is made, or put into the form that is written to
		if err := l.WaitForIntegrity(ctx); err != nil {
			return err
		}
	}
	if l.writer, err = openWriter(e); err != nil {
		return err
	}
	// Each commit invalidates a reader's cache, which then frees all of its pages. The allocator gives
	// freed memory beyond 4 MiB back to the system, and gets it again for the next pages. A larger
	// cache costs more than it saves. A reader that nobody uses is closed, see below.
	if l.reader, err = sql.Open("sqlite", e.readOnly+"&_pragma=cache_size(-2000)"); err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	l.reader.SetMaxOpenConns(4)
	l.reader.SetMaxIdleConns(4)
	l.reader.SetConnMaxIdleTime(l.idleAfter)
	switch err := l.enterWAL(ctx); {
	case primaryCode(err) == sqlite3.SQLITE_BUSY:
		return unreadable(ctx, e.path, err)
	case err != nil:
		return fmt.Errorf("open the ledger for writing: %w", err)
	}
	if err := e.checkSettings(ctx, l.writer); err != nil {
		return err
	}
	return l.generationFile(ctx)
}

// openWriter opens the connection that writes the file.
func openWriter(e *sqliteFile) (*sql.DB, error) {
	db, err := sql.Open("sqlite",
		e.with("&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=secure_delete(1)&_pragma=cache_size(-8000)&_pragma=wal_autocheckpoint(8000)&_txlock=immediate"))
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func (e *sqliteFile) migrate(ctx context.Context, l *Ledger) error {
	p, err := e.steps(l)
	if err != nil {
		return err
	}
	migrated := false
	before := func() error {
		if migrated = true; l.seal.away != nil { // what is made new may be sealed
			return l.seal.away
		}
		return l.WaitForIntegrity(ctx)
	}
	newer := func(current, target int64) error {
		return &OpenError{
			Path: l.path, Why: fmt.Sprintf("its schema is version %d, this payersync knows up to %d", current, target),
			Next: "Use the payersync that wrote it, or a newer one.",
		}
	}
	versions := func(ctx context.Context) (current, target int64, err error) { return sqliteVersions(ctx, p, l.writer) }
	if err := upgrade(ctx, versions, func(ctx context.Context, current int64) error { return e.up(ctx, p, l, current) },
		newer, before); err != nil || !migrated {
		return err
	}
	return e.noteSchema(ctx, l)
}

// sqliteVersions are p.GetVersions. During a long migration, the present version is the one before it.
func sqliteVersions(ctx context.Context, p *goose.Provider, db *sql.DB) (current, target int64, err error) {
	for range 2 { // another process may begin or end a long migration between two queries
		at, found, err := unfinished(ctx, db)
		if err != nil {
			return 0, 0, err
		}
		if current, target, err = p.GetVersions(ctx); err != nil {
			return 0, 0, err
		}
		if found && longMigrationOf(at.version) != nil {
			return at.version - 1, target, nil
		}
		if current <= target {
			break
		}
	}
	return current, target, nil
}

// up makes the migrations after a version.
func (e *sqliteFile) up(ctx context.Context, p *goose.Provider, l *Ledger, current int64) error {
	if current < clearUntil {
		if _, err := p.UpTo(ctx, clearUntil); err != nil {
			return err
		}
	}
	return e.spilling(ctx, l.writer, func() error { return upFrom(ctx, p, l, current) })
}

// clearUntil is the migration that seals the texts that earlier ledgers kept in clear. No temporary file holds them.
const clearUntil = 6

// spilling lets SQLite keep its temporary data in files in the ledger's folder while do works. A statement that
// changes all rows of a table keeps their earlier content until its end, which in memory takes more than 1 GB for a
// million payers. The files hold pages and keys of the ledger, and have no name.
func (e *sqliteFile) spilling(ctx context.Context, db *sql.DB, do func() error) (err error) {
	set := func(ctx context.Context, setting string) error {
		_, err := db.ExecContext(ctx, "PRAGMA "+setting)
		return connector.Wrap(err, "prepare the migrations")
	}
	if err := set(ctx, "temp_store_directory = '"+strings.ReplaceAll(filepath.Dir(e.path), "'", "''")+"'"); err != nil {
		return err
	}
	if err := set(ctx, "temp_store = 1"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, set(context.WithoutCancel(ctx), "temp_store = 2")) }()
	return do()
}

// steps are scripts, but for goMigrations.
func (*sqliteFile) steps(l *Ledger) (*goose.Provider, error) {
	scripts, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, l.writer, scripts, goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(l.goMigrations()...))
	return p, connector.Wrap(err, "prepare the migrations")
}

func (e *sqliteFile) where() string { return e.path }

func (*sqliteFile) isFile() bool { return true }

func (*sqliteFile) pipelines() bool { return false }

func (e *sqliteFile) tryLock(_ context.Context, ending string) (*Lock, error) {
	return tryLock(e.folder, e.name, ending, e.name)
}

// begin takes the write lock at once: with a later lock, the transaction's earlier reads could be
// out of date. A process with many writes frees the lock for less than a millisecond between two,
// and the next process to ask gets it. SQLite asks ten times a second, and could find it taken each
// time for as long as webhooks come without a pause.
func (*sqliteFile) begin(tx *Tx) error {
	return tryAgain(context.Background(), time.Millisecond, BusyTimeout, func() (again bool, err error) {
		err = tx.exec("BEGIN IMMEDIATE")
		return primaryCode(err) == sqlite3.SQLITE_BUSY, err
	})
}

// readied leaves the waiting for other processes to begin, from when the settings were read.
func (e *sqliteFile) readied(ctx context.Context, db executor) error {
	if err := e.checkSettings(ctx, db); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return fmt.Errorf("prepare the ledger's connection: %w", err)
	}
	return nil
}

// findOutcome can ask nobody. A connection that had ended before took the transaction along.
func (*sqliteFile) findOutcome(_ context.Context, _ *Tx, lost error) error {
	if errors.Is(lost, driver.ErrBadConn) {
		return ErrOutcomeUnknown
	}
	return lost
}

func (e *sqliteFile) close(looked time.Time) { e.noteIntegrity(looked) }

func (*sqliteFile) endBatch(*Ledger) {}

// freeCache frees the writer's cache after a run of many records, because nobody needs it for hours. It
// is of no account when it stays.
func (*sqliteFile) freeCache(conn *sql.Conn) {
	_, _ = conn.ExecContext(context.Background(), "PRAGMA shrink_memory")
}

// snapshot begins a transaction that sees the ledger as it is when it first reads.
func (e *sqliteFile) snapshot(ctx context.Context) (db *sql.DB, tx *sql.Tx, err error) {
	if db, err = sql.Open("sqlite", e.readOnly); err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	tx, err = db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	return db, tx, err
}

func (*sqliteFile) catalogue() string {
	return `SELECT m.name, (SELECT group_concat(c.name, ',' ORDER BY c.name) FROM pragma_table_info(m.name) c), (SELECT group_concat(c.name, ',' ORDER BY c.pk) FROM pragma_table_info(m.name) c WHERE c.pk > 0),
		coalesce((SELECT group_concat(f."table", ',') FROM pragma_foreign_key_list(m.name) f), '')
		FROM sqlite_master m WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'goose_%' ORDER BY m.name`
}

// patient has nothing to do: nothing ends a transaction.
func (*sqliteFile) patient(context.Context, executor) error { return nil }

// raise has nothing to do: a new row gets the number behind the highest.
func (*sqliteFile) raise(*Tx) error { return nil }

// hasColumn reports whether the schema, which may be an older one, has a column.
func (*sqliteFile) hasColumn(ctx context.Context, db books, table, column string) (has bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?) WHERE name = ?)", table,
		column).Scan(&has)
	return has, err
}
