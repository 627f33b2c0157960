package state

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/connector"
	"payersync/state/internal/dbtest"
)

// The connection and the mapping version that tests use.
const (
	acme    = "acme"
	mapping = "m1"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// desk is a ledger in a folder of its own.
type desk struct {
	*Ledger
	t     testing.TB
	clock *clock
	opts  Options
	met   map[int64]*connector.IDs // by each run, of its source

	holdsLog *sql.Conn // see logSize
}

// fresh is a ledger that holds nothing yet, and its key. A copy is made sooner
// than a new one; statetest does the same for other packages.
var fresh = sync.OnceValues(func() (files [2][]byte, err error) {
	dir, err := os.MkdirTemp("", "payersync-state-")
	if err != nil {
		return files, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	opts := Options{Path: filepath.Join(dir, "payersync.db"), KeyFile: filepath.Join(dir, "payersync.key")}
	if err := CreateKey(opts.KeyFile); err != nil {
		return files, err
	}
	l, err := Open(context.Background(), opts)
	if err != nil {
		return files, err
	}
	if err := errors.Join(l.Close(), dbtest.Template(opts.Path)); err != nil {
		return files, err
	}
	for i, path := range []string{opts.Path, opts.KeyFile} {
		if files[i], err = os.ReadFile(path); err != nil && !(dbtest.OnPostgres() && path == opts.Path) {
			return files, err
		}
	}
	return files, nil
})

// newDesk writes a new ledger with its key, opens it, and closes it when the test
// ends.
func newDesk(t testing.TB) *desk {
	t.Helper()
	c, dir := newClock(), t.TempDir()
	d := &desk{t: t, clock: c,
		opts: Options{Path: filepath.Join(dir, "payersync.db"), KeyFile: filepath.Join(dir, "payersync.key"), Now: c.now}}
	files, err := fresh()
	if err := errors.Join(err, os.WriteFile(d.opts.Path, files[0], 0o600), os.WriteFile(d.opts.KeyFile, files[1], 0o600),
		dbtest.Copy(d.opts.Path)); err != nil {
		t.Fatal(err)
	}
	d.Ledger = d.another()
	return d
}

func newOptions(t testing.TB, c *clock) Options {
	t.Helper()
	dir := t.TempDir()
	opts := Options{Path: filepath.Join(dir, "payersync.db"), KeyFile: filepath.Join(dir, "payersync.key"), Now: c.now}
	if err := CreateKey(opts.KeyFile); err != nil {
		t.Fatal(err)
	}
	return opts
}

// another opens the same file once more.
func (d *desk) another() *Ledger {
	d.t.Helper()
	l, err := Open(d.t.Context(), d.opts)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			d.t.Errorf("close the ledger: %v", err)
		}
	})
	return l
}

// do runs a write that must succeed.
func (d *desk) do(fn func(*Tx) error) {
	d.t.Helper()
	if err := d.Do(context.Background(), fn); err != nil {
		d.t.Fatal(err)
	}
}

// pin makes a connection and the mapping version that runs refer to.
func (d *desk) pin(connection string) {
	d.t.Helper()
	d.do(func(tx *Tx) error {
		if err := tx.SaveMapping(mapping, "version: 1", "tester"); err != nil {
			return err
		}
		return tx.PinConnection(Connection{Name: connection, Info: connector.SourceInfo{Kind: "csv", Tenant: "t1"}})
	})
}

// run opens a run of a connection.
func (d *desk) run(connection string) (id int64) {
	d.t.Helper()
	d.pin(connection)
	d.do(func(tx *Tx) (err error) {
		id, err = tx.OpenRun(NewRun{Connection: connection, Kind: connector.RunSync, Trigger: "manual", Mapping: mapping,
			Holder: "test"})
		return err
	})
	return id
}

// closeRun closes a run of acme and returns its counts. They are the same where the run also met so many ids that it
// reads all records.
func (d *desk) closeRun(run int64, outcome connector.RunOutcome) (c Counts, got connector.RunOutcome) {
	d.t.Helper()
	met := d.metBy(run)
	d.do(func(tx *Tx) (err error) {
		few, again, err := tx.countRun(run, acme, met)
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			if _, small := met.Few(); !small {
				break
			}
			met.Add(fmt.Sprint("met, and not in the ledger: ", i))
		}
		many, againOfMany, err := tx.countRun(run, acme, met)
		if few != many || again != againOfMany {
			d.t.Errorf("few records count %+v, %v; among many the same count %+v, %v", few, again, many, againOfMany)
		}
		return err
	})
	d.do(func(tx *Tx) (err error) {
		c, got, err = tx.CloseRun(run, acme, outcome, "", met)
		return err
	})
	return c, got
}

// one reads a single value with plain SQL.
func one[T any](t testing.TB, l *Ledger, query string, args ...any) (v T) {
	t.Helper()
	onlyIfPortable(t, query)
	if err := l.reader.QueryRowContext(context.Background(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// onlyOnSQLite skips a test on another engine, which has no files, settings and names of SQLite.
func onlyOnSQLite(t testing.TB, why string) {
	t.Helper()
	if dbtest.OnPostgres() {
		t.Skipf("on SQLite only: %s", why)
	}
}

// ofSQLite are words by which a statement of a test speaks of SQLite itself.
var ofSQLite = regexp.MustCompile(`(?i)pragma|sqlite_|rowid|hex\(|group_concat\(|char\(0\)|zeroblob|randomblob|ADD COLUMN|DROP COLUMN|GLOB|VACUUM|IMMEDIATE`)

// onlyIfPortable skips a test on another engine when its statement speaks of SQLite itself.
func onlyIfPortable(t testing.TB, statement string) {
	t.Helper()
	if word := ofSQLite.FindString(statement); word != "" {
		onlyOnSQLite(t, "the test's own statement says "+word)
	}
}

// rawDB opens a ledger's database behind its back.
func rawDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	if dbtest.OnPostgres() {
		dsn, err := dbtest.DSN(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := OpenServer(t.Context(), ServerOptions{Address: dsn, Connections: 2})
		if err != nil {
			t.Fatal(err)
		}
		account, err := s.ensure(t.Context(), testAccount)
		if err != nil {
			t.Fatal(err)
		}
		db := ofAccount(s.write, account, 1)
		t.Cleanup(func() { _ = db.Close(); s.Close() })
		return db
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// raw runs statements behind the ledger's back.
func raw(t testing.TB, path string, statements ...string) {
	t.Helper()
	for _, s := range statements {
		onlyIfPortable(t, s)
	}
	db := rawDB(t, path)
	for _, s := range statements {
		if _, err := db.ExecContext(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// refused opens a ledger that must be refused and returns why.
func refused(t *testing.T, opts Options, wants ...string) {
	t.Helper()
	l, err := Open(t.Context(), opts)
	if err == nil {
		if err = l.Ping(t.Context()); err == nil {
			t.Error("the ledger was opened, and written to")
		}
		_ = l.Close()
	}
	var refusal *OpenError
	if !errors.As(err, &refusal) {
		t.Fatalf("got %T %v, want an OpenError", err, err)
	}
	if refusal.Why == "" || refusal.Next == "" {
		t.Errorf("the refusal %q lacks a reason or a next step", err)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal %q does not say %q", err, want)
		}
	}
}

func TestCreateKeyNeverReplacesAKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payersync.key")
	if err := CreateKey(path); err != nil {
		t.Fatal(err)
	}
	before := readFile(t, path)
	if err := CreateKey(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want %v", err, fs.ErrExist)
	}
	if !bytes.Equal(before, readFile(t, path)) {
		t.Error("the key was replaced")
	}
	if strings.Contains(fmt.Sprint(CreateKey(path)), string(before)) {
		t.Error("the error shows the key")
	}
}

func TestEveryConnectionHasTheSafeSettings(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it speaks of PRAGMA")
	d := newDesk(t)
	common := map[string]string{"journal_mode": "wal", "foreign_keys": "1", "trusted_schema": "0", "busy_timeout": "10000",
		"synchronous": "2", "temp_store": "2"}
	checkReaders(t, d.Ledger, common)
	common["secure_delete"], common["busy_timeout"] = "1", "0" // who waits for the lock is begin
	d.do(func(tx *Tx) error {
		for pragma, want := range common {
			var got string
			if err := tx.row([]any{&got}, "PRAGMA "+pragma); err != nil || got != want {
				t.Errorf("writer: %s is %q, want %q (%v)", pragma, got, want, err)
			}
		}
		return nil
	})
	if got := one[int](t, d.Ledger, "PRAGMA application_id"); got != applicationID {
		t.Errorf("the application id is %d, want %d", got, applicationID)
	}
}

// checkReaders holds the whole pool of readers at once.
func checkReaders(t *testing.T, l *Ledger, settings map[string]string) {
	t.Helper()
	for i := range 4 {
		conn, err := l.reader.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		for pragma, want := range settings {
			var got string
			if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("reader %d: %s is %q, want %q (%v)", i, pragma, got, want, err)
			}
		}
		if _, err := conn.ExecContext(t.Context(), "UPDATE ledger SET ticket = 9"); err == nil {
			t.Errorf("reader %d can write", i)
		}
	}
}

func TestSQLiteIsPastTheCorruptionFix(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it asks for the version of SQLite")
	d := newDesk(t)
	if got := one[string](t, d.Ledger, "SELECT sqlite_version()"); olderVersion(got, minSQLite) {
		t.Errorf("SQLite %s is older than %s", got, minSQLite)
	}
	driver := regexp.MustCompile(`modernc\.org/sqlite v(\S+)`).FindSubmatch(readFile(t, "../go.mod"))
	if driver == nil || olderVersion(string(driver[1]), "1.60.1") {
		t.Errorf("go.mod names the driver as %q, want v1.60.1 or newer", driver)
	}
}

func TestOlderVersion(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want bool
	}{
		{"3.51.2", "3.51.3", true}, {"3.51.3", "3.51.3", false}, {"3.51.10", "3.51.3", false}, {"3.53.4", "3.51.3", false},
		{"3.9.0", "3.51.3", true}, {"4.0.0", "3.51.3", false}, {"3.52", "3.51.3", false}, {"", "3.51.3", true},
		{"garbage", "3.51.3", true},
	}
	for _, tt := range tests {
		if got := olderVersion(tt.a, tt.b); got != tt.want {
			t.Errorf("olderVersion(%q, %q) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	if name := filepath.Base(path); strings.Contains(name, ".db") && !strings.Contains(name, tombstonesEnding) {
		onlyOnSQLite(t, "it reads the ledger's own file "+name)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func chmod(t testing.TB, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func writeKey(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
