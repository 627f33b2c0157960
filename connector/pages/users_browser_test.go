package pages_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
)

// Six wrong passwords, the wait, the right one after an invitation, a provider, and the end of it
// all: with script and without, in the day and by night.
func TestPeopleSignInWithAPasswordAndByAProviderInABrowser(t *testing.T) {
	h := newHouse(t)
	h.run(true)
	o := newProvider(t, anna("accounting"))
	office := func() *tab { // a window of its own each time: none is open for minutes
		admin := h.browse(look{width: 1280})
		h.signIn(admin, "ida", pages.Admin)
		return admin
	}
	for i, l := range ways() {
		h.by(o) // at whose door nobody has knocked: the wrong passwords of all ways are too many for one network
		name := "user-" + string(rune('a'+i))
		admin := office()
		admin.open("/settings/users")
		admin.fill("#name", name)
		admin.press("fieldset button.primary")
		admin.reads("is shown only once", "works once")
		if i == 0 {
			admin.sound("an invitation")
			admin.picture("J8-invitation")
		}
		link := ask(admin, chromedp.Value("#link"))
		b := h.browse(l)
		b.do(chromedp.Navigate(link))
		b.reads("Choose a password", name)
		b.sound("an invitation that is used " + l.String())
		b.picture("J8-invited-" + l.String())
		b.fill("#password", goodPassword)
		b.fill("#again", goodPassword)
		b.press("button.primary")
		b.reads("Your password is kept", "payers can be debited")
		b.press("form.who button")
		b.reads("Sign in")
		b.sound("signing in " + l.String())
		b.picture("J8-signin-" + l.String())
		other := "user-" + string(rune('a'+i)) + "-mistyped"
		for range 5 {
			b.open("/signin")
			b.fill("#name", other)
			b.fill("#password", "a wrong password")
			b.press("form.narrow button")
			b.reads("The name or the password is not right")
		}
		b.open("/signin")
		b.fill("#name", other)
		b.fill("#password", goodPassword)
		b.press("form.narrow button")
		b.reads("too many wrong passwords", "Wait ", "seconds")
		b.sound("waiting " + l.String())
		b.picture("J8-wait-" + l.String())
		b.open("/signin")
		b.fill("#name", name)
		b.fill("#password", goodPassword)
		b.press("form.narrow button")
		b.reads("payers can be debited", name)
		b.open("/settings/password")
		b.sound("the password page " + l.String())
		b.picture("J8-password-" + l.String())
		b.press("form.who button")
		b.open("/runs")
		b.reads("You are not signed in")

		b.press(`a[href="/signin/oidc"]`)
		b.reads("Provider")
		b.press("#go")
		if l.noScript {
			b.reads("Finish signing in")
			b.sound("coming back " + l.String())
			b.picture("J8-back-" + l.String())
			b.press("button.primary")
		} else {
			b.do(chromedp.WaitVisible("form.who"))
		}
		b.reads("payers can be debited", "anna@firm.example")
		b.press("form.who button")
		b.open("/runs")
		b.reads("You are not signed in")
	}
	admin := office()
	admin.open("/settings/users/user-a")
	admin.sound("one user")
	admin.picture("J8-user")
	admin.open("/settings/users")
	admin.sound("users")
	admin.picture("J8-users")
}
