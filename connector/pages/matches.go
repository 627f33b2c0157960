package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/match"
	"payersync/connector/syncer"
	"payersync/state"
)

// The keys of login data for match decisions.
const (
	keyLater    = "later"    // those moved to the end of the list
	keyWhy      = "why"      // the reason for the next ones
	keyLastWord = "lastword" // the last decision, for taking it back
)

// mostLater is how many are kept at the end of the list.
const mostLater = 200

// groupWords are the groups of matches in words.
var groupWords = map[admin.Likelihood]string{admin.Likely: "Likely the same", admin.Unclear: "Unclear",
	admin.Several: "Several matches"}

// matchPath is the address of a record similar to a customer.
func matchPath(id state.RecordID) string {
	return "/matches/" + url.PathEscape(id.Connection) + "/" + segment(id.SourceID)
}

// scored says how well a customer fits, and why, without a value.
func scored(c state.MatchCandidate) string {
	return fmt.Sprintf("Score %d: %s", c.Score, match.Why(c.Reasons))
}

// matcher returns the service for decisions on matches.
func (v *visit) matcher() (*admin.Matches, error) {
	if m := v.pages.cfg.Matches; m != nil {
		return m, nil
	}
	return nil, problem{Status: http.StatusConflict, Title: "Matches cannot be decided here",
		Sentence: "These pages were opened without the billing service.", Next: notHere}
}

// undecided returns the records waiting for a decision. Records postponed in this login come last.
func (v *visit) undecided() (*admin.Matches, admin.Waiting, error) {
	m, err := v.matcher()
	if err != nil {
		return nil, admin.Waiting{}, err
	}
	all, err := m.Waiting(v.Context())
	if err != nil {
		return nil, all, err
	}
	if order := v.order(); order != nil {
		slices.SortStableFunc(all.Rows, func(a, b admin.Likeness) int {
			return cmp.Compare(order[matchPath(a.RecordID)], order[matchPath(b.RecordID)])
		})
	}
	return m, all, nil
}

// order returns the places of the postponed records of this login, from 1; nil for none.
func (v *visit) order() map[string]int {
	var order map[string]int
	for i, path := range v.kept(keyLater) {
		if order == nil {
			order = map[string]int{}
		}
		order[path] = i + 1
	}
	return order
}

// cut returns one page of a group's rows behind the place in the address, and the place of the last row if there are
// more. The place of a row gone since stays valid.
func (v *visit) cut(rows []admin.Likeness, most int) ([]admin.Likeness, string) {
	if after := strings.SplitN(v.filled("after"), "|", 3); len(after) == 3 && len(rows) > 0 {
		last, order := admin.Likeness{RecordID: state.RecordID{Connection: after[1], SourceID: after[2]}, Since: after[0],
			Group: rows[0].Group}, v.order()
		rows = slices.DeleteFunc(rows, func(l admin.Likeness) bool {
			return cmp.Or(cmp.Compare(order[matchPath(l.RecordID)], order[matchPath(last.RecordID)]),
				admin.CompareLikeness(l, last)) <= 0
		})
	}
	if len(rows) <= most {
		return rows, ""
	}
	last := rows[most-1]
	return rows[:most], last.Since + "|" + last.Connection + "|" + last.SourceID
}

// inGroup returns those of a group.
func inGroup(all []admin.Likeness, g admin.Likelihood) []admin.Likeness {
	return slices.DeleteFunc(slices.Clone(all), func(l admin.Likeness) bool { return l.Group != g })
}

// unreadMatches is a connection with hidden matches.
type unreadMatches struct {
	Connection, Path string
	Line             int
}

// kept returns the lines stored with the login.
func (v *visit) kept(name string) []string {
	return strings.FieldsFunc(v.pages.logins.GetString(v.Context(), name), func(r rune) bool { return r == '\n' })
}

// matchRow is one of the list.
type matchRow struct {
	state.RecordID
	Name, Path, Alike, ID string
	Score                 int
	Ours, Theirs          shownSide
	Customer              string // the best candidate
	More                  string // a note that there are others
	Since                 time.Time
	Claimed               bool
}

// shownSide is one side of a pair in a list, as far as the role sees it.
type shownSide struct{ Name, Number, Email, Phone, Place string }

// sideFor removes values hidden from the login's role.
func (v *visit) sideFor(s match.Side) shownSide {
	if !v.User.Role.May(Operator) {
		return shownSide{Name: s.Name}
	}
	return shownSide{s.Name, "", s.Email, s.Phone, strings.TrimSpace(s.Postcode + " " + s.City)}
}

func (v *visit) matchRows(some []admin.Likeness) ([]matchRow, error) {
	ids := make([]state.RecordID, len(some))
	for i, l := range some {
		ids[i] = l.RecordID
	}
	labels, err := v.ledger().LabelsOf(v.Context(), ids)
	if err != nil {
		return nil, err
	}
	m, err := v.matcher()
	if err != nil {
		return nil, err
	}
	var out []matchRow
	for _, l := range some {
		best := l.Candidates[0]
		row := matchRow{RecordID: l.RecordID, Name: labels[l.RecordID].Name, Path: matchPath(l.RecordID),
			Alike: match.Why(best.Reasons), Score: best.Score, Customer: best.BillingID, ID: likelyID(l), Since: since(l.Since),
			Claimed: l.Claimed}
		if n := len(l.Candidates); n > 1 {
			row.More = connector.Plural(n, "customer") + " match it"
		}
		ours, theirs, err := m.Sides(v.Context(), l)
		if err != nil {
			return nil, err
		}
		row.Ours, row.Theirs = v.sideFor(ours), v.sideFor(theirs)
		row.Ours.Number = l.SourceID
		out = append(out, row)
	}
	return out, nil
}

// likelyID names a pair in a form.
func likelyID(l admin.Likeness) string {
	return matchPath(l.RecordID) + "?customer=" + url.QueryEscape(l.Candidates[0].BillingID)
}

// matches lists records similar to customers of the billing service, by certainty.
func (v *visit) matches() error {
	_, all, err := v.undecided()
	if err != nil {
		return err
	}
	content := struct {
		Groups []choiceOf
		Total  int
		Likely int
		Here   admin.Likelihood
		Title  string
		Rows   []matchRow
		First  string // the first one to decide
		May    bool
		Many   bool // connections
		Pager  pager
		At     time.Time
		Back   string
		Linked int // and not sent yet
		Unread []unreadMatches
		Stops  []state.CreateStop
	}{Total: len(all.Rows), Many: len(v.pages.cfg.Connections) > 1, May: v.User.Role.May(Operator), At: all.At}
	if content.May {
		content.Back = v.lastWords()
		if content.Linked, err = v.ledger().PendingLinkCount(v.Context()); err != nil {
			return err
		}
	}
	if content.Stops, err = admin.Stops(v.Context(), v.ledger(), v.pages.cfg.Connections); err != nil {
		return err
	}
	for _, u := range all.Unread {
		content.Unread = append(content.Unread, unreadMatches{u.Connection, mappingPath(u.Connection), u.Line})
	}
	by := map[admin.Likelihood][]admin.Likeness{}
	for _, l := range all.Rows {
		by[l.Group] = append(by[l.Group], l)
	}
	content.Likely = len(by[admin.Likely])
	if content.Here = admin.Likelihood(v.filled("group")); by[content.Here] == nil && len(all.Rows) > 0 {
		content.Here = all.Rows[0].Group
	}
	for _, g := range admin.Likelihoods {
		content.Groups = append(content.Groups,
			choiceOf{groupWords[g], "/matches?group=" + string(g), len(by[g]), g == content.Here})
	}
	content.Title = groupWords[content.Here]
	some := by[content.Here]
	if len(some) > 0 {
		content.First = matchPath(some[0].RecordID)
	}
	some, next := v.cut(some, rowsShown)
	content.Pager = v.page(next).of(len(some), len(by[content.Here]))
	if content.Rows, err = v.matchRows(some); err != nil {
		return err
	}
	return v.show("matches", "Matches", content)
}

// choiceOf is one of the groups to choose from.
type choiceOf struct {
	Label, Path string
	Count       int
	Here        bool
}

// sideBySide is a field on both sides.
type sideBySide struct {
	Field, Ours, Theirs string
	Says                chip
}

// matchPage is a record beside a similar customer.
type matchPage struct {
	matchRow
	Candidates []choiceOf
	Group      string
	Sides      []sideBySide
	Traits     string
	Mandate    chip
	Diff       []side
	Accept     admin.Preview // the effect of each answer
	Reject     admin.Preview
	Seen       string
	Read       bool
	WhyNot     string // why the customer cannot be had
	May, Link  bool
	Place, Of  int
	Prev, Next string
	Reason     string
	Keep       bool   // the reason is used for the next ones as well
	Problem    string // why the last decision did not count
	Back       string
}

// match shows a record beside a similar customer.
func (v *visit) match() error { return v.matchWith(http.StatusOK, "") }

// matchWith shows the pair of the address, and beside it why a decision did not count, with what was typed.
func (v *visit) matchWith(status int, wrong string) error {
	m, now, err := v.undecided()
	if err != nil {
		return err
	}
	all := now.Rows
	at := v.among(all)
	if at < 0 {
		return decidedMeanwhile(http.StatusNotFound)
	}
	l := all[at]
	one := l.Candidates[0]
	if i := slices.IndexFunc(l.Candidates,
		func(c state.MatchCandidate) bool { return c.BillingID == v.filled("customer") }); i >= 0 {
		one = l.Candidates[i]
	}
	rows, err := v.matchRows(all[at : at+1])
	if err != nil {
		return err
	}
	p := matchPage{matchRow: rows[0], Group: groupWords[l.Group], Traits: scored(one), Place: at + 1, Of: len(all),
		May: v.User.Role.May(Operator)}
	p.Customer = one.BillingID
	if p.May {
		p.Reason, p.Back = v.pages.logins.GetString(v.Context(), keyWhy), v.lastWords()
		p.Keep = p.Reason != ""
	}
	if at > 0 {
		p.Prev = matchPath(all[at-1].RecordID)
	}
	if at+1 < len(all) {
		p.Next = matchPath(all[at+1].RecordID)
	}
	if len(l.Candidates) > 1 {
		for i, c := range l.Candidates[:min(len(l.Candidates), 20)] {
			p.Candidates = append(p.Candidates,
				choiceOf{fmt.Sprintf("Match %d: %s", i+1, scored(c)), p.Path + "?customer=" + url.QueryEscape(c.BillingID), 0,
					c == one})
		}
	}
	u, _, err := m.Wanted(v.Context(), l.RecordID)
	if err != nil {
		return err
	}
	h, err := m.Beside(v.Context(), l.RecordID, one.BillingID)
	switch {
	case errors.Is(err, syncer.ErrCarriesAnother):
		p.WhyNot = "The customer has another payer's number."
	case errors.Is(err, syncer.ErrNoCustomer):
		p.WhyNot = "The customer no longer exists."
	case admin.NotHad(err):
		p.WhyNot = "The customer can no longer be linked to this payer."
	}
	p.Read = err == nil
	p.Link = p.May && p.Read
	v.compare(&p, u, h)
	m.ReadAhead(all[at+1:])
	if wrong != "" {
		p.Problem, p.Reason, p.Keep = wrong, v.filled("reason"), v.filled("keep") != ""
		return v.showAs(status, "match", "Same customer?", p)
	}
	return v.show("match", "Same customer?", p)
}

// compare puts the fields of both beside each other.
func (v *visit) compare(p *matchPage, u syncer.Unlinked, h syncer.Holder) {
	ours, theirs := match.Sides(match.Record{ID: u.SourceID, Want: u.Want}, match.Customer{RemoteCustomer: h.Have})
	same, apart := match.SameName(ours.Name, theirs.Name)
	may := v.User.Role.May(Operator)
	for _, f := range []struct {
		field, ours, theirs string
		open                bool // to every role
		equal               func(ours, theirs string) bool
	}{
		{"Name", ours.Name, theirs.Name, true, match.EqualTexts},
		{"E-mail", ours.Email, theirs.Email, false, match.EqualTexts},
		{"Phone", ours.Phone, theirs.Phone, false, match.EqualPhones},
		{"Street", ours.Street, theirs.Street, false, match.EqualStreets},
		{"Postcode", ours.Postcode, theirs.Postcode, false, match.EqualPostcodes},
		{"City", ours.City, theirs.City, false, match.EqualTexts},
		{"Company number", ours.Number, theirs.Number, false, match.EqualTexts},
	} {
		if f.ours+f.theirs == "" {
			continue
		}
		s := sideBySide{f.field, f.ours, f.theirs, chip{"–", "not read", none}}
		switch {
		case !p.Read:
		case f.ours == "" || f.theirs == "":
			s.Says = chip{"–", "one side is blank", none}
		case f.equal(f.ours, f.theirs):
			s.Says = chip{"✓", "equal", good}
		case same && f.field == "Name":
			if s.Says = (chip{"✓", "same, spelt differently", good}); apart != "" {
				s.Says.Word = "apart from “" + apart + "”"
			}
		default:
			s.Says = chip{"✕", "differs", stopped}
		}
		if !may && !f.open {
			s.Ours, s.Theirs = hiddenFrom(f.ours), hiddenFrom(f.theirs)
		}
		p.Sides = append(p.Sides, s)
	}
	p.Mandate = mandate("")
	if h.Have.Mandate != nil {
		p.Mandate = mandate(string(h.Have.Mandate.Status))
	}
	if may {
		p.Accept = admin.AcceptedBy(p.RecordID, h)
		p.Reject = admin.Proposal{Decision: admin.Decision{Act: connector.ActReject}}.Preview()
		p.Seen = seenOf(p.Accept)
		for _, f := range (admin.Privacy{Whole: true}).Diff(p.Accept.Changes) {
			p.Diff = append(p.Diff, side{Label: admin.FieldLabel(f.Path), Theirs: f.From, Ours: f.To})
		}
	}
}
