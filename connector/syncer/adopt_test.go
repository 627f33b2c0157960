package syncer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// plan makes a plan and returns its result with the changes that it holds.
func (w *world) plan() (syncer.Result, []state.Change) {
	w.t.Helper()
	res := w.runWith(w.t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	changes, err := w.ledger.Changes(w.t.Context(), "acme", state.LaneCustomer, true, 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return res, changes
}

// accept says on a person's word that a customer is the record's.
func (w *world) accept(sourceID, billingID string) {
	w.t.Helper()
	if err := w.ledger.Do(w.t.Context(), func(tx *state.Tx) error {
		_, err := tx.SavePairDecision("acme", sourceID, billingID, state.WordAccept)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) raw(id string) string {
	w.t.Helper()
	c, found := w.service.Customer(id)
	if !found {
		w.t.Fatalf("there is no customer %s", id)
	}
	return string(c.Raw)
}

// covers F100, F117
func TestTwoCompaniesWithEqualNumbersTouchNoCustomerOfEachOther(t *testing.T) {
	t.Parallel()
	const n = 40
	w := newWorld(t)
	before := map[string]string{}
	for i := range n {
		id := w.add(fmt.Sprintf(`{"name":"Totally Different %c Ltd","people":[{"name":"Kari","email":"kari%d@different.example"}],"addresses":[{"postCode":"0150"}],"externalData":{"customerNo":"C%04d"}}`, 'A'+i%26, i, i))
		before[id] = w.raw(id)
	}
	w.fill(n)
	for range 3 {
		res := w.complete(w.run())
		if res.Counts.Adopted+res.Counts.Created+res.Counts.Updated+res.Counts.LinksRequested != 0 || res.Plan.Holds != n {
			t.Errorf("%+v, and %d held, want all %d held", res.Counts, res.Plan.Holds, n)
		}
		w.clock.advance(25 * time.Hour)
	}
	for id, raw := range before {
		if now := w.raw(id); now != raw {
			t.Errorf("the other company's customer was\n%s\nand is\n%s", raw, now)
		}
	}
	for _, r := range w.service.Requests() {
		if r.Method == http.MethodPut || r.Method == http.MethodPatch {
			t.Errorf("%s %s was sent", r.Method, r.Path)
		}
	}
	rows, err := w.ledger.Attention(t.Context(), state.Filter{})
	if err != nil || len(rows) != n {
		t.Fatalf("%d records are told of, %v", len(rows), err)
	}
	for _, r := range rows {
		if r.Reason != string(connector.ReasonKeyDisputed) ||
			!strings.Contains(r.Detail, "name, e-mail address and postcode") {
			t.Errorf("record %s: %s: %s", r.SourceID, r.Reason, r.Detail)
		}
		if strings.Contains(r.Detail, "Different") || strings.Contains(r.Detail, "@") || strings.Contains(r.Detail, "Payer") {
			t.Errorf("record %s: the detail holds a value: %s", r.SourceID, r.Detail)
		}
	}
}

func TestACustomerOfOursIsAdoptedWithWhatItHoldsShownBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.add(`{"name":"NORTHWIND","phone":"1","people":[{"name":"Desk","email":"old@example.com"}],"externalData":{"customerNo":"A1"}}`)
	w.books.put("A1", "Northwind Ltd", "new@example.com")
	_, changes := w.plan()
	if len(changes) != 1 || changes[0].Action != connector.ActionAdopt {
		t.Fatalf("the plan is %+v", changes)
	}
	want := []connector.FieldChange{
		{Path: "addresses[0].line1", To: "1 Quay St"}, {Path: "addresses[0].postCode", To: "LS1 4AP"},
		{Path: "name", From: "NORTHWIND", To: "Northwind Ltd"},
		{Path: "people[1].email", To: "new@example.com"}, {Path: "people[1].name", To: "Northwind Ltd"},
	}
	if diff := cmp.Diff(want, changes[0].Diff); diff != "" {
		t.Errorf("the plan shows otherwise (-want +got):\n%s", diff)
	}
	res := w.complete(w.run())
	if res.Counts.Adopted != 1 || w.payer("A1").BillingID != id {
		t.Errorf("%+v, linked to %q", res.Counts, w.payer("A1").BillingID)
	}
}

// covers F117
func TestADisputedCustomerIsAdoptedWhenAPersonSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.add(`{"name":"Old Lamps","people":[{"name":"Old","email":"old@example.com"}],"externalData":{"customerNo":"A1"}}`)
	before := w.raw(id)
	w.books.put("A1", "Northwind", "new@example.com")
	w.complete(w.run())
	w.retry("A1") // says nothing of who it is
	w.complete(w.run())
	if got := w.attention()["A1"]; got != string(connector.ReasonKeyDisputed) || w.raw(id) != before ||
		w.payer("A1").LinkState != connector.LinkHeld {
		t.Fatalf("A1 is told as %q and %s", got, w.payer("A1").LinkState)
	}
	w.accept("A1", "another") // a word about another customer
	w.complete(w.run())
	if w.raw(id) != before {
		t.Fatal("a word about another customer changed this one")
	}
	w.accept("A1", id)
	_, changes := w.plan()
	if len(changes) != 1 || !slices.Contains(changes[0].Diff,
		connector.FieldChange{Path: "name", From: "Old Lamps", To: "Northwind"}) {
		t.Fatalf("the plan is %+v", changes)
	}
	w.complete(w.run())
	if p := w.payer("A1"); p.BillingID != id || w.attention()["A1"] != "" {
		t.Errorf("A1 is linked to %q and told as %q", p.BillingID, w.attention()["A1"])
	}
}

// covers F117
func TestADisputeEndsWhenTheCustomerIsPutRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.add(`{"name":"Old Lamps","externalData":{"customerNo":"A1"}}`)
	w.books.put("A1", "Northwind", "new@example.com")
	w.complete(w.run())
	if got := w.attention()["A1"]; got != string(connector.ReasonKeyDisputed) {
		t.Fatalf("A1 is told as %q", got)
	}
	if err := w.service.Edit(id, json.RawMessage(`{"name":"Northwind","externalData":{"customerNo":"A1"}}`)); err != nil {
		t.Fatal(err)
	}
	w.complete(w.run())
	if p := w.payer("A1"); p.BillingID != id {
		t.Errorf("A1 is linked to %q", p.BillingID)
	}
}

// covers F117
func TestWhatAPlanShowedOfAnAdoptionIsWhatIsSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit   string
		reason connector.Reason
	}{
		"a colleague fills in the phone":   {`{"name":"Northwind","people":[{"name":"N","email":"new@example.com","phone":"+44 113 496 0000"}],"externalData":{"customerNo":"A1"}}`, ""},
		"a colleague takes it for another": {`{"name":"Old Lamps","people":[{"name":"Old","email":"old@example.com"}],"externalData":{"customerNo":"A1"}}`, connector.ReasonKeyDisputed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.add(`{"name":"Northwind","people":[{"name":"Northwind","email":"old@example.com"}],"externalData":{"customerNo":"A1"}}`)
			w.books.put("A1", "Northwind", "new@example.com")
			w.syncer.Settings.Guards.MaxChangesFloor, w.syncer.Settings.Guards.MaxChanges = 0, syncer.Limit{}
			writes := w.service.Writes()
			approve := true
			res := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunSync, Approve: func(state.Plan) (bool, error) {
				if !approve {
					return false, nil
				}
				return true, w.service.Edit(id, json.RawMessage(c.edit)) // between the plan that a person saw and its sending
			}})
			before := w.raw(id)
			if w.service.Writes() != writes || w.payer("A1").BillingID != "" || res.Counts.Adopted != 0 {
				t.Fatalf("the customer was changed otherwise than shown: %s", before)
			}
			if got := w.attention()["A1"]; got != string(c.reason) {
				t.Errorf("A1 is told as %q, want %q", got, c.reason)
			}
			approve = false
			w.run()
			if linked := w.payer("A1").BillingID == id; linked != (c.reason == "") {
				t.Errorf("after another plan, linked: %v; it is told as %q", linked, w.attention()["A1"])
			}
		})
	}
}

func TestAReadThatFailsKeepsOneAdoptionWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(`{"name":"Northwind","externalData":{"customerNo":"A1"}}`)
	w.books.put("A1", "Northwind", "a@example.com")
	w.books.put("B1", "Fresh", "b@example.com")
	m := meddle(w)
	m.onRead = func(string, connector.RemoteCustomer, error) (connector.RemoteCustomer, error) {
		return connector.RemoteCustomer{},
			&connector.RemoteError{Op: "read customer", Fault: connector.FaultUnavailable, Detail: "no answer"}
	}
	if res := w.run(); res.Outcome == connector.RunComplete || res.Counts.Created != 1 {
		t.Errorf("the run is %s, with %+v", res.Outcome, res.Counts)
	}
	m.onRead = nil
	w.complete(w.run())
	if w.payer("A1").BillingID == "" {
		t.Error("A1 was not adopted once it could be read")
	}
}

// covers F118
func TestAColleaguesEditBetweenPlanAndSendIsShownBeforeItIsOverwritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	id := w.payer("A1").BillingID
	w.books.put("A1", "Northwind", "b@example.com")
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	c, _ := w.service.Customer(id)
	if err := w.service.Edit(id,
		bytes.Replace(c.Raw, []byte(`"name":"Northwind"`), []byte(`"name":"Northwind Shipping"`), 1)); err != nil {
		t.Fatal(err)
	}
	edited, writes := w.raw(id), w.service.Writes()
	if res := w.run(); w.service.Writes() != writes || w.raw(id) != edited {
		t.Fatalf("the colleague's name was overwritten and no plan had shown it: %+v", res.Counts)
	}
	_, changes := w.plan()
	if len(changes) != 1 || !slices.Contains(changes[0].Diff,
		connector.FieldChange{Path: "name", From: "Northwind Shipping", To: "Northwind"}) {
		t.Fatalf("the next plan is %+v", changes)
	}
	w.complete(w.run())
	if c, _ := w.service.Customer(id); c.Name != "Northwind" {
		t.Errorf("what was shown was not sent: %s", c.Raw)
	}
}

func TestAPersonSeesBothSidesBeforeACustomerIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.add(`{"name":"Old Lamps","externalData":{"customerNo":"A1"}}`)
	w.books.put("A1", "Northwind", "new@example.com")
	w.books.put("B1", "Fresh", "b@example.com")
	w.complete(w.run())
	h, err := w.syncer.HolderOf(t.Context(), w.connection(), w.payer("A1"))
	if err != nil || h.Customer != id || !slices.Equal(h.Against, []string{"name"}) ||
		!slices.Contains(h.Diff, connector.FieldChange{Path: "name", From: "Old Lamps", To: "Northwind"}) {
		t.Fatalf("the holder is %+v, %v", h, err)
	}
	if _, err := w.syncer.HolderOf(t.Context(), w.connection(), w.payer("B1")); !errors.Is(err, syncer.ErrNoHolder) {
		t.Errorf("of a linked record: %v", err)
	}
	if err := w.syncer.Accept(t.Context(), h, syncer.Operator{Name: "Ann"}); !errors.Is(err, syncer.ErrReasonNeeded) {
		t.Errorf("without a reason: %v", err)
	}
	if err := w.syncer.Accept(t.Context(), h, syncer.Operator{Name: "Ann", Reason: "renamed"}); err != nil {
		t.Fatal(err)
	}
	w.complete(w.run())
	if w.payer("A1").BillingID != id {
		t.Error("the customer was not taken over")
	}
	if err := w.syncer.Accept(t.Context(), h, syncer.Operator{Name: "Ann", Reason: "again"}); !errors.Is(err,
		state.ErrLinkedAlready) {
		t.Errorf("of a record that has its customer: %v", err)
	}
}

// A plan counts a signing link only for payers that the run will ask.
func TestAPlanCountsNoLinkForAnAdoptedCustomerWhoseMandateIsSigned(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status connector.MandateStatus
		links  int // that the plan counts
		asked  int // calls that the run makes
		told   connector.Reason
	}{
		{"", 1, 1, ""},
		{connector.MandateCreated, 1, 0, connector.ReasonLinkLost}, // whether asking again makes another mandate is not known
		{connector.MandatePending, 0, 0, ""},
		{connector.MandateActive, 0, 0, ""},
		{connector.MandateCancelled, 1, 0, connector.ReasonMandateCancelled},
	} {
		t.Run("mandate "+string(c.status), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.add(`{"name":"Payer A1","people":[{"name":"Kari","email":"a1@example.com"}],"externalData":{"customerNo":"A1"}}`)
			if c.status != "" {
				m, err := w.billing.RequestMandateLink(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				if err := w.service.SetStatus(m.ID, c.status); err != nil {
					t.Fatal(err)
				}
				w.service.ResetRequests()
			}
			w.books.put("A1", "Payer A1", "a1@example.com")
			res, _ := w.plan()
			if res.Plan.Adopts != 1 || res.Plan.Links != c.links {
				t.Errorf("the plan counts %d to adopt and %d links, want 1 and %d", res.Plan.Adopts, res.Plan.Links, c.links)
			}
			w.runsUntilServed()
			if n := w.linkRequests(); n != c.asked {
				t.Errorf("%d links were asked for, want %d", n, c.asked)
			}
			w.told(c.told, "after the run")
		})
	}
}
