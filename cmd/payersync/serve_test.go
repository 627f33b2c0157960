package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"payersync/connector"
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
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+w.hooks+"/webhooks/billing", bytes.NewReader(body))
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
		{"oversized without length", 413, func(r *http.Request) { setBody(r, make([]byte, 256<<10+1)); r.ContentLength = -1 }},
		{"compressed", 415, func(r *http.Request) { setBody(r, compress(t, body)); r.Header.Set("Content-Encoding", "gzip") }},
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
	if r := w.expect(exitDone, "webhooks", "list"); !strings.Contains(r.errOut, fmt.Sprintf("Not listed: %d requests to the endpoint, refused in the last 7 days; payersync status has the reason", len(tests))) {
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
		t.Errorf("%d requests: %d are told of, in %d lines and %d bytes, want all and at most %d bytes", sent, told, lines, len(log)-before, mostBytes)
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
	if want := map[string]int{"reflected": 2, "parked": 1, "ignored": 1, "quarantined": 2}; fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("inbox = %v, want %v", count, want)
	}
	serve.stop()
}

// A batch that came before the configuration named its list is split when it is replayed.
//
// covers F287
func TestAQuarantinedBatchIsSplitWhenItIsReplayed(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{"all": {"webhooks", "replay", "--quarantined"}, "one": {"webhooks", "replay", "event:B1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, people(2))
			w.expect(exitDone, "sync")
			first, second := w.mandateOf("A00001"), w.mandateOf("A00002")
			serve := w.serve()
			w.must(w.box.Sign(first.ID))
			w.must(w.box.Sign(second.ID))
			batch := `{"type":"batch","eventId":"B1","batch":{"entries":[{"type":"dd-mandate","customerId":"` + first.CustomerID + `"},{"type":"dd-mandate","customerId":"` + second.CustomerID + `"},{"about":"x"}]}}`
			if status, _ := post(t, w.delivery([]byte(batch))); status != http.StatusOK {
				t.Fatalf("the batch was answered %d", status)
			}
			serve.stop()
			w.edit("payersync.yaml", "    signature: {", "    event_paths: {events: [batch.entries]}\n    signature: {")
			r := w.expect(exitDone, command...)
			if name == "all" && !strings.Contains(r.out, "1 delivery understood now") || !strings.Contains(r.out, "2 customers read again") {
				t.Errorf("replaying says:\n%s", r.out)
			}
			for _, id := range []string{"A00001", "A00002"} {
				if got := w.mandateStatus(id); got != "PENDING" {
					t.Errorf("the mandate of %s is %s in the ledger, want PENDING", id, got)
				}
			}
			count := map[string]int{}
			for _, d := range w.inbox() {
				count[d.State]++
			}
			if want := map[string]int{"reflected": 2, "ignored": 1, "quarantined": 1}; fmt.Sprint(count) != fmt.Sprint(want) {
				t.Errorf("inbox = %v, want %v", count, want)
			}
		})
	}
}

// A delivery that names only a mandate reaches its customer, and one that was not
// understood can be seen, read anew with better paths, and given up.
//
// covers F38, F42
func TestQuarantinedDeliveriesCanBeSeenReplayedAndClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	first, second := w.mandateOf("A00001"), w.mandateOf("A00002")
	serve := w.serve()
	w.must(w.box.Sign(first.ID))
	w.must(w.box.Sign(second.ID))
	odd := `{"type":"dd-mandate","eventId":"odd","payload":{"debtor":"` + second.CustomerID + `","name":"Jane Doe"}}`
	for _, body := range []string{`{"type":"dd-mandate","eventId":"bare","mandateId":"` + first.ID + `"}`, odd, "not JSON, says Jane Doe"} {
		if status, _ := post(t, w.delivery([]byte(body))); status != http.StatusOK {
			t.Fatalf("%s was answered %d", body, status)
		}
	}
	w.reflected(1)
	serve.stop()
	if got := w.mandateStatus("A00001"); got != "PENDING" {
		t.Errorf("the mandate that a delivery named is %s in the ledger, want PENDING", got)
	}
	listed := decodeLines[state.InboxRow](t, w.expect(exitDone, "webhooks", "list", "--state", "quarantined", "--output", "json"))
	if n := w.needsPerson("event_not_understood"); len(listed) != 2 || n != 2 {
		t.Fatalf("quarantined are %+v, and status says %d; want two", listed, n)
	}

	shown := w.expect(exitDone, "webhooks", "show", "event:odd").out
	for _, want := range []string{"It names neither a customer nor a mandate.", "payload.debtor", "quarantined"} {
		if !strings.Contains(shown, want) {
			t.Errorf("show does not say %q:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "Jane") || strings.Contains(shown, second.CustomerID) {
		t.Errorf("show prints values:\n%s", shown)
	}
	if whole := w.expect(exitDone, "webhooks", "show", "event:odd", "--body").out; !strings.Contains(whole, odd) {
		t.Errorf("show --body prints:\n%s", whole)
	}
	if r := w.expect(exitDone, "webhooks", "list", "--shapes"); !strings.Contains(r.out, `customer_id: ["customerId", `) || !strings.Contains(r.out, `"payload.debtor"]`) || strings.Contains(r.out, "Jane") {
		t.Errorf("shapes prints:\n%s", r.out)
	}
	if r := w.expect(exitFailed, "webhooks", "replay", "event:odd"); !strings.Contains(r.errOut, "name its members in billing.webhook.event_paths") {
		t.Errorf("replaying what is still not understood says: %s", r.errOut)
	}
	if r := w.expect(exitDone, "webhooks", "replay", "--quarantined"); !strings.Contains(r.out, "0 deliveries understood now, 2 not.") || !strings.Contains(r.out, "1: It names neither a customer nor a mandate.") {
		t.Errorf("replaying all that is still not understood says:\n%s", r.out)
	}
	w.edit("payersync.yaml", "    signature: {", "    event_paths: {customer_id: [payload.debtor]}\n    signature: {")
	if r := w.expect(exitDone, "webhooks", "replay", "--quarantined"); !strings.Contains(r.out, "1 delivery understood now, 1 not.") || !strings.Contains(r.out, "1 customer read again") {
		t.Errorf("replaying what is understood by now says:\n%s", r.out)
	}
	w.expect(exitDone, "webhooks", "replay", "event:odd")
	if got := w.mandateStatus("A00002"); got != "PENDING" {
		t.Errorf("the mandate of the replayed delivery is %s in the ledger, want PENDING", got)
	}

	garbage := w.onlyQuarantined()
	if r := w.expect(exitUsage, "webhooks", "close", garbage); !strings.Contains(r.errOut, "takes a reason") {
		t.Errorf("closing without a reason says: %s", r.errOut)
	}
	w.expect(exitDone, "webhooks", "close", garbage, "--reason", "a test of the provider")
	if left := w.needsPerson("event_not_understood"); left != 0 {
		t.Errorf("%d deliveries need a person after one was replayed and one closed", left)
	}
	if r := w.expect(exitDone, "webhooks", "close", garbage, "--reason", "again"); !strings.Contains(r.errOut, "was closed before") {
		t.Errorf("closing twice says: %s", r.errOut)
	}
	for _, text := range []string{"show delivery body", "replay delivery", "close delivery", "a test of the provider"} {
		if !w.audited(text) {
			t.Errorf("the audit log does not hold %q", text)
		}
	}
}

// needsPerson returns how many records need a person for a reason.
func (w *world) needsPerson(reason string) int {
	w.t.Helper()
	var status struct {
		Attention map[string]int `json:"attention"`
	}
	if err := json.Unmarshal([]byte(w.expect(exitDone, "status", "--output", "json").out), &status); err != nil {
		w.t.Fatal(err)
	}
	return status.Attention[reason]
}

// onlyQuarantined returns the key of the one delivery that is quarantined.
func (w *world) onlyQuarantined() string {
	w.t.Helper()
	rows := decodeLines[state.InboxRow](w.t, w.expect(exitDone, "webhooks", "list", "--state", "quarantined", "--output", "json"))
	if len(rows) != 1 {
		w.t.Fatalf("quarantined are %+v, want one", rows)
	}
	return rows[0].DeliveryKey
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
	if r := w.expect(exitFailed, "webhooks", "replay", "event:none"); !strings.Contains(r.errOut, "payersync webhooks list shows the keys") {
		t.Errorf("an unknown delivery says: %s", r.errOut)
	}
	serve.stop()
}

func TestHealthcheckAndTestDeliveryAskARunningServe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitFailed, "healthcheck")
	if r := w.expect(exitFailed, "webhooks", "subscribe", "--test", "--local"); !strings.Contains(r.errOut, "is payersync serve running?") {
		t.Errorf("without a serve it says: %s", r.errOut)
	}
	serve := w.serve()
	w.expect(exitDone, "healthcheck")
	for _, args := range [][]string{{"webhooks", "subscribe", "--test", "--local"}, {"webhooks", "subscribe", "--test"}} {
		if r := w.expect(exitDone, args...); !strings.Contains(r.out, "signed deliveries arrive") {
			t.Errorf("%s says %s", args, r.out)
		}
	}
	if stored := w.inbox(); len(stored) != 2 || stored[0].State != "ignored" {
		t.Errorf("stored: %+v", stored)
	}
	w.write("webhook.secret", "another-secret-that-is-32-bytes-long\n")
	if r := w.expect(exitFailed, "webhooks", "subscribe", "--test", "--local"); !strings.Contains(r.errOut, "that is the answer to another secret") {
		t.Errorf("with another secret it says: %s", r.errOut)
	}
	if r := w.expect(exitFailed, "webhooks", "subscribe", "--test", "--local", "--output", "json"); !strings.Contains(r.out, `"status":401`) {
		t.Errorf("with another secret it prints: %s", r.out)
	}
	serve.stop()
}

// covers F67
func TestServeStopsWithoutLosingTheRequestsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	serve := w.serve()
	payload := event("slow", w.mandateOf("A00001").CustomerID)
	req := w.delivery(payload)
	slow, body := io.Pipe()
	req.Body, req.ContentLength = slow, int64(len(payload))
	req.Header.Set("Expect", "100-continue")
	client := &http.Client{Timeout: patience, Transport: &http.Transport{ExpectContinueTimeout: patience}}
	answered := make(chan int, 1)
	go func() {
		resp, err := client.Do(req)
		if err != nil {
			answered <- 0
			return
		}
		_ = resp.Body.Close() // it has none
		answered <- resp.StatusCode
	}()
	// The client asks for the body only when serve has asked for it: from here on
	// the request is under way.
	if _, err := body.Write(payload[:10]); err != nil {
		t.Fatal(err)
	}
	serve.signal(syscall.SIGTERM)
	eventually(t, "serve to take nothing new", func() bool {
		resp, err := client.Get("http://" + w.hooks + "/healthz")
		if err == nil {
			_ = resp.Body.Close() // it has none
		}
		return err != nil
	})
	if _, err := body.Write(payload[10:]); err != nil {
		t.Fatal(err)
	}
	w.must(body.Close())
	if status := await(t, "the answer", answered); status != http.StatusOK {
		t.Errorf("the request under way was answered %d", status)
	}
	if r := serve.wait(); r.code != exitDone || !strings.Contains(r.errOut, "payersync stops") {
		t.Errorf("serve ended with %d:\n%s", r.code, r.errOut)
	}
	if stored := w.inbox(); len(stored) != 1 {
		t.Errorf("stored: %+v", stored)
	}
}

// Each round kills serve the moment the first of several deliveries is answered.
// Every delivery that was answered with 2xx must be in the inbox afterwards.
//
// covers F39, S10, L3
func TestAnAcknowledgedDeliverySurvivesAKillAtTheNextInstant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	customer := w.mandateOf("A00001").CustomerID
	acknowledged := map[string]bool{}
	for round := range 6 {
		serve := w.serve()
		for _, id := range w.deliverAndKill(serve, round, customer) {
			acknowledged["event:"+id] = true
		}
		serve.wait()
		if len(acknowledged) <= round {
			t.Fatalf("round %d acknowledged nothing", round)
		}
	}
	for _, d := range w.inbox() {
		delete(acknowledged, withoutHash(d.DeliveryKey))
	}
	for key := range acknowledged {
		t.Errorf("%s was acknowledged and is lost", key)
	}
	serve := w.serve()
	eventually(t, "every delivery to be reflected", func() bool {
		for _, d := range w.inbox() {
			if d.State != "reflected" && d.State != "superseded" {
				return false
			}
		}
		return true
	})
	serve.stop()
	if check := w.expect(exitDone, "check"); !strings.Contains(check.out, "whole, both hash chains hold") {
		t.Errorf("check says:\n%s", check.out)
	}
}

// deliverAndKill sends eight deliveries at once, kills serve at the first 2xx and
// returns the ids of all that were answered with one.
func (w *world) deliverAndKill(serve *process, round int, customer string) (acknowledged []string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range 8 {
		id := fmt.Sprintf("round-%d-%d", round, i)
		req := w.delivery(event(id, customer)).WithContext(ctx)
		group.Go(func() {
			resp, err := client.Do(req)
			if err != nil {
				return // the kill came first
			}
			_ = resp.Body.Close() // it has none
			if resp.StatusCode/100 != 2 {
				return
			}
			serve.signal(syscall.SIGKILL)
			mu.Lock()
			defer mu.Unlock()
			acknowledged = append(acknowledged, id)
		})
	}
	group.Wait()
	return acknowledged
}

// covers F72
func TestServeRunsWhatItsSchedulesMissed(t *testing.T) {
	t.Parallel()
	rows := people(3)
	w := newWorld(t, rows)
	w.edit("payersync.yaml", "mapping: mapping.yaml}", "mapping: mapping.yaml, schedule: \"@yearly\"}")
	serve := w.serve()
	eventually(t, "the run that was missed", func() bool { return strings.Contains(serve.errOut.String(), "run ended") })
	w.expectOnePerRow(rows)
	if last := w.lastRun(); last.Trigger != "catch_up" || last.Outcome != "complete" {
		t.Errorf("the run is %+v", last)
	}
	serve.stop()
	l, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := l.Jobs(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(jobs, func(j state.JobRow) bool { return strings.HasPrefix(j.Name, "sync ") })
	if i < 0 || jobs[i].Outcome != "done" || jobs[i].DoneAt.IsZero() || jobs[i].BegunAt.IsZero() {
		t.Errorf("the ledger shows the jobs %+v", jobs)
	}
	again := w.serve()
	again.stop()
	if last := w.lastRun(); last.RunID != 1 {
		t.Errorf("run %d was made although nothing was missed", last.RunID)
	}
}

func TestServeGoesOnAtOnceWithTheRunOfAKilledProcess(t *testing.T) {
	t.Parallel()
	rows := people(3)
	w := newWorld(t, rows)
	w.edit("payersync.yaml", "mapping: mapping.yaml}", "mapping: mapping.yaml, schedule: \"@yearly\"}")
	w.expect(exitDone, "backfill", "--yes")
	first := w.lastRun()
	l, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Do(t.Context(), func(tx *state.Tx) error {
		_, err := tx.OpenRun(state.NewRun{Connection: first.Connection, Kind: connector.RunSync, Trigger: "manual", Mapping: hashOf([]byte(worldMapping)), Holder: "a process that was killed"})
		return err
	}), l.Close()); err != nil {
		t.Fatal(err)
	}
	serve := w.serve()
	eventually(t, "the run that goes on", func() bool { return strings.Contains(serve.errOut.String(), "run ended") })
	serve.stop()
	if last := w.lastRun(); last.RunID != first.RunID+2 || last.Trigger != "catch_up" || last.Outcome != "complete" {
		t.Errorf("the run is %+v", last)
	}
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
	if refused := w.expect(exitFailed, "serve"); !strings.Contains(refused.errOut, "choose another address in server.health") {
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
	if refused := w.expect(exitFailed, "serve"); !strings.Contains(refused.errOut, "choose another address in server.webhooks") {
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
	if status, body := fetch(t, "http://"+address+"/runs"); status != http.StatusUnauthorized || !strings.Contains(body, "payersync pages link") {
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
	if second := w.expect(exitFailed, "serve"); !strings.Contains(second.errOut, "another payersync serve works on the ledger") {
		t.Errorf("a second serve says: %s", second.errOut)
	}
	first.signal(syscall.SIGKILL)
	first.wait()
	w.serve().stop()
}
