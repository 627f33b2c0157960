package pages_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
)

var pictures = flag.Bool("pictures", false, "make the README's pictures anew")

// The README shows the overview as it is. The picture is made by this test:
//
//	go test ./connector/pages -run ReadmeShows -pictures
func TestTheReadmeShowsThePagesAsTheyAre(t *testing.T) {
	h := newHouse(t)
	h.run(true)
	for i, c := range h.box.Customers() {
		if len(c.Mandates) == 0 || i%3 == 0 {
			continue
		}
		id := c.Mandates[0].ID
		if err := h.box.Sign(id); err != nil {
			t.Fatal(err)
		}
		if i%3 == 1 {
			if err := h.box.Approve(id); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := h.reader.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := h.browse(look{width: 1280})
	h.signIn(b, "anna", pages.Operator)
	for name, path := range map[string]string{"overview": "/"} {
		b.open(path)
		b.reads("payers can be debited")
		file := filepath.Join("testdata", name+".png")
		if *pictures {
			png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, png, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		readme, err := os.ReadFile("../../README.md")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); err != nil ||
			!strings.Contains(string(readme), "connector/pages/"+filepath.ToSlash(file)) {
			t.Errorf("the README does not show %s (%v); make it with -pictures", file, err)
		}
	}
}
