package session

import (
	"context"
	"sync"
	"time"

	"payersync/state"
)

// paceScope is the budget through which the nodes of an account share the billing service's rate.
const paceScope = "billing pace"

// sharedPace spaces the requests of this process if others send for the same account, too. It takes the turns
// of one second at a time, so it queries the ledger once a second and not for each request.
type sharedPace struct {
	ledger *state.Ledger
	every  time.Duration // between two requests of all processes

	mu   sync.Mutex
	next time.Time // the time of the next taken turn
	left int
}

func newSharedPace(ledger *state.Ledger, perSecond float64) *sharedPace {
	return &sharedPace{ledger: ledger, every: time.Duration(float64(time.Second) / perSecond)}
}

// wait waits for a turn, or until ctx ends.
func (p *sharedPace) wait(ctx context.Context) error {
	at, err := p.turn(ctx)
	if err != nil {
		return err
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// turn returns the time of the next request. Unused turns of the past are lost; the others of their second
// remain.
func (p *sharedPace) turn(ctx context.Context) (time.Time, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if over := int(time.Since(p.next) / p.every); over > 0 {
		p.left, p.next = p.left-over, p.next.Add(time.Duration(over)*p.every)
	}
	if p.left <= 0 {
		n := max(1, int(time.Second/p.every))
		wait, err := p.ledger.Reserve(ctx, paceScope, n, p.every)
		if err != nil {
			return time.Time{}, err
		}
		p.left, p.next = n, time.Now().Add(wait) // late by as long as the ledger took to answer, and never early
	}
	at := p.next
	p.left, p.next = p.left-1, at.Add(p.every)
	return at, nil
}
