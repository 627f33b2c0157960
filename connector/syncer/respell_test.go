package syncer_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector"
)

// answering lets the service answer every read of a customer, and every page of its
// list, as change leaves it.
func answering(w *world, change func(id string, raw map[string]any)) *meddler {
	m := meddle(w)
	respell := func(c connector.RemoteCustomer) connector.RemoteCustomer {
		raw := map[string]any{}
		if err := json.Unmarshal(c.Raw, &raw); err != nil {
			w.t.Error(err)
		}
		change(c.ID, raw)
		c.Raw, _ = json.Marshal(raw)
		c.Name, _ = raw["name"].(string)
		c.Emails, c.Phones = nil, nil
		for _, p := range people(raw) {
			if email, ok := p["email"].(string); ok {
				c.Emails = append(c.Emails, email)
			}
			if phone, ok := p["phone"].(string); ok {
				c.Phones = append(c.Phones, phone)
			}
		}
		return c
	}
	m.onRead = func(_ string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		if err != nil {
			return c, err
		}
		return respell(c), nil
	}
	m.onPage = func(page []connector.RemoteCustomer) []connector.RemoteCustomer {
		out := make([]connector.RemoteCustomer, len(page))
		for i, c := range page {
			out[i] = respell(c)
		}
		return out
	}
	return m
}

func people(raw map[string]any) (out []map[string]any) {
	list, _ := raw["people"].([]any)
	for _, element := range list {
		if p, ok := element.(map[string]any); ok {
			out = append(out, p)
		}
	}
	return out
}

// covers F106, S6
func TestAServiceThatTidiesUpWhatItIsSentHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mapping = strings.Replace(standardMapping, "    - {name: trim(Name), email: lower(trim(Email))}",
		"    - name: trim(Name)\n      email: trim(Email)\n      phone: '\"+44 20 7946 0000\"'", 1)
	answering(w, func(_ string, raw map[string]any) {
		raw["name"] = strings.Join(strings.Fields(raw["name"].(string)), " ")
		for _, p := range people(raw) {
			p["email"] = strings.ToLower(p["email"].(string))
			p["phone"] = strings.ReplaceAll(p["phone"].(string), " ", "")
		}
	})
	for i := range 5 {
		w.books.put(fmt.Sprintf("A%d", i), fmt.Sprintf("North  Wind %d", i), fmt.Sprintf("Ada%d@Example.com", i))
	}
	w.complete(w.run())
	for i := range 5 {
		w.books.put(fmt.Sprintf("A%d", i), fmt.Sprintf("North  Wind %d Ltd", i), fmt.Sprintf("Ada%d@Example.com", i))
	}
	if res := w.complete(w.run()); res.Counts.Updated != 5 || len(w.attention()) != 0 {
		t.Errorf("counts %+v, attention %v; want five updates and nothing for a person", res.Counts, w.attention())
	}
	sweep, err := w.syncer.Reconciler.Sweep(t.Context())
	if err != nil || sweep.Drifted != 0 {
		t.Errorf("sweep = %+v, %v; want no drift", sweep, err)
	}
	before := w.service.Writes()
	w.complete(w.run())
	if n := w.service.Writes() - before; n != 0 {
		t.Errorf("%d requests that write over unchanged books", n)
	}
	for _, c := range w.service.Customers() {
		var raw map[string]any
		if err := json.Unmarshal(c.Raw, &raw); err != nil || len(people(raw)) != 1 {
			t.Errorf("customer %s has %d contacts, %v", c.ID, len(people(raw)), err)
		}
	}
	w.books.put("A1", "NORTH WIND 1 LTD", "ada1@example.com") // only its form is edited: it is sent
	if res := w.complete(w.run()); res.Counts.Updated != 1 || w.service.Writes() == before {
		t.Errorf("an edit of the form alone was not sent: %+v", res.Counts)
	}
}

// covers F106
func TestWhatMovesWithEveryUpdateIsLearnt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(6)
	w.complete(w.run())
	updates, notes := map[string]int{}, map[string]string{}
	m := answering(w, func(id string, raw map[string]any) {
		raw["revision"] = 7 + 31*updates[id]
		raw["audit"] = map[string]any{"etag": fmt.Sprint("v", updates[id]*31)}
		raw["notes"] = notes[id]
	})
	m.onUpdate = func(id string) { updates[id]++ }
	edit := func(i int) string {
		w.books.put(fmt.Sprintf("C%04d", i),
			fmt.Sprintf("Payer %d, renamed %d", i, updates[w.payer(fmt.Sprintf("C%04d", i)).BillingID]),
			fmt.Sprintf("payer%d@example.com", i))
		w.run()
		return w.attention()[fmt.Sprintf("C%04d", i)]
	}
	if got := edit(0); got != string(connector.ReasonForeignChange) {
		t.Errorf("attention after the first update = %q; want what moved told, because it could be a colleague", got)
	}
	if got := edit(1); got != "" {
		t.Errorf("attention after update 2 = %q", got)
	}
	w.trust() // two updates that changed what is not ours stop the others
	for i := 2; i < 4; i++ {
		if got := edit(i); got != "" {
			t.Errorf("attention after update %d = %q", i+1, got)
		}
	}
	if got := w.attention(); len(got) != 0 {
		t.Errorf("what was told of the first is still told: %v", got)
	}
	id := w.payer("C0004").BillingID
	m.onUpdate = func(of string) {
		updates[of]++
		if of == id {
			notes[id] = "a colleague writes at this moment"
		}
	}
	if got := edit(4); got != string(connector.ReasonForeignChange) {
		t.Errorf("attention after a colleague's edit = %q, want foreign_change", got)
	}
	rows, err := w.ledger.AttentionOf(t.Context(), "acme", "C0004")
	if err != nil || len(rows) != 1 || !strings.Contains(rows[0].Detail, "notes") ||
		!strings.Contains(rows[0].Detail, "billing.dialect.read_only") {
		t.Errorf("told %+v, %v; want the field and the setting", rows, err)
	}
}

// covers F106
func TestLearningWhatMovesTakesBackNothingOfACustomerThatDiffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(4)
	w.complete(w.run())
	updates, theirs := map[string]int{}, map[string]bool{}
	m := answering(w, func(id string, raw map[string]any) {
		if raw["revision"] = 7 + 31*updates[id]; theirs[id] {
			raw["name"] = "A colleague's name"
		}
	})
	m.onUpdate = func(id string) { updates[id]++ }
	edit := func(i int) {
		t.Helper()
		w.books.put(fmt.Sprintf("C%04d", i), fmt.Sprintf("Payer %d, renamed", i), fmt.Sprintf("payer%d@example.com", i))
		w.complete(w.run())
	}
	edit(0)
	told := func(of, want string) {
		t.Helper()
		rows, err := w.ledger.AttentionOf(t.Context(), "acme", of)
		if err != nil || len(rows) != 1 || !strings.Contains(rows[0].Detail, want) {
			t.Errorf("told of %s: %+v, %v; want %q", of, rows, err, want)
		}
	}
	told("C0000", "revision")
	theirs[w.payer("C0000").BillingID], theirs[w.payer("C0003").BillingID] = true, true
	w.sweep()
	w.complete(w.run())
	told("C0000", "Somebody else changed the customer") // what moved once is no longer what is the matter
	edit(1)
	w.trust() // two updates that changed what is not ours stop the others
	edit(2)   // now it is known that the revision moves with every update
	w.sweep()
	w.complete(w.run())
	told("C0000", "Somebody else changed the customer")
	told("C0003", "Somebody else changed the customer")
}

// covers F106
func TestAFieldThatTheServiceDoesNotShowIsNamedWithItsSetting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	updates := 0
	m := answering(w, func(_ string, raw map[string]any) {
		for _, p := range people(raw) {
			p["name"] = fmt.Sprint("Team ", updates)
		}
	})
	m.onUpdate = func(string) { updates++ }
	w.books.put("A1", "Southwind", "a@example.com")
	if res := w.run(); res.Counts.Failed != 1 {
		t.Errorf("counts = %+v, want one failed", res.Counts)
	}
	rows, err := w.ledger.AttentionOf(t.Context(), "acme", "A1")
	if err != nil || len(rows) != 1 || !strings.Contains(rows[0].Detail, "people[0].name") ||
		!strings.Contains(rows[0].Detail, "person_fields") {
		t.Errorf("told %+v, %v; want the field and the setting", rows, err)
	}
}

// covers F105
// The read after an update is answered from a copy that lags behind.
func TestAnUpdateThatAReadDoesNotShowYetIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.complete(w.run())
	m := meddle(w)
	var old *connector.RemoteCustomer
	var until time.Time
	m.onUpdate = func(string) { until = w.clock.now().Add(1500 * time.Millisecond) }
	m.onRead = func(_ string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		if old != nil && w.clock.now().Before(until) {
			return *old, err
		}
		old = &c
		return c, err
	}
	w.books.put("A1", "Southwind", "a@example.com")
	w.run()
	w.clock.advance(2 * time.Second)
	w.complete(w.run())
	if got := w.attention(); len(got) != 0 {
		t.Errorf("attention = %v, want none", got)
	}
	if n := len(w.bodies(http.MethodPut, "/api/customers")); n > 2 {
		t.Errorf("%d updates were sent", n)
	}
}
