// Package state is the ledger: it stores payersync's knowledge, its pending changes and its
// history. The store is one SQLite file, or one account among many in a PostgreSQL database
// ([Server]). Only this package speaks SQL.
//
// Callers hand each write to [Ledger.Do] as a function. Functions that arrive together share one
// transaction and one fsync, and Do returns when the result is durable. Every read goes through a
// method of [Ledger] and never blocks a write. Personal bodies are sealed with AES-256-GCM before
// they reach the file or the database; the key lies in a file of its own, or wrapped beside the
// account.
//
// The package enforces the ledger's constraints (STRICT types, CHECK on enumerations, UNIQUE) and
// makes no other decisions. mapping, syncer and reconcile decide on plans, requests and evidence.
package state

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"payersync/connector"
	"payersync/state/files"
	"payersync/state/internal/testdsn"
)

// Options names the place of a ledger.
type Options struct {
	Path    string           // the ledger file; made when it does not exist. Not looked at with a Server
	Server  *Server          // that keeps the ledger, in the place of a file; nil for a file
	Account string           // whose ledger it is of the Server's; it must exist, see Server.Apply
	KeyFile string           // the sealing key; must exist, see CreateKey. "" with a Server means the account's
	Now     func() time.Time // the clock of every stored time; nil means the system's. A Server has its own

	// Keyless opens an existing ledger whose key cannot be read, for readers of unsealed data.
	// Reads of sealed data, and all writes, return the key's error.
	Keyless bool

	// Brief declares that the ledger is opened for one look, and closed again. The whole file is then checked only
	// if somebody writes. On a Server it takes no writes, and keeps its read connection as long as it is open.
	// Others wait for the connection, because getting one for each statement costs as much as the statement.
	Brief bool

	// Committing is called when a commit begins; it returns a function to call when it is durable, or why it
	// is not. nil for nobody.
	Committing func() (ended func(error))

	// Migrating is called during a long migration, each time with how much percent of it is done. nil for nobody.
	Migrating func(percent int)

	// IdleAfter is for tests under a fake clock, which leaps: how long the writer, and each reader of a file, keeps
	// unused memory. 0 means 30 seconds.
	IdleAfter time.Duration

	// Commit is for tests with crashes and full disks: it is called before (done is false) and
	// after every commit. An error before simulates an error of SQLite, and nothing is kept. An
	// error after simulates a process that died with the commit on disk. nil simulates nothing.
	Commit func(done bool) error

	// Look is for tests with slow disks: the check of the file begins when it returns. nil for
	// none.
	Look func(context.Context)

	rekeying bool // the list of forgotten payers may be sealed with another key just now
	carrying bool // it may be a moved ledger, or one still arriving
	inFile   bool // it is a file, also where tests keep theirs elsewhere
}

// Ledger is an open ledger. It is safe for concurrent use.
type Ledger struct {
	path            string        // of the ledger file, with no link in it
	folder          *files.Folder // that it lies in
	below           engine        // that keeps the rows
	writer          *sql.DB       // a pool of one
	conn            *sql.Conn     // that one, used by the writing goroutine only; see reconnect.go
	reader          *sql.DB       // query only
	idleAfter       time.Duration // how long the writer, and each reader, keeps unused memory
	seal            *sealer
	generationStore *os.File // how far the ledger has come; see generation.go
	identity        string   // which ledger the mark is of
	found           GenerationFinding
	heeded          int // payers that were forgotten again
	keyFile         string
	rekeying        bool
	carrying        bool
	brief           bool                   // of a Server, for one look: see Options
	letterKey       []byte                 // see letter_key.go
	place           os.FileInfo            // of the ledger file, as it was before SQLite opened it
	opened          map[string]os.FileInfo // what SQLite has open
	sound           *integrityCheck        // of the look through the whole file; see integrity.go
	now             func() time.Time
	asked           func(done bool) error // Options.Commit
	watched         func() func(error)    // Options.Committing
	look            func(context.Context) // Options.Look
	migrating       func(percent int)     // Options.Migrating

	intake  *intake
	queue   chan *write
	closing chan struct{}
	stopped chan struct{}
	close   func() error
	stmts   map[string]*sql.Stmt // of the writer, used by its goroutine only
	changed int64                // rows, by the writer; its goroutine's alone

	reads *statements // of the readers
	only  string      // what every query of the readers begins with; see limited.go
}

// statements are queries that were prepared, by their text.
type statements struct {
	mu sync.Mutex
	of map[string]*sql.Stmt // nil once the ledger is closed
}

func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, stmt := range s.of {
		errs = append(errs, stmt.Close())
	}
	s.of = nil
	return errors.Join(errs...)
}

// Open opens the ledger at opts.Path, creates it if it does not exist, and migrates its schema. It refuses a
// file on a network file system, a file that is not a ledger, one from a newer payersync, and a corrupt one.
// It also refuses a ledger with a missing or wrong key file, or one readable by others.
//
// A large file is checked completely while the ledger is already read: see [Ledger.Sound]. Nothing is written
// before, unless the file is as its last user closed it.
func Open(ctx context.Context, opts Options) (*Ledger, error) {
	seal, account, err := sealerOf(ctx, opts)
	var away *keyAwayError
	switch {
	case opts.Keyless && (errors.As(err, &away) || errors.Is(err, ErrKeyEncryptionKey)):
		if _, none := os.Lstat(opts.Path); none != nil && opts.Server == nil {
			return nil, err
		}
		seal = &sealer{away: err}
	case err != nil:
		return nil, err
	}
	below, path, folder, err := engineOf(ctx, opts, account)
	if err != nil {
		return nil, err
	}
	if err := below.prepare(); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	l := &Ledger{
		below: below, path: path, folder: folder, seal: seal, keyFile: opts.KeyFile, rekeying: opts.rekeying,
		carrying: opts.carrying, now: opts.Now, asked: opts.Commit, look: opts.Look, watched: opts.Committing,
		migrating: opts.Migrating, idleAfter: cmp.Or(opts.IdleAfter, 30*time.Second),
		stmts: map[string]*sql.Stmt{}, reads: &statements{of: map[string]*sql.Stmt{}},
		intake: new(intake), queue: make(chan *write, 4*maxBatch), closing: make(chan struct{}), stopped: make(chan struct{}),
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
	if l.migrating == nil {
		l.migrating = func(int) {}
	}
	if l.look == nil {
		l.look = func(context.Context) {}
	}
	if err := l.connect(ctx); err != nil {
		return nil, errors.Join(l.ofDamage(ctx, ofDisk(err)), l.disconnect())
	}
	l.close = sync.OnceValue(l.closeAll)
	go l.writeLoop()
	return l, nil
}

// sealerOf returns a ledger's sealer, with the key of its file or of its account, and the account's
// number.
func sealerOf(ctx context.Context, opts Options) (seal *sealer, account int64, err error) {
	if opts.Server == nil || opts.KeyFile != "" {
		seal, err = loadKey(opts.KeyFile)
		return seal, 0, err
	}
	account, key, err := opts.Server.keyOf(ctx, opts.Account)
	if err != nil {
		return nil, account, err
	}
	seal, err = newSealer(key)
	return seal, account, err
}

// engineOf returns a ledger's engine, its name, and the folder of its file. The account's number is
// 0 if it is not known yet.
func engineOf(ctx context.Context, opts Options, account int64) (below engine, path string, folder *files.Folder,
	err error) {
	if below, err = serverOf(ctx, opts, account); below != nil || err != nil {
		return below, "of account " + cmp.Or(opts.Account, testAccount), nil, err
	}
	if folder, err = files.OpenFolder(filepath.Dir(opts.Path)); err != nil {
		return nil, "", nil, refuseFolder(filepath.Dir(opts.Path), err)
	}
	name := filepath.Base(opts.Path)
	e := newSQLiteFile(folder, name)
	e.brief = opts.Brief
	return e, e.path, folder, nil
}

// testAccount is the account of a ledger that only tests keep elsewhere than in its file.
const testAccount = "only"

// serverOf returns the engine of a ledger that a server keeps; nil for a file.
func serverOf(ctx context.Context, opts Options, account int64) (engine, error) {
	if s := opts.Server; s != nil {
		if account == 0 {
			known, err := s.Account(ctx, opts.Account)
			if account = known.ID; errors.Is(err, ErrNoAccount) && opts.carrying { // whose key follows with its configuration
				account, err = s.ensure(ctx, opts.Account)
			}
			if err != nil {
				return nil, err
			}
		}
		return &postgres{server: s, account: account, name: opts.Account, brief: opts.Brief}, nil
	}
	if testdsn.DSN == nil || opts.inFile {
		return nil, nil
	}
	dsn, err := testdsn.DSN(opts.Path)
	if err != nil || dsn == "" {
		return nil, err
	}
	server, err := OpenServer(ctx, ServerOptions{Address: dsn, Connections: 6, clock: opts.Now != nil})
	if err != nil {
		return nil, err
	}
	id, err := server.ensure(ctx, testAccount)
	if err != nil {
		server.Close()
		return nil, err
	}
	return &postgres{server: server, account: id, name: testAccount, own: true}, nil
}

// refuseFolder says why the ledger's folder cannot be opened.
func refuseFolder(path string, err error) error {
	next := "Check that the folder exists and may be written to."
	if errors.Is(err, files.ErrPlanted) {
		next = "Name the folder itself in ledger.path, or run payersync as the user that the service runs as."
	}
	return &OpenError{Path: path, Why: err.Error(), Next: next}
}

// connect opens the ledger on its engine and brings it up to date.
func (l *Ledger) connect(ctx context.Context) (err error) {
	if err := l.below.open(ctx, l); err != nil {
		return err
	}
	if err := l.below.migrate(ctx, l); err != nil {
		return err
	}
	first := l.writer
	if l.brief {
		first = l.reader
	}
	if err := l.checkKey(ctx, first); err != nil {
		return err
	}
	if p, err := readTransfer(ctx, l.reader); err != nil {
		return err
	} else if err := l.refuse(p); err != nil {
		return err
	}
	if err := l.loadLetterKey(ctx, l.reader); err != nil {
		return err
	}
	if l.brief {
		return nil // nothing is written, so that there is nothing to bind, to name or to erase
	}
	if err := l.checkGeneration(ctx); err != nil {
		return err
	}
	if err := l.reconnect(ctx); err != nil {
		return err
	}
	l.below.endBatch(l) // readers take no connection from writers
	if l.rekeying {
		return nil
	}
	return l.heedTombstones(ctx)
}

func damaged(path, how string) error {
	return &OpenError{Path: path, Why: "the file is damaged or not a ledger: " + how,
		Next: "Keep the file as it is and restore the last backup."}
}

// unreadable says why the file could not be checked. An interrupted check, or a locked file, is no
// damage: nobody should restore an old backup over a sound ledger.
func unreadable(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("check the ledger %s: %w", path, ctx.Err())
	}
	if troubleOf(err) == corrupt {
		return damaged(path, err.Error())
	}
	return &OpenError{
		Path: path, Why: "it could not be checked: " + err.Error(),
		Next: "Look whether another program holds it, and at the disk. If neither is the cause, keep the file as it is and restore the last backup.",
	}
}

// executor is a database or a transaction of it.
type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// checkKey binds a new ledger to its sealing key and refuses any other key later, because no other
// key opens its boxes.
func (l *Ledger) checkKey(ctx context.Context, db executor) error {
	if l.seal.away != nil {
		return nil // nothing is opened or sealed
	}
	at := place("ledger", "key_check")
	var box []byte
	if err := db.QueryRowContext(ctx, "SELECT key_check FROM ledger").Scan(&box); err != nil {
		return fmt.Errorf("read the ledger's key check: %w", err)
	}
	if box == nil && l.brief {
		return nil // nothing was ever sealed
	}
	if box == nil {
		if err := l.WaitForIntegrity(ctx); err != nil {
			return err
		}
		if err := db.QueryRowContext(ctx, "UPDATE ledger SET key_check = coalesce(key_check, ?) RETURNING key_check",
			l.seal.box([]byte("payersync"), at)).Scan(&box); err != nil {
			return fmt.Errorf("bind the ledger to its key: %w", err)
		}
	}
	if _, err := l.seal.open(box, at); err != nil {
		return l.otherKey(ctx, db, l.keyFile)
	}
	return nil
}

// Close waits for the writes already handed in and closes the ledger. Writes
// handed in later fail with ErrClosed, and so do later reads.
func (l *Ledger) Close() error { return l.close() }

func (l *Ledger) closeAll() error {
	close(l.closing)
	<-l.stopped
	return l.disconnect()
}

func (l *Ledger) disconnect() error {
	var errs []error
	var looked time.Time
	if l.sound != nil {
		l.sound.giveUp()
		looked = l.sound.foundIntact()
	}
	errs = append(errs, l.closeWriter(), l.reads.close())
	if l.reader != nil {
		errs = append(errs, l.reader.Close())
	}
	if l.writer != nil {
		errs = append(errs, l.writer.Close())
	}
	if l.generationStore != nil {
		errs = append(errs, l.generationStore.Close())
	}
	l.below.close(looked)
	if l.folder != nil {
		errs = append(errs, l.folder.Close())
	}
	return errors.Join(errs...)
}

// limitTo ends a query that gives as many rows at most as its last argument says. SQLite recompiles
// a query whenever a bare parameter of its LIMIT is bound, in case the number needs another plan.
// It does not look into a sum.
const limitTo = " LIMIT ? + 0"

// query runs a query on the readers.
func (l *Ledger) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	args, err := bound(args)
	if err != nil {
		return nil, err
	}
	if l.brief { // its one connection keeps its prepared statements
		return l.reader.QueryContext(ctx, l.limited(query), args...)
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
	if l.brief {
		return row{of: l.reader.QueryRowContext(ctx, l.limited(query), args...), sound: l.sound}
	}
	stmt, err := l.preparedRead(ctx, query)
	if err != nil {
		return row{err: err}
	}
	return row{of: stmt.QueryRowContext(ctx, args...), sound: l.sound}
}

// row is the one row that a query gives, or why it was not asked.
type row struct {
	of    *sql.Row
	err   error
	sound *integrityCheck
}

func (r row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.sound.noteDamage(r.of.Scan(dest...))
}

// preparedRead returns the statement for query on the readers, prepared once in
// the ledger's life: a plan asks some queries about every single record.
func (l *Ledger) preparedRead(ctx context.Context, query string) (*sql.Stmt, error) {
	query = l.limited(query)
	l.reads.mu.Lock()
	defer l.reads.mu.Unlock()
	if l.reads.of == nil {
		return nil, ErrClosed
	}
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

// Path returns the ledger's path without links, and its file as it was opened.
func (l *Ledger) Path() (path string, file os.FileInfo) { return l.path, l.place }

// Now returns the ledger's clock, cut to the milliseconds that it stores.
func (l *Ledger) Now() time.Time { return l.now().UTC().Truncate(time.Millisecond) }

// Ping reports whether the ledger can be written to, by a commit of nothing but its own number.
// This changes a page without growing the file. Otherwise SQLite would write nothing, and a full
// disk would go unnoticed.
func (l *Ledger) Ping(ctx context.Context) error {
	return l.Do(ctx, func(tx *Tx) error {
		tx.wrote = true
		return nil
	})
}

// OpenError says why a ledger was refused. It is meant for people.
type OpenError struct {
	Path, Why, Next string

	steps    []connector.Step
	otherKey bool // it was sealed with another key
}

// Error returns the failure, its cause, and the next step.
func (e *OpenError) Error() string {
	return fmt.Sprintf("cannot open the ledger %s: %s. %s", e.Path, e.Why, e.Next)
}

// Steps returns the next steps of a person, behind Next.
func (e *OpenError) Steps() []connector.Step { return e.steps }

// plain returns err without the path that os errors repeat.
func plain(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
