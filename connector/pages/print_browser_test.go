package pages_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
)

// The report and a plan on paper have what is read and nothing that can be pressed, and the heads
// of their tables come again on every sheet.
func TestWhatIsPrintedHasWhatIsReadAlone(t *testing.T) {
	h := newHouse(t)
	h.run(true)
	h.books(sampleBooks(t, "Crumb & Crust Bakery Ltd", "Crumb & Sons"))
	h.run(false)
	h.settled(h.enter("vera", pages.Viewer), "/mandates/report", "can be debited")
	b := h.browse(look{width: 720}) // a sheet of A4 between its margins
	h.signIn(b, "anna", pages.Admin)
	for path, want := range map[string][]string{
		"/mandates/report":                     {"can be debited", "Siân Pugh", "Send the signing link.", "This paper shows 20 of"},
		"/mandates/report?stage=books&print=1": {"can be debited", "38"},
		"/payers/quickstart/HB001":             {"Crumb & Sons", "HB001", "Postcode", "Created in the billing service"},
		"/plans/2":                             {"Plan 2 of quickstart", "Crumb & Sons", "After"},
	} {
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "screen"})
		b.open(path)
		shown := `[...document.querySelectorAll("header.top, nav, form, fieldset, button, .button, input, select, details:not(.group) > summary, .skip")].filter(e => e.getClientRects().length && e.getBoundingClientRect().height).map(e => e.outerHTML.slice(0, 80))`
		if len(ask(b, chromedp.Evaluate[[]string](shown))) == 0 {
			t.Fatalf("%s has nothing to press on the screen either, so the test shows nothing", path)
		}
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		if left := ask(b, chromedp.Evaluate[[]string](shown)); len(left) > 0 {
			t.Errorf("%s on paper has %q", path, left)
		}
		b.reads(want...)
		rows := ask(b, chromedp.Evaluate[int](`[...document.querySelectorAll(".paper tbody tr")].filter(e => e.getClientRects().length).length`))
		if all := strings.Contains(path, "print=1"); all && rows != 38 {
			t.Errorf("%s on paper has %d rows", path, rows)
		}
		heads := ask(b, chromedp.Evaluate[[]string](`[...document.querySelectorAll("thead")].filter(e => e.getClientRects().length).map(e => getComputedStyle(e).display + " " + getComputedStyle(e.rows[0].cells[0]).position)`))
		if len(heads) == 0 || slices.ContainsFunc(heads,
			func(how string) bool { return how != "table-header-group static" }) {
			t.Errorf("the heads of %s are %q", path, heads)
		}
		if *screenshots != "" {
			b.picture("printed-" + filepath.Base(path))
			sheet := must(chromedp.Call(b.ctx, page.PrintToPDF, page.PrintToPDFParams{PaperWidth: 8.27, PaperHeight: 11.69}))(t)
			if err := os.WriteFile(filepath.Join(*screenshots, "printed-"+filepath.Base(path)+".pdf"), sheet.Data,
				0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
