package pages_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
)

// Five who look like customers: decided on by keyboard, or by buttons where there is no script,
// and the last word is taken back.
func TestFiveMatchesAreDecidedByKeyboardInABrowser(t *testing.T) {
	for _, l := range ways() {
		h := newHouse(t)
		h.alike(7)
		b := h.browse(l)
		h.signIn(b, "anna", pages.Operator)
		b.open("/matches")
		b.sound("matches at " + l.String())
		b.picture("matches-" + l.String())
		b.press(".actions a.primary")
		b.reads("1 of 7", "After linking")
		b.sound("match at " + l.String())
		b.picture("match-" + l.String())
		b.fill("#reason", "same 1 office") // who types a figure means the figure
		b.do(chromedp.Click("input[name=keep]"))
		act := func(key string) {
			t.Helper()
			if l.noScript {
				b.press("[data-key='" + key + "']")
				return
			}
			if _, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent(key)); err != nil {
				t.Fatalf("%s: press %s: %v", l, key, err)
			}
		}
		for i, key := range []string{"1", "1", "2", "3", "1"} {
			act(key)
			b.reads(map[int]string{0: "1 of 6", 1: "1 of 5", 2: "1 of 4", 3: "1 of 4", 4: "1 of 3"}[i])
		}
		b.press("form button[value=back]")
		b.reads("Taken back. Nothing was sent.", "of 4")
		b.open("/matches/likely")
		b.sound("likely at " + l.String())
		b.picture("likely-" + l.String())
	}
}
