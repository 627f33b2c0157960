package state

import (
	"context"
	"sync"
	"time"
)

// To look through a large file takes seconds, and whoever only wants to see something
// should not wait for that. So the file is looked through beside the first reads, on a
// connection of its own, and what writes waits: a damaged ledger is not written to, and
// so nothing that a ledger must know of leaves for the service. A reader meets damage
// where it reads it, as SQLite does.

// lookAfter is when the file is looked through although nobody waits for it yet: whoever
// shows something and ends has it done by then, and needs the disk for itself.
const lookAfter = 250 * time.Millisecond

// verdict is what a look through the whole file came to.
type verdict struct {
	known  chan struct{} // closed when it is known
	err    error         // why the file is not written to; to be read once it is known
	asked  func()        // somebody waits for it
	giveUp func()        // ends the look, and waits for that
}

// lookThrough begins to look through the file, after before has returned.
func lookThrough(look func(context.Context) error, before func(context.Context)) *verdict {
	ctx, cancel := context.WithCancel(context.Background())
	begin := make(chan struct{})
	v := &verdict{known: make(chan struct{}), asked: sync.OnceFunc(func() { close(begin) })}
	v.giveUp = sync.OnceFunc(func() { cancel(); <-v.known })
	go func() {
		defer close(v.known)
		select {
		case <-begin:
		case <-time.After(lookAfter):
		case <-ctx.Done():
		}
		before(ctx)
		if v.err = look(ctx); ctx.Err() != nil {
			v.err = ErrClosed
		}
	}()
	return v
}

// Sound waits until the whole file was looked through since it was opened, and returns
// nil when it is sound, or else the *OpenError that every write fails with. Whoever asks
// another system on the word of the ledger asks this first.
func (l *Ledger) Sound(ctx context.Context) error {
	select {
	case <-l.sound.known:
		return l.sound.err
	default:
	}
	l.sound.asked()
	select {
	case <-l.sound.known:
		return l.sound.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Verdict is Sound for whoever does not wait: known is false while the file is still
// looked through.
func (l *Ledger) Verdict() (known bool, err error) {
	select {
	case <-l.sound.known:
		return true, l.sound.err
	default:
		return false, nil
	}
}

// ofDamage returns err, or where SQLite met damage what the look through the file tells
// of it.
func (l *Ledger) ofDamage(ctx context.Context, err error) error {
	if troubleOf(err) != corrupt || l.sound == nil {
		return err
	}
	if found := l.Sound(ctx); found != nil {
		return found
	}
	return damaged(l.path, err.Error())
}
