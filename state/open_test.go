package state

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"payersync/state/files"
)

func TestOpenRefusesADatabaseOfAnotherProgramAndLeavesItAlone(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it opens a file")
	opts := newOptions(t, newClock())
	raw(t, opts.Path, "CREATE TABLE theirs (id INTEGER PRIMARY KEY)", "INSERT INTO theirs VALUES (1)")
	if err := os.Chmod(opts.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	before := readFile(t, opts.Path)
	refused(t, opts, "another program", "ledger.path")
	if !bytes.Equal(before, readFile(t, opts.Path)) {
		t.Error("the other program's database was written to")
	}
}

// covers F69
func TestOpenRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it writes to the table of migrations as SQLite has it")
	d := newDesk(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, d.opts.Path, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9000, 1)")
	refused(t, d.opts, "version 9000", "newer")
}

func TestOpenRefusesAFileThatIsNoDatabase(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it opens a file")
	opts := newOptions(t, newClock())
	text := []byte(strings.Repeat("AccountNumber,Name\n1,Northwind\n", 400))
	if err := os.WriteFile(opts.Path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, opts, "not a ledger", "backup")
	if !bytes.Equal(text, readFile(t, opts.Path)) {
		t.Error("the file was written to")
	}
}

// An interruption must not read like damage: nobody shall restore a backup for it.
//
// covers F63, F67
func TestOpenThatIsInterruptedDoesNotCallTheLedgerDamaged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l, err := Open(ctx, d.opts)
	if err == nil {
		t.Fatal(l.Close())
	}
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "damaged") {
		t.Errorf("an interrupted start says %q", err)
	}
}

// covers F63
func TestOpenTellsAFileThatItMayNotWriteFromADamagedOne(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere; run this test as another user")
	}
	for name, forbid := range map[string]func(t *testing.T, path string){
		"the file":   func(t *testing.T, path string) { chmod(t, path, 0o400) },
		"the folder": func(t *testing.T, path string) { chmod(t, filepath.Dir(path), 0o500) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			forbid(t, d.opts.Path)
			t.Cleanup(func() { chmod(t, filepath.Dir(d.opts.Path), 0o700) })
			refused(t, d.opts, "may not write", "the user that payersync runs as")
		})
	}
}

func TestOpenRefusesUnsafePaths(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it opens a file")
	tests := []struct {
		name    string
		prepare func(t *testing.T, opts *Options)
		want    string
	}{
		{"ledger readable by others", func(t *testing.T, o *Options) { chmod(t, o.Path, 0o640) }, "chmod 600"},
		{"key readable by others", func(t *testing.T, o *Options) { chmod(t, o.KeyFile, 0o604) }, "chmod 600"},
		{"no key file", func(t *testing.T, o *Options) { o.KeyFile += ".gone" }, "make one in a new folder"},
		{"short key", func(t *testing.T, o *Options) {
			writeKey(t, o.KeyFile, base64.StdEncoding.EncodeToString(make([]byte, keyBytes-1)))
		}, "does not hold a key"},
		{"key of garbage", func(t *testing.T, o *Options) { writeKey(t, o.KeyFile, "not base64 at all!") },
			"does not hold a key"},
		{"empty key", func(t *testing.T, o *Options) { writeKey(t, o.KeyFile, "") }, "does not hold a key"},
		{"another ledger's key", func(t *testing.T, o *Options) {
			o.KeyFile += ".other"
			if err := CreateKey(o.KeyFile); err != nil {
				t.Fatal(err)
			}
		}, "another key"},
		{"no such folder", func(_ *testing.T, o *Options) { o.Path = filepath.Join(o.Path+".d", "payersync.db") },
			"folder exists"},
		{"ledger is a folder", func(t *testing.T, o *Options) { o.Path = filepath.Dir(o.Path) }, "not a regular file"},
		{"ledger is a symbolic link", func(t *testing.T, o *Options) {
			link := o.Path + ".link"
			if err := os.Symlink(o.Path, link); err != nil {
				t.Fatal(err)
			}
			o.Path = link
		}, "not a regular file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			opts := d.opts
			tt.prepare(t, &opts)
			refused(t, opts, tt.want)
		})
	}
}

// makingIt is another process that creates the ledger: it holds the new file, still without a log, until it
// is closed.
func makingIt(t *testing.T, path string) *sql.DB {
	t.Helper()
	folder, err := files.OpenFolder(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(prepareFile(folder, filepath.Base(path)), folder.Close()); err != nil {
		t.Fatal(err)
	}
	db := rawDB(t, path)
	if _, err := db.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return db
}

// covers F61
func TestOpenWaitsForTheProcessThatMakesTheSameLedger(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it takes the lock of the file")
	opts := newOptions(t, newClock())
	synctest.Test(t, func(t *testing.T) {
		other := makingIt(t, opts.Path)
		var waited atomic.Bool
		time.AfterFunc(BusyTimeout/2, func() {
			waited.Store(true)
			if err := other.Close(); err != nil {
				t.Error(err)
			}
		})
		l, err := Open(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil || !waited.Load() {
			t.Errorf("closed with %v; waited %v", err, waited.Load())
		}
	})
}

// covers F61
func TestOpenGivesUpOnAProcessThatNeverLetsGo(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it takes the lock of the file")
	opts := newOptions(t, newClock())
	synctest.Test(t, func(t *testing.T) {
		other := makingIt(t, opts.Path)
		refused(t, opts, "database is locked", "Look whether another program holds it")
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestManyMayOpenANewLedgerAtOnce(t *testing.T) {
	t.Parallel()
	opts := newOptions(t, newClock())
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() {
			l, err := Open(t.Context(), opts)
			if err == nil {
				err = errors.Join(l.Ping(t.Context()), l.Close())
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// A process that dies between the first touch of a new file and the first
// migration leaves a ledger that opens.
//
// covers F70
func TestOpenResumesAfterAnInterruptedFirstStart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		leave func(t *testing.T, opts Options)
	}{
		{"empty file", func(t *testing.T, o Options) {
			if err := os.WriteFile(o.Path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"marked and without tables", func(t *testing.T, o Options) {
			raw(t, o.Path, fmt.Sprintf("PRAGMA application_id = %d", applicationID))
		}},
		{"marked and without our tables", func(t *testing.T, o Options) {
			raw(t, o.Path, fmt.Sprintf("PRAGMA application_id = %d", applicationID),
				"CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL, is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')))",
				"INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1)")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opts := newOptions(t, newClock())
			tt.leave(t, opts)
			chmod(t, opts.Path, 0o600)
			l, err := Open(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(l.Integrity(t.Context()), l.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReopenedLedgerHoldsWhatWasWritten(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(func(tx *Tx) error { _, err := tx.Ticket(); return err })
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again := d.another()
	got, err := again.Ticket(t.Context())
	if err != nil || got != 2 {
		t.Errorf("ticket %d, %v; want 2", got, err)
	}
}
