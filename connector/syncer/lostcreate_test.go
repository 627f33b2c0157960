package syncer_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
)

// The ways to a customer in the service that no run has read: the process dies before the answer, the request
// arrives late, or the reads after the answer fail.
var unansweredCreates = map[string]func(*testing.T) *world{
	"the process died": func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t)
		w.books.put("A1", "Northwind", "a@example.com")
		w.dying(w.connection(), http.MethodPost)
		return w
	},
	"it arrived late": func(t *testing.T) *world {
		t.Helper()
		w := lateCreate(t)
		w.clock.advance(11 * time.Minute)
		w.service.Customers() // which lets it arrive
		return w
	},
	"it was answered and not read": func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t)
		w.books.put("A1", "Northwind", "a@example.com")
		w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Method: http.MethodGet, Path: "/api/customers/*"})
		w.run()
		w.service.ClearFaults()
		return w
	},
}

// dying makes a run of a connection whose process dies right after its first request of a
// method for a customer: nothing is committed from then on.
func (w *world) dying(c syncer.Connection, method string) {
	w.t.Helper()
	if err := w.ledger.Close(); err != nil {
		w.t.Fatal(err)
	}
	before := len(w.bodies(method, "/api/customers"))
	w.openWith(func(bool) error {
		if len(w.bodies(method, "/api/customers")) > before {
			return errors.New("the process dies")
		}
		return nil
	})
	if err := w.runOf(c); err == nil {
		w.t.Fatalf("the process sent no %s and did not die", method)
	}
	_ = w.ledger.Close()
	w.open()
}

// covers F10, F251
func TestACustomerFoundAfterALostAnswerKeepsWhatSomebodyWroteMeanwhile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		member, value string // that a colleague writes; "" for nobody
		told          bool
	}{
		{name: "the name", member: "name", value: `"Ann Fox"`, told: true},
		{name: "the contact", member: "people", value: `[{"name":"Northwind","email":"corrected@x.example"}]`, told: true},
		{name: "the address", member: "addresses", value: `[{"line1":"9 Other St","postCode":"LS1 4AP"}]`, told: true},
		{name: "a field that is not ours", member: "notes", value: `"call after noon"`},
		{name: "nobody"},
	}
	for how, unanswered := range unansweredCreates {
		for _, tt := range tests {
			t.Run(how+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				w := unanswered(t)
				if p := w.payer("A1"); p.Seen || w.byKey()["A1"].ID == "" {
					t.Fatalf("the customer was read, or not made: %+v", p)
				}
				if tt.member != "" {
					w.editCustomer("A1", tt.member, tt.value)
				}
				w.clock.advance(time.Hour)
				w.complete(w.run())
				if p := w.payer("A1"); p.BillingID != w.byKey()["A1"].ID {
					t.Errorf("the payer is linked to %q", p.BillingID)
				}
				if got := w.member("A1", tt.member); tt.member != "" && got != tt.value {
					t.Errorf("the colleague's %s became %s", tt.value, got)
				}
				want := ""
				if tt.told {
					want = string(connector.ReasonForeignChange)
				}
				if got := w.attention()["A1"]; got != want {
					t.Errorf("told %q, want %q", got, want)
				}
				if n := len(w.bodies(http.MethodPut, "/api/customers")); n > 0 {
					t.Errorf("%d updates were sent, want none", n)
				}
				w.service.ResetRequests()
				w.complete(w.run())
				if n := len(w.bodies(http.MethodPut, "/api/customers")); n > 0 {
					t.Errorf("the next run sent %d updates, want none", n)
				}
				if got := w.attention()["A1"]; got != want {
					t.Errorf("after the next run told %q, want %q", got, want)
				}
			})
		}
	}
}

// covers F251
func TestACustomerFoundAfterALostAnswerGetsOursOnAPersonsWord(t *testing.T) {
	t.Parallel()
	w := unansweredCreates["the process died"](t)
	w.editCustomer("A1", "name", `"Ann Fox"`)
	w.clock.advance(time.Hour)
	w.run()
	w.retry("A1")
	w.complete(w.run())
	if got := w.member("A1", "name"); got != `"Northwind"` {
		t.Errorf("after a person's word the name is %s", got)
	}
	if got := w.attention(); len(got) > 0 {
		t.Errorf("still told: %v", got)
	}
}
