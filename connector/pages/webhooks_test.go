package pages_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/state"
)

// receive keeps a delivery as the webhook endpoint does.
func (h *house) receive(d state.Delivery) {
	h.t.Helper()
	h.do(func(tx *state.Tx) error { _, err := tx.Receive(d); return err })
}

func (h *house) do(fn func(*state.Tx) error) {
	h.t.Helper()
	if err := h.ledger.Do(context.Background(), fn); err != nil {
		h.t.Fatal(err)
	}
}

// logged returns the newest lines of the audit log, as "actor action subject: reason".
func (h *house) logged(n int) string {
	h.t.Helper()
	var text []string
	for _, e := range must(h.ledger.Log(context.Background(), state.LogFilter{Limit: n}))(h.t) {
		text = append(text, e.Actor+" "+e.Action+" "+e.Subject+": "+e.Reason)
	}
	return strings.Join(text, "\n")
}

func TestADeliveryThatIsNotUnderstoodIsLookedAtReadAgainAndClosed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const hostile = `{"who":{"ref":"<script>alert(1)</script>"},"name":"Ada"}`
	h.receive(state.Delivery{Key: "event:e1#1", Type: "<b>odd</b>", State: connector.InboxQuarantined,
		Detail: "It names no customer.", Body: []byte(hostile)})
	viewer, admin := h.enter("vera", pages.Viewer), h.enter("anna", pages.Admin)
	page := viewer.get("/webhooks", http.StatusOK)
	holds(t, page, "Not understood", "&lt;b&gt;odd&lt;/b&gt;", `href="/webhooks/event:e1%231"`)
	page = viewer.get("/webhooks/event:e1%231", http.StatusOK)
	holds(t, page, "It names no customer.", "who.ref")
	if strings.Contains(page, "Ada") || strings.Contains(page, "<script>alert") || strings.Contains(page, "/close") {
		t.Errorf("a viewer is shown values or buttons:\n%s", page)
	}
	viewer.post("/webhooks/event:e1%231/close", http.StatusForbidden, "reason", "no")
	viewer.post("/webhooks/event:e1%231/body", http.StatusForbidden)

	page = admin.post("/webhooks/event:e1%231/body", http.StatusOK)
	holds(t, page, "Ada", "&lt;script&gt;alert(1)")
	if got := h.logged(1); got != "anna show delivery body event:e1#1: " {
		t.Errorf("the audit log says %q", got)
	}
	holds(t, admin.post("/webhooks/event:e1%231/replay", http.StatusConflict), "still cannot read it",
		"Nothing was changed")
	holds(t, admin.post("/webhooks/event:e1%231/close", http.StatusUnprocessableEntity), "A reason is missing")
	holds(t, admin.post("/webhooks/event:e1%231/close", http.StatusOK, "reason", "a test of the provider"),
		"The delivery is closed", "Not needed")
	if got := h.logged(1); got != "anna close delivery event:e1#1: a test of the provider" {
		t.Errorf("the audit log says %q", got)
	}
	holds(t, admin.post("/webhooks/event:e1%231/close", http.StatusOK, "reason", "twice"), "closed before")
	admin.get("/webhooks/event:none", http.StatusNotFound)
}

func TestTheAuditLogIsShownAndItsChainIsWalked(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for range 60 {
		h.do(func(tx *state.Tx) error {
			return tx.Audit(state.Entry{Actor: "bob", Action: "approve plan", Subject: "plan 1", Reason: "=1+1"})
		})
	}
	v := h.enter("anna", pages.Viewer)
	holds(t, v.get("/audit", http.StatusOK), "sign in", "Next page", "=1&#43;1")
	page := v.get("/audit?who=anna", http.StatusOK)
	holds(t, page, "sign in")
	if strings.Contains(page, "=1&#43;1") {
		t.Errorf("what bob did is among what anna did:\n%s", page)
	}
	holds(t, v.get("/audit?who=nobody", http.StatusOK), "Nobody has done this")
	holds(t, v.get("/audit?check=1", http.StatusOK), "62 lines, unbroken")
}

func TestSettingsShowConnectionsAndWhatIsConfigured(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("anna", pages.Viewer)
	holds(t, v.get("/settings", http.StatusOK), "quickstart", "Not read yet")
	h.run(true)
	holds(t, v.get("/settings", http.StatusOK), "Connected")
}

func TestWebhooksSayWhatWasRefusedAndATestIsSentAfterTheAuditLogHasIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	viewer, operator := h.enter("vera", pages.Viewer), h.enter("otto", pages.Operator)
	page := viewer.get("/webhooks", http.StatusOK)
	holds(t, page, "Nothing was refused in the last 7 days")
	if strings.Contains(page, "Send a test") {
		t.Error("a viewer is shown a button that only operators may press")
	}
	now := h.ledger.Now()
	h.receive(state.Delivery{Key: "event:e1", Type: "x", State: connector.InboxIgnored, Body: []byte("{}")})
	h.do(func(tx *state.Tx) error {
		return tx.AddRefusals([]state.Refusals{
			state.NewRefusals("signature_failed", 1204, now, now), state.NewRefusals("too_large", 2, now, now),
			state.NewRefusals("busy", 77, now.AddDate(0, 0, -8), now.AddDate(0, 0, -8)),
		})
	})
	for _, path := range []string{"/webhooks", "/webhooks?state=quarantined", "/webhooks?after=1"} {
		page := viewer.get(path, http.StatusOK)
		holds(t, page, "Refused in the last 7 days", "1,204", "subscribe again", "The body was too large",
			"The last delivery came")
		if strings.Contains(page, "Too many large bodies") {
			t.Errorf("%s tells of what was refused eight days ago", path)
		}
	}
	h.tested = admin.Tested{OK: true,
		Detail: "a signed test delivery came to this ledger through https://pay.example/hook"}
	holds(t, operator.post("/webhooks", http.StatusOK),
		"A signed test delivery came to this ledger through https://pay.example/hook.")
	if got := h.logged(1); got != "otto send test delivery webhook: " {
		t.Errorf("the audit log says %q", got)
	}
	h.tested = admin.Tested{Detail: "https://pay.example/hook answered 401 to a signed test delivery",
		Next: "that is the answer to another secret"}
	holds(t, operator.post("/webhooks", http.StatusBadGateway), "The test delivery did not arrive",
		"https://pay.example/hook answered 401", "That is the answer to another secret.")
}
