package server

import (
	"net/http"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/billing"
)

// Headers are not kept, and a type may stand in one.
//
// covers F38
func TestADeliveryIsReadAnewWithTheHeaderThatNamedItsType(t *testing.T) {
	t.Parallel()
	came := billing.EventPaths{Type: []string{"type", "header:X-Kind"}}
	now := billing.EventPaths{Type: []string{"header:X-Kind", "kind"}, MandateID: []string{"ref"}}
	h := http.Header{}
	h.Set("X-Kind", "payment.made")
	tests := []struct {
		name, body, header, stored string
		want                       connector.InboxState
		wantType                   string
	}{
		{"its header says payment, so the mandate in it is not read", `{"type":"t","ref":"m1"}`, "X-Kind: payment.made", "t",
			connector.InboxIgnored, "payment.made"},
		{"a header of another name is no type", `{"kind":"k","ref":"m1"}`, "X-Other: payment.made", "t",
			connector.InboxReceived, "k"},
		{"one of before has the type that was read", `{"ref":"m1"}`, "", "payment.made", connector.InboxIgnored,
			"payment.made"},
		{"one of before whose body names it by now", `{"kind":"k","ref":"m1"}`, "", "payment.made", connector.InboxReceived,
			"k"},
		{"one that never had one", `{"ref":"m1"}`, "", "", connector.InboxReceived, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Reread(now, tt.header, tt.stored, []byte(tt.body)); got.State != tt.want || got.Type != tt.wantType {
				t.Errorf("it is %s of type %q, want %s of %q", got.State, got.Type, tt.want, tt.wantType)
			}
		})
	}
	d, _ := Understand(came, h, []byte(`{"ref":"m1"}`))
	if d.TypeHeader != "X-Kind: payment.made" || d.Type != "payment.made" {
		t.Errorf("kept are %q and %q", d.TypeHeader, d.Type)
	}
	known := billing.DefaultEventPaths()
	known.Settled = []string{"dispute.opened"}
	for eventType, want := range map[string]connector.InboxState{"dispute.opened": connector.InboxIgnored,
		"refund.made": connector.InboxQuarantined} {
		if got := Reread(known, "", eventType, []byte(`{"type":"`+eventType+`"}`)); got.State != want {
			t.Errorf("what names nobody is %s of type %s, want %s", got.State, eventType, want)
		}
	}
	h.Set("X-Kind", strings.Repeat("x", 1000))
	if d, _ := Understand(came, h, []byte(`{"type":"t"}`)); d.TypeHeader != "" {
		t.Errorf("a header of 1000 bytes is kept")
	}
}
