package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector"
)

func TestNudgesBeforeAndDuringADrainCountAsOneEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		w := start(t, Config{DrainEvery: time.Hour, Drain: func(context.Context) error {
			d.note("drain")
			time.Sleep(2 * time.Second)
			return nil
		}})
		for range 100 { // all during the drain that Run begins with
			w.Nudge()
		}
		time.Sleep(10 * time.Second)
		for range 100 {
			w.Nudge()
		}
		synctest.Wait() // the drain has begun
		w.Nudge()
		time.Sleep(20 * time.Second)
		w.stop()
		d.check(t, "0s drain", "2s drain", "10s drain", "12s drain")
	})
}

func TestDrainIsTriedAgainAfterAFailureAndForParkedDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		drains := 0
		run(t, 95*time.Second, Config{Report: d.report, Drain: func(context.Context) error {
			if drains++; drains == 2 {
				panic("broken")
			}
			if drains < 4 {
				return errors.New("no answer")
			}
			return nil
		}})
		d.check(t, "0s drain failed schedule", "30s drain panicked", "1m0s drain failed schedule")
		if drains != 4 {
			t.Errorf("drained %d times, want 4", drains)
		}
	})
}

func TestTheDrainRestsUntilADeliveryIsDueOrANudgeComes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		due  func(began time.Time) (time.Time, error)
		want []string
	}{
		{"nothing waits", func(time.Time) (time.Time, error) { return time.Time{}, nil },
			[]string{"0s drain", "5s drain", "35s drain"}},
		{"one is due in twelve seconds", func(began time.Time) (time.Time, error) { return began.Add(12 * time.Second), nil },
			[]string{"0s drain", "5s drain", "12s drain", "13s drain", "14s drain", "15s drain"}},
		{"one is due in an hour", func(began time.Time) (time.Time, error) { return began.Add(time.Hour), nil },
			[]string{"0s drain", "5s drain", "35s drain"}},
		{"the ledger is away", func(time.Time) (time.Time, error) { return time.Time{}, errors.New("disk I/O error") },
			[]string{"0s drain", "5s drain", "35s drain"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDiary()
				w := start(t, Config{
					Drain:    func(context.Context) error { d.note("drain"); return nil },
					DrainDue: func(context.Context) (time.Time, error) { return tt.due(d.began) },
				})
				time.Sleep(5 * time.Second)
				w.Nudge()
				time.Sleep(10*time.Second + time.Millisecond)
				if len(tt.want) == 3 {
					time.Sleep(30 * time.Second)
				}
				w.stop()
				d.check(t, tt.want...)
			})
		})
	}
}

func throttledUntil(at time.Time) error {
	return fmt.Errorf("list the customers: %w",
		&connector.RemoteError{Op: "list", Fault: connector.FaultThrottled, Status: 429, RetryAt: at,
			Detail: "too many requests"})
}

// covers F13
func TestThrottledJobIsParkedUntilTheNamedTimeAndThenGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		runs := 0
		run(t, 61*time.Minute, Config{Report: d.report,
			Jobs: []Job{{Name: "sync", Schedule: "*/15 * * * *", Run: func(context.Context, string) error {
				if runs++; runs == 1 {
					return throttledUntil(time.Now().Add(20 * time.Minute))
				}
				return nil
			}}}})
		d.check(t, "15m0s sync parked schedule", "30m0s sync skipped", "35m0s sync done schedule", "45m0s sync done schedule",
			"1h0m0s sync done schedule")
	})
}

// covers F13
func TestParkingIsBounded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		wait, got time.Duration
	}{
		{"as named", 20 * time.Minute, 20 * time.Minute},
		{"the next second", time.Second, time.Minute},
		{"the next century", 100 * 365 * 24 * time.Hour, 24 * time.Hour},
		{"in the past", -time.Hour, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
			w := &Worker{cfg: Config{Now: func() time.Time { return now }}}
			e := w.once(t.Context(), "sync", TriggerSchedule,
				func(context.Context, string) error { return throttledUntil(now.Add(tt.wait)) })
			if want := now.Add(tt.got); tt.got > 0 && (e.Outcome != Parked || !e.Until.Equal(want)) {
				t.Errorf("got %s until %s, want parked until %s", e.Outcome, e.Until, want)
			}
			if tt.got == 0 && e.Outcome != Failed {
				t.Errorf("got %s, want failed", e.Outcome)
			}
		})
	}
}

func TestThrottledDrainIgnoresNudgesUntilTheNamedTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		w := start(t, Config{DrainEvery: time.Hour, Drain: func(context.Context) error {
			d.note("drain")
			if time.Since(d.began) < time.Minute {
				return throttledUntil(time.Now().Add(5 * time.Minute))
			}
			return nil
		}})
		for range 10 {
			time.Sleep(20 * time.Second)
			w.Nudge()
		}
		time.Sleep(2 * time.Minute)
		w.stop()
		d.check(t, "0s drain", "5m0s drain", "5m0s drain") // the second for the nudges kept meanwhile
	})
}
