package syncer_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/state"
	"payersync/state/statetest"
)

const scopedMapping = standardMapping + "scope: tenant\n"

// another is the books of another organisation on the same account, in a ledger of their own.
func (w *world) another() *world {
	w.t.Helper()
	o := &world{t: w.t, clock: w.clock, service: w.service, books: &books{}, dialect: w.dialect, billing: w.billing,
		mapping: w.mapping}
	o.path = filepath.Join(w.t.TempDir(), "other.db")
	statetest.New(w.t, o.path)
	o.open()
	w.t.Cleanup(func() { _ = o.ledger.Close() })
	return o
}

// as is the world's connection under a name, of an organisation.
func (w *world) as(name, organisation string, source *books) syncer.Connection {
	w.t.Helper()
	info := source.info()
	info.Organisation = organisation
	m, err := mapping.Load("mapping.yaml", []byte(w.mapping), info)
	if err != nil {
		w.t.Fatal(err)
	}
	return syncer.Connection{Name: name, Source: source, Info: info, Mapping: m}
}

func (w *world) syncs(conn syncer.Connection, approve bool) syncer.Result {
	w.t.Helper()
	res, err := w.syncer.Run(w.t.Context(), conn, syncer.RunOptions{
		Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test",
		Approve: func(state.Plan) (bool, error) { return approve, nil },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// scopes counts the customers by the organisation beside their key.
func scopes(t *testing.T, service *sandbox.Sandbox) map[string]int {
	t.Helper()
	out, keys := map[string]int{}, map[connector.Key]string{}
	for _, c := range service.Customers() {
		key := connector.KeyIn(c.ExternalData, "customerNo")
		if other, twice := keys[key]; twice {
			t.Errorf("the customers %s and %s both carry %s", other, c.ID, key)
		}
		keys[key] = c.ID
		out[key.Scope]++
	}
	return out
}

// The same numbers mean other people in other books.
//
// covers F117
func TestEqualNumbersOfTwoOrganisationsAreTwoKeys(t *testing.T) {
	t.Parallel()
	const n = 30
	fill := func(b *books, company string) {
		for i := range n {
			b.put(fmt.Sprintf("C%04d", i), fmt.Sprintf("%s %d", company, i),
				fmt.Sprintf("%s%d@example.com", strings.ToLower(company), i))
		}
	}
	for name, second := range map[string]func(*world) (*world, string){
		"two connections of one ledger": func(w *world) (*world, string) { return w, "fjord" },
		"two ledgers":                   func(w *world) (*world, string) { return w.another(), "acme" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.mapping = scopedMapping
			fill(w.books, "Harbour")
			w.complete(w.syncs(w.as("acme", "harbour", w.books), true))
			before := map[string]string{}
			for _, c := range w.service.Customers() {
				before[c.ID] = w.raw(c.ID)
			}
			other, connection := second(w)
			theirs := &books{}
			fill(theirs, "Fjord")
			for range 2 {
				other.complete(other.syncs(other.as(connection, "fjord", theirs), true))
				w.complete(w.syncs(w.as("acme", "harbour", w.books), true))
			}
			if diff := cmp.Diff(map[string]int{"harbour": n, "fjord": n}, scopes(t, w.service)); diff != "" {
				t.Errorf("customers by organisation (-want +got):\n%s", diff)
			}
			for id, raw := range before {
				if now := w.raw(id); now != raw {
					t.Errorf("a customer of the first organisation was\n%s\nand is\n%s", raw, now)
				}
			}
			if told := w.attention(); len(told) != 0 {
				t.Errorf("people are told of %v", told)
			}
		})
	}
}

// A mapping whose key comes to name the organisation writes it on the customers that carry
// the key already: by a plan that waits, however few they are, and without a customer more.
//
// covers F117
func TestCustomersWithTheOldKeyGetTheirScopeByAPlanThatAPersonApproves(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]*sandbox.Fault{
		"as it should be": nil,
		"a lost answer":   {Kind: sandbox.LostResponse, Method: http.MethodPut, Path: "/api/customers", Count: 2},
		"a lost request":  {Kind: sandbox.LostRequest, Method: http.MethodPut, Path: "/api/customers", Count: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 4
			w := newWorld(t)
			w.fill(n)
			w.complete(w.syncs(w.as("acme", "harbour", w.books), true))
			links := map[string]string{}
			for i := range n {
				p := w.payer(fmt.Sprintf("C%04d", i))
				links[p.SourceID] = p.BillingID
			}
			w.mapping = scopedMapping
			res := w.syncs(w.as("acme", "harbour", w.books), false)
			if res.Outcome != connector.RunAwaitingApproval ||
				!strings.Contains(res.Plan.Limits, "4 customers would get the organisation written beside the key") {
				t.Fatalf("the run ended %s: %q", res.Outcome, res.Plan.Limits)
			}
			if diff := cmp.Diff(map[string]int{"": n}, scopes(t, w.service)); diff != "" {
				t.Errorf("before the approval (-want +got):\n%s", diff)
			}
			if fault != nil {
				w.service.Inject(*fault)
			}
			w.syncs(w.as("acme", "harbour", w.books), true)
			if fault != nil {
				w.restart()
				w.syncs(w.as("acme", "harbour", w.books), true)
			}
			w.complete(w.syncs(w.as("acme", "harbour", w.books), false))
			if diff := cmp.Diff(map[string]int{"harbour": n}, scopes(t, w.service)); diff != "" {
				t.Errorf("after it (-want +got):\n%s", diff)
			}
			for id, customer := range links {
				want := connector.Key{Name: "customerNo", Value: id, Scope: "harbour"}
				if p := w.payer(id); p.BillingID != customer || p.Key != want || p.LinkState != connector.LinkLinked {
					t.Errorf("the payer is %+v, want linked to %s under %s", p, customer, want)
				}
			}
			if told := w.attention(); len(told) != 0 {
				t.Errorf("people are told of %v", told)
			}
		})
	}
}

// covers F117
func TestACustomerWithTheOldKeyIsAdoptedWhenNothingSpeaksAgainstIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mapping = scopedMapping
	ours := w.add(`{"name":"Northwind Ltd","people":[{"email":"a@example.com"}],"externalData":{"customerNo":"A1","crm":"77"},"custom":12345678901234567890}`)
	theirs := w.add(`{"name":"Bergen Bakeri AS","people":[{"email":"post@bergen.example"}],"addresses":[{"postCode":"5003"}],"externalData":{"customerNo":"B1"}}`)
	bare := w.add(`{"name":"","externalData":{"customerNo":"D1","crm":"9"}}`)
	scoped := w.add(`{"name":"Southwind","people":[{"email":"c@example.com"}],"externalData":{"customerNo":"C1","customerNoScope":"fjord"}}`)
	w.books.put("D1", "Westwind", "d@example.com")
	was := map[string]string{theirs: w.raw(theirs), bare: w.raw(bare), scoped: w.raw(scoped)}
	w.books.put("A1", "Northwind", "a@example.com")
	w.books.put("B1", "Eastwind", "b@example.com")
	w.books.put("C1", "Southwind", "c@example.com")
	if res := w.syncs(w.as("acme", "harbour", w.books), false); res.Outcome != connector.RunAwaitingApproval {
		t.Fatalf("the run ended %s", res.Outcome)
	}
	w.syncs(w.as("acme", "harbour", w.books), true)
	w.complete(w.syncs(w.as("acme", "harbour", w.books), false))
	if p := w.payer("A1"); p.BillingID != ours || p.Key.Scope != "harbour" || p.LinkState != connector.LinkLinked {
		t.Errorf("the payer of A1 is %+v", p)
	}
	if c, _ := w.service.Customer(ours); c.ExternalData["customerNoScope"] != "harbour" || c.ExternalData["crm"] != "77" ||
		!strings.Contains(string(c.Raw), "12345678901234567890") {
		t.Errorf("the adopted customer is %s", c.Raw)
	}
	if p := w.payer("C1"); p.BillingID == "" || p.BillingID == scoped {
		t.Errorf("the payer of C1 is %+v, want a customer of its own beside the other organisation's", p)
	}
	if diff := cmp.Diff(map[string]string{"B1": string(connector.ReasonKeyDisputed),
		"D1": string(connector.ReasonKeyDisputed)}, w.attention()); diff != "" {
		t.Errorf("people are told (-want +got):\n%s", diff)
	}
	for id, raw := range was {
		if now := w.raw(id); now != raw {
			t.Errorf("a stranger's customer was\n%s\nand is\n%s", raw, now)
		}
	}
	rows, err := w.ledger.AttentionOf(t.Context(), "acme", "B1")
	if err != nil || len(rows) != 1 ||
		!strings.Contains(rows[0].Detail, theirs+" carries this record's number without an organisation") {
		t.Errorf("of B1 people are told %+v, %v", rows, err)
	}
	w.say("B1", theirs, state.WordReject)
	w.complete(w.syncs(w.as("acme", "harbour", w.books), true))
	if p := w.payer("B1"); p.BillingID == "" || p.BillingID == theirs {
		t.Errorf("the payer of B1 is %+v, want a customer of its own", p)
	}
}

// covers F117
func TestAScopeThatNobodyOfUsWroteIsAnotherKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	id := w.payer("A1").BillingID
	if err := w.service.Edit(id,
		json.RawMessage(`{"name":"Northwind","externalData":{"customerNo":"A1","customerNoScope":"fjord"}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.syncer.Reconciler.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.run()
	if diff := cmp.Diff(map[string]string{"A1": string(connector.ReasonOtherKey)}, w.attention()); diff != "" {
		t.Errorf("people are told (-want +got):\n%s", diff)
	}
	if p := w.payer("A1"); p.Key.Scope != "" {
		t.Errorf("the payer's key became %s", p.Key)
	}
}

func TestARecordWithoutItsOrganisationIsHeldUntilTheConfigurationNamesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mapping = scopedMapping
	w.books.put("A1", "Northwind", "a@example.com")
	w.syncs(w.as("acme", "", w.books), true)
	rows, err := w.ledger.Attention(t.Context(), state.Filter{})
	if err != nil || len(rows) != 1 || !strings.Contains(rows[0].Detail, "connections[].organisation") {
		t.Fatalf("people are told of %+v, %v", rows, err)
	}
	w.complete(w.syncs(w.as("acme", "harbour", w.books), true))
	if diff := cmp.Diff(map[string]int{"harbour": 1}, scopes(t, w.service)); diff != "" {
		t.Errorf("customers by organisation (-want +got):\n%s", diff)
	}
}

// covers F51, F55, F117
func TestAScopeIsWrittenAndReadInEveryShapeOfExternalData(t *testing.T) {
	t.Parallel()
	for _, external := range []string{"map", "list", "object"} {
		for _, first := range []string{"made with it", "gains it"} {
			t.Run(external+", "+first, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, func(o *sandbox.Options, d *billing.Dialect) {
					d.ExternalData, o.Switches.ExternalData = external, external
				})
				w.books.put("A1", "Northwind", "a@example.com")
				if first == "gains it" {
					w.complete(w.syncs(w.as("acme", "harbour", w.books), true))
				}
				w.mapping = scopedMapping
				w.complete(w.syncs(w.as("acme", "harbour", w.books), true))
				if res := w.complete(w.syncs(w.as("acme", "harbour", w.books), false)); res.Counts.Updated != 0 {
					t.Errorf("the second sync: %+v", res.Counts)
				}
				if diff := cmp.Diff(map[string]int{"harbour": 1}, scopes(t, w.service)); diff != "" {
					t.Errorf("customers by organisation (-want +got):\n%s", diff)
				}
				if p := w.payer("A1"); p.Key.Scope != "harbour" || p.LinkState != connector.LinkLinked {
					t.Errorf("the payer is %+v", p)
				}
			})
		}
	}
}
