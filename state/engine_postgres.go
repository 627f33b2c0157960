package state

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"payersync/connector"
)

//go:embed migrations/postgres/*.sql
var postgresMigrations embed.FS

// postgresSchema is the schema of the tables. SQLite's is called the same, for the statements of Only.
const postgresSchema = "main"

// writersLock is the kind of advisory lock that writers of an account take turns by.
const writersLock = 1885434739

// postgres is the engine of an account's ledger in a Server. Writers of an account take turns, on all
// machines, by a lock for the time of the transaction. It limits the time of a statement and of a pause
// within a transaction. It uses the server's time, so machines need not compare their clocks. It also finds
// out the outcome of a commit after a lost answer.
type postgres struct {
	server  *Server
	account int64
	name    string // of the account
	own     bool   // the server was opened for this ledger alone
	brief   bool   // see Options
	counted int64  // rows that were changed when statistics were looked at last

	written, marked time.Time // when the ledger was written to last, and when the account's row was told so
}

// postgresSettings are those of every connection, by their names. They hold a session that lost
// its process, or its way, to a time.
var postgresSettings = map[string]string{
	"search_path":                         postgresSchema,
	"statement_timeout":                   "1min",
	"lock_timeout":                        "20s",
	"idle_in_transaction_session_timeout": "10s",
	"TimeZone":                            "UTC",
	"standard_conforming_strings":         "on",
	"synchronous_commit":                  "on",
	"default_transaction_isolation":       "read committed",
	"client_connection_check_interval":    "10s", // a statement ends soon after the process that wants it
}

func (*postgres) prepare() error { return nil }

func (e *postgres) open(_ context.Context, l *Ledger) error {
	l.brief = e.brief
	l.writer, l.reader = ofAccount(e.server.write, e.account, 1), ofAccount(e.server.read, e.account, 4)
	if e.brief {
		l.reader.SetMaxIdleConns(1)
	}
	l.sound = startIntegrityCheck(e.look, l.look, time.Time{}, l.Now, false)
	if !e.server.clock {
		l.now = e.server.Now
	}
	return nil
}

// readied has nothing to do: the server looks at each new connection.
func (*postgres) readied(context.Context, executor) error { return nil }

// migrate has nothing to do: the server did it when it was opened.
func (*postgres) migrate(context.Context, *Ledger) error { return nil }

// postgresSteps migrate the tables, by one process at a time, however many start together.
func postgresSteps(db *sql.DB) (*goose.Provider, error) {
	scripts, err := fs.Sub(postgresMigrations, "migrations/postgres")
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	turns, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err != nil {
		return nil, fmt.Errorf("prepare the migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, scripts, goose.WithDisableGlobalRegistry(true),
		goose.WithSessionLocker(turns))
	return p, connector.Wrap(err, "prepare the migrations")
}

func (e *postgres) where() string {
	at := e.server.write.Config().ConnConfig
	return fmt.Sprintf("account %s in %s/%s", e.name, net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port))), at.Database)
}

func (*postgres) isFile() bool { return false }

// tryLock holds a lock by a session, which the server ends with its process or its connection.
// Nobody is kept from serving or from a connection: every node serves, and a run has its lease.
func (e *postgres) tryLock(ctx context.Context, ending string) (*Lock, error) {
	if ending == serveLock || strings.HasPrefix(ending, connectionLock) {
		return &Lock{}, nil
	}
	kind := fnv.New32a()
	_, _ = kind.Write([]byte(ending))
	return e.server.locks.try(ctx, e.lock(int64(kind.Sum32()>>1)))
}

// errReadOnly refuses a write to a ledger that was opened for one look.
var errReadOnly = errors.New("this ledger was opened to look at, and takes no writes")

// begin takes the account's lock in a statement of its own: under READ COMMITTED each later
// statement sees all earlier commits.
func (e *postgres) begin(tx *Tx) error {
	if e.brief {
		return errReadOnly
	}
	if err := tx.exec("BEGIN ISOLATION LEVEL READ COMMITTED"); err != nil {
		return err
	}
	var now time.Time
	if err := tx.row([]any{&now, &tx.id, &tx.timeline},
		"SELECT clock_timestamp(), pg_current_xact_id()::text, "+timeline+" FROM pg_advisory_xact_lock(?)",
		e.lock(writersLock)); err != nil {
		return tx.abandon(err)
	}
	e.server.noteTime(now)
	if !e.server.clock {
		tx.now = now.UTC().Truncate(time.Millisecond)
	}
	if err := e.mark(tx); err != nil {
		return tx.abandon(err)
	}
	return nil
}

func (*postgres) pipelines() bool { return true }

// timeline identifies the server's history. A server that replaced another has a new one.
const timeline = "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"

// lock is the key of a lock of the account; which one, says its kind.
func (e *postgres) lock(kind int64) int64 { return kind<<32 | e.account }

// endBatch gives the connection to other ledgers. Its prepared statements stay there. A growing
// ledger updates the tables' statistics by itself. The server does so only a minute later, and a
// first backfill planned for empty tables takes hours by then.
func (e *postgres) endBatch(l *Ledger) {
	clear(l.stmts)
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
	if l.changed-e.counted >= min(max(1000, e.counted), mostUncounted) {
		e.counted = l.changed
		e.server.analyze()
	}
}

// mostUncounted is the number of changed rows after which a ledger checks the statistics of its
// tables. Growth alone would trigger that too late for tables with late contents.
const mostUncounted = 20_000

// analyze makes the server analyse tables that have no statistics, or with more than a tenth of
// their rows changed. The server analyses locked tables later by itself.
func (s *Server) analyze() {
	ctx, cancel := context.WithTimeout(context.Background(), analyzeWithin)
	defer cancel()
	rows, err := s.write.Query(ctx, `SELECT format('SELECT main.analyze_table(%s::oid::regclass)', r.oid)
		FROM pg_class r LEFT JOIN pg_stat_user_tables s ON s.relid = r.oid
		WHERE r.relkind = 'r' AND r.relnamespace = 'main'::regnamespace AND pg_relation_size(r.oid) > 0
			AND (r.reltuples < 0 OR s.n_mod_since_analyze > greatest(1000, r.reltuples / 10))`)
	if err != nil {
		return
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, statement := range statements {
		if err == nil {
			_, err = s.write.Exec(ctx, statement)
		}
	}
}

// analyzeWithin is how long a writer waits for statistics.
const analyzeWithin = 10 * time.Second

func (*postgres) freeCache(*sql.Conn) {}

// findOutcome asks the server, of which the session may be gone.
func (e *postgres) findOutcome(ctx context.Context, tx *Tx, _ error) error {
	return e.server.findOutcome(ctx, tx.id, tx.timeline)
}

// snapshot begins a transaction that sees the commits before its first statement.
func (e *postgres) snapshot(ctx context.Context) (db *sql.DB, tx *sql.Tx, err error) {
	db = ofAccount(e.server.read, e.account, 1)
	tx, err = db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	return db, tx, err
}

func (e *postgres) close(time.Time) {
	e.markLast()
	if e.own {
		e.server.Close()
	}
}

// look asks whether the database answers. Its pages have checksums of its own, which it
// looks at whenever it reads them.
func (e *postgres) look(ctx context.Context) error {
	if err := e.server.read.Ping(ctx); err != nil {
		return refusedServer(err)
	}
	return nil
}

// integrity makes no check: pg_amcheck is the server's, and needs its rights.
func (*postgres) integrity(context.Context, *verifier) error { return nil }

// references always hold.
func (*postgres) references(context.Context, *verifier) error { return nil }

// catalogue leaves out the account column, set by the session, and tables without an account.
func (*postgres) catalogue() string {
	return `SELECT r.relname, string_agg(a.attname, ',' ORDER BY a.attname COLLATE "C") FILTER (WHERE a.attname <> 'account'),
		(SELECT string_agg(c.attname, ',' ORDER BY k.place) FROM pg_constraint p JOIN LATERAL unnest(p.conkey) WITH ORDINALITY k (attnum, place) ON true
			JOIN pg_attribute c ON c.attrelid = p.conrelid AND c.attnum = k.attnum AND c.attname <> 'account' WHERE p.conrelid = r.oid AND p.contype = 'p'),
		(SELECT coalesce(string_agg(o.relname, ','), '') FROM pg_constraint p JOIN pg_class o ON o.oid = p.confrelid WHERE p.conrelid = r.oid AND p.contype = 'f')
		FROM pg_class r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE r.relkind = 'r' AND r.relnamespace = 'main'::regnamespace AND r.relname NOT IN ('account_files', 'account_hooks') GROUP BY r.oid, r.relname HAVING bool_or(a.attname = 'account') ORDER BY r.relname COLLATE "C"`
}

func (*postgres) patient(ctx context.Context, in executor) error {
	_, err := in.ExecContext(ctx,
		"SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)")
	return err
}

// raise takes numbers until the highest is behind. All accounts share the sequences, so none may be
// set back. A sequence is only set far ahead, out of reach meanwhile.
func (*postgres) raise(tx *Tx) error {
	raises, err := tx.l.ids(context.Background(),
		`SELECT format('SELECT CASE WHEN n.highest - n.given > 100000 THEN setval(%1$L, n.highest) ELSE (SELECT count(nextval(%1$L)) FROM generate_series(1, n.highest - n.given)) END
			FROM (SELECT coalesce(max(%2$I), 0) AS highest, (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM %1$s) AS given FROM %3$I) n', pg_get_serial_sequence('main.' || r.relname, c.attname), c.attname, r.relname)
		FROM pg_class r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attname = 'account' JOIN pg_attribute c ON c.attrelid = r.oid AND c.attidentity <> ''
		WHERE r.relkind = 'r' AND r.relnamespace = 'main'::regnamespace`)
	for _, statement := range raises {
		if err == nil {
			err = tx.exec(statement)
		}
	}
	return err
}

func (*postgres) hasColumn(ctx context.Context, db books, table, column string) (has bool, err error) {
	err = db.QueryRowContext(ctx,
		"SELECT EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = ? AND table_name = ? AND column_name = ?)",
		postgresSchema, table, column).Scan(&has)
	return has, err
}

// postgresWords are our texts for the server's errors, by their code.
var postgresWords = map[string]string{
	"55P03": "somebody else keeps this account's ledger for longer than 20s, so nothing was done; let what is at work on it come to its end, and try again",
	"25006": "what answers takes no writes, so nothing was done: it is a standby, or was made to be read alone",
	"57014": "the ledgers' database gave up a statement that took it too long, so nothing was done; look how busy it is, and try again",
	"53300": "the ledgers' database has no connection left, so nothing was done; let it take more (max_connections), or lower ledger.connections of the nodes",
}

// wordsError is a server's error with our text.
type wordsError struct {
	words string
	err   error
}

func (e *wordsError) Error() string { return e.words }

func (e *wordsError) Unwrap() error { return e.err }

// inWords returns an error with our text for people.
func inWords(err error) error {
	var said *pgconn.PgError
	var told *wordsError
	if errors.As(err, &said) && !errors.As(err, &told) && postgresWords[said.Code] != "" {
		return &wordsError{postgresWords[said.Code], err}
	}
	return err
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
		case said.Code == "57014":
			return tooSlow
		case said.Code == "25006", said.Code == "42501":
			return readOnly
		case class == "XX":
			return corrupt
		}
		return none
	}
	if errors.Is(err, errUnreplicated) {
		return cutOff
	}
	var never *pgconn.ConnectError
	var network net.Error
	if errors.As(err, &never) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return cutOff
	}
	return none
}
