package syncer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/connector/syncer"
	"payersync/state"
)

const bakery = `{"name":"Petersen Transport Ltd","people":[{"name":"Ann","email":"desk@petersen.example"}],"addresses":[{"postCode":"LS1 4AP"}]}`

// found returns what the matcher says of a record.
func (w *world) found(sourceID string) (s match.Suggestion) {
	w.t.Helper()
	all, err := w.syncer.Match(w.t.Context(), w.connection())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range all {
		if f.Record == sourceID {
			return f
		}
	}
	return s
}

func TestARecordIsHeldForACandidateThatOnlyTheMatcherKnows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, name, email string
		held              bool
	}{
		{"a letter lost", "Peterson Transport Ltd", "", true},
		{"a letter more, and nothing else in common", "Petersen Transports Ltd", "office@transports.example", true},
		{"the owner", "Jo Hale trading as Petersen Transport", "desk@petersen.example", true},
		{"another company in the street", "Quay Bakery Ltd", "quay@bakery.example", false},
	} {
		w := newWorld(t)
		id := w.add(bakery)
		postcode := "LS1 4AP"
		if strings.Contains(c.what, "nothing else") {
			postcode = "YO1 7HY"
		}
		w.books.putAs("C1", map[string]string{"No": "C1", "Name": c.name, "Email": c.email, "Postcode": postcode,
			"Group": "payer"})
		res, _ := w.plan()
		if held := res.Plan.Holds == 1; held != c.held || res.Plan.Creates == 1 == c.held {
			t.Errorf("%s: %d held and %d created, want held %t", c.what, res.Plan.Holds, res.Plan.Creates, c.held)
		}
		if !c.held {
			continue
		}
		rows, err := w.ledger.Attention(t.Context(), state.Filter{State: string(connector.ReasonLikeness)})
		if err != nil || len(rows) != 1 || !strings.Contains(rows[0].Detail, id) ||
			!strings.Contains(rows[0].Detail, "score ") || strings.Contains(rows[0].Detail, "petersen") {
			t.Errorf("%s: told as %+v, %v", c.what, rows, err)
		}
	}
}

func TestWhoGoesByKeysAloneHoldsNobodyForALikeness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.syncer.Settings.Adopt = syncer.AdoptExact
	w.add(bakery)
	w.books.put("C1", "Petersen Transport Ltd", "desk@petersen.example")
	if res, _ := w.plan(); res.Plan.Holds != 0 || res.Plan.Creates != 1 {
		t.Errorf("%+v", res.Plan)
	}
}

func TestACustomerThatAppearsAfterThePlanHoldsTheRecordBeforeItIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("C1", "Peterson Transport Ltd", "")
	if res, _ := w.plan(); res.Plan.Creates != 1 {
		t.Fatalf("%+v", res.Plan)
	}
	w.add(bakery)
	if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Minute)
	if res := w.complete(w.run()); res.Counts.Created != 0 || len(w.service.Customers()) != 1 {
		t.Errorf("%+v; %d customers", res.Counts, len(w.service.Customers()))
	}
	if got := w.attention()["C1"]; !strings.Contains(got, "likeness") {
		t.Errorf("C1 is told as %q", got)
	}
}

func TestARecordWhoseCandidateIsGoneIsCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.add(bakery)
	w.books.put("C1", "Peterson Transport Ltd", "")
	w.complete(w.run())
	if err := w.service.Delete(id); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first may find it gone only after it has planned
		w.clock.advance(25 * time.Hour)
		if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.complete(w.run())
	}
	if got := w.attention()["C1"]; len(w.service.Customers()) != 1 {
		t.Errorf("%d customers, and C1 is told as %q", len(w.service.Customers()), got)
	}
}

func TestACustomerThatWasUnlinkedIsNeverProposedForItsRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("C1", "Petersen Transport Ltd", "desk@petersen.example")
	w.complete(w.run())
	wrong := w.payer("C1").BillingID
	u, err := w.syncer.UnlinkOf(t.Context(), w.payer("C1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	w.does(w.syncer.SayUnlink(t.Context(), u, ann))
	w.complete(w.run())
	right := w.add(`{"name":"Peterson Transport Ltd","people":[{"name":"Ann","email":"desk@petersen.example"}],"addresses":[{"postCode":"LS1 4AP"}]}`)
	if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := w.found("C1")
	if found.Best == nil || found.Best.Customer != right || strings.Contains(fmt.Sprint(found), wrong) {
		t.Errorf("%+v; want %s alone and never %s", found, right, wrong)
	}
}
