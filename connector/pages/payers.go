package pages

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// keySearches is what somebody searched for, by short ids: with the login, sealed, because
// it is a name as often as not. No address, history or log of a proxy ever holds it.
const keySearches = "searches"

// mostSearches is how many searches a login remembers.
const mostSearches = 20

// payerOrders are the sort orders of payers, by their name in an address.
var payerOrders = map[string]state.RecordSort{"": state.ByKey, "days": state.BySince, "mandate": state.ByMandate,
	"name": admin.ByName}

// searchOver is the answer to an expired search.
var searchOver = problem{Status: http.StatusGone, Title: "This search is over", Sentence: "Your sign-in has ended.",
	Next: "Search again."}

// payerRow is a row of the list of payers.
type payerRow struct {
	Path, Number, Name, Email, Connection string
	ID                                    string // with the connection, for a tick
	Mandate                               chip
	Days                                  int  // since the mandate has its status
	HasDays                               bool // it has a mandate
	Needs                                 string
	Changed                               time.Time // the record, the payer or its mandate
}

// payers lists all records, including excluded and unsendable ones.
func (v *visit) payers() error {
	q := admin.Query{RecordFilter: v.payerFilter(), Text: v.search(v.filled("s"))}
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
		Rows: rows, Text: q.Text, Search: v.filled("s"), By: v.filled("by"), Sorts: v.sorts(),
		Many:     len(v.pages.cfg.Connections) > 1,
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

var payerSheetHeader = []string{"number", "name", "email", "mandate", "since", "needs_a_person", "in_the_books",
	"in_the_service", "connection", "record"}

func (s payerSheet) cells() []string {
	return []string{s.Number, s.Name, s.Email, s.Mandate, s.Since, s.Needs, s.InBooks, s.InService, s.Connection, s.Record}
}

// exportPayers sends the list in the address as a file. It first notes the requester and the content in the audit log.
func (v *visit) exportPayers() error {
	q := admin.Query{RecordFilter: v.payerFilter(), Text: v.search(v.filled("s"))}
	codes := v.narrowed()
	if v.filled("s") != "" {
		if q.Text == "" {
			return searchOver
		}
		codes = strings.TrimSpace(codes + " search")
	}
	if !v.pages.exporting.TryLock() {
		return problem{Status: http.StatusConflict, Title: "The file was not made",
			Sentence: "Another one is being made just now.", Next: "Wait a few seconds, go back, and try again."}
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
		rows[i] = payerSheet{row.Number, row.Name, row.Email, row.Mandate.Word, r.MandateSince, row.Needs, r.RecordState,
			r.LinkState, r.Connection, r.SourceID}
		cells[i] = rows[i].cells()
	}
	if err := admin.Audit(v.Context(), v.ledger(), state.Entry{Actor: v.User.Name, Action: "export payers",
		Subject: connector.Plural(len(rows), "record"), Reason: cmp.Or(codes, "all")}); err != nil {
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
	rows, err := v.ledger().Records(v.Context(),
		state.RecordFilter{Among: []state.RecordID{{Connection: connection, SourceID: id}}, Limit: 1})
	if err == nil && len(rows) == 0 {
		err = problem{Status: http.StatusConflict, Title: "The list has changed",
			Sentence: "The last row on the page is no longer in it.", Next: "Begin again at its first page."}
	}
	if err != nil {
		return nil, err
	}
	return &rows[0], nil
}

func (v *visit) payerRow(r state.RecordRow) payerRow {
	row := payerRow{Path: payerPath(r.ID()), ID: v.tickOf(r.ID()), Number: cmp.Or(r.KeyValue, r.SourceID),
		Connection: r.Connection, Mandate: mandateOf(r), Changed: since(r.ChangedAt)}
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
		return problem{Status: http.StatusUnprocessableEntity, Title: "The search is too long",
			Sentence: "A search has at most 200 letters.", Next: "Part of a name is enough."}
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
