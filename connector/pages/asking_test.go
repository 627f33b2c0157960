package pages_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector"
	"payersync/connector/pages"
	"payersync/connector/syncer"
)

// links returns how many mandates there are in the billing service.
func (h *house) links() (n int) {
	for _, c := range h.box.Customers() {
		n += len(c.Mandates)
	}
	return n
}

func TestASelectionOfPayersIsNotAskedAndThenAskedFromTheList(t *testing.T) {
	t.Parallel()
	const all, chosen = 33, 5
	h := newHouse(t)
	must(h.syncer.Run(context.Background(), h.conn,
		syncer.RunOptions{Kind: connector.RunPlan, Trigger: "manual", Actor: "tester", Holder: "test"}))(t)
	var form []string
	for i := range chosen {
		form = append(form, "id", fmt.Sprintf("HB%03d", i+1))
	}
	v := h.enter("ada", pages.Operator)
	holds(t, v.get("/payers", http.StatusOK), `action="/payers/ask"`, `value="HB001"`)
	holds(t, v.post("/payers/ask", http.StatusOK, append(form, "act", "do_not_ask", "back", "/payers?mandate=none")...),
		"No mandate request: 5 payers. Nothing was sent.")
	h.run(true)
	if n := h.links(); n != all-chosen {
		t.Fatalf("%d links were asked for, want %d", n, all-chosen)
	}
	holds(t, v.get("/payers/quickstart/HB001", http.StatusOK), "A person decided to request no mandate from this payer.",
		"<bdi>ada</bdi> decided so", "Request a mandate", "Let the mapping decide")
	holds(t, v.get("/mandates/report?class=F", http.StatusOK), "5 payers are not asked: a person decided so.",
		"1 payer is not asked: no contact has an e-mail address.")
	holds(t, v.post("/payers/ask", http.StatusOK, append(form, "act", "ask")...), "Mandates to request: 5 payers.")
	if n := h.links(); n != all-chosen {
		t.Fatalf("the decision asked for links: %d", n)
	}
	h.run(true)
	if n := h.links(); n != all {
		t.Errorf("%d links were asked for, want %d", n, all)
	}
	holds(t, v.post("/payers/ask", http.StatusOK, append(form, "act", "ask")...), "5 had this decision before.",
		"5 have a mandate already")
	holds(t, v.get("/audit", http.StatusOK), "do not ask payer for mandate", "quickstart/HB005")
}

func TestAPayersPageAsksOnePayerAndTakesThatBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	before := h.links()
	v := h.enter("ada", pages.Operator)
	const payer = "/payers/quickstart/HB020"
	holds(t, v.get(payer, http.StatusOK), "No contact has an e-mail address, so payersync requests no mandate.",
		"Request a mandate")
	holds(t, v.post(payer+"/ask", http.StatusOK), "Mandates to request: this payer.", "Do not request",
		"Let the mapping decide")
	holds(t, v.post(payer+"/ask-rule", http.StatusOK), "The mapping decides about this payer again.")
	h.run(true)
	if n := h.links(); n != before {
		t.Fatalf("a decision that was taken back asked for %d links", n-before)
	}
	v.post(payer+"/ask", http.StatusOK)
	h.run(true)
	if n := h.links(); n != before+1 {
		t.Errorf("%d links were asked for, want 1", n-before)
	}
	for _, act := range []string{"/ask", "/ask-not"} { // it has a mandate by now
		v.post(payer+act, http.StatusConflict)
	}
}

func TestTickedPayersAreNotAskedInABrowser(t *testing.T) {
	for _, l := range ways() {
		t.Run(l.String(), func(t *testing.T) {
			h := newHouse(t)
			must(h.syncer.Run(context.Background(), h.conn,
				syncer.RunOptions{Kind: connector.RunPlan, Trigger: "manual", Actor: "tester", Holder: "test"}))(t)
			b := h.browse(l)
			b.name = "asking-" + l.String()
			h.signIn(b, "olaf", pages.Operator)
			b.open("/payers")
			b.do(chromedp.Click("input[value=HB001]"), chromedp.Click("input[value=HB002]"))
			b.press("button[value=do_not_ask]")
			b.stop("No mandate request: 2 payers. Nothing was sent.")
			h.run(true)
			b.open("/payers/quickstart/HB002")
			b.stop("A person decided to request no mandate from this payer.", "Let the mapping decide")
			if n := h.links(); n != 31 {
				t.Errorf("%d links were asked for, want 31 of 33", n)
			}
		})
	}
}
