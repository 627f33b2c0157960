package state

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/postgres/*.sql
var postgresMigrations embed.FS

// postgresSchema is where the tables lie. SQLite has one of that name, which the
// statements of Only speak of.
const postgresSchema = "main"

// writersLock is the key of the advisory lock that the writers of a ledger take turns by.
const writersLock = 1885434739

// postgres is the engine of a ledger whose rows lie in a database of PostgreSQL. It decides that
// processes take turns by a lock that ends with their transaction, that a statement and a
// pause within a transaction end after a time, and that the time of a write is the server's: no two
// machines compare their clocks.
//
// There is no way to configure one yet: package elsewhere says to tests alone where one is.
type postgres struct {
	config *pgx.ConnConfig
	clock  bool // the ledger has a clock of its own, which tests move
}

// postgresSettings are those of every connection, by their names. They hold a session that lost
// its process, or its way, to a time.
var postgresSettings = map[string]string{
	"search_path":                         postgresSchema,
	"statement_timeout":                   "60s",
	"lock_timeout":                        "20s",
	"idle_in_transaction_session_timeout": "10s",
	"timezone":                            "UTC",
	"standard_conforming_strings":         "on",
	"synchronous_commit":                  "on",
	"default_transaction_isolation":       "read committed",
	"application_name":                    "payersync",
}

// newPostgres returns the engine of the database that dsn names. What is wrong with it is told
// without it: it may hold a password.
func newPostgres(dsn string, clock bool) (*postgres, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("cannot open the ledger: the address of PostgreSQL cannot be read. Write it as postgres://USER@HOST:PORT/DATABASE")
	}
	for name, value := range postgresSettings {
		config.RuntimeParams[name] = value
	}
	return &postgres{config: config, clock: clock}, nil
}

func (*postgres) prepare() error { return nil }

func (e *postgres) open(ctx context.Context, l *Ledger) error {
	l.writer, l.reader = e.pool(1, false), e.pool(4, true)
	l.sound = lookThrough(e.look, l.look)
	// Of two that make it at once, one would fail.
	if _, err := l.writer.ExecContext(ctx, fmt.Sprintf("DO $$ BEGIN PERFORM pg_advisory_xact_lock(%d); CREATE SCHEMA IF NOT EXISTS %s; END $$", writersLock, postgresSchema)); err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	return e.checkSettings(ctx, l.writer)
}

// pool returns so many connections at most.
func (e *postgres) pool(most int, readOnly bool) *sql.DB {
	config := e.config.Copy()
	if readOnly {
		config.RuntimeParams["default_transaction_read_only"] = "on"
	}
	db := sql.OpenDB(newPostgresConnector(config))
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	if readOnly {
		db.SetConnMaxIdleTime(restAfter)
	}
	return db
}

// checkSettings reads the settings back: a server, or what stands before it, may have others.
func (*postgres) checkSettings(ctx context.Context, db executor) error {
	for _, want := range []struct{ name, value string }{
		{"search_path", postgresSchema}, {"statement_timeout", "1min"}, {"lock_timeout", "20s"}, {"idle_in_transaction_session_timeout", "10s"},
		{"default_transaction_isolation", "read committed"}, {"standard_conforming_strings", "on"}, {"synchronous_commit", "on"}, {"server_encoding", "UTF8"},
	} {
		var got string
		if err := db.QueryRowContext(ctx, "SELECT current_setting(?)", want.name).Scan(&got); err != nil || got != want.value {
			return fmt.Errorf("check the ledger's setting %s: want %s, got %q: %w", want.name, want.value, got, errors.Join(err, errUnsafe))
		}
	}
	return nil
}

// migrations are made by one process at a time, however many start together.
func (*postgres) migrations(l *Ledger) (*goose.Provider, error) {
	scripts, err := fs.Sub(postgresMigrations, "migrations/postgres")
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	turns, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err != nil {
		return nil, fmt.Errorf("prepare the migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, l.writer, scripts, goose.WithDisableGlobalRegistry(true), goose.WithSessionLocker(turns))
	if err != nil {
		return nil, fmt.Errorf("prepare the migrations: %w", err)
	}
	return p, nil
}

func (*postgres) isFile() bool { return false }

// begin takes the lock in a statement of its own: under READ COMMITTED each later one
// sees all that was committed before.
func (e *postgres) begin(tx *Tx) error {
	if err := tx.exec("BEGIN ISOLATION LEVEL READ COMMITTED"); err != nil {
		return err
	}
	var now time.Time
	if err := tx.row([]any{&now}, "SELECT clock_timestamp() FROM pg_advisory_xact_lock(?)", int64(writersLock)); err != nil {
		return tx.abandon(err)
	}
	if !e.clock {
		tx.now = now.UTC().Truncate(time.Millisecond)
	}
	return nil
}

func (*postgres) rest(*sql.Conn) {}

// snapshot begins a transaction that sees what was committed before its first statement.
func (e *postgres) snapshot(ctx context.Context) (db *sql.DB, tx *sql.Tx, err error) {
	db = e.pool(1, true)
	tx, err = db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	return db, tx, err
}

// look asks whether the database answers. Its pages have checksums of its own, which it
// looks at whenever it reads them.
func (e *postgres) look(ctx context.Context) error {
	db := e.pool(1, true)
	defer func() { _ = db.Close() }()
	return db.PingContext(ctx)
}

// integrity makes no check: pg_amcheck is the server's, and needs its rights.
func (*postgres) integrity(context.Context, *verifier) error { return nil }

// references always hold.
func (*postgres) references(context.Context, *verifier) error { return nil }

func (*postgres) hasColumn(ctx context.Context, db books, table, column string) (has bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = ? AND table_name = ? AND column_name = ?)",
		postgresSchema, table, column).Scan(&has)
	return has, err
}

// postgresTrouble is troubleOf for errors of PostgreSQL and of the way to it. A code is told by
// its class where all of the class mean the same.
func postgresTrouble(err error) trouble {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		switch class := said.Code[:min(2, len(said.Code))]; {
		case class == "08", strings.HasPrefix(said.Code, "57P"), said.Code == "25P03", said.Code == "25P04":
			return cutOff
		case said.Code == "53100", class == "58":
			return diskFull
		case said.Code == "55P03", said.Code == "53300", class == "40":
			return inUse
		case said.Code == "25006", said.Code == "42501":
			return readOnly
		case class == "XX":
			return corrupt
		}
		return none
	}
	var never *pgconn.ConnectError
	var network net.Error
	if errors.As(err, &never) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return cutOff
	}
	return none
}
