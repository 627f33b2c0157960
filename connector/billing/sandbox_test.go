package billing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
)

// pairing is a service and the dialect that speaks to it.
type pairing struct {
	name     string
	switches sandbox.Switches
	dialect  billing.Dialect
}

// pairings turns each open point to each of its values, on both sides.
func pairings() []pairing {
	out := []pairing{
		{"standard", sandbox.Standard(), billing.Standard()},
		{"adfin", sandbox.Adfin(), billing.Adfin()},
	}
	add := func(name string, turn func(sw *sandbox.Switches, d *billing.Dialect)) {
		p := pairing{name, sandbox.Standard(), billing.Standard()}
		turn(&p.switches, &p.dialect)
		out = append(out, p)
	}
	add("basic token", func(sw *sandbox.Switches, d *billing.Dialect) { sw.TokenAuth, d.TokenAuth = "basic", "basic" })
	add("pages from one", func(sw *sandbox.Switches, _ *billing.Dialect) { sw.List.FirstPage = 1 })
	add("pages strictly from one", func(sw *sandbox.Switches, _ *billing.Dialect) {
		sw.List.FirstPage, sw.List.RefuseBelow = 1, true
	})
	add("capped pages", func(sw *sandbox.Switches, _ *billing.Dialect) { sw.List.MaxSize = 2 })
	add("envelope", func(sw *sandbox.Switches, _ *billing.Dialect) { sw.List.Envelope = "customers" })
	add("named envelope", func(sw *sandbox.Switches, d *billing.Dialect) {
		sw.List.Envelope, d.List.Envelope = "payers", "payers"
	})
	for _, shape := range []string{"map", "list", "object", "array"} {
		add("externalData as "+shape, func(sw *sandbox.Switches, d *billing.Dialect) {
			sw.ExternalData = shape
			if shape != "array" {
				d.ExternalData = shape
			}
		})
	}
	for _, cancel := range []string{"slash", "query", "body"} {
		add("cancel by "+cancel, func(sw *sandbox.Switches, d *billing.Dialect) { sw.Cancel, d.Cancel = cancel, cancel })
	}
	for _, status := range []int{404, 405, 501} {
		add(fmt.Sprintf("link by get, put refused with %d", status), func(sw *sandbox.Switches, _ *billing.Dialect) {
			sw.MandateLink, sw.RefusedMethodStatus = "get", status
		})
	}
	add("id in path", func(sw *sandbox.Switches, d *billing.Dialect) { sw.Update, d.Update = "path_id", "path_id" })
	add("empty answers", func(sw *sandbox.Switches, _ *billing.Dialect) {
		sw.WriteAnswer, sw.EmptyMandate = "empty",
			"object"
	})
	add("long spelling", func(sw *sandbox.Switches, d *billing.Dialect) {
		sw.PersonFields, sw.AddressFields, d.PersonFields, d.AddressFields = "long", "long", "long", "long"
	})
	add("answers long, written short",
		func(sw *sandbox.Switches, _ *billing.Dialect) { sw.PersonFields, sw.AddressFields = "long", "long" })
	return out
}

func northwind() connector.Customer {
	return connector.Customer{
		Name: "Northwind & Söhne",
		People: []connector.Person{{Name: "Ada Mary Lovelace", Email: "ada@northwind.example",
			Phone: "+44 20 7946 0001"}},
		Addresses:    []connector.Address{{Line1: "1 High St", City: "Leeds", PostCode: "LS1 1AA"}},
		ExternalData: map[string]string{"XERO": "c-1"},
	}
}

// A payer's whole life, in every dialect of the service.
//
// covers F07, F12, F51, F55, S5, S6, S7
func TestClientSpeaksEveryDialectOfTheSandbox(t *testing.T) {
	t.Parallel()
	for _, p := range pairings() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			box, client := newSandbox(t, p.switches, p.dialect)
			id := createTwice(t, client, northwind())
			updateAndCompare(t, box, client, id)
			listAll(t, client, id)
			signAndCancel(t, box, client, id)
			for _, r := range box.Requests() {
				if r.Method == "DELETE" {
					t.Errorf("sent %s %s", r.Method, r.Path)
				}
			}
		})
	}
}

func createTwice(t *testing.T, client *billing.Client, want connector.Customer) string {
	t.Helper()
	body, err := client.CreateBody(want)
	if err != nil {
		t.Fatal(err)
	}
	first, err := client.CreateCustomer(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	again, err := client.CreateCustomer(t.Context(), body)
	if err != nil || again.ID != first.ID {
		t.Fatalf("the same bytes made customer %q, then %q (%v)", first.ID, again.ID, err)
	}
	got, err := client.Customer(t.Context(), first.ID)
	if err != nil {
		t.Fatal(err)
	}
	seen := connector.RemoteCustomer{Name: got.Name, Emails: got.Emails, ExternalData: got.ExternalData}
	wanted := connector.RemoteCustomer{
		Name: want.Name, Emails: []string{want.People[0].Email}, ExternalData: want.ExternalData,
	}
	if diff := cmp.Diff(wanted, seen); diff != "" {
		t.Errorf("fetched customer (-want +got):\n%s", diff)
	}
	return first.ID
}

func updateAndCompare(t *testing.T, box *sandbox.Sandbox, client *billing.Client, id string) {
	t.Helper()
	before, err := client.Customer(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	applied := northwind()
	if body, changed, err := client.MergeCustomer(before, &applied, applied, everything); changed || err != nil {
		t.Fatalf("merge of what is there = %s, changed %v, %v", body, changed, err)
	}
	if err := box.Edit(id, foreignEdit(t, before.Raw)); err != nil {
		t.Fatal(err)
	}
	before, err = client.Customer(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	want := northwind()
	want.Name, want.People[0].Phone = "Northwind Ltd", "+44 20 7946 0002"
	body, changed, err := client.MergeCustomer(before, &applied, want, everything)
	if err != nil || !changed {
		t.Fatalf("merge: changed %v, %v", changed, err)
	}
	if err := client.UpdateCustomer(t.Context(), id, body); err != nil {
		t.Fatal(err)
	}
	after, err := client.Customer(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, changed, err := client.MergeCustomer(after, &want, want, everything); changed || err != nil {
		t.Errorf("after the update something still differs: changed %v, %v in %s", changed, err, after.Raw)
	}
	paths, err := client.ForeignChanges(before.Raw, after.Raw, &applied, want, everything)
	if err != nil || len(paths) > 0 {
		t.Errorf("foreign changes = %q, %v\nbefore %s\nafter  %s", paths, err, before.Raw, after.Raw)
	}
}

var everything = []string{"name", "people", "addresses"}

// foreignEdit adds what a colleague might: fields of all kinds that we do not
// know.
func foreignEdit(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	o := decode(t, raw)
	o["taxNumber"] = json.RawMessage(`12345678901234567890`)
	o["notes"] = json.RawMessage(`{"a":[1.50,null,{"b":"x & y"}]}`)
	var people []map[string]json.RawMessage
	if err := json.Unmarshal(o["people"], &people); err != nil {
		t.Fatal(err)
	}
	people[0]["isPrimaryContact"] = json.RawMessage(`true`)
	o["people"], _ = json.Marshal(append(people,
		map[string]json.RawMessage{"email": json.RawMessage(`"office@northwind.example"`)}))
	out, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func listAll(t *testing.T, client *billing.Client, known string) {
	t.Helper()
	want := map[string]bool{known: true}
	for i := range 4 {
		body, err := client.CreateBody(connector.Customer{Name: fmt.Sprintf("Other %d", i),
			ExternalData: map[string]string{"XERO": fmt.Sprintf("o-%d", i)}})
		if err != nil {
			t.Fatal(err)
		}
		made, err := client.CreateCustomer(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		want[made.ID] = true
	}
	for pass := range 2 { // the second one knows where pages begin
		got := map[string]bool{}
		for customers, err := range client.Customers(t.Context()) {
			if err != nil {
				t.Fatalf("pass %d: %v", pass, err)
			}
			for _, c := range customers {
				if got[c.ID] {
					t.Errorf("pass %d: customer %s came twice", pass, c.ID)
				}
				got[c.ID] = true
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pass %d (-want +got):\n%s", pass, diff)
		}
	}
	found, err := client.SearchCustomers(t.Context(), "northwind")
	if err != nil || len(found) != 1 || found[0].ID != known {
		t.Errorf("search found %v, %v", found, err)
	}
}

func signAndCancel(t *testing.T, box *sandbox.Sandbox, client *billing.Client, id string) {
	t.Helper()
	link, err := client.RequestMandateLink(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if link.Status != connector.MandateCreated || link.URL == "" || link.CustomerID != id {
		t.Errorf("link = %+v", link)
	}
	if err := box.Sign(link.ID); err != nil {
		t.Fatal(err)
	}
	if again, err := client.RequestMandateLink(t.Context(), id); err != nil || again.ID != link.ID ||
		again.Status != connector.MandatePending {
		t.Errorf("second request = %+v, %v; want the same mandate, PENDING", again, err)
	}
	if err := client.CancelMandate(t.Context(), link.ID, "change of bank"); err != nil {
		t.Fatal(err)
	}
	got, err := client.Customer(t.Context(), id)
	if err != nil || got.Mandate == nil || got.Mandate.ID != link.ID || got.Mandate.Status != connector.MandateCancelled {
		t.Errorf("after cancel: %+v, %v", got.Mandate, err)
	}
}

// covers F113
func TestSubscriptionsAreReadInWhateverListTheyCome(t *testing.T) {
	t.Parallel()
	const one = `{"id":"w1","url":"https://hooks.example.com/in","events":["customer",7],"enabled":false,"clientId":"x","creationTime":"2026-01-02T03:04:05Z","lastUpdatedTime":"2026-02-03T04:05:06Z"}`
	want := []billing.Subscription{{
		ID: "w1", URL: "https://hooks.example.com/in", Events: []string{"customer", "7"},
		ClientID: "x", CreatedAt: "2026-01-02T03:04:05Z", UpdatedAt: "2026-02-03T04:05:06Z",
	}}
	for _, answer := range []string{"[" + one + "]", one, `{"webhooks":[` + one + `],"page":1}`} {
		got, err := newClient(t, config(answers(200, "application/json", answer))).Subscriptions(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s (-want +got), %v:\n%s", answer, err, diff)
		}
	}
	if got, err := newClient(t,
		config(answers(200, "application/json", `{"data":[]}`))).Subscriptions(t.Context()); err != nil || got == nil ||
		len(got) != 0 {
		t.Errorf("an empty list is read as %v, %v", got, err)
	}
	for _, unknown := range []string{`{}`, `null`, `"x"`, `[1]`, `[{"id":"w1"}]`, `{"a":[],"b":[]}`, `{"enabled":true}`} {
		if got, err := newClient(t,
			config(answers(200, "application/json", unknown))).Subscriptions(t.Context()); !errors.Is(err, billing.ErrNotShown) {
			t.Errorf("%s is read as %v, %v; want that nothing is shown", unknown, got, err)
		}
	}
	for status, shows := range map[int]bool{404: false, 405: false, 501: false, 403: true, 500: true} {
		_, err := newClient(t, config(answers(status, "application/json", `{}`))).Subscriptions(t.Context())
		if err == nil || errors.Is(err, billing.ErrNotShown) == shows {
			t.Errorf("answered %d: %v", status, err)
		}
	}
}
