package outbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"strings"
	"time"

	"payersync/state"
)

// ErrBusy means another process is sending messages of the same kind.
var ErrBusy = errors.New("another payersync process is sending just now")

// Locked calls do while it holds the lock of a kind of messages. It fails with ErrBusy while another process holds the
// lock. Each kind has its own lock, so an alarm does not wait for letters.
func Locked(l *state.Ledger, kind state.MessageKind, do func() error) error {
	lock, err := l.TryOutbox(kind)
	if err != nil {
		return err
	}
	if lock == nil {
		return ErrBusy
	}
	return errors.Join(do(), lock.Release())
}

// Point is a place between two steps of an attempt, for tests with crashes.
type Point string

// The points, in their order.
const (
	Begun  Point = "sending" // the ledger knows that the message leaves
	Ready  Point = "journaled"
	Posted Point = "posted" // the outcome is known to this process alone
	Ended  Point = "ended"
)

// Attempt is one attempt to send a frozen message.
type Attempt struct {
	Begin  func(*state.Tx) (leaves bool, err error)         // notes that the message leaves, before its first byte does
	Before func() error                                     // an error means that nothing is sent; may be nil
	Send   func(context.Context) (answer string, err error) // sends the frozen bytes once
	End    func(*state.Tx, Outcome) error                   // notes the outcome
	Step   func(Point) error                                // an error means that the process died there; may be nil
}

// Do makes the attempt. Its error means that the ledger could not be written; then the outcome, if any, is not stored.
func (a Attempt) Do(ctx context.Context, l *state.Ledger) (o Outcome, err error) {
	leaves := false
	if err := l.Do(ctx, func(tx *state.Tx) (err error) { leaves, err = a.Begin(tx); return err }); err != nil || !leaves {
		return o, err
	}
	if err := a.at(Begun); err != nil {
		return o, err
	}
	if a.Before != nil {
		if err := a.Before(); err != nil {
			o = Outcome{State: state.MessageDeferred, General: true, Answer: err.Error(), Err: err}
			return o, Note(ctx, l, func(tx *state.Tx) error { return a.End(tx, o) })
		}
	}
	if err := a.at(Ready); err != nil {
		return o, err
	}
	o = OutcomeOf(a.Send(ctx))
	if err := a.at(Posted); err != nil {
		return o, err
	}
	return o, errors.Join(Note(ctx, l, func(tx *state.Tx) error { return a.End(tx, o) }), a.at(Ended))
}

func (a Attempt) at(p Point) error {
	if a.Step == nil {
		return nil
	}
	return a.Step(p)
}

// noteTimeout is how long a write to the ledger may take while the process is stopping.
const noteTimeout = 15 * time.Second

// Note writes to the ledger, even if the process is stopping.
func Note(ctx context.Context, l *state.Ledger, write func(*state.Tx) error) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer done()
	return l.Do(ctx, write)
}

// Batch computes the hash of the messages in a plan.
// A person approves a plan by this hash, so an approval covers no other message.
type Batch struct{ sum hash.Hash }

// Add adds a message by the facts that a person saw.
func (b *Batch) Add(facts ...string) {
	if b.sum == nil {
		b.sum = sha256.New()
	}
	b.sum.Write([]byte(strings.Join(facts, "\x00") + "\n"))
}

// Hash returns the hash of the messages; "" for none.
func (b *Batch) Hash() string {
	if b.sum == nil {
		return ""
	}
	return hex.EncodeToString(b.sum.Sum(nil)[:8])
}

// Errors of an approval.
var (
	ErrNothing = errors.New("nothing waits for approval")
	ErrChanged = errors.New("what waits is no longer what was shown")
)

// Check compares the hash of the waiting messages with the hash that was shown to a person. It fails with ErrNothing
// or ErrChanged.
func Check(waiting, shown string) error {
	switch waiting {
	case "":
		return ErrNothing
	case shown:
		return nil
	}
	return ErrChanged
}
