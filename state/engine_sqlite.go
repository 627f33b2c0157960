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
	"syscall"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite" // and the database/sql driver "sqlite"
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
	looked   lookedNote    // what the note beside it said when it was opened
}

func newSQLiteFile(folder *files.Folder, name string) *sqliteFile {
	e := &sqliteFile{folder: folder, name: name, path: filepath.Join(folder.Path(), name)}
	e.readOnly = e.with("&_pragma=query_only(1)")
	return e
}

// with returns how the file is opened with the settings of every connection and these.
func (e *sqliteFile) with(settings string) string {
	return (&url.URL{Scheme: "file", Path: e.path}).String() + fmt.Sprintf("?_pragma=busy_timeout(%d)", BusyTimeout.Milliseconds()) +
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
	looked := e.lastLook(l.Now())
	fresh, err := e.checkFile(ctx, l.seal)
	if err != nil {
		return err
	}
	l.sound = lookThrough(e.quickCheck, l.look, looked, l.Now)
	if fresh { // it is made, or put into the form that is written to
		if err := l.Sound(ctx); err != nil {
			return err
		}
	}
	if l.writer, err = openWriter(e); err != nil {
		return err
	}
	// Each commit invalidates a reader's cache. A page of a plan visits as many places of an index
	// as it has records, and should read none of them twice. A reader that nobody uses is closed,
	// see below.
	if l.reader, err = sql.Open("sqlite", e.readOnly+"&_pragma=cache_size(-8000)"); err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	l.reader.SetMaxOpenConns(4)
	l.reader.SetMaxIdleConns(4)
	l.reader.SetConnMaxIdleTime(restAfter)
	switch err := l.enterWAL(ctx); {
	case primaryCode(err) == sqlite3.SQLITE_BUSY:
		return unreadable(ctx, e.path, err)
	case err != nil:
		return fmt.Errorf("open the ledger for writing: %w", err)
	}
	if err := e.checkSettings(ctx, l.writer); err != nil {
		return err
	}
	return l.markFile(ctx)
}

// openWriter opens the connection that writes the file.
func openWriter(e *sqliteFile) (*sql.DB, error) {
	db, err := sql.Open("sqlite", e.with("&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=secure_delete(1)&_pragma=cache_size(-16000)&_pragma=wal_autocheckpoint(8000)&_txlock=immediate"))
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
		return l.Sound(ctx)
	}
	newer := func(current, target int64) error {
		return &OpenError{
			Path: l.path, Why: fmt.Sprintf("its schema is version %d, this payersync knows up to %d", current, target),
			Next: "Use the payersync that wrote it, or a newer one.",
		}
	}
	versions := func(ctx context.Context) (current, target int64, err error) { return sqliteVersions(ctx, p, l.writer) }
	if err := upgrade(ctx, versions, func(ctx context.Context, current int64) error { return e.up(ctx, p, l, current) }, newer, before); err != nil || !migrated {
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

// settle can ask nobody. A connection that had ended before took the transaction along.
func (*sqliteFile) settle(_ context.Context, _ *Tx, lost error) error {
	if errors.Is(lost, driver.ErrBadConn) {
		return ErrOutcomeUnknown
	}
	return lost
}

func (e *sqliteFile) close(looked time.Time) { e.noteLook(looked) }

func (*sqliteFile) batchOver(*Ledger) {}

// rest frees the writer's cache after a run of many records, because nobody needs it for hours. It
// is of no account when it stays.
func (*sqliteFile) rest(conn *sql.Conn) {
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
	err = db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?) WHERE name = ?)", table, column).Scan(&has)
	return has, err
}

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
			return &OpenError{Path: path, Why: "it could not be made: " + plain(err), Next: "Check that the folder exists and may be written to."}
		}
		return errors.Join(f.Close(), refusePlanted(folder, name))
	case err != nil:
		return &OpenError{Path: path, Why: plain(err), Next: "Check the path and its permissions."}
	case !info.Mode().IsRegular():
		return &OpenError{Path: path, Why: "it is not a regular file", Next: "Name the file itself in ledger.path, not a folder or a symbolic link."}
	case info.Size() > 0 && info.Size() < smallestDB:
		// SQLite would take the rest of a ledger for a new one.
		return &OpenError{Path: path, Why: "the file is cut short", Next: "Keep the file as it is and restore the last backup."}
	case info.Mode().Perm()&0o077 != 0:
		return &OpenError{Path: path, Why: fmt.Sprintf("other users of this machine may open it (mode %04o)", info.Mode().Perm()), Next: "Run: chmod 600 " + path}
	}
	if err := refuseReadOnly(path); err != nil {
		return err
	}
	return refusePlanted(folder, name)
}

// refusePlanted refuses a ledger if a foreign file is in the place of one of SQLite's own files. As root,
// SQLite gives the files it finds there to the ledger's owner.
func refusePlanted(folder *files.Folder, name string) error {
	if err := connector.Each([]string{"-wal", "-shm", "-journal"}, func(ending string) error { return folder.CheckBeside(name+ending, name) }); err != nil {
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
		return false, &OpenError{Path: path, Why: "it is a database of another program", Next: "Give ledger.path a file of its own."}
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

// markFile marks a new file as a ledger before its first table is created, so that the next start
// continues an interrupted one (fault F70).
func (l *Ledger) markFile(ctx context.Context) error {
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
		{"temp_store", "2"}, // in memory: a missing folder for temporary files looks like a full disk, and sorted values would be there in clear
	} {
		var got string
		if err := db.QueryRowContext(ctx, "PRAGMA "+want.pragma).Scan(&got); err != nil || got != want.value {
			return fmt.Errorf("check the ledger's setting %s: want %s, got %q: %w", want.pragma, want.value, got, errors.Join(err, errUnsafe))
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
