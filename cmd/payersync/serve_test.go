package main

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"payersync/state"
)

// serve starts payersync serve and waits until it takes webhooks.
func (w *world) serve() *process {
	w.t.Helper()
	p := w.start("serve")
	eventually(w.t, "serve to listen", func() bool {
		select {
		case <-p.ended:
			w.t.Fatalf("serve ended by itself:\n%s", &p.errOut)
		default:
		}
		resp, err := client.Get("http://" + w.hooks + "/healthz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close() // it has none
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// delivery returns a webhook as the service would send it, rightly signed.
func (w *world) delivery(body []byte) *http.Request {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+w.hooks+"/webhooks/billing",
		bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("x-signature", signature(body))
	return req
}

func signature(body []byte) string {
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// event is the body of a webhook that speaks of a customer.
func event(id, customer string) []byte {
	return fmt.Appendf(nil, `{"type":"dd-mandate","eventId":%q,"customerId":%q,"status":"ACTIVE"}`, id, customer)
}

// inbox returns the deliveries that the ledger has.
func (w *world) inbox() []state.InboxRow {
	w.t.Helper()
	return decodeLines[state.InboxRow](w.t, w.expect(exitDone, "webhooks", "list", "--limit", "0", "--output", "json"))
}

// withoutHash returns a delivery's key as far as the sender's id goes.
func withoutHash(key string) string { return key[:strings.LastIndex(key, ":")] }

// reflected waits until n deliveries are reflected.
func (w *world) reflected(n int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d reflected deliveries", n), func() bool {
		done := 0
		for _, d := range w.inbox() {
			if d.State == "reflected" {
				done++
			}
		}
		return done >= n
	})
}

// stop ends a serve as its supervisor would.
func (p *process) stop() result {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	r := p.wait()
	if r.code != exitDone {
		p.t.Errorf("serve ended with %d after SIGTERM, want 0:\n%s", r.code, r.errOut)
	}
	return r
}

// covers F34, F37, F179, S11
func TestNothingUnsignedIsTakenIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	customer := w.mandateOf("A00001").CustomerID
	serve := w.serve()
	body := event("forged", customer)
	tests := []struct {
		name  string
		want  int
		forge func(*http.Request)
	}{
		{"unsigned", 401, func(r *http.Request) { r.Header.Del("x-signature") }},
		{"blank signature", 401, func(r *http.Request) { r.Header.Set("x-signature", "") }},
		{"forged", 401, func(r *http.Request) { r.Header.Set("x-signature", strings.Repeat("ab", 32)) }},
		{"signature of another body", 401, func(r *http.Request) { r.Header.Set("x-signature", signature([]byte("{}"))) }},
		{"truncated", 401, func(r *http.Request) { setBody(r, body[:len(body)-1]) }},
		{"one byte more", 401, func(r *http.Request) { setBody(r, append(bytes.Clone(body), ' ')) }},
		{"oversized", 413, func(r *http.Request) { setBody(r, make([]byte, 256<<10+1)) }},
		{"oversized without length", 413,
			func(r *http.Request) { setBody(r, make([]byte, 256<<10+1)); r.ContentLength = -1 }},
		{"compressed", 415, func(r *http.Request) {
			setBody(r, compress(t, body))
			r.Header.Set("Content-Encoding",
				"gzip")
		}},
		{"not JSON", 415, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }},
		{"wrong method", 405, func(r *http.Request) { r.Method = http.MethodPut }},
		{"wrong path", 404, func(r *http.Request) { r.URL.Path = "/webhooks" }},
	}
	for _, tt := range tests {
		req := w.delivery(body)
		tt.forge(req)
		status, answer := post(t, req)
		if status != tt.want || answer != "" {
			t.Errorf("%s: answered %d %q, want %d and no body", tt.name, status, answer, tt.want)
		}
	}
	if stored := w.inbox(); len(stored) != 0 {
		t.Errorf("stored: %+v", stored)
	}
	log := serve.stop().errOut
	if refused, _ := refusals(t, log); strings.Contains(log, "forged") || refused != len(tests) {
		t.Errorf("the log should tell of each refusal and of no body:\n%s", log)
	}
	// serve has written them at its end, whatever its interval.
	if r := w.expect(exitDone, "webhooks", "list"); !strings.Contains(r.errOut,
		fmt.Sprintf("Not listed: %d requests to the endpoint, refused in the last 7 days; payersync status has the reason",
			len(tests))) {
		t.Errorf("the list says: %s", r.errOut)
	}
	if r := w.expect(exitDone, "webhooks", "list", "--output", "json"); r.out != "" {
		t.Errorf("for programs the list has %s", r.out)
	}
	if status := w.expect(exitDone, "status").out; !strings.Contains(status, "The signature did not fit, or was too old") {
		t.Errorf("the status says: %s", status)
	}
}

// refusals returns of how many refusals a log tells, and in how many lines.
func refusals(t *testing.T, log string) (told, lines int) {
	t.Helper()
	for line := range strings.Lines(log) {
		var entry struct {
			Msg   string
			Count int
		}
		if !strings.HasPrefix(line, "{") {
			continue // what is said to whoever stops it
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%v in the log line %s", err, line)
		}
		if entry.Msg == "webhook refused" {
			told, lines = told+entry.Count, lines+1
		}
	}
	return told, lines
}

// Requests of every kind and from more places than are counted apart, each full of
// words that nobody should read.
//
// covers F91, F111
func TestStrangersDoNotWriteTheLog(t *testing.T) {
	t.Parallel()
	const sent, mostBytes = 6000, 200_000
	w := newWorld(t, people(1))
	serve := w.serve()
	before := len(serve.errOut.String())
	client := &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	var senders sync.WaitGroup
	for sender := range 8 {
		senders.Go(func() {
			for n := sender; n < sent; n += 8 {
				if status := w.junk(client, n); status < 400 || status >= 500 {
					t.Errorf("request %d was answered %d", n, status)
					return
				}
			}
		})
	}
	senders.Wait()
	log := serve.stop().errOut
	told, lines := refusals(t, log[before:])
	t.Logf("%d requests made %d lines, %d bytes", sent, lines, len(log)-before)
	if told != sent || lines > 2*(maxTallied+10) || len(log)-before > mostBytes {
		t.Errorf("%d requests: %d are told of, in %d lines and %d bytes, want all and at most %d bytes", sent, told, lines,
			len(log)-before, mostBytes)
	}
	for _, text := range []string{"STRANGER", "stranger"} {
		if i := strings.Index(log, text); i >= 0 {
			t.Errorf("a stranger's words are in the log: %s", log[max(0, i-200):i+100])
		}
	}
}

// junk sends the nth of many requests that are no deliveries, and returns how it
// was answered.
func (w *world) junk(client *http.Client, n int) int {
	req := w.delivery([]byte(`{"type":"STRANGER"}`))
	req.URL.RawQuery = "STRANGER=1"
	req.Header.Set("X-Forwarded-For", fmt.Sprintf("198.%d.%d.7", 18+n%2, n/4%250))
	for _, name := range []string{"User-Agent", "Referer", "X-Stranger", "X-Signature"} {
		req.Header.Set(name, "STRANGER")
	}
	switch n % 4 {
	case 0:
		req.Method = "STRANGER"
	case 1:
		req.Header.Set("Content-Type", "text/stranger")
	case 2:
		req.Header.Set("Content-Encoding", "stranger")
	}
	resp, err := client.Do(req)
	if err != nil {
		w.t.Error(err)
		return 0
	}
	_ = resp.Body.Close() // it has none
	return resp.StatusCode
}

func setBody(r *http.Request, body []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

func compress(t *testing.T, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// post sends a request and returns the answer's status and body.
func post(t testing.TB, req *http.Request) (status int, body string) {
	t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// A webhook says that a mandate is active; only what the service itself then
// says goes into the ledger.
//
// covers F31, F32, F38, F42, L3
func TestASignedDeliveryIsReflectedByAskingTheService(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	first, second := w.mandateOf("A00001"), w.mandateOf("A00002")
	serve := w.serve()
	w.must(w.box.Sign(first.ID))
	for range 3 { // the same delivery comes three times
		if status, _ := post(t, w.delivery(event("ev-1", first.CustomerID))); status != http.StatusOK {
			t.Fatalf("a signed delivery was answered %d", status)
		}
	}
	for _, odd := range [][]byte{
		event("ev-2", second.CustomerID), event("ev-3", "a customer nobody knows"),
		[]byte(`{"type":"invoice","eventId":"ev-4"}`), []byte(`{"type":"dd-mandate","eventId":"ev-5"}`), []byte(`not JSON`),
	} {
		if status, _ := post(t, w.delivery(odd)); status != http.StatusOK {
			t.Errorf("%s was answered %d", odd, status)
		}
	}
	w.reflected(2)
	if got := w.mandateStatus("A00001"); got != "PENDING" {
		t.Errorf("the signed mandate is %s in the ledger, want PENDING as in the service", got)
	}
	if got := w.mandateStatus("A00002"); got != "CREATED" {
		t.Errorf("the other mandate is %s in the ledger: the webhook was believed", got)
	}
	count := map[string]int{}
	for _, d := range w.inbox() {
		count[d.State]++
	}
	if want := map[string]int{"reflected": 2, "parked": 1, "ignored": 1,
		"quarantined": 2}; fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("inbox = %v, want %v", count, want)
	}
	serve.stop()
}

// The service's own webhooks, from subscription to ledger.
func TestTheServicesWebhooksReachTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.expect(exitDone, "sync")
	if r := w.expect(exitDone, "webhooks", "subscribe"); !strings.Contains(r.out, "Subscribed to [dd-mandate customer]") {
		t.Errorf("it says %s", r.out)
	}
	serve := w.serve()
	for _, id := range []string{"A00001", "A00002"} {
		w.must(w.box.Sign(w.mandateOf(id).ID))
		w.must(w.box.Approve(w.mandateOf(id).ID))
	}
	w.must(w.box.BankCancel(w.mandateOf("A00002").ID, "ACCOUNT_CLOSED"))
	sent, err := w.box.Deliver(t.Context())
	if err != nil || sent != 5 {
		t.Fatalf("%d of 5 webhooks delivered (%v)", sent, err)
	}
	w.reflected(5)
	for id, want := range map[string]string{"A00001": "ACTIVE", "A00002": "CANCELLED", "A00003": "CREATED"} {
		if got := w.mandateStatus(id); got != want {
			t.Errorf("%s is %s in the ledger, want %s", id, got, want)
		}
	}
	w.expect(exitDone, "webhooks", "replay", w.inbox()[0].DeliveryKey)
	if r := w.expect(exitFailed, "webhooks", "replay", "event:none"); !strings.Contains(r.errOut,
		"payersync webhooks list shows the keys") {
		t.Errorf("an unknown delivery says: %s", r.errOut)
	}
	serve.stop()
}

// covers F111
func TestHealthMayHaveAListenerOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	health := freeAddress(t)
	w.edit("payersync.yaml", `admin: ""`, fmt.Sprintf("health: %q", health))
	hooks := w.hooks
	w.hooks = health
	serve := w.serve() // which waits for the health page
	w.expect(exitDone, "healthcheck")
	for _, address := range []string{hooks, health} {
		want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}
		w.hooks = address
		if status, _ := post(t, w.delivery([]byte(`{"type":"customer","eventId":"ev-1","customerId":"c1"}`))); status != want[address == hooks] {
			t.Errorf("a delivery to %s was answered %d", address, status)
		}
		for _, page := range []string{"/healthz", "/readyz"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+page, nil)
			if err != nil {
				t.Fatal(err)
			}
			if status, _ := post(t, req); status != want[address == health] {
				t.Errorf("%s at %s was answered %d", page, address, status)
			}
		}
	}
	serve.stop()
	w.hooks = hooks
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", health)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if refused := w.expect(exitFailed, "serve"); !strings.Contains(refused.errOut,
		"choose another address in server.health") {
		t.Errorf("serve says: %s", refused.errOut)
	}
}

func TestServeNeedsItsAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", w.hooks)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if refused := w.expect(exitFailed, "serve"); !strings.Contains(refused.errOut,
		"choose another address in server.webhooks") {
		t.Errorf("serve says: %s", refused.errOut)
	}
}

// A container is asked for its health whether it takes webhooks or not.
func TestServeWithoutAWebhookHasHealthPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	config := w.config()
	from, to := strings.Index(config, "  webhook:"), strings.Index(config, "connections:")
	w.write("payersync.yaml", config[:from]+config[to:])
	serve := w.serve()
	w.expect(exitDone, "healthcheck")
	if status, _ := post(t, w.delivery(event("ev-1", "c1"))); status != http.StatusNotFound {
		t.Errorf("a delivery was answered %d, want 404: nothing says how it is signed", status)
	}
	if log := serve.stop().errOut; !strings.Contains(log, "changes are found by the sweep alone") {
		t.Errorf("the log does not say that no webhook is configured:\n%s", log)
	}
}

// fetch returns the status and the body of an answer to a GET.
func fetch(t *testing.T, address string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestServeShowsThePagesToWhoHasALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	address := freeAddress(t)
	w.edit("payersync.yaml", `admin: ""`, `admin: "`+address+`"`)
	w.serve()
	if status, body := fetch(t, "http://"+address+"/runs"); status != http.StatusUnauthorized ||
		!strings.Contains(body, "payersync pages link") {
		t.Errorf("whoever is not signed in was answered %d:\n%s", status, body)
	}
	link := strings.TrimSpace(w.expect(exitDone, "pages", "link", "--role", "viewer").out)
	if status, body := fetch(t, link); status != http.StatusOK || !strings.Contains(body, "viewer") {
		t.Errorf("the link was answered %d:\n%s", status, body)
	}
}

// A ledger is served once, also where the second process has an address of its
// own; when the first is killed, the next may serve at once.
//
// covers F62, F67
func TestOneLedgerIsServedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	first := w.serve()
	own := freeAddress(t)
	w.edit("payersync.yaml", `webhooks: "`+w.hooks, `webhooks: "`+own)
	w.hooks = own
	if second := w.expect(exitFailed, "serve"); !strings.Contains(second.errOut,
		"another payersync serve works on the ledger") {
		t.Errorf("a second serve says: %s", second.errOut)
	}
	first.signal(syscall.SIGKILL)
	first.wait()
	w.serve().stop()
}
