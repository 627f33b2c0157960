package main

import (
	"errors"
	"io"
	"log"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// mailServer takes mail on this machine.
type mailServer struct {
	address string

	mu      sync.Mutex
	mails   []string // decoded, headers and all
	refuses error
}

func newMailServer(t *testing.T) *mailServer {
	t.Helper()
	m := &mailServer{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.address = listener.Addr().String()
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &mailTalk{m}, nil }))
	server.Domain, server.ErrorLog = "mail.example.org", log.New(io.Discard, "", 0)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return m
}

func (m *mailServer) received() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.mails...)
}

func (m *mailServer) refuse(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuses = err
}

type mailTalk struct{ server *mailServer }

func (mailTalk) Reset()                               {}
func (mailTalk) Logout() error                        { return nil }
func (mailTalk) Mail(string, *smtp.MailOptions) error { return nil }
func (s mailTalk) Rcpt(string, *smtp.RcptOptions) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return s.server.refuses
}

func (s mailTalk) Data(r io.Reader) error {
	text, err := io.ReadAll(quotedprintable.NewReader(r))
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.mails = append(s.server.mails, strings.ReplaceAll(string(text), "\r\n", "\n"))
	return err
}

// alerts adds ways of telling to the installation.
func (w *world) alerts(ways ...string) {
	w.t.Helper()
	w.edit("payersync.yaml", "\nlog: {",
		"\nalerts:\n  name: test\n  ways:\n    - "+strings.Join(ways, "\n    - ")+"\nlog: {")
}

// by returns the way of a mail server.
func (m *mailServer) by(name, more string) string {
	return `{name: ` + name + `, email: {to: ops@example.org, from: payersync@example.com, server: "` + m.address +
		`", tls: none}` + more + `}`
}

const alertSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// A mandate that the bank cancels is found by the sweep and told by mail and by webhook, each
// once, with the payer's name only where that is wanted.
//
// covers F33
func TestAMandateThatTheBankCancelsIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	office, pager := newMailServer(t), newMailServer(t)
	verifier, err := standardwebhooks.NewWebhook(alertSecret)
	if err != nil {
		t.Fatal(err)
	}
	hooked := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err := errors.Join(err, verifier.Verify(body, r.Header)); err != nil {
			t.Error(err)
		}
		hooked <- string(body)
	}))
	defer receiver.Close()
	w.env["ALERT_SECRET"] = alertSecret
	w.alerts(office.by("office", ", names: true"), pager.by("pager", ", min_severity: critical"),
		`{name: hook, webhook: {url: "`+receiver.URL+`", secret: env:ALERT_SECRET}}`)
	w.expect(exitDone, "sync")
	mandate := w.mandateOf("A00001").ID
	w.must(w.box.Sign(mandate))
	w.must(w.box.Approve(mandate))
	w.expect(exitDone, "sweep")
	if r := w.expect(exitDone, "alerts", "send"); !strings.Contains(r.errOut+r.out, "nothing new") {
		t.Errorf("with nothing the matter it says %s%s", r.out, r.errOut)
	}
	w.must(w.box.BankCancel(mandate, "AC04"))
	w.run("sweep")
	if r := w.expect(exitDone, "alerts", "send"); strings.Count(r.out, "was told 2 new, 0 over") != 3 {
		t.Errorf("it says:\n%s%s", r.out, r.errOut)
	}
	w.expect(exitDone, "alerts", "send")
	for name, mails := range map[string][]string{"office": office.received(), "pager": pager.received()} {
		if len(mails) != 1 || !strings.Contains(mails[0],
			"Subject: payersync test: No deliveries arrive; A mandate was cancelled,") ||
			!strings.Contains(mails[0], "cancelled mandate "+mandate+" of record A00001 of acme") {
			t.Fatalf("%s reads %q", name, mails)
		}
		if named := strings.Contains(mails[0], "Payer 1"); named != (name == "office") ||
			strings.Contains(mails[0], "payer1@") || strings.Contains(mails[0], "AC04") {
			t.Errorf("%s reads:\n%s", name, mails[0])
		}
	}
	if body := await(t, "the webhook", hooked); len(hooked) > 0 || !strings.Contains(body, `"subject":"`+mandate+`"`) ||
		strings.Contains(body, "Payer 1") {
		t.Errorf("the webhook says %s, and %d more", body, len(hooked))
	}
	listed := w.expect(exitDone, "alerts", "list").out
	for _, want := range []string{"mandate_cancelled", mandate, "to do    Agree on a new mandate", "office   told on",
		"hook     told on"} {
		if !strings.Contains(listed, want) {
			t.Errorf("alerts list does not say %q:\n%s", want, listed)
		}
	}
	for _, row := range decodeLines[map[string]any](t, w.expect(exitDone, "alerts", "list", "--output", "json")) {
		if row["code"] == "mandate_cancelled" {
			expectSameKeys(t, "alerts list", row,
				[]string{"code", "subject", "connection", "since", "urgent", "sentence", "next", "commands", "told"})
		}
	}
}

func TestAnAlertWayIsProvenByATest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	if r := w.expect(exitUsage, "alerts", "test"); !strings.Contains(r.errOut, "nobody receives alarms") {
		t.Errorf("without a way it says %s", r.errOut)
	}
	good, bad := newMailServer(t), newMailServer(t)
	bad.refuse(&smtp.SMTPError{Code: 550, EnhancedCode: smtp.NoEnhancedCode, Message: "no such user"})
	w.alerts(good.by("good", ""), bad.by("bad", ""))
	r := w.expect(exitFailed, "alerts", "test")
	for _, want := range []string{"ok    alerts good", "the test message was taken: ", "FAIL  alerts bad",
		"550 no such user", "payersync alerts test bad"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("it does not say %q:\n%s", want, r.out)
		}
	}
	expectKeys(t, w.expect(exitDone, "alerts", "test", "good", "--output", "json"),
		[]string{"check", "ok", "warning", "detail", "next"})
	if r := w.expect(exitUsage, "alerts", "test", "god"); !strings.Contains(r.errOut, "did you mean good?") {
		t.Errorf("of an unknown way it says %s", r.errOut)
	}
	if len(good.received()) != 2 {
		t.Errorf("two tests are %d mails", len(good.received()))
	}
}

// serve reports a failed run within seconds. A refusing recipient is reported through the other channel, and
// in check.
func TestServeTellsOfARunThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	office, pager := newMailServer(t), newMailServer(t)
	pager.refuse(&smtp.SMTPError{Code: 550, EnhancedCode: smtp.NoEnhancedCode, Message: "no such user"})
	w.alerts(office.by("office", ""), pager.by("pager", ""))
	w.edit("payersync.yaml", "mapping: mapping.yaml}", "mapping: mapping.yaml, schedule: \"@yearly\"}")
	w.expect(exitDone, "sync")
	w.edit("payersync.yaml", "@yearly", "@every 2s")
	w.remove("customers.csv")
	serve := w.serve()
	eventually(t, "the mail", func() bool { return len(office.received()) > 0 })
	if mail := office.received()[0]; !strings.Contains(mail, "A run failed, acme") &&
		!strings.Contains(mail, "A job failed, acme") {
		t.Errorf("the mail reads:\n%s", mail)
	}
	eventually(t, "the refusal", func() bool {
		return strings.Contains(w.expect(exitDone, "status").out, "The alarm way pager has refused messages since")
	})
	errOut := serve.stop().errOut
	if !strings.Contains(errOut, `"msg":"alarms told"`) || strings.Contains(errOut, "ops@example.org") {
		t.Errorf("the log says:\n%s", errOut)
	}
	if check := w.run("check").out; !strings.Contains(check, "FAIL  alerts pager") ||
		!strings.Contains(check, "ok    alerts office") {
		t.Errorf("check says:\n%s", check)
	}
}

// A timer's output may have no reader: an alarm reports the damaged ledger.
func TestALedgerThatCannotBeOpenedIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	office := newMailServer(t)
	w.alerts(office.by("office", ""))
	w.expect(exitDone, "sync")
	if err := os.WriteFile(w.path("payersync.db"), []byte(strings.Repeat("no ledger ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.remove("payersync.db.mark")
	for range 2 {
		if r := w.run("alerts", "send"); r.code != exitFailed {
			t.Fatalf("it ended with %d: %s", r.code, r.errOut)
		}
	}
	got := office.received()
	if len(got) != 2 || !strings.Contains(got[0], "The ledger cannot be written to") ||
		messageID(got[0]) != messageID(got[1]) {
		t.Errorf("the mails are %q", got)
	}
}

func messageID(mail string) string {
	_, after, _ := strings.Cut(mail, "Message-ID: ")
	id, _, _ := strings.Cut(after, "\n")
	return id
}

// The ledger stores the sent alarms, so a restart forgets none.
func TestAnUnknownTypeOfEventIsToldOnceWhenServeIsRestarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	office := newMailServer(t)
	w.alerts(office.by("office", ""))
	// serve looks when a job has ended
	w.edit("payersync.yaml", "mapping: mapping.yaml}", "mapping: mapping.yaml, schedule: \"@every 2s\"}")
	w.expect(exitDone, "sync")
	deliver := func(eventType, id string) {
		t.Helper()
		resp, err := client.Do(w.delivery([]byte(`{"type":"` + eventType + `","eventId":"` + id + `"}`)))
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode/100 != 2 {
			t.Fatalf("the delivery %s is answered %d", id, resp.StatusCode)
		}
	}
	told := func(eventType string) (n int) {
		for _, mail := range office.received() {
			n += strings.Count(mail, `of the unknown type "`+eventType+`" arrived`)
		}
		return n
	}
	stop := w.serving()
	deliver("dispute.opened", "d1")
	eventually(t, "the first mail", func() bool { return told("dispute.opened") > 0 })
	stop()
	defer w.serving()()
	deliver("dispute.opened", "d2")
	deliver("refund.made", "r1") // whose mail shows that serve has looked since
	eventually(t, "the mail of another type", func() bool { return told("refund.made") > 0 })
	if n := told("dispute.opened"); n != 1 {
		t.Errorf("the type was told %d times:\n%s", n, strings.Join(office.received(), "\n---\n"))
	}
	if listed := w.expect(exitDone, "alerts", "list").out; !strings.Contains(listed,
		`2 deliveries of the unknown type "dispute.opened"`) {
		t.Errorf("alerts list says:\n%s", listed)
	}
}
