package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
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
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body))}
}

func always(status int, headers ...string) *service {
	return &service{answer: func(int, *http.Request) (*http.Response, error) {
		return respond(status, "", headers...),
			nil
	}}
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
		{"redirect", func() (*http.Response, error) { return respond(307, "", "Location", "https://elsewhere.example"), nil },
			false, false, false},
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
			if resp, err := client.Do(request(t, t.Context(), http.MethodGet), transport.Always); err != nil ||
				resp.StatusCode != 429 {
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

// unresolved dials as where no name server knows the name.
func unresolved(_ context.Context, network, address string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: network,
		Err: &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}}
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
		for _, want := range []string{"billing.example/api/customers", "circuit changed", "attempt=2", "status=500", "took=",
			"failed=broken"} {
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
		var told []transport.CallAttempt
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
		client := transport.New(transport.Options{Base: base, Observe: func(a transport.CallAttempt) { told = append(told, a) }})
		ctx := connector.WithOperation(t.Context(), "get customer")
		if _, err := client.Do(request(t, ctx, http.MethodGet), transport.Always); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Do(request(t, t.Context(), http.MethodGet), transport.Always); err != nil {
			t.Fatal(err)
		}
		want := []transport.CallAttempt{
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
