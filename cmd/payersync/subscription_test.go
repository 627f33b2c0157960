package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

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
		}, state.SubscriptionReplaced, "sends to https://elsewhere.example/in?…, stands in place of ours"},
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
		{"disabled", func(w *world) error { return w.box.DisableSubscription() }, state.SubscriptionDisabled, "is disabled in the billing service"},
		{"deleted", func(w *world) error { return w.box.DeleteSubscription() }, state.SubscriptionDeleted, "is gone from the billing service"},
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
				if !strings.Contains(said, tt.says) || !strings.Contains(said, "payersync webhooks subscribe") || strings.Contains(said, "hunter2") {
					t.Errorf("it does not say %q:\n%s", tt.says, said)
				}
			}
			if f := w.subscription(); f.Problem != tt.problem || f.Since.IsZero() || w.needsPerson("subscription_changed") != 1 {
				t.Errorf("status says %+v, want %s", f, tt.problem)
			}
			if n := w.subscribes(); n != 1 {
				t.Errorf("subscribed %d times, want once, by a person", n)
			}
			w.expect(exitDone, "webhooks", "subscribe")
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
