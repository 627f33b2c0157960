package pages_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payersync/connector/pages"
)

// The accountant has the payer on the phone: half a name, the payer, the link; and the audit
// log knows of the link, and of nothing that she searched for.
func TestAPayerIsFoundByHalfANameAndItsLinkShown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("anna", pages.Operator)
	holds(t, v.get("/payers", http.StatusOK), "No payers yet")
	h.run(true)
	page := v.get("/payers", http.StatusOK)
	holds(t, page, "Crumb &amp; Crust Bakery Ltd", "On hold", "Excluded")
	if n := strings.Count(page, "<th scope=\"row\""); n != 39 {
		t.Errorf("%d of 39 are listed", n)
	}
	page = v.post("/payers", http.StatusOK, "text", "crumb crust")
	holds(t, page, "What was found", `href="/payers/quickstart/HB001"`)
	if n := strings.Count(page, "<th scope=\"row\""); n != 1 {
		t.Errorf("%d are found", n)
	}
	page = v.get("/payers/quickstart/HB001", http.StatusOK)
	holds(t, page, "Crumb &amp; Crust Bakery Ltd", "Awaiting signature", "accounts@crumbandcrust.example", "trim(Name)",
		"Show the signing link")
	if strings.Contains(page, "/sign/") {
		t.Error("the link is shown before anybody asked for it")
	}
	page = v.post("/payers/quickstart/HB001/link", http.StatusOK)
	holds(t, page, "/sign/")
	if log := h.logged(1); !strings.HasPrefix(log, "anna show signing links ") {
		t.Errorf("the audit log says %q", log)
	}
	if log := h.logged(50); strings.Contains(strings.ToLower(log), "crumb") || strings.Contains(log, "/sign/") {
		t.Errorf("the audit log holds a name or a link: %s", log)
	}
	holds(t, v.post("/payers", http.StatusOK, "text", "nobody of this name"), "No payer was found")
	v.get("/payers?s=00000000", http.StatusGone)
	v.get("/payers/quickstart/none", http.StatusNotFound)
	v.get("/payers/elsewhere/HB001", http.StatusNotFound)
}

// A payer that has to sign has one button for its signing link, in each state of the link.
func TestASigningLinkHasOneButton(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.loseLinks()
	v := h.enter("anna", pages.Operator)
	const payer, show = "/payers/quickstart/HB001", `action="/payers/quickstart/HB001/link"`
	const fetch = `action="/payers/quickstart/HB001/request"`
	page := v.get(payer, http.StatusOK)
	holds(t, page, fetch, `<button class="primary">Fetch the signing link</button>`)
	lacks(t, page, show)
	page = v.post(payer+"/link", http.StatusOK)
	holds(t, page, "payersync has no signing link", fetch)
	lacks(t, page, show)
	page = v.post(payer+"/request", http.StatusOK)
	holds(t, page, "payersync has the signing link", show, `<button class="primary">Show the signing link</button>`)
	lacks(t, page, fetch)
	page = v.post(payer+"/link", http.StatusOK)
	holds(t, page, "/sign/", fetch, "<button>Fetch the signing link again</button>")
	lacks(t, page, show)
	holds(t, v.post(payer+"/request", http.StatusOK), "payersync has the signing link", show)
}

func TestAMandateIsCancelledWithAReasonAndANewOneTakesOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	v := h.enter("anna", pages.Operator)
	const payer = "/payers/quickstart/HB001"
	holds(t, v.get(payer+"/cancel", http.StatusOK), "The payer can no longer be debited", "Back, change nothing")
	before := h.box.Writes()
	v.post(payer+"/cancel", http.StatusUnprocessableEntity)
	if h.box.Writes() != before {
		t.Error("it was cancelled without a reason")
	}
	holds(t, v.post(payer+"/cancel", http.StatusOK, "reason", "the payer called"), "The mandate is cancelled", "Cancelled",
		"Bring the mandate back…")
	if log := h.logged(1); !strings.Contains(log, "anna") || !strings.Contains(log, "the payer called") {
		t.Errorf("the audit log says %q", log)
	}
	holds(t, v.get(payer+"/request", http.StatusOK), "agree on it first")
	holds(t, v.post(payer+"/request", http.StatusUnprocessableEntity), "A reason is missing")
	holds(t, v.post(payer+"/request", http.StatusOK, "reason", "another bank"), "payersync has the signing link",
		"Awaiting signature")
	holds(t, v.get(payer+"/cancel", http.StatusOK), "The payer can no longer be debited")
}

func TestAViewerSeesNamesAndNoAddress(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	v := h.enter("vera", pages.Viewer)
	for _, path := range []string{"/payers", "/payers/quickstart/HB001"} {
		page := v.get(path, http.StatusOK)
		holds(t, page, "Crumb &amp; Crust Bakery Ltd")
		for _, hidden := range []string{"accounts@crumbandcrust", "01632 960101", "4 Harbour Street", "YO21"} {
			if strings.Contains(page, hidden) {
				t.Errorf("%s shows a viewer %q", path, hidden)
			}
		}
	}
	holds(t, v.get("/payers", http.StatusOK), "a…@crumbandcrust.example")
	v.post("/payers/quickstart/HB001/link", http.StatusForbidden)
	v.post("/payers/quickstart/HB001/cancel", http.StatusForbidden, "reason", "no")
}

// Names that people or attackers give stay names, and a search stays sealed in the ledger.
func TestHostileNamesAreShownAsNames(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	long := strings.Repeat("Ö", 255)
	h.books([]byte("AccountNumber,Name,Contact,Email,Phone,Address,City,Postcode,Second Address,Second City,Second Postcode,Status,Language\n" +
		"A/1|x,<script>alert(1)</script>,,a@x.example,,,,,,,,Active,\n" +
		"A2,\u202eevil,,b@x.example,,,,,,,,Active,\n" +
		"A3," + long + ",,c@x.example,,,,,,,,Active,\n" +
		"A4,=1+1 🎂,,d@x.example,,,,,,,,Active,\n"))
	h.run(true)
	v := h.enter("anna", pages.Admin)
	page := v.get("/payers", http.StatusOK)
	holds(t, page, "&lt;script&gt;alert(1)", long[:200], "=1&#43;1 🎂", `href="/payers/quickstart/A%2F1%7Cx"`)
	holds(t, v.get("/payers/quickstart/A%2F1%7Cx", http.StatusOK), "&lt;script&gt;alert(1)")
	v.post("/payers", http.StatusOK, "text", "wanderlust zebra")
	path, _ := h.ledger.Path()
	files := must(filepath.Glob(path + "*"))(t)
	for _, file := range files {
		if strings.Contains(string(must(os.ReadFile(file))(t)), "wanderlust") {
			t.Errorf("%s holds what was searched for", filepath.Base(file))
		}
	}
}

func TestASearchIsAmongThoseThatAreShown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	v := h.enter("anna", pages.Operator)
	holds(t, v.get("/payers?mandate=CREATED&by=name", http.StatusOK),
		`<input type="hidden" name="mandate" value="CREATED"><input type="hidden" name="by" value="name">`)
	page := v.post("/payers", http.StatusOK, "text", "bak", "mandate", "CREATED", "by", "name", "zzz", "1")
	holds(t, page, "Crumb &amp; Crust Bakery Ltd", `<option value="CREATED" selected>`)
	if strings.Contains(page, "zzz") {
		t.Error("the address takes what narrows nothing")
	}
	page = v.post("/payers", http.StatusOK, "text", "bak", "mandate", "ACTIVE")
	holds(t, page, "No payer was found.", `<option value="ACTIVE" selected>`)
	holds(t, v.post("/payers", http.StatusOK, "text", "", "mandate", "CREATED"), `<option value="CREATED" selected>`)
}

func TestAReasonHasAnEndAndNobodyActsWithoutOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	v := h.enter("anna", pages.Operator)
	long := strings.Repeat("ü", 501)
	before := h.box.Writes()
	holds(t, v.post("/payers/quickstart/HB001/cancel", http.StatusUnprocessableEntity, "reason", long),
		"at most 500 letters", "Nothing was changed")
	holds(t, v.post("/todo/likeness", http.StatusUnprocessableEntity, "act", "give-up", "id", "quickstart/HB001", "reason",
		long), "at most 500 letters")
	if h.box.Writes() != before {
		t.Error("something was sent")
	}
}

func TestPagesWithoutTheBillingServiceSayThatTheyCannotSend(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.server.Config.Handler = must(pages.New(pages.Config{Ledger: h.ledger, Connections: []string{sample}}))(t)
	v := h.enter("anna", pages.Operator)
	v.get("/payers/quickstart/HB001", http.StatusOK)
	for _, act := range []string{"link", "request", "cancel"} {
		holds(t, v.post("/payers/quickstart/HB001/"+act, http.StatusConflict, "reason", "asked"),
			"Nothing can be sent from here", "pages that can reach the billing service")
	}
}
