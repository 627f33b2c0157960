package pages_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	"payersync/connector/accounting/csvfile"
	"payersync/connector/pages"
)

// Two admins change rules in the table at the same time. The second one sees both texts, and loses neither.
func TestOfTwoWhoChangeRulesInTheTableTheSecondSeesBoth(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.withoutExamples()
	anna, bob := h.enter("anna", pages.Admin), h.enter("bob", pages.Admin)
	annas, bobs := anna.get(mappingPath, http.StatusOK), bob.get(mappingPath, http.StatusOK)
	anna.presses(annas, "save", http.StatusOK, "column customer.people[0].phone", "Second City", "reason", "one")
	saved := h.text()
	page := bob.presses(bobs, "save", http.StatusConflict, "column customer.people[0].phone", "City", "reason", "two")
	holds(t, page, "the file changed since you opened it", "<bdi>anna</bdi> saved", "Both texts are kept")
	if h.text() != saved || h.saves() != 1 {
		t.Errorf("the second save changed the file to\n%s", h.text())
	}
	if !strings.Contains(edited(page), "phone: trim(City)") {
		t.Errorf("what bob chose is gone:\n%s", edited(page))
	}
}

// Somebody edits the file while an admin has the table open. The save is refused, and the edit stays.
func TestAFileEditedWhileTheTableIsOpenStays(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.withoutExamples()
	anna := h.enter("anna", pages.Admin)
	page := anna.get(mappingPath, http.StatusOK)
	h.write(h.mappingFile(), h.text()+"# by hand\n")
	edit := h.text()
	page = anna.presses(page, "save", http.StatusConflict, "column customer.people[0].phone", "City", "reason", "one")
	holds(t, page, "the file changed since you opened it", "# by hand")
	if h.text() != edit || !strings.Contains(edited(page), "phone: trim(City)") {
		t.Errorf("the file is\n%s", h.text())
	}
}

// A column that the mapping reads is gone from the accounting system. The page names it, and takes another one.
func TestAVanishedColumnIsReplacedInTheTable(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.withoutExamples()
	h.write(h.file, strings.Replace(string(must(os.ReadFile(h.file))(t)), ",Phone,", ",Telephone,", 1))
	source := must(csvfile.New(csvfile.Config{Path: h.file, ID: []string{"AccountNumber"}}))(t)
	h.conn.Source, h.conn.Info = source, must(source.Describe(context.Background()))(t)
	h.conn.Info.Organisation = "harbour-books"
	anna := h.enter("anna", pages.Admin)
	page := anna.get(mappingPath, http.StatusOK)
	holds(t, page, "unknown field &#34;Phone&#34;", "<option>Telephone</option>")
	was := h.text()
	refused := anna.presses(page, "save", http.StatusUnprocessableEntity, "column customer.name", "Contact",
		"reason", "one")
	holds(t, refused, "A text with mistakes is not saved")
	if h.text() != was {
		t.Errorf("the refused save changed the file to\n%s", h.text())
	}
	anna.presses(page, "save", http.StatusOK, "column customer.people[0].phone", "Telephone", "reason", "renamed")
	if want := strings.Replace(was, "trim(Phone)", "trim(Telephone)", 1); h.text() != want {
		t.Errorf("the file is\n%s", h.text())
	}
}
