package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/state"
)

// Pages empty in a new installation are also sound when filled: refused webhooks and a test delivery, users
// limited to one connection, and examples of letters.
func TestPagesThatBeginEmptyAreSoundWhenFilledInABrowser(t *testing.T) {
	town := newTown(t)
	post, _ := newPost(t)
	now := post.ledger.Now()
	post.receive(state.Delivery{Key: "event:e1", Type: "customer.updated", State: connector.InboxIgnored,
		Body: []byte("{}")})
	post.do(func(tx *state.Tx) error {
		return tx.AddRefusals([]state.Refusals{
			state.NewRefusals("signature_failed", 1204, now, now), state.NewRefusals("too_large", 2, now, now),
			state.NewRefusals("too_many", 31, now.AddDate(0, 0, -2), now.AddDate(0, 0, -2)),
		})
	})
	for _, l := range []look{{width: 1280}, {width: 320, dark: true}} {
		b := post.browse(l)
		b.name = "webhooks-" + l.String()
		post.signIn(b, "olga", pages.Operator)
		b.open("/webhooks")
		b.stop("Refused in the last 7 days", "1,204", "Send a test")
		post.tested = admin.Tested{OK: true,
			Detail: "a signed test delivery came to this ledger through https://pay.example/hook"}
		b.press("form[action='/webhooks'] button")
		b.stop("A signed test delivery came to this ledger through https://pay.example/hook.")
		post.tested = admin.Tested{Detail: "https://pay.example/hook answered 401 to a signed test delivery",
			Next: "that is the answer to another secret"}
		b.answered(http.StatusBadGateway, "form[action='/webhooks'] button")
		b.stop("The test delivery did not arrive", "answered 401", "That is the answer to another secret.")
		b.name = "examples-" + l.String()
		b.open("/mandates/letters/examples")
		b.stop("Hello Maureen Tideswell,", "Invitation as mail programs show it")
		b.press("a[href$='example/invitation/en']")
		b.reads("Hello Maureen Tideswell,")
		b.picture(b.name + "-html")

		b = town.browse(l)
		b.name = "users-" + l.String()
		town.signIn(b, "ida", pages.Admin)
		name := "user-" + strings.ReplaceAll(l.String(), "-", "")
		b.open("/settings/users")
		b.fill("#name", name)
		b.do(chromedp.Click("input[name=connection][value=" + ours + "]"))
		b.press("fieldset button.primary")
		b.stop("It is shown this once", name, ours)
		b.open("/settings/users/" + name)
		b.stop("Other limits", "Change the limits", "Another invitation")
	}
}
