package connector

import (
	"context"
	"sync/atomic"
	"time"
)

// lastCallKey is the key of WithLastCall in a context.
type lastCallKey struct{}

// WithLastCall returns a context for requests that may still be answered after last
// has ended, but of which none may leave any more from then on.
func WithLastCall(ctx, last context.Context) context.Context {
	return context.WithValue(ctx, lastCallKey{}, last)
}

// fenceKey is the key of WithFence in a context.
type fenceKey struct{}

// WithFence returns a context for requests of which none may leave any more once holds says why. It is asked
// in the moment in which a request would leave: a process may have stood still before that for as long as it
// likes, and no context of it has ended meanwhile.
func WithFence(ctx context.Context, holds func() error) context.Context {
	return context.WithValue(ctx, fenceKey{}, holds)
}

// MayLeave returns nil while a request of this context may leave, and why it may not from the
// moment on in which ctx or the last of WithLastCall has ended, or what WithFence asks for holds no more; a
// context of Leaving hears of the first two a moment late, and of the last not at all.
func MayLeave(ctx context.Context) error {
	if holds, ok := ctx.Value(fenceKey{}).(func() error); ok {
		if err := holds(); err != nil {
			return err
		}
	}
	if last, ok := ctx.Value(lastCallKey{}).(context.Context); ok && last.Err() != nil {
		return context.Cause(last)
	}
	return ctx.Err()
}

// Leaving returns a context that ends with ctx, or with the last of WithLastCall if
// that is earlier: who waits to send a request waits with it. The function gives up
// what the context holds.
func Leaving(ctx context.Context) (context.Context, context.CancelFunc) {
	leaving, cancel := context.WithCancelCause(ctx)
	last, ok := ctx.Value(lastCallKey{}).(context.Context)
	if !ok {
		return leaving, func() { cancel(nil) }
	}
	stop := context.AfterFunc(last, func() { cancel(context.Cause(last)) })
	if last.Err() != nil { // AfterFunc would say it a moment late
		cancel(context.Cause(last))
	}
	return leaving, func() {
		stop()
		cancel(nil)
	}
}

// leaseSpare is which part of a lease counts as over before its end: so much later the clock of whoever granted it
// may have begun to count.
const leaseSpare = 12

// Lease is what a process knows of a lease that it holds by this machine's clocks alone. One of them stands still
// while a machine sleeps, and one may be set. It is safe for concurrent use.
type Lease struct {
	lasts   time.Duration
	renewed atomic.Pointer[time.Time]
}

// NewLease returns a lease that lasts so long from a time of OfThisMachine on.
func NewLease(lasts time.Duration, from time.Time) *Lease {
	l := &Lease{lasts: lasts}
	l.Renew(from)
	return l
}

// Renew says when it was last asked for, which is before it was granted.
func (l *Lease) Renew(asked time.Time) { l.renewed.Store(&asked) }

// Over reports whether another may hold it by now.
func (l *Lease) Over() bool {
	now, renewed := OfThisMachine(), *l.renewed.Load()
	return max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0))) > l.lasts-l.lasts/leaseSpare
}

// OfThisMachine is the time by this machine's own clocks, which nothing stores: how long a process stood still, no other
// clock knows.
func OfThisMachine() time.Time { return time.Now() }
