package alarm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payersync/connector"
	"payersync/connector/health"
	smtp "payersync/connector/mail"
	"payersync/connector/mail/mailtest"
	"payersync/connector/outbox"
	"payersync/connector/transport"
	"payersync/connector/webhook"
	"payersync/state"
	"payersync/state/statetest"
)

// desk is an installation with a test clock and conditions set by the test.
type desk struct {
	t      *testing.T
	files  state.Options
	ledger *state.Ledger
	teller *Notifier
	holds  []health.Condition

	mu     sync.Mutex
	at     time.Time
	commit func(done bool) error
	events []MessageEvent
}

func newDesk(t *testing.T, ways ...Way) *desk {
	t.Helper()
	d := &desk{t: t, at: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	d.files = state.Options{Path: path, KeyFile: path + ".key", Now: d.now, Commit: func(done bool) error {
		d.mu.Lock()
		commit := d.commit
		d.mu.Unlock()
		if commit == nil {
			return nil
		}
		return commit(done)
	}}
	d.start(ways...)
	return d
}

// start opens the ledger as a new process would.
func (d *desk) start(ways ...Way) {
	d.t.Helper()
	if d.ledger != nil {
		if err := d.ledger.Close(); err != nil {
			d.t.Fatal(err)
		}
	}
	var err error
	if d.ledger, err = state.Open(context.Background(), d.files); err != nil {
		d.t.Fatal(err)
	}
	l := d.ledger
	d.t.Cleanup(func() { _ = l.Close() })
	d.teller = &Notifier{
		Ledger: d.ledger, Now: d.now, Ways: ways, Installation: "test",
		Look: func(context.Context) ([]health.Condition, error) { return slices.Clone(d.holds), nil },
		Time: func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 MST") },
		Clean: func(s string, names bool) string {
			if names {
				return s
			}
			return strings.ReplaceAll(s, "jane@example.org", "[redacted]")
		},
		Report: func(e MessageEvent) { d.mu.Lock(); d.events = append(d.events, e); d.mu.Unlock() },
	}
}

func (d *desk) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}

func (d *desk) pass(span time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = d.at.Add(span)
}

func (d *desk) commits(f func(done bool) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commit = f
}

func (d *desk) tell() {
	d.t.Helper()
	if err := d.teller.Notify(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

// minutes looks once a minute for so long.
func (d *desk) minutes(n int) {
	d.t.Helper()
	for range n {
		d.pass(time.Minute)
		d.tell()
	}
}

func failedRun(connection string) health.Condition {
	return health.Condition{Code: health.RunFailed, Subject: connection, Connection: connection, Urgent: true,
		Sentence: "The last run of " + connection + " failed.", Next: "Look at it."}
}

func lost(n int) health.Condition {
	return health.Condition{Code: health.MandateCancelled, Subject: fmt.Sprintf("m%04d", n), Connection: "acme",
		Urgent: true, Sentence: fmt.Sprintf("The mandate m%04d was cancelled.", n),
		Next: "Agree a new mandate.", Records: []state.RecordID{{Connection: "acme", SourceID: fmt.Sprintf("A%04d", n)}}}
}

var waits = health.Condition{Code: health.Attention, Subject: "rejected", Sentence: "3 records: refused.",
	Count: 3}

func (b *mailbox) named(name string, from Severity) Way {
	return Way{Name: name, Sender: b.way(smtp.NoTLS), MinSeverity: from}
}

// subjects are those of the mails that came, and with it how many there are.
func (b *mailbox) subjects() (out []string) {
	b.t.Helper()
	for _, m := range b.read() {
		out = append(out, m.subject)
	}
	return out
}

func (b *mailbox) expect(want ...string) {
	b.t.Helper()
	if got := b.subjects(); !slices.Equal(got, want) {
		b.t.Errorf("the mails are %q, want %q", got, want)
	}
}

const (
	failedSubject = "payersync test: A run failed, acme"
	overSubject   = "payersync test: over: A run failed, acme"
)

func TestAConditionIsToldOnceWhenItBeginsAndOnceWhenItIsOver(t *testing.T) {
	t.Parallel()
	box := newMailbox(t, smtp.NoTLS)
	d := newDesk(t, box.named("office", Warning))
	d.minutes(3)
	box.expect()
	d.holds = []health.Condition{failedRun("acme")}
	d.minutes(10)
	box.expect(failedSubject)
	d.start(d.teller.Ways...) // another process goes on
	d.minutes(10)
	box.expect(failedSubject)
	d.holds = nil
	d.minutes(60)
	box.expect(failedSubject, overSubject)
	d.holds = []health.Condition{failedRun("acme")} // later it begins anew
	d.minutes(2)
	box.expect(failedSubject, overSubject, failedSubject)
	if text := box.read()[1].text; !strings.Contains(text,
		"It began on 2026-03-02 09:04 UTC and ended on 2026-03-02 09:24 UTC.") {
		t.Errorf("the end reads:\n%s", text)
	}
}

func TestAThousandFailuresAreOneMail(t *testing.T) {
	t.Parallel()
	box := newMailbox(t, smtp.NoTLS)
	d := newDesk(t, box.named("office", Warning))
	for n := range 1000 {
		d.holds = append(d.holds, lost(n))
	}
	d.minutes(5)
	box.expect("payersync test: A mandate was cancelled, acme (1000 times)")
	text := box.read()[0].text
	for _, want := range []string{"A mandate was cancelled: 1000 times", "m0000 was", "m0019 was",
		"and 980 more alarms of this kind", "What to do: Agree a new mandate."} {
		if !strings.Contains(text, want) {
			t.Errorf("the mail does not say %q:\n%s", want, text)
		}
	}
	d.holds = nil
	d.minutes(40)
	if got := box.subjects(); len(got) != 2 {
		t.Errorf("the end of a thousand is told by %q", got)
	}
}

func TestAWayIsToldOfConditionsFromItsMinimumSeverityOn(t *testing.T) {
	t.Parallel()
	all, urgent := newMailbox(t, smtp.NoTLS), newMailbox(t, smtp.NoTLS)
	d := newDesk(t, all.named("all", Warning), urgent.named("urgent", Critical))
	d.holds = []health.Condition{failedRun("acme"), waits, lost(1)}
	d.minutes(30)
	all.expect("payersync test: A run failed, acme; Records need attention; A mandate was cancelled, acme")
	both := "payersync test: A run failed, acme; A mandate was cancelled, acme"
	urgent.expect(both)
	more := waits // it has grown, which is told by the list alone
	more.Count, more.Sentence, more.Grown = 4, "4 records: refused.", d.now()
	d.holds = []health.Condition{more, failedRun("acme"), lost(1)}
	d.minutes(30)
	d.holds = []health.Condition{failedRun("acme"), lost(1)}
	d.minutes(30)
	if got := all.subjects(); len(got) != 2 || !strings.HasPrefix(got[1], "payersync test: over: ") {
		t.Errorf("the end of what is no matter of minutes is told by %q", got)
	}
	worse := waits
	worse.Urgent = true
	d.holds = append(d.holds, worse)
	d.minutes(1)
	if got := urgent.subjects(); len(got) != 2 {
		t.Errorf("what became urgent is told by %q", got)
	}
	d.holds = []health.Condition{failedRun("acme"), lost(1), waits} // it is no longer urgent, and not over
	d.minutes(1)
	d.holds = []health.Condition{failedRun("acme"), lost(1)}
	d.minutes(1)
	if got := urgent.subjects(); len(got) != 3 || !strings.HasPrefix(got[2], "payersync test: over: ") {
		t.Errorf("the end of what had become urgent is told by %q", got)
	}
}

func TestAWayThatIsDownLosesNothingAndIsToldNothingTwice(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		step mailtest.Point
		err  error
	}{{mailtest.AtMail, mailtest.ErrCut}, {mailtest.AtMail, mailtest.Refusal(451, "later")},
		{mailtest.AtRcpt, mailtest.ErrCut}, {mailtest.AtRcpt, mailtest.Refusal(450, "later")},
		{mailtest.AtData, mailtest.ErrCut}, {mailtest.AtData, mailtest.Refusal(452, "later")}} {
		t.Run(fmt.Sprint(fault.step, " ", fault.err), func(t *testing.T) {
			t.Parallel()
			down, up := newMailbox(t, smtp.NoTLS), newMailbox(t, smtp.NoTLS)
			d := newDesk(t, down.named("down", Warning), up.named("up", Warning))
			down.Fail(fault.step, fault.err)
			var want []string
			for n := range 60 { // each minute another
				d.holds = append(d.holds, lost(n))
				want = append(want, fmt.Sprintf("m%04d", n))
				d.minutes(1)
			}
			if n := down.Talks(); n > 8 {
				t.Errorf("a server that is down is asked %d times in an hour", n)
			}
			d.start(d.teller.Ways...)
			down.Fail(fault.step, nil)
			d.minutes(70)
			if got := down.subjects(); len(got) != 2 {
				t.Errorf("a server that came back gets %d mails: %q", len(got), got)
			}
			told := told(t, d, "down")
			if !slices.Equal(told, want) {
				t.Errorf("%d of %d are told, or some twice", len(told), len(want))
			}
			failedWay := "payersync test: Alarms do not arrive"
			if got := up.subjects(); len(got) != 60 || slices.Contains(got, failedWay) {
				t.Errorf("the other way was held up: %d mails", len(got))
			}
		})
	}
}

// told returns the subjects of the alarms whose beginning a way has taken.
func told(t *testing.T, d *desk, way string) (out []string) {
	t.Helper()
	open, err := d.ledger.OpenAlarms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range open {
		if a.Way == way && !a.SentAt.IsZero() {
			out = append(out, a.Subject)
		}
	}
	return out
}

func TestNamesAndAddressesLeaveOnlyWhereThatIsWanted(t *testing.T) {
	t.Parallel()
	plainBox, named := newMailbox(t, smtp.NoTLS), newMailbox(t, smtp.NoTLS)
	trusted := named.named("office", Warning)
	trusted.Names = true
	d := newDesk(t, plainBox.named("pager", Warning), trusted)
	if err := d.ledger.Do(t.Context(), func(tx *state.Tx) error {
		if err := tx.PinConnection(state.Connection{Name: "acme", Info: connector.SourceInfo{Kind: "csv"}}); err != nil {
			return err
		}
		if err := tx.SaveMapping("v1", "version: 1", "test"); err != nil {
			return err
		}
		run, err := tx.OpenRun(state.NewRun{Connection: "acme", Kind: connector.RunSync, Trigger: "manual", Mapping: "v1",
			Holder: "test"})
		if err != nil {
			return err
		}
		id := "jane@example.org"
		if err := tx.SavePage(run, "acme",
			[]connector.Record{{SourceID: id, State: connector.RecordActive, Data: []byte("{}")}}); err != nil {
			return err
		}
		return tx.SaveLabels("acme", "v1", []state.NewLabel{{SourceID: id, Label: connector.Label{Name: "Jane Canary"}}})
	}); err != nil {
		t.Fatal(err)
	}
	c := lost(1)
	c.Sentence, c.Records = "The mandate m1 of record jane@example.org was cancelled.",
		[]state.RecordID{{Connection: "acme", SourceID: "jane@example.org"}}
	d.holds = []health.Condition{c}
	d.minutes(1)
	if raw := plainBox.received()[0]; strings.Contains(raw, "Canary") || strings.Contains(raw, "jane@") {
		t.Errorf("a name left by a way that is not for names:\n%s", raw)
	}
	got := named.read()[0]
	if !strings.Contains(got.text, "Record jane@example.org is Jane Canary.") || strings.Contains(got.subject, "Jane") {
		t.Errorf("the way that is for names reads:\n%s", got.text)
	}
}

func TestAWebhookIsSignedAndItsIDStays(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var ids, bodies []string
	answers := []int{503, 429, 200}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if err := verifier.VerifyIgnoringTimestamp(body, r.Header); err != nil {
			t.Errorf("the signature does not hold: %v", err)
		}
		ids, bodies = append(ids, r.Header.Get("webhook-id")), append(bodies, string(body))
		w.WriteHeader(answers[min(len(ids), len(answers))-1])
	}))
	defer receiver.Close()
	client := transport.New(transport.Options{Retries: -1})
	defer client.Close()
	hook := &Webhook{webhook.Receiver{URL: receiver.URL, Secret: connector.NewSecret(secret), HTTP: client}}
	d := newDesk(t, Way{Name: "pager", Sender: hook})
	hook.Now = d.now
	d.holds = []health.Condition{lost(1)}
	d.minutes(30)
	if len(ids) != 3 || ids[0] != ids[2] || bodies[0] != bodies[2] {
		t.Fatalf("the webhook came %d times: %q", len(ids), ids)
	}
	for _, want := range []string{`"type":"payersync.alarms"`, `"code":"mandate_cancelled"`, `"subject":"m0001"`,
		`"source_id":"A0001"`, `"over":[]`, `"id":"` + ids[0]} {
		if !strings.Contains(bodies[0], want) {
			t.Errorf("the body does not hold %s:\n%s", want, bodies[0])
		}
	}
}

func TestAWebhookThatIsRefusedSaysSo(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]bool{404: true, 410: true, 302: true, 408: false, 500: false, 503: false} {
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		client := transport.New(transport.Options{Retries: -1})
		hook := &Webhook{webhook.Receiver{URL: receiver.URL,
			Secret: connector.NewSecret("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="), HTTP: client, Now: time.Now}}
		_, err := hook.Send(t.Context(), "id", []byte("{}"))
		if refused := outbox.OutcomeOf("", err).State == state.MessageRefused; err == nil || refused != want {
			t.Errorf("%d is told as %v", code, err)
		}
		client.Close()
		receiver.Close()
	}
}
