package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// proxied puts a proxy in front of the world's serve, as its public address, and returns a place for a test's
// own answer.
func (w *world) proxied() *atomic.Pointer[http.HandlerFunc] {
	w.t.Helper()
	var instead atomic.Pointer[http.HandlerFunc]
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: w.hooks})
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if h := instead.Load(); h != nil {
			(*h)(rw, r)
			return
		}
		to.ServeHTTP(rw, r)
	}))
	w.t.Cleanup(front.Close)
	w.edit("payersync.yaml", "http://"+w.hooks+"/webhooks/billing", front.URL+"/webhooks/billing")
	return &instead
}

func TestACheckSendsATestDeliveryThroughThePublicAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	instead := w.proxied()
	says := func(exit int, want ...string) {
		t.Helper()
		r := w.expect(exit, "check")
		for _, text := range want {
			if !strings.Contains(r.out, text) {
				t.Errorf("it does not say %q:\n%s", text, r.out)
			}
		}
	}
	answer := func(h http.HandlerFunc) { instead.Store(&h) }

	says(exitDone, "ok    webhook address",
		"payersync serve does not answer on this machine just now, so nothing was sent")
	serve := w.serve()
	defer serve.stop()
	says(exitDone, "ok    webhook address", "a signed test delivery came to this ledger through http://127.0.0.1")
	if stored := w.inbox(); len(stored) != 1 || stored[0].State != "ignored" {
		t.Errorf("the inbox has %+v", stored)
	}

	answer(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusOK) })
	says(exitFailed, "FAIL  webhook address", "but it did not come to this ledger",
		"another payersync serve, or another program, answers at that address")
	answer(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) })
	says(exitFailed, "answered 502 to a signed test delivery",
		"so look at the name, the certificate and the proxy in between")
	answer(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNotFound) })
	says(exitFailed, "answered 404 to a signed test delivery",
		"passes the path of billing.webhook.public_url on unchanged")
	answer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	says(exitFailed, "cannot be reached from here: EOF", "so look at the name, the certificate and the proxy in between")
	instead.Store(nil)
	w.write("webhook.secret", "another-secret-that-is-32-bytes-long\n")
	says(exitFailed, "answered 401 to a signed test delivery",
		"serve may lack the newest one in billing.webhook.signature.secrets")
}

// The button on the page of webhooks agrees with check: it names the last reached step of a delivery, and the
// next step.
func TestThePageOfWebhooksSendsATestDeliveryAndSaysWhereItsWayEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	instead := w.proxied()
	answer := func(h http.HandlerFunc) { instead.Store(&h) }
	var b *browser
	opens := func() {
		b = w.openPages(seeded(t))
		t.Cleanup(func() { _ = b.process.cmd.Process.Kill(); b.process.wait() })
	}
	presses := func(want int, texts ...string) {
		t.Helper()
		status, page, err := b.send(http.MethodPost, "/webhooks", nil)
		if err != nil || status != want {
			t.Errorf("it was answered %d, %v, want %d", status, err, want)
		}
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("it does not say %q:\n%s", text, page)
			}
		}
	}

	opens()
	presses(http.StatusBadGateway, "The test delivery did not arrive", "answered 502 to a signed test delivery",
		"Serve does not take the same delivery")
	serve := w.serve()
	presses(http.StatusOK, "A signed test delivery came to this ledger through http://127.0.0.1")
	if stored := w.inbox(); len(stored) != 1 || stored[0].State != "ignored" {
		t.Errorf("the inbox has %+v", stored)
	}
	answer(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusOK) })
	presses(http.StatusBadGateway, "but it did not come to this ledger",
		"Another payersync serve, or another program, answers at that address")
	answer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	presses(http.StatusBadGateway, "cannot be reached from here",
		"so look at the name, the certificate and the proxy in between")
	instead.Store(nil)
	w.write("webhook.secret", "another-secret-that-is-32-bytes-long\n")
	opens() // as after a restart with what stands there now
	presses(http.StatusBadGateway, "answered 401 to a signed test delivery", ". serve may lack the newest one")
	serve.stop()
	tests := 0
	for _, line := range w.auditLog() {
		if line.Action == "send test delivery" {
			tests++
		}
	}
	if tests != 5 {
		t.Errorf("the audit log knows of %d tests, want 5", tests)
	}
}
