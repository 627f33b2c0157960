package transport_test

import (
	"context"
	"errors"
	"io"
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

	"payersync/connector"
	"payersync/connector/transport"
)

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
		client = transport.New(transport.Options{Base: slow, Retries: -1, Timeout: 10 * time.Second, MaxInFlight: 1,
			RatePerSecond: 1})
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
		if early, late := s.at[4].Sub(s.at[3]), s.at[199].Sub(s.at[198]); early < 150*time.Millisecond ||
			late > 101*time.Millisecond {
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
			if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &failed) || failed.Sent ||
				time.Since(begin) != time.Minute {
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
		if reasonIs(t, "a turn after the deadline", err, transport.ReasonCancelled); !errors.Is(err,
			context.DeadlineExceeded) {
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
		_, err := c.Do(request(t, connector.WithDrain(t.Context(), last), http.MethodPost), transport.IfNoEffect)
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
	ctx := connector.WithDrain(t.Context(), last)
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
	// asked before a connection is taken
	base := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { end(); return nil, nil }}
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
		req, err := http.NewRequestWithContext(connector.WithDrain(t.Context(), last), http.MethodPost, server.URL,
			strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		var failed *transport.Error
		if _, err := c.Do(req, transport.IfNoEffect); !errors.As(err, &failed) ||
			failed.Reason != transport.ReasonCancelled || failed.Sent {
			t.Fatalf("what was too late ended with %v", err)
		}
		end = func() {}
		if n := served.Load(); n != int64(i)+1 {
			t.Fatalf("%d requests were received, want %d", n, i+1)
		}
	}
}
