package state

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// damage makes one page of a ledger a page of nothing. The first pages, which tell what
// tables there are, stay as they were.
func damage(t *testing.T, path string) {
	t.Helper()
	onlyOnSQLite(t, "it damages the file")
	const page = 4096
	data := readFile(t, path)
	last := len(data)/page - 1
	copy(data[last*page:], bytes.Repeat([]byte{0xA5}, page))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// filled is a ledger with something in every table, closed again.
func filled(t *testing.T) *desk {
	t.Helper()
	onlyOnSQLite(t, "it looks through the file")
	d := newDesk(t)
	d.fill(8)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// covers F63
func TestADamagedLedgerIsReadAndNeverWrittenTo(t *testing.T) {
	t.Parallel()
	d := filled(t)
	damage(t, d.opts.Path)
	before, mark := readFile(t, d.opts.Path), readFile(t, d.opts.Path+markEnding)
	l, err := Open(t.Context(), d.opts)
	if err != nil {
		t.Fatalf("it is not opened for reading: %v", err)
	}
	if _, err := l.Account(t.Context()); err != nil {
		t.Errorf("what is whole is not read: %v", err)
	}
	for range 3 {
		var refusal *OpenError
		err := l.Do(t.Context(), func(*Tx) error { t.Error("a write was begun"); return nil })
		if !errors.As(err, &refusal) {
			t.Errorf("a write ends with %v, want an OpenError", err)
		}
	}
	if known, err := l.Verdict(); !known || err == nil {
		t.Errorf("the verdict is %v, %v", known, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readFile(t, d.opts.Path), before) || !bytes.Equal(readFile(t, d.opts.Path+markEnding), mark) {
		t.Error("its files were changed")
	}
}

// What Open itself has to write waits as every write does.
//
// covers F63, F70
func TestADamagedLedgerIsNeitherMigratedNorMarked(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(t *testing.T, d *desk){
		"a copy that was put back": func(_ *testing.T, d *desk) {
			old := readFile(d.t, d.opts.Path)
			d.Ledger = d.another()
			d.tickets(1)
			if err := d.Close(); err != nil {
				d.t.Fatal(err)
			}
			d.putBack(old)
		},
		"one whose mark is gone":     func(t *testing.T, d *desk) { remove(t, d.opts.Path+markEnding) },
		"one that takes a migration": func(t *testing.T, d *desk) { raw(t, d.opts.Path, "DELETE FROM goose_db_version WHERE version_id > 25") },
		"one that has no key yet":    func(t *testing.T, d *desk) { raw(t, d.opts.Path, "UPDATE ledger SET key_check = NULL") },
		"one that has no log":        func(t *testing.T, d *desk) { raw(t, d.opts.Path, "PRAGMA journal_mode = DELETE") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := filled(t)
			d.t = t
			spoil(t, d)
			damage(t, d.opts.Path)
			before := readFile(t, d.opts.Path)
			var refusal *OpenError
			if l, err := Open(t.Context(), d.opts); !errors.As(err, &refusal) {
				if err == nil {
					_ = l.Close()
				}
				t.Errorf("it is opened with %v, want an OpenError", err)
			}
			if !bytes.Equal(readFile(t, d.opts.Path), before) {
				t.Error("the file was changed")
			}
		})
	}
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// Whoever only reads is not kept waiting, and whoever writes waits within its time.
//
// covers F63
func TestReadingWaitsForNoLookThroughTheFile(t *testing.T) {
	t.Parallel()
	d := filled(t)
	looked := make(chan struct{})
	d.opts.Look = func(ctx context.Context) {
		select {
		case <-looked:
		case <-ctx.Done():
		}
	}
	l := d.another()
	if _, err := l.Funnel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if known, err := l.Verdict(); known || err != nil {
		t.Errorf("the verdict is %v, %v before the file was looked through", known, err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := l.Ping(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a write that has no time to wait ends with %v", err)
	}
	close(looked)
	if err := errors.Join(l.Ping(t.Context()), l.Sound(t.Context())); err != nil {
		t.Errorf("a write after the look ends with %v", err)
	}
}

func TestALedgerIsClosedWhileItsFileIsLookedThrough(t *testing.T) {
	t.Parallel()
	d := filled(t)
	d.opts.Look = func(ctx context.Context) { <-ctx.Done() }
	l := d.another()
	waits := make(chan error)
	go func() { waits <- l.Ping(context.Background()) }()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; !errors.Is(err, ErrClosed) {
		t.Errorf("the write that waited ends with %v", err)
	}
}
