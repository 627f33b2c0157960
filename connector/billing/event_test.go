package billing_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector/billing"
	"payersync/connector/sandbox"
)

func TestEventIsReadInFlatAndNestedSpellings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		header     http.Header
		want       billing.Event
	}{
		{"thin", `{"type":"DIRECT_DEBIT_MANDATE_INITIATED","eventId":"e1","billerId":"b","customerId":"c1","directDebitMandateId":"m1"}`, nil,
			billing.Event{Type: "DIRECT_DEBIT_MANDATE_INITIATED", CustomerID: "c1", MandateID: "m1", EventID: "e1",
				BillerID: "b"}},
		{"nested", `{"event":"customer.updated","data":{"customer":{"id":"c1"},"mandate":{"id":"m1"},"occurredAt":"2026-03-01T09:00:00Z"}}`, nil,
			billing.Event{Type: "customer.updated", CustomerID: "c1", MandateID: "m1", OccurredAt: "2026-03-01T09:00:00Z"}},
		{"an object under event", `{"event":{"type":"x","id":"e1","customer":{"id":"c1"}}}`, nil,
			billing.Event{Type: "x", CustomerID: "c1", EventID: "e1"}},
		{"numbers keep their digits", `{"type":"x","customerId":12345678901234567890,"timestamp":1772355600000}`, nil,
			billing.Event{Type: "x", CustomerID: "12345678901234567890", OccurredAt: "1772355600000"}},
		{"the type in a header", `{"customerId":"c1"}`, headers("adfin-webhook-type", "customer"),
			billing.Event{Type: "customer", CustomerID: "c1"}},
		{"a bare id is nobody's", `{"type":"x","id":"1"}`, nil, billing.Event{Type: "x"}},
		{"unknown type", `{"type":"invoice.paid"}`, nil, billing.Event{Type: "invoice.paid"}},
		{"facts of the wrong kind", `{"type":["x"],"customerId":{"id":1},"customer":"c1","data":{"customerId":"c2"}}`, nil,
			billing.Event{CustomerID: "c2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := billing.ParseEvent(billing.DefaultEventPaths(), tt.header, []byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEventPathsCanBeSet(t *testing.T) {
	t.Parallel()
	paths := billing.EventPaths{Type: []string{"header:X-Kind"}, CustomerID: []string{"a.b.c"}}
	got, err := billing.ParseEvent(paths, headers("X-Kind", "k"),
		[]byte(`{"type":"t","customerId":"no","a":{"b":{"c":"c1"}}}`))
	if want := (billing.Event{Type: "k", CustomerID: "c1"}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

// Whoever caught a delivery can send it with headers of their own.
//
// covers F35
func TestAHeaderSaysNothingButTheType(t *testing.T) {
	t.Parallel()
	paths := billing.EventPaths{
		Type: []string{"header:X-Kind"}, CustomerID: []string{"customerId", "header:X-Customer"},
		MandateID: []string{"header:X-Mandate"}, EventID: []string{"header:X-Id"}, OccurredAt: []string{"header:X-Time"},
	}
	h := headers("X-Kind", "k", "X-Customer", "c", "X-Mandate", "m", "X-Id", "1", "X-Time", "2026-03-01T09:00:00Z")
	got, err := billing.ParseEvent(paths, h, []byte(`{}`))
	if want := (billing.Event{Type: "k"}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	want := `event_paths.customer_id[1]: a header is not signed, so only the type is read from one; name a member of the body`
	if err := paths.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) ||
		strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("Validate says %v; want four lines, the first of them %s", err, want)
	}
	if err := billing.DefaultEventPaths().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

// covers F37, F38, F90
func TestDeliveryThatIsNoEventIsAnError(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, `null`, `[]`, `"x"`, `{"type":"x"`, `{"type":"x"}{}`, `{"type":"x","TYPE":"y"}`, "{\"type\":\"\xff\"}", `{}`,
		`{"id":"1"}`,
		"\xef\xbb\xbf" + `{"type":"x"}`, `{"type":"x","a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
		`{"type":"x","a":"` + strings.Repeat("a", billing.MaxEventBytes) + `"}`,
	} {
		if got, err := billing.ParseEvent(billing.DefaultEventPaths(), nil, []byte(body)); err == nil {
			t.Errorf("%.60q was read as %+v", body, got)
		}
	}
}

func TestSandboxPayloadsAreUnderstood(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"flat", "nested", "thin"} {
		switches := sandbox.Standard()
		switches.Payload = payload
		switches.Signature = sandbox.Signature{Header: "S"}
		event, _ := deliver(t, switches, billing.Signature{Header: "S"})
		if event.Type == "" || event.CustomerID == "" {
			t.Errorf("%s: %+v", payload, event)
		}
	}
}

func TestMembersOfADeliveryAreShownWithoutTheirValues(t *testing.T) {
	t.Parallel()
	got, err := billing.EventMembers([]byte(`{"kind":"Zoë","data":{"payer":{"ref":12,"ok":true},"list":[{"a":1}],"none":null},"empty":{}}`))
	want := []billing.EventMember{
		{Path: "kind", Kind: "text of 3 characters"}, {Path: "data.payer.ref", Kind: "number"},
		{Path: "data.payer.ok", Kind: "true"},
		{Path: "data.list", Kind: "list"}, {Path: "data.none", Kind: "null"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("members (-want +got), %v:\n%s", err, diff)
	}
	if got, err := billing.EventMembers([]byte(`Jane Doe`)); err == nil || strings.Contains(err.Error(), "Jane") {
		t.Errorf("what is no object has members %v, %v", got, err)
	}
}

func FuzzParseEvent(f *testing.F) {
	f.Add([]byte(`{"type":"CUSTOMER_UPDATED","customerId":"c1","data":{"customer":{"id":1}}}`))
	f.Add([]byte(`{"event":{"type":"\u0041","id":-0.5e3}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := billing.ParseEvent(billing.DefaultEventPaths(), nil, body)
		if err == nil && got.Type == "" && got.CustomerID == "" && got.MandateID == "" {
			t.Errorf("%q is an event without type, customer and mandate", body)
		}
		members, notRead := billing.EventMembers(body)
		if err == nil && notRead != nil {
			t.Errorf("the members of %q are %v, %v", body, members, notRead)
		}
		if err != nil && got != (billing.Event{}) {
			t.Errorf("%q is both %+v and %v", body, got, err)
		}
	})
}

func TestTimesAreReadInEverySpelling(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 11, 5, 4, 50, 32, 132e6, time.UTC)
	for text, want := range map[string]time.Time{
		"2024-11-05T04:50:32.132Z":      at,
		"2024-11-05T04:50:32.132UTC":    at,
		"2024-11-05T04:50:32.132":       at,
		" 2024-11-05 04:50:32.132 ":     at,
		"2024-11-05T05:50:32.132+01:00": at,
		"1730782232132":                 at,
		"1730782232":                    at.Truncate(time.Second),
	} {
		if got, err := billing.ParseTime(text); err != nil || !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%q = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "UTC", "yesterday", "2024-11-05", "2024-13-05T04:50:32Z", "-5", "1e9",
		"9999999999999999", "0000-01-01T00:00:00Z"} {
		if got, err := billing.ParseTime(text); err == nil {
			t.Errorf("%q = %v", text, got)
		}
	}
}

func FuzzParseTime(f *testing.F) {
	f.Add("2024-11-05T04:50:32.132UTC")
	f.Add("1730782232132")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := billing.ParseTime(text)
		if err != nil {
			return
		}
		again, err := billing.ParseTime(got.Format(time.RFC3339Nano))
		if err != nil || !again.Equal(got) {
			t.Errorf("%q = %v, which reads as %v, %v", text, got, again, err)
		}
	})
}
