package server

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
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
		outcome Outcome
	}{
		{"forged", func() *http.Request {
			return with(delivery(sampleBody), "X-Signature", mac("some-other-secret-of-theirs", sampleBody))
		}, 401, SignatureFailed},
		{"signature of another body", func() *http.Request { return with(delivery(sampleBody), "X-Signature", mac(hookNew, sampleBody+" ")) }, 401, SignatureFailed},
		{"signed with nothing", func() *http.Request { return with(delivery(sampleBody), "X-Signature", mac("", sampleBody)) }, 401, SignatureFailed},
		{"unsigned", func() *http.Request { r := delivery(sampleBody); r.Header.Del("X-Signature"); return r }, 401, SignatureFailed},
		{"blank signature", func() *http.Request { return with(delivery(sampleBody), "X-Signature", "") }, 401, SignatureFailed},
		{"short signature", func() *http.Request { return with(delivery(sampleBody), "X-Signature", mac(hookNew, sampleBody)[:62]) }, 401, SignatureFailed},
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
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader(sampleBody[:9]), iotest.ErrReader(fmt.Errorf("read: %w", os.ErrDeadlineExceeded))))
			return r
		}, 408, BrokenOff},
		{"oversized", func() *http.Request { return delivery(big) }, 413, TooLarge},
		{"oversized without a length", func() *http.Request { return chunked(big) }, 413, TooLarge},
		{"one byte too long", func() *http.Request { return chunked(big[:maxBody-1] + `"}`) }, 413, TooLarge},
		{"compressed", func() *http.Request { return with(delivery(sampleBody), "Content-Encoding", "gzip") }, 415, WrongEncoding},
		{"compressed twice", func() *http.Request {
			r := with(delivery(sampleBody), "Content-Encoding", "identity")
			r.Header.Add("Content-Encoding", "br")
			return r
		}, 415, WrongEncoding},
		{"a form", func() *http.Request {
			return with(delivery(sampleBody), "Content-Type", "application/x-www-form-urlencoded")
		}, 415, WrongType},
		{"no type", func() *http.Request { r := delivery(sampleBody); r.Header.Del("Content-Type"); return r }, 415, WrongType},
		{"wrong method", func() *http.Request { r := delivery(sampleBody); r.Method = http.MethodPut; return r }, 405, WrongMethod},
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
	w := &committedFirst{ResponseWriter: httptest.NewRecorder(), e: e, other: e.open(), key: keyOf("event:ev-1:", sampleBody)}
	e.Handler().ServeHTTP(w, delivery(sampleBody))
	if !w.checked {
		t.Error("no status was written")
	}
	e.expectInbox(row{"event:ev-1", "dd-mandate.updated", "cus_1", connector.InboxReceived})
	e.expectNudges(1)
	want := Event{Outcome: Accepted, Client: netip.MustParsePrefix("192.0.2.0/24"), Key: w.key, Type: "dd-mandate.updated", State: connector.InboxReceived}
	if got := e.lastEvent(); got != want {
		t.Errorf("reported %+v, want %+v", got, want)
	}
}

// covers F31
func TestRepeatedDeliveryIsAcknowledgedAndChangesNothing(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { e.expect(200, delivery(sampleBody)) })
	}
	all.Wait()
	e.expectInbox(row{"event:ev-1", "dd-mandate.updated", "cus_1", connector.InboxReceived})
	e.expectNudges(1)
	fresh := 0
	for _, ev := range e.events {
		if ev.Outcome == Accepted {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d of 100 equal deliveries were reported as new, want 1", fresh)
	}
}

// covers F31
func TestDeliveriesAreToldApartByTheBestIdentityTheyHave(t *testing.T) {
	t.Parallel()
	at := noon
	const body, other = `{"type":"customer","customerId":"cus_1"}`, `{"type":"customer","customerId":"cus_1","status":"ACTIVE"}`
	key := func(signed billing.Signed, eventID, body string) string {
		return identity(signed, eventID, []byte(body))
	}
	tests := []struct {
		name  string
		a, b  string
		equal bool
	}{
		{"a signed id beats the body's", key(billing.Signed{DeliveryID: "d1"}, "e1", body), key(billing.Signed{DeliveryID: "d1"}, "e2", body), true},
		{"the two kinds of id never meet", key(billing.Signed{DeliveryID: "x"}, "", body), key(billing.Signed{}, "x", body), false},
		{"an id outlives the time of its signing", key(billing.Signed{SignedAt: at}, "e1", body), key(billing.Signed{SignedAt: at.Add(time.Hour)}, "e1", body), true},
		{"an id with another body is another event", key(billing.Signed{}, "e1", body), key(billing.Signed{}, "e1", other), false},
		{"and so is a signed id with another body", key(billing.Signed{DeliveryID: "d1"}, "", body), key(billing.Signed{DeliveryID: "d1"}, "", other), false},
		{"a signed time tells alike bodies apart", key(billing.Signed{SignedAt: at}, "", body), key(billing.Signed{SignedAt: at.Add(time.Second)}, "", body), false},
		{"the same signed time does not", key(billing.Signed{SignedAt: at}, "", body), key(billing.Signed{SignedAt: at}, "", body), true},
		{"alike bodies without id and time are one", key(billing.Signed{}, "", body), key(billing.Signed{}, "", body), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if (tt.a == tt.b) != tt.equal {
				t.Errorf("keys %q and %q, want equal: %t", tt.a, tt.b, tt.equal)
			}
		})
	}
}

// Where the place of the event's id is given wrongly, it holds the customer's or
// the mandate's, and every later event of theirs seems to have the same one.
//
// covers F31, F33
func TestALaterStatusIsNeverTakenForARepeatWhateverItsIdIs(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Events.EventID = []string{"eventId", "id"} })
	event := func(status string) string {
		return `{"id":"cus_1","type":"dd-mandate.updated","customerId":"cus_1"` + status + `}`
	}
	for i, status := range []string{`,"status":"PENDING"`, `,"status":"ACTIVE"`, ``} {
		e.expect(200, delivery(event(status)))
		if rows := e.inbox(); len(rows) != i+1 || e.lastEvent().Outcome != Accepted {
			t.Errorf("after %q the inbox is %+v, and it was reported %s; want a row of its own", status, rows, e.lastEvent().Outcome)
		}
		closeAll(t, e.ledger, connector.InboxReflected)
	}
	e.expect(200, delivery(event(``))) // spelt like the one before, and perhaps news all the same
	waiting := 0
	for _, row := range e.inbox() {
		if row.State == connector.InboxReceived {
			waiting++
		}
	}
	if waiting != 1 {
		t.Errorf("%d deliveries wait after one that is spelt like another, want 1: its customer is read again", waiting)
	}
	e.expectNudges(4)
}

// A body without an id that comes again may be the next event, spelt alike.
func TestAlikeDeliveryWithoutAnIdentityIsReflectedAgain(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	thin := `{"type":"dd-mandate","customerId":"cus_1"}`
	e.expect(200, delivery(thin))
	closeAll(t, e.ledger, connector.InboxReflected)
	e.expect(200, delivery(thin))
	if rows := e.inbox(); len(rows) != 1 || rows[0].State != connector.InboxReceived {
		t.Errorf("inbox %+v, want one row that waits again", rows)
	}
	if got := e.lastEvent(); got.Outcome != Repeated {
		t.Errorf("reported %s, want repeated", got.Outcome)
	}
	e.expectNudges(2)
}

func closeAll(t *testing.T, l *state.Ledger, as connector.InboxState) {
	t.Helper()
	open, err := l.OpenDeliveries(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range open {
		if err := l.Do(t.Context(), func(tx *state.Tx) error { return tx.CloseDeliveries(d, as, "") }); err != nil {
			t.Fatal(err)
		}
	}
}

// covers F38, F42, F56
func TestSignedDeliveriesAreKeptWhateverTheySay(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxName+1)
	tests := []struct {
		name, body string
		want       row
		detail     string
	}{
		{"names a customer", `{"type":"CUSTOMER_UPDATED","eventId":"e","customerId":"cus_9"}`, row{"event:e", "CUSTOMER_UPDATED", "cus_9", connector.InboxReceived}, ""},
		{"unknown type with a customer", `{"type":"moon.full","eventId":"e","customerId":"cus_9"}`, row{"event:e", "moon.full", "cus_9", connector.InboxReceived}, ""},
		{"payment", `{"type":"PAYMENT_SENT","eventId":"e","paymentId":"p"}`, row{"event:e", "PAYMENT_SENT", "", connector.InboxIgnored}, ""},
		{"invoice", `{"type":"invoice.created","eventId":"e"}`, row{"event:e", "invoice.created", "", connector.InboxIgnored}, ""},
		{"biller", `{"type":"BILLER_CREATED","eventId":"e"}`, row{"event:e", "BILLER_CREATED", "", connector.InboxIgnored}, ""},
		{"payment of a mandate", `{"type":"MANDATE_PAYMENT","eventId":"e"}`, row{"event:e", "MANDATE_PAYMENT", "", connector.InboxQuarantined}, "It names neither a customer nor a mandate."},
		{"mandate without a customer", `{"type":"dd-mandate","eventId":"e"}`, row{"event:e", "dd-mandate", "", connector.InboxQuarantined}, "It names neither a customer nor a mandate."},
		{"only a mandate", `{"type":"dd-mandate","eventId":"e","mandateId":"m-9"}`, row{"event:e", "dd-mandate", "", connector.InboxReceived}, ""},
		{"only a mandate, and no type", `{"eventId":"e","directDebitMandateId":"m-9"}`, row{"event:e", "", "", connector.InboxReceived}, ""},
		{"an invoice of a mandate", `{"type":"invoice.paid","eventId":"e","mandateId":"m-9"}`, row{"event:e", "invoice.paid", "", connector.InboxIgnored}, ""},
		{"none of them", `{"eventId":"e"}`, row{"", "", "", connector.InboxQuarantined}, "It could not be understood: read the delivery: it names no type, no customer and no mandate."},
		{"not JSON", `hello`, row{"", "", "", connector.InboxQuarantined}, "It could not be understood: read the delivery: it is not one JSON value."},
		{"nothing", ``, row{"", "", "", connector.InboxQuarantined}, "It could not be understood: read the delivery: it is not one JSON value."},
		{"two values", `{"customerId":"a"}{"customerId":"b"}`, row{"", "", "", connector.InboxQuarantined}, "It could not be understood: read the delivery: it is not one JSON value."},
		{"twins", `{"customerId":"a","customerid":"b"}`, row{"", "", "", connector.InboxQuarantined}, "It could not be understood: read the delivery: an object has the same key twice."},
		{"broken text", "{\"type\":\"customer\",\"name\":\"Jane \xff\"}", row{"", "", "", connector.InboxQuarantined}, "It could not be understood: read the delivery: the text is not UTF-8."},
		{"a list", `["Jane"]`, row{"", "", "", connector.InboxQuarantined}, "It could not be understood: read the delivery: it is not a JSON object."},
		{"long id", `{"type":"customer","customerId":"` + long + `"}`, row{"", "", "", connector.InboxQuarantined}, "It could not be understood: its type or one of its ids is too long or holds control characters."},
		{"U+0000 in the type", `{"type":"customer\u0000","customerId":"c"}`, row{"", "", "", connector.InboxQuarantined}, "It could not be understood: its type or one of its ids is too long or holds control characters."},
		{"U+0000 in the customer's id", `{"type":"customer","customerId":"c\u0000"}`, row{"", "", "", connector.InboxQuarantined}, "It could not be understood: its type or one of its ids is too long or holds control characters."},
		{"U+0000 in the mandate's id", `{"type":"dd-mandate","mandateId":"\u0000m"}`, row{"", "", "", connector.InboxQuarantined}, "It could not be understood: its type or one of its ids is too long or holds control characters."},
		{"U+0000 in the event's id", `{"type":"customer","customerId":"c","eventId":"e\u0000"}`, row{"", "", "", connector.InboxQuarantined}, "It could not be understood: its type or one of its ids is too long or holds control characters."},
		{"U+0000 elsewhere", `{"type":"customer","customerId":"c","eventId":"e","name":"\u0000"}`, row{"event:e", "customer", "c", connector.InboxReceived}, ""},
		{"control characters", `{"type":"customer\u001b[31m","customerId":"c"}`, row{"", "", "", connector.InboxQuarantined}, "It could not be understood: its type or one of its ids is too long or holds control characters."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, bodyOnly())
			e.expect(200, delivery(tt.body))
			key, rows := e.lastEvent().Key, e.inbox()
			if len(rows) != 1 {
				t.Fatalf("inbox has %d rows, want 1", len(rows))
			}
			got := rows[0]
			if tt.want.Key == "" { // a hash
				if !strings.HasPrefix(got.Key, "sha256:") {
					t.Errorf("key %q, want a hash", got.Key)
				}
				got.Key = ""
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
			body, err := e.ledger.DeliveryBody(t.Context(), key)
			if err != nil || string(body) != tt.body {
				t.Errorf("kept %q, %v; want the bytes as they came", body, err)
			}
			e.expectDetail(tt.detail)
			e.expectNudges(map[connector.InboxState]int{connector.InboxReceived: 1}[tt.want.State])
		})
	}
}

// expectDetail checks what a person is told of the quarantined deliveries.
func (e *endpoint) expectDetail(want string) {
	e.t.Helper()
	rows, err := e.ledger.Attention(e.t.Context(), state.Filter{State: string(connector.ReasonEventNotUnderstood)})
	if err != nil {
		e.t.Fatal(err)
	}
	var got string
	if len(rows) > 0 {
		got = rows[0].Detail
	}
	if got != want {
		e.t.Errorf("a person is told %q, want %q", got, want)
	}
}

// covers F39, F59
func TestDeliveryThatCannotBeStoredIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	if err := e.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	w := e.expect(503, delivery(sampleBody))
	if w.Header().Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	if got := e.lastEvent(); got.Outcome != NotStored || !errors.Is(got.Err, state.ErrClosed) {
		t.Errorf("reported %+v, want not_stored with the cause", got)
	}
	e.expectNudges(0)
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

// covers F41
func TestBothSecretsAreAcceptedDuringARotation(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	for i, secret := range []string{hookNew, hookOld} {
		body := fmt.Sprintf(`{"type":"customer","eventId":"e%d","customerId":"cus_1"}`, i)
		r := delivery(body)
		r.Header.Set("X-Signature", mac(secret, body))
		e.expect(200, r)
	}
	if rows := e.inbox(); len(rows) != 2 {
		t.Errorf("inbox has %d rows, want 2", len(rows))
	}
}

// The full numbers of goal G6 are -samples 50 and
// -mutations 1000000.
var (
	sampleCount   = flag.Int("samples", 3, "deliveries of which every bit is flipped")
	mutationCount = flag.Int("mutations", 10_000, "random changes of deliveries to try")
)

// sample returns the nth of a family of deliveries.
func sample(n int) string {
	types := []string{"dd-mandate.updated", "CUSTOMER_UPDATED", "payment", "Ünïcode \\u20ac"}
	return fmt.Sprintf(`{"type":%q,"eventId":"ev-%d","data":{"customerId":"cus_%d","amount":%d.50}}`, types[n%len(types)], n, n*7919, n)
}

// expectRefused checks that a delivery different from a signed one is refused for its signature.
func (e *endpoint) expectRefused(body, signature string) {
	e.t.Helper()
	r := delivery(body)
	r.Header["X-Signature"] = []string{signature}
	if w := e.serve(r); w.Code != http.StatusUnauthorized {
		e.t.Errorf("status %d for body %q with signature %q", w.Code, body, signature)
	}
}

// covers F34, G6
func TestEveryBitFlipAndTruncationIsRefused(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Report = nil })
	for n := range *sampleCount {
		body := sample(n)
		good := mac(hookNew, body)
		for i := range len(body) {
			e.expectRefused(body[:i], good)
			for bit := range 8 {
				e.expectRefused(flipped(body, i, bit), good)
			}
		}
		for i := range len(good) {
			e.expectRefused(body, good[:i])
			for bit := range 8 {
				e.expectRefused(body, flipped(good, i, bit))
			}
		}
	}
	e.expectInbox()
}

// covers F34, G6
func TestMutatedDeliveriesAreRefused(t *testing.T) {
	t.Parallel()
	const seed = 34
	e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Report = nil })
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range *mutationCount {
		body := sample(n)
		good := mac(hookNew, body)
		if random.IntN(2) == 0 {
			e.expectRefused(mutated(random, body), good)
		} else {
			e.expectRefused(body, mutated(random, good))
		}
		if t.Failed() {
			t.Fatalf("mutation %d of seed %d", n, seed)
		}
	}
	e.expectInbox()
}

// mutated returns s with up to four changes, never s itself.
func mutated(random *rand.Rand, s string) string {
	b := []byte(s)
	for range 1 + random.IntN(4) {
		i := random.IntN(len(b) + 1)
		switch random.IntN(4) {
		case 0:
			b = slices.Insert(b, i, byte(random.UintN(256)))
		case 1:
			b = slices.Delete(b, i, min(i+1+random.IntN(8), len(b)))
		case 2:
			b = slices.Insert(b, i, b[i:min(i+random.IntN(16), len(b))]...)
		case 3:
			b[min(i, len(b)-1)] ^= 1 << random.UintN(8)
		}
		if len(b) == 0 {
			break
		}
	}
	if string(b) == s || strings.EqualFold(string(b), s) { // hex has two spellings
		return s + "x"
	}
	return string(b)
}

// keyOf returns the key of a delivery with this body.
func keyOf(name, body string) string {
	sum := sha256.Sum256([]byte(body))
	return name + hex.EncodeToString(sum[:keyBytes])
}

func flipped(s string, i, bit int) string {
	b := []byte(s)
	b[i] ^= 1 << bit
	return string(b)
}

// A sender is held to account for what was refused of it, and for nothing that
// others send from beside it.
//
// covers F40, F111
func TestOnlyWhatIsRefusedCountsAgainstItsSender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Refused = 10 })
		defer shut(t, e.ledger)
		junk := map[string]func(*http.Request){
			"forged":       func(r *http.Request) { r.Header.Set("X-Signature", "forged") },
			"wrong method": func(r *http.Request) { r.Method = http.MethodGet },
			"a form":       func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		}
		for name, spoil := range junk {
			statuses := map[int]int{}
			for i := range 200 {
				r := delivery(sampleBody)
				r.RemoteAddr = fmt.Sprintf("198.51.100.%d:4711", i)
				spoil(r)
				w := e.serve(r)
				if statuses[w.Code]++; w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "1" {
					t.Errorf("Retry-After is %q, want 1", w.Header().Get("Retry-After"))
				}
			}
			if len(statuses) != 2 || statuses[http.StatusTooManyRequests] != 190 {
				t.Errorf("%s: answered %v, want 10 refusals and 190 × 429", name, statuses)
			}
			genuine := delivery(sampleBody)
			genuine.RemoteAddr = "198.51.100.7:4711"
			e.expect(200, genuine) // from the same block
			time.Sleep(2 * time.Second)
		}
		for range 1000 {
			e.expect(200, delivery(sampleBody)) // genuine ones are never too many
		}
	})
}

// All senders behind a proxy have its address, and the limit is the usual one. Time stands still until each
// has been answered, so all of it comes in the same moment.
//
// covers F40, F111
func TestGenuineDeliveriesAreNeverTooManyBesideJunkFromTheirOwnAddress(t *testing.T) {
	t.Parallel()
	const senders, each, junk = 64, 50, 3 * defaultRefused
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, bodyOnly(), func(c *Config) {
			c.Refused, c.Nudge, c.Report = 0, nil, nil
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		})
		defer shut(t, e.ledger)
		send := func(body string, edit func(*http.Request)) int {
			r := delivery(body)
			r.RemoteAddr = "127.0.0.1:4711"
			r.Header.Set("X-Forwarded-For", "203.0.113.7")
			edit(r)
			return e.serve(r).Code
		}
		var genuine, refused outcomes
		var all sync.WaitGroup
		for sender := range senders {
			all.Go(func() {
				for i := range each {
					body := fmt.Sprintf(`{"type":"customer","eventId":"ev-%d-%d","customerId":"cus_1"}`, sender, i)
					genuine[send(body, func(*http.Request) {})].Add(1)
				}
			})
		}
		all.Go(func() {
			for range junk {
				refused[send(sampleBody, func(r *http.Request) { r.Header.Set("X-Signature", "forged") })].Add(1)
			}
		})
		all.Wait()
		if n := genuine.of(http.StatusOK); n != senders*each || len(e.inbox()) != n {
			t.Errorf("the deliveries were answered %v, and the inbox has %d of them", &genuine, len(e.inbox()))
		}
		if refused.of(http.StatusUnauthorized) != defaultRefused || refused.of(http.StatusTooManyRequests) != junk-defaultRefused {
			t.Errorf("the junk was answered %v, want %d refusals and 429 for the rest", &refused, defaultRefused)
		}
	})
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
	if got := e.serve(httptest.NewRequestWithContext(t.Context(), http.MethodGet, ReadyPath, nil)); got.Code != http.StatusOK {
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

func FuzzWebhook(f *testing.F) {
	e := newEndpoint(f, stamped())
	stamp := strconv.FormatInt(noon.Unix(), 10)
	for _, body := range []string{sampleBody, "", "null", `{"customerId":7}`, `{"type":["x"]}`, "\xff", `{"a":` + strings.Repeat("[", 99)} {
		f.Add([]byte(body), mac(hookNew, stamp+"."+body), stamp, "application/json", "")
		f.Add([]byte(body), "forged", stamp, "application/json", "")
	}
	f.Add([]byte(sampleBody), mac(hookOld, "0."+sampleBody), "0", "text/json", "gzip")
	f.Fuzz(func(t *testing.T, body []byte, signature, at, contentType, encoding string) {
		before := stored(t, e.ledger)
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, hookPath, bytes.NewReader(body))
		r.Header["X-Signature"], r.Header["X-Timestamp"] = []string{signature}, []string{at}
		r.Header["Content-Type"], r.Header["Content-Encoding"] = []string{contentType}, []string{encoding}
		w := e.serve(r)
		if w.Code >= 500 || w.Body.Len() > 0 {
			t.Errorf("status %d with %d bytes", w.Code, w.Body.Len())
		}
		signed := slices.ContainsFunc([]string{hookNew, hookOld}, func(secret string) bool {
			return strings.EqualFold(strings.TrimSpace(signature), mac(secret, at+"."+string(body)))
		})
		if added := stored(t, e.ledger) - before; !signed && (added > 0 || w.Code == http.StatusOK) {
			t.Errorf("status %d and %d new rows for a delivery nobody signed", w.Code, added)
		}
	})
}

// stored counts the inbox.
func stored(t *testing.T, l *state.Ledger) (n int) {
	t.Helper()
	funnel, err := l.Funnel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, count := range funnel.Inbox {
		n += count
	}
	return n
}

// BenchmarkWebhookAccept takes in distinct deliveries from 16 senders per
// processor, which is what lets commits share an fsync.
func BenchmarkWebhookAccept(b *testing.B) {
	e := newEndpoint(b, bodyOnly(), func(c *Config) { c.Report = nil })
	handler := e.Handler()
	var n, refused int64
	var mu sync.Mutex
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			body := fmt.Sprintf(`{"type":"dd-mandate.updated","eventId":"ev-%d","customerId":"cus_1"}`, n)
			mu.Unlock()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, delivery(body))
			if w.Code != http.StatusOK {
				mu.Lock()
				refused++
				mu.Unlock()
			}
		}
	})
	if refused > 0 {
		b.Errorf("%d deliveries were refused", refused)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}

// covers F152
func TestADeliveryKeyIsAskedForBesideTheSignatureAndNeverInsteadOfIt(t *testing.T) {
	t.Parallel()
	const key = "the-delivery-key-of-this-month"
	for _, tt := range []struct {
		name, key string
		signed    bool
		status    int
		outcome   Outcome
	}{
		{"both", key, true, 200, Accepted},
		{"no key", "", true, 401, KeyFailed},
		{"the signing secret as key", hookNew, true, 401, KeyFailed},
		{"the key alone", key, false, 401, SignatureFailed},
	} {
		e := newEndpoint(t, bodyOnly(), func(c *Config) {
			c.Keys.Delivery = billing.DeliveryKey{Keys: []connector.Secret{connector.NewSecret(key)}}
		})
		r := delivery(sampleBody)
		r.Header.Set(billing.DeliveryKeyHeader, tt.key)
		if !tt.signed {
			r.Header.Set("X-Signature", mac(key, sampleBody))
		}
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, r)
		if got := e.lastEvent().Outcome; w.Code != tt.status || got != tt.outcome {
			t.Errorf("%s: answered %d, reported %s; want %d, %s", tt.name, w.Code, got, tt.status, tt.outcome)
		}
	}
}

// covers F180
func TestADeliveryThatFitsNoSecretIsHeldAgainstThoseThatThereAreByNow(t *testing.T) {
	t.Parallel()
	const drawn, key = "a-secret-that-was-drawn-just-now", "the-delivery-key-of-this-month"
	broken := errors.New("the ledger cannot be read")
	keysOf := func(t *testing.T, unknown bool, secrets ...string) Keys {
		t.Helper()
		s := bodyOnly()
		s.Secrets = nil
		for _, secret := range secrets {
			s.Secrets = append(s.Secrets, connector.NewSecret(secret))
		}
		v, err := billing.NewVerifier(s)
		if err != nil {
			t.Fatal(err)
		}
		return Keys{Verifier: v, Unknown: unknown}
	}
	for _, tt := range []struct {
		name    string
		signs   string // what the delivery is signed with
		now     Keys   // that there are by now
		err     error
		reads   int
		status  int
		outcome Outcome
	}{
		{"the secret that was known", hookNew, keysOf(t, true, hookNew), nil, 0, 200, Accepted},
		{"one that came meanwhile", drawn, keysOf(t, false, drawn, hookNew), nil, 1, 200, Accepted},
		{"one that is on its way", drawn, keysOf(t, true, hookNew), nil, 1, 503, SecretUnknown},
		{"one that nobody waits for", drawn, keysOf(t, false, hookNew), nil, 1, 401, SignatureFailed},
		{"one that cannot be looked for", drawn, keysOf(t, false, hookNew), broken, 1, 503, NotStored},
		{"none at all", "", keysOf(t, true, hookNew), nil, 0, 401, SignatureFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			reads := 0
			e := newEndpoint(t, bodyOnly(), func(c *Config) {
				c.Renew = func(context.Context) (Keys, error) { reads++; return tt.now, tt.err }
			})
			r := delivery(sampleBody)
			if r.Header.Set("X-Signature", mac(tt.signs, sampleBody)); tt.signs == "" {
				r.Header.Del("X-Signature")
			}
			w := httptest.NewRecorder()
			e.Handler().ServeHTTP(w, r)
			if got := e.lastEvent().Outcome; w.Code != tt.status || got != tt.outcome || reads != tt.reads {
				t.Errorf("answered %d, reported %s after %d reads; want %d, %s, %d", w.Code, got, reads, tt.status, tt.outcome, tt.reads)
			}
			if again := w.Header().Get("Retry-After") != ""; again != (tt.status == 503) {
				t.Errorf("it is to be sent again: %v", again)
			}
		})
	}
	t.Run("a delivery key that came meanwhile", func(t *testing.T) {
		t.Parallel()
		now := keysOf(t, false, hookNew)
		now.Delivery.Keys = []connector.Secret{connector.NewSecret(key)}
		e := newEndpoint(t, bodyOnly(), func(c *Config) {
			c.Keys.Delivery.Keys = []connector.Secret{connector.NewSecret("the-delivery-key-of-last-month")}
			c.Renew = func(context.Context) (Keys, error) { return now, nil }
		})
		r := delivery(sampleBody)
		r.Header.Set(billing.DeliveryKeyHeader, key)
		w := httptest.NewRecorder()
		if e.Handler().ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("answered %d", w.Code)
		}
	})
	t.Run("one that another process has replaced, while nothing came", func(t *testing.T) {
		t.Parallel()
		reads := 0
		e := newEndpoint(t, bodyOnly(), func(c *Config) {
			c.Renew = func(context.Context) (Keys, error) { reads++; return keysOf(t, false, drawn), nil }
		})
		for i, want := range []int{200, 200, 401, 401} { // the second within the minute
			w := httptest.NewRecorder()
			if e.Handler().ServeHTTP(w, delivery(sampleBody)); w.Code != want {
				t.Errorf("delivery %d, at %s: answered %d, want %d", i, e.clock(), w.Code, want)
			}
			e.pass(40 * time.Second)
		}
		if reads != 3 {
			t.Errorf("%d reads, want one when the minute was over and one for each that did not fit", reads)
		}
	})
	t.Run("when one is accepted no more", func(t *testing.T) {
		t.Parallel()
		e := newEndpoint(t, bodyOnly(), func(c *Config) {
			c.Keys.Until = noon.Add(time.Hour)
			c.Renew = func(context.Context) (Keys, error) { return keysOf(t, false, drawn), nil }
		})
		for _, want := range []int{200, 401} {
			w := httptest.NewRecorder()
			if e.Handler().ServeHTTP(w, delivery(sampleBody)); w.Code != want {
				t.Errorf("at %s: answered %d, want %d", e.clock(), w.Code, want)
			}
			e.pass(time.Hour)
		}
	})
}

// A proxy in front may hand a path on that is shorter than the public one.
func TestTheEndpointIsWhereTheProxyHandsItOn(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Path = "/billing" })
	front := http.StripPrefix("/webhooks", e.Handler())
	for path, want := range map[string]int{"/webhooks/billing": 200, "/webhooks/webhooks/billing": 404} {
		r := delivery(sampleBody)
		r.URL.Path = path
		w := httptest.NewRecorder()
		if front.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: answered %d, want %d", path, w.Code, want)
		}
	}
}

// Headers are no JSON: they may hold any bytes, and are what the type and the delivery's id are read from.
func TestADeliveryIsKeptOnceWhateverItsHeadersHold(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"broken text": "CUSTOMER\xff", "U+0000": "CUSTOMER\x00", "Latin-1": "KUND\xc4"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			h.Set("adfin-webhook-type", text)
			d, event := Understand(billing.DefaultEventPaths(), h, []byte(`{"customerId":"c"}`))
			if d.State != connector.InboxQuarantined || d.Type != "" || d.TypeHeader != "" || d.BillingID != "" || event != "" {
				t.Errorf("understood as %+v", d)
			}
			key := identity(billing.Signed{DeliveryID: text}, "", []byte("{}"))
			if key != identity(billing.Signed{}, "", []byte("{}")) {
				t.Errorf("the key is %q", key)
			}
		})
	}
}
