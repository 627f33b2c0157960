package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/connector/office"
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
var groupWords = map[office.Likelihood]string{office.Likely: "Likely the same", office.Unclear: "Unclear", office.Several: "Several matches"}

// matchPath is the address of a record similar to a customer.
func matchPath(id state.RecordID) string {
	return "/matches/" + url.PathEscape(id.Connection) + "/" + segment(id.SourceID)
}

// scored says how well a customer fits, and why, without a value.
func scored(c state.MatchCandidate) string {
	return fmt.Sprintf("Score %d: %s", c.Score, match.Why(c.Reasons))
}

// matcher returns the service for decisions on matches.
func (v *visit) matcher() (*office.Matches, error) {
	if m := v.pages.cfg.Matches; m != nil {
		return m, nil
	}
	return nil, problem{Status: http.StatusConflict, Title: "Matches cannot be decided here", Sentence: "These pages were opened without the billing service.", Next: notHere}
}

// undecided returns the records waiting for a decision. Records postponed in this login come last.
func (v *visit) undecided() (*office.Matches, office.Waiting, error) {
	m, err := v.matcher()
	if err != nil {
		return nil, office.Waiting{}, err
	}
	all, err := m.Waiting(v.Context())
	if err != nil {
		return nil, all, err
	}
	if order := v.order(); order != nil {
		slices.SortStableFunc(all.Rows, func(a, b office.Likeness) int {
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
func (v *visit) cut(rows []office.Likeness, most int) ([]office.Likeness, string) {
	if after := strings.SplitN(v.filled("after"), "|", 3); len(after) == 3 && len(rows) > 0 {
		last, order := office.Likeness{RecordID: state.RecordID{Connection: after[1], SourceID: after[2]}, Since: after[0], Group: rows[0].Group}, v.order()
		rows = slices.DeleteFunc(rows, func(l office.Likeness) bool {
			return cmp.Or(cmp.Compare(order[matchPath(l.RecordID)], order[matchPath(last.RecordID)]), office.CompareLikeness(l, last)) <= 0
		})
	}
	if len(rows) <= most {
		return rows, ""
	}
	last := rows[most-1]
	return rows[:most], last.Since + "|" + last.Connection + "|" + last.SourceID
}

// inGroup returns those of a group.
func inGroup(all []office.Likeness, g office.Likelihood) []office.Likeness {
	return slices.DeleteFunc(slices.Clone(all), func(l office.Likeness) bool { return l.Group != g })
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

func (v *visit) matchRows(some []office.Likeness) ([]matchRow, error) {
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
		row := matchRow{RecordID: l.RecordID, Name: labels[l.RecordID].Name, Path: matchPath(l.RecordID), Alike: match.Why(best.Reasons), Score: best.Score, Customer: best.BillingID, ID: likelyID(l), Since: since(l.Since), Claimed: l.Claimed}
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
func likelyID(l office.Likeness) string {
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
		Here   office.Likelihood
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
		if content.Linked, err = v.ledger().PromiseCount(v.Context()); err != nil {
			return err
		}
	}
	if content.Stops, err = office.Stops(v.Context(), v.ledger(), v.pages.cfg.Connections); err != nil {
		return err
	}
	for _, u := range all.Unread {
		content.Unread = append(content.Unread, unreadMatches{u.Connection, mappingPath(u.Connection), u.Line})
	}
	by := map[office.Likelihood][]office.Likeness{}
	for _, l := range all.Rows {
		by[l.Group] = append(by[l.Group], l)
	}
	content.Likely = len(by[office.Likely])
	if content.Here = office.Likelihood(v.filled("group")); by[content.Here] == nil && len(all.Rows) > 0 {
		content.Here = all.Rows[0].Group
	}
	for _, g := range office.Likelihoods {
		content.Groups = append(content.Groups, choiceOf{groupWords[g], "/matches?group=" + string(g), len(by[g]), g == content.Here})
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
	Against    []string
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
func (v *visit) match() error { return v.matchWith("") }

// matchWith shows the pair of the address, and beside it why a decision did not count, with what was typed.
func (v *visit) matchWith(wrong string) error {
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
	if i := slices.IndexFunc(l.Candidates, func(c state.MatchCandidate) bool { return c.BillingID == v.filled("customer") }); i >= 0 {
		one = l.Candidates[i]
	}
	rows, err := v.matchRows(all[at : at+1])
	if err != nil {
		return err
	}
	p := matchPage{matchRow: rows[0], Group: groupWords[l.Group], Traits: scored(one), Place: at + 1, Of: len(all), May: v.User.Role.May(Operator)}
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
			p.Candidates = append(p.Candidates, choiceOf{fmt.Sprintf("Match %d: %s", i+1, scored(c)), p.Path + "?customer=" + url.QueryEscape(c.BillingID), 0, c == one})
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
	case office.NotHad(err):
		p.WhyNot = "The customer can no longer be linked to this payer."
	}
	p.Read = err == nil
	p.Link = p.May && p.Read
	v.compare(&p, u, h)
	m.ReadAhead(all[at+1:])
	if wrong != "" {
		p.Problem, p.Reason, p.Keep = wrong, v.filled("reason"), v.filled("keep") != ""
		return v.showAs(http.StatusUnprocessableEntity, "match", "Same customer?", p)
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
		{"Name", ours.Name, theirs.Name, true, match.EqualTexts}, {"E-mail", ours.Email, theirs.Email, false, match.EqualTexts}, {"Phone", ours.Phone, theirs.Phone, false, match.EqualPhones},
		{"Street", ours.Street, theirs.Street, false, match.EqualStreets}, {"Postcode", ours.Postcode, theirs.Postcode, false, match.EqualPostcodes},
		{"City", ours.City, theirs.City, false, match.EqualTexts}, {"Company number", ours.Number, theirs.Number, false, match.EqualTexts},
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
		for _, f := range (office.Privacy{Whole: true}).Diff(h.Diff) {
			p.Diff = append(p.Diff, side{Label: office.FieldLabel(f.Path), Theirs: f.From, Ours: f.To})
		}
		p.Against = h.Against
	}
}

// hiddenFrom stands for a value hidden from a role.
func hiddenFrom(value string) string {
	if value == "" {
		return ""
	}
	return "not shown to the role viewer"
}

// among returns the index of the record named by the address; -1 for none.
func (v *visit) among(all []office.Likeness) int {
	id := state.RecordID{Connection: v.PathValue("connection"), SourceID: idOf(v.PathValue("id"))}
	return slices.IndexFunc(all, func(l office.Likeness) bool { return l.RecordID == id })
}

// decidedMeanwhile means no record waits at the address.
func decidedMeanwhile(status int) problem {
	return problem{Status: status, Title: "This payer needs no decision", Sentence: "Somebody decided on it, or it changed meanwhile. Nothing was changed.", Next: "The list of matches shows the open ones."}
}

// decideMatch stores a person's decision on a pair.
func (v *visit) decideMatch() error {
	by, err := v.operator()
	if err != nil {
		return err
	}
	if v.filled("act") == "back" {
		return v.takeMatchBack(by)
	}
	m, now, err := v.undecided()
	if err != nil {
		return err
	}
	all := now.Rows
	at := v.among(all)
	if at < 0 {
		return decidedMeanwhile(http.StatusConflict)
	}
	l, customer := all[at], v.filled("customer")
	next := "/matches"
	if at+1 < len(all) {
		next = matchPath(all[at+1].RecordID)
	} else if at > 0 {
		next = matchPath(all[0].RecordID)
	}
	if act := v.filled("act"); act != "later" && !slices.ContainsFunc(l.Candidates, func(c state.MatchCandidate) bool { return c.BillingID == customer }) {
		return problem{Status: http.StatusConflict, Title: "The customer has changed", Sentence: "It was linked to another payer, or no longer matches this one. Nothing was changed.", Next: "Open the payer in the list of matches again."}
	}
	if act := v.filled("act"); by.Reason == "" && (act == "same" || act == "not") {
		return v.matchWith("A reason is missing: the audit log keeps why somebody decided. Nothing was decided.")
	}
	v.keepReason(by.Reason)
	note := ""
	switch v.filled("act") {
	case "same":
		err = m.Link(v.Context(), l.RecordID, customer, by)
		note = "Linked. Nothing was sent yet: the next run writes the key on the customer, within its limits."
	case "not":
		err = m.Apart(v.Context(), l.RecordID, []string{customer}, by)
		note = "Rejected. Nothing was sent yet: the next run creates a new customer, unless there is another match."
	case "later":
		later := slices.DeleteFunc(v.kept(keyLater), func(p string) bool { return p == matchPath(l.RecordID) })
		later = append(later, matchPath(l.RecordID))
		v.pages.logins.Put(v.Context(), keyLater, strings.Join(later[max(0, len(later)-mostLater):], "\n"))
		return v.done("Moved to the end of the list until you sign out. Nothing was decided.", next)
	default:
		return problem{Status: http.StatusBadRequest, Title: "Nothing was decided", Sentence: "The form has no action.", Next: "Open the payer, and use one of its buttons."}
	}
	if err != nil {
		return notDecided(err)
	}
	v.pages.logins.Put(v.Context(), keyLastWord, strings.Join([]string{l.Connection, l.SourceID, customer}, "\x1f"))
	v.changed()
	return v.done(note, next)
}

// notDecided says why a word was not taken.
func notDecided(err error) error {
	p := problem{Status: http.StatusConflict, Title: "Nothing was decided", Next: "Open the list of matches again.", err: err}
	switch {
	case errors.Is(err, syncer.ErrCarriesAnother):
		p.Sentence = "The customer now has another payer's number."
	case errors.Is(err, state.ErrSaidMeanwhile):
		p.Sentence = "Somebody else made another decision meanwhile. Their decision stands."
	case errors.Is(err, state.ErrLinkedAlready), errors.Is(err, state.ErrCustomerTaken), errors.Is(err, state.ErrAccepted):
		p.Sentence = "Somebody else linked the payer or the customer meanwhile."
	case errors.Is(err, state.ErrUnderWay):
		p.Sentence, p.Next = "A request for this payer has no answer yet.", "Try again in a quarter of an hour."
	case errors.Is(err, state.ErrNoWord):
		p.Sentence = "It was already taken back, or already sent."
	case office.NotHad(err):
		p.Sentence = "The payer or the customer has changed meanwhile."
	case state.Unwritable(err):
		return err
	default:
		p.Status, p.Sentence, p.Next = http.StatusServiceUnavailable, "payersync could not read the customer in the billing service, so it did not link it.", "Try again in a minute."
	}
	return p
}

// keepReason stores a reason for the next decisions, or drops the stored one.
func (v *visit) keepReason(reason string) {
	if v.filled("keep") == "" {
		reason = ""
	}
	v.pages.logins.Put(v.Context(), keyWhy, reason)
}

// lastWords returns the address of this login's last decision, "" for none.
func (v *visit) lastWords() string {
	if parts := strings.Split(v.pages.logins.GetString(v.Context(), keyLastWord), "\x1f"); len(parts) == 3 {
		return matchPath(state.RecordID{Connection: parts[0], SourceID: parts[1]})
	}
	return ""
}

// takeMatchBack takes back this login's last decision.
func (v *visit) takeMatchBack(by operator) error {
	m, err := v.matcher()
	if err != nil {
		return err
	}
	parts := strings.Split(v.pages.logins.GetString(v.Context(), keyLastWord), "\x1f")
	id := state.RecordID{Connection: v.PathValue("connection"), SourceID: idOf(v.PathValue("id"))}
	if len(parts) != 3 || id != (state.RecordID{Connection: parts[0], SourceID: parts[1]}) {
		return notDecided(state.ErrNoWord)
	}
	left, err := m.TakeBack(v.Context(), []office.Pair{{RecordID: id, BillingID: parts[2]}}, by)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return notDecided(left[0].Why)
	}
	v.pages.logins.Put(v.Context(), keyLastWord, "")
	return v.done("Taken back. Nothing was sent.", matchPath(id))
}

// likely lists all likely matches, to be ticked.
func (v *visit) likely() error {
	_, all, err := v.undecided()
	if err != nil {
		return err
	}
	rows := inGroup(all.Rows, office.Likely)
	content := struct {
		First, Rest []matchRow // those after the first are folded away
		Count       int
		Pager       pager
	}{Count: len(rows)}
	some, next := v.cut(rows, mostTicked)
	content.Pager = v.page(next)
	if content.First, err = v.matchRows(some); err != nil {
		return err
	}
	if len(content.First) > rowsShown {
		content.First, content.Rest = content.First[:rowsShown], content.First[rowsShown:]
	}
	return v.show("likely", "Link the likely ones", content)
}

// mostTicked is how many are linked at once.
const mostTicked = 500

// linkLikely links the ticked and still likely matches, all of them or none.
func (v *visit) linkLikely() error {
	if err := v.fresh(v.URL.Path); err != nil {
		return err
	}
	reason, err := v.reason()
	if err != nil {
		return err
	}
	m, err := v.matcher()
	if err != nil {
		return err
	}
	all, err := m.Now(v.Context())
	if err != nil {
		return err
	}
	still := map[string]office.Likeness{}
	for _, l := range all.Rows {
		if l.Group == office.Likely {
			still[likelyID(l)] = l
		}
	}
	words := map[string][]office.PairWord{}
	n := 0
	for _, id := range slices.Compact(slices.Sorted(slices.Values(v.Form["id"]))) {
		l, ok := still[id]
		if !ok {
			return problem{Status: http.StatusConflict, Title: "Nothing was linked", Sentence: "A selected match changed, or somebody decided on it.", Next: "Open the list again."}
		}
		n++
		words[l.Connection] = append(words[l.Connection], office.PairWord{SourceID: l.SourceID, BillingID: l.Candidates[0].BillingID, Says: state.WordAccept})
	}
	if n == 0 {
		return errNothingDone("No payer was selected.", "Go back, select the payers, and try again.")
	}
	if typed, err := strconv.Atoi(v.filled("count")); err != nil || typed != n {
		return errNothingDone(fmt.Sprintf("The number that you typed is not the number of selected payers: %d.", n), "Go back, check the selection, and type the number.")
	}
	if err := m.SayAll(v.Context(), words, operator{Name: v.User.Name, Reason: reason}); err != nil {
		return notDecided(err)
	}
	v.changed()
	return v.done(fmt.Sprintf("%s linked. Nothing was sent yet: the next run writes the keys on the customers, within its limits. Until then you can take this back.", connector.Plural(n, "payer")), "/matches")
}
