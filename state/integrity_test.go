package state

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
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

func TestALedgerOpenedForOneLookIsCheckedOnlyIfSomebodyWaits(t *testing.T) {
	t.Parallel()
	for _, brief := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			checked := make(chan struct{}, 1)
			v := startIntegrityCheck(func(context.Context) error { checked <- struct{}{}; return nil }, func(context.Context) {},
				time.Time{}, time.Now, brief)
			time.Sleep(time.Hour) // of the bubble's own clock
			if (len(checked) == 0) != brief {
				t.Errorf("opened for one look: %t; checked after an hour: %d times", brief, len(checked))
			}
			v.asked()
			<-v.known
			if len(checked) != 1 || v.err != nil {
				t.Errorf("checked %d times, %v", len(checked), v.err)
			}
		})
	}
}

// covers F63
func TestADamagedLedgerIsReadAndNeverWrittenTo(t *testing.T) {
	t.Parallel()
	d := filled(t)
	damage(t, d.opts.Path)
	before, mark := readFile(t, d.opts.Path), readFile(t, d.opts.Path+generationEnding)
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
	if known, err := l.IntegrityKnown(); !known || err == nil {
		t.Errorf("the verdict is %v, %v", known, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readFile(t, d.opts.Path), before) || !bytes.Equal(readFile(t, d.opts.Path+generationEnding), mark) {
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
		"one whose mark is gone": func(t *testing.T, d *desk) { remove(t, d.opts.Path+generationEnding) },
		"one that takes a migration": func(t *testing.T,
			d *desk) {
			raw(t, d.opts.Path, "DELETE FROM goose_db_version WHERE version_id > 25")
		},
		"one that has no key yet": func(t *testing.T,
			d *desk) {
			raw(t, d.opts.Path, "UPDATE ledger SET key_check = NULL")
		},
		"one that has no log": func(t *testing.T, d *desk) { raw(t, d.opts.Path, "PRAGMA journal_mode = DELETE") },
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
	touch(t, d.opts.Path)
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
	if known, err := l.IntegrityKnown(); known || err != nil {
		t.Errorf("the verdict is %v, %v before the file was looked through", known, err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := l.Ping(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a write that has no time to wait ends with %v", err)
	}
	close(looked)
	if err := errors.Join(l.Ping(t.Context()), l.WaitForIntegrity(t.Context())); err != nil {
		t.Errorf("a write after the look ends with %v", err)
	}
}

func TestALedgerIsClosedWhileItsFileIsLookedThrough(t *testing.T) {
	t.Parallel()
	d := filled(t)
	touch(t, d.opts.Path)
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

// touch sets the times of a file as they are.
func touch(t testing.TB, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Chtimes(path, info.ModTime(), info.ModTime())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// covers F63
func TestALedgerThatNobodyTouchedSinceItWasClosedIsWrittenToAtOnce(t *testing.T) {
	t.Parallel()
	d := filled(t)
	d.opts.Look = func(ctx context.Context) { <-ctx.Done() } // it never ends
	for range 3 {                                            // each closes it whole for the next
		l := d.another()
		if known, err := l.IntegrityKnown(); !known || err != nil {
			t.Errorf("the verdict is %v, %v", known, err)
		}
		if err := errors.Join(l.Ping(t.Context()), l.WaitForIntegrity(t.Context()), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// covers F63
func TestALedgerThatMayNotBeAsItWasLeftIsLookedThroughFirst(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(t *testing.T, d *desk){
		"its times were set": func(t *testing.T, d *desk) { touch(t, d.opts.Path) },
		"a byte was written and its time set back": func(t *testing.T, d *desk) {
			info, err := os.Stat(d.opts.Path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(d.opts.Path, os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteAt([]byte{0xA5}, info.Size()-1)
				err = errors.Join(err, f.Close(), os.Chtimes(d.opts.Path, info.ModTime(), info.ModTime()))
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"a copy lies in its place": func(t *testing.T, d *desk) {
			data := readFile(t, d.opts.Path)
			if err := errors.Join(os.Rename(d.opts.Path, d.opts.Path+".old"),
				os.WriteFile(d.opts.Path, data, 0o600)); err != nil {
				t.Fatal(err)
			}
		},
		"a process died over it": func(t *testing.T, d *desk) {
			l := d.another()
			if err := l.Do(t.Context(), note("the last")); err != nil {
				t.Fatal(err)
			}
			log := readFile(t, d.opts.Path+"-wal")
			data := readFile(t, d.opts.Path)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.WriteFile(d.opts.Path, data, 0o600),
				os.WriteFile(d.opts.Path+"-wal", log, 0o600)); err != nil {
				t.Fatal(err)
			}
		},
		"a day has passed":       func(_ *testing.T, d *desk) { d.clock.move(lookedLasts + time.Second) },
		"the clock was set back": func(_ *testing.T, d *desk) { d.clock.move(-time.Hour) },
		"the note is gone":       func(t *testing.T, d *desk) { remove(t, d.opts.Path+lookedEnding) },
		"the note says nothing": func(t *testing.T, d *desk) {
			if err := os.WriteFile(d.opts.Path+lookedEnding, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"another process has it open": func(t *testing.T, d *desk) {
			if err := d.another().Do(t.Context(), note("beside")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := filled(t)
			d.t = t
			change(t, d)
			d.opts.Look = func(ctx context.Context) { <-ctx.Done() }
			l := d.another()
			if known, err := l.IntegrityKnown(); known || err != nil {
				t.Errorf("the verdict is %v, %v before the file was looked through", known, err)
			}
		})
	}
}

// What a look finds beside the writes ends them, and the next start looks first.
//
// covers F63
func TestDamageThatIsFoundBesideTheFirstWritesEndsThem(t *testing.T) {
	t.Parallel()
	d := filled(t)
	spoilt := make(chan struct{})
	d.opts.Look = func(context.Context) {
		<-spoilt
		damage(t, d.opts.Path)
	}
	l := d.another()
	if err := l.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(spoilt)
	<-l.sound.known
	var refusal *OpenError
	if err := l.Ping(t.Context()); !errors.As(err, &refusal) {
		t.Errorf("a write after damage was found ends with %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.opts.Path + lookedEnding); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ledger is noted for sound: %v", err)
	}
}
