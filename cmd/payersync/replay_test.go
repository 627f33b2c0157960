package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/reconcile"
	"payersync/connector/sandbox"
	"payersync/connector/server"
	"payersync/connector/transport"
	"payersync/connector/worker"
	"payersync/state"
	"payersync/state/statetest"
)

// inProcess is an endpoint, its inbox and the service in one process, with a
// clock of their own and one linked customer who has a mandate.
type inProcess struct {
	t        *testing.T
	now      time.Time
	box      *sandbox.Sandbox
	ledger   *state.Ledger
	rec      *reconcile.Reconciler
	hooks    http.Handler
	nudged   bool
	customer string
	mandate  string
}

func newInProcess(t *testing.T) *inProcess {
	t.Helper()
	p := &inProcess{t: t, now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return p.now }
	p.box = sandbox.New(sandbox.Options{Seed: 1, Now: clock, ClientSecret: connector.NewSecret(clientSecret)})
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	var err error
	if p.ledger, err = state.Open(t.Context(), state.Options{Path: path, KeyFile: path + ".key", Now: clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.ledger.Close() }) // every write was answered before
	http := transport.New(transport.Options{Base: p.box.RoundTripper(), Now: clock})
	t.Cleanup(http.Close)
	client, err := billing.New(billing.Config{
		BaseURL: "http://127.0.0.1:1/api", ClientID: "sandbox", ClientSecret: connector.NewSecret(clientSecret),
		Dialect: billing.Sandbox(), HTTP: http, Now: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.rec = &reconcile.Reconciler{Ledger: p.ledger, Billing: client}
	p.openHooks()
	p.link()
	return p
}

func (p *inProcess) openHooks() {
	p.t.Helper()
	verifier, err := billing.NewVerifier(billing.Signature{Header: "x-signature",
		Secrets: []connector.Secret{connector.NewSecret(webhookSecret)}})
	if err != nil {
		p.t.Fatal(err)
	}
	s, err := server.New(server.Config{
		Ledger: p.ledger, Keys: server.Keys{Verifier: verifier}, Events: billing.DefaultEventPaths(),
		Path:  "/webhooks/billing",
		Nudge: func() { p.nudged = true }, Now: func() time.Time { return p.now },
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.hooks = s.Handler()
}

// link makes the customer at the service and its payer in the ledger.
func (p *inProcess) link() {
	p.t.Helper()
	var err error
	if p.customer, err = p.box.Add([]byte(`{"name":"Payer 1","externalData":{"no":"A1"}}`)); err != nil {
		p.t.Fatal(err)
	}
	record := connector.Record{SourceID: "A1", State: connector.RecordActive, Data: []byte(`{}`)}
	p.do(func(tx *state.Tx) error {
		if err := tx.PinConnection(state.Connection{Name: "acme", Info: connector.SourceInfo{Kind: "books"}}); err != nil {
			return err
		}
		if err := tx.SaveMapping("m1", "version: 1", "tester"); err != nil {
			return err
		}
		run, err := tx.OpenRun(state.NewRun{Connection: "acme", Kind: connector.RunSync, Trigger: "manual", Mapping: "m1",
			Holder: "test"})
		if err != nil {
			return err
		}
		if err := tx.SavePage(run, "acme", []connector.Record{record}); err != nil {
			return err
		}
		decision := state.Decision{SourceID: "A1", ContentHash: record.Hash(), Verdict: state.Included,
			Key: connector.Key{Name: "no", Value: "A1"}}
		if err := tx.SaveDecisions(run, "acme", "m1", decision); err != nil {
			return err
		}
		return tx.LinkPayer(state.Payer{Connection: "acme", SourceID: "A1"}, p.customer, true)
	})
	m, err := p.rec.Billing.(*billing.Client).RequestMandateLink(p.t.Context(), p.customer)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mandate = m.ID
	p.box.ResetRequests()
}

func (p *inProcess) do(fn func(*state.Tx) error) {
	p.t.Helper()
	if err := p.ledger.Do(p.t.Context(), fn); err != nil {
		p.t.Fatal(err)
	}
}

// post sends a rightly signed delivery.
func (p *inProcess) post(body string) {
	p.t.Helper()
	r := httptest.NewRequestWithContext(p.t.Context(), http.MethodPost, "/webhooks/billing", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("x-signature", signature([]byte(body)))
	w := httptest.NewRecorder()
	p.hooks.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		p.t.Fatalf("a signed delivery was answered %d", w.Code)
	}
}

// pass lets time go by and drains as serve does: after a nudge, and every second while a delivery waits.
func (p *inProcess) pass(d time.Duration) {
	p.t.Helper()
	before := p.now
	p.now = p.now.Add(d)
	if !p.nudged && p.now.Truncate(worker.DrainPace).Equal(before.Truncate(worker.DrainPace)) {
		return
	}
	p.nudged = false
	if _, err := p.rec.Drain(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

func (p *inProcess) status() string {
	p.t.Helper()
	rows, err := p.ledger.Mandates(p.t.Context(), state.Filter{})
	if err != nil {
		p.t.Fatal(err)
	}
	if len(rows) == 0 {
		return ""
	}
	return rows[0].Status
}

// A captured delivery without a signed time can be replayed for ever. It costs a read of its customer every
// two seconds at most, and no room in the inbox. News is processed beside it within seconds, even with the
// same text as the captured delivery.
//
// covers F31, F35, F40
func TestACaughtDeliveryThatIsSentForEverCostsLittleAndHidesNothing(t *testing.T) {
	t.Parallel()
	for name, news := range map[string]string{
		"news with an id of its own": `{"type":"dd-mandate","eventId":"news","customerId":"%s"}`,
		"news spelt alike":           `{"type":"dd-mandate","customerId":"%s"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newInProcess(t)
			caught := strings.Replace(`{"type":"dd-mandate","customerId":"%s"}`, "%s", p.customer, 1)
			news := strings.Replace(news, "%s", p.customer, 1)
			p.post(caught)
			p.pass(0)
			const every, times = 50 * time.Millisecond, 2_000
			var toldAt time.Time
			began := p.now
			for i := range times {
				p.post(caught)
				if i == times/2 {
					if err := p.box.Sign(p.mandate); err != nil {
						t.Fatal(err)
					}
					p.post(news)
					toldAt = p.now
				}
				p.pass(every)
				if !toldAt.IsZero() && p.status() == "PENDING" {
					t.Logf("reflected after %s", p.now.Sub(toldAt))
					if late := p.now.Sub(toldAt); late > 5*time.Second {
						t.Errorf("news was reflected after %s", late)
					}
					toldAt = time.Time{}
				}
			}
			if !toldAt.IsZero() {
				t.Error("news was never reflected")
			}
			reads := len(p.box.Requests())
			if most := int(p.now.Sub(began)/(2*time.Second)) + 3; reads > most {
				t.Errorf("%d requests for %d replays in %s, want %d at most", reads, times, p.now.Sub(began), most)
			}
			rows, err := p.ledger.Inbox(t.Context(), state.Filter{})
			if err != nil || len(rows) > 2 {
				t.Errorf("the inbox has %d rows, %v; want no more than were different", len(rows), err)
			}
		})
	}
}
