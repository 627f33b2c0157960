package sandbox

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestFaultsLookAlikeInProcessAndOverSockets lets every kind strike a create,
// once through each transport.
func TestFaultsLookAlikeInProcessAndOverSockets(t *testing.T) {
	t.Parallel()
	type seen struct {
		Status, Customers int
		Answered, Broken  bool // an answer began; its body broke off
		Type, RetryAfter  string
		Whole             bool // the body is the customer
	}
	const json, html = "application/json", "text/html; charset=utf-8"
	tests := []struct {
		fault Fault
		want  seen
	}{
		{Fault{Kind: LostRequest}, seen{}},
		{Fault{Kind: LostResponse}, seen{Customers: 1}},
		{Fault{Kind: Late}, seen{}},
		{Fault{Kind: Throttled, RetryAfter: "30"}, seen{Status: 429, Answered: true, Type: json, RetryAfter: "30"}},
		{Fault{Kind: Throttled, RetryAfter: "Mon, 02 Mar 2026 09:00:30 GMT"},
			seen{Status: 429, Answered: true, Type: json, RetryAfter: "Mon, 02 Mar 2026 09:00:30 GMT"}},
		{Fault{Kind: Throttled, RetryAfter: "-9999999999999"},
			seen{Status: 429, Answered: true, Type: json, RetryAfter: "-9999999999999"}},
		{Fault{Kind: Throttled, Status: 500}, seen{Status: 429, Answered: true, Type: json}},
		{Fault{Kind: Throttled}, seen{Status: 429, Answered: true, Type: json}},
		{Fault{Kind: ErrorBefore}, seen{Status: 503, Answered: true, Type: json}},
		{Fault{Kind: ErrorBefore, Status: 500, RetryAfter: "1"},
			seen{Status: 500, Answered: true, Type: json, RetryAfter: "1"}},
		{Fault{Kind: ErrorAfter}, seen{Status: 502, Customers: 1, Answered: true, Type: json}},
		{Fault{Kind: ErrorAfter, Status: 504}, seen{Status: 504, Customers: 1, Answered: true, Type: json}},
		{Fault{Kind: HTML}, seen{Status: 200, Answered: true, Type: html}},
		{Fault{Kind: Truncated}, seen{Status: 200, Customers: 1, Answered: true, Broken: true, Type: json}},
		{Fault{Kind: Slow, Delay: time.Millisecond},
			seen{Status: 200, Customers: 1, Answered: true, Type: json, Whole: true}},
		{Fault{Kind: WrongType}, seen{Status: 200, Customers: 1, Answered: true, Type: html, Whole: true}},
		{Fault{Kind: EmptyBody}, seen{Status: 200, Customers: 1, Answered: true}},
	}
	struck := map[FaultKind]bool{}
	for _, tt := range tests {
		struck[tt.fault.Kind] = true
		for _, sockets := range []bool{false, true} {
			w := newWorld(t, Options{})
			w.Inject(tt.fault)
			req := w.request("POST", "/api/customers", `{"name":"A"}`)
			transport := w.RoundTripper()
			if sockets {
				server := httptest.NewServer(w.Sandbox)
				defer server.Close()
				req.URL.Host, req.Host, transport = strings.TrimPrefix(server.URL, "http://"), "", server.Client().Transport
			}
			var got seen
			resp, err := transport.RoundTrip(req)
			if err == nil {
				body, readErr := io.ReadAll(resp.Body)
				resp.Body.Close()
				got = seen{
					Status: resp.StatusCode, Answered: true, Broken: errors.Is(readErr, io.ErrUnexpectedEOF),
					Type: resp.Header.Get("Content-Type"), RetryAfter: resp.Header.Get("Retry-After"),
					Whole: strings.HasPrefix(string(body), `{"id":"`) && readErr == nil,
				}
			}
			got.Customers = len(w.Customers())
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%+v, sockets %v: (-want +got)\n%s", tt.fault, sockets, diff)
			}
			if kind := w.Requests()[0].Fault; kind != tt.fault.Kind {
				t.Errorf("%+v: the request log says %q", tt.fault, kind)
			}
		}
	}
	for _, kind := range FaultKinds() {
		if !struck[kind] {
			t.Errorf("no case for %s", kind)
		}
	}
}

func TestLostRequestAndLostAnswerCannotBeToldApart(t *testing.T) {
	t.Parallel()
	errs := map[FaultKind]string{}
	for _, kind := range []FaultKind{LostRequest, LostResponse, Late} {
		w := newWorld(t, Options{})
		w.Inject(Fault{Kind: kind})
		_, err := w.try("POST", "/api/customers", `{"name":"A"}`)
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("%s: got %v", kind, err)
		}
		errs[kind] = err.Error()
	}
	if errs[LostRequest] != errs[LostResponse] || errs[LostRequest] != errs[Late] {
		t.Errorf("got %v", errs)
	}
}

func TestLateRequestsTakeEffectLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.Inject(Fault{Kind: Late, Delay: 10 * time.Minute, Count: 1})
	w.Inject(Fault{Kind: Late, Delay: 5 * time.Minute, Count: 1})
	w.Inject(Fault{Kind: Late, Count: 1})
	for _, name := range []string{"A", "B", "C"} {
		if _, err := w.try("POST", "/api/customers", `{"name":"`+name+`"}`); err == nil {
			t.Fatalf("%s was answered", name)
		}
	}
	steps := []struct {
		wait time.Duration
		want string
	}{{4 * time.Minute, ""}, {6 * time.Minute, "B A"}, {1000 * time.Minute, "B A"}}
	for _, step := range steps {
		w.wait(step.wait)
		if got := customerNames(w); got != step.want {
			t.Errorf("after %v: got %q, want %q", w.now().Sub(start), got, step.want)
		}
	}
	if n := w.ReleaseLate(); n != 1 || customerNames(w) != "B A C" {
		t.Errorf("got %d released, customers %q", n, customerNames(w))
	}
	for i, r := range w.Requests() {
		if r.Status != 200 || r.Fault != Late {
			t.Errorf("request %d: got %+v", i, r)
		}
	}
}

func customerNames(w *world) string {
	var out []string
	for _, c := range w.Customers() {
		out = append(out, c.Name)
	}
	return strings.Join(out, " ")
}

func TestLateTwinOfARetriedCreateMakesNoSecondCustomer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.Inject(Fault{Kind: Late, Count: 1})
	if _, err := w.try("POST", "/api/customers", `{"name":"A"}`); err == nil {
		t.Fatal("it was answered")
	}
	id := w.create(`{"name":"A"}`)
	w.ReleaseLate()
	if got := w.Customers(); len(got) != 1 || got[0].ID != id {
		t.Errorf("got %+v", got)
	}
}

func TestFaultsMatchAndCount(t *testing.T) {
	t.Parallel()
	// Each letter is one request: P for POST /api/customers, G for GET of one
	// customer, T for a token. A capital X in want is a struck request.
	tests := []struct {
		name           string
		fault          Fault
		requests, want string
	}{
		{"every request", Fault{}, "PGT", "XXX"},
		{"method", Fault{Method: "POST"}, "PGTG", "X.X."},
		{"path", Fault{Path: "/api/customers"}, "PGT", "X.."},
		{"path pattern", Fault{Path: "/api/customers/*"}, "PGT", ".X."},
		{"count", Fault{Count: 2}, "PPPP", "XX.."},
		{"every third", Fault{Every: 3}, "PPPPPPP", "..X..X."},
		{"skip", Fault{Skip: 2}, "PPPP", "..XX"},
		{"skip, every, count", Fault{Skip: 1, Every: 2, Count: 2}, "PPPPPPPP", "..X.X..."},
		{"only matching ones count", Fault{Method: "GET", Every: 2}, "GPGPGPG", "..X...X"},
	}
	for _, tt := range tests {
		w := newWorld(t, Options{})
		tt.fault.Kind = ErrorBefore
		w.Inject(tt.fault)
		var got strings.Builder
		for _, letter := range tt.requests {
			switch letter {
			case 'P':
				w.do("POST", "/api/customers", `{"name":"A"}`)
			case 'G':
				w.do("GET", "/api/customers/x", "")
			case 'T':
				w.fetchToken(grant(ClientCredentials))
			}
		}
		for _, r := range w.Requests() {
			got.WriteString(map[bool]string{true: "X", false: "."}[r.Fault != ""])
		}
		if got.String() != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got.String(), tt.want)
		}
	}
}

func TestFaultProbabilityIsDrawnFromTheSeed(t *testing.T) {
	t.Parallel()
	struck := func(seed uint64) (pattern string, n int) {
		w := newWorld(t, Options{Seed: seed})
		w.Inject(Fault{Kind: ErrorBefore, Probability: 0.25})
		for range 1000 {
			w.do("GET", "/api/customers", "")
		}
		for _, r := range w.Requests() {
			if r.Fault != "" {
				n++
			}
			pattern += string(r.Fault) + ","
		}
		return pattern, n
	}
	first, n := struck(1)
	again, _ := struck(1)
	other, _ := struck(2)
	if first != again || first == other {
		t.Errorf("one seed twice alike: %v; two seeds alike: %v", first == again, first == other)
	}
	if n < 200 || n > 300 {
		t.Errorf("got %d of 1000 struck, want about 250", n)
	}
}

func TestFirstFaultThatStrikesIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.Inject(Fault{Kind: ErrorBefore, Status: 500, Count: 1})
	w.Inject(Fault{Kind: ErrorBefore, Status: 501})
	for _, want := range []int{500, 501, 501} {
		w.want(want, "GET", "/api/customers", "")
	}
	w.ClearFaults()
	w.want(200, "GET", "/api/customers", "")
}

func TestLostTokenRequestsAreFaultsToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.Inject(Fault{Kind: ErrorBefore, Path: tokenPath})
	if got := w.fetchToken(grant(ClientCredentials)); got.status != 503 {
		t.Errorf("got %d", got.status)
	}
	w.want(200, "GET", "/api/customers", "")
}

func TestSlowAnswersAndLatencyTakeTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Latency: time.Second})
		w.Inject(Fault{Kind: Slow, Method: "POST", Delay: time.Minute})
		for method, want := range map[string]time.Duration{"GET": time.Second, "POST": time.Minute + time.Second} {
			began := time.Now()
			w.want(200, method, "/api/customers", `{"name":"A"}`)
			if took := time.Since(began); took != want {
				t.Errorf("%s: took %v, want %v", method, took, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		req := w.request("POST", "/api/customers", `{"name":"B"}`).WithContext(ctx)
		if _, err := w.RoundTripper().RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got := customerNames(w); got != "A B" {
			t.Errorf("got customers %q: the effect comes before the wait", got)
		}
	})
}

func TestRequestThatBreaksOffHasNoEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	req := w.request("POST", "/api/customers", "")
	req.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"name":"A"}`), broken{}))
	if _, err := w.RoundTripper().RoundTrip(req); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if len(w.Customers()) != 0 {
		t.Error("a customer was made")
	}
}

func TestEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := w.request("POST", "/api/customers", `{"name":"A"}`).WithContext(ctx)
	if _, err := w.RoundTripper().RoundTrip(req); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(w.Requests()) != 0 {
		t.Error("the request came in")
	}
}

func TestRoundTripperLeavesTheRequestAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	req := w.request("GET", "/api/customers/x", "")
	before := req.Clone(t.Context())
	got, err := roundTrip(w.RoundTripper(), req)
	must(t, err)
	if req.URL.String() != before.URL.String() || req.PathValue("id") != "" ||
		got.header.Get("Date") != "Mon, 02 Mar 2026 09:00:00 GMT" {
		t.Errorf("got request %v, Date %s", req.URL, got.header.Get("Date"))
	}
	plain, err := http.NewRequestWithContext(t.Context(), "GET", "http://sandbox.test/api/customers", nil)
	must(t, err)
	if got, err := roundTrip(w.RoundTripper(), plain); err != nil || got.status != 401 {
		t.Errorf("without a body: got %d, %v", got.status, err)
	}
}

func TestValidateNamesEveryWrongPartOfAFault(t *testing.T) {
	t.Parallel()
	err := Fault{Kind: "gremlin", Path: "[", Probability: 2}.Validate()
	for _, want := range []string{"gremlin", "path", "probability"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in %v", want, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Inject did not panic")
		}
	}()
	newWorld(t, Options{}).Inject(Fault{Kind: "gremlin"})
}
