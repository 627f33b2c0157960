package pages

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/office"
	"payersync/connector/standing"
	"payersync/state"
)

// keySearches is what somebody searched for, by short ids: with the login, sealed, because
// it is a name as often as not. No address, history or log of a proxy ever holds it.
const keySearches = "searches"

// mostSearches is how many searches a login remembers.
const mostSearches = 20

// payerOrders are the sort orders of payers, by their name in an address.
var payerOrders = map[string]state.RecordSort{"": state.ByKey, "days": state.BySince, "mandate": state.ByMandate, "name": office.ByName}

// searchOver is the answer to an expired search.
var searchOver = problem{Status: http.StatusGone, Title: "This search is over", Sentence: "Your sign-in has ended.", Next: "Search again."}

// payerRow is a row of the list of payers.
type payerRow struct {
	Path, Number, Name, Email, Connection string
	ID                                    string // with the connection, for a tick
	Mandate                               chip
	Days                                  int  // since the mandate has its status
	HasDays                               bool // it has a mandate
	Needs                                 string
}

// payers lists all records, including excluded and unsendable ones.
func (v *visit) payers() error {
	q := office.Query{RecordFilter: v.payerFilter(), Text: v.search(v.filled("s"))}
	if v.filled("s") != "" && q.Text == "" {
		return searchOver
	}
	q.Limit = shortRowsShown
	var err error
	if q.After, err = v.rowAfter(v.filled("after")); err != nil {
		return err
	}
	found, err := v.pages.cfg.Lists.Page(v.Context(), q)
	if err != nil {
		return err
	}
	next := ""
	if n := len(found.Rows); found.More && n > 0 {
		next = found.Rows[n-1].Connection + "/" + found.Rows[n-1].SourceID
	}
	rows := make([]payerRow, len(found.Rows))
	for i, r := range found.Rows {
		rows[i] = v.payerRow(r)
	}
	content := payersShown{
		Rows: rows, Text: q.Text, Search: v.filled("s"), By: v.filled("by"), Sorts: v.sorts(), Many: len(v.pages.cfg.Connections) > 1,
		Opened:   v.filled("connection")+v.filled("service")+v.filled("person")+v.filled("days") != "",
		Narrowed: q.Text != "" || q.After != nil || v.narrowed() != "", Cut: found.Cut, Pager: v.page(next),
	}
	if v.User.Role.May(Operator) {
		content.Here = v.with()
		content.Export = strings.Replace(v.with("after", ""), "/payers", "/payers/export", 1)
	}
	if content.Filters, err = v.filters(); err != nil {
		return err
	}
	if content.Mandates, err = v.byMandate(); err != nil {
		return err
	}
	for _, c := range content.Mandates {
		if c.Here && q.Text == "" && !content.Opened {
			content.Pager = content.Pager.of(len(rows), c.Count)
		}
	}
	return v.show("payers", "Payers", content)
}

// payersShown is the data of the list of payers.
type payersShown struct {
	Rows     []payerRow
	Text     string
	Search   string // its id; "" for none
	By       string
	Mandates []choiceOf // with the counts of whole lists
	Filters  []filter
	Opened   bool // one of the filters narrows the list
	Sorts    []choice
	Many     bool // more than one connection
	Narrowed bool
	Cut      bool // there are more than a search gives
	Pager    pager
	Export   string // "" for who may not
	Here     string // this list, for users who may decide on the ticked ones
}

// narrows are the filter fields of an address, in the order of an export's file name.
var narrows = []string{"connection", "mandate", "service", "person", "days"}

// Filter values in addition to the ledger's own.
const (
	anything = "any"  // any finding
	nowhere  = "none" // no payer
)

// inService are the states of a payer in the billing service, in words.
var inService = []option{
	{Value: string(connector.LinkLinked), Label: "There"}, {Value: string(connector.LinkNew), Label: "Waiting to be sent"}, {Value: string(connector.LinkCreating), Label: "Being sent"},
	{Value: string(connector.LinkHeld), Label: "On hold: needs attention"}, {Value: string(connector.LinkConflict), Label: "Customer uncertain"},
	{Value: string(connector.LinkMissing), Label: "Customer missing"}, {Value: nowhere, Label: "Excluded"},
}

// stood are the selectable numbers of days.
var stood = []int{3, 7, 14, 30, 60}

// filter is a choice of the form to narrow the list.
type filter struct {
	Name, Label, All string
	Options          []option
}

// option is an entry of it.
type option struct {
	Value, Label string
	Here         bool
}

// payerFilter returns the address's filter for payers.
func (v *visit) payerFilter() state.RecordFilter {
	f := state.RecordFilter{Mandate: v.filled("mandate"), Link: v.filled("service"), Reason: v.filled("person"), Sort: cmp.Or(payerOrders[v.filled("by")], state.ByKey)}
	if c := v.filled("connection"); slices.Contains(v.pages.cfg.Connections, c) {
		f.Connection = c
	}
	if f.Link == nowhere {
		f.Link, f.Others = "", true
	}
	if f.Reason == anything {
		f.Reason, f.Told = "", true
	}
	if days, err := strconv.Atoi(v.filled("days")); err == nil && slices.Contains(stood, days) {
		f.Stood = v.pages.now().AddDate(0, 0, -days)
	}
	return f
}

// narrowed returns what narrows the list as codes, for the audit log: what was searched for is
// not in it.
func (v *visit) narrowed() string {
	var codes []string
	for _, name := range narrows {
		if value := v.filled(name); value != "" {
			codes = append(codes, name+"="+value)
		}
	}
	return strings.Join(codes, " ")
}

// filters returns the choices of the form, with those of the address chosen.
func (v *visit) filters() (out []filter, err error) {
	if all := v.pages.cfg.Connections; len(all) > 1 {
		books := filter{Name: "connection", Label: "Connection", All: "All"}
		books.Options = append(books.Options, connector.Map(all, func(name string) option { return option{Value: name, Label: name} })...)
		out = append(out, books)
	}
	mandates := filter{Name: "mandate", Label: "Mandate", All: "All"}
	for _, status := range append(slices.Clone(connector.MandateStatuses), state.NoMandate) {
		label := mandate(string(status)).Word
		if status == state.NoMandate {
			label = "No mandate"
		}
		mandates.Options = append(mandates.Options, option{Value: string(status), Label: label})
	}
	person := filter{Name: "person", Label: "Needs attention", All: "All", Options: []option{{Value: anything, Label: "Yes, any finding"}}}
	counts, err := v.ledger().ReasonCounts(v.Context())
	for _, c := range counts {
		if c.Reason == connector.ReasonEventNotUnderstood || c.Reason == connector.ReasonSubscriptionChanged {
			continue // they are of no record
		}
		if c.Count == 0 {
			continue // they were put off, or are told with another record
		}
		person.Options = append(person.Options, option{Value: string(c.Reason), Label: office.ReasonTitle(c.Reason) + " (" + number(c.Count) + ")"})
	}
	days := filter{Name: "days", Label: "Unchanged for", All: "Any time"}
	for _, n := range stood {
		days.Options = append(days.Options, option{Value: strconv.Itoa(n), Label: strconv.Itoa(n) + " days or more"})
	}
	out = append(out, mandates, filter{Name: "service", Label: "In the service", All: "All", Options: slices.Clone(inService)}, person, days)
	for _, f := range out {
		for i := range f.Options {
			f.Options[i].Here = f.Options[i].Value == v.filled(f.Name)
		}
	}
	return out, err
}

// byMandate returns the choices by the status of mandates, with the numbers of the last count.
func (v *visit) byMandate() (out []choiceOf, err error) {
	c, err := v.pages.cfg.Standings.Latest(v.Context())
	if errors.Is(err, office.ErrCounting) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	add := func(status, label string, n int) {
		if here := v.filled("mandate") == status; n > 0 || here {
			out = append(out, choiceOf{label, v.with("mandate", status, "after", ""), n, here})
		}
	}
	add("", "All", c.Records)
	for _, status := range connector.MandateStatuses {
		add(string(status), mandate(string(status)).Word, c.Mandates[status])
	}
	add(state.NoMandate, "No mandate", c.Mandates[""])
	return out, nil
}

// sorts returns the links to the list in each order.
func (v *visit) sorts() (out []choice) {
	for _, by := range []choice{{Label: "number"}, {Label: "name", Path: "name"}, {Label: "mandate", Path: "mandate"}, {Label: "longest unchanged", Path: "days"}} {
		out = append(out, choice{Label: by.Label, Path: v.with("by", by.Path, "after", ""), Here: v.filled("by") == by.Path})
	}
	return out
}

// payerSheet is a row of the export, by the columns' names.
type payerSheet struct {
	Number     string `json:"number"`
	Name       string `json:"name"`
	Email      string `json:"email"`
	Mandate    string `json:"mandate"` // or why there is none, in words
	Since      string `json:"since"`
	Needs      string `json:"needs_a_person"`
	InBooks    string `json:"in_the_books"`
	InService  string `json:"in_the_service"`
	Connection string `json:"connection"`
	Record     string `json:"record"`
}

var payerSheetHeader = []string{"number", "name", "email", "mandate", "since", "needs_a_person", "in_the_books", "in_the_service", "connection", "record"}

func (s payerSheet) cells() []string {
	return []string{s.Number, s.Name, s.Email, s.Mandate, s.Since, s.Needs, s.InBooks, s.InService, s.Connection, s.Record}
}

// exportPayers sends the list in the address as a file. It first notes the requester and the content in the audit log.
func (v *visit) exportPayers() error {
	q := office.Query{RecordFilter: v.payerFilter(), Text: v.search(v.filled("s"))}
	codes := v.narrowed()
	if v.filled("s") != "" {
		if q.Text == "" {
			return searchOver
		}
		codes = strings.TrimSpace(codes + " search")
	}
	if !v.pages.exporting.TryLock() {
		return problem{Status: http.StatusConflict, Title: "The file was not made", Sentence: "Another one is being made just now.", Next: "Wait a few seconds, go back, and try again."}
	}
	defer v.pages.exporting.Unlock()
	found, err := v.pages.cfg.Lists.Page(v.Context(), q)
	if err != nil {
		return err
	}
	rows := make([]payerSheet, len(found.Rows))
	cells := make([][]string, len(rows))
	for i, r := range found.Rows {
		row := v.payerRow(r)
		rows[i] = payerSheet{row.Number, row.Name, row.Email, row.Mandate.Word, r.MandateSince, row.Needs, r.RecordState, r.LinkState, r.Connection, r.SourceID}
		cells[i] = rows[i].cells()
	}
	if err := v.ledger().Do(v.Context(), func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: v.User.Name, Action: "export payers", Subject: connector.Plural(len(rows), "record"), Reason: cmp.Or(codes, "all")})
	}); err != nil {
		return err
	}
	if v.filled("format") != "json" {
		return v.download("payers.csv", payerSheetHeader, cells)
	}
	file, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Disposition", `attachment; filename="payers.json"`)
	_, _ = v.w.Write(file)
	return nil
}

// rowAfter returns the last row before a page; nil for the first page.
func (v *visit) rowAfter(after string) (*state.RecordRow, error) {
	connection, id, ok := strings.Cut(after, "/")
	if !ok {
		return nil, nil
	}
	rows, err := v.ledger().Records(v.Context(), state.RecordFilter{Among: []state.RecordID{{Connection: connection, SourceID: id}}, Limit: 1})
	if err == nil && len(rows) == 0 {
		err = problem{Status: http.StatusConflict, Title: "The list has changed", Sentence: "The last row on the page is no longer in it.", Next: "Begin again at its first page."}
	}
	if err != nil {
		return nil, err
	}
	return &rows[0], nil
}

func (v *visit) payerRow(r state.RecordRow) payerRow {
	row := payerRow{Path: payerPath(r.ID()), ID: v.tickOf(r.ID()), Number: cmp.Or(r.KeyValue, r.SourceID), Connection: r.Connection, Mandate: mandateOf(r)}
	if r.Label != nil {
		row.Number = cmp.Or(r.KeyValue, r.Label.Number, r.SourceID)
		row.Name, row.Email = r.Label.Name, v.email(r.Label.Email)
	}
	if at := since(r.MandateSince); !at.IsZero() {
		row.Days, row.HasDays = int(v.pages.now().Sub(at)/(24*time.Hour)), true
	}
	if r.AttentionReason != nil {
		row.Needs = connector.Reason(*r.AttentionReason).Sentence()
	}
	return row
}

// mandateOf returns the chip of a record: of its mandate, or of why it has none.
func mandateOf(r state.RecordRow) chip {
	switch {
	case r.MandateStatus != nil && *r.MandateStatus != "":
		return mandate(*r.MandateStatus)
	case r.RecordState == "forgotten":
		return chip{"–", "Forgotten", none}
	case r.GivenUp:
		return chip{"–", "Given up", none}
	case r.Decision == string(state.Excluded):
		return chip{"–", "Excluded", none}
	case r.Decision == string(state.Held):
		return chip{"✕", "On hold", stopped}
	case r.LinkState == string(connector.LinkLinked):
		return chip{"–", "No mandate", none}
	default:
		return chip{"–", "Waiting to be sent", none}
	}
}

// email returns an address as visible to the visitor.
func (v *visit) email(address string) string {
	if address == "" || v.User.Role.May(Operator) {
		return address
	}
	name, domain, _ := strings.Cut(address, "@")
	first := []rune(name)
	return string(first[:min(1, len(first))]) + "…@" + domain
}

// payerPath returns the address of a payer's page.
func payerPath(id state.RecordID) string {
	return "/payers/" + url.PathEscape(id.Connection) + "/" + segment(id.SourceID)
}

// segment returns an id as a part of an address. It puts a tilde before a blank id and ids of dots alone, because
// browsers would drop these, and before ids with a leading tilde.
func segment(id string) string {
	if id == "" || id == "." || id == ".." || id[0] == '~' {
		id = "~" + id
	}
	return url.PathEscape(id)
}

// idOf returns the id in a segment.
func idOf(segment string) string { return strings.TrimPrefix(segment, "~") }

// searchPayers stores a search with the login, and redirects to its results among the listed payers.
func (v *visit) searchPayers() error {
	text, to := v.filled("text"), url.Values{}
	for _, name := range append([]string{"by"}, narrows...) { // a search is within the shown ones
		if value := v.filled(name); value != "" {
			to.Set(name, value)
		}
	}
	if text == "" {
		http.Redirect(v.w, v.Request, "/payers?"+to.Encode(), http.StatusSeeOther)
		return nil
	}
	if len(text) > 200 {
		return problem{Status: http.StatusUnprocessableEntity, Title: "The search is too long", Sentence: "A search has at most 200 letters.", Next: "Part of a name is enough."}
	}
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails
	kept := append(v.searches(), hex.EncodeToString(id)+" "+text)
	if len(kept) > mostSearches {
		kept = kept[len(kept)-mostSearches:]
	}
	v.pages.logins.Put(v.Context(), keySearches, strings.Join(kept, "\n"))
	if err := v.keep(); err != nil {
		return err
	}
	to.Set("s", hex.EncodeToString(id))
	http.Redirect(v.w, v.Request, "/payers?"+to.Encode(), http.StatusSeeOther)
	return nil
}

func (v *visit) searches() []string {
	text := v.pages.logins.GetString(v.Context(), keySearches)
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// search returns the search of an id; "" for none.
func (v *visit) search(id string) string {
	for _, line := range v.searches() {
		if of, text, _ := strings.Cut(line, " "); of == id && id != "" {
			return text
		}
	}
	return ""
}

// noPayer is the answer for an unknown payer.
var noPayer = problem{
	Status: http.StatusNotFound, Title: "There is no such payer", Sentence: "No record has or had this number.",
	Next: "Search for a part of the name.",
}

// theRecord returns the record named by an address.
func (v *visit) theRecord() (state.RecordRow, error) {
	id := state.RecordID{Connection: v.PathValue("connection"), SourceID: idOf(v.PathValue("id"))}
	rows, err := v.ledger().Records(v.Context(), state.RecordFilter{Among: []state.RecordID{id}, Limit: 1})
	if err == nil && len(rows) == 0 {
		err = noPayer
	}
	if err != nil {
		return state.RecordRow{}, err
	}
	return rows[0], nil
}

// event is an event in a payer's history.
type event struct {
	At   time.Time
	What string
	Why  string

	Fields []fieldRow // of a change of an existing customer, before and after
	Erased string     // why they are not shown; "" while they are kept
}

// shownPayer is the content of a payer's page.
type shownPayer struct {
	office.Payer
	Row        payerRow
	Word       string // where it stands, for a payer of whom nothing is the matter; "" to say it as the ledger does
	Path       string
	Matter     office.Matter
	Facts      state.Standing
	Asking     state.AskingDecision // a person's, whether it is asked for a mandate
	Since      time.Time            // its state
	Stop       *state.LetterStop    // the stop of letters to it
	Stopped    string               // why, in words
	Letters    letterCount
	Next       string // when its next letter comes, or why none does; "" where nobody writes
	Gone       bool   // it was removed with a valid mandate, not accepted by a person
	LeftAt     time.Time
	Still      string // what its mandate still allows
	Steps      []stepOn
	Events     []event
	Sides      []side
	Changed    bool // others changed the customer
	Raw        bool // the user may see the record, and rules
	Admin      bool // and the record as it was read
	Offers     []offer
	Tellings   []telling // the findings, each with the buttons of its ways out
	Noted      []noted   // decisions not yet executed by a run
	UndoOffers []offer
	alike      []string // its matches, if one may be linked
	Link       string   // only on request
	Lost       bool     // the link was asked for, and is not here
	Waits      bool     // for a signature
	Cancelled  bool
	Live       bool  // its mandate can be cancelled
	Undo       int64 // the update that can be undone; 0 for none
	WhyNot     error
}

// stepOn is a step on the way to a debit.
type stepOn struct {
	Title string
	Done  bool
	At    time.Time // zero for unknown
}

// stepsOn returns the steps on the way to a debit; nil for a payer that has left it.
func stepsOn(s shownPayer, status connector.MandateStatus) []stepOn {
	if s.Gone || s.Cancelled || s.Facts.Left || s.Facts.GivenUp {
		return nil
	}
	first := map[connector.MandateStatus]time.Time{}
	for _, h := range slices.Backward(s.History) {
		if at, to := since(h.ObservedAt), connector.MandateStatus(h.ToStatus); first[to].IsZero() || at.Before(first[to]) {
			first[to] = at
		}
	}
	made := time.Time{}
	for _, c := range s.Changes {
		if made.IsZero() && c.State == connector.ChangeDone && (c.Action == connector.ActionCreate || c.Action == connector.ActionAdopt) {
			made = c.UpdatedAt
		}
	}
	active := status == connector.MandateActive
	return []stepOn{
		{Title: "Record read", Done: true}, {"In the service", s.LinkState == connector.LinkLinked, made}, {"Asked to sign", status != "", s.Facts.Mandate.FirstSeen},
		{"Signed", active || status == connector.MandatePending, first[connector.MandatePending]}, {"Active", active, first[connector.MandateActive]},
	}
}

// Newest returns the first events of the history; Older are the others, folded away.
func (s shownPayer) Newest() []event { return s.Events[:min(len(s.Events), newestEvents)] }

// Older returns the events after the newest.
func (s shownPayer) Older() []event { return s.Events[min(len(s.Events), newestEvents):] }

// newestEvents is how many events of a history are shown at once.
const newestEvents = 6

// Different returns the fields that differ between the two sides, were not sent yet, or carry a decision.
func (s shownPayer) Different() (out []side) {
	return slices.DeleteFunc(slices.Clone(s.Sides), func(f side) bool { return f.Ours == f.Theirs && f.Mark == "" })
}

// Same returns the other fields.
func (s shownPayer) Same() (out []side) {
	return slices.DeleteFunc(slices.Clone(s.Sides), func(f side) bool { return f.Ours != f.Theirs || f.Mark != "" })
}

// letterCount is how often the link was sent, by whomever.
type letterCount struct {
	Times       int
	First, Last time.Time
}

func (s shownPayer) id() state.RecordID {
	return state.RecordID{Connection: s.Connection, SourceID: s.SourceID}
}

// standingWords describe a payer's state and the next step, by mandate status.
var standingWords = map[connector.MandateStatus]string{
	connector.MandateCreated:   "Has not signed yet. Send the signing link, or wait.",
	connector.MandatePending:   "Has signed. The bank decides. You need not do anything.",
	connector.MandateMigrating: "The mandate is moving here from another provider. You need not do anything.",
	connector.MandateActive:    "Can be debited. You need not do anything.",
	connector.MandateCancelled: "Cannot be debited: the mandate was cancelled. Agree on a new one with the payer before you request a signing link.",
}

// payer shows one payer in full.
func (v *visit) payer() error {
	s, err := v.shownPayer()
	if err != nil {
		return err
	}
	return v.showPayer(s)
}

func (v *visit) showPayer(s shownPayer) error {
	return v.show("payer", cmp.Or(s.Row.Name, s.Row.Number), s)
}

func (v *visit) shownPayer() (shownPayer, error) {
	row, err := v.theRecord()
	if err != nil {
		return shownPayer{}, err
	}
	ctx, id := v.Context(), row.ID()
	s := shownPayer{
		Row: v.payerRow(row), Path: payerPath(id), Raw: v.User.Role.May(Operator), Admin: v.User.Role.May(Admin),
	}
	by, whyNot := v.pages.cfg.Explain(ctx, id.Connection)
	s.WhyNot = whyNot
	if s.Payer, err = office.PayerOf(ctx, v.ledger(), id, by, office.Privacy{Whole: true}); err != nil {
		return s, err
	}
	if s.Matter, err = office.MatterOf(ctx, v.ledger(), id, by); err != nil {
		return s, err
	}
	status := connector.MandateStatus("")
	if row.MandateStatus != nil {
		status = connector.MandateStatus(*row.MandateStatus)
	}
	s.Waits, s.Cancelled = status == connector.MandateCreated, status == connector.MandateCancelled
	s.Live = status != "" && !s.Cancelled
	facts, err := v.ledger().StandingOf(ctx, id)
	if err != nil || facts == nil {
		return s, errors.Join(err, orNoPayer(facts))
	}
	s.Facts = standing.WithoutExpired(*facts, v.pages.now(), v.pages.cfg.Valid)
	if s.Asking, err = v.ledger().AskingOf(ctx, id); err != nil {
		return s, err
	}
	stands := standing.Of(s.Facts, v.pages.now())
	s.Gone, s.LeftAt = stands.Class == standing.LeftBehind && !s.Facts.Stays, stands.Since
	s.Still = stands.Step.Title()
	s.Letters = letterCount{standing.Times(s.Facts), standing.FirstSent(s.Facts), standing.LastSent(s.Facts)}
	if s.Stop = standing.StopOf(s.Facts); s.Stop != nil {
		s.Stopped = stopWords(*s.Stop)
	}
	next, err := v.pages.cfg.Letters.NextOf(ctx, id)
	if err != nil && !errors.Is(err, office.ErrCounting) {
		return s, err
	}
	if x, has := next[id]; has && s.Waits {
		s.Next = nextLetter(x)
	}
	s.Undo, s.Steps = undoable(s.Changes), stepsOn(s, status)
	s.Sides, s.Changed = v.sides(s.Payer)
	if s.Events, err = v.eventsOf(s.Payer); err != nil {
		return s, err
	}
	if s.LinkState == connector.LinkLinked && s.Facts.Unasked.Why == "" {
		s.Word = standingWords[status]
		if s.Waits && s.Letters.Times > 0 {
			s.Word = "The signing link was sent, and the payer has not signed yet. Wait, or call them."
			if desk := v.pages.cfg.Letters; desk != nil && desk.Desk != nil && desk.Desk.Settings.Test && s.Facts.Handed.Times == 0 {
				s.Word = "The letters of this test installation do not reach the payer, who has received nothing."
			}
		}
	}
	if s.Facts.GivenUp {
		s.Word = "Given up: a person decided that payersync sends nothing for this payer."
	}
	return s, v.addOffers(&s, by)
}

// addOffers adds the findings about a payer, and the buttons.
func (v *visit) addOffers(s *shownPayer, by office.Explainer) (err error) {
	version := ""
	if by.Mapping != nil {
		version = by.Mapping.Version()
	}
	stored, err := v.ledger().StoredRecord(v.Context(), s.Connection, s.SourceID, version)
	if err != nil {
		return err
	}
	s.Noted = notedOf(stored, s.Matter)
	if s.Customer != nil && len(s.decisionsFor(connector.ActLink)) > 0 {
		if s.alike, err = v.ledger().Alike(v.Context(), *s.Customer, s.Key.Name, s.Connection, s.SourceID); err != nil {
			return err
		}
	}
	if s.Tellings, err = v.tellings(*s); err != nil || !v.User.Role.May(Operator) {
		return err
	}
	s.UndoOffers = v.undoOffers(*s)
	s.Offers = v.offers(*s)
	return nil
}

func orNoPayer(facts *state.Standing) error {
	if facts == nil {
		return noPayer
	}
	return nil
}

// undoable returns the newest change of a customer, if it can be undone.
func undoable(changes []state.PastChange) int64 {
	for _, c := range slices.Backward(changes) {
		switch {
		case c.State != connector.ChangeDone || c.Action == connector.ActionLink:
		case c.Action == connector.ActionUpdate, c.Action == connector.ActionAdopt:
			return c.ID
		default:
			return 0
		}
	}
	return 0
}

// stopWords says why letters are stopped.
func stopWords(s state.LetterStop) string {
	why := map[string]string{
		state.StopOptedOut: "the payer asked for no more", state.StopBounced: "the address accepts no mail", state.StopPerson: "a person stopped them",
	}[s.Why]
	if s.UntilOn != "" {
		why += ", until " + s.UntilOn
	}
	return cmp.Or(why, "they are stopped")
}

// eventsOf are the events of a payer, the newest first.
func (v *visit) eventsOf(p office.Payer) (out []event, err error) {
	for _, h := range p.History {
		out = append(out, event{At: since(h.ObservedAt), What: "Mandate: " + mandate(h.ToStatus).Word, Why: causeWords(h.Cause)})
	}
	for _, c := range p.Changes {
		e := event{At: c.UpdatedAt, What: changeWords(c)}
		if c.RunID != 0 {
			e.Why = "run " + number(int(c.RunID))
		}
		if c.Detail != "" && v.User.Role.May(Operator) {
			e.Why = strings.TrimPrefix(e.Why+". "+c.Detail, ". ")
		}
		if e.Erased = c.Erased.Sentence(); c.Action != connector.ActionCreate {
			e.Fields = v.fieldRows(c.Action, c.Diff, p.Key.Name)
		}
		out = append(out, e)
	}
	sent, err := v.ledger().LettersOf(v.Context(), state.RecordID{Connection: p.Connection, SourceID: p.SourceID})
	for _, l := range sent {
		what := "Letter with the signing link"
		if l.Step > 0 {
			what = "Reminder " + strconv.Itoa(l.Step)
		}
		out = append(out, event{At: cmp.Or(l.EndedAt, l.SendingAt, l.FrozenAt), What: what + ": " + string(l.State)})
	}
	slices.SortStableFunc(out, func(a, b event) int { return b.At.Compare(a.At) })
	return out[:min(len(out), longestLine)], err
}

// longestLine is how many entries a time line has at most.
const longestLine = 100

// causeWords says how a status of a mandate came to be known.
func causeWords(cause string) string {
	words := map[connector.Cause]string{
		connector.CauseWebhook: "from a delivery", connector.CauseSweep: "from the sweep", connector.CauseLink: "from an answer to our request", connector.CauseCancel: "cancelled by us",
	}
	return cmp.Or(words[connector.Cause(cause)], "seen by "+cause)
}

// changeWords describes a change, done or planned.
func changeWords(c state.PastChange) string {
	switch c.State {
	case connector.ChangeDone:
		return actionWord(c.Action)
	case connector.ChangePending:
		return actionWord(c.Action) + ": planned"
	}
	return actionWord(c.Action) + ": " + string(c.State)
}

// actionWord is the action of a change, in a person's words.
func actionWord(a connector.Action) string {
	switch a {
	case connector.ActionCreate:
		return "Created in the billing service"
	case connector.ActionUpdate:
		return "Updated in the billing service"
	case connector.ActionAdopt:
		return "Linked in the billing service"
	case connector.ActionLink:
		return "Signing link requested"
	case connector.ActionUnlink:
		return "Unlinked in the billing service"
	default:
		return string(a)
	}
}

// showLink shows a payer's signing link. The audit log has the visitor first.
func (v *visit) showLink() error {
	s, err := v.shownPayer()
	if err != nil {
		return err
	}
	if v.pages.cfg.Mandates == nil {
		return cannotSend
	}
	if !s.Waits || s.MandateID == "" {
		return problem{Status: http.StatusConflict, Title: "There is no signing link", Sentence: "Only an unsigned mandate has one.", Next: "Open the payer again."}
	}
	if err := v.ledger().Do(v.Context(), func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: v.User.Name, Action: "show signing links", Subject: s.MandateID})
	}); err != nil {
		return err
	}
	expired, err := v.pages.cfg.Mandates.Expired(v.Context(), s.MandateID)
	if err != nil {
		return err
	}
	if !expired {
		if s.Link, err = v.ledger().SigningLink(v.Context(), s.MandateID); err != nil {
			return err
		}
	}
	s.Lost = s.Link == ""
	return v.showPayer(s)
}

// cannotSend is the answer on pages without a billing service.
var cannotSend = problem{Status: http.StatusConflict, Title: "Nothing can be sent from here", Sentence: "These pages were opened without the billing service. Nothing was changed.", Next: notHere}
