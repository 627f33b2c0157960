// Package statetest gives tests a new ledger at the price of a copied file. Creating one takes dozens of
// statements, slow under the race detector.
//
// Tests with this package have the flag -engine postgres: their ledgers then keep their rows in a PostgreSQL,
// see package dbtest.
package statetest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"payersync/state"
	"payersync/state/internal/dbtest"
)

// files are a ledger that holds nothing yet and its key.
type files struct{ ledger, key []byte }

// fresh is made by the first test that wants one.
var fresh = sync.OnceValues(func() (f files, err error) {
	dir, err := os.MkdirTemp("", "payersync-statetest-")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "payersync.db")
	if err := state.CreateKey(path + ".key"); err != nil {
		return f, err
	}
	ledger, err := state.Open(context.Background(), state.Options{Path: path, KeyFile: path + ".key"})
	if err != nil {
		return f, err
	}
	if err := errors.Join(ledger.Close(), forget(path), dbtest.Template(path)); err != nil {
		return f, err
	}
	if f.ledger, err = os.ReadFile(path); err != nil && !dbtest.OnPostgres() {
		return f, err
	}
	f.key, err = os.ReadFile(path + ".key")
	return f, err
})

// forget takes the identity of a ledger away, so that each copy gets one of its own.
func forget(path string) error {
	if dbtest.OnPostgres() {
		return dbtest.Execute(path, "UPDATE main.ledger SET identity = ''")
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(context.Background(), "UPDATE ledger SET identity = ''")
	return errors.Join(err, db.Close())
}

// StandbyPair is a database whose commits wait for a standby.
type StandbyPair struct {
	Address string // of both servers; whichever takes writes is meant
	Standby string // of the one that is the standby at first

	t    testing.TB
	pair *dbtest.StandbyPair
}

// NewPair starts a PostgreSQL server and its standby until the end of the test. It skips the test
// where Postgres does.
func NewPair(t testing.TB) *StandbyPair {
	t.Helper()
	needPostgres(t)
	pair, err := dbtest.NewPair()
	if errors.Is(err, dbtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pair.Close() })
	p := &StandbyPair{t: t, pair: pair}
	if p.Address, err = pair.New(); err != nil {
		t.Fatal(err)
	}
	p.Standby = pair.Standby()
	return p
}

// HoldBack stops the standby's replication, or continues it.
func (p *StandbyPair) HoldBack(held bool) {
	p.t.Helper()
	statement := "SELECT pg_wal_replay_resume()"
	if held {
		statement = "SELECT pg_wal_replay_pause()"
	}
	p.do(func() error { return p.pair.ManageStandby(statement) })
}

// Lose kills the server that takes writes.
func (p *StandbyPair) Lose() { p.do(p.pair.Lose) }

// Promote puts the standby in its place.
func (p *StandbyPair) Promote() { p.do(p.pair.Promote) }

// Away stops the standby, so that no commit is confirmed. Back starts it again.
func (p *StandbyPair) Away() { p.do(p.pair.Away) }

// Back ends Away.
func (p *StandbyPair) Back() { p.do(p.pair.Back) }

func (p *StandbyPair) do(what func() error) {
	p.t.Helper()
	if err := what(); err != nil {
		p.t.Fatal(err)
	}
}

// OnlySQLite skips a test on another engine, for a reason that is printed.
func OnlySQLite(t testing.TB, why string) {
	t.Helper()
	if dbtest.OnPostgres() {
		t.Skip("on SQLite only: " + why)
	}
}

// New writes a ledger as state.Open makes it to path, and its key to path + ".key".
// All ledgers of a test binary have the same key.
func New(t testing.TB, path string) {
	t.Helper()
	f, err := fresh()
	if err := errors.Join(err, os.WriteFile(path, f.ledger, 0o600), os.WriteFile(path+".key", f.key, 0o600),
		dbtest.Copy(path)); err != nil {
		t.Fatalf("write a new ledger: %v", err)
	}
}
