// Package state is the ledger: one SQLite file that holds what payersync knows,
// what it is about to do, and what it did. Only this package speaks SQL.
//
// Every write goes through [Ledger.Do]: callers hand in a function, functions
// that arrive together share one transaction and so one fsync, and Do returns
// when the result is durable. Every read goes through a method of [Ledger] and
// never blocks a write. Personal bodies are sealed with AES-256-GCM before they
// reach the file; the key lies in a file of its own.
//
// The package keeps the ledger's laws (STRICT types, CHECK on enumerations,
// UNIQUE where a rule says "one") and decides nothing beyond them: what to plan,
// send or believe is left to mapping, syncer and reconcile.
package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sethvargo/go-retry"
	_ "modernc.org/sqlite" // the database/sql driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"payersync/state/files"
)

// applicationID marks a SQLite file as a payersync ledger.
const applicationID = 1885434739

// minSQLite is the first SQLite release that cannot corrupt a database when its
// write-ahead log is reset.
const minSQLite = "3.51.3"

// smallestDB is the size in bytes of the smallest SQLite database there can be.
const smallestDB = 512

// Options says where a ledger lies.
type Options struct {
	Path    string           // the ledger file; made when it does not exist
	KeyFile string           // the sealing key; must exist, see CreateKey
	Now     func() time.Time // the clock of every stored time; nil means the system's

	// Keyless opens a ledger that there is although its key cannot be read, for what
	// shows nothing that is sealed: of what is, and of every write, the error is that of
	// the key.
	Keyless bool

	// Committing is told when a commit begins; what it returns is told when it is durable,
	// or why it is not. nil for nobody.
	Committing func() (ended func(error))

	// Commit is for tests that place crashes and full disks: it is asked before
	// (done is false) and after every commit. An error before stands for one that
	// SQLite gave, and nothing is kept; an error after stands for a process that
	// died with the commit on disk. nil for nobody.
	Commit func(done bool) error

	// Look is for tests that place slow disks: the file is looked through when it
	// returns. nil for nobody.
	Look func(context.Context)

	rekeying bool // the list of forgotten payers may be sealed with another key just now
}

// Ledger is an open ledger. It is safe for concurrent use.
type Ledger struct {
	path      string        // of the ledger file, with no link in it
	folder    *files.Folder // that it lies in
	writer    *sql.DB       // a pool of one
	conn      *sql.Conn     // that one, used by the writing goroutine only; see reconnect.go
	reader    *sql.DB       // query only
	readOnly  string        // how a reader opens the file
	seal      *sealer
	mark      *os.File // how far the ledger has come; see mark.go
	identity  string   // which ledger the mark is of
	found     Finding
	heeded    int // payers that were forgotten again
	keyFile   string
	rekeying  bool
	letterKey []byte                 // see letter_key.go
	place     os.FileInfo            // of the ledger file, as it was before SQLite opened it
	opened    map[string]os.FileInfo // what SQLite has open
	sound     *verdict               // of the look through the whole file; see sound.go
	now       func() time.Time
	asked     func(done bool) error // Options.Commit
	watched   func() func(error)    // Options.Committing
	look      func(context.Context) // Options.Look

	queue   chan *write
	closing chan struct{}
	stopped chan struct{}
	close   func() error
	stmts   map[string]*sql.Stmt // of the writer, used by its goroutine only

	reads *statements // of the readers
	only  string      // what every query of the readers begins with; see only.go
}

// statements are queries that were prepared, by their text.
type statements struct {
	mu sync.Mutex
	of map[string]*sql.Stmt
}

// Open opens the ledger at opts.Path, makes it when it does not exist, and
// brings its schema up to date. It refuses a file on a network file system, a
// file that is not a ledger, one written by a newer payersync, a corrupt one
// and one whose key file is missing, wrong or readable by others.
//
// The whole of a large file is looked through while the ledger is read already: see
// [Ledger.Sound]. Nothing is written before.
func Open(ctx context.Context, opts Options) (*Ledger, error) {
	seal, err := loadKey(opts.KeyFile)
	var away *keyAwayError
	switch {
	case opts.Keyless && errors.As(err, &away):
		if _, none := os.Lstat(opts.Path); none != nil {
			return nil, err
		}
		seal = &sealer{away: err}
	case err != nil:
		return nil, err
	}
	folder, err := files.OpenFolder(filepath.Dir(opts.Path))
	if err != nil {
		return nil, refuseFolder(filepath.Dir(opts.Path), err)
	}
	name := filepath.Base(opts.Path)
	path := filepath.Join(folder.Path(), name)
	if err := prepare(folder, name); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	l := &Ledger{
		path: path, folder: folder, seal: seal, keyFile: opts.KeyFile, rekeying: opts.rekeying, now: opts.Now, asked: opts.Commit, look: opts.Look, watched: opts.Committing,
		stmts: map[string]*sql.Stmt{}, reads: &statements{of: map[string]*sql.Stmt{}},
		queue: make(chan *write, 4*maxBatch), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.asked == nil {
		l.asked = func(bool) error { return nil }
	}
	if l.watched == nil {
		l.watched = func() func(error) { return func(error) {} }
	}
	if l.look == nil {
		l.look = func(context.Context) {}
	}
	if err := l.connect(ctx, path); err != nil {
		return nil, errors.Join(l.ofDamage(ctx, ofDisk(err)), l.disconnect())
	}
	l.close = sync.OnceValue(l.shut)
	go l.writeLoop()
	return l, nil
}

// making keeps two ledgers of one process from making the same file: closing a
// plain file handle would drop the locks SQLite holds on it (fault F66).
var making sync.Mutex

// prepare brings a restore to its end that was interrupted, and looks at the file.
func prepare(folder *files.Folder, name string) error {
	if _, err := finishRestore(folder, name, func(string) error { return nil }); err != nil {
		return err
	}
	return prepareFile(folder, name)
}

// prepareFile makes an absent ledger file with mode 0600 and looks at an existing
// one, which it never opens (fault F66).
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

// refuseFolder says why the ledger's folder cannot be opened.
func refuseFolder(path string, err error) error {
	next := "Check that the folder exists and may be written to."
	if errors.Is(err, files.ErrPlanted) {
		next = "Name the folder itself in ledger.path, or run payersync as the user that the service runs as."
	}
	return &OpenError{Path: path, Why: err.Error(), Next: next}
}

// refusePlanted refuses a ledger beside which something lies in the place of
// SQLite's own files that is not SQLite's: as root, SQLite gives what it finds
// there to the ledger's owner, whosever it was.
func refusePlanted(folder *files.Folder, name string) error {
	for _, ending := range []string{"-wal", "-shm", "-journal"} {
		if err := folder.CheckBeside(name+ending, name); err != nil {
			return &OpenError{
				Path: filepath.Join(folder.Path(), name), Why: err.Error(),
				Next: "Find out how it came there and move it away; if it is SQLite's own, give it to the ledger's owner.",
			}
		}
	}
	return nil
}

// refuseReadOnly refuses a ledger that this user may not write, or whose folder,
// where SQLite keeps its log. SQLite itself would say so too late and in words
// that could be taken for damage.
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

// busyTimeout is for how long a process waits for another that writes.
const busyTimeout = 10 * time.Second

func (l *Ledger) connect(ctx context.Context, path string) error {
	common := fmt.Sprintf("?_pragma=busy_timeout(%d)", busyTimeout.Milliseconds()) + "&mode=rw&_pragma=foreign_keys(1)&_pragma=trusted_schema(0)&_pragma=temp_store(2)"
	file := (&url.URL{Scheme: "file", Path: path}).String()
	readOnly := file + common + "&_pragma=query_only(1)"
	l.readOnly = readOnly
	var err error
	if l.place, err = os.Lstat(path); err != nil {
		return fmt.Errorf("look at the ledger's files: %w", err)
	}
	fresh, err := checkFile(ctx, readOnly, path)
	if err != nil {
		return err
	}
	l.sound = lookThrough(readOnly, path, l.look)
	if fresh { // it is made, or put into the form that is written to
		if err := l.Sound(ctx); err != nil {
			return err
		}
	}
	if l.writer, err = sql.Open("sqlite", file+common+"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=secure_delete(1)&_pragma=cache_size(-16000)&_pragma=wal_autocheckpoint(8000)&_txlock=immediate"); err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	l.writer.SetMaxOpenConns(1)
	if l.reader, err = sql.Open("sqlite", readOnly); err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	l.reader.SetMaxOpenConns(4)
	l.reader.SetMaxIdleConns(4)
	l.reader.SetConnMaxIdleTime(restAfter)
	switch err := l.enterWAL(ctx); {
	case primaryCode(err) == sqlite3.SQLITE_BUSY:
		return unreadable(ctx, path, err)
	case err != nil:
		return fmt.Errorf("open the ledger for writing: %w", err)
	}
	if err := checkSettings(ctx, l.writer); err != nil {
		return err
	}
	if err := l.markFile(ctx); err != nil {
		return err
	}
	if err := l.migrate(ctx); err != nil {
		return err
	}
	if err := l.checkKey(ctx, l.writer); err != nil {
		return err
	}
	if err := l.loadLetterKey(ctx, l.reader); err != nil {
		return err
	}
	if err := l.checkMark(ctx); err != nil {
		return err
	}
	if l.conn, err = l.writer.Conn(ctx); err != nil {
		return fmt.Errorf("open the ledger for writing: %w", err)
	}
	if err := l.noteFiles(); err != nil {
		return err
	}
	if l.rekeying {
		return nil
	}
	return l.heedTombstones(ctx)
}

// checkFile refuses what is no ledger, and reports whether the first connection that
// may write would change the file: a new one, or one that is no write-ahead log's yet.
// It reads through a connection of its own, because a writer's settings alone would
// change the file.
func checkFile(ctx context.Context, readOnly, path string) (fresh bool, err error) {
	db, err := sql.Open("sqlite", readOnly)
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
	return tables == 0 || id != applicationID || journal != "wal", nil
}

func damaged(path, how string) error {
	return &OpenError{Path: path, Why: "the file is damaged or not a ledger: " + how, Next: "Keep the file as it is and restore the last backup."}
}

// unreadable says why the file could not be checked. Whoever interrupts the check,
// or holds the file, has not damaged it: nobody shall put an old backup in place
// of a whole ledger.
func unreadable(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("check the ledger %s: %w", path, ctx.Err())
	}
	switch primaryCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return damaged(path, err.Error())
	}
	return &OpenError{
		Path: path, Why: "it could not be checked: " + err.Error(),
		Next: "Look whether another program holds it, and at the disk. If neither is the cause, keep the file as it is and restore the last backup.",
	}
}

// enterWAL makes the writing connection, and with it the log of a new file. While
// another process does the same, SQLite refuses that at once, whatever its timeout
// says; it is asked again for as long.
func (l *Ledger) enterWAL(ctx context.Context) error {
	return retry.Do(ctx, retry.WithMaxDuration(busyTimeout, retry.NewConstant(20*time.Millisecond)), func(ctx context.Context) error {
		err := l.writer.PingContext(ctx)
		if primaryCode(err) == sqlite3.SQLITE_BUSY {
			return retry.RetryableError(err)
		}
		return err
	})
}

// markFile marks a new file as a ledger before its first table is made, so that
// the next start takes up one that was interrupted (fault F70).
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

// executor is a database or a transaction of it.
type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// checkKey binds a new ledger to its sealing key and refuses any other key
// later: what one key sealed, no other opens.
func (l *Ledger) checkKey(ctx context.Context, db executor) error {
	if l.seal.away != nil {
		return nil // nothing is opened or sealed
	}
	at := place("ledger", "key_check")
	var box []byte
	if err := db.QueryRowContext(ctx, "SELECT key_check FROM ledger").Scan(&box); err != nil {
		return fmt.Errorf("read the ledger's key check: %w", err)
	}
	if box == nil {
		if err := l.Sound(ctx); err != nil {
			return err
		}
		if err := db.QueryRowContext(ctx, "UPDATE ledger SET key_check = coalesce(key_check, ?) RETURNING key_check", l.seal.box([]byte("payersync"), at)).Scan(&box); err != nil {
			return fmt.Errorf("bind the ledger to its key: %w", err)
		}
	}
	if _, err := l.seal.open(box, at); err != nil {
		return l.otherKey(ctx, db, l.keyFile)
	}
	return nil
}

// checkSettings reads the connection settings back: a misspelt one would pass
// in silence.
func checkSettings(ctx context.Context, db executor) error {
	for _, want := range []struct{ pragma, value string }{
		{"journal_mode", "wal"}, {"synchronous", "2"}, {"foreign_keys", "1"}, {"trusted_schema", "0"}, {"secure_delete", "1"},
		{"temp_store", "2"}, // in memory: a folder for temporary files that is not there looks like a full disk, and would hold what is sorted in clear
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

// Close waits for the writes already handed in and closes the ledger. Writes
// handed in later fail with ErrClosed.
func (l *Ledger) Close() error { return l.close() }

func (l *Ledger) shut() error {
	close(l.closing)
	<-l.stopped
	return l.disconnect()
}

func (l *Ledger) disconnect() error {
	var errs []error
	if l.sound != nil {
		l.sound.giveUp()
	}
	errs = append(errs, l.leave())
	for _, s := range l.reads.of {
		errs = append(errs, s.Close())
	}
	if l.reader != nil {
		errs = append(errs, l.reader.Close())
	}
	if l.writer != nil {
		errs = append(errs, l.writer.Close())
	}
	if l.mark != nil {
		errs = append(errs, l.mark.Close())
	}
	errs = append(errs, l.folder.Close())
	return errors.Join(errs...)
}

// limitTo ends a query that gives as many rows at most as its last argument says.
// SQLite compiles a query anew whenever a bare parameter of its LIMIT is bound, in
// case the number calls for another plan; into a sum it does not look.
const limitTo = " LIMIT ? + 0"

// query runs a query on the readers.
func (l *Ledger) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	args, err := bound(args)
	if err != nil {
		return nil, err
	}
	stmt, err := l.preparedRead(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// queryRow runs a query that gives one row at most on the readers.
func (l *Ledger) queryRow(ctx context.Context, query string, args ...any) row {
	args, err := bound(args)
	if err != nil {
		return row{err: err}
	}
	stmt, err := l.preparedRead(ctx, query)
	if err != nil {
		return row{err: err}
	}
	return row{of: stmt.QueryRowContext(ctx, args...)}
}

// row is the one row that a query gives, or why it was not asked.
type row struct {
	of  *sql.Row
	err error
}

func (r row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.of.Scan(dest...)
}

// preparedRead returns the statement for query on the readers, prepared once in
// the ledger's life: a plan asks some queries about every single record.
func (l *Ledger) preparedRead(ctx context.Context, query string) (*sql.Stmt, error) {
	query = l.within(query)
	l.reads.mu.Lock()
	defer l.reads.mu.Unlock()
	if s, ok := l.reads.of[query]; ok {
		return s, nil
	}
	s, err := l.reader.PrepareContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare a ledger query: %w", err)
	}
	l.reads.of[query] = s
	return s, nil
}

// Path returns where the ledger lies, with no link in it, and its file as it was opened.
func (l *Ledger) Path() (path string, file os.FileInfo) { return l.path, l.place }

// Now returns the ledger's clock, cut to the milliseconds that it stores.
func (l *Ledger) Now() time.Time { return l.now().UTC().Truncate(time.Millisecond) }

// Ping reports whether the ledger can be written to, by a commit of nothing but
// its own number. That changes a page, without which SQLite would write nothing and
// a full disk would go unnoticed, and makes the file no larger.
func (l *Ledger) Ping(ctx context.Context) error {
	return l.Do(ctx, func(*Tx) error { return nil })
}

// OpenError says why a ledger was refused. It is meant for people.
type OpenError struct {
	Path, Why, Next string

	otherKey bool // it was sealed with another key
}

// Error returns what could not be done, why, and what to do next.
func (e *OpenError) Error() string {
	return fmt.Sprintf("cannot open the ledger %s: %s. %s", e.Path, e.Why, e.Next)
}

// plain returns err without the path that os errors repeat.
func plain(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

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
