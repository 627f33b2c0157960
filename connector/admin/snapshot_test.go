package admin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector"
)

// A person who acted sees a newer snapshot, and others the last one.
func TestASnapshotIsMadeInTheBackgroundAndAnewForWhoActed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s snapshot[int]
		made := 0
		slow := func(ctx context.Context) (*int, error) {
			made++
			n := made
			select {
			case <-time.After(time.Second):
				return &n, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		latest := func(patience time.Duration) int {
			n, err := s.latest(t.Context(), patience, slow)
			if err != nil {
				return 0
			}
			return *n
		}
		if _, err := s.latest(t.Context(), 0, slow); !errors.Is(err, ErrCounting) {
			t.Errorf("while the first is made it ended with %v", err)
		}
		s.renew() // while the first is at work
		if n := latest(5 * time.Second); n != 2 {
			t.Errorf("after an act number %d is shown, want the one begun after it", n)
		}
		began := time.Now()
		if n := latest(5 * time.Second); n != 2 || time.Since(began) != 0 {
			t.Errorf("with nothing done since number %d is shown after %v", n, time.Since(began))
		}
		s.renew()
		if n := latest(0); n != 2 || time.Since(began) != 0 {
			t.Errorf("who does not wait sees number %d after %v", n, time.Since(began))
		}
		time.Sleep(time.Minute)
		if n := latest(0); n != 3 {
			t.Errorf("later number %d is shown", n)
		}
		synctest.Wait()
		s.close() // number 4 is at work
		if n := latest(time.Hour); n != 3 || made != 4 {
			t.Errorf("after the end number %d is shown of %d", n, made)
		}
	})
}

// A mistake while one is made ends the count and not the process; who asks is told.
func TestASnapshotThatPanicsIsAnErrorAndTheLastOneStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s snapshot[int]
		var broken *connector.PanicError
		breaks := func(context.Context) (*int, error) { panic("no such row") }
		if _, err := s.latest(t.Context(), time.Second, breaks); !errors.As(err, &broken) {
			t.Errorf("it ended with %v", err)
		}
		one := 1
		s.renew()
		if n, err := s.latest(t.Context(), time.Second,
			func(context.Context) (*int, error) { return &one, nil }); err != nil || *n != 1 {
			t.Errorf("afterwards %v is shown, %v", n, err)
		}
		s.renew()
		if n, err := s.latest(t.Context(), time.Second, breaks); err != nil || *n != 1 {
			t.Errorf("after another mistake %v is shown, %v", n, err)
		}
		synctest.Wait()
		s.close()
	})
}
