package syncer_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/syncer"
)

// contact is a contact as the service has it.
type contact struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Email string `json:"email"`
}

// contacts returns the contacts of the customer with a key.
func (w *world) contacts(key string) []contact {
	w.t.Helper()
	var c struct{ People []contact }
	if err := json.Unmarshal(w.byKey()[key].Raw, &c); err != nil {
		w.t.Fatal(err)
	}
	return c.People
}

// editContacts gives the customer with a key other contacts, as a colleague does.
func (w *world) editContacts(key, people string) {
	w.t.Helper()
	w.editCustomer(key, "people", people)
	if _, err := w.syncer.Reconciler.Sweep(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// editCustomer gives the customer with a key another value of a member, as a colleague does.
func (w *world) editCustomer(key, member, value string) {
	w.t.Helper()
	c, members := w.byKey()[key], map[string]json.RawMessage{}
	if err := json.Unmarshal(c.Raw, &members); err != nil {
		w.t.Fatal(err)
	}
	members[member] = json.RawMessage(value)
	raw, err := json.Marshal(members)
	if err == nil {
		err = w.service.Edit(c.ID, raw)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// withContact is a world with one payer in step.
func withContact(t *testing.T, email string) *world {
	t.Helper()
	w := newWorld(t)
	w.books.put("A1", "Ann Lee", email)
	w.complete(w.run())
	return w
}

// covers F250
func TestACorrectedAddressEndsInOneContactAfterOursIsSent(t *testing.T) {
	t.Parallel()
	w := withContact(t, "ann@x.example")
	w.editContacts("A1", `[{"id":"p1","name":"Ann Lee","email":"corrected@x.example"}]`)
	w.complete(w.run())
	if got := w.attention(); got["A1"] != string(connector.ReasonForeignChange) {
		t.Fatalf("told %v", got)
	}
	drift, err := w.syncer.DriftOf(t.Context(), w.connection(), w.payer("A1"))
	if err != nil {
		t.Fatal(err)
	}
	want := []connector.FieldChange{{Path: "people[0].email", From: "corrected@x.example", To: "ann@x.example"}}
	if diff := cmp.Diff(want, drift.Fields); diff != "" {
		t.Errorf("drift (-want +got):\n%s", diff)
	}
	if err := w.syncer.SendOurs(t.Context(), drift, syncer.Operator{Name: "tester", Reason: "ours is right"}); err != nil {
		t.Fatal(err)
	}
	w.complete(w.run())
	if diff := cmp.Diff([]contact{{ID: "p1", Name: "Ann Lee", Email: "ann@x.example"}}, w.contacts("A1")); diff != "" {
		t.Errorf("contacts (-want +got):\n%s", diff)
	}
}

// covers F250
func TestACorrectedAddressEndsInOneContactAfterAnotherFieldChanges(t *testing.T) {
	t.Parallel()
	w := withContact(t, "ann@x.example")
	w.editContacts("A1", `[{"name":"Zoe","email":"zoe@x.example"},{"name":"Ann Lee","email":"corrected@x.example"}]`)
	w.books.putAs("A1", map[string]string{"No": "A1", "Name": "Ann Lee", "Email": "ann@x.example", "Postcode": "LS2 9ZZ",
		"Group": "payer"})
	w.complete(w.run())
	want := []contact{{Name: "Zoe", Email: "zoe@x.example"}, {Name: "Ann Lee", Email: "ann@x.example"}}
	if diff := cmp.Diff(want, w.contacts("A1")); diff != "" {
		t.Errorf("contacts (-want +got):\n%s", diff)
	}
}

// covers F250
func TestAnAddressThatTheBooksLackStaysOnTheContact(t *testing.T) {
	t.Parallel()
	w := withContact(t, "")
	w.editContacts("A1", `[{"name":"Ann Lee","email":"added@x.example"}]`)
	w.books.putAs("A1", map[string]string{"No": "A1", "Name": "Ann Lee", "Email": "", "Postcode": "LS2 9ZZ",
		"Group": "payer"})
	w.complete(w.run())
	if diff := cmp.Diff([]contact{{Name: "Ann Lee", Email: "added@x.example"}}, w.contacts("A1")); diff != "" {
		t.Errorf("contacts (-want +got):\n%s", diff)
	}
	w.books.put("A1", "Ann Lee", "ann@x.example")
	w.complete(w.run())
	if diff := cmp.Diff([]contact{{Name: "Ann Lee", Email: "ann@x.example"}}, w.contacts("A1")); diff != "" {
		t.Errorf("after the books have one, contacts (-want +got):\n%s", diff)
	}
}

// The service gives its contacts ids. A colleague edits all of a contact and moves it: the id
// that a read has shown tells that it is ours.
//
// covers F250
func TestAContactOfOursIsKnownByTheServicesID(t *testing.T) {
	t.Parallel()
	w := withContact(t, "ann@x.example")
	w.editContacts("A1", `[{"id":"p1","name":"Ann Lee","email":"ann@x.example"}]`)
	if _, err := w.syncer.Reconciler.Check(t.Context(), w.byKey()["A1"].ID, connector.CauseWebhook, "test"); err != nil {
		t.Fatal(err)
	}
	if got := w.payer("A1").Applied.People[0].ID; got != "p1" {
		t.Fatalf("the contact's id is kept as %q", got)
	}
	for i, postcode := range []string{"LS2 9ZZ", "LS3 9ZZ"} { // an update keeps the id that is known
		w.editContacts("A1", `[{"id":"p9","name":"Zoe","email":"zoe@x.example"},{"id":"p1","name":"A. L.","email":"other@x.example"}]`)
		w.books.putAs("A1", map[string]string{"No": "A1", "Name": "Ann Lee", "Email": "ann@x.example", "Postcode": postcode,
			"Group": "payer"})
		w.complete(w.run())
		want := []contact{{ID: "p9", Name: "Zoe", Email: "zoe@x.example"},
			{ID: "p1", Name: "Ann Lee", Email: "ann@x.example"}}
		if diff := cmp.Diff(want, w.contacts("A1")); diff != "" {
			t.Errorf("%s, contacts (-want +got):\n%s", fmt.Sprint(i), diff)
		}
	}
}
