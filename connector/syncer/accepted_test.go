package syncer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

var ann = syncer.Operator{Name: "Ann", Reason: "they know better"}

// edited is a world in which a colleague has changed A1's customer, text by text, and a
// sweep and a run have told of it.
func edited(t *testing.T, edits ...string) *world {
	t.Helper()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	w.editTheirs(edits...)
	w.told(connector.ReasonForeignChange, "after the edit")
	return w
}

// editTheirs changes texts of A1's customer, and lets payersync see it.
func (w *world) editTheirs(edits ...string) {
	w.t.Helper()
	id := w.payer("A1").BillingID
	raw := []byte(w.raw(id))
	for i := 0; i < len(edits); i += 2 {
		if !bytes.Contains(raw, []byte(edits[i])) {
			w.t.Fatalf("the customer does not hold %s: %s", edits[i], raw)
		}
		raw = bytes.ReplaceAll(raw, []byte(edits[i]), []byte(edits[i+1]))
	}
	if err := w.service.Edit(id, json.RawMessage(raw)); err != nil {
		w.t.Fatal(err)
	}
	w.goOn()
}

func (w *world) goOn() {
	w.t.Helper()
	w.clock.advance(time.Hour)
	w.sweep()
	w.complete(w.run())
}

func (w *world) drift(want ...connector.FieldChange) syncer.Drift {
	w.t.Helper()
	d, err := w.syncer.DriftOf(w.t.Context(), w.connection(), w.payer("A1"))
	if err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(want, d.Fields); diff != "" {
		w.t.Fatalf("what differs (-want +got):\n%s", diff)
	}
	return d
}

func (w *world) does(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

var (
	name  = connector.FieldChange{Path: "name", From: "Southwind", To: "Northwind"}
	email = connector.FieldChange{Path: "people[0].email", From: "b@example.com", To: "a@example.com"}
)

// covers F121
func TestWhatSomebodyChangedIsListedWithBothSides(t *testing.T) {
	t.Parallel()
	w := edited(t, `"name":"Northwind"`, `"name":"Southwind"`, "LS1 4AP", "YO1 7HY")
	writes := w.service.Writes()
	w.drift(
		connector.FieldChange{Path: "addresses[0].postCode", From: "YO1 7HY", To: "LS1 4AP"}, name,
		connector.FieldChange{Path: "people[0].name", From: "Southwind", To: "Northwind"})
	if w.service.Writes() != writes {
		t.Error("a look has sent something")
	}
	rows, err := w.ledger.Attention(t.Context(), state.Filter{})
	if err != nil || strings.Contains(rows[0].Detail, "wind") {
		t.Errorf("what is told holds a value: %+v, %v", rows, err)
	}
	edited(t, "a@example.com", "b@example.com").drift(email)
}

// covers F121
func TestTakingTheirsIsConfirmedAndOverwrittenOnlyWhenOursChanges(t *testing.T) {
	t.Parallel()
	w := edited(t, `"name":"Northwind","`, `"name":"Southwind","`)
	if c, _ := w.service.Customer(w.payer("A1").BillingID); c.Name != "Southwind" {
		t.Fatalf("the edit made %s", c.Raw)
	}
	d, err := w.syncer.DriftOf(t.Context(), w.connection(), w.payer("A1"))
	w.does(err)
	if err := w.syncer.TakeTheirs(t.Context(), d, nil, syncer.Operator{Name: "Ann"}); !errors.Is(err,
		syncer.ErrReasonNeeded) {
		t.Errorf("without a reason: %v", err)
	}
	if err := w.syncer.TakeTheirs(t.Context(), d, []string{"people[7].phone"}, ann); !errors.Is(err,
		syncer.ErrNoSuchField) {
		t.Errorf("of a field that does not differ: %v", err)
	}
	writes := w.service.Writes()
	w.does(w.syncer.TakeTheirs(t.Context(), d, nil, ann))
	w.told("", "right after theirs was taken")
	if err := w.syncer.TakeTheirs(t.Context(), d, nil, ann); !errors.Is(err, syncer.ErrReadMeanwhile) {
		t.Errorf("taken twice from one look: %v", err)
	}
	for range 3 {
		w.goOn()
	}
	w.told("", "later")
	if n := w.service.Writes() - writes; n != 0 {
		t.Fatalf("%d requests were sent for what was accepted", n)
	}
	w.drift()

	w.books.put("A1", "Northwind", "new@example.com") // another field of ours
	w.goOn()
	if c, _ := w.service.Customer(w.payer("A1").BillingID); c.Name != "Southwind" ||
		!strings.Contains(string(c.Raw), "new@example.com") {
		t.Errorf("with another field, the customer became %s", c.Raw)
	}
	w.editTheirs(`"name":"Southwind","`, `"name":"Eastwind","`) // theirs changes again: that is news
	w.told(connector.ReasonForeignChange, "after another edit of theirs")
	d, err = w.syncer.DriftOf(t.Context(), w.connection(), w.payer("A1"))
	w.does(err)
	w.does(w.syncer.TakeTheirs(t.Context(), d, nil, ann))
	w.goOn()
	w.told("", "after it was taken as well")

	w.books.put("A1", "Westwind", "new@example.com") // ours changes: it is sent, and shown before
	_, changes := w.plan()
	if len(changes) != 1 || !slices.Contains(changes[0].Diff,
		connector.FieldChange{Path: "name", From: "Eastwind", To: "Westwind"}) {
		t.Fatalf("the plan is %+v", changes)
	}
	w.goOn()
	if c, _ := w.service.Customer(w.payer("A1").BillingID); c.Name != "Westwind" {
		t.Errorf("our new name was not sent: %s", c.Raw)
	}
	w.told("", "in the end")
}

// covers F121
func TestOneFieldCanBeTakenAndTheOthersAreStillTold(t *testing.T) {
	t.Parallel()
	w := edited(t, `"name":"Northwind","`, `"name":"Southwind","`, "LS1 4AP", "YO1 7HY")
	d, err := w.syncer.DriftOf(t.Context(), w.connection(), w.payer("A1"))
	w.does(err)
	w.does(w.syncer.TakeTheirs(t.Context(), d, []string{"addresses[0].postCode"}, ann))
	w.goOn()
	w.told(connector.ReasonForeignChange, "of the name")
	d, err = w.syncer.DriftOf(t.Context(), w.connection(), w.payer("A1"))
	w.does(err)
	if slices.ContainsFunc(d.Fields, func(f connector.FieldChange) bool { return f.Path == "addresses[0].postCode" }) {
		t.Errorf("what was taken still differs: %+v", d.Fields)
	}
	w.does(w.syncer.SendOurs(t.Context(), d, ann))
	w.goOn()
	w.told("", "after ours was sent")
	if raw := w.raw(w.payer("A1").BillingID); !strings.Contains(raw, `"name":"Northwind"`) ||
		!strings.Contains(raw, "LS1 4AP") {
		t.Errorf("ours was sent, and the customer is %s", raw)
	}
}

// covers F74, F121
func TestSendingOursIsPlannedShownAndHeldToTheLimits(t *testing.T) {
	t.Parallel()
	w := edited(t, `"name":"Northwind","`, `"name":"Southwind","`)
	w.syncer.Settings.Guards = syncer.Guards{MaxChanges: syncer.Limit{Count: 0}}
	d, err := w.syncer.DriftOf(t.Context(), w.connection(), w.payer("A1"))
	w.does(err)
	if err := w.syncer.SendOurs(t.Context(), d, syncer.Operator{Name: "Ann"}); !errors.Is(err, syncer.ErrReasonNeeded) {
		t.Errorf("without a reason: %v", err)
	}
	writes := w.service.Writes()
	w.does(w.syncer.SendOurs(t.Context(), d, ann))
	_, changes := w.plan()
	if len(changes) != 1 || changes[0].Action != connector.ActionUpdate || !slices.Contains(changes[0].Diff, name) {
		t.Fatalf("the plan is %+v", changes)
	}
	if res := w.runWith(t.Context(),
		syncer.RunOptions{Kind: connector.RunSync}); res.Outcome != connector.RunAwaitingApproval ||
		w.service.Writes() != writes {
		t.Errorf("above the limits the run is %s, and %d requests left", res.Outcome, w.service.Writes()-writes)
	}
	w.complete(w.runWith(t.Context(),
		syncer.RunOptions{Kind: connector.RunSync, Approve: func(state.Plan) (bool, error) { return true, nil }}))
	if c, _ := w.service.Customer(w.payer("A1").BillingID); c.Name != "Northwind" {
		t.Errorf("ours was not sent: %s", c.Raw)
	}
	w.told("", "in the end")
}

// covers F121
func TestAPartThatIsIgnoredIsLeftToTheService(t *testing.T) {
	t.Parallel()
	w := edited(t, `"email":"a@example.com"`, `"email":"b@example.com"`)
	d, err := w.syncer.DriftOf(t.Context(), w.connection(), w.payer("A1"))
	w.does(err)
	if err := w.syncer.IgnoreParts(t.Context(), d, []string{"externalData"}, ann); err == nil {
		t.Error("a part that no mapping owns was ignored")
	}
	writes := w.service.Writes()
	w.does(w.syncer.IgnoreParts(t.Context(), d, []string{"people"}, ann))
	w.told("", "right after it was ignored")
	w.editTheirs("b@example.com", "c@example.com")
	w.books.put("A1", "Northwind", "ours@example.com")
	w.goOn()
	w.told("", "after both sides have changed it")
	if n := w.service.Writes() - writes; n != 0 {
		t.Errorf("%d requests were sent for what is ignored", n)
	}
	w.editTheirs(`"name":"Northwind","`, `"name":"Southwind","`)
	w.told(connector.ReasonForeignChange, "of what is not ignored")
	d, err = w.syncer.DriftOf(t.Context(), w.connection(), w.payer("A1"))
	w.does(err)
	w.does(w.syncer.SendOurs(t.Context(), d, ann)) // takes back what was ignored
	w.goOn()
	if raw := w.raw(w.payer("A1").BillingID); !strings.Contains(raw, `"name":"Northwind"`) ||
		!strings.Contains(raw, "ours@example.com") {
		t.Errorf("ours was sent, and the customer is %s", raw)
	}
	w.told("", "in the end")
}

// covers F121
func TestAContactThatWasTakenAwayStaysAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	id := w.payer("A1").BillingID
	var c map[string]any
	w.does(json.Unmarshal([]byte(w.raw(id)), &c))
	c["people"] = []any{}
	raw, err := json.Marshal(c)
	w.does(err)
	w.does(w.service.Edit(id, raw))
	w.goOn()
	w.told(connector.ReasonForeignChange, "after the contact was taken away")
	d := w.drift(connector.FieldChange{Path: "people[0].email", To: "a@example.com"},
		connector.FieldChange{Path: "people[0].name", To: "Northwind"})
	writes := w.service.Writes()
	w.does(w.syncer.TakeTheirs(t.Context(), d, nil, ann))
	w.goOn()
	w.told("", "after theirs was taken")
	if w.service.Writes() != writes {
		t.Error("the contact was sent again")
	}
	w.books.put("A1", "Northwind", "new@example.com")
	w.goOn()
	w.told("", "after ours has changed")
	if raw := w.raw(id); !strings.Contains(raw, `"email":"new@example.com"`) || strings.Count(raw, `"Northwind"`) != 2 {
		t.Errorf("our new contact was not sent whole: %s", raw)
	}
}

// covers F121
func TestWhatIsTakenOfAContactBehindOneThatWasTakenAwayIsItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mapping = strings.Replace(standardMapping, "addresses:", `  - {name: '"Desk"', email: '"desk@example.com"'}
  addresses:`, 1)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	id := w.payer("A1").BillingID
	var c map[string]any
	w.does(json.Unmarshal([]byte(w.raw(id)), &c))
	c["people"] = c["people"].([]any)[1:]
	raw, err := json.Marshal(c)
	w.does(err)
	w.does(w.service.Edit(id, raw))
	w.goOn()
	d, err := w.syncer.DriftOf(t.Context(), w.connection(), w.payer("A1"))
	w.does(err)
	w.does(w.syncer.TakeTheirs(t.Context(), d, []string{"people[0].email"}, ann))
	w.goOn()
	w.told("", "after the first was taken")
	w.editTheirs("desk@example.com", "office@example.com")
	d = w.drift(connector.FieldChange{Path: "people[1].email", From: "office@example.com", To: "desk@example.com"})
	w.does(w.syncer.TakeTheirs(t.Context(), d, nil, ann))
	writes := w.service.Writes()
	w.goOn()
	w.told("", "after the second was taken")
	w.drift()
	if w.service.Writes() != writes || strings.Contains(w.raw(id), "a@example.com") {
		t.Errorf("something was sent: %s", w.raw(id))
	}
}

// covers F121
func TestAContactThatIsAcceptedAsTakenAwayKeepsNothingThatWasAcceptedOfIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	w.books.put("A1", "Northwind GmbH", "a@example.com")
	w.complete(w.run())
	w.does(w.undo(connector.ActionUpdate)) // which accepts the old name of the contact
	w.complete(w.run())
	w.editCustomer("A1", "people", `[{"name":"Desk","email":"desk@example.com"}]`)
	w.goOn()
	d, err := w.syncer.DriftOf(t.Context(), w.connection(), w.payer("A1"))
	w.does(err)
	w.does(w.syncer.TakeTheirs(t.Context(), d, nil, ann))
	w.goOn()
	if got := w.member("A1", "people"); got != `[{"name":"Desk","email":"desk@example.com"}]` {
		t.Errorf("the contacts are %s", got)
	}
	if told := w.attention(); len(told) != 0 {
		t.Errorf("people are told of %v", told)
	}
}
