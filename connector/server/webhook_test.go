package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/state"
	"payersync/state/statetest"
)

const (
	hookPath   = "/webhooks/billing"
	hookNew    = "the-secret-of-this-month-0001"
	hookOld    = "the-secret-of-last-month-0000"
	sampleBody = `{"type":"dd-mandate.updated","eventId":"ev-1","customerId":"cus_1","directDebitMandateId":"m-1"}`
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// bodyOnly signs the body alone; stamped signs a time with it.
func bodyOnly() billing.Signature {
	return billing.Signature{
		Header: "X-Signature", Algorithm: "hmac-sha256", Encoding: "hex", Signed: "{body}",
		Secrets: []connector.Secret{connector.NewSecret(hookNew), connector.NewSecret(hookOld)},
	}
}

func stamped() billing.Signature {
	s := bodyOnly()
	s.TimestampHeader, s.Signed, s.Tolerance = "X-Timestamp", "{timestamp}.{body}", 5*time.Minute
	return s
}

// endpoint is a server over a ledger of its own, and what it reported.
type endpoint struct {
	*Server
	t      testing.TB
	ledger *state.Ledger
	files  state.Options
	mu     sync.Mutex
	now    time.Time
	events []Event
	nudges int
}

func newEndpoint(t testing.TB, sig billing.Signature, edit ...func(*Config)) *endpoint {
	t.Helper()
	e := &endpoint{t: t, now: noon}
	path := filepath.Join(t.TempDir(), "ledger.db")
	statetest.New(t, path)
	e.files = state.Options{Path: path, KeyFile: path + ".key", Now: e.clock}
	e.ledger = e.open()
	verifier, err := billing.NewVerifier(sig)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Ledger: e.ledger, Keys: Keys{Verifier: verifier}, Events: billing.DefaultEventPaths(), Path: hookPath, Now: e.clock,
		Refused: 1 << 20,
		Nudge:   func() { e.mu.Lock(); e.nudges++; e.mu.Unlock() },
		Report:  func(ev Event) { e.mu.Lock(); e.events = append(e.events, ev); e.mu.Unlock() },
	}
	for _, f := range edit {
		f(&cfg)
	}
	if e.Server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return e
}

// open opens the endpoint's ledger once more, as another process would.
func (e *endpoint) open() *state.Ledger {
	e.t.Helper()
	l, err := state.Open(context.Background(), e.files)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = l.Close() })
	return l
}

func (e *endpoint) clock() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

func (e *endpoint) pass(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = e.now.Add(d)
}

func mac(secret, text string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))
}

// delivery makes the request of a sender who signs the body with the newest
// secret.
func delivery(body string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, hookPath, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("X-Signature", mac(hookNew, body))
	return r
}

func stampedDelivery(body string, at time.Time) *http.Request {
	r := delivery(body)
	stamp := strconv.FormatInt(at.Unix(), 10)
	r.Header.Set("X-Timestamp", stamp)
	r.Header.Set("X-Signature", mac(hookNew, stamp+"."+body))
	return r
}

func (e *endpoint) serve(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, r)
	return w
}

// expect serves r and checks the status and that the answer has no body.
func (e *endpoint) expect(status int, r *http.Request) *httptest.ResponseRecorder {
	e.t.Helper()
	w := e.serve(r)
	if w.Code != status {
		e.t.Errorf("%s %s: status %d, want %d", r.Method, r.URL.Path, w.Code, status)
	}
	if w.Body.Len() > 0 {
		e.t.Errorf("the answer %d has a body: %q", w.Code, w.Body)
	}
	return w
}

// row is the tested part of an inbox row; its key is without the body's hash if an id stands before that.
type row struct {
	Key, Type, Customer string
	State               connector.InboxState
}

func withoutHash(key string) string {
	if name, id, _ := strings.Cut(key, ":"); name != "sha256" {
		return name + ":" + id[:strings.LastIndex(id, ":")]
	}
	return key
}

func (e *endpoint) inbox() []row {
	e.t.Helper()
	rows, err := e.ledger.Inbox(e.t.Context(), state.Filter{})
	if err != nil {
		e.t.Fatal(err)
	}
	var out []row
	for _, r := range rows {
		out = append(out, row{withoutHash(r.DeliveryKey), r.EventType, r.BillingID, connector.InboxState(r.State)})
	}
	return out
}

func (e *endpoint) expectInbox(want ...row) {
	e.t.Helper()
	if diff := cmp.Diff(want, e.inbox()); diff != "" {
		e.t.Errorf("inbox (-want +got):\n%s", diff)
	}
}

func (e *endpoint) expectNudges(want int) {
	e.t.Helper()
	if e.nudges != want {
		e.t.Errorf("nudged %d times, want %d", e.nudges, want)
	}
}

func (e *endpoint) lastEvent() Event {
	e.t.Helper()
	if len(e.events) == 0 {
		e.t.Fatal("nothing was reported")
	}
	return e.events[len(e.events)-1]
}

// covers F34, F37, F38, S11
func TestWhatIsNotADeliveryIsRefusedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	big := `{"type":"customer","customerId":"cus_1","pad":"` + strings.Repeat("x", maxBody) + `"}`
	chunked := func(body string) *http.Request {
		r := delivery(body)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
		return r
	}
	with := func(r *http.Request, header, value string) *http.Request {
		r.Header.Set(header, value)
		return r
	}
	tests := []struct {
		name    string
		request func() *http.Request
		status  int
		outcome RequestOutcome
	}{
		{"forged", func() *http.Request {
			return with(delivery(sampleBody), "X-Signature", mac("some-other-secret-of-theirs", sampleBody))
		}, 401, SignatureFailed},
		{"signature of another body",
			func() *http.Request { return with(delivery(sampleBody), "X-Signature", mac(hookNew, sampleBody+" ")) }, 401,
			SignatureFailed},
		{"signed with nothing", func() *http.Request {
			return with(delivery(sampleBody), "X-Signature",
				mac("", sampleBody))
		}, 401, SignatureFailed},
		{"unsigned", func() *http.Request { r := delivery(sampleBody); r.Header.Del("X-Signature"); return r }, 401,
			SignatureFailed},
		{"blank signature", func() *http.Request { return with(delivery(sampleBody), "X-Signature", "") }, 401,
			SignatureFailed},
		{"short signature", func() *http.Request {
			return with(delivery(sampleBody), "X-Signature",
				mac(hookNew, sampleBody)[:62])
		}, 401, SignatureFailed},
		{"truncated", func() *http.Request {
			return with(delivery(sampleBody[:40]), "X-Signature", mac(hookNew, sampleBody))
		}, 401, SignatureFailed},
		{"broken off", func() *http.Request {
			r := delivery(sampleBody)
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader(sampleBody[:9]), iotest.ErrReader(io.ErrUnexpectedEOF)))
			return r
		}, 400, BrokenOff},
		{"too slow", func() *http.Request {
			r := delivery(sampleBody)
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader(sampleBody[:9]),
				iotest.ErrReader(fmt.Errorf("read: %w", os.ErrDeadlineExceeded))))
			return r
		}, 408, BrokenOff},
		{"oversized", func() *http.Request { return delivery(big) }, 413, TooLarge},
		{"oversized without a length", func() *http.Request { return chunked(big) }, 413, TooLarge},
		{"one byte too long", func() *http.Request { return chunked(big[:maxBody-1] + `"}`) }, 413, TooLarge},
		{"compressed", func() *http.Request { return with(delivery(sampleBody), "Content-Encoding", "gzip") }, 415,
			WrongEncoding},
		{"compressed twice", func() *http.Request {
			r := with(delivery(sampleBody), "Content-Encoding", "identity")
			r.Header.Add("Content-Encoding", "br")
			return r
		}, 415, WrongEncoding},
		{"a form", func() *http.Request {
			return with(delivery(sampleBody), "Content-Type", "application/x-www-form-urlencoded")
		}, 415, WrongType},
		{"no type", func() *http.Request { r := delivery(sampleBody); r.Header.Del("Content-Type"); return r }, 415,
			WrongType},
		{"wrong method", func() *http.Request { r := delivery(sampleBody); r.Method = http.MethodPut; return r }, 405,
			WrongMethod},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, bodyOnly())
			w := e.expect(tt.status, tt.request())
			e.expectInbox()
			e.expectNudges(0)
			if got := e.lastEvent(); got.Outcome != tt.outcome || got.Client.String() != "192.0.2.0/24" {
				t.Errorf("reported %+v, want %s of 192.0.2.0/24", got, tt.outcome)
			}
			if tt.status == 405 && w.Header().Get("Allow") != "POST" {
				t.Errorf("Allow is %q, want POST", w.Header().Get("Allow"))
			}
		})
	}
}

// committedFirst fails the test when a success is announced before the delivery
// can be read through another ledger.
type committedFirst struct {
	http.ResponseWriter
	e       *endpoint
	other   *state.Ledger
	key     string
	checked bool
}

func (w *committedFirst) WriteHeader(status int) {
	body, err := w.other.DeliveryBody(context.Background(), w.key)
	if err != nil || string(body) != sampleBody {
		w.e.t.Errorf("status %d is written while the ledger holds %q, %v", status, body, err)
	}
	w.checked = true
	w.ResponseWriter.WriteHeader(status)
}

// covers F39, S10
func TestDeliveryIsDurableBeforeItIsAcknowledged(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	w := &committedFirst{ResponseWriter: httptest.NewRecorder(), e: e, other: e.open(),
		key: keyOf("event:ev-1:", sampleBody)}
	e.Handler().ServeHTTP(w, delivery(sampleBody))
	if !w.checked {
		t.Error("no status was written")
	}
	e.expectInbox(row{"event:ev-1", "dd-mandate.updated", "cus_1", connector.InboxReceived})
	e.expectNudges(1)
	want := Event{Outcome: Accepted, Client: netip.MustParsePrefix("192.0.2.0/24"), Key: w.key, Type: "dd-mandate.updated",
		State: connector.InboxReceived}
	if got := e.lastEvent(); got != want {
		t.Errorf("reported %+v, want %+v", got, want)
	}
}

// covers F35, F36
func TestReplayIsRefusedOutsideTheTolerance(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		age    time.Duration
		status int
	}{
		{"now", 0, 200},
		{"just old enough", 5*time.Minute - time.Second, 200},
		{"too old", 5*time.Minute + time.Second, 401},
		{"from the future", -5*time.Minute - time.Second, 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, stamped())
			e.expect(tt.status, stampedDelivery(sampleBody, noon.Add(-tt.age)))
			if stored := len(e.inbox()); (stored == 1) != (tt.status == 200) {
				t.Errorf("%d rows stored with status %d", stored, tt.status)
			}
		})
	}
	e := newEndpoint(t, stamped())
	r := stampedDelivery(sampleBody, noon)
	e.expect(200, r)
	e.pass(6 * time.Minute)
	e.expect(401, stampedDelivery(sampleBody, noon))
}

func TestClientIsTheRightMostAddressThatIsNoTrustedProxy(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	tests := []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no proxy", "203.0.113.9:1", nil, "203.0.113.0/24"},
		{"a stranger's word", "203.0.113.9:1", []string{"198.51.100.7"}, "203.0.113.0/24"},
		{"a proxy's word", "10.0.0.1:1", []string{"198.51.100.7"}, "198.51.100.0/24"},
		{"two proxies", "10.0.0.1:1", []string{"6.6.6.6, 198.51.100.7, 10.0.0.2"}, "198.51.100.0/24"},
		{"two headers", "10.0.0.1:1", []string{"6.6.6.6", "198.51.100.7"}, "198.51.100.0/24"},
		{"with a port", "10.0.0.1:1", []string{"198.51.100.7:5123"}, "198.51.100.0/24"},
		{"a port of a proxy", "10.0.0.1:1", []string{"198.51.100.7, 10.0.0.2:443"}, "198.51.100.0/24"},
		{"IPv6", "[fd00::1]:1", []string{"2001:db8:1:2:3::4"}, "2001:db8:1:2::/64"},
		{"IPv6 in brackets", "[fd00::1]:1", []string{"[2001:db8:1:2:3::4]"}, "2001:db8:1:2::/64"},
		{"IPv6 with a port", "[fd00::1]:1", []string{"[2001:db8:1:2:3::4]:443"}, "2001:db8:1:2::/64"},
		{"IPv6 with somebody's zone", "10.0.0.1:1", []string{"fe80::1%a b\"c"}, "fe80::/64"},
		{"a proxy with a zone", "[fd00::1%eth0]:1", []string{"198.51.100.7"}, "198.51.100.0/24"},
		{"a mapped proxy", "[::ffff:10.0.0.1]:1", []string{"::ffff:198.51.100.7"}, "198.51.100.0/24"},
		{"IPv6 with a zone", "[fe80::1%eth0]:1", nil, "fe80::/64"},
		{"mapped", "[::ffff:203.0.113.9]:1", nil, "203.0.113.0/24"},
		{"nonsense", "10.0.0.1:1", []string{"198.51.100.7, unknown"}, "10.0.0.0/24"},
		{"blank", "10.0.0.1:1", []string{""}, "10.0.0.0/24"},
		{"a comma at the end", "10.0.0.1:1", []string{"198.51.100.7,"}, "10.0.0.0/24"},
		{"nothing but commas", "10.0.0.1:1", []string{strings.Repeat(",", 16<<10)}, "10.0.0.0/24"},
		{"a proxy's name over and over", "10.0.0.1:1", []string{"6.6.6.6" + strings.Repeat(",10.0.0.9", 1000)}, "6.6.6.0/24"},
		{"only proxies", "10.0.0.1:1", []string{"10.0.0.3"}, "10.0.0.0/24"},
		{"proxy without a word", "10.0.0.1:1", nil, "10.0.0.0/24"},
		{"a socket file", "@", nil, "invalid Prefix"},
	}
	s := &Server{cfg: Config{TrustedProxies: trusted}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, hookPath, nil)
			r.RemoteAddr = tt.peer
			r.Header["X-Forwarded-For"] = tt.forwarded
			r.Header["Forwarded"] = []string{"for=192.0.2.60"} // which the proxy has not written
			if got := s.client(r).String(); got != tt.want {
				t.Errorf("client of %s forwarding %q: %s, want %s", tt.peer, tt.forwarded, got, tt.want)
			}
		})
	}
}

func TestPanicIsAnsweredWith500AndReportedWithoutItsValue(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Nudge = func() { panic("Jane Doe, 12 High Street") } })
	e.expect(500, delivery(sampleBody))
	got := e.lastEvent()
	if got.Outcome != Panicked || got.Err == nil || strings.Contains(got.Err.Error(), "Jane") {
		t.Errorf("reported %+v, want a panic without its value", got)
	}
}

// covers F34
func TestServerWithoutAVerifierIsRefused(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	for name, edit := range map[string]func(*Config){
		"no verifier":    func(c *Config) { c.Keys.Verifier = nil },
		"no ledger":      func(c *Config) { c.Ledger = nil },
		"no path":        func(c *Config) { c.Path = "" },
		"path of health": func(c *Config) { c.Path = HealthPath },
		"root":           func(c *Config) { c.Path = "/" },
	} {
		cfg := e.cfg
		edit(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("New accepted a configuration with %s", name)
		}
	}
}

// covers F34
func TestWithoutAWebhookOnlyTheHealthPagesAreServed(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Keys.Verifier, c.Path = nil, "" })
	for _, path := range []string{"", "/", hookPath} {
		r := delivery(sampleBody)
		r.URL.Path = path
		e.expect(404, r)
	}
	e.expectInbox()
	e.expect(200, httptest.NewRequestWithContext(t.Context(), http.MethodGet, HealthPath, nil))
	if got := e.serve(httptest.NewRequestWithContext(t.Context(), http.MethodGet, ReadyPath,
		nil)); got.Code != http.StatusOK {
		t.Errorf("%s answered %d", ReadyPath, got.Code)
	}
}

func TestOtherPathsAreNotFound(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	for _, path := range []string{"/", hookPath + "/", "/" + hookPath, "/webhooks", "/healthz/x"} {
		r := delivery(sampleBody)
		r.URL.Path = path
		e.expect(404, r)
	}
	e.expectInbox()
}
