package pages_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
)

// The books are compared, all certain pairs accepted, one more by itself, and all of it taken back.
func TestBooksAreMovedInABrowser(t *testing.T) {
	for _, l := range ways() {
		h := newHouse(t)
		h.movedBooks()
		b := h.browse(l)
		h.signIn(b, "anna", pages.Operator)
		b.open("/matches")
		b.press("a[href='/connections/move']")
		b.reads("Old connection")
		b.sound("choose books at " + l.String())
		b.picture("move-choose-" + l.String())
		b.open("/connections/move?old=old-csv&new=" + sample)
		b.reads("Certain matches", "Matches to check")
		b.sound("move at " + l.String())
		b.picture("move-" + l.String())
		n := ask(b, chromedp.Evaluate[int]("document.querySelectorAll('input[name=id]:checked').length"))
		b.fill("#reason", "Xero since May")
		b.fill("#count", fmt.Sprint(n))
		b.press("fieldset button.primary")
		b.reads("Undecided so far")
		b.sound("close a connection at " + l.String())
		b.press("button[name=close]")
		b.reads(fmt.Sprintf("%d pairs accepted. Nothing was sent yet", n), "Accepted")
		b.press("button[value=pair]")
		b.reads("1 pair accepted.")
		b.sound("moved at " + l.String())
		b.picture("moved-" + l.String())
		b.fill("#undoreason", "too early")
		b.press("button[value=undo]")
		b.reads("old-csv is open again", "Certain matches")
	}
}
