package transport_test

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector"
	"payersync/connector/transport"
)

// covers F13, G11
func TestRetryAfterIsObeyedWithinItsCap(t *testing.T) {
	t.Parallel()
	tests := []struct {
		header   string
		attempts int
		shortest time.Duration // before the second attempt
		longest  time.Duration
	}{
		{"", 2, 0, 500 * time.Millisecond},
		{"7", 2, 7 * time.Second, 7500 * time.Millisecond},
		{"0", 2, 0, 500 * time.Millisecond},
		{"date", 2, 7 * time.Second, 7500 * time.Millisecond},
		{"900", 2, 900 * time.Second, 901 * time.Second},
		{"901", 1, 0, 0},
		{"86400", 1, 0, 0},
		{"99999999999999999999", 1, 0, 0},
		{"-5", 2, 0, 500 * time.Millisecond},
		{"soon", 2, 0, 500 * time.Millisecond},
		{"Thu, 01 Jan 1970 00:00:00 GMT", 2, 0, 500 * time.Millisecond},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			header := tt.header
			if header == "date" {
				header = time.Now().Add(7 * time.Second).UTC().Format(http.TimeFormat)
			}
			s := failing(1, 429, "Retry-After", header)
			resp, err := transport.New(seeded(s)).Do(request(t, t.Context(), http.MethodPost), transport.IfNoEffect)
			if err != nil || s.attempts() != tt.attempts {
				t.Fatalf("%q: %d attempts, %v; want %d", tt.header, s.attempts(), err, tt.attempts)
			}
			if tt.attempts == 1 {
				if resp.StatusCode != 429 || transport.RetryAfter(resp, time.Now()).IsZero() {
					t.Errorf("%q: status %d, retry at %v", tt.header, resp.StatusCode, transport.RetryAfter(resp, time.Now()))
				}
				return
			}
			if wait := s.at[1].Sub(s.at[0]); wait < tt.shortest || wait > tt.longest {
				t.Errorf("%q: waited %v, want %v to %v", tt.header, wait, tt.shortest, tt.longest)
			}
		})
	}
}

func TestRetryAfterIsReadLenientlyAndBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Time{
		" 30 ":                           now.Add(30 * time.Second),
		"0":                              now,
		"Sun, 01 Mar 2026 09:01:00 GMT":  now.Add(time.Minute),
		"Sunday, 01-Mar-26 09:01:00 GMT": now.Add(time.Minute),
		"Sun, 01 Mar 2020 09:01:00 GMT":  now,
		"Sun, 01 Mar 2099 09:01:00 GMT":  now.Add(24 * time.Hour),
		"1000000000000":                  now.Add(24 * time.Hour),
		"1772355645":                     now.Add(45 * time.Second),
		"999999999":                      now.Add(24 * time.Hour),
		"":                               {},
		"-1":                             {},
		"1.5":                            {},
		"tomorrow":                       {},
	} {
		if got := transport.RetryAfter(respond(429, "", "Retry-After", header), now); !got.Equal(want) {
			t.Errorf("%q = %v, want %v", header, got, want)
		}
	}
	if got := transport.RetryAfter(nil, now); !got.IsZero() {
		t.Errorf("no answer = %v", got)
	}
}

// Once the service has asked one call to wait, it hears of none.
//
// covers F13
func TestRetryAfterHoldsBackAllCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := failing(1, 429, "Retry-After", "60")
		client := transport.New(seeded(s))
		var calls sync.WaitGroup
		for i := range 10 {
			calls.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				if _, err := client.Do(request(t, t.Context(), http.MethodGet), transport.Always); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		for i, at := range s.at[1:] {
			if at.Sub(s.at[0]) < time.Minute {
				t.Errorf("attempt %d came after %v", i+2, at.Sub(s.at[0]))
			}
		}
	})
}

// A request that waits for its turn until it may not leave any more was not tried, so its bytes are nowhere.
func TestARequestWhoseTurnComesTooLateWasNotTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := always(200)
		client := transport.New(transport.Options{Base: s, RatePerSecond: 5})
		late, begin := errors.New("too late"), time.Now()
		ctx := connector.WithFence(t.Context(), func() error {
			if time.Since(begin) > time.Second {
				return late
			}
			return nil
		})
		var calls sync.WaitGroup
		var turnedBack atomic.Int64
		for range 20 {
			calls.Go(func() {
				_, err := client.Do(request(t, ctx, http.MethodPost), transport.IfNoEffect)
				var failed *transport.Error
				if err == nil {
					return
				}
				if turnedBack.Add(1); !errors.Is(err, late) || !errors.As(err, &failed) || failed.Tried || failed.Sent {
					t.Errorf("error %+v", err)
				}
			})
		}
		calls.Wait()
		if sent := s.attempts(); sent == 0 || sent > 10 || sent+int(turnedBack.Load()) != 20 {
			t.Errorf("%d were sent and %d turned back, of 20 at 5 a second for one second", sent, turnedBack.Load())
		}
	})
}

// covers F14, G11, S18
func TestAnHourOfFailuresCostsLittleTraffic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := always(503)
		client := transport.New(transport.Options{Base: s, Rand: rand.New(rand.NewPCG(1, 2)), RatePerSecond: 5})
		calls, begin := 0, time.Now()
		for time.Since(begin) < time.Hour {
			_, err := client.Do(request(t, t.Context(), http.MethodGet), transport.Always)
			calls++
			var failed *transport.Error
			if errors.As(err, &failed) &&
				(failed.Reason != transport.ReasonCircuit || failed.Sent || !failed.RetryAt.After(time.Now())) {
				t.Fatalf("error %+v", failed)
			}
			time.Sleep(time.Second)
		}
		if sent := s.attempts(); float64(sent) > 1.1*float64(calls) || sent > 200 || sent < 100 {
			t.Errorf("%d attempts for %d calls", sent, calls)
		}
	})
}
