package pages_test

import (
	"context"
	"encoding/csv"
	"io/fs"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"payersync/configs"
	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/connector/readiness"
	"payersync/connector/sandbox"
)

// linkCalls is where links are asked for.
const linkCalls = "/api/customers/*/directdebitmandates"

// loseLinks makes a run in which the answers with the signing links get lost.
func (h *house) loseLinks() {
	h.t.Helper()
	h.box.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut, Path: linkCalls})
	h.run(true)
	h.box.ClearFaults()
	h.sweep()
}

// sweep reads everything in the billing service.
func (h *house) sweep() {
	h.t.Helper()
	_ = must(h.reader.Sweep(context.Background()))(h.t)
	h.letters.Renew()
}

// sheetOf reads a file that was sent.
func sheetOf(t testing.TB, file string, separator rune) [][]string {
	t.Helper()
	bare, marked := strings.CutPrefix(file, "\ufeff")
	if !marked {
		t.Errorf("the file begins with %.20q, and not with the mark of UTF-8", file)
	}
	in := csv.NewReader(strings.NewReader(bare))
	in.Comma = separator
	return must(in.ReadAll())(t)
}

// ticks are the mandates that can be ticked on a page.
func ticks(page string) (ids []string) {
	for _, m := range regexp.MustCompile(`name="mandate" value="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// The credit controller sees who has to sign, writes the list for mail merge, and says what
// was sent; a viewer sees no address and gets no file.
func TestWhoHasToSignIsListedHandedOverAndNotedAsSent(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	viewer, anna := h.enter("vera", pages.Viewer), h.enter("anna", pages.Operator)
	holds(t, viewer.get("/mandates", http.StatusOK), "No mandate waits for a signature")
	h.run(true)
	page := h.settled(viewer, "/mandates", "33 payers have to sign")
	holds(t, page, "a…@<wbr>crumbandcrust.example", `href="/payers/quickstart/HB001"`, "Not invited",
		"Fewer than 10 mandates were signed")
	lacks(t, page, "accounts@", `class="tick"`, "Hand-over file", "/sign/", "01632")
	page = anna.get("/mandates", http.StatusOK)
	holds(t, page, "accounts@<wbr>crumbandcrust.example", "=Equal Parts Bakehouse", "Note as sent", "Hand-over file")
	lacks(t, page, "/sign/")

	anna.post("/mandates/handover", http.StatusUnprocessableEntity, "who", "all")
	anna.post("/mandates/handover", http.StatusUnprocessableEntity, "who", "some", "reason", "mail merge")
	viewer.post("/mandates/handover", http.StatusForbidden, "who", "all", "reason", "mail merge")
	if log := h.logged(50); strings.Contains(log, "write hand-over file") {
		t.Errorf("the audit log has a file that nobody got: %s", log)
	}
	rows := sheetOf(t, anna.post("/mandates/handover", http.StatusOK, "who", "unsent", "separator", "semicolon", "reason",
		"mail merge"), ';')
	if len(rows) != 34 || strings.Join(rows[0], " ") != strings.Join(admin.HandoverHeader, " ") ||
		rows[1][0] != "HB001" || !strings.Contains(rows[1][7], "/sign/") {
		t.Errorf("%d rows: %q", len(rows), rows[:2])
	}
	for _, r := range rows {
		if strings.Contains(r[1], "Equal Parts") && r[1] != "'=Equal Parts Bakehouse" {
			t.Errorf("%q would be a formula", r[1])
		}
	}
	if log := h.logged(1); log != "anna write hand-over file 33 mandates: not invited: mail merge" {
		t.Errorf("the audit log says %q", log)
	}

	ids := ticks(page)
	today := admin.DayOf(h.ledger.Now())
	anna.post("/mandates/sent", http.StatusUnprocessableEntity, "on", today)
	anna.post("/mandates/sent", http.StatusUnprocessableEntity, "mandate", ids[0], "on", "yesterday")
	viewer.post("/mandates/sent", http.StatusForbidden, "mandate", ids[0], "on", today)
	page = anna.post("/mandates/sent", http.StatusOK, "mandate", ids[0], "mandate", ids[1], "mandate", "m-none", "on",
		today, "reason", "by post", "show", "unsent")
	holds(t, page, "2 links noted as sent on", "Cannot note this row: no payer has the mandate m-none now",
		`aria-current="true">Not invited yet`)
	if got := ticks(page); len(got) != 25 { // of 31, on the first page
		t.Errorf("%d are not sent yet, want 25", len(got))
	}
	if log := h.logged(1); log != "anna note sent links 2 mandates: by post" {
		t.Errorf("the audit log says %q", log)
	}
	page = h.settled(viewer, "/mandates", "Sent, not signed")
	if n := strings.Count(page, "Sent, not signed"); n != 2 {
		t.Errorf("%d are sent, want 2", n)
	}
	viewer.get("/mandates?show=everything", http.StatusNotFound)
	holds(t, viewer.get("/mandates?show=30", http.StatusOK), "This part of the list is empty")
}

// settled returns a page once it holds a text: what is counted may lag behind by a moment.
func (h *house) settled(v *visitor, path, text string) (page string) {
	h.t.Helper()
	h.standings.Renew()
	for range 100 {
		if page = v.get(path, http.StatusOK); strings.Contains(page, text) {
			return page
		}
		h.standings.Renew()
	}
	h.t.Fatalf("%s never holds %q:\n%s", path, text, page)
	return ""
}

func TestSignaturesAreShownAsAChartAndAsNumbers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	n := 0
	for _, c := range h.box.Customers() {
		for _, m := range c.Mandates {
			if n++; n <= 12 {
				if err := h.box.Sign(m.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	h.sweep()
	page := h.settled(h.enter("vera", pages.Viewer), "/mandates", "21 payers have to sign")
	holds(t, page, "Half of 12 signatures came within a day, nine of ten within a day.", "<title>Days to sign</title>",
		"<desc>", `<th scope="row">2–3</th>`, `<th scope="row">0</th><td class="n">12</td>`)
	lacks(t, page, "style=")
}

// All that are lost are fetched with one button, behind the page; nobody gets a second mandate.
func TestLostLinksAreFetchedAgainInBulk(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	viewer, anna := h.enter("vera", pages.Viewer), h.enter("anna", pages.Operator)
	holds(t, anna.get("/mandates/links", http.StatusOK), "No signing link is lost")
	h.loseLinks()
	page := h.settled(anna, "/mandates?show=lost", "Signing link lost")
	holds(t, page, "lost signing links", "payersync has no signing link.", "Fetch the signing link")
	page = anna.get("/mandates/links", http.StatusOK)
	holds(t, page, "33 signing links are lost", "creates no second one", "Nothing is sent to payers")
	shown := regexp.MustCompile(`name="shown" value="([0-9a-f]+)"`).FindStringSubmatch(page)[1]
	viewer.get("/mandates/links", http.StatusForbidden)
	viewer.post("/mandates/links", http.StatusForbidden, "shown", shown)
	before := h.box.Writes()
	holds(t, anna.post("/mandates/links", http.StatusConflict, "shown", "0123456789abcdef"),
		"The list changed while you were reading it", "No signing link was requested")
	if h.box.Writes() != before {
		t.Error("links were asked for that nobody was shown")
	}
	holds(t, anna.post("/mandates/links", http.StatusOK, "shown", shown), "Fetching 33 links.")
	for h.fetcher.Lot().AtWork() {
		page = anna.get("/mandates/links", http.StatusOK)
		if strings.Contains(page, "Fetching signing links") {
			holds(t, page, `aria-busy="true"`, "Show how far it is", "<progress")
		}
	}
	page = anna.get("/mandates/links", http.StatusOK)
	holds(t, page, "33 of 33 signing links fetched, 0 failed.", `aria-busy="false"`, "No signing link is lost")
	if log := h.logged(50); !strings.Contains(log, "anna fetch lost signing links 33 payers") {
		t.Errorf("the audit log says %q", log)
	}
	for _, c := range h.box.Customers() {
		if len(c.Mandates) > 1 {
			t.Errorf("%s has %d mandates", c.ID, len(c.Mandates))
		}
	}
	holds(t, anna.post("/mandates/links", http.StatusOK, "shown", shown),
		"No signing link is lost, so payersync requested none")
}

// The report covers every record, and its totals equal the number of records.
func TestTheReportSumsUpToTheBooks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	viewer, anna := h.enter("vera", pages.Viewer), h.enter("anna", pages.Operator)
	holds(t, viewer.get("/mandates/report", http.StatusOK), "The accounting system was not read yet")
	h.run(true)
	page := h.settled(viewer, "/mandates/report", "0 of 38 payers can be debited")
	cells := regexp.MustCompile(`<td class="n" data-label="Records">([0-9]+)</td>`).FindAllStringSubmatch(page, -1)
	sum, last := 0, 0
	for _, c := range cells {
		last = must(strconv.Atoi(c[1]))(t)
		sum += last
	}
	if last != 39 || sum != 2*39 {
		t.Errorf("the totals add up to %d, and say %d", sum-last, last)
	}
	lacks(t, page, "Export", "@crumb", "style=")
	page = viewer.get("/mandates/report?class=D&step=not_sent", http.StatusOK)
	holds(t, page, "Awaiting signature: not invited: 33", "Crumb &amp; Crust Bakery Ltd", "Send the signing link.")
	holds(t, viewer.get("/mandates/report?class=E", http.StatusOK), "No record is in this state.")
	for _, q := range []string{"class=Z", "class=A&step=not_sent", "step=not_sent", "class=%3Cscript%3E"} {
		viewer.get("/mandates/report?"+q, http.StatusNotFound)
	}
	viewer.post("/mandates/report", http.StatusForbidden)
	rows := sheetOf(t, anna.post("/mandates/report", http.StatusOK), ',')
	if len(rows) != 40 || strings.Join(rows[0], " ") != strings.Join(admin.ReportHeader, " ") {
		t.Errorf("%d rows, %q", len(rows), rows[0])
	}
	if log := h.logged(1); log != "anna export report 39 records: all" {
		t.Errorf("the audit log says %q", log)
	}
	rows = sheetOf(t, anna.post("/mandates/report", http.StatusOK, "class", string(readiness.Awaiting), "separator",
		"semicolon"), ';')
	if len(rows) != 34 {
		t.Errorf("%d rows of those who wait for a signature, want 33 and the head", len(rows))
	}
	anna.post("/mandates/report", http.StatusUnprocessableEntity, "class", "Z")
}

// Names of others are texts on every page, however they are written.
func TestNamesOnTheWorkListAreTextsAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	books := strings.Split(string(must(fs.ReadFile(configs.FS, "quickstart/customers.csv"))(t)), "\n")
	books[1] = strings.Replace(books[1], "Crumb & Crust Bakery Ltd", "<script>alert(1)</script>", 1)
	books[2] = strings.Replace(books[2], "The Proving Drawer", "\u202eevil", 1)
	books[3] = strings.Replace(books[3], "Bäckerei Grün", strings.Repeat("x", 200), 1)
	h.books([]byte(strings.Join(books, "\n")))
	h.run(true)
	anna := h.enter("anna", pages.Operator)
	for _, path := range []string{"/mandates", "/mandates/report"} {
		page := h.settled(anna, path, "&lt;script&gt;alert(1)&lt;/script&gt;")
		lacks(t, page, "<script>alert")
		holds(t, page, "<bdi>\ufffdevil</bdi>", strings.Repeat("x", 200))
	}
}

// Where another request replaces a mandate, nobody replaces hundreds with one button.
func TestLinksThatReplaceMandatesAreNotFetchedInBulk(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.loseLinks()
	h.acts.WhenCreated = "new"
	anna := h.enter("anna", pages.Operator)
	page := anna.get("/mandates/links", http.StatusOK)
	holds(t, page, "33 signing links are lost", "decide on each payer")
	lacks(t, page, "Fetch these")
	before := h.box.Writes()
	holds(t, anna.post("/mandates/links", http.StatusConflict, "shown", ""), "decide on each payer")
	if h.box.Writes() != before {
		t.Error("links were asked for")
	}
	h.acts.WhenCreated = "unknown"
	holds(t, anna.get("/mandates/links", http.StatusOK), "It may return the same mandate")
}

// With a script the page follows the fetching by itself, until it is done.
func TestHowFarTheLinksAreIsFollowedByScript(t *testing.T) {
	h := newHouse(t)
	b := h.browse(look{width: 1280})
	h.box.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut, Path: linkCalls, Count: 6})
	h.run(true)
	h.box.ClearFaults()
	h.sweep()
	h.box.Inject(sandbox.Fault{Kind: sandbox.Slow, Method: http.MethodPut, Path: linkCalls, Delay: 500 * time.Millisecond})
	h.signIn(b, "anna", pages.Operator)
	b.open("/mandates/links")
	b.do(chromedp.Click("button.primary"), chromedp.WaitVisible(`[aria-busy="true"]`))
	b.sound("the progress")
	b.picture("_mandates_links-progress")
	b.do(chromedp.WaitVisible(`[aria-busy="false"]`))
	if text := ask(b, chromedp.Evaluate[string](`document.getElementById("lot").textContent`)); !strings.Contains(text,
		"6 of 6 signing links fetched, 0 failed.") {
		t.Errorf("in the end it says %q", text)
	}
}

func TestAPrintedReportHasAllRowsUpToALimitAndSaysWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.crowd(520)
	anna := h.enter("anna", pages.Operator)
	page := h.settled(anna, "/mandates/report", "payers can be debited")
	holds(t, page, `href="/mandates/report?print=1"`)
	page = anna.get("/mandates/report?stage=books&print=1", http.StatusOK)
	holds(t, page, "These are the first 500 of 520: the export above has all of them.", `href="/mandates/report?stage=books">Back`)
	if n := strings.Count(page, `<th scope="row"><a href="/payers/`); n != 500 {
		t.Errorf("the paper has %d rows", n)
	}
	holds(t, h.enter("vera", pages.Viewer).get("/mandates/report?stage=books&print=1", http.StatusOK), "exported by an operator")
	page = anna.get("/mandates/report?class=D&print=1", http.StatusOK)
	lacks(t, page, "These are the first", `rel="next"`)
}
