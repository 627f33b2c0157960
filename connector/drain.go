package connector

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"
)

// drainKey is the key of WithDrain in a context.
type drainKey struct{}

// WithDrain returns a context for a drain: after the end of last no new request may be sent, but requests in flight
// may still be answered.
func WithDrain(ctx, last context.Context) context.Context {
	return context.WithValue(ctx, drainKey{}, last)
}

// fenceKey is the key of WithFence in a context.
type fenceKey struct{}

// WithFence returns a context with a fence: no request may be sent once holds returns an error. holds is called right
// before each request. A process may have been paused before this for any time, without the end of any of its contexts.
// A fence of ctx holds as well.
func WithFence(ctx context.Context, holds func() error) context.Context {
	if outer, ok := ctx.Value(fenceKey{}).(func() error); ok {
		inner := holds
		holds = func() error { return cmp.Or(outer(), inner()) }
	}
	return context.WithValue(ctx, fenceKey{}, holds)
}

// MayLeave returns nil while requests of this context may be sent. It returns the reason after the end of ctx or of
// WithDrain's last, or if WithFence's holds fails. A context of Leaving learns of the first two a moment late, and
// not of the third.
func MayLeave(ctx context.Context) error {
	if holds, ok := ctx.Value(fenceKey{}).(func() error); ok {
		if err := holds(); err != nil {
			return err
		}
	}
	if last, ok := ctx.Value(drainKey{}).(context.Context); ok && last.Err() != nil {
		return context.Cause(last)
	}
	return ctx.Err()
}

// Leaving returns a context for waiting to send a request. It ends with ctx, or with WithDrain's last if this is
// earlier. The function releases the context's resources.
func Leaving(ctx context.Context) (context.Context, context.CancelFunc) {
	leaving, cancel := context.WithCancelCause(ctx)
	last, ok := ctx.Value(drainKey{}).(context.Context)
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

// leaseSpare is the fraction of a lease to treat as expired early: the grantor's clock may have started that much
// later.
const leaseSpare = 12

// Lease tracks a lease of this process by the machine's clocks alone. One of them stops while a machine sleeps, and one
// may be set. It is safe for concurrent use.
type Lease struct {
	lasts   time.Duration
	renewed atomic.Pointer[time.Time]
}

// NewLease returns a lease with the given duration, starting at a time of OfThisMachine.
func NewLease(lasts time.Duration, from time.Time) *Lease {
	l := &Lease{lasts: lasts}
	l.Renew(from)
	return l
}

// Renew records the time of the last request for the lease. This time is before the grant.
func (l *Lease) Renew(asked time.Time) { l.renewed.Store(&asked) }

// Over reports whether another may hold it by now.
func (l *Lease) Over() bool {
	now, renewed := OfThisMachine(), *l.renewed.Load()
	return max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0))) > l.lasts-l.lasts/leaseSpare
}

// OfThisMachine returns the time by this machine's own clocks. It is never stored: only these clocks show a pause of
// the process.
func OfThisMachine() time.Time { return time.Now() }
