package server_test

import (
	"net/http"
	"testing"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/server"
)

// covers F158
func TestEventsOfAnotherBillerAreKeptAndNotFollowed(t *testing.T) {
	t.Parallel()
	mine := billing.DefaultEventPaths()
	mine.Biller = "b-1"
	for name, tt := range map[string]struct {
		paths billing.EventPaths
		body  string
		state connector.InboxState
		asked string // the customer
	}{
		"ours": {mine, `{"type":"CUSTOMER_UPDATED","billerId":"b-1","customerId":"c-1"}`, connector.InboxReceived,
			"c-1"},
		"another's": {mine, `{"type":"CUSTOMER_UPDATED","billerId":"b-2","customerId":"c-1"}`, connector.InboxIgnored,
			""},
		"nested": {mine, `{"type":"CUSTOMER_UPDATED","data":{"billerId":"b-2","customerId":"c-1"}}`,
			connector.InboxIgnored, ""},
		"nobody named": {mine, `{"type":"CUSTOMER_UPDATED","customerId":"c-1"}`, connector.InboxReceived, "c-1"},
		"not configured": {billing.DefaultEventPaths(), `{"type":"CUSTOMER_UPDATED","billerId":"b-2","customerId":"c-1"}`,
			connector.InboxReceived, "c-1"},
	} {
		d, _ := server.Understand(tt.paths, http.Header{}, []byte(tt.body))
		if d.State != tt.state || d.BillingID != tt.asked {
			t.Errorf("%s: %s about %q, want %s about %q", name, d.State, d.BillingID, tt.state, tt.asked)
		}
	}
}
