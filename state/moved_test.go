package state

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// covers F103
func TestNothingIsDurableInALedgerThatIsNoLongerInItsPlace(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it moves the file")
	for name, take := range map[string]func(path string) error{
		"moved":         func(path string) error { return os.Rename(path, path+".away") },
		"deleted":       os.Remove,
		"log deleted":   func(path string) error { return os.Remove(path + "-wal") },
		"index deleted": func(path string) error { return os.Remove(path + "-shm") },
		"replaced by a copy": func(path string) error {
			return errors.Join(os.Rename(path, path+".away"), os.WriteFile(path, nil, 0o600))
		},
		"the whole folder moved": func(path string) error {
			return os.Rename(filepath.Dir(path),
				filepath.Dir(path)+".away")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.tickets(1)
			if err := take(d.opts.Path); err != nil {
				t.Fatal(err)
			}
			if err := d.Ping(t.Context()); !errors.Is(err, ErrMoved) {
				t.Errorf("got %v, want %v", err, ErrMoved)
			}
		})
	}
}

func TestALedgerThatIsPutWhereItWasTakesWritesAgain(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it moves the file")
	d := newDesk(t)
	away := d.opts.Path + ".away"
	if err := os.Rename(d.opts.Path, away); err != nil {
		t.Fatal(err)
	}
	moved := d.Ping(t.Context())
	if err := os.Rename(away, d.opts.Path); err != nil {
		t.Fatal(err)
	}
	if err := d.Ping(t.Context()); err != nil || !errors.Is(moved, ErrMoved) {
		t.Errorf("got %v away and %v back", moved, err)
	}
}

// covers F59
func TestPingNoticesAFullDisk(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it limits the pages of the file")
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=3m,mode=700"); err != nil {
		t.Skipf("this machine lets no test make a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	opts := Options{Path: filepath.Join(dir, "payersync.db"), KeyFile: filepath.Join(t.TempDir(), "payersync.key"),
		Now: newClock().now}
	if err := CreateKey(opts.KeyFile); err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	fill := filepath.Join(dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if err := l.Ping(t.Context()); err == nil {
		t.Error("a full disk is taken for one that can be written to")
	} else {
		t.Log(err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	before := one[int](t, l, "PRAGMA page_count")
	for range 3 {
		if err := l.Ping(t.Context()); err != nil {
			t.Errorf("after room was made: %v", err)
		}
	}
	if after := one[int](t, l, "PRAGMA page_count"); after != before {
		t.Errorf("the ledger grew from %d pages to %d", before, after)
	}
}
