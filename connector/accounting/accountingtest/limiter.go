package accountingtest

import (
	"context"
	"sync"
	"time"

	"payersync/connector/accounting"
)

// Limiter is an accounting.Limiter without limits. It records its calls. Its zero value is ready.
type Limiter struct {
	mu     sync.Mutex
	turns  int
	open   int
	parked time.Time
}

// Acquire implements accounting.Limiter; a parked limiter refuses.
func (l *Limiter) Acquire(ctx context.Context) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !l.parked.IsZero() {
		return nil, &accounting.Parked{Until: l.parked}
	}
	l.turns++
	l.open++
	return sync.OnceFunc(l.release), nil
}

func (l *Limiter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

// Park implements accounting.Limiter.
func (l *Limiter) Park(_ context.Context, until time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parked = until
	return nil
}

// Unpark ends the parking of the limiter, as after its time.
func (l *Limiter) Unpark() { _ = l.Park(context.Background(), time.Time{}) }

// Turns returns how many turns were taken.
func (l *Limiter) Turns() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns
}

// Open returns how many turns were taken and not given back.
func (l *Limiter) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Parked returns until when the limiter was parked; zero when it was not.
func (l *Limiter) Parked() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parked
}
