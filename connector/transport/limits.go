package transport

import (
	"context"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
)

// pause delays all calls until a time set by the server, by the clock of the timers.
type pause struct {
	mu  sync.Mutex
	end time.Time
}

func (p *pause) until(end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if end.After(p.end) {
		p.end = end
	}
}

func (p *pause) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end.IsZero() {
		return 0
	}
	return time.Until(p.end)
}

func (p *pause) on() bool { return p.left() > 0 }

func (p *pause) wait(ctx context.Context) error {
	for {
		left := p.left()
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// pace is the rate of attempts. A 429 halves it, down to a sixteenth; success
// brings it back in steps of a fiftieth.
type pace struct {
	limiter *rate.Limiter // nil when there is no limit
	full    rate.Limit
	shared  func(context.Context) error // see Options.Shared
	mu      sync.Mutex
}

func newPace(perSecond float64, shared func(context.Context) error) pace {
	if perSecond <= 0 {
		return pace{shared: shared}
	}
	full := rate.Limit(perSecond)
	burst := max(1, int(perSecond/50)) // requests between two ticks of a coarse timer
	return pace{limiter: rate.NewLimiter(full, burst), full: full, shared: shared}
}

func (p *pace) wait(ctx context.Context) error {
	if p.limiter != nil {
		if err := p.limiter.Wait(ctx); err != nil && ctx.Err() == nil {
			return context.DeadlineExceeded // the caller's deadline comes before its turn
		} else if err != nil {
			return err
		}
	}
	if p.shared != nil {
		return p.shared(ctx)
	}
	return ctx.Err()
}

func (p *pace) slower() {
	p.adjust(func(now rate.Limit) rate.Limit { return max(now/2, p.full/16) })
}

func (p *pace) faster() {
	p.adjust(func(now rate.Limit) rate.Limit { return min(now+p.full/50, p.full) })
}

func (p *pace) adjust(next func(now rate.Limit) rate.Limit) {
	if p.limiter == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.limiter.Limit(); next(now) != now {
		p.limiter.SetLimit(next(now))
	}
}

// newSlots bounds the attempts in flight: at most limit, and fewer while the
// server's answers grow slower.
func newSlots(limit uint) adaptivelimiter.AdaptiveLimiter[any] {
	return adaptivelimiter.NewBuilder[any]().
		WithLimits(1, limit, limit).
		WithMaxLimitFunc(func(int) float64 { return float64(limit) }). // a quiet hour is no reason to start slowly
		Build()
}

func newCircuit(log *logrus.Entry) circuitbreaker.CircuitBreaker[any] {
	builder := circuitbreaker.NewBuilder[any]().
		WithFailureRateThreshold(0.5, 10, 30*time.Second).
		WithSuccessThreshold(1).
		WithDelay(30 * time.Second)
	if log != nil {
		builder = builder.OnStateChanged(func(e circuitbreaker.StateChangedEvent) {
			log.WithFields(logrus.Fields{"from": e.OldState.String(), "to": e.NewState.String()}).Warn("circuit changed")
		})
	}
	return builder.Build()
}
