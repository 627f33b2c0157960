package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
)

// An admin with a payer on the telephone: half a name, a narrower search, the payer left out and included
// again, reminders stopped, the raw record, a finding put off; and the audit log's lines about all that.
// Hostile names are on every screen.
func TestAPayerIsSeenToInABrowser(t *testing.T) {
	h := newHouse(t)
	books, _ := hostile()
	sampleBooks, _, _ := strings.Cut(string(books), "\n")
	h.books([]byte(sampleBooks +
		"\nHB001,Crumb & Crust Bakery Ltd,Maureen Tideswell,accounts@crumbandcrust.example,01632 960101,4 Harbour Street,Whitby,YO21 3CK,,,,Active,\n" +
		"HB002,Bad Address Ltd,,nonsense,,,,,,,,Active,\n" + strings.TrimPrefix(string(books), sampleBooks+"\n")))
	h.run(true)
	for _, l := range ways() {
		b := h.browse(l)
		h.signIn(b, "ada", pages.Admin)
		shows := func(what string) {
			t.Helper()
			if !l.noScript { // axe is a script
				b.sound(what + " at " + l.String())
			}
			b.picture("payer-" + what + "-" + l.String())
		}
		b.open("/payers")
		b.reads("<script>alert(1)</script>")
		shows("list")
		b.open("/payers?mandate=CREATED&person=&days=")
		b.reads("Awaiting signature")
		b.fill("#find", "crust")
		b.press("form[role=search] button")
		b.reads("Crumb & Crust Bakery Ltd")
		if strings.Contains(b.path(), "crust") {
			t.Errorf("%s: the address %s holds what was searched for", l, b.path())
		}
		shows("found")
		b.press("tbody th a")
		b.reads("Has not signed yet", "Record and customer", "Show the signing link")
		shows("one")
		b.press("a[href$='/hold']")
		b.reads("payersync sends nothing for this payer any more")
		shows("ask")
		b.fill("#reason", "pays in cash")
		b.press("main form button")
		b.reads("The payer is given up")
		b.press("a[href$='/release']")
		b.fill("#reason", "pays by debit")
		b.press("main form button")
		b.reads("no longer given up")
		h.run(true)
		b.open("/payers/quickstart/HB001")
		b.press("a[href$='/stop']")
		b.fill("#reason", "asked on the telephone")
		b.press("main form button")
		b.reads("Reminders are stopped: a person stopped them")
		shows("stopped")
		b.press("a[href$='/resume']")
		b.press("main form button")
		b.reads("payersync sends letters to this payer again")
		b.do(chromedp.Click("details:has(form[action$='/raw']) summary"))
		b.press("form[action$='/raw'] button")
		b.reads("Record as it was read", "Maureen Tideswell")
		shows("raw")
		b.open("/payers/quickstart/A%2F1")
		b.reads("<script>alert(1)</script>")
		shows("hostile")
		b.open("/todo/email_malformed")
		b.reads("Bad Address Ltd")
		shows("told")
	}
	v := h.enter("ada", pages.Admin)
	v.post("/todo/email_malformed", http.StatusOK, "act", "later", "id", "quickstart/HB002", "reason",
		"she calls on Friday")
	for _, l := range []look{{width: 1280}, {width: 390, dark: true}} {
		b := h.browse(l)
		h.signIn(b, "ada", pages.Admin)
		b.open("/todo/email_malformed?later=1")
		b.reads("put off until", "she calls on Friday")
		b.sound("put off at " + l.String())
		b.picture("payer-later-" + l.String())
		h.recount()
		b.open("/")
		b.reads("Postponed: 1 The e-mail address is mistyped")
		b.picture("payer-postponed-" + l.String())
		b.open("/audit")
		b.reads("give record up", "take record up again", "stop letters", "let letters go again", "show raw record",
			"put off")
	}
}
