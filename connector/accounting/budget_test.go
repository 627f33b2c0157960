package accounting_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// turns answers requests for a turn as it is told.
type turns struct {
	answers []connector.Turn // the last one again and again
	taken   int
	ended   []int64
	parked  time.Time
	fails   error
}

func (f *turns) TakeTurn(context.Context, string, connector.Limits) (connector.Turn, error) {
	f.taken++
	return f.answers[min(f.taken, len(f.answers))-1], f.fails
}

func (f *turns) EndTurn(ctx context.Context, id int64) error {
	f.ended = append(f.ended, id)
	return ctx.Err()
}

func (f *turns) ParkScope(_ context.Context, _ string, until time.Time) error {
	f.parked = until
	return nil
}

func TestBudgetWaitsForATurnThatIsNear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &turns{answers: []connector.Turn{{NotBefore: began.Add(40 * time.Second)}, {ID: 7}}}
		release, err := accounting.NewBudget(f, "org", connector.Limits{}, time.Now).Acquire(t.Context())
		if err != nil || time.Since(began) != 40*time.Second {
			t.Fatalf("got a turn after %s, %v", time.Since(began), err)
		}
		release()
		if len(f.ended) != 1 || f.ended[0] != 7 {
			t.Errorf("ended %v, want turn 7", f.ended)
		}
	})
}

// covers F13
func TestBudgetParksInsteadOfWaitingForHours(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		turn connector.Turn
	}{
		{"a long wait", connector.Turn{NotBefore: now.Add(18 * time.Hour)}},
		{"parked, though not for long", connector.Turn{NotBefore: now.Add(time.Minute), Parked: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &turns{answers: []connector.Turn{tt.turn}}
			_, err := accounting.NewBudget(f, "org", connector.Limits{}, func() time.Time { return now }).Acquire(t.Context())
			var parked *accounting.Parked
			if !errors.As(err, &parked) || !parked.Until.Equal(tt.turn.NotBefore) {
				t.Fatalf("got %v, want parked until %s", err, tt.turn.NotBefore)
			}
			if connector.FaultOf(err) != connector.FaultThrottled || !connector.RetryAt(err).Equal(tt.turn.NotBefore) {
				t.Errorf("callers see fault %q and time %s", connector.FaultOf(err), connector.RetryAt(err))
			}
		})
	}
}

func TestBudgetGivesUpWithItsCallerAndPassesOnWhatTheLedgerSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &turns{answers: []connector.Turn{{NotBefore: time.Now().Add(time.Minute)}}}
		b := accounting.NewBudget(f, "org", connector.Limits{}, time.Now)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		f.fails = errors.New("disk full")
		if _, err := b.Acquire(t.Context()); !errors.Is(err, f.fails) {
			t.Errorf("got %v", err)
		}
		until := time.Now().Add(time.Hour)
		if err := b.Park(ctx, until); err != nil || !f.parked.Equal(until) {
			t.Errorf("parked until %s, %v", f.parked, err)
		}
	})
}

func TestProbeClockTellsHowFarTheClocksAreApart(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	tests := []struct {
		date string
		ok   bool
	}{
		{"Fri, 20 Nov 2026 09:00:01 GMT", true},
		{"Fri, 20 Nov 2026 09:04:00 GMT", false},
		{"Fri, 20 Nov 2026 08:50:00 GMT", false},
		{"", true},
	}
	for _, tt := range tests {
		if p := accounting.ProbeClock(tt.date, now); p.OK != tt.ok || p.Detail == "" {
			t.Errorf("%q: %+v, want ok %t", tt.date, p, tt.ok)
		}
	}
}
