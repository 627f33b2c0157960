package state

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payersync/connector"
)

const org = "xero org"

// take asks for a turn that must be answered.
func (d *desk) take(limits connector.Limits) connector.Turn {
	d.t.Helper()
	turn, err := d.TakeTurn(d.t.Context(), org, limits)
	if err != nil {
		d.t.Fatal(err)
	}
	return turn
}

// covers S18, F13
func TestTurnsEndWithTheMinuteAndTheDay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	limits := connector.Limits{PerMinute: 3, PerDay: 5}
	began := d.Now()
	for range 3 {
		if turn := d.take(limits); !turn.NotBefore.IsZero() {
			t.Fatalf("one of the first three turns must wait until %s", turn.NotBefore)
		}
	}
	if turn := d.take(limits); !turn.NotBefore.Equal(began.Add(time.Minute)) || turn.Parked {
		t.Errorf("the fourth turn of the minute: %+v, want one at %s", turn, began.Add(time.Minute))
	}
	d.clock.move(time.Minute)
	for range 2 {
		if turn := d.take(limits); !turn.NotBefore.IsZero() {
			t.Fatalf("a turn of the second minute must wait until %s", turn.NotBefore)
		}
	}
	if turn := d.take(limits); !turn.NotBefore.Equal(began.Add(day)) || !turn.Parked {
		t.Errorf("the sixth turn of the day: %+v, want parked until %s", turn, began.Add(day))
	}
	if turn, err := d.TakeTurn(t.Context(), "another", limits); err != nil || !turn.NotBefore.IsZero() {
		t.Errorf("another organisation's turn: %+v, %v", turn, err)
	}
	d.clock.move(day)
	if turn := d.take(limits); !turn.NotBefore.IsZero() {
		t.Errorf("a turn of the next day: %+v", turn)
	}
}

func TestBudgetIsOneForAllProcesses(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	other := d.another()
	var granted atomic.Int64
	var wg sync.WaitGroup
	for _, l := range []*Ledger{d.Ledger, other} {
		for range 20 {
			wg.Go(func() {
				turn, err := l.TakeTurn(t.Context(), org, connector.Limits{PerDay: 25})
				if err != nil {
					t.Error(err)
				}
				if turn.NotBefore.IsZero() {
					granted.Add(1)
				}
			})
		}
	}
	wg.Wait()
	if granted.Load() != 25 {
		t.Errorf("%d turns were granted, want 25", granted.Load())
	}
}

// covers L4
func TestPlaceOfARequestInFlightIsGivenBackOrRunsOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	limits := connector.Limits{Concurrent: 2}
	first, second := d.take(limits), d.take(limits)
	if first.ID == second.ID || first.ID == 0 {
		t.Fatalf("turns %+v and %+v", first, second)
	}
	if turn := d.take(limits); !turn.NotBefore.After(d.Now()) || turn.Parked {
		t.Errorf("the third request in flight: %+v, want it to wait a little", turn)
	}
	if err := d.EndTurn(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	if turn := d.take(limits); !turn.NotBefore.IsZero() {
		t.Errorf("a request after one has ended: %+v", turn)
	}
	d.clock.move(slotLife)
	if turn := d.take(limits); !turn.NotBefore.IsZero() {
		t.Errorf("a request after those of a dead process ran out: %+v", turn)
	}
}

// A process that slept through its request's time has lost its place, and must not release the next one's.
func TestPlaceThatRanOutIsNotGivenBackForAnother(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	limits := connector.Limits{Concurrent: 1}
	slept := d.take(limits)
	d.clock.move(slotLife)
	d.take(limits)
	if err := d.EndTurn(t.Context(), slept.ID); err != nil {
		t.Fatal(err)
	}
	if turn := d.take(limits); turn.NotBefore.IsZero() {
		t.Error("a second request was let through beside the one in flight")
	}
}

// covers F13
func TestParkedOrganisationLetsNothingThroughBeforeItsTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	until := d.Now().Add(18 * time.Hour)
	for _, asked := range []time.Time{until, d.Now().Add(time.Minute)} { // a shorter wait never replaces a longer one
		if err := d.ParkScope(t.Context(), org, asked); err != nil {
			t.Fatal(err)
		}
	}
	if turn, err := d.another().TakeTurn(t.Context(), org, connector.Limits{}); err != nil || !turn.Parked ||
		!turn.NotBefore.Equal(until) {
		t.Errorf("got %+v, %v, want parked until %s", turn, err, until)
	}
	d.clock.move(18 * time.Hour)
	if turn := d.take(connector.Limits{}); !turn.NotBefore.IsZero() {
		t.Errorf("at its time: %+v", turn)
	}
}

// Writes are stamped before they wait for each other, so one may follow another
// that carries a later time.
func TestTurnStampedAMomentBeforeTheOneItFollowsCounts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	limits := connector.Limits{PerMinute: 1, Concurrent: 1}
	d.take(limits)
	d.clock.move(-time.Second)
	if turn := d.take(limits); turn.NotBefore.IsZero() {
		t.Error("a second turn was granted")
	}
	d.clock.move(-time.Second)
	if turn := d.take(connector.Limits{Concurrent: 1}); turn.NotBefore.IsZero() {
		t.Error("a second place was given away")
	}
}

// covers F36, L4
func TestBudgetOfAClockThatWasSetBackDoesNotLastForEver(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	limits := connector.Limits{PerMinute: 1, PerDay: 1, Concurrent: 1}
	d.take(limits)
	park := func() time.Time {
		until := d.Now().Add(18 * time.Hour)
		if err := d.ParkScope(t.Context(), org, until); err != nil {
			t.Fatal(err)
		}
		return until
	}
	park()
	d.clock.move(-48 * time.Hour)
	if turn := d.take(limits); !turn.NotBefore.IsZero() {
		t.Errorf("got %+v", turn)
	}
	if until, turn := park(), d.take(connector.Limits{}); !turn.NotBefore.Equal(until) {
		t.Errorf("parked by the clock as it is now: %+v, want until %s", turn, until)
	}
}

// Two processes that share a pace take turns, a second's worth at a time.
//
// covers F187
func TestASharedPaceIsTakenByOneAfterTheOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	other := d.another()
	reserve := func(l *Ledger, n int, want time.Duration) {
		t.Helper()
		if wait, err := l.Reserve(t.Context(), "pace", n, 200*time.Millisecond); wait != want || err != nil {
			t.Errorf("got a wait of %v, %v; want %v", wait, err, want)
		}
	}
	reserve(d.Ledger, 5, 0)
	reserve(other, 5, time.Second)
	reserve(d.Ledger, 1, 2*time.Second)
	d.clock.move(1500 * time.Millisecond)
	reserve(other, 5, 700*time.Millisecond)
	d.clock.move(time.Minute)
	reserve(d.Ledger, 5, 0)
	d.clock.move(-time.Hour) // a clock that was set back waits for no time of before
	reserve(d.Ledger, 5, 0)
}
