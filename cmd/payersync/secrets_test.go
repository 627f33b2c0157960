package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"payersync/connector/sandbox"
)

// The values of the payers in the canary test. Each is unlike anything that
// payersync would write by itself.
const (
	canaryName   = "Quetzalcoatl Ltd"
	canaryEmail  = "quetzal@feathered.example"
	canaryPhone  = "01632 960777"
	canaryStreet = "7 Obsidian Terrace"
	canaryBank   = "70714243"
	canaryReason = "PAYER_DECEASED_CANARY"
)

// canaryPeople are more payers with only their ids allowed in output. With the others, the secrets and the
// service's own values, there are more than sixty values.
func canaryPeople() (rows []row) {
	for i, name := range []string{"Xiuhtecuhtli", "Tlahuizcalpantecuhtli", "Chalchiuhtlicue", "Huehuecoyotl",
		"Mictecacihuatl", "Tezcatlipoca", "Itzpapalotl", "Coyolxauhqui", "Nezahualcoyotl", "Cuauhtemoc", "Moctezuma"} {
		rows = append(rows, row{
			ID: fmt.Sprintf("Z%d", i), Name: name + " & Sons", Email: strings.ToLower(name) + "@obsidian.example",
			Phone: fmt.Sprintf("01632 9601%02d", i+10), Street: fmt.Sprintf("%d %s Close", 40+i, name),
		})
	}
	return rows
}

// canaries collects the access tokens that go by.
type canaries struct {
	mu     sync.Mutex
	tokens []string
}

// answer lets the sandbox answer, stores the access tokens, and puts an unmasked bank number in place of the
// masked one. A create of a payer called Echo is refused with an answer that quotes the whole request.
func (c *canaries) answer(box http.Handler) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		c.note(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			return false
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
		if r.Method == http.MethodPost && bytes.Contains(sent, []byte(`"Echo"`)) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write(slices.Concat([]byte(`{"code":"INVALID","message":"`+canaryEmail+`","rejected":`), sent, []byte(`}`)))
			return true
		}
		recorded := httptest.NewRecorder()
		box.ServeHTTP(recorded, r)
		for name, values := range recorded.Header() {
			w.Header()[name] = values
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(bytes.ReplaceAll(recorded.Body.Bytes(), []byte(`"********"`), []byte(`"`+canaryBank+`"`)))
		return true
	}
}

func (c *canaries) note(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token != "" && !slices.Contains(c.tokens, token) {
		c.tokens = append(c.tokens, token)
	}
}

// secrets returns what must not be seen anywhere.
func (c *canaries) secrets() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append([]string{clientSecret, webhookSecret, canaryBank, canaryReason}, c.tokens...)
	for _, s := range []string{clientSecret, webhookSecret} {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(s)), url.QueryEscape(s))
	}
	return all
}

// personalValues are what only plan, --show-values and --columns may print, and no log; names
// are in the tables of lists besides.
var personalValues = func() []string {
	values := []string{canaryName, canaryEmail, canaryPhone, canaryStreet, "feathered", "obsidian"}
	for _, r := range canaryPeople() {
		values = append(values, r.Name, r.Email, r.Phone, r.Street)
	}
	return values
}()

// canaryNames are what lists show of them.
func canaryNames() []string {
	names := []string{canaryName}
	for _, r := range canaryPeople() {
		names = append(names, r.Name)
	}
	return names
}

// All commands run at their most talkative level, with faults whose answers quote
// what was sent. What they print and log, and the bytes of the ledger, are then
// searched for everything that they must not show.
//
// covers F80, S15
func TestNothingSecretOrPersonalIsEverShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var seen canaries
	front := seen.answer(w.box)
	w.front.Store(&front)
	shown := append(w.showRuns(), w.showOthers()...)

	hidden := seen.secrets()
	for _, c := range w.box.Customers() {
		for _, m := range c.Mandates {
			hidden = append(hidden, m.URL, "/sign/"+m.ID)
		}
	}
	if len(seen.tokens) == 0 ||
		!slices.ContainsFunc(hidden, func(s string) bool { return strings.HasPrefix(s, "/sign/") }) ||
		!slices.ContainsFunc(shown, func(s showing) bool { return strings.Contains(s.errOut, "level=debug") }) {
		t.Fatal("there was no token, no signing link or no log: the search would find nothing")
	}
	if n := len(hidden) + len(personalValues); n < 60 {
		t.Errorf("only %d values are looked for", n)
	}
	for _, s := range shown {
		s.expectNone(t, hidden)
	}
	w.expectSealed(slices.Concat(hidden, personalValues))
}

// show runs a command and keeps what it printed.
func (w *world) show(code int, args ...string) showing {
	w.t.Helper()
	return showing{args, w.expect(code, append(args, "--verbose")...)}
}

// showRuns makes runs in all weathers.
func (w *world) showRuns() (shown []showing) {
	w.t.Helper()
	rows := append(people(4),
		row{ID: "Q1", Name: canaryName, Email: canaryEmail, Phone: canaryPhone, Street: canaryStreet})
	rows = append(rows, canaryPeople()...)
	w.export(rows...)
	shown = append(shown, w.show(exitDone, "check"), w.show(exitDone, "plan"),
		w.show(exitDone, "plan", "--output", "json"))

	w.box.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPost, Path: "/api/customers", Count: 1})
	w.box.Inject(sandbox.Fault{Kind: sandbox.Truncated, Path: "/api/customers/*/directdebitmandates", Count: 1})
	w.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Method: http.MethodGet, Path: "/api/customers", Count: 1})
	backfill := []string{"backfill", "--yes", "--verbose"} // how much of it was done is no matter here
	shown = append(shown, showing{backfill, w.run(backfill...)})
	w.box.ClearFaults()

	rows = append(rows, row{ID: "Q2", Name: "Echo", Email: "echo@feathered.example"},
		row{ID: "Q3", Name: canaryName, Email: "not(at)feathered.example"})
	rows[4].Phone += "8"
	w.export(rows...)
	shown = append(shown, w.show(exitAttention, "sync", "--output", "json"))

	w.box.Inject(sandbox.Fault{Kind: sandbox.Throttled, RetryAfter: "7200"})
	rows[4].Phone += "9"
	w.export(rows...)
	shown = append(shown, w.show(exitThrottled, "sync"))
	w.box.ClearFaults()
	return append(shown, w.show(exitAttention, "sync"))
}

// showOthers runs every command without a run, beside a serve with webhooks.
func (w *world) showOthers() (shown []showing) {
	w.t.Helper()
	shown = append(shown, w.show(exitDone, "webhooks", "subscribe"),
		w.show(exitDone, "webhooks", "subscribe", "--output", "json"))
	address := w.measured()
	serve := w.serve()
	w.deliverCanaries()
	shown = append(shown, shownMetrics(w.t, address))
	for _, args := range [][]string{
		{"sweep"}, {"status"}, {"status", "--output", "json"}, {"payers", "list"}, {"payers", "list", "--output", "json"},
		{"payers", "list", "--search", canaryName, "--output", "json"},
		{"payers", "list", "--search", canaryEmail, "--output", "csv"},
		{"payers", "list", "--all", "--sort", "name", "--columns", "name,email"},
		{"payers", "show", "Q1"}, {"payers", "show", "Q1", "--output", "json"},
		{"payers", "show", "Q1", "--show-values"}, {"mapping", "fields"}, {"mapping", "fields", "--output", "json"},
		{"mapping", "preview"},
		{"mapping", "preview", "--output", "json"}, {"mapping", "check", "--coverage"}, {"mapping", "history"},
		{"attention", "list"}, {"attention", "list", "--output", "json"},
		{"attention", "retry", "Q2"}, {"mandates", "list"}, {"mandates", "list", "--output", "json"},
		{"mandates", "list", "--export"},
		{"mandates", "cancel", "A00003", "--reason", "asked to"}, {"webhooks", "list"}, {"webhooks", "subscribe", "--test"},
		{"webhooks", "replay", "event:quoting"},
		{"webhooks", "show", "event:quoting"}, {"webhooks", "show", "event:quoting", "--output", "json"},
		{"check", "--output", "json"},
	} {
		shown = append(shown, w.show(exitDone, args...))
	}
	mandate := w.mandateOf("A00003").ID
	for _, args := range [][]string{ // whatever they come to
		{"payers", "show", "Z1"}, {"payers", "drift"}, {"payers", "match"}, {"payers", "match", "--output", "json"},
		{"plan", "list"}, {"plan", "list", "--output", "json"},
		{"mandates", "show", mandate}, {"mandates", "show", mandate, "--output", "json"}, {"mapping", "check"},
		{"mapping", "history", "--show"}, {"mapping", "history", "--diff"},
		{"environment"}, {"webhooks", "list", "--output", "json"}, {"attention", "close", "Q2"}, {"payers", "same", "Q3"},
	} {
		args = append(args, "--verbose")
		r := w.run(args...)
		if strings.Contains(r.errOut, "unknown command") {
			w.t.Errorf("%s: %s", args, r.errOut)
		}
		shown = append(shown, showing{args, r})
	}
	serve.reload("told to read the configuration anew")
	shown = append(shown, showing{[]string{"serve"}, serve.stop()}, w.crash(syscall.SIGABRT), w.crash(syscall.SIGQUIT))
	w.env["BILLING_CLIENT_SECRET"] = clientSecret + "x"
	return append(shown, w.show(exitFailed, "check"))
}

// showing is a command and what it printed.
type showing struct {
	args []string
	result
}

// expectNone fails when a command shows what it must not.
func (s showing) expectNone(t *testing.T, hidden []string) {
	t.Helper()
	personally := s.args[0] == "plan" || slices.Contains(s.args, "--show-values") || slices.Contains(s.args, "--columns")
	byName := slices.Contains([]string{"payers list", "attention list", "mandates list"},
		strings.Join(s.args[:min(2, len(s.args))], " ")) && !slices.Contains(s.args, "json")
	for _, canary := range hidden {
		if strings.Contains(s.out, canary) || strings.Contains(s.errOut, canary) {
			t.Errorf("%s shows %q:\n%s%s", s.args, canary, s.out, s.errOut)
		}
	}
	for _, canary := range personalValues {
		if strings.Contains(s.errOut, canary) {
			t.Errorf("%s logs %q:\n%s", s.args, canary, s.errOut)
		}
		if strings.Contains(s.out, canary) && !personally && !(byName && slices.Contains(canaryNames(), canary)) {
			t.Errorf("%s prints %q:\n%s", s.args, canary, s.out)
		}
	}
}

// crash ends a serve with all values in memory by a signal that makes Go print every goroutine, and returns
// the remains.
func (w *world) crash(by syscall.Signal) showing {
	w.t.Helper()
	w.env["GOTRACEBACK"] = "crash"
	defer delete(w.env, "GOTRACEBACK")
	serve := w.serve()
	w.deliverOne("of a crash " + by.String())
	if limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", serve.cmd.Process.Pid)); err == nil &&
		!regexp.MustCompile(`Max core file size +0 +0 `).Match(limits) {
		w.t.Errorf("a core file may be written:\n%s", limits)
	}
	serve.signal(by)
	r := serve.wait()
	if !strings.Contains(r.errOut, "goroutine ") {
		w.t.Errorf("serve did not crash by %s:\n%s", by, r.errOut)
	}
	if state, ok := serve.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && state.CoreDump() {
		w.t.Error("a core was dumped")
	}
	return showing{[]string{"serve"}, r}
}

// deliverOne sends a webhook that quotes a payer.
func (w *world) deliverOne(id string) {
	w.t.Helper()
	body := fmt.Appendf(nil, `{"type":"dd-mandate","eventId":%q,"customerId":%q,"name":%q,"email":%q,"failureReason":%q}`,
		id, w.mandateOf("A00001").CustomerID, canaryName, canaryEmail, canaryReason)
	if status, _ := post(w.t, w.delivery(body)); status != http.StatusOK {
		w.t.Errorf("a delivery was answered %d", status)
	}
}

// deliverCanaries sends a running serve the service's own webhooks, forged ones
// and ones that quote a payer.
func (w *world) deliverCanaries() {
	w.t.Helper()
	m := w.mandateOf("A00001")
	w.must(w.box.Sign(m.ID))
	w.must(w.box.BankCancel(m.ID, canaryReason))
	if sent, err := w.box.Deliver(w.t.Context()); err != nil || sent == 0 {
		w.t.Fatalf("%d webhooks delivered (%v)", sent, err)
	}
	quoting := []byte(`{"type":"dd-mandate","eventId":"quoting","customerId":"` + m.CustomerID + `","name":"` +
		canaryName +
		`","email":"` + canaryEmail + `","bankAccountNumber":"` + canaryBank + `","failureReason":"` + canaryReason + `"}`)
	forged := w.delivery(quoting)
	forged.Header.Set("x-signature", webhookSecret)
	for _, req := range []*http.Request{forged, w.delivery(quoting),
		w.delivery([]byte(canaryName + " says nothing that can be understood"))} {
		post(w.t, req)
	}
	w.reflected(3)
}

// expectSealed fails when a file that payersync made holds one of the texts as it is.
func (w *world) expectSealed(texts []string) {
	w.t.Helper()
	given := []string{"customers.csv", "webhook.secret", "mapping.yaml", "payersync.yaml"}
	ledger := false
	w.must(filepath.WalkDir(w.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || slices.Contains(given, entry.Name()) {
			return err
		}
		data, err := os.ReadFile(path)
		ledger = ledger || bytes.Contains(data, []byte("A00001"))
		for _, text := range texts {
			if bytes.Contains(data, []byte(text)) {
				w.t.Errorf("%s holds %q", entry.Name(), text)
			}
		}
		return err
	}))
	if !ledger {
		w.t.Fatal("the ledger's files do not even hold a source id: the search would find nothing")
	}
}

// covers F96
func TestEveryFileIsForThisUserAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.remove("payersync.key")
	w.remove("payersync.db")
	fresh := filepath.Join(w.dir, "fresh")
	w.expect(exitDone, "init", fresh)
	w.edit("payersync.yaml", "billing:\n", "ledger: {key_file: fresh/payersync.key}\nbilling:\n")
	w.expect(exitDone, "sync")
	err := filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err == nil && path != w.dir && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s may be opened by others: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestASecretThatOthersMayReadIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "plan")
	chmod := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(w.path(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string) {
		t.Helper()
		r := w.expect(exitUsage, "plan")
		if !strings.Contains(r.errOut, what) || !strings.Contains(r.errOut, "run chmod 600 "+w.dir) ||
			strings.Contains(r.errOut, "hunter2") {
			t.Errorf("the refusal says: %s", r.errOut)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o444} {
		chmod("webhook.secret", mode)
		refused("other users of this machine may read the file webhook.secret")
	}
	chmod("webhook.secret", 0o600)

	chmod("payersync.yaml", 0o644) // it names secrets and holds none
	w.expect(exitDone, "plan")
	w.edit("payersync.yaml", "env:BILLING_CLIENT_SECRET", clientSecret)
	refused("billing.client_secret is a secret, and other users of this machine may read this file (mode 0644)")
	chmod("payersync.yaml", 0o600)
	w.expect(exitDone, "plan")
}
