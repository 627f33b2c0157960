package pages_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
	"payersync/connector/sandbox"
)

// The credit controller opens the letters from the work list, reads three of them and the list of recipients,
// approves exactly those, and sees them sent. Letters changed meanwhile are not approved.
func TestLettersArePreparedReadApprovedAndSeenSentInABrowser(t *testing.T) {
	for _, l := range ways() {
		t.Run(l.String(), func(t *testing.T) {
			h, box := newPost(t)
			h.asks(bakeries(54))
			b := h.browse(l)
			b.name = "letters-" + l.String()
			h.signIn(b, "olaf", pages.Operator)
			h.settled(h.enter("vera", pages.Viewer), "/mandates", "54 payers have to sign")
			b.open("/mandates")
			b.reads("Not invited yet")
			b.press("main a[href='/mandates/letters']")
			b.stop("54 letters wait for approval.", "Hello Ada Crumb,", "Bakery 1 Limited", "accounts@bakery1.io", "25 of 54")
			if strings.Contains(b.text(), "/sign/") {
				t.Error("a letter is shown with a link by which its reader could sign")
			}
			b.press("nav.pager a[rel=next]")
			b.press("nav.pager a[rel=next]")
			b.stop("Bakery 54 Limited", "First page")

			h.asks(bakeries(55)) // while it is being read
			b.answered(http.StatusConflict, "form[action='/mandates/letters'] button.primary")
			b.stop("The letters changed while you were reading them.", "Nothing was approved.", "1 letter is new",
				"Bakery 55 Limited")
			if h.deliver(); len(box.Received()) != 0 {
				t.Fatal("letters left that nobody approved")
			}
			b.press("form[action='/mandates/letters'] button.primary")
			b.stop("55 letters approved. Nothing was sent yet", "55 letters leave by themselves")
			if n := len(box.Received()); n != 0 {
				t.Fatalf("the page sent %d letters", n)
			}

			b.do(chromedp.Click("details.act summary"))
			b.fill("#why", "price change")
			b.press("form[action='/mandates/letters/pause'] button")
			b.stop("All letters are paused until somebody resumes them.", "price change")
			b.press("form[action='/mandates/letters/resume'] button")
			b.stop("All letters are sent again.")
			if res := h.deliver(); res.Sent != 55 || len(box.Received()) != 55 {
				t.Fatalf("%d letters came: %+v", len(box.Received()), res)
			}
			b.open("/mandates/letters")
			b.stop("55 left today", "No letter is due now.")
			h.settled(h.enter("vera", pages.Viewer), "/mandates", "Sent, not signed")
			b.open("/mandates")
			b.stop("Sent, not signed")
			b.open("/audit")
			b.reads("approve letters", "pause letters", "resume letters")
		})
	}
}

// A letter of which nobody knows whether it arrived is decided about, with script and without.
func TestAnUnclearLetterIsDecidedInABrowser(t *testing.T) {
	for _, l := range ways() {
		t.Run(l.String(), func(t *testing.T) {
			h, box := newPost(t)
			h.asks(bakeries(2, "HB900,Our Own Canteen,,canteen@harbour.io,,,,,,,,Active,en\n"))
			h.unclear(box)
			b := h.browse(l)
			b.name = "unclear-" + l.String()
			h.signIn(b, "olaf", pages.Operator)
			b.open("/mandates/letters")
			b.stop("Delivery unknown", "It arrived", "Send once more…", "Our Own Canteen")
			b.press("button[value=arrived]")
			b.stop("Noted: the letter arrived.")
			b.do(chromedp.Click("td details summary"))
			b.reads("The payer may get it twice.")
			b.press("button[value=again]")
			b.stop("payersync sends the letter again when it is due")
			b.do(chromedp.Click("details.act:has(form[action$='/alone']) summary"))
			b.stop("The address is one of ours.", "Approve this letter")
			b.press("form[action$='/alone'] button")
			b.stop("1 letter approved.")
		})
	}
}

// Links that got lost with their answers are fetched again by one button, however many they are.
func TestManyLostLinksAreFetchedAgainInABrowser(t *testing.T) {
	const lost = 159
	for _, l := range ways() {
		t.Run(l.String(), func(t *testing.T) {
			h := newHouse(t)
			h.books(bakeries(lost))
			h.syncer.Settings.Workers = 8
			h.loseLinks()
			var mandates []string
			for _, c := range h.box.Customers() {
				for _, m := range c.Mandates {
					mandates = append(mandates, m.ID)
				}
			}
			if len(mandates) != lost {
				t.Fatalf("there are %d mandates whose signing links are lost, want %d", len(mandates), lost)
			}
			b := h.browse(l)
			b.name = "lost-" + l.String()
			h.signIn(b, "olaf", pages.Operator)
			h.settled(h.enter("vera", pages.Viewer), "/mandates?show=lost", "Signing link lost")
			b.open("/mandates")
			b.reads("Fetch all 159 lost signing links again…")
			b.press("a[href='/mandates/links']")
			b.stop("159 signing links are lost", "creates no second one", "Nothing is sent to payers")
			h.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Method: http.MethodPut, Path: linkCalls, Count: 1})
			b.press("form[action='/mandates/links'] button.primary")
			b.until("The last time", "#lot a.button")
			h.box.ClearFaults()
			b.stop("158 of 159 signing links fetched, 1 failed.", "1 signing link is lost")
			b.press("form[action='/mandates/links'] button.primary")
			b.until("1 of 1 signing links fetched, 0 failed.", "#lot a.button")
			b.open("/mandates/links")
			b.stop("No signing link is lost.")
			var now []string
			for _, c := range h.box.Customers() {
				for _, m := range c.Mandates {
					now = append(now, m.ID)
				}
			}
			if slices.Sort(mandates); !slices.Equal(slices.Sorted(slices.Values(now)), mandates) {
				t.Errorf("there are %d mandates after %d links were fetched again", len(now), lost)
			}
			b.open("/audit")
			b.reads("fetch lost signing links")
		})
	}
}
