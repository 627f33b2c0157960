package pages_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
)

// Five records have matches: a person decides by keyboard, or by buttons without script, and takes the last
// decision back. The others are linked together, except one.
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
		b.fill("#reason", "migrated")
		b.fill("#count", "4")
		b.press("fieldset button.primary")
		b.reads("4 payers linked. Nothing was sent yet", "6 linked, waiting for a run")
		b.press("a[href='/matches/linked']")
		b.sound("linked at " + l.String())
		b.picture("linked-" + l.String())
		if n := ask(b, chromedp.Evaluate[int]("document.querySelectorAll('input[name=id]:checked').length")); n != 4 {
			t.Errorf("%s: %d links are ticked, and 4 were made together", l, n)
		}
		b.do(chromedp.Evaluate[chromedp.Void]("[...document.querySelectorAll('input[name=id]:checked')].slice(1).forEach(e => e.click())"))
		b.press("fieldset button.primary")
		b.reads("1 link taken back. Nothing was sent by this.", "5 linked")
	}
}
