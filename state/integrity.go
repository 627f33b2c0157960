package state

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Checking a large file takes seconds, and read-only commands should not wait for it. So the file
// is checked beside the first reads, on a connection of its own, and writes wait. A damaged ledger
// is never written, and no request leaves without being recorded in it. A reader meets damage where
// it reads it, as SQLite does. Whether a file need not be waited for is decided in integrity_note.go.

// integrityCheckDelay is the delay before the check starts without a waiting caller. Short read commands are
// done by then, and need the disk for themselves.
const integrityCheckDelay = 250 * time.Millisecond

// integrityCheck is the result of a check of the whole file.
type integrityCheck struct {
	known  chan struct{} // closed when it is known
	err    error         // why the file is not written to; to be read once it is known
	at     time.Time     // when it was known
	asked  func()        // somebody waits for it
	giveUp func()        // ends the look, and waits for that

	last    time.Time   // when the present file was last found sound; zero if unknown
	damaged atomic.Bool // SQLite has met damage: last counts no more
}

// startIntegrityCheck starts the check of the file, after before has returned. Nobody waits if the file is
// unchanged since it was last found sound. With onlyAsked it starts when somebody waits for it.
func startIntegrityCheck(look func(context.Context) error, before func(context.Context), last time.Time,
	now func() time.Time, onlyAsked bool) *integrityCheck {
	ctx, cancel := context.WithCancel(context.Background())
	begin := make(chan struct{})
	v := &integrityCheck{known: make(chan struct{}), asked: sync.OnceFunc(func() { close(begin) }), last: last}
	v.giveUp = sync.OnceFunc(func() { cancel(); <-v.known })
	var unasked <-chan time.Time
	if !onlyAsked {
		unasked = time.After(integrityCheckDelay)
	}
	go func() {
		defer close(v.known)
		select {
		case <-begin:
		case <-unasked:
		case <-ctx.Done():
		}
		before(ctx)
		if v.err = look(ctx); ctx.Err() != nil {
			v.err = ErrClosed
		}
		v.at = now()
	}()
	return v
}

// trusted reports whether the file may be written before its check has ended.
func (v *integrityCheck) trusted() bool { return !v.last.IsZero() && !v.damaged.Load() }

// noteDamage returns err. Damage reported by SQLite invalidates all earlier findings.
func (v *integrityCheck) noteDamage(err error) error {
	if v != nil && troubleOf(err) == corrupt {
		v.damaged.Store(true)
	}
	return err
}

// foundIntact returns when the file was last found sound, after the check has ended or was
// cancelled; zero if it was not, or after later damage.
func (v *integrityCheck) foundIntact() time.Time {
	switch {
	case v.damaged.Load():
		return time.Time{}
	case v.err == nil:
		return v.at
	case errors.Is(v.err, ErrClosed):
		return v.last
	}
	return time.Time{}
}

// WaitForIntegrity waits until the whole file was checked since opening, unless a process that had checked it closed it
// cleanly. It returns nil if the file is sound, or else the *OpenError of every write. Callers check this
// before they send requests based on the ledger.
func (l *Ledger) WaitForIntegrity(ctx context.Context) error {
	select {
	case <-l.sound.known:
		return l.sound.err
	default:
	}
	if l.sound.trusted() {
		return nil
	}
	return l.WaitForFullCheck(ctx)
}

// WaitForFullCheck waits until the check of the whole file has ended, even if no caller needs it, and returns
// the result.
func (l *Ledger) WaitForFullCheck(ctx context.Context) error {
	l.sound.asked()
	select {
	case <-l.sound.known:
		return l.sound.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// IntegrityKnown is WaitForIntegrity without waiting: known is false while writes wait for the check of the file.
func (l *Ledger) IntegrityKnown() (known bool, err error) {
	select {
	case <-l.sound.known:
		return true, l.sound.err
	default:
		return l.sound.trusted(), nil
	}
}

// ofDamage returns err, or the check's finding if SQLite met damage.
func (l *Ledger) ofDamage(ctx context.Context, err error) error {
	if troubleOf(l.sound.noteDamage(err)) != corrupt || l.sound == nil {
		return err
	}
	if found := l.WaitForIntegrity(ctx); found != nil {
		return found
	}
	return damaged(l.path, err.Error())
}
