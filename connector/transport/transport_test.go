package transport_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"payersync/connector"
	"payersync/connector/transport"
)

const address = "https://billing.example/api/customers?searchText=ada%40northwind.example"

// service answers each attempt, which it notes the time of, by its number.
type service struct {
	mu     sync.Mutex
	at     []time.Time
	answer func(attempt int, r *http.Request) (*http.Response, error)
}

func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.at = append(s.at, time.Now())
	attempt := len(s.at)
	s.mu.Unlock()
	return s.answer(attempt, r)
}

func (s *service) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

func respond(status int, body string, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

func always(status int, headers ...string) *service {
	return &service{answer: func(int, *http.Request) (*http.Response, error) { return respond(status, "", headers...), nil }}
}

// failing breaks so many attempts and then answers.
func failing(times int, status int, headers ...string) *service {
	return &service{answer: func(attempt int, _ *http.Request) (*http.Response, error) {
		if attempt > times {
			return respond(200, "done"), nil
		}
		if status == 0 {
			return nil, errors.New("connection reset by peer")
		}
		return respond(status, "", headers...), nil
	}}
}

func request(t testing.TB, ctx context.Context, method string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(`{"name":"Northwind"}`))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func seeded(base http.RoundTripper) transport.Options {
	return transport.Options{Base: base, Rand: rand.New(rand.NewPCG(1, 2))}
}

// covers F13, F14, F58
func TestRequestIsRepeatedOnlyWhereItsRepeatAllows(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	tests := []struct {
		name          string
		first         func() (*http.Response, error)
		ifNoEffect    bool // is repeated under IfNoEffect
		always        bool // is repeated under Always
		ambiguousSent bool
	}{
		{"too many requests", func() (*http.Response, error) { return respond(429, ""), nil }, true, true, false},
		{"unavailable", func() (*http.Response, error) { return respond(503, ""), nil }, false, true, false},
		{"internal error", func() (*http.Response, error) { return respond(500, ""), nil }, false, true, false},
		{"bad gateway", func() (*http.Response, error) { return respond(502, ""), nil }, false, true, false},
		{"not implemented", func() (*http.Response, error) { return respond(501, ""), nil }, false, false, false},
		{"refused for its content", func() (*http.Response, error) { return respond(422, ""), nil }, false, false, false},
		{"redirect", func() (*http.Response, error) { return respond(307, "", "Location", "https://elsewhere.example"), nil }, false, false, false},
		{"reset", func() (*http.Response, error) { return nil, errors.New("reset") }, false, true, true},
		{"no connection", func() (*http.Response, error) { return nil, dial }, true, true, false},
		{"cut short", func() (*http.Response, error) {
			resp := respond(200, "half")
			resp.ContentLength = 100
			return resp, nil
		}, false, true, true},
	}
	for _, tt := range tests {
		for repeat, repeated := range map[transport.Repeat]bool{
			transport.Never: false, transport.IfNoEffect: tt.ifNoEffect, transport.Always: tt.always,
		} {
			synctest.Test(t, func(t *testing.T) {
				s := &service{answer: func(attempt int, r *http.Request) (*http.Response, error) {
					if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"name":"Northwind"}` {
						t.Errorf("attempt %d carried %q, %v", attempt, body, err)
					}
					if attempt == 1 {
						return tt.first()
					}
					return respond(200, "done"), nil
				}}
				_, err := transport.New(seeded(s)).Do(request(t, t.Context(), http.MethodPost), repeat)
				if got := s.attempts() == 2; got != repeated {
					t.Errorf("%s, repeat %d: %d attempts", tt.name, repeat, s.attempts())
				}
				var failed *transport.Error
				if errors.As(err, &failed) && failed.Sent != tt.ambiguousSent {
					t.Errorf("%s, repeat %d: Sent is %v", tt.name, repeat, failed.Sent)
				}
			})
		}
	}
}

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
			if errors.As(err, &failed) && (failed.Reason != transport.ReasonCircuit || failed.Sent || !failed.RetryAt.After(time.Now())) {
				t.Fatalf("error %+v", failed)
			}
			time.Sleep(time.Second)
		}
		if sent := s.attempts(); float64(sent) > 1.1*float64(calls) || sent > 200 || sent < 100 {
			t.Errorf("%d attempts for %d calls", sent, calls)
		}
	})
}

// Without the circuit in the way, the budget alone keeps repeats at a tenth.
//
// covers F14
func TestRepeatsStayWithinTheirBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := always(429) // no failure to the circuit
		client := transport.New(seeded(s))
		const calls = 2000
		for range calls {
			if resp, err := client.Do(request(t, t.Context(), http.MethodGet), transport.Always); err != nil || resp.StatusCode != 429 {
				t.Fatal(resp, err)
			}
		}
		if repeats := s.attempts() - calls; repeats < calls/20 || repeats > calls/10+10 {
			t.Errorf("%d repeats of %d calls", repeats, calls)
		}
	})
}

// covers F14
func TestACallThatIsTurnedAwayEarnsNoRepeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := always(429)
		client := transport.New(seeded(s))
		used := func() (repeats int) {
			before := s.attempts()
			for range 5 {
				if _, err := client.Do(request(t, t.Context(), http.MethodGet), transport.Always); err != nil {
					t.Fatal(err)
				}
			}
			return s.attempts() - before - 5
		}
		used() // what was saved
		ended, end := context.WithCancel(t.Context())
		end()
		for range 100 {
			if _, err := client.Do(request(t, ended, http.MethodGet), transport.Always); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if repeats := used(); repeats > 1 {
			t.Errorf("%d repeats after calls that sent nothing", repeats)
		}
	})
}

// covers F14
func TestCircuitOpensProbesAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var healthy atomic.Bool
		s := &service{answer: func(_ int, r *http.Request) (*http.Response, error) {
			if healthy.Load() {
				return respond(200, ""), nil
			}
			if r.Context().Err() == nil && strings.HasSuffix(r.URL.Path, "hang") {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return respond(500, ""), nil
		}}
		client := transport.New(transport.Options{Base: s, Retries: -1})
		do := func(ctx context.Context, path string) error {
			req := request(t, ctx, http.MethodGet)
			req.URL.Path = path
			_, err := client.Do(req, transport.Always)
			return err
		}
		for range 10 {
			if err := do(t.Context(), "/x"); err != nil {
				t.Fatal(err)
			}
		}
		reasonIs(t, "after ten failures", do(t.Context(), "/x"), transport.ReasonCircuit)
		if s.attempts() != 10 {
			t.Errorf("%d attempts, want 10", s.attempts())
		}
		time.Sleep(30 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reasonIs(t, "a probe that was given up", do(ctx, "/hang"), transport.ReasonCancelled)
		reasonIs(t, "after it", do(t.Context(), "/x"), transport.ReasonCircuit)
		healthy.Store(true)
		time.Sleep(30 * time.Second)
		for range 20 {
			if err := do(t.Context(), "/x"); err != nil {
				t.Fatalf("after recovery: %v", err)
			}
		}
	})
}

func reasonIs(t *testing.T, when string, err error, want transport.Reason) {
	t.Helper()
	var failed *transport.Error
	if !errors.As(err, &failed) || failed.Reason != want {
		t.Errorf("%s: %v, want reason %s", when, err, want)
	}
}

// covers F15
func TestDeadlineCoversTheBodyAndNotTheWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trickle := &service{answer: func(_ int, r *http.Request) (*http.Response, error) {
			resp := respond(200, "")
			resp.Body, resp.ContentLength = io.NopCloser(&drip{r.Context()}), -1
			return resp, nil
		}}
		begin := time.Now()
		client := transport.New(transport.Options{Base: trickle, Retries: -1, Timeout: 10 * time.Second})
		_, err := client.Do(request(t, t.Context(), http.MethodPost), transport.Never)
		reasonIs(t, "a byte a second", err, transport.ReasonTimeout)
		var failed *transport.Error
		if errors.As(err, &failed); !failed.Sent || time.Since(begin) != 10*time.Second {
			t.Errorf("sent %v after %v", failed.Sent, time.Since(begin))
		}

		slow := &service{answer: func(int, *http.Request) (*http.Response, error) {
			time.Sleep(8 * time.Second)
			return respond(200, ""), nil
		}}
		client = transport.New(transport.Options{Base: slow, Retries: -1, Timeout: 10 * time.Second, MaxInFlight: 1, RatePerSecond: 1})
		var calls sync.WaitGroup
		for range 5 { // the last one waits 32 seconds for its turn
			calls.Go(func() {
				if _, err := client.Do(request(t, t.Context(), http.MethodGet), transport.Always); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	})
}

// drip gives a byte a second.
type drip struct{ ctx context.Context }

func (d *drip) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		p[0] = ' '
		return 1, nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

// covers S18
func TestRateAndConcurrencyStayWithinTheirLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var inFlight, most atomic.Int32
		s := &service{answer: func(int, *http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), inFlight.Add(1)))
			defer inFlight.Add(-1)
			time.Sleep(time.Second)
			return respond(200, ""), nil
		}}
		client := transport.New(transport.Options{Base: s, RatePerSecond: 10, MaxInFlight: 4})
		var calls sync.WaitGroup
		for range 40 {
			calls.Go(func() {
				if _, err := client.Do(request(t, t.Context(), http.MethodGet), transport.Always); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if most.Load() != 4 {
			t.Errorf("%d attempts at a time, want 4", most.Load())
		}
		for i := 10; i < len(s.at); i++ {
			if window := s.at[i].Sub(s.at[i-10]); window < time.Second {
				t.Errorf("11 attempts within %v", window)
			}
		}
	})
}

// covers F13
func TestPaceSlowsAfterA429AndRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := failing(1, 429)
		client := transport.New(transport.Options{Base: s, RatePerSecond: 10, Retries: -1})
		for range 200 {
			if _, err := client.Do(request(t, t.Context(), http.MethodGet), transport.Always); err != nil {
				t.Fatal(err)
			}
		}
		if early, late := s.at[4].Sub(s.at[3]), s.at[199].Sub(s.at[198]); early < 150*time.Millisecond || late > 101*time.Millisecond {
			t.Errorf("spacing was %v after the 429 and %v in the end", early, late)
		}
	})
}

func TestWaitsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := always(429, "Retry-After", "600")
		client := transport.New(seeded(s))
		for range 2 { // the first gives up between attempts, the second before its own
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			begin := time.Now()
			_, err := client.Do(request(t, ctx, http.MethodPost), transport.IfNoEffect)
			cancel()
			reasonIs(t, "waiting", err, transport.ReasonCancelled)
			var failed *transport.Error
			if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &failed) || failed.Sent || time.Since(begin) != time.Minute {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		}
		if s.attempts() != 1 {
			t.Errorf("%d attempts, want 1", s.attempts())
		}
		busy := transport.New(transport.Options{Base: always(200), RatePerSecond: 0.01})
		if _, err := busy.Do(request(t, t.Context(), http.MethodGet), transport.Always); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := busy.Do(request(t, ctx, http.MethodGet), transport.Always)
		if reasonIs(t, "a turn after the deadline", err, transport.ReasonCancelled); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// covers F89, G14
// What waits for a pause that the service asked for has not left: after the last call it
// is not waited for.
func TestTheLastCallEndsTheWaitForAnotherAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := always(http.StatusTooManyRequests, "Retry-After", "300")
		c := transport.New(transport.Options{Base: s})
		last, end := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(time.Second, end)
		_, err := c.Do(request(t, connector.WithLastCall(t.Context(), last), http.MethodPost), transport.IfNoEffect)
		var failed *transport.Error
		if !errors.As(err, &failed) || failed.Reason != transport.ReasonCancelled || failed.Sent {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(began); took != time.Second || s.attempts() != 1 {
			t.Errorf("it took %v and %d attempts", took, s.attempts())
		}
	})
}

// A connection that comes about after the last call carries nothing; what was sent before
// is answered.
func TestNothingLeavesThroughAConnectionThatIsMadeAfterTheLastCall(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	received, answer := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		served.Add(1)
		close(received)
		<-answer
	}))
	defer server.Close()
	dialling, connect := make(chan struct{}), make(chan struct{})
	var dialled atomic.Int64
	base := &http.Transport{DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
		if dialled.Add(1) == 2 {
			close(dialling)
			<-connect
		}
		return (&net.Dialer{}).DialContext(context.Background(), network, address)
	}}
	defer base.CloseIdleConnections()
	c := transport.New(transport.Options{Base: base})
	last, end := context.WithCancel(t.Context())
	ctx := connector.WithLastCall(t.Context(), last)
	send := func() chan error {
		ended := make(chan error, 1)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := c.Do(req, transport.IfNoEffect)
			ended <- err
		}()
		return ended
	}
	under := send()
	<-received
	late := send()
	<-dialling
	end()
	var failed *transport.Error
	if err := <-late; !errors.As(err, &failed) || failed.Reason != transport.ReasonCancelled || failed.Sent {
		t.Errorf("what had no connection ended with %v", err)
	}
	close(connect)
	close(answer)
	if err := <-under; err != nil || served.Load() != 1 {
		t.Errorf("what was under way ended with %v, and %d requests were received", err, served.Load())
	}
}

// Sending stops at its end time, not when a goroutine notices it: a connection obtained right after that
// carries nothing.
func TestNothingLeavesThroughAConnectionThatWaitsAfterTheLastCall(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer server.Close()
	end := func() {}
	base := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { end(); return nil, nil }} // asked before a connection is taken
	defer base.CloseIdleConnections()
	c := transport.New(transport.Options{Base: base, Retries: -1})
	for i := range 200 {
		first, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(first, transport.Always); err != nil { // leaves a connection that waits
			t.Fatal(err)
		}
		last, stop := context.WithCancel(t.Context())
		end = stop
		req, err := http.NewRequestWithContext(connector.WithLastCall(t.Context(), last), http.MethodPost, server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		var failed *transport.Error
		if _, err := c.Do(req, transport.IfNoEffect); !errors.As(err, &failed) || failed.Reason != transport.ReasonCancelled || failed.Sent {
			t.Fatalf("what was too late ended with %v", err)
		}
		end = func() {}
		if n := served.Load(); n != int64(i)+1 {
			t.Fatalf("%d requests were received, want %d", n, i+1)
		}
	}
}

// The error of a hanging service says how far its answer came.
func TestAHangingServerIsToldWithWhatCame(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body *hanging
		want string
	}{
		"nothing":        {nil, "the server did not answer in time: it took the request, and nothing came back"},
		"half an answer": {&hanging{text: "half of it"}, "the server did not answer in time: HTTP 200 and 10 bytes came"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &service{answer: func(_ int, r *http.Request) (*http.Response, error) {
					if tt.body == nil {
						<-r.Context().Done()
						return nil, r.Context().Err()
					}
					tt.body.ctx = r.Context()
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: tt.body, ContentLength: -1}, nil
				}}
				_, err := transport.New(transport.Options{Base: s}).Do(request(t, t.Context(), http.MethodPost), transport.Never)
				if err == nil || err.Error() != tt.want {
					t.Errorf("it says %v", err)
				}
			})
		})
	}
}

// hanging is a body that gives a text and no end.
type hanging struct {
	ctx  context.Context
	text string
}

func (h *hanging) Read(p []byte) (int, error) {
	if h.text != "" {
		n := copy(p, h.text)
		h.text = h.text[n:]
		return n, nil
	}
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

func (h *hanging) Close() error { return nil }

func TestTheServersClockIsKnownByItsAnswers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 5e8, time.UTC)
	date := ""
	s := &service{answer: func(int, *http.Request) (*http.Response, error) { return respond(200, "", "Date", date), nil }}
	c := transport.New(transport.Options{Base: s, Now: func() time.Time { return now }})
	for _, tt := range []struct {
		date  string
		ahead time.Duration
		known bool
	}{
		{"", 0, false}, {"yesterday", 0, false}, {"Sun, 01 Mar 2026 12:00:00 GMT", 0, true}, {"Sun, 01 Mar 2026 12:07:00 GMT", 7 * time.Minute, true},
		{"Sun, 01 Mar 2026 11:00:00 GMT", -time.Hour, true}, {"", -time.Hour, true},
	} {
		date = tt.date
		if _, err := c.Do(request(t, t.Context(), http.MethodGet), transport.Never); err != nil {
			t.Fatal(err)
		}
		if ahead, known := c.Skew(); ahead != tt.ahead || known != tt.known {
			t.Errorf("after %q the server is %v ahead (%v), want %v (%v)", tt.date, ahead, known, tt.ahead, tt.known)
		}
	}
}

func TestAnswersAreCapped(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/exact":
			_, _ = w.Write(bytes.Repeat([]byte("a"), 1000))
		case "/more":
			_, _ = w.Write(bytes.Repeat([]byte("a"), 1001))
		case "/stream":
			for range 2000 {
				_, _ = io.WriteString(w, "a")
			}
			_ = http.NewResponseController(w).Flush()
		case "/bomb":
			if r.Header.Get("Accept-Encoding") != "" {
				t.Errorf("asks for %s", r.Header.Get("Accept-Encoding"))
			}
			w.Header().Set("Content-Encoding", "gzip")
			zip := gzip.NewWriter(w)
			_, _ = zip.Write(make([]byte, 100_000))
			_ = zip.Close()
		}
	}))
	t.Cleanup(server.Close)
	client := transport.New(transport.Options{MaxBody: 1000, Retries: -1})
	t.Cleanup(client.Close)
	get := func(path string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return client.Do(req, transport.Always)
	}
	for _, path := range []string{"/exact", "/bomb"} {
		resp, err := get(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || len(body) > 1000 || int64(len(body)) != resp.ContentLength || path == "/exact" && len(body) != 1000 {
			t.Errorf("%s: %d bytes, %v", path, len(body), err)
		}
	}
	for _, path := range []string{"/more", "/stream"} {
		_, err := get(path)
		reasonIs(t, path, err, transport.ReasonTooLarge)
	}
}

// covers F17
func TestRedirectsAreReturnedNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("followed to %s with %q", r.URL, r.Header.Get("Authorization"))
	}))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/api", status))
		client := transport.New(transport.Options{})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer secret")
		if resp, err := client.Do(req.Clone(t.Context()), transport.Always); err != nil || resp.StatusCode != status {
			t.Errorf("Do: %v, %v", resp, err)
		}
		resp, err := client.HTTPClient(transport.Always).Do(req)
		if err != nil || resp.StatusCode != status {
			t.Errorf("HTTPClient: %v, %v", resp, err)
		}
		_ = resp.Body.Close()
		client.Close()
		server.Close()
	}
}

// covers F16, F81
func TestPlainHTTPIsForLoopbackOnly(t *testing.T) {
	t.Parallel()
	for target, ok := range map[string]bool{
		"https://billing.example/x": true, "http://127.0.0.1:1/x": true, "http://localhost/x": true, "http://[::1]/x": true, "http://[::ffff:127.0.0.1]/x": true,
		"http://billing.example/x": false, "http://10.0.0.1/x": false, "http://localhost.example/x": false, "http://127.0.0.1.example/x": false,
		"https://user:pw@billing.example/x": false, "ftp://127.0.0.1/x": false, "https:///x": false,
	} {
		s := always(200)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = transport.New(seeded(s)).Do(req, transport.Always)
		if (err == nil) != ok || (s.attempts() == 1) != ok {
			t.Errorf("%s: %v after %d attempts", target, err, s.attempts())
		}
		if err != nil {
			reasonIs(t, target, err, transport.ReasonURL)
		}
	}
}

// covers F16
func TestConnectionFailuresAreToldApartAndHadNoEffect(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of the refused handshake
	server.StartTLS()
	t.Cleanup(server.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	tests := []struct {
		name, target string
		want         transport.Reason
		options      transport.Options
	}{
		{"certificate of an unknown authority", server.URL, transport.ReasonTLS, transport.Options{}},
		{"nobody listens", "http://" + closed.Addr().String(), transport.ReasonConnect, transport.Options{}},
		{"not public", plain.URL, transport.ReasonAddress, transport.Options{Reach: connector.Reach{PublicOnly: true}}},
		{"no such name", "https://billing.invalid", transport.ReasonName, transport.Options{Base: &http.Transport{DialContext: unresolved}}},
	}
	for _, tt := range tests {
		tt.options.Retries = -1
		client := transport.New(tt.options)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tt.target, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Do(req, transport.IfNoEffect)
		reasonIs(t, tt.name, err, tt.want)
		var failed *transport.Error
		if errors.As(err, &failed) && failed.Sent {
			t.Errorf("%s: counted as sent", tt.name)
		}
		client.Close()
	}
}

// unresolved dials as where no name server knows the name.
func unresolved(_ context.Context, network, address string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}}
}

// A connection broken after the request was still made, on a fresh socket and on one that had been idle.
func TestBrokenConnectionCountsAsSent(t *testing.T) {
	t.Parallel()
	var served atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if served.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	client := transport.New(transport.Options{})
	t.Cleanup(client.Close)
	for i := range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Do(req, transport.Never)
		var failed *transport.Error
		if i > 0 && (!errors.As(err, &failed) || !failed.Sent || failed.Attempts != 1) {
			t.Errorf("request %d: %+v", i, err)
		}
	}
	if served.Load() != 3 {
		t.Errorf("the server saw %d requests, want 3", served.Load())
	}
}

// covers F80, S15
func TestNothingThatIsCarriedReachesLogsOrErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := logrus.New()
		logger.SetOutput(&out)
		logger.SetLevel(logrus.TraceLevel)
		s := &service{answer: func(attempt int, r *http.Request) (*http.Response, error) {
			if attempt%2 == 0 {
				return respond(500, "canary-answer", "X-Secret", "canary-header"), nil
			}
			return nil, fmt.Errorf("malformed response %q to %s", "canary-wire", r.URL)
		}}
		options := seeded(s)
		options.Logger = logrus.NewEntry(logger)
		client := transport.New(options)
		var errs []string
		for range 20 {
			req := request(t, t.Context(), http.MethodGet)
			req.Header.Set("Authorization", "Bearer canary-token")
			req.URL.RawQuery = "searchText=canary-query"
			req.Body = io.NopCloser(strings.NewReader("canary-body"))
			if _, err := client.Do(req, transport.Always); err != nil {
				errs = append(errs, err.Error())
			}
		}
		text := out.String() + strings.Join(errs, "\n")
		if strings.Contains(text, "canary") {
			t.Errorf("a canary got out:\n%s", text)
		}
		for _, want := range []string{"billing.example/api/customers", "circuit changed", "attempt=2", "status=500", "took=", "failed=broken"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not logged", want)
			}
		}
	})
}

func TestSameSeedWaitsTheSame(t *testing.T) {
	t.Parallel()
	waits := func() (out []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := failing(3, 0)
			if _, err := transport.New(seeded(s)).Do(request(t, t.Context(), http.MethodGet), transport.Always); err != nil {
				t.Fatal(err)
			}
			for i, limit := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
				wait := s.at[i+1].Sub(s.at[i])
				if wait > limit {
					t.Errorf("wait %d is %v, more than %v", i, wait, limit)
				}
				out = append(out, wait)
			}
		})
		return out
	}
	if diff := cmp.Diff(waits(), waits()); diff != "" {
		t.Errorf("waits differ:\n%s", diff)
	}
}

func TestHTTPClientLeavesTheRequestAsItWas(t *testing.T) {
	t.Parallel()
	s := failing(0, 200)
	req := request(t, t.Context(), http.MethodPost)
	body, headers := req.Body, len(req.Header)
	resp, err := transport.New(seeded(s)).HTTPClient(transport.IfNoEffect).Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if req.Body != body || len(req.Header) != headers {
		t.Error("the request was changed")
	}
}

func TestEveryAttemptIsToldByWhatItIsForAndHowItEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []transport.Attempt
		base := &service{answer: func(attempt int, r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			switch attempt {
			case 1:
				return respond(503, ""), nil
			case 2:
				return nil, errors.New("connection reset by peer")
			}
			return respond(200, "done"), nil
		}}
		client := transport.New(transport.Options{Base: base, Observe: func(a transport.Attempt) { told = append(told, a) }})
		ctx := connector.WithOperation(t.Context(), "get customer")
		if _, err := client.Do(request(t, ctx, http.MethodGet), transport.Always); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Do(request(t, t.Context(), http.MethodGet), transport.Always); err != nil {
			t.Fatal(err)
		}
		want := []transport.Attempt{
			{Operation: "get customer", Status: 503, Took: time.Second},
			{Operation: "get customer", Reason: transport.ReasonBroken, Took: time.Second},
			{Operation: "get customer", Status: 200, Took: time.Second},
			{Status: 200, Took: time.Second},
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}
