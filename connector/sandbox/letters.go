package sandbox

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"payersync/connector/sandbox/catcher"
)

// shownLetters is how many letters the page lists, newest first.
const shownLetters = 200

// errNoLetter means that a letter never came, or came too long ago.
var errNoLetter = fmt.Errorf("letter: %w", ErrUnknown)

// routeLetters sets up the pages of a mail catcher.
func (s *Sandbox) routeLetters(human *http.ServeMux) {
	if s.opt.Letters == nil {
		return
	}
	human.HandleFunc("GET /letters", s.lettersPage)
	human.HandleFunc("GET /letters/{number}", s.withLetter(showLetter))
	human.HandleFunc("GET /letters/{number}/html", s.withLetter(showHTML))
	human.HandleFunc("GET /letters/{number}/source", s.withLetter(showSource))
	human.HandleFunc("GET /sandbox/letters", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, s.opt.Letters.Letters(r.URL.Query().Get("to")))
	})
	human.HandleFunc("POST /sandbox/letters/clear", func(w http.ResponseWriter, r *http.Request) {
		s.opt.Letters.Clear()
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			http.Redirect(w, r, "/letters", http.StatusSeeOther)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// lettersPage lists the received letters, or those with the words in the query.
func (s *Sandbox) lettersPage(w http.ResponseWriter, r *http.Request) {
	find := strings.TrimSpace(r.URL.Query().Get("find"))
	found := s.opt.Letters.Search(find)
	shown := found[:min(len(found), shownLetters)]
	render(w, "letters.html", struct {
		Find            string
		Letters         []catcher.Letter
		Found, Received int
	}{find, shown, len(found), s.opt.Letters.Received()})
}

// withLetter looks up the letter that the path names.
func (s *Sandbox) withLetter(show func(http.ResponseWriter, catcher.Letter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		number, _ := strconv.Atoi(r.PathValue("number")) // 0 is no letter
		l, ok := s.opt.Letters.Letter(number)
		if !ok {
			writeError(w, errNoLetter)
			return
		}
		show(w, l)
	}
}

func showLetter(w http.ResponseWriter, l catcher.Letter) {
	w.Header().Set("Content-Security-Policy", pagePolicy+"; frame-src 'self'")
	render(w, "letter.html", l)
}

// letterPolicy limits a letter's HTML to its looks and its links: it has no origin, so it cannot reach the
// pages around it or their forms, and it fetches nothing.
const letterPolicy = "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'self'"

func showHTML(w http.ResponseWriter, l catcher.Letter) {
	w.Header().Set("Content-Security-Policy", letterPolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(opensElsewhere(l.HTML))) // a closed browser does not matter
}

// opensElsewhere makes the links of a letter open outside of its frame, because other pages refuse to be
// framed. It adds nothing before a document type, since that would change the letter's looks.
func opensElsewhere(html string) string {
	const links = `<base target="_blank">`
	if start := strings.TrimLeft(html, " \r\n\t"); len(start) > 9 && strings.EqualFold(start[:9], "<!doctype") {
		if head, rest, ok := strings.Cut(start, ">"); ok {
			return head + ">" + links + rest
		}
	}
	return links + html
}

func showSource(w http.ResponseWriter, l catcher.Letter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(l.Source) // as above
}
