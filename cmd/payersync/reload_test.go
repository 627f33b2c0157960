package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"payersync/connector/sandbox"
	"payersync/internal/longtest"
	"payersync/state"
)

// logged waits until a process has logged a text since the last call, and returns all that
// it logged since then.
func (p *process) logged(text string) string {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%q in the log", text), func() bool {
		if p.over() {
			p.t.Fatalf("payersync %s ended by itself:\n%s", p.args, &p.errOut)
		}
		return strings.Contains(p.errOut.String(), text)
	})
	return p.errOut.take()
}

func TestFilesOfTheConfigurationAreReadAgainOnceTheyChangeOrAMinuteLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, secret, link := filepath.Join(dir, "payersync.yaml"), filepath.Join(dir, "secret"), filepath.Join(dir, "link")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		change func()
		after  time.Duration
		want   bool
	}{
		"nothing changed":       {func() {}, 5 * time.Second, true},
		"a minute passed":       {func() {}, time.Minute, false},
		"the clock was set":     {func() {}, -time.Second, false},
		"another size":          {func() { write(path, "a: 22\n") }, 5 * time.Second, false},
		"a later time":          {func() { _ = os.Chtimes(secret, began, began.Add(time.Hour)) }, 5 * time.Second, false},
		"others may read it":    {func() { _ = os.Chmod(secret, 0o644) }, 5 * time.Second, false},
		"a link to another one": {func() { _ = os.Remove(link); _ = os.Symlink(path, link) }, 5 * time.Second, false},
		"a file is gone":        {func() { _ = os.Remove(secret) }, 5 * time.Second, false},
	} {
		write(path, "a: 1\n")
		write(secret, "hunter2")
		_, _, _ = os.Chmod(secret, 0o600), os.Remove(link), os.Symlink(secret, link)
		files := []string{path, secret, link}
		for _, f := range files {
			if err := os.Chtimes(f, began, began); err != nil {
				t.Fatal(err)
			}
		}
		r := rest{stampsOf(files), began}
		tt.change()
		if got := r.lasts(stampsOf(files), began.Add(tt.after)); got != tt.want {
			t.Errorf("%s: the files rest: %t, want %t", name, got, tt.want)
		}
	}
	if (rest{}).lasts(stampsOf(nil), began) {
		t.Error("files that were never read rest")
	}
}

const (
	inForce    = "the configuration was read anew and is in force"
	cannotUse  = "the configuration cannot be used; the one before stays in force"
	rightAgain = "the configuration is right again"
)

// reload tells a serve to read its configuration and waits for what it says to that.
func (p *process) reload(says string) string {
	p.t.Helper()
	p.errOut.take()
	p.signal(syscall.SIGHUP)
	return p.logged(says)
}

// ready returns what /readyz answers.
func (w *world) ready() (ready struct {
	State    string
	Degraded []string
}) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.hooks+"/readyz", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	_, body := post(w.t, req)
	if err := json.Unmarshal([]byte(body), &ready); err != nil {
		w.t.Fatalf("%v in %s", err, body)
	}
	return ready
}

// shownConfig returns what status says of the configuration.
func (w *world) shownConfig() state.Serving {
	w.t.Helper()
	return decode[struct{ Config state.Serving }](w.t, w.expect(exitDone, "status", "--output", "json")).Config
}

const (
	firstConnection  = "  - {name: acme, source: {kind: csv, path: customers.csv, id: [AccountNumber]}, mapping: mapping.yaml, schedule: \"@yearly\"}\n"
	secondConnection = "  - {name: second, source: {kind: csv, path: second.csv, id: [AccountNumber]}, mapping: mapping.yaml, schedule: \"@yearly\"}\n"
)

// A run waits for the billing service while its connection is removed and another is added: it ends as it
// began, the new one runs beside it, and the removed one never again.
func TestAReloadCutsNoRunAndDoublesNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.edit("payersync.yaml", "mapping: mapping.yaml}\n",
		"mapping: mapping.yaml, schedule: \"@yearly\"}\n"+secondConnection)
	config, err := os.ReadFile(w.path("payersync.yaml"))
	w.must(err)
	both := string(config)
	w.write("payersync.yaml", strings.Replace(both, secondConnection, "", 1))
	w.write("second.csv", "AccountNumber,Name,Email,Phone,Street,Depot\nB00001,Second Payer,second@example.org,,1 Mill Lane,\n")
	held := make(chan struct{})
	answer, goOn := gate(t)
	var first atomic.Bool
	hold := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && r.URL.Path == "/api/customers" && first.CompareAndSwap(false, true) {
			close(held)
			<-answer
		}
		return false
	}
	w.front.Store(&hold)
	serve := w.serve()
	await(t, "the create", held)
	w.write("payersync.yaml", strings.Replace(both, firstConnection, "", 1))
	serve.reload(inForce)
	if log := serve.logged("run ended"); !runEnded(log, "second") || runEnded(log, "acme") {
		t.Errorf("beside the run that is held it logs:\n%s", log)
	}
	goOn()
	log := serve.logged("run ended")
	if made := strings.Contains(log, `"created":3`); !made || !runEnded(log, "acme") ||
		strings.Contains(log, `"outcome":"failed"`) {
		t.Errorf("the run of the removed connection ended otherwise than it began:\n%s", log)
	}
	w.write("payersync.yaml", both)
	serve.reload(inForce)
	serve.stop()
	w.finish("sync", "acme") // a link may wait where the list of the other run was read meanwhile
	w.expectOneMandateEach()
	if n := len(w.requests(func(r sandbox.Request) bool {
		return r.Method == http.MethodPost &&
			r.Path == "/api/customers"
	})); n != 4 {
		t.Errorf("%d creates, want 4", n)
	}
	for name, row := range w.jobs() {
		if row.Outcome != "done" || row.BegunAt.IsZero() || row.NextAt.IsZero() {
			t.Errorf("of %s status shows %+v", name, row)
		}
	}
}

// runEnded reports whether a log tells that a run of a connection ended.
func runEnded(log, connection string) bool {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "run ended") && strings.Contains(line, fmt.Sprintf(`"connection":%q`, connection)) {
			return true
		}
	}
	return false
}

// jobs returns what status shows of the jobs, by name.
func (w *world) jobs() map[string]jobRow {
	w.t.Helper()
	out := map[string]jobRow{}
	for _, row := range decode[struct{ Jobs []jobRow }](w.t, w.expect(exitDone, "status", "--output", "json")).Jobs {
		out[row.Name] = row
	}
	return out
}

// Each mistake is made in a file that was in force, told once with its place, shown until it
// is mended, and changes nothing.
//
// covers F125
func TestAFileWithAMistakeNeverReplacesAGoodOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	customer := w.mandateOf("A00001").CustomerID
	good, err := os.ReadFile(w.path("payersync.yaml"))
	w.must(err)
	serve := w.serve()
	mistakes := []struct {
		name, says string
		make       func()
		mend       func()
	}{
		{"a key that is none", "payersync.yaml:", func() { w.edit("payersync.yaml", "log:", "logs: hunter3\nlog:") }, nil},
		{"no YAML", "payersync.yaml:", func() { w.write("payersync.yaml", "billing: [\n") }, nil},
		{"nothing", "payersync.yaml", func() { w.write("payersync.yaml", "") }, nil},
		{"half a file", "payersync.yaml:", func() { w.write("payersync.yaml", string(good[:len(good)/2])) }, nil},
		{"no file", "there is no file", func() { w.remove("payersync.yaml") }, nil},
		{"a secret that is gone", "webhook.secret cannot be read", func() { w.remove("webhook.secret") },
			func() { w.write("webhook.secret", webhookSecret+"\n") }},
		{"a schedule that is none", "cannot be used",
			func() { w.edit("payersync.yaml", "guards:", "schedules: {sweep: often}\nguards:") }, nil},
		{"another account", "it is another address", func() { w.edit("payersync.yaml", "/api\n", "/other\n") }, nil},
		{"credentials that reach nothing", "cannot find out whether the new credentials belong to the ledger's account",
			func() { w.edit("payersync.yaml", "client_id: sandbox", "client_id: somebody") }, nil},
	}
	for i, m := range mistakes {
		m.make()
		log := serve.reload(cannotUse)
		if !strings.Contains(log, m.says) || strings.Contains(log, "hunter") {
			t.Errorf("%s: the log says:\n%s", m.name, log)
		}
		if m.name != "no file" { // without which status does not know where to look
			w.expectWrong(m.name, m.says)
		}
		serve.signal(syscall.SIGHUP)
		if log := serve.logged("told to read"); strings.Contains(log, cannotUse) {
			t.Errorf("%s is told twice:\n%s", m.name, log)
		}
		if ready := w.ready(); ready.State != "degraded" || !slices.Contains(ready.Degraded, "config_wrong") {
			t.Errorf("%s: /readyz says %+v", m.name, ready)
		}
		if status, _ := post(t, w.delivery(event(fmt.Sprint("during-", i), customer))); status != http.StatusOK {
			t.Errorf("%s: a delivery was answered %d", m.name, status)
		}
		w.write("payersync.yaml", string(good))
		if m.mend != nil {
			m.mend()
		}
		serve.reload(rightAgain)
		if got := w.shownConfig(); got.Problem != "" || !got.Since.IsZero() {
			t.Errorf("%s is mended, and status shows %+v", m.name, got)
		}
	}
	log := serve.stop().errOut
	if strings.Contains(log, inForce) {
		t.Errorf("a wrong file was put in force:\n%s", log)
	}
}

// expectWrong fails unless status shows what is wrong with the configuration, by a file that
// itself is right.
func (w *world) expectWrong(name, says string) {
	w.t.Helper()
	wrong, err := os.ReadFile(w.path("payersync.yaml"))
	w.must(err)
	defer w.write("payersync.yaml", string(wrong))
	w.write("payersync.yaml", w.config())
	if got := w.shownConfig(); !strings.Contains(got.Problem, says) || got.Since.IsZero() {
		w.t.Errorf("%s: status --output json shows %+v", name, got)
	}
	if r := w.expect(exitDone, "status"); !strings.Contains(r.out,
		"serve has not been able to use its configuration since") || !strings.Contains(r.out, says) {
		w.t.Errorf("%s: status says:\n%s", name, r.out)
	}
}

// Nobody signals: the file is seen to have changed, and so is a secret that it names.
func TestAChangedFileAndAChangedSecretAreSeenWithoutASignal(t *testing.T) {
	longtest.Story(t, longtest.Waiting)
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	serve := w.serve()
	serve.logged("payersync serves")
	w.edit("payersync.yaml", "log: {level: debug", "log: {level: info")
	serve.logged(inForce)
	w.write("webhook.secret", "another-secret-that-is-32-bytes-long\n")
	serve.logged(inForce)
	if status, _ := post(t, w.delivery(event("old", "c1"))); status != http.StatusUnauthorized {
		t.Errorf("a delivery with the secret before was answered %d", status)
	}
	w.expect(exitDone, "webhooks", "subscribe", "--test", "--local")
	log := serve.stop().errOut
	if strings.Contains(log, `"level":"debug"`) || strings.Contains(log, "another-secret") ||
		strings.Contains(log, "hunter2") {
		t.Errorf("it logs:\n%s", log)
	}
}

// Settings fixed until a restart are named, and the others take effect.
func TestWhatNeedsARestartIsNamedAndTheRestTakesEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	serve := w.serve()
	w.edit("payersync.yaml", `webhooks: "`+w.hooks+`"`,
		`webhooks: "`+freeAddress(t)+`", trusted_proxies: [10.0.0.1], limits: {connections: 64}`)
	w.edit("payersync.yaml", "guards:", "ledger: {path: other.db}\nguards:")
	w.edit("payersync.yaml", "log: {level: debug", "log: {level: warn")
	log := serve.reload("restart needed")
	want := []string{"ledger.path", "server.webhooks", "server.trusted_proxies", "server.limits.connections"}
	if !strings.Contains(log, strings.Join(want, ", ")) {
		t.Errorf("the log says:\n%s", log)
	}
	w.edit("payersync.yaml", "path: other.db", "path: payersync.db")
	serve.signal(syscall.SIGHUP)
	eventually(t, "the shorter list", func() bool { return len(w.shownConfig().Restart) == 3 })
	if r := w.expect(exitDone, "status"); !strings.Contains(r.out,
		"Restart needed: server.webhooks, server.trusted_proxies, server.limits.connections") {
		t.Errorf("status says:\n%s", r.out)
	}
	if log := serve.stop().errOut; strings.Contains(log, `"level":"info"`) {
		t.Errorf("the level of the log did not change:\n%s", log)
	}
	if got := w.shownConfig(); len(got.Restart) > 0 {
		t.Errorf("after the end of serve status shows %+v", got)
	}
}

// New credentials of the same account are proven by its customers, and used; before there are
// any, nothing could tell another account from it.
//
// covers F77
//
// covers F125
func TestAReloadNeverMovesTheLedgerToAnotherAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	serve := w.serve()
	w.edit("payersync.yaml", "client_id: sandbox", "client_id: sandbox2")
	if log := serve.reload(cannotUse); !strings.Contains(log, "no linked customer identifies it yet") {
		t.Errorf("the log says:\n%s", log)
	}
	w.edit("payersync.yaml", "client_id: sandbox2", "client_id: sandbox")
	serve.reload(rightAgain)
	serve.stop()
}

// A delivery is being sent while its secret is replaced: it is taken by the one that was in
// force when it began.
func TestADeliveryUnderWayIsTakenByTheSecretThatWasInForce(t *testing.T) {
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
	defer client.CloseIdleConnections()
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
	_, err := body.Write(payload[:10])
	w.must(err)
	w.write("webhook.secret", "another-secret-that-is-32-bytes-long\n")
	serve.reload(inForce)
	_, err = body.Write(payload[10:])
	w.must(err)
	w.must(body.Close())
	if status := await(t, "the answer", answered); status != http.StatusOK {
		t.Errorf("it was answered %d", status)
	}
	w.reflected(1)
	serve.stop()
}

// The service hangs while it is asked whose the new credentials are.
func TestSIGTERMDuringAReloadEndsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	serve := w.serve()
	asked := make(chan struct{})
	var once sync.Once
	hang := func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body) // a server that has read all sees its client go
		once.Do(func() { close(asked) })
		<-r.Context().Done()
		return true
	}
	w.front.Store(&hang)
	w.edit("payersync.yaml", "client_id: sandbox", "client_id: somebody")
	serve.signal(syscall.SIGHUP)
	await(t, "the question to the service", asked)
	if r := serve.stop(); strings.Contains(r.errOut, inForce) || strings.Contains(r.errOut, cannotUse) {
		t.Errorf("it logs:\n%s", r.errOut)
	}
}
