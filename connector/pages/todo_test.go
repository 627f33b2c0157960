package pages_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/pages"
	"payersync/state"
)

func TestAFindingThatNobodyHasSaysSo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("vera", pages.Viewer)
	holds(t, v.get("/todo/likeness", http.StatusOK), "No record has this finding.")
	holds(t, v.get("/todo/nonsense", http.StatusNotFound), "There is no such finding")
}

// ticked returns the ids that a group offers to tick.
func ticked(page string) (ids []string) {
	for _, m := range regexp.MustCompile(`name="id" value="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

func TestWhatWaitsIsGroupedByReasonAndGivenUpByWhoeverMay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	viewer, operator := h.enter("vera", pages.Viewer), h.enter("olga", pages.Operator)
	page := viewer.get("/", http.StatusOK)
	holds(t, page, `<a href="/todo/email_malformed">The e-mail address is mistyped</a>`, "Your accounting staff")
	page = viewer.get("/todo/email_malformed", http.StatusOK)
	holds(t, page, "An e-mail address is not well formed.", "Correct the e-mail address in the accounting system.")
	if strings.Contains(page, "<button") && len(ticked(page)) > 0 || strings.Contains(page, "/export") {
		t.Errorf("a viewer is offered what a viewer may not do:\n%s", page)
	}
	viewer.post("/todo/email_malformed", http.StatusForbidden, "act", "give-up", "reason", "x")

	ids := ticked(operator.get("/todo/email_malformed", http.StatusOK))
	if len(ids) == 0 {
		t.Fatal("nobody can be ticked")
	}
	holds(t, operator.post("/todo/email_malformed", http.StatusUnprocessableEntity, "act", "give-up", "reason", "cash"),
		"No payer was selected")
	holds(t, operator.post("/todo/email_malformed", http.StatusUnprocessableEntity, "act", "give-up", "id", ids[0]),
		"A reason is missing")
	holds(t, operator.post("/todo/email_malformed", http.StatusUnprocessableEntity, "act", "retry", "id", ids[0]),
		"does not end this finding")
	page = operator.post("/todo/email_malformed", http.StatusOK, "act", "give-up", "id", ids[0], "reason", "pays in cash")
	holds(t, page, "Given up: 1 payer.")
	if _, source, _ := strings.Cut(ids[0], "/"); h.logged(1) != "olga give record up "+source+": pays in cash" {
		t.Errorf("the audit log says %q", h.logged(1))
	}
	holds(t, operator.post("/todo/email_malformed", http.StatusOK, "act", "give-up", "id", ids[0], "reason", "once more"),
		"Nothing was changed. 1 no longer had this finding.")
	if got := h.logged(1); strings.Contains(got, "once more") {
		t.Errorf("a form that was out of date acted: %s", got)
	}
}

func TestARefusedPayerIsTriedAgainAloneOrWithAllTheOthers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	records := must(h.ledger.Records(t.Context(), state.RecordFilter{Payers: true, Limit: 3}))(t)
	h.do(func(tx *state.Tx) error {
		for _, r := range records {
			tx.Explain(state.Payer{Connection: r.Connection, SourceID: r.SourceID}, state.TopicLink, connector.ReasonRejected,
				"Refused: the name is too long.")
		}
		return nil
	})
	operator := h.enter("olga", pages.Operator)
	page := operator.get("/todo/rejected", http.StatusOK)
	holds(t, page, "Try again all 3", "The billing service refused the payer")
	holds(t, operator.post("/todo/rejected", http.StatusOK, "act", "retry", "id", ticked(page)[0]),
		"The next run tries 1 payer again. Nothing was sent yet.")
	holds(t, operator.post("/todo/rejected", http.StatusOK, "act", "retry-all"), "The next run tries 2 payers again.",
		"1 had this decision before.")
	if got := h.logged(1); !strings.HasPrefix(got, "olga retry records 2 records: rejected") {
		t.Errorf("the audit log says %q", got)
	}
}

// header and row make books in which every e-mail address is mistyped.
const header = "AccountNumber,Name,Contact,Email,Phone,Address,City,Postcode,Second Address,Second City,Second Postcode,Status,Language\n"

func row(number, name string) string { return number + "," + name + ",,nonsense,,,,,,,,Active,\n" }

func TestAGroupIsExportedForWhoKeepsTheBooksAndRunsNoFormula(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.books([]byte(header + row("=1+1", `"=HYPERLINK(""x"")"`) + row("A2", "<script>alert(1)</script>") +
		row("A3", strings.Repeat("\u202eä", 120))))
	h.run(true)
	operator := h.enter("olga", pages.Operator)
	for _, m := range regexp.MustCompile(`href="/todo/(\w+)"`).FindAllStringSubmatch(operator.get("/", http.StatusOK),
		-1) {
		page := operator.get("/todo/"+m[1], http.StatusOK)
		file := operator.get("/todo/"+m[1]+"/export", http.StatusOK)
		if strings.Contains(page, "<script>alert") {
			t.Errorf("%s: a name is part of the page:\n%s", m[1], page)
		}
		for _, line := range strings.Split(file, "\n") {
			for _, cell := range strings.Split(line, ",") {
				if strings.HasPrefix(strings.Trim(cell, `"`), "=") {
					t.Errorf("%s: a spreadsheet would compute %q", m[1], cell)
				}
			}
		}
		if got := h.logged(1); !strings.HasPrefix(got, "olga export to do ") || !strings.HasSuffix(got, ": "+m[1]) {
			t.Errorf("the audit log says %q", got)
		}
	}
}

func TestALongGroupIsShownPageByPage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	books := header
	for i := range 78 {
		books += row(fmt.Sprintf("L%03d", i), fmt.Sprintf("Customer %d", i))
	}
	h.books([]byte(books))
	h.run(true)
	v := h.enter("olga", pages.Operator)
	page := v.get("/todo/email_malformed", http.StatusOK)
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(page)
	first := ticked(page)
	if len(first) != 25 || next == nil {
		t.Fatalf("%d rows, next %q", len(first), next)
	}
	if len(page) > 30_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	all := first
	for next != nil {
		page = v.get(html.UnescapeString(next[1]), http.StatusOK)
		holds(t, page, "First page", "78 in all")
		all = append(all, ticked(page)...)
		next = regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(page)
	}
	if len(all) != 78 || len(slices.Compact(slices.Sorted(slices.Values(all)))) != 78 {
		t.Errorf("%d rows are not all", len(all))
	}
}

func TestSomethingIsPutOffWithANoteAndShownAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	v := h.enter("olga", pages.Operator)
	const group = "/todo/email_malformed"
	id := ticked(v.get(group, http.StatusOK))[0]
	holds(t, v.post(group, http.StatusUnprocessableEntity, "act", "later", "id", id), "A reason is missing")
	page := v.post(group, http.StatusOK, "act", "later", "id", id, "reason", "she calls on Friday")
	holds(t, page, "Postponed until", "1 payer", "1 was put off.")
	if slices.Contains(ticked(page), id) {
		t.Error("it is still told")
	}
	if got := h.logged(1); got != "olga put off "+id+", email_malformed: she calls on Friday" {
		t.Errorf("the audit log says %q", got)
	}
	holds(t, v.get("/", http.StatusOK),
		`Postponed: <a href="/todo/email_malformed?later=1">1 The e-mail address is mistyped</a>`)
	page = v.get(group+"?later=1", http.StatusOK)
	holds(t, page, "put off until", "she calls on Friday", "olga", "Show again now")
	if got := ticked(page); len(got) != 1 || got[0] != id {
		t.Errorf("put off are %q", got)
	}
	holds(t, v.get("/payers/"+id, http.StatusOK), "put off until", "she calls on Friday")
	told := must(h.ledger.Attention(t.Context(), state.Filter{State: "email_malformed", PutOff: state.OnlyPutOff}))(t)
	if len(told) != 1 {
		t.Errorf("the command line would list %d", len(told))
	}
	page = v.post(group+"?later=1", http.StatusOK, "act", "now", "id", id)
	holds(t, page, "Shown again: 1 payer")
	if !slices.Contains(ticked(page), id) {
		t.Error("it is not told again")
	}
	h.enter("vera", pages.Viewer).post(group, http.StatusForbidden, "act", "later", "id", id, "reason", "no")
}
