package pages_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"payersync/connector/pages"
	"payersync/connector/syncer"
)

// An admin edits the mapping. A mistake is shown at its line and corrected, the preview counts the changes,
// the mapping is saved, the run waits, somebody approves, and the old text is put back. With script and
// without, wide by day and narrow by night.
func TestAnAdminEditsTheMappingInABrowser(t *testing.T) {
	for _, l := range ways() {
		t.Run(l.String(), func(t *testing.T) {
			h := newHouse(t)
			h.run(true)
			h.syncer.Settings.Guards = syncer.Guards{MaxCreates: 5, MaxChangesFloor: 1}
			h.mappings.Syncer.Settings = h.syncer.Settings
			was, upper := h.text(), inCapitals(h.text())
			b := h.browse(l)
			h.signIn(b, "anna", pages.Admin)
			shot := func(name string) {
				t.Helper()
				if !l.noScript { // axe is a script
					b.sound(name + " at " + l.String())
				}
				b.picture("mapping-" + name + "-" + l.String())
				b.fits(name)
			}
			if l.width < 960 {
				b.do(chromedp.Click("label.menu"))
			}
			b.press(`header nav a[href="/mapping"]`)
			b.reads("Mapping of quickstart", "is in force since", "Nothing would change for all", "Contact, otherwise Name")
			shot("table")
			b.press(`.choices button[value="text"]`)
			b.reads("Fields of the records", "% filled")
			shot("opened")

			b.types(strings.Replace(upper, "upper(trim(Name))", "upper(trim(Nmae))", 1))
			b.press(`#edit button[value="check"]`)
			b.reads("1 mistake.", "Nmae", "Write instead:")
			if title := ask(b, chromedp.Title()); !strings.HasPrefix(title, "Problem:") {
				t.Errorf("the title is %q", title)
			}
			shot("mistake")
			b.press(`button[value="cure 1"]`)
			b.reads("would change", "updated", "A run would wait for approval")
			shot("mended")

			b.press(`button[value="save"]`)
			b.reads("say why you save")
			shot("no-reason")
			b.fill("#reason", "capitals")
			b.press(`button[value="save"]`)
			b.reads("Saved as version", "saved by anna", "capitals")
			if h.text() != upper {
				t.Errorf("the file is\n%s", h.text())
			}
			shot("saved")

			h.readsMapping()
			h.run(false)
			b.open("/plans")
			b.press("main a[href^='/plans/']")
			b.reads("Nothing has been sent")
			b.press("button[form=judge].primary")
			b.press(`button[value="all"]`)
			b.reads("is approved")

			b.open(mappingPath + "/versions")
			b.reads("In force", "capitals", "Roll back…")
			shot("versions")
			b.press(`a[href*="?version="]`)
			b.reads("It takes the place of the file when you save it")
			b.fill("#reason", "back")
			b.press(`button[value="save"]`)
			if h.text() != was {
				t.Error("it was not rolled back")
			}
			b.open(mappingPath + "/quality")
			b.reads("Data quality")
			shot("quality")
		})
	}
}

// A bookkeeper changes two rules without an expression: another column, and the first of two. The check says how many
// customers would change, and leads to them. No page is longer than eight screens of a phone.
func TestABookkeeperChangesRulesWithoutCodeInABrowser(t *testing.T) {
	for _, l := range ways() {
		t.Run(l.String(), func(t *testing.T) {
			h := newHouse(t)
			h.run(true)
			h.withoutExamples()
			was := h.text()
			b := h.browse(l)
			h.signIn(b, "anna", pages.Admin)
			shot := func(name string) {
				t.Helper()
				b.sound(name + " at " + l.String())
				b.picture("fields-" + name + "-" + l.String())
				b.fits(name)
			}
			b.open(mappingPath)
			b.reads("Would change none of", "Contact, otherwise Name", "HB0")
			b.do(chromedp.SetValue(`select[name="column customer.people[0].phone"]`, "Second City"))
			b.press(`#edit button[value="check"]`)
			b.reads("Would change ", "Changed and not saved")
			shot("checked")
			b.do(chromedp.Click(`#result a`))
			if !strings.HasSuffix(b.path(), "#tried") {
				t.Errorf("the result leads to %s", b.path())
			}
			b.press(`button[value="open customer.people[0].email"]`)
			b.reads("Kind of rule", "first e-mail address")
			shot("column")
			b.do(chromedp.SetValue("#kind", "first"))
			b.do(chromedp.SetValue(`.ruleform select[name="part"]:nth-of-type(2)`, "Contact"))
			shot("first")
			b.press(`.ruleform button[value="check"]`)
			b.reads("Email, otherwise Contact")
			b.press(`#field-scope button`)
			b.do(chromedp.Click("details.act summary"))
			b.reads("Difference to the file", "coalesce(Email, Contact)")
			shot("line")
			b.press(`.choices button[value="fields"]`)
			b.fill("#reason", "by form")
			b.press(`button[value="save"]`)
			b.reads("Saved as version")
			want := strings.Replace(was, "phone: trim(Phone)", `phone: trim(field("Second City"))`, 1)
			if want = strings.Replace(want, "firstEmail(Email)", "firstEmail(coalesce(Email, Contact))", 1); h.text() != want {
				t.Errorf("the file is\n%s", h.text())
			}
		})
	}
}

// A click on a field writes its name, and what is typed is checked by itself.
func TestWhatIsTypedIsCheckedByItself(t *testing.T) {
	h := newHouse(t)
	h.run(true)
	b := h.browse(look{width: 1280})
	h.signIn(b, "anna", pages.Admin)
	b.open(mappingPath + "/text")
	b.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("text").setSelectionRange(0, 0); 0`))
	b.do(chromedp.Click("#fields button.insert"))
	b.do(chromedp.WaitVisible("#problem"))
	b.reads("mistake")
	if typed := ask(b, chromedp.Value("#text")); !strings.HasPrefix(typed, "AccountNumber# How a row") {
		t.Errorf("the text begins %.40q", typed)
	}
	if strings.HasPrefix(h.text(), "AccountNumber") {
		t.Error("what was typed was saved")
	}
}

// fits fails where the page is longer than eight screens of a phone.
func (b *tab) fits(what string) (screens float64) {
	b.t.Helper()
	screens = ask(b, chromedp.Evaluate[float64](`innerWidth < 400 ? document.documentElement.scrollHeight / 844 : 0`))
	if screens > 8 {
		b.t.Errorf("%s has %.1f screens", what, screens)
	}
	return screens
}

// types puts a text in the place of what the editor holds.
func (b *tab) types(text string) {
	b.t.Helper()
	b.do(chromedp.SetValue("#text", text))
}
