package syncer_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
)

// member returns a member of the customer with a key.
func (w *world) member(key, member string) string {
	w.t.Helper()
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(w.byKey()[key].Raw, &members); err != nil {
		w.t.Fatal(err)
	}
	return string(members[member])
}

// unansweredUpdate is a world with an update that got no answer, whether or not it arrived.
func unansweredUpdate(t *testing.T, kind sandbox.FaultKind) *world {
	t.Helper()
	w := withContact(t, "ann@x.example")
	w.editCustomer("A1", "notes", `"call before noon"`)
	w.books.put("A1", "Ann Ray", "ann@x.example")
	w.service.Inject(sandbox.Fault{Kind: kind, Method: http.MethodPut, Path: "/api/customers", Count: 2})
	w.run()
	w.service.ClearFaults()
	return w
}

// covers F10, F251
func TestAnUpdateWithoutAnAnswerOverwritesNothingThatSomebodyWroteMeanwhile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		member, value string // that a colleague writes
		told          bool
	}{
		{name: "a field that the update changes", member: "name", value: `"Ann Fox"`, told: true},
		{name: "another field of ours", member: "people", value: `[{"name":"Ann Ray","email":"corrected@x.example"}]`, told: true},
		{name: "our address", member: "addresses", value: `[{"line1":"9 Other St","postCode":"LS1 4AP"}]`, told: true},
		{name: "a field that is not ours", member: "notes", value: `"call after noon"`},
	}
	for kind, arrived := range map[sandbox.FaultKind]bool{sandbox.LostResponse: true, sandbox.LostRequest: false} {
		for _, restart := range []bool{false, true} {
			for _, tt := range tests {
				t.Run(strings.Join([]string{string(kind), tt.name, map[bool]string{true: "restarted"}[restart]}, " "), func(t *testing.T) {
					t.Parallel()
					w := unansweredUpdate(t, kind)
					w.editCustomer("A1", tt.member, tt.value)
					if restart {
						w.restart()
					}
					w.clock.advance(time.Hour)
					w.run()
					if got := w.member("A1", tt.member); got != tt.value {
						t.Errorf("the colleague's %s became %s", tt.value, got)
					}
					got := w.attention()["A1"]
					if tt.told && got != string(connector.ReasonForeignChange) {
						t.Errorf("told %q, want foreign_change", got)
					}
					if !tt.told {
						if got != "" {
							t.Errorf("told %q, want nothing", got)
						}
						if name := w.member("A1", "name"); name != `"Ann Ray"` {
							t.Errorf("the name is %s; want ours", name)
						}
					}
					if n := len(w.bodies(http.MethodPut, "/api/customers")); tt.told && arrived && n > 2 {
						t.Errorf("%d updates were sent, want none after the colleague's edit", n)
					}
				})
			}
		}
	}
}

// covers F251
func TestAnUpdateThatOvertookAColleagueIsSentOnAPersonsWord(t *testing.T) {
	t.Parallel()
	w := unansweredUpdate(t, sandbox.LostResponse)
	w.editCustomer("A1", "name", `"Ann Fox"`)
	w.clock.advance(time.Hour)
	w.run()
	w.retry("A1")
	w.complete(w.run())
	if got := w.member("A1", "name"); got != `"Ann Ray"` {
		t.Errorf("after a person's word the name is %s", got)
	}
	if got := w.attention(); len(got) > 0 {
		t.Errorf("still told: %v", got)
	}
}
