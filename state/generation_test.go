package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"payersync/connector"
)

// used is a ledger with a connection and a few commits, closed again, and a copy of
// its file as it was before the last of them.
func used(t *testing.T) (d *desk, old []byte) {
	t.Helper()
	onlyOnSQLite(t, "a mark is beside a file")
	d = newDesk(t)
	d.pin(acme)
	d.tickets(3)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	old = readFile(t, d.opts.Path)
	d.Ledger = d.another()
	d.tickets(1)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return d, old
}

func (d *desk) tickets(n int) {
	d.t.Helper()
	for range n {
		d.do(func(tx *Tx) error { _, err := tx.Ticket(); return err })
	}
}

// putBack replaces the ledger's file as cp does.
func (d *desk) putBack(old []byte) {
	d.t.Helper()
	if err := os.WriteFile(d.opts.Path, old, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// opens opens the ledger and fails unless its mark tells this.
func (d *desk) opens(want GenerationFinding) *Ledger {
	d.t.Helper()
	l := d.another()
	if l.FoundGeneration() != want {
		d.t.Errorf("the mark told %q, want %q", l.FoundGeneration(), want)
	}
	return l
}

func (d *desk) restored() bool {
	d.t.Helper()
	x, err := d.Index(d.t.Context(), 0)
	at, putErr := d.RestoredAt(d.t.Context())
	if err := errors.Join(err, putErr); err != nil || !at.Equal(x.Restored) {
		d.t.Fatalf("restored at %v, put back at %v (%v)", x.Restored, at, err)
	}
	return !at.IsZero()
}

// covers F103
func TestALedgerThatWasPutBackIsNoticedWithoutBeingTold(t *testing.T) {
	t.Parallel()
	d, old := used(t)
	d.putBack(old)
	d.Ledger = d.opens(FoundOlder)
	if !d.restored() {
		t.Error("it does not count as restored")
	}
	d.tickets(1)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d.opens(FoundInStep)
}

// covers F103
func TestALedgerThatDiesBetweenCommitAndMarkIsNotTakenForACopy(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a mark is beside a file")
	d := newDesk(t)
	d.pin(acme)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	opts := d.opts
	opts.Commit = func(done bool) error {
		if done {
			return errors.New("killed")
		}
		return nil
	}
	killed, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := killed.Ping(t.Context()); err == nil {
			t.Fatal("the kill did not happen")
		}
	}
	if err := killed.Close(); err != nil {
		t.Fatal(err)
	}
	d.Ledger = d.opens(FoundInStep)
	if d.restored() {
		t.Error("it counts as restored")
	}
}

// covers F103
func TestWhatAMarkCannotTellIsSaidAndRaisesNoAlarm(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a mark is beside a file")
	other := newDesk(t)
	tests := []struct {
		name string
		spot func(d *desk, mark string) error
		want GenerationFinding
	}{
		{"no mark", func(_ *desk, mark string) error { return os.Remove(mark) }, FoundNoMark},
		{"a mark of nothing", func(_ *desk, mark string) error { return os.WriteFile(mark, nil, 0o600) }, FoundNoMark},
		{"a torn mark", func(_ *desk, mark string) error { return os.Truncate(mark, 40) }, FoundNoMark},
		{"a mark with something behind it", func(_ *desk, mark string) error {
			return os.WriteFile(mark, append(readFile(t, mark), make([]byte, 4096)...), 0o600)
		}, FoundNoMark},
		{"another ledger's mark", func(_ *desk, mark string) error {
			return os.WriteFile(mark,
				[]byte(`payersync ledger `+"ABCDEFGHIJKLMNOPQRSTUVWXYZ"+` commits 00000000000000000999`+"\n"), 0o600)
		}, FoundForeign},
		{"a ledger alone in another folder", func(d *desk, _ string) error {
			from := d.opts.Path
			d.opts.Path = filepath.Join(filepath.Dir(other.opts.Path), "moved.db")
			return os.Rename(from, d.opts.Path)
		}, FoundNoMark},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, old := used(t)
			if err := tt.spot(d, d.opts.Path+generationEnding); err != nil {
				t.Fatal(err)
			}
			d.Ledger = d.opens(tt.want)
			if d.restored() {
				t.Error("it counts as restored")
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d.opens(FoundInStep)
			d.putBack(old)
			d.opens(FoundOlder)
		})
	}
}

// A copy that was made before ledgers were numbered has no identity.
//
// covers F103
func TestACopyFromBeforeLedgersWereNumberedIsNoticed(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a mark is beside a file")
	d, _ := used(t)
	raw(t, d.opts.Path, "UPDATE ledger SET identity = '', commits = 0")
	d.opens(FoundOlder)

	fresh := newDesk(t)
	if err := fresh.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, fresh.opts.Path, "UPDATE ledger SET identity = '', commits = 0")
	fresh.opens(FoundForeign) // a new ledger beside the mark of one that was removed
}

// covers F103
func TestTwoLedgersInOneFolderHaveAMarkEach(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a mark is beside a file")
	d, old := used(t)
	second := d.opts
	second.Path = filepath.Join(filepath.Dir(d.opts.Path), "second.db")
	l, err := Open(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Ping(t.Context()), l.Close()); err != nil || l.FoundGeneration() != FoundInStep {
		t.Fatalf("the second ledger: %q, %v", l.FoundGeneration(), err)
	}
	d.putBack(old)
	d.opens(FoundOlder)
}

func TestTheMarkOnlyGrowsWhenManyProcessesWrite(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a mark is beside a file")
	d := newDesk(t)
	var group sync.WaitGroup
	for _, l := range []*Ledger{d.Ledger, d.another(), d.another()} {
		for range 4 {
			group.Go(func() {
				for range 25 {
					if err := l.Ping(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
	said, known, err := d.readGeneration()
	if got := one[int64](t, d.Ledger, "SELECT commits FROM ledger"); err != nil || !known || said.commits != got ||
		said.ledger != d.identity {
		t.Errorf("the mark says %+v (%v, %v), the ledger has made %d commits", said, known, err, got)
	}
}

// covers F103
func TestALedgerThatIsPutBackUnderAProcessTakesNoMoreWrites(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a mark is beside a file")
	d := newDesk(t)
	d.pin(acme)
	if err := os.WriteFile(d.opts.Path+generationEnding, []byte(generation{d.identity, 999}.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	before := one[int](t, d.Ledger, "SELECT count(*) FROM connections")
	err := d.Do(t.Context(), func(tx *Tx) error {
		return tx.PinConnection(Connection{Name: "late", Info: connector.SourceInfo{Kind: "csv"}})
	})
	if !errors.Is(err, errPutBack) || one[int](t, d.Ledger, "SELECT count(*) FROM connections") != before {
		t.Errorf("got %v, want %v and nothing kept", err, errPutBack)
	}
}

// covers F103, F112
func TestAMarkThatOthersMayWriteIsRefused(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a mark is beside a file")
	d := newDesk(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.opts.Path+".mark", 0o666); err != nil {
		t.Fatal(err)
	}
	var refused *OpenError
	if l, err := Open(t.Context(), d.opts); !errors.As(err, &refused) || !strings.Contains(refused.Next, "chmod 600") {
		t.Errorf("opened %v, %v; want it refused with what to do", l, err)
	}
}

// covers F112
func TestALinkBesideANewLedgerIsNeverWrittenThrough(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it plants a file of SQLite")
	d := newDesk(t)
	folder := t.TempDir()
	precious := filepath.Join(folder, "precious")
	if err := os.WriteFile(precious, []byte("keep me"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := d.opts
	opts.Path = filepath.Join(folder, "payersync.db")
	if err := os.Link(precious, opts.Path+"-shm"); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(t.Context(), opts); err == nil {
		t.Errorf("a new ledger was opened beside a planted link: %v", l.Close())
	}
	if got, err := os.ReadFile(precious); err != nil || string(got) != "keep me" {
		t.Errorf("the file behind the link holds %q, %v", got, err)
	}
}
