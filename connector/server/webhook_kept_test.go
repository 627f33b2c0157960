package server

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/state"
)

// covers F31
func TestRepeatedDeliveryIsAcknowledgedAndChangesNothing(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { e.expect(200, delivery(sampleBody)) })
	}
	all.Wait()
	e.expectInbox(row{"event:ev-1", "dd-mandate.updated", "cus_1", connector.InboxReceived})
	e.expectNudges(1)
	fresh := 0
	for _, ev := range e.events {
		if ev.Outcome == Accepted {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d of 100 equal deliveries were reported as new, want 1", fresh)
	}
}

// covers F31
func TestDeliveriesAreToldApartByTheBestIdentityTheyHave(t *testing.T) {
	t.Parallel()
	at := noon
	const body, other = `{"type":"customer","customerId":"cus_1"}`,
		`{"type":"customer","customerId":"cus_1","status":"ACTIVE"}`
	key := func(signed billing.Signed, eventID, body string) string {
		return identity(signed, eventID, []byte(body))
	}
	tests := []struct {
		name  string
		a, b  string
		equal bool
	}{
		{"a signed id beats the body's", key(billing.Signed{DeliveryID: "d1"}, "e1", body),
			key(billing.Signed{DeliveryID: "d1"}, "e2", body), true},
		{"the two kinds of id never meet", key(billing.Signed{DeliveryID: "x"}, "", body), key(billing.Signed{}, "x", body),
			false},
		{"an id outlives the time of its signing", key(billing.Signed{SignedAt: at}, "e1", body),
			key(billing.Signed{SignedAt: at.Add(time.Hour)}, "e1", body), true},
		{"an id with another body is another event", key(billing.Signed{}, "e1", body), key(billing.Signed{}, "e1", other),
			false},
		{"and so is a signed id with another body", key(billing.Signed{DeliveryID: "d1"}, "", body),
			key(billing.Signed{DeliveryID: "d1"}, "", other), false},
		{"a signed time tells alike bodies apart", key(billing.Signed{SignedAt: at}, "", body),
			key(billing.Signed{SignedAt: at.Add(time.Second)}, "", body), false},
		{"the same signed time does not", key(billing.Signed{SignedAt: at}, "", body),
			key(billing.Signed{SignedAt: at}, "", body), true},
		{"alike bodies without id and time are one", key(billing.Signed{}, "", body), key(billing.Signed{}, "", body), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if (tt.a == tt.b) != tt.equal {
				t.Errorf("keys %q and %q, want equal: %t", tt.a, tt.b, tt.equal)
			}
		})
	}
}

// Where the place of the event's id is given wrongly, it holds the customer's or
// the mandate's, and every later event of theirs seems to have the same one.
//
// covers F31, F33
func TestALaterStatusIsNeverTakenForARepeatWhateverItsIdIs(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Events.EventID = []string{"eventId", "id"} })
	event := func(status string) string {
		return `{"id":"cus_1","type":"dd-mandate.updated","customerId":"cus_1"` + status + `}`
	}
	for i, status := range []string{`,"status":"PENDING"`, `,"status":"ACTIVE"`, ``} {
		e.expect(200, delivery(event(status)))
		if rows := e.inbox(); len(rows) != i+1 || e.lastEvent().Outcome != Accepted {
			t.Errorf("after %q the inbox is %+v, and it was reported %s; want a row of its own", status, rows,
				e.lastEvent().Outcome)
		}
		closeAll(t, e.ledger, connector.InboxReflected)
	}
	e.expect(200, delivery(event(``))) // spelt like the one before, and perhaps news all the same
	waiting := 0
	for _, row := range e.inbox() {
		if row.State == connector.InboxReceived {
			waiting++
		}
	}
	if waiting != 1 {
		t.Errorf("%d deliveries wait after one that is spelt like another, want 1: its customer is read again", waiting)
	}
	e.expectNudges(4)
}

// A body without an id that comes again may be the next event, spelt alike.
func TestAlikeDeliveryWithoutAnIdentityIsReflectedAgain(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	thin := `{"type":"dd-mandate","customerId":"cus_1"}`
	e.expect(200, delivery(thin))
	closeAll(t, e.ledger, connector.InboxReflected)
	e.expect(200, delivery(thin))
	if rows := e.inbox(); len(rows) != 1 || rows[0].State != connector.InboxReceived {
		t.Errorf("inbox %+v, want one row that waits again", rows)
	}
	if got := e.lastEvent(); got.Outcome != Repeated {
		t.Errorf("reported %s, want repeated", got.Outcome)
	}
	e.expectNudges(2)
}

func closeAll(t *testing.T, l *state.Ledger, as connector.InboxState) {
	t.Helper()
	open, err := l.OpenDeliveries(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range open {
		if err := l.Do(t.Context(), func(tx *state.Tx) error { return tx.CloseDeliveries(d, as, "") }); err != nil {
			t.Fatal(err)
		}
	}
}

// covers F38, F42, F56
func TestSignedDeliveriesAreKeptWhateverTheySay(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxName+1)
	tests := []struct {
		name, body string
		want       row
		detail     string
	}{
		{"names a customer", `{"type":"CUSTOMER_UPDATED","eventId":"e","customerId":"cus_9"}`,
			row{"event:e", "CUSTOMER_UPDATED", "cus_9", connector.InboxReceived}, ""},
		{"unknown type with a customer", `{"type":"moon.full","eventId":"e","customerId":"cus_9"}`,
			row{"event:e", "moon.full", "cus_9", connector.InboxReceived}, ""},
		{"payment", `{"type":"PAYMENT_SENT","eventId":"e","paymentId":"p"}`,
			row{"event:e", "PAYMENT_SENT", "", connector.InboxIgnored}, ""},
		{"invoice", `{"type":"invoice.created","eventId":"e"}`, row{"event:e", "invoice.created", "", connector.InboxIgnored},
			""},
		{"biller", `{"type":"BILLER_CREATED","eventId":"e"}`, row{"event:e", "BILLER_CREATED", "", connector.InboxIgnored},
			""},
		{"payment of a mandate", `{"type":"MANDATE_PAYMENT","eventId":"e"}`,
			row{"event:e", "MANDATE_PAYMENT", "", connector.InboxQuarantined}, "It names neither a customer nor a mandate."},
		{"mandate without a customer", `{"type":"dd-mandate","eventId":"e"}`,
			row{"event:e", "dd-mandate", "", connector.InboxQuarantined}, "It names neither a customer nor a mandate."},
		{"only a mandate", `{"type":"dd-mandate","eventId":"e","mandateId":"m-9"}`,
			row{"event:e", "dd-mandate", "", connector.InboxReceived}, ""},
		{"only a mandate, and no type", `{"eventId":"e","directDebitMandateId":"m-9"}`,
			row{"event:e", "", "", connector.InboxReceived}, ""},
		{"an invoice of a mandate", `{"type":"invoice.paid","eventId":"e","mandateId":"m-9"}`,
			row{"event:e", "invoice.paid", "", connector.InboxIgnored}, ""},
		{"none of them", `{"eventId":"e"}`, row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: read the delivery: it names no type, no customer and no mandate."},
		{"not JSON", `hello`, row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: read the delivery: it is not one JSON value."},
		{"nothing", ``, row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: read the delivery: it is not one JSON value."},
		{"two values", `{"customerId":"a"}{"customerId":"b"}`, row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: read the delivery: it is not one JSON value."},
		{"twins", `{"customerId":"a","customerid":"b"}`, row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: read the delivery: an object has the same key twice."},
		{"broken text", "{\"type\":\"customer\",\"name\":\"Jane \xff\"}", row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: read the delivery: the text is not UTF-8."},
		{"a list", `["Jane"]`, row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: read the delivery: it is not a JSON object."},
		{"long id", `{"type":"customer","customerId":"` + long + `"}`, row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: its type or one of its ids is too long or holds control characters."},
		{"U+0000 in the type", `{"type":"customer\u0000","customerId":"c"}`, row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: its type or one of its ids is too long or holds control characters."},
		{"U+0000 in the customer's id", `{"type":"customer","customerId":"c\u0000"}`,
			row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: its type or one of its ids is too long or holds control characters."},
		{"U+0000 in the mandate's id", `{"type":"dd-mandate","mandateId":"\u0000m"}`,
			row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: its type or one of its ids is too long or holds control characters."},
		{"U+0000 in the event's id", `{"type":"customer","customerId":"c","eventId":"e\u0000"}`,
			row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: its type or one of its ids is too long or holds control characters."},
		{"U+0000 elsewhere", `{"type":"customer","customerId":"c","eventId":"e","name":"\u0000"}`,
			row{"event:e", "customer", "c", connector.InboxReceived}, ""},
		{"control characters", `{"type":"customer\u001b[31m","customerId":"c"}`, row{"", "", "", connector.InboxQuarantined},
			"It could not be understood: its type or one of its ids is too long or holds control characters."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, bodyOnly())
			e.expect(200, delivery(tt.body))
			key, rows := e.lastEvent().Key, e.inbox()
			if len(rows) != 1 {
				t.Fatalf("inbox has %d rows, want 1", len(rows))
			}
			got := rows[0]
			if tt.want.Key == "" { // a hash
				if !strings.HasPrefix(got.Key, "sha256:") {
					t.Errorf("key %q, want a hash", got.Key)
				}
				got.Key = ""
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
			body, err := e.ledger.DeliveryBody(t.Context(), key)
			if err != nil || string(body) != tt.body {
				t.Errorf("kept %q, %v; want the bytes as they came", body, err)
			}
			e.expectDetail(tt.detail)
			e.expectNudges(map[connector.InboxState]int{connector.InboxReceived: 1}[tt.want.State])
		})
	}
}

// expectDetail checks what a person is told of the quarantined deliveries.
func (e *endpoint) expectDetail(want string) {
	e.t.Helper()
	rows, err := e.ledger.Attention(e.t.Context(), state.Filter{State: string(connector.ReasonEventNotUnderstood)})
	if err != nil {
		e.t.Fatal(err)
	}
	var got string
	if len(rows) > 0 {
		got = rows[0].Detail
	}
	if got != want {
		e.t.Errorf("a person is told %q, want %q", got, want)
	}
}

// covers F39, F59
func TestDeliveryThatCannotBeStoredIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	if err := e.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	w := e.expect(503, delivery(sampleBody))
	if w.Header().Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	if got := e.lastEvent(); got.Outcome != NotStored || !errors.Is(got.Err, state.ErrClosed) {
		t.Errorf("reported %+v, want not_stored with the cause", got)
	}
	e.expectNudges(0)
}
