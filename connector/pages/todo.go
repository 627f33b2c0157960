package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

func todoPath(r connector.Reason) string { return "/todo/" + string(r) }

// toldRow is a record with a finding.
type toldRow struct {
	ID     string // for the form
	Number string
	Name   string
	Path   string // "" where it has no page
	Detail string
	Since  string
	Later  *state.PutOff // nil for not
	Pairs  []pair        // of a record, perhaps a payer under a new number
}

// acts are the actions possible here on the ticked records.
type acts struct{ Retry, Close, GiveUp bool }

// actsOn returns the acts able to end a reason.
func actsOn(r connector.Reason) (a acts) {
	for _, w := range r.Ways() {
		switch w.Act {
		case connector.ActRetry:
			a.Retry = true
		case connector.ActClose, connector.ActCloseSubscription:
			a.Close = true
		case connector.ActGiveUp:
			a.GiveUp = true
		}
	}
	return a
}

// onItsPage is a way out with a button on each payer's page.
type onItsPage struct{ Label, Does string }

// waysOnPages returns the ways out without a button on their reason's page.
func waysOnPages(r connector.Reason) (out []onItsPage) {
	for _, w := range r.Ways() {
		switch w.Act {
		case connector.ActRetry, connector.ActClose, connector.ActCloseSubscription, connector.ActGiveUp:
			continue
		}
		if d := deedFor(w.Act); d != nil {
			out = append(out, onItsPage{strings.TrimSuffix(cmp.Or(ownLabels[r][w.Act], d.label, d.facts().Title), "…"), w.Does +
				" " + w.Sends.Sentence()})
		}
	}
	return out
}

// reasonAsked returns the reason named by the address.
func (v *visit) reasonAsked() (connector.Reason, error) {
	r := connector.Reason(v.PathValue("reason"))
	if _, ok := connector.Reasons[r]; !ok {
		return "", problem{Status: http.StatusNotFound, Title: "There is no such finding",
			Sentence: "No finding has this name.", Next: "Look for it in the list of findings."}
	}
	return r, nil
}

// told lists the records with a reason, oldest first, and the possible actions.
func (v *visit) told() error {
	r, err := v.reasonAsked()
	if err != nil {
		return err
	}
	ctx := v.Context()
	later := v.filled("later") != ""
	rows, err := v.ledger().AttentionPage(ctx,
		state.Filter{State: string(r), PutOff: map[bool]string{false: state.NotPutOff, true: state.OnlyPutOff}[later],
			Alone: true, Limit: rowsShown + 1}, placeAfter(v.filled("after")))
	if err != nil {
		return err
	}
	next := ""
	if len(rows) > rowsShown {
		rows = rows[:rowsShown]
		last := rows[rowsShown-1]
		next = last.Since + " " + last.Connection + "/" + last.SourceID
	}
	content := struct {
		Reason   connector.Reason
		Title    string
		Sentence string
		Cure     string
		Who      string
		All      int // with those put off
		Count    int // shown now, or put off
		PutOff   int
		Later    bool // those put off are shown
		Toggle   string
		Oldest   time.Time
		Acts     acts
		Others   []onItsPage
		Paired   int // payers possibly there under a new number, shown with their new records
		On       leads
		May      bool
		Rows     []toldRow
		Pager    pager
		At       time.Time
	}{Reason: r, Title: admin.ReasonTitle(r), Sentence: r.Sentence(), Cure: r.Next(), Who: r.Who().Title(),
		Acts: actsOn(r), Others: waysOnPages(r), Later: later,
		Toggle: v.with("after", "", "later", map[bool]string{false: "1", true: ""}[later]), Pager: v.page(next),
		At: v.pages.now()}
	if content.May = v.User.Role.May(Operator) && v.pages.cfg.Attention != nil; !content.May {
		content.Acts = acts{}
	}
	if on, ok := decided[r]; ok && v.pages.served[on.Path] {
		content.On = on
	}
	counts, err := v.ledger().ReasonCounts(ctx)
	if err != nil {
		return err
	}
	if at := slices.IndexFunc(counts, func(c state.ReasonCount) bool { return c.Reason == r }); at >= 0 {
		c := counts[at]
		content.All, content.PutOff, content.Paired, content.Oldest = c.Count+c.PutOff, c.PutOff, c.Paired, c.Oldest
		if content.Count = c.Count; later {
			content.Count = c.PutOff
		}
	}
	content.Pager = content.Pager.of(len(rows), content.Count)
	if content.Rows, err = v.toldRows(rows); err != nil {
		return err
	}
	if r == connector.ReasonRenumbered {
		if err := v.addPairs(content.Rows); err != nil {
			return err
		}
	}
	return v.show("told", content.Title, content)
}

// addPairs adds the possible payers to rows of renumbered records.
func (v *visit) addPairs(rows []toldRow) error {
	for i, row := range rows {
		connection, source, _ := strings.Cut(row.ID, "/")
		of, err := v.ledger().RenumberingsOf(v.Context(), state.RecordID{Connection: connection, SourceID: source})
		if err != nil {
			return err
		}
		if rows[i].Pairs, err = v.pairsOf(of); err != nil {
			return err
		}
	}
	return nil
}

// toldRows returns rows with the numbers and names of their payers.
func (v *visit) toldRows(rows []state.AttentionRow) ([]toldRow, error) {
	records := make([]state.RecordID, len(rows))
	for i, r := range rows {
		records[i] = state.RecordID{Connection: r.Connection, SourceID: r.SourceID}
	}
	known, err := v.ledger().LabelsOf(v.Context(), records)
	if err != nil {
		return nil, err
	}
	var out []toldRow
	for i, r := range rows {
		id := records[i]
		row := toldRow{ID: id.Connection + "/" + id.SourceID, Number: cmp.Or(known[id].Number, id.SourceID),
			Name: known[id].Name, Detail: r.Detail, Since: r.Since, Later: r.PutOff}
		switch {
		case id.Connection != "":
			row.Path = payerPath(id)
		case id.SourceID != admin.Subscription:
			row.Path = deliveryPath(id.SourceID)
		default:
			row.Path = "/webhooks"
		}
		out = append(out, row)
	}
	return out, nil
}

// placeAfter reads the place of a row of an address.
func placeAfter(text string) state.AttentionRow {
	since, id, _ := strings.Cut(text, " ")
	connection, source, _ := strings.Cut(id, "/")
	return state.AttentionRow{Since: since, Connection: connection, SourceID: source}
}

// errNothingDone is why a form of the to do list did nothing.
func errNothingDone(sentence, next string) problem {
	return problem{Status: http.StatusUnprocessableEntity, Title: "Nothing was changed", Sentence: sentence, Next: next}
}

// settle carries out a person's action on the ticked records, or on a whole group.
func (v *visit) settle() error {
	r, err := v.reasonAsked()
	if err != nil {
		return err
	}
	may, by := actsOn(r), syncer.Operator{Name: v.User.Name}
	if by.Reason, err = v.why(); err != nil {
		return err
	}
	desk := v.pages.cfg.Attention
	act := v.filled("act")
	switch {
	case desk == nil:
		return errNothingDone("These pages cannot do this.", notHere)
	case act == "retry-all" && may.Retry:
		marked, before, err := desk.RetryAll(v.Context(), state.Filter{State: string(r)}, by)
		if err != nil {
			return err
		}
		note := fmt.Sprintf("The next run tries %s again. Nothing was sent yet.", connector.Plural(marked, "payer"))
		if before > 0 {
			note += fmt.Sprintf(" %s had this decision before.", number(before))
		}
		return v.done(note, todoPath(r))
	case act == "retry" && may.Retry, act == "close" && may.Close, act == "give-up" && may.GiveUp, act == "later",
		act == "now":
	default:
		return errNothingDone("This action does not end this finding.", "Open the page of this finding again.")
	}
	ids := v.Form["id"]
	if len(ids) == 0 {
		return errNothingDone("No payer was selected.", "Go back, select the payers, and try again.")
	}
	if len(ids) > rowsShown {
		return errNothingDone("The form has more payers than one page.", "Open the page of this finding again.")
	}
	if act != "retry" && act != "now" {
		if by.Reason, err = v.reason(); err != nil {
			return err
		}
	}
	records, gone, err := v.still(r, ids)
	if err != nil {
		return err
	}
	if act == "later" || act == "now" {
		return v.postpone(act, r, records, by)
	}
	words, err := v.say(act, records, by.Reason)
	v.changed()
	if err != nil {
		return err
	}
	return v.done(settledWords(act, words, gone), todoPath(r))
}

// postpone shows the finding of records again later, or now.
func (v *visit) postpone(act string, r connector.Reason, records []state.RecordID, by syncer.Operator) error {
	desk := v.pages.cfg.Attention
	if act == "later" {
		until, n, err := desk.Later(v.Context(), r, records, by)
		v.changed()
		if err != nil {
			return err
		}
		if n == 0 {
			return errNothingDone("The selected payers no longer have this finding.", "Open the page of this finding again.")
		}
		return v.done(fmt.Sprintf("Postponed until %s: %s. Nothing was sent. The finding is shown again then.",
			until.UTC().Format("2 Jan 2006 15:04 UTC"), connector.Plural(n, "payer")), todoPath(r))
	}
	n, err := desk.TellNow(v.Context(), r, records, by)
	v.changed()
	if err != nil {
		return err
	}
	return v.done(fmt.Sprintf("Shown again: %s. Nothing was sent.", connector.Plural(n, "payer")), todoPath(r))
}

// still returns the ticked records still with a reason, and the number of the others.
func (v *visit) still(r connector.Reason, ids []string) (out []state.RecordID, gone int, err error) {
	for _, text := range ids {
		connection, source, ok := strings.Cut(text, "/")
		if !ok {
			return nil, 0, errNothingDone("A selected payer does not exist.", "Open the page of this finding again.")
		}
		told, err := v.ledger().AttentionOf(v.Context(), connection, source)
		if err != nil {
			return nil, 0, err
		}
		if !slices.ContainsFunc(told, func(a state.AttentionRow) bool { return a.Reason == string(r) }) {
			gone++
			continue
		}
		out = append(out, state.RecordID{Connection: connection, SourceID: source})
	}
	return out, gone, nil
}

// settling are the acts of the form.
var settling = map[string]connector.Act{"retry": connector.ActRetry, "close": connector.ActClose,
	"give-up": connector.ActGiveUp}

// actDone is the result of an act on one payer.
type actDone struct {
	admin.ActResult
	err error // an answer about the payer
}

// say performs a person's act on each of these, and returns the results.
func (v *visit) say(act string, ids []state.RecordID, reason string) (out []actDone, err error) {
	for _, id := range ids {
		d := admin.Decision{Act: settling[act], Record: id}
		if id.Connection == "" && id.SourceID == admin.Subscription && act == "close" {
			d.Act = connector.ActCloseSubscription
		}
		done, err := v.acts().Perform(v.Context(), d, v.by(reason))
		if err := v.ours(err); err != nil {
			return out, err
		}
		out = append(out, actDone{done, err})
	}
	return out, nil
}

// ours returns an error unless it is an answer about one payer.
func (v *visit) ours(err error) error {
	for _, answer := range []error{syncer.ErrNothingToClose, syncer.ErrLeftOut, admin.ErrGivenUp, admin.ErrNoSuchRecord,
		state.ErrNoRecord} {
		if errors.Is(err, answer) {
			return nil
		}
	}
	return err
}

// settledWords describes the result.
func settledWords(act string, words []actDone, gone int) string {
	done, before, not := 0, 0, 0
	for _, w := range words {
		switch {
		case w.err != nil:
			not++
		case w.News:
			done++
		default:
			before++
		}
	}
	text := map[string]string{
		"retry":   "The next run tries %s again. Nothing was sent yet.",
		"close":   "Closed for %s. Nothing was sent, and mandates stay as they are.",
		"give-up": "Given up: %s. Nothing more is sent; customers and mandates stay as they are.",
	}[act]
	note := fmt.Sprintf(text, connector.Plural(done, "payer"))
	if done == 0 {
		note = "Nothing was changed."
	}
	if before > 0 {
		note += fmt.Sprintf(" %s had this decision before.", number(before))
	}
	if not > 0 {
		note += fmt.Sprintf(" It failed for %s.", number(not))
	}
	if gone > 0 {
		note += fmt.Sprintf(" %s no longer had this finding.", number(gone))
	}
	return note
}

// toldHeader are the columns of the file of a group.
var toldHeader = []string{"connection", "record", "number", "name", "reason", "detail", "since", "what_to_do"}

// exportTold sends a group as a file, for the accountant.
func (v *visit) exportTold() error {
	r, err := v.reasonAsked()
	if err != nil {
		return err
	}
	if !v.pages.exporting.TryLock() {
		return problem{Status: http.StatusConflict, Title: "The file was not made",
			Sentence: "Another one is being made just now.", Next: "Wait a few seconds, go back, and try again."}
	}
	defer v.pages.exporting.Unlock()
	var cells [][]string
	found, err := v.ledger().Attention(v.Context(), state.Filter{State: string(r), Alone: true})
	if err != nil {
		return err
	}
	for some := range slices.Chunk(found, 500) {
		rows, err := v.toldRows(some)
		if err != nil {
			return err
		}
		for i, row := range rows {
			cells = append(cells, []string{some[i].Connection, some[i].SourceID, row.Number, row.Name, string(r), row.Detail,
				row.Since, r.Next()})
		}
	}
	if err := admin.Audit(v.Context(), v.ledger(), state.Entry{Actor: v.User.Name, Action: "export to do",
		Subject: connector.Plural(len(cells), "record"), Reason: string(r)}); err != nil {
		return err
	}
	return v.download("todo-"+string(r)+".csv", toldHeader, cells)
}
