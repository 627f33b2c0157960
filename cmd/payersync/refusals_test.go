package main

import (
	"testing"

	"payersync/connector/admin"
	"payersync/connector/server"
	"payersync/state"
)

// covers F179
func TestEveryRefusalOfTheWebhookEndpointIsSaidInWords(t *testing.T) {
	t.Parallel()
	told := 0
	for _, o := range server.Outcomes() {
		switch o {
		case server.Accepted, server.Repeated, server.NotReady:
			continue
		}
		told++
		if r := admin.RefusedFor(state.Refusals{Reason: string(o)}); r.Why == string(o) || r.Why == "" || r.Next == "" {
			t.Errorf("%s is told as %q, and to do: %q", o, r.Why, r.Next)
		}
	}
	if told < 10 {
		t.Errorf("the endpoint refuses for %d reasons, so the test shows nothing", told)
	}
}
