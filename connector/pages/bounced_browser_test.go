package pages_test

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
)

// A dead address is stored, and a mistyped one stays in the field. The payer is listed with the next step,
// and with a button for a working address.
func TestLettersThatCameBackAreNotedInABrowser(t *testing.T) {
	for _, l := range ways() {
		t.Run(l.String(), func(t *testing.T) {
			h, _ := posted(t, 2)
			b := h.browse(l)
			b.name = "bounced-" + l.String()
			h.signIn(b, "olga", pages.Operator)
			b.open("/mandates/letters")
			b.do(chromedp.Click("details.act:has(#bounced) summary"))
			b.stop("Reports, as files", "Or a report, or addresses")
			b.fill("#bounced", "accounts@bakery2.io\nmoo")
			b.fill("#bounced-why", "came back by hand")
			b.answered(http.StatusUnprocessableEntity, "form[action$='/bounced'] button")
			b.stop("Not all was understood.", "line 2, moo: not understood", "1 payer whose address takes no mail",
				"Bakery 2 Limited", "Correct the address in the accounting system")
			b.do(chromedp.Clear("#bounced"))
			b.fill("#bounced", "accounts@bakery1.io")
			b.press("form[action$='/bounced'] button")
			b.stop("Nothing more is sent to the address", "2 payers whose address takes no mail")
			b.do(chromedp.Click("tr:has(a[href$='/HB001']) details summary"))
			b.stop("The address works…", "for all its payers")
			b.fill("tr:has(a[href$='/HB001']) input[name=reason]", "they repaired it")
			b.press("tr:has(a[href$='/HB001']) form[action$='/revive'] button")
			b.stop("The next letter goes to this address when it is due.", "1 payer whose address takes no mail")
			b.open("/audit")
			b.reads("note an address that takes no mail", "came back by hand", "note an address that works again",
				"they repaired it")
		})
	}
}
