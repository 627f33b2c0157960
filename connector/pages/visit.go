package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"payersync/connector/admin"
	"payersync/state"
)

// visit is a request of a signed-in user.
type visit struct {
	*http.Request
	w     http.ResponseWriter
	pages *Pages
	User  User
	way   string // how somebody signed in
}

// ledger is the ledger of the pages.
func (v *visit) ledger() *state.Ledger { return v.pages.cfg.Ledger }

// show answers with a page: the named template, with its data.
func (v *visit) show(name, title string, content any) error {
	v.pages.render(v.w, v, http.StatusOK, name, title, content)
	return nil
}

// showAs shows a page with a problem and reports it.
func (v *visit) showAs(status int, name, title string, content any) error {
	v.pages.cfg.Report(Event{Route: v.Pattern, User: v.User.Name, Status: status})
	v.pages.render(v.w, v, status, name, "Problem: "+title, content)
	return nil
}

// done ends an act: the browser requests a page with a note about the result.
func (v *visit) done(note, to string) error {
	v.pages.logins.Put(v.Context(), keyNote, note)
	if err := v.keep(); err != nil {
		// the act is done all the same
		v.pages.cfg.Report(Event{Route: v.Pattern, User: v.User.Name, Status: http.StatusSeeOther, Err: err})
	}
	http.Redirect(v.w, v.Request, to, http.StatusSeeOther) //nolint:gosec // to is a page of ours: its first segment is never from outside
	return nil
}

// note returns the result of the last act, once.
func (v *visit) note() string {
	text := v.pages.logins.PopString(v.Context(), keyNote)
	if text != "" {
		if err := v.keep(); err != nil {
			v.pages.cfg.Report(Event{Route: v.Pattern, User: v.User.Name, Status: http.StatusOK, Err: err})
		}
	}
	return text
}

// filled returns a field of a form or of the address, without the spaces around it.
func (v *visit) filled(name string) string { return strings.TrimSpace(v.FormValue(name)) }

// with returns the address of this page with changed query values: pairs of a name and a value. A blank value removes
// the name.
func (v *visit) with(pairs ...string) string {
	q := v.URL.Query()
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			q.Del(pairs[i])
		} else {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return (&url.URL{Path: v.URL.Path, RawQuery: q.Encode()}).String()
}

// The most rows of a list on one page. They keep each page below 30 kB and below eight screens of a phone.
const (
	rowsShown      = 25
	wideRowsShown  = 20 // of the report
	shortRowsShown = 40 // of the list of payers
)

// pager leads to the pages before and after.
type pager struct {
	First string // "" on the first page
	Next  string // "" on the last
	Sum   string // how many of all are shown; "" if nobody has counted them
}

// of returns the pager with the number of rows on the page, of all.
func (p pager) of(rows, all int) pager {
	p.Sum = fmt.Sprintf("%s of %s", number(rows), number(all))
	return p
}

// page returns the pager of a list continued behind a place; "" for none.
func (v *visit) page(after string) pager {
	var p pager
	if v.filled("after") != "" {
		p.First = v.with("after", "")
	}
	if after != "" {
		p.Next = v.with("after", after)
	}
	return p
}

// changed restarts the background counts after an act.
func (v *visit) changed() {
	v.pages.cfg.Standings.Renew()
	v.pages.cfg.Letters.Renew()
}

// since parses a stored time; zero for an invalid one.
func since(stored string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, stored)
	if err != nil {
		return time.Time{}
	}
	return at
}

// why returns the optional reason for an act.
func (v *visit) why() (string, error) {
	reason := v.filled("reason")
	if utf8.RuneCountInString(reason) > admin.LongestReason {
		return "", problem{Status: http.StatusUnprocessableEntity, Title: "The reason is too long",
			Sentence: fmt.Sprintf("Nothing was changed: a reason has at most %d letters.", admin.LongestReason),
			Next:     "Go back, and shorten it."}
	}
	return reason, nil
}

// operator returns the acting person and the optional reason.
func (v *visit) operator() (operator, error) {
	reason, err := v.why()
	return operator{Name: v.User.Name, Reason: reason}, err
}

// reason returns the required reason for an act, for the audit log.
func (v *visit) reason() (string, error) {
	reason, err := v.why()
	if err != nil {
		return "", err
	}
	if reason == "" {
		return "", problem{Status: http.StatusUnprocessableEntity, Title: "A reason is missing",
			Sentence: "Nothing was changed: the audit log needs a reason.", Next: "Go back, and write a reason in a few words."}
	}
	return reason, nil
}
