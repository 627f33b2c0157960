package syncer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// covers F48
func TestAPreviewHoldsRecordsThatWouldShareAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("1", "Ann", "ann@example.com")
	w.books.put("2", "Bob", "bob@example.com")
	w.run()
	w.books.put("3", "Cid", "cid@example.com")
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	for name, c := range map[string]struct {
		key    string
		shared []string
	}{
		"the key of a linked payer":               {`'No == "3" ? "1" : No'`, []string{"1", "3"}},
		"the key that a linked payer would leave": {`'No == "3" ? "1" : No + "x"'`, []string{"3"}},
		"nobody's key":                            {`'No == "3" ? "9" : No'`, nil},
	} {
		w.mapping = standardMapping
		w.edit("customerNo: No", "customerNo: "+c.key)
		got := w.foretells()
		var shared []string
		for _, f := range got.Failures {
			if f.Reason == connector.ReasonKeyShared {
				shared = f.SourceIDs
			}
		}
		if diff := cmp.Diff(c.shared, shared); diff != "" {
			t.Errorf("%s: records that share it (-want +got):\n%s", name, diff)
		}
	}
}

// covers F48
func TestAPreviewCountsTheKeyOfALinkedRowThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("1", "Ann", "ann@example.com")
	w.run()
	w.books.mu.Lock()
	w.books.records = nil
	w.books.mu.Unlock()
	w.books.put("2", "Bob", "bob@example.com")
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan,
		Approve: func(state.Plan) (bool, error) { return true, nil }})
	w.edit("customerNo: No", `customerNo: 'No == "" ? No : "1"'`)
	got := w.foretells()
	if got.Creates != 0 || len(got.Failures) != 1 || got.Failures[0].Reason != connector.ReasonKeyShared ||
		got.Failures[0].New != 1 {
		t.Errorf("%d creates, failures %+v", got.Creates, got.Failures)
	}
}

// The numbers of two companies are the same, and nothing tells them apart.
func TestAPreviewCountsTheKeysOfAnotherCompany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("1", "Ann", "ann@example.com")
	w.run()
	other, conn := &books{}, w.connection()
	conn.Name, conn.Source = "beta", other
	other.put("1", "Bob", "bob@example.com")
	other.put("2", "Cid", "cid@example.com")
	res, err := w.syncer.Run(t.Context(), conn,
		syncer.RunOptions{Kind: connector.RunPlan, Trigger: "manual", Actor: "tester", Holder: "test"})
	if err != nil || res.Plan.Creates != 1 {
		t.Fatalf("%+v, %v; want a plan that creates 2 alone", res, err)
	}
	got, err := w.syncer.Preview(t.Context(), conn, syncer.PreviewOptions{})
	if err != nil || got.Creates != 1 || len(got.Failures) != 1 || got.Failures[0].Reason != connector.ReasonKeyShared ||
		got.Failures[0].Count != 1 {
		t.Errorf("%d creates, failures %+v, %v; want what was planned", got.Creates, got.Failures, err)
	}
}

func TestFieldsOfBlocksAndListsAreProfiled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := func(name string) connector.Field {
		return connector.Field{Name: name, Type: connector.TypeText, Example: "as declared"}
	}
	conn := w.connection()
	conn.Mapping = nil
	conn.Info.Fields = []connector.Field{
		text("No"), {Name: "Org", Type: connector.TypeObject, Fields: []connector.Field{text("Vat")}},
		{Name: "Phones", Type: connector.TypeList, Fields: []connector.Field{text("Number")}},
		{Name: "Balance", Type: connector.TypeNumber},
	}
	before, err := w.syncer.ProfileFields(t.Context(), conn)
	if err != nil || len(before) != 6 || before[0].Examples[0].Value != "as declared" {
		t.Errorf("without records: %+v (%v)", before, err)
	}
	for i, data := range []string{
		`{"No":"1","Org":{"Vat":"V1"},"Phones":[{"Number":"11"},{"Number":"12"}],"Balance":12345678901234567890}`,
		`{"No":"2","Org":{"Vat":" "},"Phones":[],"Balance":0}`,
		`{"No":"3","Org":null,"Phones":[{"Number":""}]}`,
	} {
		w.books.set(connector.Record{SourceID: fmt.Sprint(i), State: connector.RecordActive, Data: []byte(data)})
	}
	w.books.set(connector.Record{SourceID: "9", State: connector.RecordActive, Problem: "It cannot be read."})
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	profiles, err := w.syncer.ProfileFields(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range profiles {
		got[f.Path] = fmt.Sprintf("%d of %d", f.Filled, f.Records)
		for _, e := range f.Examples {
			got[f.Path] += fmt.Sprintf(" %s×%d", e.Value, e.Count)
		}
	}
	want := map[string]string{
		"No": "3 of 3 1×1 2×1 3×1", "Org": "2 of 3 a block×2", "Org.Vat": "1 of 3 V1×1",
		"Phones": "2 of 3 a list of 1×1 a list of 2×1", "Phones[].Number": "1 of 3 11×1 12×1",
		"Balance": "2 of 3 0×1 12345678901234567890×1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
}

// A customer that carries the key and looks like somebody else is no adoption, before and
// after a plan has looked at it.
//
// covers F117
func TestAPreviewHoldsDisputedCustomers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("Z", "Somebody", "somebody@example.com")
	w.run() // which reads the list
	var byWord string
	for i, c := range []struct{ theirs, name, email string }{
		{`{"name":"Old Lamps","people":[{"name":"Old","email":"old@example.com"}],"externalData":{"customerNo":"A0"}}`,
			"Northwind", "n@example.com"},
		{`{"name":"Old Lamps","externalData":{"customerNo":"A1"}}`, "Southwind", "s@example.com"},
		{`{"name":"westwind","externalData":{"customerNo":"A2"}}`, "Westwind", "w@example.com"},
		{`{"name":"E.","people":[{"name":"E","email":"E@example.com"}],"externalData":{"customerNo":"A3"}}`, "Eastwind",
			"e@example.com"},
		{`{"externalData":{"customerNo":"A4"}}`, "Upwind", "u@example.com"},
		{`{"name":"Old Lamps","people":[{"name":"Old","email":"old@example.com"}],"externalData":{"customerNo":"A5"}}`,
			"By a word", "b@example.com"},
		{`{"name":"Leewind Ltd","externalData":{"customerNo":"A6"}}`, "Leewind", "l@example.com"},
	} {
		id := w.add(c.theirs)
		no := fmt.Sprintf("A%d", i)
		w.books.put(no, c.name, c.email)
		if no == "A5" {
			byWord = id
		}
	}
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	w.accept("A5", byWord)
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	for _, edit := range []string{"", "# another version\n"} {
		w.mapping = standardMapping + edit
		got := w.preview(syncer.PreviewOptions{})
		plan := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan}).Plan
		if plan.Adopts != got.Adopts || plan.Holds != got.Held {
			t.Errorf("%d adopted, %d held; the plan says %d and %d", got.Adopts, got.Held, plan.Adopts, plan.Holds)
		}
		if got.Adopts != 5 || got.Held != 2 || len(got.Failures) != 1 ||
			got.Failures[0].Reason != connector.ReasonKeyDisputed {
			t.Errorf("%d adopted, %d held, failures %+v; want 5, and 2 disputed", got.Adopts, got.Held, got.Failures)
			continue
		}
		if detail := got.Failures[0].Detail; !strings.Contains(detail, "differs in name") {
			t.Errorf("they are held because %q", detail)
		}
	}
	// No plan has looked at these under a key of their own.
	w.mapping = standardMapping
	w.edit("customerNo: No", "otherNo: No")
	for i, name := range []string{"Old Lamps", "Northwind"} {
		w.add(fmt.Sprintf(`{"name":%q,"externalData":{"otherNo":"B%d"}}`, name, i))
		w.books.put(fmt.Sprintf("B%d", i), "Northwind", fmt.Sprintf("b%d@example.com", i))
	}
	w.mapping = standardMapping
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	w.edit("customerNo: No", "otherNo: No")
	p := w.preview(syncer.PreviewOptions{SourceID: "B0"})
	if len(p.Customers) != 1 || p.Customers[0].Reason != connector.ReasonKeyDisputed {
		t.Errorf("B0 is foretold as %+v", p.Customers)
	}
	if p = w.preview(syncer.PreviewOptions{SourceID: "B1"}); len(p.Customers) != 1 ||
		p.Customers[0].Action != connector.ActionAdopt {
		t.Errorf("B1 is foretold as %+v", p.Customers)
	}
}

func TestAPreviewOfTheFirstRecordsLooksAtThoseAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 30 {
		w.books.put(fmt.Sprintf("%02d", i), fmt.Sprintf("Payer %d", i), fmt.Sprintf("p%d@example.com", i))
	}
	w.run()
	w.edit("name: trim(Name)\n", "name: upper(Name)\n")
	for first, want := range map[int]int{0: 30, 7: 7, 30: 30, 99: 30} {
		done := 0
		got := w.preview(syncer.PreviewOptions{Limit: 5, First: first, Progress: func(n int) { done = n }})
		if got.Records != want || got.Updates != want || done != want {
			t.Errorf("of the first %d: %d looked at, %d told, %d would change; want %d", first, got.Records, done, got.Updates,
				want)
		}
	}
}

func TestAPreviewSaysWhichPayersAreNotAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(6)
	for i, email := range []string{"", "", "ann@example.com"} {
		no := fmt.Sprint(20 + i)
		w.books.putAs(no, map[string]string{"No": no, "Name": "Payer " + no, "Email": email, "Postcode": "LS1 4AP",
			"Group": "payer"})
	}
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	for _, text := range []string{standardMapping,
		strings.Replace(standardMapping, `request: customer.people[0].email != ""`, "request: false", 1)} {
		w.mapping = text
		got := w.preview(syncer.PreviewOptions{})
		w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
		plan, err := w.ledger.UnaskedCounts(t.Context(), "acme")
		if diff := cmp.Diff(plan, got.NotAsked); err != nil || len(plan) == 0 || diff != "" {
			t.Errorf("payers that are not asked, %v (-plan +preview):\n%s\nwith\n%s", err, diff, text)
		}
	}
}
