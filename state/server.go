package state

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"payersync/connector"
)

// Server is a PostgreSQL database with the ledgers of many accounts, in the same tables and separated by row
// policies. The policies use the account set in a session: they guard against mistakes in a statement, not
// against code that sets another account. The ledgers of a process share a pool of write connections, a pool
// of read connections, and one connection for locks. Server is safe for concurrent use.
type Server struct {
	write, read *pgxpool.Pool
	locks       *sessionLocks
	wraps       atomic.Pointer[wrapping]  // the key-encryption key; nil in it for none
	heard       atomic.Pointer[heardTime] // of the database's clock
	clock       bool                      // the ledgers have a clock of their own, which tests move
	// for connections with the tables' owner role; nil if ServerOptions.Owner is blank
	owner      *pgxpool.Config
	ownsTables bool // so does the role that works on them
}

// ServerOptions says which database keeps the ledgers.
type ServerOptions struct {
	Address string // postgres://USER@HOST:PORT/DATABASE, or as PostgreSQL's own programs take it; never shown
	// the same database with the role that owns the tables, for migrations; "" where the role of Address does, or the
	// tables are up to date
	Owner string
	// that the ledgers have at most: one to hold locks, the others half to write and half to read, two of each at least;
	// 0 means 16
	Connections int

	// KeyEncryptionKey wraps the keys of accounts: 32 bytes, see ParseKey. Without it ledgers open with a key file alone.
	KeyEncryptionKey []byte

	clock bool
}

const (
	defaultConnections = 16
	connectTimeout     = 10 * time.Second
)

// ErrServer means that the database of the ledgers cannot be used. Its text gives the reason and
// the next step.
var ErrServer = errors.New("cannot use the ledgers' database")

// OpenServer connects to a database and brings its tables up to date, one process at a time. It
// fails with ErrServer if there is no database, or if the database, its role, or a proxy would not
// keep ledgers apart or commits durable.
func OpenServer(ctx context.Context, o ServerOptions) (*Server, error) {
	config, err := sessionsAt(o.Address)
	if err != nil {
		return nil, err
	}
	o.Connections = cmp.Or(o.Connections, defaultConnections)
	s := &Server{clock: o.clock}
	if o.KeyEncryptionKey != nil {
		w, err := newWrapping(o.KeyEncryptionKey)
		if err != nil {
			return nil, err
		}
		s.wraps.Store(w)
	}
	each := max(2, (o.Connections-1)/2) // while a writer holds one it asks on another what became of its commit
	var errs [3]error
	one, err := poolOf(ctx, config, 1, toWrite)
	s.locks, errs[0] = newSessionLocks(one), err
	s.write, errs[1] = poolOf(ctx, config, each, toWrite)
	s.read, errs[2] = poolOf(ctx, config, each, toRead)
	if err = errors.Join(errs[:]...); err == nil {
		err = s.bringUp(ctx, o)
	}
	if err == nil {
		err = s.firstTime(ctx)
	}
	if err != nil {
		s.Close()
		return nil, refusedServer(err)
	}
	return s, nil
}

// sessionsAt returns what every connection to a database is asked for and looked at.
func sessionsAt(address string) (*pgxpool.Config, error) {
	if err := CheckAddress(address); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("%w: its address cannot be read. %s", ErrServer, asAddress)
	}
	maps.Copy(config.ConnConfig.RuntimeParams, postgresSettings)
	config.ConnConfig.RuntimeParams["application_name"] = "payersync"
	config.ConnConfig.ConnectTimeout = connectTimeout
	// of several hosts, the one that takes writes
	config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	config.ConnConfig.OnNotice = heedWarning
	config.AfterConnect = checkSession
	return config, nil
}

// Further settings of connections, for writes and for reads. Statements use keys and indexes, a page at a
// time, and suit a simple planner. Parallel scans, compiled code and materialised lists would repeat their
// work for each page. Queries within a write use keys of any value: planning each anew takes longer than
// running it.
var (
	toRead = map[string]string{"default_transaction_read_only": "on", "jit": "off", "enable_material": "off",
		"max_parallel_workers_per_gather": "0"}

	toWrite = map[string]string{"default_transaction_read_only": "off", "jit": "off", "enable_material": "off",
		"max_parallel_workers_per_gather": "0",
		"plan_cache_mode":                 "force_generic_plan"}
)

// poolOf makes so many of such connections at most, when they are needed.
func poolOf(ctx context.Context, config *pgxpool.Config, most int, settings map[string]string) (*pgxpool.Pool, error) {
	config = config.Copy()
	config.MaxConns = int32(most) //nolint:gosec // of a configuration, which is checked
	maps.Copy(config.ConnConfig.RuntimeParams, settings)
	return pgxpool.NewWithConfig(ctx, config)
}

const asAddress = "Write it as postgres://USER@HOST:PORT/DATABASE?sslmode=verify-full"

// CheckAddress refuses with ErrServer an unreadable database address, or one without protection
// against another server in between. Only a database on this machine needs no certificate. It is
// not shown: a password may be in it.
func CheckAddress(address string) error {
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return fmt.Errorf("%w: its address cannot be read. %s", ErrServer, asAddress)
	}
	for _, way := range waysTo(config) {
		here := connector.IsLoopback(way.Host) || strings.HasPrefix(way.Host, "/") || strings.HasPrefix(way.Host, "@")
		if !here && (way.TLSConfig == nil || way.TLSConfig.InsecureSkipVerify) {
			return fmt.Errorf("%w: whoever stands on the way to %s could answer in its place. Write sslmode=verify-full into its address, and sslrootcert=FILE where its certificate is of an authority of your own", ErrServer, way.Host)
		}
	}
	return nil
}

// AddressHosts returns the hosts that a database address names; none for an unreadable one.
func AddressHosts(address string) (hosts []string) {
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return nil
	}
	for _, way := range waysTo(config) {
		hosts = append(hosts, way.Host)
	}
	return hosts
}

// waysTo returns each host of a database address, with and without its second way to connect.
func waysTo(config *pgconn.Config) []*pgconn.FallbackConfig {
	return append([]*pgconn.FallbackConfig{{Host: config.Host, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
}

// Close closes the connections. Its ledgers are closed before.
func (s *Server) Close() {
	for _, pool := range []*pgxpool.Pool{s.write, s.read, s.locks.pool} {
		if pool != nil {
			pool.Close()
		}
	}
}

// refusedServer explains why the database is unusable, without the driver's text on its address.
func refusedServer(err error) error {
	var said *pgconn.PgError
	var told *wordsError
	switch err = inWords(err); {
	case errors.Is(err, ErrServer):
		return err
	case errors.As(err, &told):
		return fmt.Errorf("%w: %w", ErrServer, err)
	case errors.As(err, &said):
		return fmt.Errorf("%w: it says %q (%s). Mend that, and try again", ErrServer, said.Message, said.Code)
	case errors.Is(err, pgconn.ErrStandbyConnection):
		return fmt.Errorf("%w: what answers is a standby, which takes no writes before it is promoted. Name the primary in ledger.postgres, or all of them with commas between", ErrServer)
	case troubleOf(err) == cutOff:
		return fmt.Errorf("%w: it cannot be reached. Look whether it runs, and at its host and port in ledger.postgres",
			ErrServer)
	}
	return fmt.Errorf("%w: %w", ErrServer, err)
}

// checkSession checks a new connection before the first query. The settings were sent at its start; a server,
// or a pooler before it, may have ignored them. A pooler that changes the session for each transaction would
// mix up ledgers. Its own session number, different from the server's, reveals it.
func checkSession(ctx context.Context, conn *pgx.Conn) error {
	for name, want := range postgresSettings {
		var got string
		if err := conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&got); err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%w: its setting %s is %q and not %q. What stands between, a pooler for instance, must leave the settings of a session as they are asked for", ErrServer, name, got, want)
		}
	}
	var session uint32
	var encoding, role string
	var bypasses bool
	if err := conn.QueryRow(ctx,
		`SELECT pg_backend_pid(), current_setting('server_encoding'), rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user`).
		Scan(&session, &encoding, &role, &bypasses); err != nil {
		return err
	}
	switch {
	case session != conn.PgConn().PID():
		return fmt.Errorf("%w: a pooler stands before it that lends sessions. Name the database itself and not the pooler: payersync pools its connections", ErrServer)
	case encoding != "UTF8":
		return fmt.Errorf("%w: its encoding is %s. Make one with ENCODING 'UTF8'", ErrServer, encoding)
	case bypasses:
		return fmt.Errorf("%w: the role %s would see past the policies that keep accounts apart. Run: ALTER ROLE %s NOSUPERUSER NOBYPASSRLS", ErrServer, role, pgx.Identifier{role}.Sanitize())
	}
	return nil
}

// migrate makes the tables, or brings them up to date.
func (s *Server) migrate(ctx context.Context, owner *pgxpool.Pool) error {
	patient, err := withoutLimits(ctx, owner)
	if err != nil {
		return err
	}
	defer patient.Close()
	db := stdlib.OpenDBFromPool(patient)
	defer func() { _ = db.Close() }()
	// If two processes created it at once, one would fail.
	if _, err := db.ExecContext(ctx,
		fmt.Sprintf("DO $$ BEGIN PERFORM pg_advisory_xact_lock(%d); CREATE SCHEMA IF NOT EXISTS %s; END $$", writersLock,
			postgresSchema)); err != nil {
		return fmt.Errorf("make the schema: %w", err)
	}
	p, err := postgresSteps(db)
	if err != nil {
		return err
	}
	return upgrade(ctx, p.GetVersions, func(ctx context.Context, _ int64) error { _, err := p.Up(ctx); return err },
		func(current, target int64) error { return knowsTables(ctx, db, current, target) }, func() error { return nil })
}

// withoutLimits returns connections like those of a pool, for migrations: one of a million payers takes longer than
// other statements may.
func withoutLimits(ctx context.Context, like *pgxpool.Pool) (*pgxpool.Pool, error) {
	config := like.Config()
	check := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := check(ctx, conn); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "SELECT set_config('statement_timeout', '0', false), set_config('idle_in_transaction_session_timeout', '0', false)")
		return err
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// knowsTables refuses tables of a newer version that this program does not work with.
func knowsTables(ctx context.Context, db *sql.DB, current, target int64) error {
	var oldest int64
	if err := db.QueryRowContext(ctx, "SELECT "+postgresSchema+".oldest_schema()").Scan(&oldest); err != nil {
		return fmt.Errorf("read which versions the tables are for: %w", err)
	}
	if target >= oldest {
		return nil // a newer node has made its tables already, with which this one works, too
	}
	return fmt.Errorf("%w: its tables are of version %d, this payersync knows up to %d. Use the payersync that made them, or a newer one", ErrServer, current, target)
}
