package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"payersync/cmd/payersync/internal/config"
	"payersync/connector/sandbox"
	"payersync/state"
)

// subscription returns what status says of the webhook subscription, without
// asking the service.
func (w *world) subscription() state.SubscriptionFacts {
	w.t.Helper()
	before := w.seen.Load()
	var status struct {
		Subscription state.SubscriptionFacts `json:"subscription"`
	}
	if err := json.Unmarshal([]byte(w.expect(exitDone, "status", "--output", "json").out), &status); err != nil {
		w.t.Fatal(err)
	}
	if n := w.seen.Load() - before; n != 0 {
		w.t.Errorf("status asked the service %d times", n)
	}
	return status.Subscription
}

// subscribes returns how often somebody subscribed with our client.
func (w *world) subscribes() int {
	return len(w.requests(func(r sandbox.Request) bool {
		return r.Method == http.MethodPut && strings.Contains(r.Path, "/webhooks")
	}))
}

// covers F113, F33
func TestAReplacedDisabledOrDeletedSubscriptionIsToldWithinASweepAndNeverRepaired(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		act     func(*world) error
		problem state.SubscriptionProblem
		says    string
	}{
		{"by one that sends elsewhere", func(w *world) error {
			w.box.ReplaceSubscription("https://elsewhere.example/in?key=hunter2", "customer", "dd-mandate")
			return nil
		}, state.SubscriptionReplaced, "with the address https://elsewhere.example/in?…, has replaced ours"},
		{"by one that sends here", func(w *world) error {
			w.box.ReplaceSubscription("http://"+w.hooks+"/webhooks/billing", "customer", "dd-mandate")
			return nil
		}, state.SubscriptionReplaced, "subscribed anew in place of our"},
		{"another address", func(w *world) error {
			return w.box.EditSubscription("https://elsewhere.example/in", "customer", "dd-mandate")
		}, state.SubscriptionReplaced, "sends to https://elsewhere.example/in and no longer to"},
		{"other events", func(w *world) error {
			return w.box.EditSubscription("http://"+w.hooks+"/webhooks/billing", "customer", "payment")
		}, state.SubscriptionReplaced, "no longer tells of dd-mandate"},
		{"disabled", func(w *world) error { return w.box.DisableSubscription() }, state.SubscriptionDisabled,
			"is disabled in the billing service"},
		{"deleted", func(w *world) error { return w.box.DeleteSubscription() }, state.SubscriptionDeleted,
			"is gone from the billing service"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, people(1))
			w.expect(exitDone, "sync")
			w.expect(exitDone, "webhooks", "subscribe")
			w.expect(exitDone, "sweep")
			if f := w.subscription(); f.Problem != "" || f.Expected == nil || len(f.Shown) != 1 {
				t.Fatalf("before, status says %+v", f)
			}
			w.must(tt.act(w))
			if r := w.expect(exitFailed, "check"); !strings.Contains(r.out, tt.says) {
				t.Errorf("check says:\n%s", r.out)
			}
			if f := w.subscription(); f.Problem != "" {
				t.Errorf("check kept %+v in the ledger", f)
			}
			swept := w.expect(exitAttention, "sweep")
			w.expect(exitAttention, "sweep", "--output", "json")
			status := w.expect(exitDone, "status")
			for _, said := range []string{swept.errOut, status.out} {
				if !strings.Contains(said, tt.says) || !strings.Contains(said, "payersync webhooks subscribe") ||
					strings.Contains(said, "hunter2") {
					t.Errorf("it does not say %q:\n%s", tt.says, said)
				}
			}
			if f := w.subscription(); f.Problem != tt.problem || f.Since.IsZero() || w.needsPerson("subscription_changed") != 1 {
				t.Errorf("status says %+v, want %s", f, tt.problem)
			}
			if n := w.subscribes(); n != 1 {
				t.Errorf("subscribed %d times, want once, by a person", n)
			}
			w.expect(exitDone, "webhooks", "subscribe", "--yes")
			w.expect(exitDone, "sweep")
			if f := w.subscription(); f.Problem != "" || w.needsPerson("subscription_changed") != 0 {
				t.Errorf("after a person subscribed again status says %+v", f)
			}
		})
	}
}

// A service that shows no subscriptions says nothing of ours, whatever it answers.
//
// covers F113
func TestAServiceThatShowsNoSubscriptionIsNotTakenForOneThatLostIt(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 405, 501} {
		w := newWorld(t, people(1), func(o *sandbox.Options) {
			o.Switches.WebhookRead, o.Switches.RefusedMethodStatus = "none", status
		})
		w.expect(exitDone, "sync")
		w.expect(exitDone, "webhooks", "subscribe")
		if r := w.expect(exitDone, "check"); !strings.Contains(r.out, "does not show its webhook subscriptions") {
			t.Errorf("check says:\n%s", r.out)
		}
		w.expect(exitDone, "sweep")
		if f := w.subscription(); f.Problem != "" || !f.ShownAt.IsZero() {
			t.Errorf("answered %d, status says %+v", status, f)
		}
	}
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	w.expect(exitDone, "sweep")
	if f := w.subscription(); f.Problem != "" || f.Expected != nil {
		t.Errorf("without a subscription status says %+v", f)
	}
	w.expect(exitDone, "webhooks", "subscribe")
	w.expect(exitDone, "sweep")
	w.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Method: http.MethodGet, Path: "/api/apps/*/webhooks"})
	if r := w.expect(exitDone, "sweep"); !strings.Contains(r.errOut, "could not be looked at") {
		t.Errorf("while the subscription cannot be read sweep says:\n%s", r.errOut)
	}
	w.box.ClearFaults()
	gone := func(rw http.ResponseWriter, r *http.Request) bool {
		asked := r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/webhooks")
		if asked {
			http.NotFound(rw, r)
		}
		return asked
	}
	w.front.Store(&gone)
	w.expect(exitAttention, "sweep")
	if f := w.subscription(); f.Problem != state.SubscriptionNotShown || !strings.Contains(f.Detail, "is not known") {
		t.Errorf("once it is no longer shown status says %+v", f)
	}
	w.edit("payersync.yaml", "  rate_per_second", "  dialect: {webhook_read: none}\n  rate_per_second")
	w.expect(exitDone, "sweep")
	if r := w.expect(exitDone, "check"); !strings.Contains(r.out, "dialect.webhook_read is none") {
		t.Errorf("check says:\n%s", r.out)
	}
}

// covers F113
func TestASubscriptionIsShownWithWhoMadeItAndSinceWhenItIsSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	if r := w.expect(exitDone, "webhooks", "subscribe", "--show"); !strings.Contains(r.out,
		"nothing known to this ledger") || !strings.Contains(r.out, "shows none") {
		t.Errorf("before anything it says:\n%s", r.out)
	}
	w.expect(exitDone, "sync")
	if r := w.expect(exitDone, "webhooks", "subscribe"); strings.Contains(r.errOut, "Before") {
		t.Errorf("the first subscription replaces something:\n%s", r.errOut)
	}
	w.expect(exitDone, "sweep")
	show := func() subscriptionReport {
		t.Helper()
		return decode[subscriptionReport](t, w.expect(exitDone, "webhooks", "subscribe", "--show", "--output", "json"))
	}
	first := show()
	if first.Expected == nil || len(first.SubscribedBy) != 1 || first.SubscribedBy[0].ID != first.Expected.ID ||
		first.SubscribedBy[0].Actor == "" || first.Problem != "" ||
		len(first.Shown) != 1 || first.Shown[0].SeenSince.IsZero() || first.Shown[0].Name != "payersync" {
		t.Fatalf("it shows %+v", first)
	}
	w.expect(exitDone, "sweep")
	if again := show(); !again.Shown[0].SeenSince.Equal(first.Shown[0].SeenSince) {
		t.Errorf("what stays is so since %s, want %s", again.Shown[0].SeenSince, first.Shown[0].SeenSince)
	}
	w.box.ReplaceSubscription("https://elsewhere.example/in?key=hunter2", "customer")
	r := w.expect(exitDone, "webhooks", "subscribe", "--show")
	for _, want := range []string{"Differences: Another webhook subscription, with the address https://elsewhere.example/in?…", "found just now", "The service: shows that ", "; seen so since ", "by " + first.SubscribedBy[0].Actor + " on "} {
		if !strings.Contains(r.out, want) || strings.Contains(r.out, "hunter2") {
			t.Errorf("it does not say %q:\n%s", want, r.out)
		}
	}
	before := w.subscribes()
	if r := w.expect(exitUsage, "webhooks", "subscribe"); !strings.Contains(r.errOut,
		"the subscription to https://elsewhere.example/in?… would be replaced") || !strings.Contains(r.errOut, "--yes") ||
		w.subscribes() != before {
		t.Errorf("what is somebody else's is replaced without a yes:\n%s", r.errOut)
	}
	if r := w.expect(exitDone, "webhooks", "subscribe", "--yes"); !strings.Contains(r.errOut, "Before: ") ||
		!strings.Contains(r.errOut, "After: ") {
		t.Errorf("it does not show before and after:\n%s", r.errOut)
	}
	if both := show(); len(both.SubscribedBy) != 2 || both.Problem != "" {
		t.Errorf("after it was renewed it shows %+v", both)
	}
}

// covers F113
func TestAConfigurationThatNamesSomethingElseThanIsSubscribedIsToldOnceUntilItsEnd(t *testing.T) {
	t.Parallel()
	hook := &config.Webhook{PublicURL: "https://hooks.example/in/", Events: []string{"dd-mandate", "customer"}}
	asked := func(url string, events ...string) *state.Subscription {
		return &state.Subscription{ID: "w1", URL: "https://hooks.example/in", Events: []string{"ALL"},
			Asked: &state.Asked{URL: url, Events: events}}
	}
	for name, tt := range map[string]struct {
		expected *state.Subscription
		says     string
	}{
		"none known":          {nil, ""},
		"as it was asked for": {asked("https://hooks.example/in", "customer", "DD-Mandate"), ""},
		"another address": {asked("https://old.example/in", "customer", "dd-mandate"),
			"public_url is https://hooks.example/in/, and the subscription sends to https://old.example/in"},
		"an event more": {asked("https://hooks.example/in", "customer"),
			"events names dd-mandate, but the subscription does not"},
		"an event less": {asked("https://hooks.example/in", "customer", "dd-mandate", "payment"),
			"names payment, but events does not any more"},
		"from before, and more": {&state.Subscription{URL: "https://hooks.example/in",
			Events: []string{"customer", "dd-mandate", "payment"}}, ""},
		"from before, and one short": {&state.Subscription{URL: "https://hooks.example/in", Events: []string{"customer"}},
			"events names dd-mandate"},
	} {
		problem, detail := judgeConfigured(hook, tt.expected)
		if (problem == state.SubscriptionReplaced) != (tt.says != "") || !strings.Contains(detail, tt.says) {
			t.Errorf("%s: %s %q, want %q", name, problem, detail, tt.says)
		}
	}

	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	w.expect(exitDone, "webhooks", "subscribe")
	w.expect(exitDone, "sweep")
	address := "http://" + w.hooks + "/webhooks/billing"
	w.edit("payersync.yaml", address, address+"-new")
	w.expect(exitAttention, "sweep")
	found := w.subscription()
	w.expect(exitAttention, "sweep")
	if again := w.subscription(); found.Problem != state.SubscriptionReplaced || !again.Since.Equal(found.Since) ||
		w.needsPerson("subscription_changed") != 1 {
		t.Errorf("it is told as %+v, then %+v", found, again)
	}
	w.edit("payersync.yaml", address+"-new", address)
	w.expect(exitDone, "sweep")
	if f := w.subscription(); f.Problem != "" || w.needsPerson("subscription_changed") != 0 {
		t.Errorf("once it is as before it is told as %+v", f)
	}
}

// An app has one subscription: two installations of one app take it from each other.
//
// covers F169
func TestAnotherInstallationThatTookTheSubscriptionIsCalledThat(t *testing.T) {
	t.Parallel()
	ours := &state.Subscription{ID: "w1", URL: "https://one.example/in"}
	problem, detail := judgeSubscription(ours,
		[]state.Subscription{{ID: "w2", URL: "https://two.example/in", Name: subscriptionName, Enabled: true}})
	if problem != state.SubscriptionReplaced ||
		!strings.Contains(detail, "Another installation of payersync, with the address https://two.example/in") {
		t.Errorf("%s: %s", problem, detail)
	}
}
