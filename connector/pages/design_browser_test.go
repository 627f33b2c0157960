package pages_test

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
)

var newGolden = flag.Bool("golden", false, "store how the parts of the pages look now")

// looksOf describes each kind of element of each part as the browser draws it: the colours, edges, spaces, sizes and
// weights, and in containers the place and width. Each kind has one line, with the first of its kind in a part.
const looksOf = `(() => {
	const names = ["display", "position", "color", "background-color", "border-top-width", "border-top-color", "border-left-width", "border-left-color", "border-top-left-radius", "padding-top", "padding-left", "margin-top", "margin-left",
		"font-size", "font-weight", "text-align", "text-decoration-line", "white-space", "box-shadow", "row-gap", "column-gap", "flex-wrap", "justify-content", "align-items", "list-style-type", "min-height", "fill", "opacity", "visibility"];
	const plain = ["normal", "none", "0px", "auto", "static", "start", "rgba(0, 0, 0, 0)", "1", "visible", "nowrap", "disc", "rgb(0, 0, 0)"];
	const kind = e => e.localName + [...e.classList].map(c => "." + c).join("");
	const lines = [];
	for (const part of document.querySelectorAll("main > .part")) {
		lines.push("# " + part.querySelector("h2").textContent);
		const seen = new Set();
		for (const e of part.querySelectorAll("*")) {
			const path = e.parentElement === part ? kind(e) : kind(e.parentElement) + " " + kind(e);
			if (seen.has(path) || !e.getClientRects().length) continue;
			seen.add(path);
			const say = (style, skip) => names.map(n => [n, style.getPropertyValue(n)]).filter(([n, v]) => !plain.includes(v) && !skip.includes(n) && !(/^(color|font-|text-align|white-space|list-style)/.test(n) && style.parent?.getPropertyValue(n) === v) && !(/^border-(top|left)-color$/.test(n) && style.getPropertyValue(n.replace("color", "width")) === "0px")).map(([n, v]) => n + " " + v).join("; ");
			const style = getComputedStyle(e);
			style.parent = getComputedStyle(e.parentElement);
			let line = path + ": " + say(style, e.closest("svg") ? [] : ["fill"]);
			const box = e.getBoundingClientRect();
			if (e.parentElement === part || e.matches("table, fieldset, svg, .needs, .legend, .stages > li, .tiles > li, .many")) line += "; x " + Math.round(box.x / 4) * 4 + ", width " + Math.round(box.width / 4) * 4;
			lines.push(line);
			for (const of of ["::before", "::marker"]) {
				const more = getComputedStyle(e, of);
				if (of === "::before" && more.content !== "none") lines.push(path + of + ": content " + more.content + "; " + say(more, ["fill"]));
			}
		}
	}
	return lines.join("\n") + "\n";
})()`

// The parts look as they did when somebody last looked at them. The golden files hold what the browser draws from our
// style sheet, and no pixels: another version of a font moves every line by a pixel or breaks it elsewhere, so pictures
// would differ on each machine. The lines have no height, and a width only for containers that do not depend on
// the length of a text. They change with each colour, space, edge, size and weight, and if a part comes or goes.
// After a wanted change look at /design in the demo, and store it with -golden.
func TestThePartsOfThePagesLookAsBeforeInABrowser(t *testing.T) {
	h := newHouse(t)
	for _, l := range []look{{width: 1280}, {width: 390}} {
		b := h.browse(l)
		h.signIn(b, "anna", pages.Admin)
		b.open("/design")
		b.sound("the parts at " + l.String())
		b.fits("the parts at " + l.String())
		b.picture("design-" + l.String())
		is := ask(b, chromedp.Evaluate[string](looksOf))
		file := filepath.Join("testdata", "design", l.String()+".txt")
		if *newGolden {
			if err := os.WriteFile(file, []byte(is), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		was, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v; store it with -golden", err)
		}
		if strings.Count(is, "# ") < 15 {
			t.Errorf("at %s the page lacks parts:\n%s", l, is)
		}
		if is != string(was) {
			before, now := strings.Split(string(was), "\n"), strings.Split(is, "\n")
			gone := slices.DeleteFunc(slices.Clone(before), func(line string) bool { return slices.Contains(now, line) })
			come := slices.DeleteFunc(now, func(line string) bool { return slices.Contains(before, line) })
			t.Errorf("at %s the parts look otherwise. Before:\n%s\nNow:\n%s", l, strings.Join(gone, "\n"),
				strings.Join(come, "\n"))
		}
	}
}

func TestOnlyTheDemoShowsTheParts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	holds(t, h.enter("anna", pages.Viewer).get("/design", http.StatusOK), "Parts of the pages", `<ol class="card stages">`)
	h.stranger().get("/design", http.StatusUnauthorized)
	real := must(pages.New(pages.Config{Ledger: h.ledger}))(t)
	if w := (request{method: http.MethodGet, path: "/design", cookie: cookieOf(t, h.ledger, real, pages.Admin, nil)}).to(t,
		real); w.Code != http.StatusNotFound {
		t.Errorf("an installation answers %d", w.Code)
	}
}
