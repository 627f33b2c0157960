package accounting

import (
	"context"
	"time"

	"payersync/connector"
)

// Turns stores the counts of budgets for all processes. The ledger implements it.
type Turns interface {
	// TakeTurn counts one request of the scope, or says from when there may be one.
	TakeTurn(ctx context.Context, scope string, limits connector.Limits) (connector.Turn, error)
	// EndTurn gives the turn's place among the requests in flight back.
	EndTurn(ctx context.Context, id int64) error
	// ParkScope lets no request of the scope through before until.
	ParkScope(ctx context.Context, scope string, until time.Time) error
}

// patience is the longest wait for a turn by sleeping; a longer one parks.
const patience = 2 * time.Minute

// Budget is a Limiter with counts shared by all processes of one ledger.
type Budget struct {
	turns  Turns
	scope  string
	limits connector.Limits
	now    func() time.Time
}

// NewBudget returns the budget of one organisation; scope names it, for example
// "xero 0b6f1c2e". now judges how long there is to wait.
func NewBudget(turns Turns, scope string, limits connector.Limits, now func() time.Time) *Budget {
	return &Budget{turns, scope, limits, now}
}

// Acquire implements Limiter.
func (b *Budget) Acquire(ctx context.Context) (func(), error) {
	for {
		turn, err := b.turns.TakeTurn(ctx, b.scope, b.limits)
		if err != nil {
			return nil, err
		}
		if turn.NotBefore.IsZero() {
			return func() { b.end(ctx, turn.ID) }, nil
		}
		wait := turn.NotBefore.Sub(b.now())
		if turn.Parked || wait > patience {
			return nil, &Parked{turn.NotBefore}
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// end returns a turn, also for a cancelled caller. If that fails, the turn expires by itself.
func (b *Budget) end(ctx context.Context, id int64) {
	if id != 0 {
		_ = b.turns.EndTurn(context.WithoutCancel(ctx), id)
	}
}

// Park implements Limiter.
func (b *Budget) Park(ctx context.Context, until time.Time) error {
	return b.turns.ParkScope(context.WithoutCancel(ctx), b.scope, until)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
