package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"payersync/connector/sandbox"
	"payersync/internal/longtest"
	"payersync/state"
)

var rotationDeliveries = flag.Int("deliveries", 2000, "how many webhooks come while their secret is replaced")

// rotating is a world whose service draws the secret and is told a delivery key; no secret
// is configured.
func rotating(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, people(1), func(o *sandbox.Options) { o.Switches.WebhookSetup = "digest_auth_subscribe" })
	w.edit("payersync.yaml", "  rate_per_second: 100000\n",
		"  rate_per_second: 100000\n  dialect: {webhook_setup: digest_auth_subscribe}\n")
	w.edit("payersync.yaml", ", secrets: [file:webhook.secret]", "")
	w.edit("payersync.yaml", "    signature:", "    delivery_key: {}\n    signature:")
	return w
}

// steps are the calls of a subscription, and what becomes of each.
var steps = []string{"/api/apps/*/webhooks/digest", "/api/apps/*/webhooks/auth", "/api/apps/*/webhooks"}

// serving runs serve within this process until stop is called.
func (w *world) serving() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan result, 1)
	go func() { ended <- w.commandIn(ctx, "serve") }()
	eventually(w.t, "serve to listen", func() bool {
		if len(ended) > 0 {
			w.t.Fatalf("serve ended before it listened: %+v", <-ended)
		}
		resp, err := client.Get("http://" + w.hooks + "/healthz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close() // it has none
		return resp.StatusCode == http.StatusOK
	})
	return func() {
		cancel()
		await(w.t, "serve to end", ended)
	}
}

// hail sends webhooks as the service signs them at that moment, each until it is taken,
// until enough were.
type hail struct {
	w       *world
	next    atomic.Int64
	again   atomic.Int64 // answers that ask for it once more
	refused atomic.Int64
}

func (h *hail) send(ctx context.Context, until int64) {
	for ctx.Err() == nil {
		n := h.next.Add(1)
		if n > until {
			return
		}
		body := fmt.Appendf(nil, `{"type":"payment","eventId":"event-%d","customerId":"nobody"}`, n)
		for ctx.Err() == nil && !h.taken(ctx, body) {
		}
	}
}

func (h *hail) taken(ctx context.Context, body []byte) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.w.hooks+"/webhooks/billing",
		strings.NewReader(string(body)))
	if err != nil {
		h.w.t.Error(err)
		return true
	}
	if err := h.w.box.SignAsNow(req, body); err != nil {
		h.w.t.Error(err)
		return true
	}
	resp, err := client.Do(req)
	if err != nil {
		h.again.Add(1) // nobody listens just now
		return errors.Is(err, context.Canceled)
	}
	_ = resp.Body.Close() // it has none
	switch resp.StatusCode {
	case http.StatusOK:
		return true
	case http.StatusServiceUnavailable:
		h.again.Add(1)
		return false
	}
	h.w.t.Errorf("answered %d", resp.StatusCode)
	h.refused.Add(1)
	return true
}

// The secret is replaced again and again, interrupted after each of its steps, while serve is
// stopped and started and webhooks come all the time.
//
// covers F41, F180
func TestNoWebhookIsRefusedOrLostWhileTheSecretIsReplaced(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	w := rotating(t)
	w.expect(exitDone, "webhooks", "subscribe")
	stop := w.serving()
	h := &hail{w: w}
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() { h.send(t.Context(), int64(*rotationDeliveries)) })
	}
	for turn := 0; h.next.Load() < int64(*rotationDeliveries); turn++ {
		for _, lost := range steps {
			w.box.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut, Path: lost, Count: 1})
			if r := w.run("webhooks", "subscribe"); r.code == exitDone || !strings.Contains(r.errOut, "webhooks subscribe") {
				t.Fatalf("without an answer to %s it ended with %d: %s", lost, r.code, r.errOut)
			}
			if turn%2 == 0 {
				stop()
				stop = w.serving()
			}
		}
		w.expect(exitDone, "webhooks", "subscribe")
	}
	senders.Wait()
	stop()
	kept := decodeLines[state.InboxRow](t, w.expect(exitDone, "webhooks", "list", "--limit", "0", "--output", "json"))
	if len(kept) != *rotationDeliveries || h.refused.Load() != 0 {
		t.Errorf("of %d webhooks %d were taken and %d refused", *rotationDeliveries, len(kept), h.refused.Load())
	}
	if h.again.Load() == 0 {
		t.Error("none had to be sent again: nothing was tried")
	}
	t.Logf("%d webhooks, %d times asked to send again", len(kept), h.again.Load())
}

// covers F41, F96, S15
func TestASecretThatTheServiceNamesIsSealedInTheLedgerAndNotPrinted(t *testing.T) {
	t.Parallel()
	w := rotating(t)
	if r := w.expect(exitUsage, "serve"); !strings.Contains(r.errOut, "payersync webhooks subscribe") {
		t.Errorf("without a secret serve says: %s", r.errOut)
	}
	said := w.expect(exitDone, "webhooks", "subscribe", "--verbose")
	secret := w.box.WebhookSecret().Expose()
	if strings.Contains(said.out+said.errOut, secret) {
		t.Error("the new secret is printed")
	}
	if bytes.Contains(w.ledgerBytes(), []byte(secret)) {
		t.Error("the new secret is in the ledger as it is")
	}
	if files, err := filepath.Glob(w.path("webhook-*")); err != nil || len(files) != 0 {
		t.Errorf("beside the ledger there is %v (%v)", files, err)
	}
	stop := w.serving()
	defer stop()
	w.expect(exitDone, "webhooks", "subscribe", "--test", "--local")
	w.expect(exitDone, "webhooks", "subscribe") // and once more while it serves
	w.expect(exitDone, "webhooks", "subscribe", "--test", "--local")
}

// A person who leaves in the middle has lost nothing, and is told what to do.
func TestASubscriptionThatBrokeOffIsToldUntilItIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := rotating(t)
	w.expect(exitDone, "webhooks", "subscribe")
	for _, lost := range steps {
		w.box.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut, Path: lost, Count: 1})
		if r := w.run("webhooks", "subscribe"); r.code == exitDone || !strings.Contains(r.errOut, "webhooks subscribe") {
			t.Errorf("without an answer to %s it ended with %d: %s", lost, r.code, r.errOut)
		}
	}
	w.box.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut, Path: steps[0], Count: 1})
	w.run("webhooks", "subscribe")
	w.must(os.Rename(w.path("payersync.key"), w.path("elsewhere")))
	w.expect(exitDone, "status") // which shows nothing sealed, and needs no key
	w.must(os.Rename(w.path("elsewhere"), w.path("payersync.key")))
	if r := w.expect(exitDone, "webhooks", "subscribe", "--show"); !strings.Contains(r.out,
		"may sign with an unknown secret") {
		t.Errorf("the subscription is shown as: %s", r.out)
	}
	w.expect(exitDone, "webhooks", "subscribe")
	w.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Method: http.MethodPut, Path: steps[0],
		Status: http.StatusForbidden, Count: 1})
	if r := w.run("webhooks", "subscribe"); r.code == exitDone ||
		strings.Contains(r.errOut, "may sign with a new secret") {
		t.Errorf("of a refusal it says: %s", r.errOut)
	}
}

// covers F152
func TestCheckNamesADeliveryKeyAmongTheSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "plan")
	w.write("webhook-delivery-key-20260101T000000.000Z", webhookSecret+"\n")
	if r := w.run("check"); r.code == exitDone || !strings.Contains(r.out, "can forge the next") {
		t.Errorf("check ended with %d: %s%s", r.code, r.out, r.errOut)
	}
}
