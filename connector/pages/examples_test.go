package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"payersync/connector/pages"
)

// Each letter can be read before anybody gets one, in each language and by everybody, with
// nobody's data.
func TestExampleLettersAreShownInEachLanguage(t *testing.T) {
	t.Parallel()
	h, _ := newPost(t)
	vera := h.enter("vera", pages.Viewer)
	holds(t, vera.get("/mandates/letters", http.StatusOK), `href="/mandates/letters/examples"`)
	for language, words := range map[string]string{"en": "Hello Maureen Tideswell,",
		"de": "Guten Tag Maureen Tideswell,"} {
		page := vera.get("/mandates/letters/examples?language="+language, http.StatusOK)
		holds(t, page, words, "Harbour Bakery Ltd, 1 Quay Street, Whitby", "Invitation as mail programs show it",
			"Reminder as", "Last reminder as", "New signing link as", "<strong>Subject:</strong>")
		for _, kind := range []string{"invitation", "reminder", "last_reminder", "replaced"} {
			path := "/mandates/letters/example/" + kind + "/" + language
			holds(t, page, `href="`+path+`"`)
			holds(t, vera.get(path, http.StatusOK), words, `<html lang="`+language+`">`, "/sign/EXAMPLE-not-a-real-link")
		}
	}
	for _, path := range []string{"s?language=fr", "/invitation/fr", "/frame/en", "/..%2f/en"} {
		vera.get("/mandates/letters/example"+path, http.StatusNotFound)
	}
}

// A letter as HTML is shown by itself, and a browser lets it do nothing: names in it are words.
func TestALetterAsHTMLMayDoNothingInABrowser(t *testing.T) {
	t.Parallel()
	h, _ := newPost(t)
	h.asks(bakeries(1, "A/1,<script>alert(1)</script>,<b>Ada</b>,a@one.io,,,,,,,,Active,en\n"))
	olaf := h.enter("olaf", pages.Operator)
	holds(t, olaf.get("/mandates/letters", http.StatusOK), `href="/mandates/letters/prepared/quickstart/A%2F1"`)
	cookie := cookieOf(t, h.ledger, h.pages, pages.Operator, nil)
	for _, path := range []string{"/mandates/letters/prepared/quickstart/A%2F1",
		"/mandates/letters/prepared/quickstart/HB001", "/mandates/letters/example/invitation/de"} {
		w := request{method: http.MethodGet, path: path, cookie: cookie}.to(t, h.pages)
		csp := w.Header().Get("Content-Security-Policy")
		if w.Code != http.StatusOK || !strings.HasPrefix(csp, "sandbox; default-src 'none'; ") ||
			strings.Contains(csp, "allow-") || strings.Contains(csp, "script-src") {
			t.Errorf("%s was answered %d with the policy %q", path, w.Code, csp)
		}
		lacks(t, w.Body.String(), "<script", "<b>Ada")
		if strings.Contains(path, "prepared") {
			holds(t, w.Body.String(), "http://localhost/...")
			lacks(t, w.Body.String(), "/sign/")
		}
	}
	holds(t, olaf.get("/mandates/letters/prepared/quickstart/none", http.StatusNotFound),
		"No letter to this payer is prepared.")
	h.enter("vera", pages.Viewer).get("/mandates/letters/prepared/quickstart/HB001", http.StatusForbidden)
}
