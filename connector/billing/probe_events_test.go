package billing_test

import (
	"slices"
	"strings"
	"testing"

	"payersync/connector/billing"
	"payersync/connector/sandbox"
)

func TestAProbeHoldsTheNamesOfEventsAgainstThoseOfTheSubscriptions(t *testing.T) {
	t.Parallel()
	list := func(names ...string) []string { return names }
	usual := list("dd-mandate", "customer")
	tests := []struct {
		name       string
		configured []string
		carried    []string // nil for no subscription
		turn       func(sw *sandbox.Switches, d *billing.Dialect)
		found      string
		certainty  billing.Certainty
		says       string
	}{
		{"none is shown", usual, nil, nil, "", billing.Unknown, "subscribe to webhooks, and a probe"},
		{"as named", usual, list("customer", "dd-mandate"), nil, "dd-mandate, customer", billing.Likely, "by these names"},
		{"as named, and more", usual, list("invoice", "customer", "dd-mandate"), nil, "dd-mandate, customer", billing.Likely,
			"by these names"},
		{"in another case", usual, list("CUSTOMER", "dd-mandate"), nil, "dd-mandate, CUSTOMER", billing.Likely,
			"customer in another spelling"},
		{"with an underscore", usual, list("customer", "dd_mandate"), nil, "dd_mandate, customer", billing.Likely,
			"dd-mandate in another spelling"},
		{"in the plural", usual, list("customers", "dd-mandates"), nil, "dd-mandates, customers", billing.Likely,
			"dd-mandate, customer in another spelling"},
		{"in the singular", list("customers"), list("customer"), nil, "customer", billing.Likely,
			"customers in another spelling"},
		{"in capitals throughout", usual, list("CUSTOMERS", "DD_MANDATE"), nil, "DD_MANDATE, CUSTOMERS", billing.Likely,
			"another spelling"},
		{"both spellings", usual, list("Customer", "customer", "dd-mandate"), nil, "dd-mandate, customer", billing.Likely,
			"by these names"},
		{"one by none", usual, list("customer", "invoice"), nil, "", billing.Unknown,
			"none carries dd-mandate in any spelling"},
		{"all by none", usual, list("invoice"), nil, "", billing.Unknown,
			"none carries dd-mandate, customer in any spelling"},
		{"one by none, one otherwise", usual, list("Customer", "invoice"), nil, "dd-mandate, Customer", billing.Likely,
			"none carries dd-mandate in any spelling"},
		{"not shown by the service", usual, list("customers"),
			func(sw *sandbox.Switches, _ *billing.Dialect) { sw.WebhookRead = "none" }, "", billing.Unknown,
			"does not show subscriptions"},
		{"not asked", usual, list("customers"), func(_ *sandbox.Switches, d *billing.Dialect) { d.WebhookRead = "none" }, "",
			billing.Unknown, "not asked for"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sw, d := sandbox.Standard(), billing.Standard()
			if tt.turn != nil {
				tt.turn(&sw, &d)
			}
			box, _ := newSandbox(t, sw, d)
			if tt.carried != nil {
				box.ReplaceSubscription("https://books.example/hook", tt.carried...)
			}
			cfg := config(box.RoundTripper())
			cfg.Dialect, cfg.Events = d, tt.configured
			found, err := newClient(t, cfg).Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(found, func(f billing.Finding) bool { return f.Setting == "webhook.events" })
			if i < 0 {
				t.Fatalf("it says nothing of them: %+v", found)
			}
			got := found[i]
			if got.Configured != strings.Join(tt.configured, ", ") || got.Found != tt.found || got.Certainty != tt.certainty ||
				!strings.Contains(got.How, tt.says) {
				t.Errorf("it says %+v", got)
			}
			if otherwise := strings.Contains(got.How, "another spelling"); otherwise && !got.Differs() {
				t.Error("it takes another spelling for the same")
			}
		})
	}
}

func TestAProbeSaysNothingOfEventsWhereNoneAreConfigured(t *testing.T) {
	t.Parallel()
	box, _ := newSandbox(t, sandbox.Standard(), billing.Standard())
	box.ReplaceSubscription("https://books.example/hook", "customer")
	cfg := config(box.RoundTripper())
	cfg.Events = nil
	found, err := newClient(t, cfg).Probe(t.Context())
	if err != nil || slices.ContainsFunc(found, func(f billing.Finding) bool { return f.Setting == "webhook.events" }) {
		t.Errorf("it says %+v, %v", found, err)
	}
}
