package pages_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/state"
)

// recount makes the next page count anew.
func (h *house) recount() { h.standings.Renew() }

// activate makes the first of the mandates active, as the bank does.
func (h *house) activate(n int) {
	h.t.Helper()
	for _, m := range must(h.ledger.Mandates(context.Background(), state.Filter{Limit: n}))(h.t) {
		h.do(func(tx *state.Tx) error {
			_, err := tx.SaveMandate(connector.Mandate{ID: m.MandateID, CustomerID: m.BillingID,
				Status: connector.MandateActive}, connector.CauseSweep, "1")
			return err
		})
	}
}

func TestTheOverviewLeadsToTheFirstPayerAndThenSaysWhoCanBeDebited(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("anna", pages.Viewer)
	page := v.get("/", http.StatusOK)
	holds(t, page, "No payers yet", "Connect the accounting system", "payersync plan quickstart",
		"payersync webhooks subscribe", "payersync backfill quickstart", "Not read yet")
	if n := strings.Count(page, "✓"); n != 1 || strings.Contains(page, "can be debited.") {
		t.Errorf("of the steps %d are done:\n%s", n, page)
	}

	h.run(true)
	h.recount()
	page = v.get("/", http.StatusOK)
	holds(t, page, "<h1>0 of 38 payers can be debited.</h1>", "38 cannot yet: most wait for a signature", "39 read",
		`<a href="/mandates/report?class=D&amp;stage=books"><strong>33</strong> awaiting signature</a>`)
	holds(t, page, `Overview <span class="count">`,
		`<span class="many">33</span><div><strong><a href="/mandates/report?task=not_sent">The signing link was never sent</a>`, "Otherwise: They cannot sign.", "Your accounting staff, since")
	lacks(t, page, "Nothing needs anybody")

	h.activate(3)
	h.recount()
	page = v.get("/", http.StatusOK)
	holds(t, page, "<h1>3 of 38 payers can be debited.</h1>", "<h2>Last 24 hours</h2>", "3 mandates became active",
		"34 customers created", "33 signing links requested", `<a href="/runs">1 run finished</a>`)
	lacks(t, page, "mandates signed", "Run now", "are counted since")
	holds(t, h.enter("olaf", pages.Operator).get("/", http.StatusOK), `<form method="post" action="/runs"><input type="hidden" name="connection" value="quickstart"><button>Run now`)
	sum := 0
	for path, n := range numbered(t, page, shareNumber) {
		sum += n
		holds(t, v.get(path, http.StatusOK), fmt.Sprintf(": %d</h2>", n)) // the list that it leads to says the same
	}
	if sum != 38 {
		t.Errorf("the shares add up to %d of 38 payers:\n%s", sum, page)
	}
}

func TestTheLastDayNamesThePayersOfFewEvents(t *testing.T) {
	t.Parallel()
	h, _ := newPost(t)
	h.books(bakeries(7))
	h.run(true)
	h.activate(2)
	h.recount()
	page := h.enter("anna", pages.Viewer).get("/", http.StatusOK)
	named := func(line string) int {
		t.Helper()
		_, rest, found := strings.Cut(page, "<li>"+line)
		item, _, _ := strings.Cut(rest, "</li>")
		if !found {
			t.Errorf("there is no line %q:\n%s", line, page)
		}
		return strings.Count(item, `<a class="name" href="/payers/quickstart/HB`)
	}
	for line, want := range map[string]int{"7 customers created": 5, "7 signing links requested": 5,
		"2 mandates became active": 2} {
		if n := named(line); n != want {
			t.Errorf("%q names %d payers, want %d", line, n, want)
		}
	}
	if n := strings.Count(page, " and 2 more</span>"); n != 2 {
		t.Errorf("%d lines say that there are 2 more", n)
	}
	holds(t, page, `<bdi>Bakery 7 Limited</bdi></a> <span class="muted"><bdi>HB007</bdi>`)

	h.books(bakeries(40))
	h.run(true)
	h.recount()
	page = h.enter("bert", pages.Viewer).get("/", http.StatusOK)
	if n := named("40 customers created"); n != 0 {
		t.Errorf("of many payers, %d are named", n)
	}
	if n := named("2 mandates became active"); n != 2 {
		t.Errorf("%d payers are named, want 2", n)
	}
}

func TestAProblemOfTheInstallationLeadsToWhereItIsSettled(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	v := h.enter("anna", pages.Viewer)
	lacks(t, v.get("/", http.StatusOK), `class="urgent"`, "/webhooks\">Look")
	h.receive(state.Delivery{Key: "event:e1#1", Type: "odd", State: connector.InboxQuarantined,
		Detail: "It names no customer.", Body: []byte(`{}`)})
	for range 2 { // before the next count, and after it
		holds(t, v.get("/", http.StatusOK), `<a class="button" href="/webhooks">See webhooks</a>`,
			"payersync could not read 1 delivery")
		h.recount()
	}
}

func TestEveryOneInTheBooksIsCountedOnceOnTheOverviewAndInTheReport(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.activate(2)
	whole := must(admin.MakeReport(context.Background(), h.ledger, admin.ReportOn{},
		func(admin.ReportRow) error { return nil }))(t)
	last := whole.Records
	for _, s := range admin.Stages {
		n := whole.Reached(s)
		if n > last {
			t.Errorf("%s has %d, more than the stage before it (%d)", s, n, last)
		}
		last = n
	}
	page := h.enter("anna", pages.Viewer).get("/", http.StatusOK)
	holds(t, page, strconv.Itoa(whole.Reached(admin.Active))+" of "+strconv.Itoa(whole.Payers)+" payers can be debited.")
}
