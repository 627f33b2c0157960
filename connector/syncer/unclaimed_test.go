package syncer_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/syncer"
	"payersync/state"
)

// company puts n payers into the books, under numbers with a prefix.
func (b *books) company(prefix string, n int) {
	for i := range n {
		b.put(fmt.Sprintf("%s%d", prefix, i), fmt.Sprintf("Firm %s %d Ltd", letters(i), i),
			fmt.Sprintf("desk%d@firm%d.example", i, i))
	}
}

func letters(i int) string { return string(rune('A'+i/26)) + string(rune('a'+i%26)) }

// renumberedBooks is a company with n customers from a lost ledger: signed of them have an active mandate,
// and the new ledger reads records with other numbers.
func renumberedBooks(t *testing.T, n, signed int) (old, now *world) {
	t.Helper()
	old = newWorld(t)
	old.mapping = scopedMapping
	old.syncer.Settings.Guards.MaxCreates = 100
	old.books.company("K", n)
	old.complete(old.syncs(old.as("acme", "x", old.books), true))
	for i := range signed {
		if err := old.service.SetStatus(old.payer(fmt.Sprintf("K%d", i)).MandateID, connector.MandateActive); err != nil {
			t.Fatal(err)
		}
	}
	now = old.another()
	now.syncer.Settings.Guards.FirstMatching, now.syncer.Settings.Guards.MaxCreates = true, 100
	now.books.company("N", n)
	return old, now
}

// covers F220
func TestNewBooksWithNewNumbersKeepCustomersAndMandates(t *testing.T) {
	t.Parallel()
	const n, signed = 30, 12
	old, now := renumberedBooks(t, n, signed)
	customers := map[string]string{}
	for i := range n {
		customers[fmt.Sprintf("N%d", i)] = old.payer(fmt.Sprintf("K%d", i)).BillingID
	}
	asked := now.linkRequests()
	conn := now.as("acme", "x", now.books)

	res := now.syncs(conn, true)
	if res.Counts.Created != 0 || res.Plan.Holds != n || res.Plan.Creates != 0 {
		t.Fatalf("%d were created, %d held and %d planned to be created; want all %d held", res.Counts.Created,
			res.Plan.Holds, res.Plan.Creates, n)
	}
	found, err := now.syncer.Match(t.Context(), conn)
	if err != nil || len(found) != n {
		t.Fatalf("%d records are listed as customers, %v", len(found), err)
	}
	if err := now.syncer.ShowPairs(t.Context(), conn, found); err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Best == nil || f.Best.Score < 60 || f.Best.Customer != customers[f.Record] {
			t.Fatalf("record %s: %+v; want customer %s", f.Record, f, customers[f.Record])
		}
		if want := "carries the key customerNo=K" + f.Record[1:] +
			" of x, which no record has; same name"; !strings.HasPrefix(f.Best.Why(), want) {
			t.Fatalf("record %s: told as %q, want %q", f.Record, f.Best.Why(), want)
		}
		now.accept(f.Record, f.Best.Customer)
	}

	res = now.syncs(conn, false)
	changes, err := now.ledger.Changes(t.Context(), "acme", state.LaneCustomer, true, 0, 100)
	if err != nil || len(changes) != n {
		t.Fatalf("%d changes are planned, %v: %+v", len(changes), err, res.Plan)
	}
	for _, c := range changes {
		want := connector.FieldChange{Path: "externalData.customerNo", From: "K" + c.Payer.SourceID[1:], To: c.Payer.SourceID}
		if c.Action != connector.ActionAdopt || len(c.Diff) != 1 || c.Diff[0] != want {
			t.Fatalf("record %s: %s with %+v; want an adoption that shows %+v", c.Payer.SourceID, c.Action, c.Diff, want)
		}
	}
	for range 2 {
		res = now.complete(now.syncs(conn, true))
	}
	if got := len(now.byKey()); got != n {
		t.Errorf("there are %d customers, want %d", got, n)
	}
	if got := now.linkRequests() - asked; got != 0 {
		t.Errorf("%d payers were asked again", got)
	}
	active := 0
	for record, customer := range customers {
		p := now.payer(record)
		if p.BillingID != customer {
			t.Errorf("record %s is linked to %q, want %s", record, p.BillingID, customer)
		}
		if c, _ := now.service.Customer(customer); c.ExternalData["customerNo"] != record {
			t.Errorf("customer %s carries %v, want %s", customer, c.ExternalData, record)
		}
		if m, _ := now.service.Customer(customer); len(m.Mandates) == 1 && m.Mandates[0].Status == connector.MandateActive {
			active++
		}
	}
	if active != signed {
		t.Errorf("%d active mandates are left, want %d", active, signed)
	}
}

// A customer with one of our numbers is a match only if no record has that number.
func TestACustomerWithANumberOfOursIsFreeOnlyWhenNoRecordHasIt(t *testing.T) {
	t.Parallel()
	record := func(no, name, group string) map[string]string {
		return map[string]string{"No": no, "Name": name, "Email": "desk@petersen.example", "Postcode": "LS1 4AP",
			"Group": group}
	}
	for name, c := range map[string]struct {
		scope string // beside the number of the customer
		books func(*books)
		free  bool
	}{
		"no record has it":            {"x", func(*books) {}, true},
		"the number names no company": {"", func(*books) {}, false},
		"another company has it":      {"y", func(*books) {}, false},
		"a record has it that is left out": {"x", func(b *books) { b.putAs("r1", record("K1", "Petersen", "supplier")) },
			false},
		"a record has it that is held": {"x", func(b *books) { b.putAs("r1", record("K1", "", "payer")) }, false},
		"a record has it that is somebody else": {"x", func(b *books) {
			b.putAs("r1", map[string]string{"No": "K1", "Name": "Quay Bakery", "Email": "q@quay.example", "Postcode": "YO1 7HY",
				"Group": "payer"})
		}, false},
		"the record of that id cannot be read": {"x", func(b *books) {
			b.set(connector.Record{SourceID: "K1", State: connector.RecordActive, Problem: "line 7"})
		}, false},
		"the record that has it was deleted": {"x", func(b *books) {
			b.set(connector.Record{SourceID: "K1", State: connector.RecordDeleted, Data: []byte(`{"No":"K1"}`)})
		}, true},
		"the books end before their last record": {"x", func(b *books) { b.broken = accounting.ErrUndecided }, false},
		"a record has it without the company yet": {"",
			func(b *books) { b.putAs("r1", record("K1", "Quay Bakery", "supplier")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.mapping = scopedMapping
			pairs := `"customerNo":"K1"`
			if c.scope != "" {
				pairs += `,"customerNoScope":"` + c.scope + `"`
			}
			id := w.add(`{"name":"Petersen Transport Ltd","people":[{"name":"Ann","email":"desk@petersen.example"}],"addresses":[{"postCode":"LS1 4AP"}],"externalData":{` + pairs + `}}`)
			w.books.putAs("N1", record("N1", "Petersen Transport Ltd", "payer"))
			c.books(w.books)
			conn := w.as("acme", "x", w.books)
			res, err := w.syncer.Run(t.Context(), conn,
				syncer.RunOptions{Kind: connector.RunPlan, Trigger: "manual", Actor: "tester", Holder: "test"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.syncer.PairOf(t.Context(), conn, "N1", id)
			if held := w.attention()["N1"] == string(connector.ReasonLikeness); held != c.free || (err == nil) != c.free ||
				(res.Plan.Creates > 0) == c.free {
				t.Errorf("N1 is held for it: %t, accepting it says %v, and %d are created; want free %t", held, err,
					res.Plan.Creates, c.free)
			}
		})
	}
}

// covers F220
func TestBooksThatWereNotReadWholeCreateNobodyBesideCustomersWithOurNumbers(t *testing.T) {
	t.Parallel()
	old, now := renumberedBooks(t, 3, 0)
	conn := now.as("acme", "x", now.books)
	now.books.broken = accounting.ErrUndecided
	if res := now.syncs(conn, true); res.Counts.Created != 0 || !strings.Contains(res.Plan.Limits, "3 customers exist") {
		t.Errorf("%d were created, and the plan waits because %q", res.Counts.Created, res.Plan.Limits)
	}
	// The rest of the books has the old numbers: those customers are its own.
	now.books.broken, now.books.records = nil, append(now.books.records[:0:0], old.books.records...)
	if res := now.complete(now.syncs(conn, true)); res.Counts.Created != 0 || res.Counts.Adopted != 3 {
		t.Errorf("%+v; want the three customers linked by their numbers", res.Counts)
	}
}

// covers F102
func TestARecordThatComesBackTakesItsCustomerOutOfTheCandidates(t *testing.T) {
	t.Parallel()
	_, now := renumberedBooks(t, 3, 0)
	conn := now.as("acme", "x", now.books)
	now.syncs(conn, true)
	found, err := now.syncer.Match(t.Context(), conn)
	if err != nil || len(found) != 3 || found[0].Best == nil {
		t.Fatalf("%+v, %v", found, err)
	}
	record, customer := found[0].Record, found[0].Best.Customer
	now.accept(record, customer)
	i := int(record[1] - '0')
	now.books.put(fmt.Sprintf("K%d", i), fmt.Sprintf("Firm %s %d Ltd", letters(i), i),
		fmt.Sprintf("desk%d@firm%d.example", i, i))
	now.clock.advance(time.Hour)
	now.syncs(conn, true)
	if got := now.attention()[record]; got != string(connector.ReasonOtherKey) {
		t.Errorf("%s, which was accepted for it, is told as %q", record, got)
	}
	if p := now.payer("K" + record[1:]); p.BillingID != customer {
		t.Errorf("the record with the number is linked to %q, want %s", p.BillingID, customer)
	}
	if got := len(now.byKey()); got != 3 {
		t.Errorf("there are %d customers, want 3", got)
	}
}

func TestAnAcceptedCustomerThatGotAnotherNumberMeanwhileIsNotOverwritten(t *testing.T) {
	t.Parallel()
	old, now := renumberedBooks(t, 1, 0)
	conn := now.as("acme", "x", now.books)
	now.syncs(conn, true)
	id := old.payer("K0").BillingID
	now.accept("N0", id)
	if _, err := now.syncer.Run(t.Context(), conn,
		syncer.RunOptions{Kind: connector.RunPlan, Trigger: "manual", Actor: "tester", Holder: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := now.service.Edit(id, json.RawMessage(strings.ReplaceAll(now.raw(id), `"K0"`, `"Q7"`))); err != nil {
		t.Fatal(err)
	}
	before := now.raw(id)
	now.syncs(conn, true)
	if now.raw(id) != before || now.attention()["N0"] != string(connector.ReasonOtherKey) {
		t.Errorf("the customer is %s, and N0 is told as %q", now.raw(id), now.attention()["N0"])
	}
}

// covers F260
func TestARenumberedRecordOfTheSameLedgerIsNoMatchBesides(t *testing.T) {
	t.Parallel()
	for way, gone := range leave {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := enough(t)
			gone(w, "A1")
			w.books.put("A2", "northwind, limited", "Ann@Northwind.example")
			w.complete(w.run())
			w.complete(w.run())
			if reason, _ := w.saysOf("A2"); reason != string(connector.ReasonRenumbered) {
				t.Errorf("A2 is told %q", reason)
			}
			if n, err := w.ledger.MatchCount(t.Context(), "acme"); err != nil || n != 0 {
				t.Errorf("%d records are matches besides, %v", n, err)
			}
		})
	}
}
