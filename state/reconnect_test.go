package state

import (
	"context"
	"database/sql/driver"
	"errors"
	"os"
	"strings"
	"testing"
)

// breakOff ends the writer's connection, and the transaction with it, as a server that goes
// away does. The writing goroutine calls it.
func (d *desk) breakOff() {
	_, _ = d.conn.ExecContext(context.Background(), "ROLLBACK") // there may be none
	if err := d.conn.Raw(func(any) error { return driver.ErrBadConn }); !errors.Is(err, driver.ErrBadConn) {
		d.t.Errorf("the connection was not broken: %v", err)
	}
}

// goesOn looks whether the ledger takes writes as before, all of this many lines and no other.
func (d *desk) goesOn(lines int) {
	d.t.Helper()
	d.do(note("afterwards"))
	if got := entries(d.t, d.Ledger); got != lines+1 {
		d.t.Errorf("the log has %d lines, want %d", got, lines+1)
	}
	d.do(func(tx *Tx) error { return d.below.readied(context.Background(), tx.l.conn) })
	if err := d.Integrity(d.t.Context()); err != nil {
		d.t.Error(err)
	}
	if err := d.Close(); err != nil {
		d.t.Errorf("closing: %v", err)
	}
}

func TestAWriterWhoseConnectionEndsUnderABatchKeepsNothingOfItAndGoesOn(t *testing.T) {
	t.Parallel()
	for name, middle := range map[string]func(d *desk, tx *Tx) error{
		"and the write notices": func(d *desk, tx *Tx) error { d.breakOff(); return note("half")(tx) },
		"in a statement that is new": func(d *desk, tx *Tx) error {
			d.breakOff()
			return tx.exec("UPDATE ledger SET ticket = ticket + 1 -- new")
		},
		"and the write does not look": func(d *desk, tx *Tx) error { d.breakOff(); return nil },
		"and the write hides it":      func(d *desk, tx *Tx) error { d.breakOff(); _ = note("half")(tx); return nil },
		"and the write fails":         func(d *desk, tx *Tx) error { d.breakOff(); return errRefused },
		"and the write panics":        func(d *desk, tx *Tx) error { d.breakOff(); panic("of a test") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(note("before"))
			for i, err := range d.together(note("first"), func(tx *Tx) error { return middle(d, tx) }, note("last")) {
				if !errors.Is(err, ErrConnectionLost) || errors.Is(err, ErrOutcomeUnknown) || !Unwritable(err) {
					t.Errorf("write %d: %v", i, err)
				}
			}
			d.goesOn(1)
		})
	}
}

func TestAWriterWhoseConnectionEndsBetweenBatchesLosesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const batches = 3
	d.asked = func(done bool) error {
		if done {
			d.breakOff()
		}
		return nil
	}
	for range batches {
		d.do(note("kept"))
	}
	d.goesOn(batches)
}

// A commit whose answer is lost may have been made, or not. Only then nobody knows.
func TestOnlyACommitThatWasUnderWayHasAnOutcomeThatIsNotKnown(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a server is asked what became of it")
	for name, c := range map[string]struct {
		at      func(d *desk) error // the commit
		unknown bool
		kept    int
	}{
		"it was made and the answer is lost": {func(d *desk) error {
			if _, err := d.conn.ExecContext(context.Background(), "COMMIT"); err != nil {
				return err
			}
			d.breakOff()
			return driver.ErrBadConn
		}, true, 3},
		"it never arrived": {func(d *desk) error { d.breakOff(); return driver.ErrBadConn }, true, 1},
		"it was not begun": {func(d *desk) error { d.breakOff(); return nil }, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(note("before"))
			breaks := true
			d.asked = func(done bool) error {
				if done || !breaks {
					return nil
				}
				breaks = false
				return c.at(d)
			}
			err := d.Do(t.Context(), func(tx *Tx) error { return errors.Join(note("first")(tx), note("second")(tx)) })
			if errors.Is(err, ErrOutcomeUnknown) != c.unknown || errors.Is(err, ErrConnectionLost) == c.unknown ||
				Unwritable(err) == c.unknown {
				t.Errorf("the write: %v", err)
			}
			d.goesOn(c.kept)
		})
	}
}

// Another file now under the ledger's name is not opened in its place.
func TestAWriterThatConnectsAnewOpensNoOtherFile(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it moves the file")
	d := newDesk(t)
	other := newDesk(t)
	other.do(note("another ledger's"))
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	d.do(note("before"))
	err := d.Do(t.Context(), func(tx *Tx) error {
		lost := note("lost")(tx)
		d.breakOff()
		return errors.Join(lost, os.Rename(d.opts.Path, d.opts.Path+".away"), os.Rename(other.opts.Path, d.opts.Path))
	})
	if !errors.Is(err, ErrConnectionLost) {
		t.Errorf("the batch: %v", err)
	}
	for range 2 {
		if err := d.Do(t.Context(), note("afterwards")); !errors.Is(err, ErrMoved) ||
			!strings.Contains(err.Error(), "open the ledger") {
			t.Errorf("afterwards: %v", err)
		}
	}
	if err := errors.Join(os.Rename(d.opts.Path, other.opts.Path),
		os.Rename(d.opts.Path+".away", d.opts.Path)); err != nil {
		t.Fatal(err)
	}
	d.goesOn(1)
}
