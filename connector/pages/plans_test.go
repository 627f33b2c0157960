package pages_test

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"payersync/configs"
	"payersync/connector/pages"
	"payersync/state"
)

// fields returns the values of the fields with a name, in the forms of a page.
func fields(page, name string) (out []string) {
	for _, m := range regexp.MustCompile(`name="`+name+`" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(out, m[1]) {
			out = append(out, m[1])
		}
	}
	return out
}

// customers returns the names of the service's customers, in order.
func (h *house) customers() (out []string) {
	h.t.Helper()
	for page, err := range h.service.Customers(context.Background()) {
		if err != nil {
			h.t.Fatal(err)
		}
		for _, c := range page {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out
}

// sampleBooks are the shipped sample books with some of their text replaced.
func sampleBooks(t testing.TB, oldNew ...string) []byte {
	t.Helper()
	text := must(fs.ReadFile(configs.FS, "quickstart/customers.csv"))(t)
	for i := 0; i+1 < len(oldNew); i += 2 {
		if !bytes.Contains(text, []byte(oldNew[i])) {
			t.Fatalf("the sample books lack %q", oldNew[i])
		}
		text = bytes.ReplaceAll(text, []byte(oldNew[i]), []byte(oldNew[i+1]))
	}
	return text
}

// lacks fails when a page holds one of these.
func lacks(t testing.TB, page string, unwanted ...string) {
	t.Helper()
	for _, text := range unwanted {
		if strings.Contains(page, text) {
			t.Errorf("the page holds %q:\n%s", text, page)
		}
	}
}

func TestAPlanIsApprovedExactlyAsItWasShown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	viewer, operator := h.enter("vera", pages.Viewer), h.enter("olaf", pages.Operator)
	holds(t, viewer.get("/plans", http.StatusOK), "No plan waits for you")
	viewer.get("/plans/1", http.StatusNotFound)
	viewer.get("/plans/none", http.StatusNotFound)
	h.run(false)
	list := viewer.get("/plans", http.StatusOK)
	holds(t, list, "1 plan waits for a person", `href="/plans/1"`, "would be created (the limit is 0)")

	looked := viewer.get("/plans/1", http.StatusOK)
	holds(t, looked, "Waits for approval", "Nothing has been sent.", "<strong>Why:</strong>",
		"Crumb &amp; Crust Bakery Ltd", "a…@crumbandcrust.example", "[not shown]", "Approving it takes another role")
	lacks(t, looked, "accounts@crumbandcrust.example", "01632", "4 Harbour Street", "<button form", `name="do"`)
	viewer.post("/plans/1", http.StatusForbidden, "do", "all", "reads", "guessed")

	page := operator.get("/plans/1", http.StatusOK)
	holds(t, page, "accounts@crumbandcrust.example", "01632 960101", "4 Harbour Street", "Approve all")
	ids, reads := fields(page, "change"), fields(page, "reads")
	if len(reads) != 1 || len(ids) < 10 {
		t.Fatalf("the page has %d changes and reads %q", len(ids), reads)
	}
	holds(t, operator.post("/plans/1", http.StatusUnprocessableEntity, "do", "some", "reads", reads[0]),
		"Nothing is selected")
	holds(t, operator.post("/plans/1", http.StatusBadRequest, "reads", reads[0]), "Nothing was changed")

	first, second := h.change(ids[0]), h.change(ids[1])
	done := operator.post("/plans/1", http.StatusOK, "do", "some", "reads", reads[0], "change", ids[0], "change", ids[1])
	holds(t, done, "2 changes of plan 1 approved. Nothing was sent yet", "Run quickstart now")
	if n := h.box.Writes(); n != 0 {
		t.Fatalf("the page sent %d requests", n)
	}
	h.run(false)
	if want := sorted(first.Wanted.Name, second.Wanted.Name); !slices.Equal(h.customers(), want) {
		t.Errorf("the next run made %q, want %q", h.customers(), want)
	}
	if !h.audited("2 selected changes: " + ids[0] + " " + ids[1]) {
		t.Error("the audit log does not say what was approved")
	}
}

func TestAPlanThatChangedWhileItWasReadIsNotApproved(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*house, *visitor){
		"the books changed": func(h *house, _ *visitor) {
			h.books(sampleBooks(h.t, "Crumb & Crust Bakery Ltd", "Crumb & Sons"))
			h.run(false)
		},
		"somebody approved a part": func(h *house, other *visitor) {
			page := other.get("/plans/1", http.StatusOK)
			other.post("/plans/1", http.StatusOK, "do", "some", "reads", fields(page, "reads")[0], "change",
				fields(page, "change")[0])
		},
		"somebody rejected it": func(h *house, other *visitor) {
			other.post("/plans/1", http.StatusOK, "do", "reject", "reason", "wrong export", "reads",
				fields(other.get("/plans/1", http.StatusOK), "reads")[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.run(false)
			reader, other := h.enter("olaf", pages.Operator), h.enter("oda", pages.Operator)
			page := reader.get("/plans/1", http.StatusOK)
			meanwhile(h, other)
			before := h.approved()
			for _, do := range []string{"all", "some", "reject"} {
				stale := reader.post("/plans/1", http.StatusConflict, "do", do, "reason", "late", "reads", fields(page, "reads")[0],
					"seen", fields(page, "seen")[0], "change", fields(page, "change")[0])
				if name == "somebody rejected it" {
					holds(t, stale, "Plan 1 was rejected by oda on ", "Nothing else was changed.")
					continue
				}
				holds(t, stale, "The plan changed while you were reading it.", "Nothing was approved or rejected.")
				if name == "the books changed" {
					holds(t, stale, "Crumb &amp; Sons", `</span> New</span>`, "Plan 2 of", `group=create">First page`)
				}
			}
			if after := h.approved(); after != before {
				t.Errorf("%d changes are approved, and %d were before", after, before)
			}
		})
	}
}

func TestAPlanIsApprovedWholeOrRejectedForAReason(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(false)
	v := h.enter("olaf", pages.Operator)
	reads := func(plan string) string { return fields(v.get(plan, http.StatusOK), "reads")[0] }
	holds(t, v.post("/plans/1", http.StatusUnprocessableEntity, "do", "reject", "reads", reads("/plans/1"), "reason", " "),
		"Say why")
	holds(t, v.post("/plans/1", http.StatusOK, "do", "reject", "reads", reads("/plans/1"), "reason",
		"<b>wrong</b> export"), "Plan 1 is rejected. payersync sends none of its changes.", "&lt;b&gt;wrong&lt;/b&gt; export")
	holds(t, v.get("/plans", http.StatusOK), "No plan waits for you", "Rejected", "olaf")
	holds(t, v.post("/plans/1", http.StatusOK, "do", "all", "reads", reads("/plans/1")), "Plan 1 is approved, with ",
		" changes. Nothing was sent yet")
	if n := h.box.Writes(); n != 0 {
		t.Fatalf("the page sent %d requests", n)
	}
	h.run(false)
	if n := len(h.customers()); n < 30 {
		t.Errorf("the next run made %d customers", n)
	}
	sent := v.get("/plans/1", http.StatusOK)
	holds(t, sent, "was sent", "Outcome of its changes", "67 sent.", "32 of 67", `href="/runs/2">run 2</a>`,
		"Crumb &amp; Crust Bakery Ltd")
	lacks(t, sent, "–</td>")
	shown := 0
	for more := "/plans/1"; more != ""; {
		page := v.get(more, http.StatusOK)
		shown += strings.Count(page, ">new customer</span>") + 2*strings.Count(page, ">new customer, signing link</span>")
		next := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(page)
		if more = ""; next != nil {
			more = next[1]
		}
	}
	if shown != 67 {
		t.Errorf("the pages of the plan show %d of its 67 changes", shown)
	}
	holds(t, v.post("/plans/1", http.StatusConflict, "do", "all", "reads", h.reads(1)), "The plan does not wait")
}

// The second of two people to approve a plan, or a second click, learns who approved it first, and not that
// it changed.
func TestWhoComesSecondToAPlanIsToldWhoWasFaster(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(false)
	anna, bo := h.enter("anna", pages.Operator), h.enter("bo", pages.Operator)
	reads := fields(bo.get("/plans/1", http.StatusOK), "reads")[0]
	anna.post("/plans/1", http.StatusOK, "do", "all", "reads", reads)
	for _, v := range []*visitor{bo, anna} {
		page := v.post("/plans/1", http.StatusConflict, "do", "all", "reads", reads)
		holds(t, page, "Plan 1 was approved by anna on ", "Nothing else was changed.", `href="/plans"`)
		lacks(t, page, "changed while you were reading")
	}
	holds(t, bo.get("/plans/1", http.StatusOK), "It is approved by <bdi>anna</bdi>.")
	holds(t, bo.get("/", http.StatusOK), "Approved, not sent yet")
	reads = fields(bo.get("/plans/1", http.StatusOK), "reads")[0]
	anna.post("/plans/1", http.StatusOK, "do", "reject", "reads", reads, "reason", "a wrong export")
	holds(t, bo.post("/plans/1", http.StatusConflict, "do", "reject", "reads", reads, "reason", "the same"),
		"Plan 1 was rejected by anna on ")
	overview := bo.get("/", http.StatusOK)
	holds(t, overview, "Rejected")
	lacks(t, overview, "Waits for approval")
}

func TestWhatAPlanEmptiesOrRenamesStandsFirst(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.books(sampleBooks(t, "Crumb & Crust Bakery Ltd", `<script>alert(1)</script>`, "zoe@cafe-eclair.example",
		"z@cafe-eclair.example", "88 Kirkgate", "89 Kirkgate", "Rise and Shine Bread Club",
		"=1+1 \u202e"+strings.Repeat("x", 200)))
	h.run(false)
	page := h.enter("olaf", pages.Operator).get("/plans/2", http.StatusOK)
	holds(t, page, "Look at these first: 3", "Customers to update: 1", "name (2)", "e-mail (1)", "address (1)",
		"&lt;script&gt;alert(1)&lt;/script&gt;", "zoe@cafe-eclair.example", "89 Kirkgate")
	if first, then := strings.Index(page, "Look at these first"),
		strings.Index(page, "Customers to update"); first > then {
		t.Error("what a person should look at first stands behind the rest")
	}
	lacks(t, page, "<script>alert")
}

func TestALargePlanIsShownPageByPageAndWhole(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var books strings.Builder
	books.WriteString(strings.SplitN(string(sampleBooks(t)), "\n", 2)[0] + "\n")
	for i := range 120 {
		n := strconv.Itoa(1000 + i)
		books.WriteString("N" + n + ",Bakery " + n + ",Ada,b" + n +
			"@bakery.example,,1 High Street,Leeds,LS1 1AA,,,,Active,\n")
	}
	h.books([]byte(books.String()))
	h.run(false)
	v := h.enter("olaf", pages.Operator)
	page := v.get("/plans/1", http.StatusOK)
	holds(t, page, "New customers: 120", "15 of 120", `Approve all 240<span class="roomy"> changes</span>…`)
	met := map[string]bool{}
	for at := "/plans/1?group=create"; at != ""; {
		page := v.get(at, http.StatusOK)
		for _, id := range fields(page, "change") {
			met[id] = true
		}
		at = ""
		if next := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(page); next != nil {
			at = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	if len(met) != 120 {
		t.Errorf("the pages show %d changes, want 120", len(met))
	}
}

func TestAPlanThatWouldLosePayersNamesThemAndGoesTogether(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.books(sampleBooks(t, ",Active,", ",Closed,"))
	h.run(false)
	v := h.enter("olaf", pages.Operator)
	page := v.get("/plans/2", http.StatusOK)
	holds(t, page, "would be lost", "payersync sends nothing before somebody approves it.",
		"The mapping excludes the record, or it was removed from the accounting system.", "Crumb &amp; Crust Bakery Ltd",
		"Let these 33 payers go")
	lacks(t, page, `value="some"`, "Reject the plan")
	holds(t, v.post("/plans/2", http.StatusConflict, "do", "some", "change", "1", "reads", fields(page, "reads")[0]),
		"need one approval")
	holds(t, v.post("/plans/2", http.StatusOK, "do", "all", "reads", fields(page, "reads")[0]), "Plan 2 is approved.")
}

func TestWhereAdminsApproveAnOperatorOnlyLooks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(false)
	strict := httptest.NewServer(must(pages.New(pages.Config{Ledger: h.ledger, Connections: []string{sample},
		Approvers: pages.Admin}))(t))
	t.Cleanup(strict.Close)
	operator, admin := h.enter("olaf", pages.Operator), h.enter("ada", pages.Admin)
	operator.base, admin.base = strict.URL, strict.URL
	page := operator.get("/plans/1", http.StatusOK)
	holds(t, page, "Approving it takes another role")
	lacks(t, page, `name="do"`)
	holds(t, operator.post("/plans/1", http.StatusForbidden, "do", "all", "reads", h.reads(1)), "It needs the role admin.")
	if n := h.approved(); n != 0 {
		t.Errorf("%d changes are approved", n)
	}
	holds(t, admin.post("/plans/1", http.StatusOK, "do", "all", "reads", h.reads(1)), "Plan 1 is approved, with ")
}

// change returns a pending change by its id.
func (h *house) change(id string) state.Change {
	h.t.Helper()
	for _, c := range must(h.ledger.Changes(context.Background(), sample, state.LaneCustomer, true, 0, 1000))(h.t) {
		if strconv.FormatInt(c.ID, 10) == id {
			return c
		}
	}
	h.t.Fatalf("no change %s waits", id)
	return state.Change{}
}

// approved returns how many changes may be sent.
func (h *house) approved() (n int) {
	h.t.Helper()
	for _, lane := range []string{state.LaneCustomer, state.LaneMandate} {
		n += must(h.ledger.ReleasedCount(context.Background(), sample, lane))(h.t)
	}
	return n
}

// reads returns what a plan reads like now.
func (h *house) reads(plan int64) string {
	h.t.Helper()
	p := must(h.ledger.FindPlan(context.Background(), strconv.FormatInt(plan, 10)))(h.t)
	return must(h.ledger.ShareOf(context.Background(), p))(h.t).Reads
}

func sorted(names ...string) []string {
	slices.Sort(names)
	return names
}

// audited reports whether the ledger's files hold a text, as they do an act of the audit log.
func (h *house) audited(text string) bool {
	h.t.Helper()
	path, _ := h.ledger.Path()
	for _, file := range []string{path, path + "-wal"} {
		if bytes.Contains(must(os.ReadFile(file))(h.t), []byte(text)) {
			return true
		}
	}
	return false
}

func TestASentPlanShowsEachOfItsChangesBeforeAndAfter(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.books(sampleBooks(t, "Crumb & Crust Bakery Ltd", "Crumb & Sons", "zoe@cafe-eclair.example", "z@cafe-eclair.example",
		"88 Kirkgate", "89 Kirkgate"))
	h.run(true)
	operator, viewer := h.enter("olaf", pages.Operator), h.enter("vera", pages.Viewer)
	for path, says := range map[string]string{"/plans/2": "Crumb &amp; Crust Bakery Ltd", "/payers/" + sample +
		"/HB001": "Crumb &amp; Crust Bakery Ltd"} {
		holds(t, operator.get(path, http.StatusOK), says, "Crumb &amp; Sons")
		holds(t, viewer.get(path, http.StatusOK), says, "Crumb &amp; Sons")
	}
	full := operator.get("/plans/2", http.StatusOK)
	holds(t, full, "Outcome of its changes", "3 sent.", "zoe@cafe-eclair.example", "z@cafe-eclair.example", "88 Kirkgate",
		"89 Kirkgate", `href="/runs/2"`)
	looked := viewer.get("/plans/2", http.StatusOK)
	holds(t, looked, "z…@cafe-eclair.example", "[not shown]")
	lacks(t, looked, "zoe@cafe-eclair.example", "89 Kirkgate")
	holds(t, operator.get("/plans", http.StatusOK), `<a href="/runs/2">run 2</a>`)
	holds(t, operator.get("/runs/2", http.StatusOK), `changes of <a href="/plans/2">plan 2</a>`)
	holds(t, operator.get("/payers/"+sample+"/HB003", http.StatusOK), "88 Kirkgate</bdi> → <bdi>89 Kirkgate")
	lacks(t, viewer.get("/payers/"+sample+"/HB003", http.StatusOK), "Kirkgate")
}

// A request for a signing link has its own outcome in the row of its payer if it ended otherwise than the change before.
func TestASentPlanShowsASigningLinkInTheRowOfItsPayer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	v := h.enter("olaf", pages.Operator)
	page := v.get("/plans/1", http.StatusOK)
	holds(t, page, "new customer, signing link</span>")
	lacks(t, page, "signing link: ")
	h = newHouse(t)
	h.loseLinks()
	page = h.enter("olaf", pages.Operator).get("/plans/1", http.StatusOK)
	holds(t, page, `new customer</span>`, `<br>signing link: <span class="chip`)
	lacks(t, page, "new customer, signing link")
}

// Each signing link of a waiting plan can be left out, and stands in a list of names.
func TestEachSigningLinkOfAPlanCanBeLeftOut(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(false)
	v := h.enter("olaf", pages.Operator)
	page := v.get("/plans/1?group=link", http.StatusOK)
	holds(t, page, "Signing links to request: 33", "Send the change of HB001: request a signing link")
	lacks(t, page, "<table")
	_, list, _ := strings.Cut(page, `<ul class="names">`)
	if n := strings.Count(list, `<label class="tick"><input type="checkbox" form="judge" name="change"`); n != strings.Count(list, "<li>") || n != 20 {
		t.Errorf("%d of the 20 signing links on the page have a checkbox", n)
	}
	id := fields(list, "change")[0]
	holds(t, v.post("/plans/1", http.StatusOK, "do", "some", "reads", fields(page, "reads")[0], "change", id),
		"1 change of plan 1 approved")
	holds(t, v.get("/plans/1?group=link", http.StatusOK), "Approved</span>")
}
