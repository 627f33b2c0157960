// Package testdb lets tests run on another engine than SQLite. With the flag -engine postgres every ledger that a
// test binary opens keeps its rows in a database of its own on a PostgreSQL that the
// binary starts from installed programs, in a folder of its own, on a free port of
// 127.0.0.1. What lies beside a ledger's file stays there.
package testdb

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/jackc/pgx/v5"

	"payersync/state/internal/elsewhere"
)

// ErrMissing means that PostgreSQL is not installed.
var ErrMissing = errors.New("there is no initdb on this machine; .ci/run installs PostgreSQL")

var engine = flag.String("engine", "sqlite", "the database below the ledgers of these tests: sqlite or postgres")

func init() { elsewhere.DSN = DSN }

// OnPostgres reports whether these tests run on PostgreSQL.
func OnPostgres() bool { return *engine == "postgres" }

// databases are those that were made, by the ledger's path.
var databases struct {
	mu       sync.Mutex
	of       map[string]string
	made     int
	template string // a ledger that holds nothing yet; "" while there is none
}

// DSN returns the address of the database of the ledger at path, "" on SQLite. It is made when it
// is asked for the first time.
func DSN(path string) (string, error) {
	if !OnPostgres() {
		if *engine != "sqlite" {
			return "", fmt.Errorf("-engine %s is neither sqlite nor postgres", *engine)
		}
		return "", nil
	}
	return dsnOf(path, false)
}

// Template makes the ledger at path, which nobody has open any more, what Copy copies.
func Template(path string) error {
	if !OnPostgres() {
		return nil
	}
	_, err := dsnOf(path, false)
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
	_, err := dsnOf(path, true)
	return err
}

func dsnOf(path string, copied bool) (string, error) {
	s, err := server()
	if err != nil {
		return "", err
	}
	path = resolved(path)
	databases.mu.Lock() // until it is there
	defer databases.mu.Unlock()
	name, known := databases.of[path]
	if known && !copied {
		return s.dsn(name), nil
	}
	template := "template0"
	if copied {
		template = databases.template
	}
	if name, err = s.create(template); err != nil {
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

// New returns the address of a new database without tables, on whatever engine the ledgers are. It
// fails with ErrMissing where PostgreSQL is not installed.
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

// resolved returns path without links, as a ledger says where it lies.
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
