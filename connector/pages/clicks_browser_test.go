package pages_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
)

var update = flag.Bool("update", false, "write testdata/clicks.golden anew")

// screen is the height of a phone, in pixels.
const screen = 844

// counted is a journey from the overview to its goal, with the clicks that it may take. Without script, a key that the
// page offers is a click.
type counted struct {
	name  string
	house func(testing.TB) *house
	walk  func(*house, *tab)
}

// counted are the journeys that people go most often.
var countedJourneys = []counted{
	{"who cannot be debited, and why", withMandates, whoCannotBeDebited},
	{"approve a plan of 400 changes", with400Changes, approveALargePlan},
	{"match 300 existing customers", with300Matches, matchManyCustomers},
	{"settle a renumbered payer", withRenumbered, settleARenumberedPayer},
	{"move the payers to new books", withMovedBooks, moveToNewBooks},
	{"send letters", withLetters, sendLetters},
	{"find a payer", withMandates, findAPayer},
	{"what a plan changed", withMandates, whatAPlanChanged},
	{"monthly report", withMandates, monthlyReport},
}

// Each journey works at both widths, with script and without, and takes the clicks that testdata/clicks.golden lists.
func TestEachJourneyTakesItsClicksInABrowser(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "%-32s %5s  %-6s %6s %5s\n", "journey", "width", "script", "clicks", "keys")
	for _, j := range countedJourneys {
		for _, l := range []look{{width: 1280}, {width: 1280, noScript: true}, {width: 390}, {width: 390, noScript: true}} {
			t.Run(j.name+"/"+l.String(), func(t *testing.T) {
				h := j.house(t)
				b := h.browse(l)
				b.name = strings.ReplaceAll(j.name, " ", "-") + "-" + l.String()
				h.signIn(b, "anna", pages.Operator)
				b.open("/")
				b.clicks, b.keys = 0, 0
				j.walk(h, b)
				fmt.Fprintf(&table, "%-32s %5d  %-6s %6d %5d\n", j.name, l.width,
					map[bool]string{false: "yes", true: "no"}[l.noScript], b.clicks, b.keys)
			})
		}
	}
	if t.Failed() || strings.Count(table.String(), "\n") <= 4*len(countedJourneys) { // some were left out by -run
		return
	}
	golden := filepath.Join("testdata", "clicks.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(table.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want := string(must(os.ReadFile(golden))(t)); want != table.String() {
		t.Errorf("the clicks are\n%s\nand testdata/clicks.golden has\n%s", &table, want)
	}
}

// most fails where a journey took more clicks.
func (b *tab) most(clicks int) {
	b.t.Helper()
	if b.clicks > clicks {
		b.t.Errorf("it took %d clicks, at most %d are meant", b.clicks, clicks)
	}
}

// tick clicks on something that opens no page.
func (b *tab) tick(selector string) {
	b.t.Helper()
	b.clicks++
	b.do(chromedp.Click(selector))
}

// menu opens a page of the menu, which a phone folds away.
func (b *tab) menu(path string) {
	b.t.Helper()
	if b.width < 960 {
		b.tick("label.menu")
	}
	b.press(`header nav a[href="` + path + `"]`)
}

// key presses a key that a page offers, or its button without script.
func (b *tab) key(key string) {
	b.t.Helper()
	if b.noScript {
		b.press("[data-key='" + key + "']")
		return
	}
	b.keys++
	if _, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent(key)); err != nil {
		b.t.Fatalf("press the key %s on %s: %v", key, b.path(), err)
	}
}

func withMandates(t testing.TB) *house {
	h := newHouse(t)
	h.run(true)
	h.sign("HB001")
	h.recount()
	return h
}

func whoCannotBeDebited(h *house, b *tab) {
	b.press("main a[href='/mandates/report']")
	b.stop("Who can be debited", "1 of ", "Awaiting signature", "Siân Pugh", "Send the signing link.")
	b.most(2)
}

// with400Changes has a plan of 100 updates, of which 30 are to be looked at first, 150 new customers, and their links.
func with400Changes(t testing.TB) *house {
	h := newHouse(t)
	row := func(n int, name, city string) string {
		return fmt.Sprintf("P%03d,%s %d Ltd,Ann,accounts%d@bakery.example,,%d High Street,%s,LS1 1AA,,,,Active,\n", n, name,
			n, n, n, city)
	}
	before, after := header, header
	for n := range 250 {
		name, city := "Bakery", "Leeds"
		if n < 100 {
			before += row(n, name, city)
			if city = "Hull"; n < 30 {
				name = "Brewery"
			}
		}
		after += row(n, name, city)
	}
	h.books([]byte(before))
	h.run(true)
	h.books([]byte(after))
	h.run(false)
	h.recount()
	return h
}

func approveALargePlan(h *house, b *tab) {
	b.press("main a[href='/plans/2']")
	b.stop("Nothing has been sent.", "Look at these first: 30", "Brewery 0 Ltd", "Customers to update: 70",
		"New customers: 150", "Signing links to request: 150")
	if first, then := strings.Index(b.text(), "Look at these first"),
		strings.Index(b.text(), "Customers to update"); first > then {
		b.t.Error("risky changes stand behind the others")
	}
	foot := ask(b, chromedp.Evaluate[float64](`scrollTo(0, document.documentElement.scrollHeight), document.querySelector("button[form=judge]").getBoundingClientRect().bottom + scrollY`))
	if b.width < 960 && foot > 3*screen {
		b.t.Errorf("the button to approve stands on screen %.1f", foot/screen)
	}
	b.press("button[form=judge].primary")
	b.stop("Approve all 400 changes of plan 2?", "30 changes to look at first", "70 customers updated",
		"150 new customers", "150 signing links requested")
	if n := h.approved(); n != 0 {
		b.t.Errorf("%d changes are approved without a yes", n)
	}
	b.press("button[value=all]")
	b.stop("Plan 2 is approved, with 400 changes. Nothing was sent yet")
	b.most(3)
}

func with300Matches(t testing.TB) *house {
	h := newHouse(t)
	h.alike(300)
	h.recount()
	return h
}

// matchManyCustomers links the 270 certain ones together and the others one by one, and takes the last one back.
func matchManyCustomers(_ *house, b *tab) {
	b.press("main a[href='/matches']")
	b.reads("300 payers match existing customers", "Tideswell Bakery 0 Ltd")
	b.press("a[href='/matches/likely']")
	b.reads("270 have exactly one match")
	if n := ask(b, chromedp.Evaluate[int](`[...document.querySelectorAll("tbody tr")].filter(r => r.textContent.split("@tideswell.example").length > 2).length`)); n != 270 {
		b.t.Errorf("%d rows show both sides, want 270", n)
	}
	b.fill("#reason", "migrated")
	b.fill("#count", "270")
	b.press("fieldset button.primary")
	b.reads("270 payers linked. Nothing was sent yet")
	b.press(".actions a.primary")
	b.reads("1 of 30", "After linking")
	b.fill("#reason", "same office")
	b.tick("input[name=keep]")
	for left := 29; left > 0; left-- {
		b.key("1")
		b.reads(fmt.Sprintf("of %d", left))
	}
	b.press("form button[value=back]")
	b.reads("Taken back. Nothing was sent.", "of 2")
	b.most(map[bool]int{false: 6, true: 35}[b.noScript])
}

func withRenumbered(t testing.TB) *house {
	h := newHouse(t)
	h.renumber()
	return h
}

func settleARenumberedPayer(h *house, b *tab) {
	for path, want := range map[string][]string{
		oldRecord + "/cancel": {"may be this payer under a new number"},
		oldRecord:             {"Same payer under a new number…", "Removed for good…"}, newRecord: {"Two different payers…"},
		"/todo/renumbered": {"HB001", "HB901", "Same payer under a new number…"},
		"/":                {"May be a removed payer under a new number"},
	} {
		b.open(path)
		b.stop(want...)
	}
	b.open("/")
	b.press(".needs a.button[href*='/take-over']")
	b.stop("Same payer under a new number: Crumb & Crust Bakery Ltd?", "HB001", "HB901")
	b.fill("#reason", "new numbers since March")
	b.press("main form[method=post] button")
	b.stop("Saved. The next run sends it. Nothing was sent yet.")
	b.most(2)
	h.run(true)
	h.recount()
	b.open("/")
	if strings.Contains(b.text(), "under a new number") {
		b.t.Errorf("it is still to do:\n%s", b.text())
	}
}

func withMovedBooks(t testing.TB) *house {
	h := newHouse(t)
	h.movedBooks()
	h.recount()
	return h
}

func moveToNewBooks(_ *house, b *tab) {
	b.press("main a[href='/plans/2']")
	b.stop("The new customers may be payers of old-csv")
	b.press("a[href^='/connections/move']")
	b.stop("Old connection", "Certain matches", "Matches to check")
	n := ask(b, chromedp.Evaluate[int]("document.querySelectorAll('input[name=id]:checked').length"))
	b.fill("#reason", "Xero since May")
	b.fill("#count", fmt.Sprint(n))
	b.press("fieldset button.primary")
	b.stop("Undecided so far")
	b.press("button[name=close]")
	b.stop(fmt.Sprintf("%d pairs accepted. Nothing was sent yet", n), "Accepted")
	b.most(4)
	clicks := b.clicks
	b.press("button[value=pair]")
	b.reads("1 pair accepted.")
	b.fill("#undoreason", "too early")
	b.press("button[value=undo]")
	b.stop("old-csv is open again", "Certain matches")
	b.clicks = clicks
}

func withLetters(t testing.TB) *house {
	h, _ := newPost(t)
	h.asks(bakeries(54))
	h.recount()
	return h
}

func sendLetters(h *house, b *tab) {
	b.press("main a[href='/mandates/letters']")
	b.stop("54 letters wait for approval.", "Hello Ada Crumb,")
	b.press("form[action='/mandates/letters'] button.primary")
	b.stop("54 letters approved. Nothing was sent yet")
	b.most(2)
	if res := h.deliver(); res.Sent != 54 {
		b.t.Errorf("%d letters were sent", res.Sent)
	}
}

// findAPayer searches on every page of the menu; the clicks are those of one search.
func findAPayer(_ *house, b *tab) {
	menu := ask(b, chromedp.Evaluate[[]string](`[...document.querySelectorAll("header nav a")].map(a => a.getAttribute("href"))`))
	for _, path := range menu {
		b.open(path)
		b.clicks = 0
		b.fill("#find", "crust")
		b.press("form[role=search] button")
		b.reads("Crumb & Crust Bakery Ltd")
		if strings.Contains(b.path(), "crust") {
			b.t.Errorf("the address %s holds what was searched for", b.path())
		}
		b.press("tbody th a")
		b.reads("Record and customer")
		b.most(2)
	}
	if len(menu) < 8 {
		b.t.Errorf("the menu has %q", menu)
	}
	b.stop("Crumb & Crust Bakery Ltd")
	clicks := b.clicks
	b.open("/payers/quickstart/HB002")
	b.press("form[action$='/link'] button")
	b.reads("Anybody with it can sign", "/sign/")
	b.open("/audit")
	b.reads("show signing links")
	b.clicks = clicks
}

func whatAPlanChanged(_ *house, b *tab) {
	b.menu("/plans")
	b.press("main a[href='/plans/1']")
	b.stop("was sent", "Outcome of its changes", "Crumb & Crust Bakery Ltd")
	b.most(3)
}

func monthlyReport(_ *house, b *tab) {
	b.press("main a[href='/mandates/report']")
	b.stop("Who can be debited", "Together", "Since when", "Export all records")
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	b.reads("can be debited", "Together", "Siân Pugh")
	b.most(2)
}
