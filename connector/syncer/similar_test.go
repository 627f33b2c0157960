package syncer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/state"
)

// leave holds the ways of removing a record.
var leave = map[string]func(*world, string){
	"its row is gone": func(w *world, id string) {
		w.books.mu.Lock()
		defer w.books.mu.Unlock()
		w.books.records = slices.DeleteFunc(w.books.records, func(r connector.Record) bool { return r.SourceID == id })
	},
	"it is archived": func(w *world, id string) {
		w.books.set(connector.Record{SourceID: id, State: connector.RecordArchived})
	},
	"it is excluded": func(w *world, id string) {
		w.books.putAs(id, map[string]string{"No": id, "Name": "Northwind Ltd", "Email": "ann@northwind.example",
			"Postcode": "LS1 4AP", "Group": "left"})
	},
}

// told returns what a person is told of a record.
func (w *world) saysOf(sourceID string) (reason, detail string) {
	w.t.Helper()
	rows, err := w.ledger.AttentionOf(w.t.Context(), "acme", sourceID)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rows {
		if r.Reason != string(connector.ReasonRecordGone) && r.Reason != string(connector.ReasonLeftWithMandate) {
			reason, detail = r.Reason, r.Detail
		}
	}
	return reason, detail
}

// apart says on a person's word that two records are two payers.
func (w *world) apart(a, b string) {
	w.t.Helper()
	if err := w.ledger.Do(w.t.Context(), func(tx *state.Tx) error {
		_, err := tx.KeepApart("acme", a, b)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

// lookalikes returns the look-alikes that are shown beside the create of a record, in words.
func (w *world) lookalikes(sourceID string) (out []string) {
	w.t.Helper()
	found, err := w.ledger.Lookalikes(w.t.Context(), "acme", sourceID)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range found {
		said := f.Connection + "/" + f.SourceID
		for _, is := range []struct {
			what string
			so   bool
		}{{"name", f.Name}, {"email", f.Email}, {"left", f.Left}} {
			if is.so {
				said += " " + is.what
			}
		}
		out = append(out, said)
	}
	return out
}

// enough is a world with so many other payers that a missing one is no standstill.
func enough(t *testing.T) *world {
	w := newWorld(t)
	w.fill(12)
	w.books.put("A1", "Northwind Ltd", "ann@northwind.example")
	w.complete(w.run())
	return w
}

// A payer who gets another number in the books gets no second customer in silence.
//
// covers F44, F47
func TestARenumberedPayerIsHeldUntilAPersonHasSpoken(t *testing.T) {
	t.Parallel()
	for way, gone := range leave {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := enough(t)
			customer := w.payer("A1").BillingID
			gone(w, "A1")
			w.books.put("A2", "northwind, limited", "Ann@Northwind.example")
			w.complete(w.run())
			w.complete(w.run())
			if got := len(w.byKey()); got != 13 {
				t.Errorf("the service has %d customers, want no second one for Northwind", got)
			}
			reason, detail := w.saysOf("A2")
			if reason != string(connector.ReasonRenumbered) || !strings.Contains(detail, "A1 (customer "+customer+")") {
				t.Errorf("a person is told %s: %s", reason, detail)
			}
			w.say("A2", customer, state.WordReject)
			if res := w.complete(w.run()); res.Counts.Created != 1 || res.Counts.LinksRequested != 1 {
				t.Errorf("after a person's word: %+v, want one created", res.Counts)
			}
		})
	}
}

// One thing in common beside the name is enough where the other has left; a name alone is
// only shown, and so is somebody who never had a customer.
//
// covers F44, F47
func TestWhoeverLeftIsKnownByNameAndOneThingMore(t *testing.T) {
	t.Parallel()
	w := enough(t)
	leave["its row is gone"](w, "A1")
	put := func(no, name, email, postcode string) {
		w.books.putAs(no, map[string]string{"No": no, "Name": name, "Email": email, "Postcode": postcode, "Group": "payer"})
	}
	put("B1", "Northwind Ltd", "bo@northwind.example", "LS1 4AP")
	put("B2", "Northwind Ltd", "cy@northwind.example", "YO1 7HY")
	put("B3", "Northwind", "ann@northwind.example", "LS1 4AP")
	res := w.complete(w.run())
	if res.Counts.Created != 2 || res.Plan.Alike != 2 {
		t.Errorf("%+v, %d of them told as alike; want B2 and B3 created and told", res.Counts, res.Plan.Alike)
	}
	if reason, _ := w.saysOf("B1"); reason != string(connector.ReasonRenumbered) {
		t.Errorf("B1 is told %q", reason)
	}
	for id, want := range map[string][]string{"B2": {"acme/A1 name left", "acme/B1 name"}, "B3": {"acme/A1 email left"}} {
		if got := w.lookalikes(id); !slices.Equal(got, want) {
			t.Errorf("%s looks like %v, want %v", id, got, want)
		}
	}
}

// An e-mail address that many records have holds none of them.
//
// covers F47
func TestAnAccountantsAddressIsShownAndHoldsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 50 {
		w.books.put(fmt.Sprintf("C%02d", i), fmt.Sprintf("Client %d", i), "office@accountant.example")
	}
	plan := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	if plan.Plan.Creates != 50 || plan.Plan.Alike != 50 || plan.Plan.Holds != 0 {
		t.Errorf("the plan is %+v, want 50 to create, all of them shown", plan.Plan)
	}
	if got := w.lookalikes("C07"); len(got) != 49 || got[0] != "acme/C00 email" {
		t.Errorf("C07 looks like %d: %v", len(got), got)
	}
	if res := w.complete(w.run()); res.Counts.Created != 50 || res.Counts.LinksRequested != 50 {
		t.Errorf("%+v, want 50 created", res.Counts)
	}
}

// covers F47, F48
func TestADoubleEntryIsHeldUntilAPersonHasSpoken(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"both are new": false, "one has its customer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.books.put("A1", "Northwind Ltd", "ann@northwind.example")
			held := 2
			if first {
				held = 1
				w.complete(w.run())
			}
			w.books.put("A2", "Northwind Ltd", "ann@northwind.example")
			w.books.put("Z9", "Somebody Else", "z@example.com")
			if res := w.complete(w.run()); res.Counts.Created != 1 || res.Counts.Held != held {
				t.Errorf("%+v, want Z9 created and %d held", res.Counts, held)
			}
			reason, detail := w.saysOf("A2")
			if reason != string(connector.ReasonEnteredTwice) || !strings.HasPrefix(detail, "Record A1") {
				t.Errorf("a person is told %s: %s", reason, detail)
			}
			w.apart("A2", "A1")
			if res := w.complete(w.run()); res.Counts.Created != held || res.Counts.Held != 0 {
				t.Errorf("after a person's word: %+v, want %d created", res.Counts, held)
			}
		})
	}
}

// covers F47, F48
func TestADoubleEntryThatIsMendedInTheBooksIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(12)
	w.books.put("X1", "Northwind Ltd", "ann@northwind.example")
	w.books.put("X2", "Northwind Ltd", "ann@northwind.example")
	w.complete(w.run())
	leave["its row is gone"](w, "X1")
	if res := w.complete(w.run()); res.Counts.Created != 1 || w.byKey()["X2"].ID == "" {
		t.Errorf("%+v, want X2 created when X1, which never had a customer, is gone", res.Counts)
	}
}

// A customer with many accounts, branches, and look-alikes under adoption: exact are no
// double entries.
//
// covers F47
func TestWhatIsNoDoubleEntryIsCreated(t *testing.T) {
	t.Parallel()
	put := func(w *world, no, postcode string) {
		w.books.putAs(no, map[string]string{"No": no, "Name": "Northwind Ltd", "Email": "ann@northwind.example",
			"Postcode": postcode, "Group": "payer"})
	}
	for name, fill := range map[string]func(*world){
		"a customer with many accounts": func(w *world) {
			for i := range 7 {
				put(w, fmt.Sprintf("A%d", i), "LS1 4AP")
			}
		},
		"branches": func(w *world) { put(w, "A1", "LS1 4AP"); put(w, "A2", "YO1 7HY") },
		"adoption: exact": func(w *world) {
			w.syncer.Settings.Adopt = syncer.AdoptExact
			put(w, "A1", "LS1 4AP")
			put(w, "A2", "LS1 4AP")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			fill(w)
			n := len(w.books.records)
			if res := w.complete(w.run()); res.Counts.Created != n || res.Counts.Held != 0 || res.Plan.Alike != n {
				t.Errorf("%+v, %d told as alike; want %d created", res.Counts, res.Plan.Alike, n)
			}
		})
	}
}

// Two companies may have one customer: across connections a payer who lives is shown, and
// one who has left is a question for a person.
//
// covers F47
func TestWhoeverLivesInOtherBooksIsShown(t *testing.T) {
	t.Parallel()
	w := enough(t)
	other, conn := &books{}, w.connection()
	m, err := mapping.Load("mapping.yaml", []byte(strings.ReplaceAll(standardMapping, "customerNo", "debtorNo")),
		other.info())
	if err != nil {
		t.Fatal(err)
	}
	conn.Name, conn.Source, conn.Mapping = "beta", other, m
	other.put("D1", "Northwind Ltd", "ann@northwind.example")
	run := func() syncer.Result {
		res, err := w.syncer.Run(t.Context(), conn,
			syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return w.complete(res)
	}
	if res := run(); res.Counts.Created != 1 || res.Plan.Alike != 1 {
		t.Errorf("%+v, %d alike; want D1 created and told", res.Counts, res.Plan.Alike)
	}
	found, err := w.ledger.Lookalikes(t.Context(), "beta", "D1")
	if err != nil || len(found) != 1 || found[0].Connection != "acme" || found[0].SourceID != "A1" || !found[0].Name ||
		!found[0].Email {
		t.Errorf("D1 looks like %+v, %v", found, err)
	}
	w.books.put("B1", "Bridge Cafe", "bo@bridge.example")
	w.complete(w.run())
	leave["its row is gone"](w, "B1")
	w.complete(w.run())
	other.put("D2", "Bridge Cafe", "bo@bridge.example")
	if res := run(); res.Counts.Created != 0 || res.Counts.Held != 1 {
		t.Errorf("%+v, want D2 held: B1 has left the other books", res.Counts)
	}
}

// A payer who leaves while the plan with its new record waits is found all the same.
//
// covers F44, F47
func TestAPlanThatWaitsIsLookedAtAgainWhenAPayerLeaves(t *testing.T) {
	t.Parallel()
	w := enough(t)
	w.books.putAs("A2", map[string]string{"No": "A2", "Name": "Northwind Ltd", "Email": "other@northwind.example",
		"Postcode": "LS1 4AP", "Group": "payer"})
	w.syncer.Settings.Guards.MaxCreates = 0
	w.awaits(w.sync(), 0)
	leave["it is archived"](w, "A1")
	w.complete(w.run())
	if reason, _ := w.saysOf("A2"); reason != string(connector.ReasonRenumbered) || len(w.byKey()) != 13 {
		t.Errorf("A2 is told %q, and there are %d customers", reason, len(w.byKey()))
	}
}

// Whom an earlier version linked is known as well, although nothing was kept of it then and
// its record has left.
//
// covers F44, F70
func TestAPayerOfAnEarlierVersionIsKnownWhenItIsRenumbered(t *testing.T) {
	t.Parallel()
	b := openBefore(t, "schema12", 76*time.Hour+19*time.Minute, 4*time.Minute)
	found, err := b.ledger.FindPayers(t.Context(), "G1")
	if err != nil || len(found) != 1 || found[0].Applied == nil {
		t.Fatalf("%d payers are G1, %v", len(found), err)
	}
	was := found[0].Applied
	b.books[found[0].Connection].put("G9", was.Name, was.People[0].Email)
	b.run(1)
	if got := b.told(); got["G1"] != string(connector.ReasonLeftWithMandate) ||
		got["G9"] != string(connector.ReasonRenumbered) {
		t.Errorf("people are told of G1 %q, of G9 %q", got["G1"], got["G9"])
	}
}
