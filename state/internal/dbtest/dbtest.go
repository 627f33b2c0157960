// Package dbtest lets tests run on another engine than SQLite. With the flag -engine postgres each
// ledger of a test binary keeps its rows in its own database. The binary starts PostgreSQL from
// installed programs, in its own folder, on a free port of 127.0.0.1. Files beside a ledger's file
// stay there.
package dbtest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/jackc/pgx/v5"

	"payersync/state/internal/testdsn"
)

// ErrMissing means that PostgreSQL is not installed.
var ErrMissing = errors.New("there is no initdb on this machine; .ci/run installs PostgreSQL")

var engine = flag.String("engine", "sqlite", "the database below the ledgers of these tests: sqlite or postgres")

// lasting keeps a ledger's connections until it is closed: clocks of tests move by days, and a new connection
// takes longer than most of their work.
const lasting = " pool_max_conn_lifetime=87600h pool_max_conn_idle_time=87600h pool_health_check_period=24h"

func init() {
	testdsn.DSN = func(path string) (string, error) {
		dsn, err := DSN(path)
		if err != nil || dsn == "" {
			return "", err
		}
		return dsn + lasting, nil
	}
}

// OnPostgres reports whether these tests run on PostgreSQL.
func OnPostgres() bool { return *engine == "postgres" }

// databases are those that were made, by the ledger's path.
var databases struct {
	mu       sync.Mutex
	of       map[string]string
	files    map[string]bool   // ledgers in files, whatever the flag
	others   map[string]string // the addresses of those that another process made, by the ledger's path
	made     int
	template string // a ledger that holds nothing yet; "" while there is none
}

// OnServer reports whether the rows of the ledger at path are in a database of the server: as the flag says, unless
// File or Server said otherwise.
func OnServer(path string) bool {
	path = resolved(path)
	databases.mu.Lock()
	defer databases.mu.Unlock()
	_, made := databases.of[path]
	return made || OnPostgres() && !databases.files[path]
}

// File makes the ledger at path, which has no database, a file.
func File(path string) {
	databases.mu.Lock()
	defer databases.mu.Unlock()
	if databases.files == nil {
		databases.files = map[string]bool{}
	}
	databases.files[resolved(path)] = true
}

// Server gives the ledger at path, which is new, a database.
func Server(path string) error {
	return replace(path, func() string { return cmp.Or(databases.template, "template0") })
}

// DSN returns the address of the database of the ledger at path, "" on SQLite. It is made when it
// is asked for the first time.
func DSN(path string) (string, error) {
	if *engine != "sqlite" && !OnPostgres() {
		return "", fmt.Errorf("-engine %s is neither sqlite nor postgres", *engine)
	}
	databases.mu.Lock()
	other, known := databases.others[resolved(path)]
	databases.mu.Unlock()
	if known {
		return other, nil
	}
	if !OnServer(path) {
		return "", nil
	}
	return dsnOf(path)
}

// Use declares that another process's database holds the rows of the ledger at path.
func Use(path, dsn string) {
	databases.mu.Lock()
	defer databases.mu.Unlock()
	if databases.others == nil {
		databases.others = map[string]string{}
	}
	databases.others[resolved(path)] = dsn
}

// Template makes the ledger at path, which nobody has open any more, what Copy copies.
func Template(path string) error {
	if !OnPostgres() {
		return nil
	}
	_, err := dsnOf(path)
	databases.mu.Lock()
	defer databases.mu.Unlock()
	databases.template = databases.of[resolved(path)]
	return err
}

// Copy gives the ledger at path, which is new, a copy of the template.
func Copy(path string) error {
	if !OnPostgres() {
		return nil
	}
	return replace(path, func() string { return databases.template })
}

// CopyOf replaces the ledger at to by a copy of the unopened ledger at from.
func CopyOf(from, to string) error {
	from = resolved(from)
	return replace(to, func() string { return databases.of[from] })
}

// Remove removes the database of the ledger at path, which nobody has open.
func Remove(path string) error {
	databases.mu.Lock()
	defer databases.mu.Unlock()
	return drop(resolved(path))
}

// replace gives the ledger at path another database, made of a template.
func replace(path string, template func() string) error {
	path = resolved(path)
	databases.mu.Lock()
	defer databases.mu.Unlock()
	if err := drop(path); err != nil {
		return err
	}
	_, err := keep(path, template())
	return err
}

// drop removes a database, if there is one. The caller has the lock of databases.
func drop(path string) error {
	name, known := databases.of[path]
	if !known {
		return nil
	}
	delete(databases.of, path)
	s, err := server()
	if err != nil {
		return err
	}
	return s.manage("DROP DATABASE " + name + " WITH (FORCE)")
}

func dsnOf(path string) (string, error) {
	path = resolved(path)
	databases.mu.Lock() // until it is there
	defer databases.mu.Unlock()
	if _, known := databases.of[path]; !known {
		return keep(path, "template0")
	}
	s, err := server()
	if err != nil {
		return "", err
	}
	return s.dsn(databases.of[path]), nil
}

// keep makes the database of the ledger at path, and returns its address. The caller has the lock of databases.
func keep(path, template string) (dsn string, err error) {
	s, err := server()
	if err != nil {
		return "", err
	}
	name, err := s.create(template)
	if err != nil {
		return "", err
	}
	if databases.of == nil {
		databases.of = map[string]string{}
	}
	databases.of[path] = name
	return s.dsn(name), nil
}

// create makes a database of a template and returns its name. The caller has the lock of databases.
func (s *running) create(template string) (name string, err error) {
	databases.made++
	name = fmt.Sprintf("ledger%d", databases.made)
	return name, s.manage("CREATE DATABASE " + name + " OWNER ledger TEMPLATE " + template)
}

// New returns the address of a new database without tables, whatever the engine of the ledgers. It fails with
// ErrMissing without PostgreSQL.
func New() (dsn string, err error) {
	s, err := server()
	if err != nil {
		return "", err
	}
	databases.mu.Lock()
	defer databases.mu.Unlock()
	name, err := s.create("template0")
	return s.dsn(name), err
}

// resolved returns path without links, in a ledger's form.
func resolved(path string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return path
}

// Execute runs a statement on the database of the ledger at path, for the one account that it keeps.
func Execute(path, statement string) error {
	dsn, err := DSN(path)
	if err != nil {
		return err
	}
	return ExecuteAt(dsn, "SET payersync.account = '1'; "+statement)
}

// AskAt returns the one value of a query on the database at an address, as text, as the session of an account.
func AskAt(dsn, account, query string) (value string, err error) {
	ctx := context.Background() // as in ExecuteAt
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	if _, err = conn.Exec(ctx,
		"SELECT set_config('payersync.account', (SELECT account_id::text FROM main.accounts WHERE name = $1), false)",
		account); err == nil {
		err = conn.QueryRow(ctx, "SELECT ("+query+")::text").Scan(&value)
	}
	return value, errors.Join(err, conn.Close(ctx))
}

// ExecuteAt runs a statement on the database at an address.
func ExecuteAt(dsn, statement string) error {
	ctx := context.Background() // without a goroutine that waits for its end
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}
