package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"payersync/connector/accounting/xero/xerotest"
)

// aDollarCompany is an installation with customers in Xero who pay in dollars, and a mapping that asks only
// payers in pounds. It returns the ids of the contacts.
func aDollarCompany(t *testing.T, contacts int) (*world, []string) {
	t.Helper()
	w, v := newXeroWorld(t, 0)
	ids := v.xero.Add(contacts)
	for i, id := range ids {
		v.xero.Edit(id, func(c *xerotest.Contact) {
			email := fmt.Sprintf("accounts%d@example.com", i)
			c.DefaultCurrency, c.EmailAddress, c.IsCustomer = "USD", &email, true
		})
	}
	w.edit("xero.yaml", `request: any(customer.people, .email != "")`,
		`request: any(customer.people, .email != "") && DefaultCurrency in ["GBP", ""]`)
	w.edit("xero.yaml", "want: {include: true, addresses: [], request: true}", "want: {include: true, addresses: []}")
	w.edit("payersync.yaml", "max_creates: 20", "max_creates: 50")
	if r := w.connect(v); r.code != exitDone {
		t.Fatalf("connect ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	slices.Sort(ids)
	return w, ids
}

func TestThePlanAndTheReportNameTheRuleThatDoesNotAsk(t *testing.T) {
	t.Parallel()
	const payers = 30
	w, ids := aDollarCompany(t, payers)
	const rule = "line 34 of xero.yaml (asked only if DefaultCurrency is GBP or blank)"
	w.says("30 payers are not asked: "+rule+".", "plan", "books")
	w.says(`"not_asked":[{"connection":"books","why":"rule","file":"xero.yaml","line":34,"condition":"DefaultCurrency is GBP or blank","payers":30,"sentence":"30 payers are not asked: `+rule+`."}]`, "plan", "books", "--output", "json")
	w.expect(exitDone, "sync", "books")
	if w.asked() != 0 {
		t.Fatalf("%d links were asked for", w.asked())
	}
	for _, command := range [][]string{{"report"}, {"status"}} {
		w.says("30 payers are not asked: "+rule+".", command...)
	}
	for _, command := range [][]string{{"payers", "show", ids[0]}, {"report", "--output", "csv"}} {
		if r := w.says("line 34 of the mapping", command...); strings.Contains(r, "e-mail address.") {
			t.Errorf("%s blames e-mail addresses:\n%s", strings.Join(command, " "), r)
		}
	}
}

func TestAPersonDecidesWhoIsAskedAndTheMappingDecidesOnTheOthers(t *testing.T) {
	t.Parallel()
	const payers, chosen = 30, 5
	w, ids := aDollarCompany(t, payers)
	w.expect(exitDone, "sync", "books")
	w.expect(exitDone, append([]string{"payers", "ask", "--reason", "they agreed"}, ids[:chosen]...)...)
	if w.asked() != 0 {
		t.Fatalf("the decision asked for %d links", w.asked())
	}
	w.says("5 signing links", "plan", "books")
	w.says("25 payers are not asked", "plan", "books")
	w.expect(exitDone, "sync", "books")
	if w.asked() != chosen {
		t.Fatalf("%d links were asked for, want %d", w.asked(), chosen)
	}
	w.expect(exitDone, "payers", "ask", ids[chosen], "--not")
	w.says("1 payer is not asked: a person decided so.", "plan", "books")
	w.says("A person decided to request no mandate from this payer.", "payers", "show", ids[chosen])
	w.says("do not ask payer for mandate", "audit")

	w.edit("xero.yaml", `.email != "") && DefaultCurrency in ["GBP", ""]`, `.email != "")`)
	w.says("24 signing links", "plan", "books")
	if w.asked() != chosen {
		t.Fatalf("a plan asked for links: %d", w.asked())
	}
	w.expect(exitApproval, "sync", "books") // it is above the limits
	w.expect(exitDone, "sync", "books", "--yes")
	if w.asked() != payers-1 {
		t.Fatalf("%d links were asked for, want %d", w.asked(), payers-1)
	}
	w.expect(exitDone, "payers", "ask", ids[chosen], "--undo")
	w.says("1 signing link", "plan", "books")
	w.expect(exitDone, "payers", "ask", ids[chosen], "--not")
	w.expect(exitDone, "sync", "books")
	if w.asked() != payers-1 {
		t.Errorf("a link that was planned was asked for after a person decided not to")
	}
}

func TestACancelledPayerIsNotAskedAgainByADecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	w.must(w.box.Sign(w.mandateOf("A00001").ID))
	w.must(w.box.Approve(w.mandateOf("A00001").ID))
	w.must(w.box.PayerCancel(w.mandateOf("A00001").ID))
	w.expect(exitDone, "sweep")
	before := w.asked()
	r := w.expect(exitDone, "payers", "ask", "A00001")
	if !strings.Contains(r.errOut, "No other one is asked for by itself") {
		t.Errorf("it says\n%s", r.errOut)
	}
	w.expect(exitAttention, "sync")
	if w.asked() != before {
		t.Error("a new link was asked for after a cancellation")
	}
}

// says runs a command and returns its output, which must contain a text.
func (w *world) says(text string, args ...string) string {
	w.t.Helper()
	r := w.run(args...)
	if all := strings.Join(strings.Fields(r.out), " "); !strings.Contains(all, text) {
		w.t.Errorf("%s ends with %d and does not say %q:\n%s%s", strings.Join(args, " "), r.code, text, r.out, r.errOut)
	}
	return r.out
}
