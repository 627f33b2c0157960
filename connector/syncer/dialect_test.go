package syncer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
)

// covers F51, F55, S5
func TestForeignFieldsSurviveAnUpdateInEverySpelling(t *testing.T) {
	t.Parallel()
	for _, people := range []string{"short", "long"} {
		for _, external := range []string{"map", "list", "object"} {
			for _, update := range []string{"body_id", "path_id"} {
				name := fmt.Sprintf("%s, %s, %s", people, external, update)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, func(o *sandbox.Options, d *billing.Dialect) {
						d.PersonFields, d.AddressFields, d.ExternalData, d.Update = people, people, external, update
						o.Switches.PersonFields, o.Switches.AddressFields = people, people
						o.Switches.ExternalData, o.Switches.Update = external, update
					})
					foreignFieldsSurvive(t, w)
				})
			}
		}
	}
}

// foreignFieldsSurvive makes a customer, lets somebody else add to it, updates it
// and compares what is not ours byte for byte.
func foreignFieldsSurvive(t *testing.T, w *world) {
	t.Helper()
	w.books.put("A1", "Northwind Bakery", "a@example.com")
	w.complete(w.run())
	id := w.payer("A1").BillingID
	foreign := map[string]string{
		"crm": `{"score":12345678901234567890,"tags":["a",null,1.10],"Nested":{"z":1,"a":2}}`, "vip": `null`,
		"balance": `0.10`,
	}
	c, _ := w.service.Customer(id)
	raw := string(c.Raw)
	for name, value := range foreign {
		raw = fmt.Sprintf(`{%q:%s,%s`, name, value, strings.TrimPrefix(raw, "{"))
	}
	raw = addForeignKey(t, raw)
	if err := w.service.Edit(id, json.RawMessage(raw)); err != nil {
		t.Fatal(err)
	}

	w.books.put("A1", "Northwind Bakery Ltd", "new@example.com")
	if res := w.complete(w.run()); res.Counts.Updated != 1 {
		t.Fatalf("counts = %+v, want 1 updated", res.Counts)
	}
	after, _ := w.service.Customer(id)
	if after.Name != "Northwind Bakery Ltd" || after.ExternalData["customerNo"] != "A1" {
		t.Errorf("what is ours was not written: %s", after.Raw)
	}
	if after.ExternalData["legacy"] != "77" {
		t.Errorf("the foreign externalData key is gone: %s", after.Raw)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(after.Raw, &members); err != nil {
		t.Fatal(err)
	}
	for name, value := range foreign {
		if got := string(members[name]); got != value {
			t.Errorf("the foreign field %s was %s and is %s", name, value, got)
		}
	}
	if got := w.attention(); len(got) != 0 {
		t.Errorf("attention = %v, want none", got)
	}
	if p := w.payer("A1"); p.LinkState != connector.LinkLinked {
		t.Errorf("the payer is %s", p.LinkState)
	}
}

// addForeignKey adds the externalData pair legacy=77 in the shape it finds.
func addForeignKey(t *testing.T, raw string) string {
	t.Helper()
	for shape, with := range map[string]string{
		`"externalData":{"customerNo":"A1"}`:                        `"externalData":{"legacy":"77","customerNo":"A1"}`,
		`"externalData":[{"key":"customerNo","value":"A1"}]`:        `"externalData":[{"key":"legacy","value":"77"},{"key":"customerNo","value":"A1"}]`,
		`"externalData":{"connectorType":"customerNo","id":"A1"}`:   `"externalData":[{"connectorType":"legacy","id":"77"},{"connectorType":"customerNo","id":"A1"}]`,
		`"externalData":[{"connectorType":"customerNo","id":"A1"}]`: `"externalData":[{"connectorType":"legacy","id":"77"},{"connectorType":"customerNo","id":"A1"}]`,
	} {
		if strings.Contains(raw, shape) {
			return strings.Replace(raw, shape, with, 1)
		}
	}
	t.Fatalf("no known shape of externalData in %s", raw)
	return ""
}

// A wrong format of updates is no record's fault: the run names the setting, and no record waits for a
// person.
func TestAWrongSpellingOfUpdatesIsNoRecordsFault(t *testing.T) {
	t.Parallel()
	for update, taken := range map[string]string{"body_id": "path_id", "path_id": "body_id"} {
		for _, status := range []int{404, 405, 501} {
			t.Run(fmt.Sprintf("%s, HTTP %d", update, status), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, func(o *sandbox.Options, d *billing.Dialect) {
					d.Update, o.Switches.Update, o.Switches.RefusedMethodStatus = update, taken, status
				})
				w.syncer.Settings.Workers = 1
				for _, id := range []string{"A1", "A2", "A3"} {
					w.books.put(id, "Name of "+id, id+"@example.com")
				}
				w.complete(w.run())
				for _, id := range []string{"A1", "A2", "A3"} {
					w.books.put(id, "New name of "+id, id+"@example.com")
				}
				res := w.run()
				if !errors.Is(res.Err, connector.ErrWrongWay) || !strings.Contains(res.Problem, "billing.dialect.update") {
					t.Errorf("the run ended %s: %v", res.Outcome, res.Err)
				}
				if got := w.attention(); len(got) != 0 || res.Counts.Failed != 0 {
					t.Errorf("%d failed, and a person is asked about %v", res.Counts.Failed, got)
				}
			})
		}
	}
}
