package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/letters"
	"payersync/state"
)

// lettersPage is the content of the letters page. Viewers see only its counts.
type lettersPage struct {
	Off      bool
	Sender   letters.Sender // the sender of letters to payers
	Operator bool
	Examples bool // there are examples to read
	Plan     *letters.Plan
	TestTo   string // the recipient of a test installation's letters
	Pauses   []state.LetterStop
	Counts   []admin.LetterCount
	Due      int // leave by themselves
	Waiting  int // for a person, together
	Held     int // for a person, each by itself
	Several  bool
	Names    []string // of connections
	Tomorrow string

	Texts     []letterText
	Rows      []letterRow
	Pager     pager
	Alone     []aloneRow
	Undecided []undecidedRow
	More      int // those open to a decision but not listed
	Bounced   []bouncedRow
	Dead      int // with bounced letters, listed or not

	Heard   []admin.BouncedLine // the result of a report about bounced letters
	Misread bool                // not all of it was understood
	Again   string              // the rejected input

	Stale bool
	Known bool // new ones are marked, because the shown ones are remembered
	Fresh []letterRow
	News  int
	Gone  int
}

// letterRow is the recipient of a letter.
type letterRow struct {
	admin.NamedLetter
	Path          string
	Local, Domain string // of the e-mail address
	New           bool
}

// letterText is a letter in full, a line at a time: each is somebody else's text.
type letterText struct {
	Row   letterRow
	Lines []string
}

// aloneRow is a letter to approve individually.
type aloneRow struct {
	letterText
	Why, Hash string
}

// undecidedRow is a submitted letter with an outcome for a person to state.
type undecidedRow struct {
	state.Letter
	Path, Name string
	Said       chip
	Unclear    bool
}

// kindWords are the names of letters.
var kindWords = map[letters.Kind]string{
	letters.Invitation: "Invitation", letters.Reminder: "Reminder", letters.LastCall: "Last reminder",
	letters.Replaced: "New signing link",
}

// letterKind returns the name of a letter, planned or stored.
func letterKind(kind any) string {
	name := fmt.Sprint(kind)
	if word := kindWords[letters.Kind(name)]; word != "" {
		return word
	}
	return name
}

// nextLetter says when a payer's next letter comes, or why none does, with a capital and a full
// stop.
func nextLetter(x letters.Next) string {
	on := ""
	if x.On != (letters.Day{}) {
		on = time.Date(x.On.Year, x.On.Month, x.On.Day, 0, 0, 0, 0, time.UTC).Format("2 Jan 2006")
	}
	switch x.What {
	case letters.Due:
		return letterKind(x.Kind) + ": due now."
	case letters.Waits:
		return letterKind(x.Kind) + ": waits for a decision, because " + x.Why.Sentence() + "."
	case letters.Later:
		return letterKind(x.Kind) + " on " + on + "."
	case letters.Paused:
		if on != "" {
			return "Paused until " + on + "."
		}
		return "Paused: " + x.Why.Sentence() + "."
	}
	return "None: " + x.Why.Sentence() + "."
}

// letters shows the due and waiting letters.
func (v *visit) letters() error {
	page, err := v.lettersPage(v.pages.cfg.Letters.Latest)
	switch {
	case errors.Is(err, admin.ErrCounting):
		return v.show("counting", "Counting", v.with())
	case err != nil:
		return err
	}
	return v.show("letters", "Letters", page)
}

// lettersPage returns the page for a look's result, if letters are on.
func (v *visit) lettersPage(look func(context.Context) (*letters.Plan, error)) (*lettersPage, error) {
	desk := v.pages.cfg.Letters
	page := &lettersPage{Off: !desk.On(), Examples: desk != nil && desk.Example != nil,
		Operator: v.User.Role.May(Operator), Several: len(v.pages.cfg.Connections) > 1, Names: v.pages.cfg.Connections}
	if page.Off {
		if desk != nil {
			page.Sender = desk.Desk.Settings.Sender
		}
		return page, nil
	}
	ctx := v.Context()
	var err error
	if page.Plan, err = look(ctx); err != nil {
		return nil, err
	}
	if page.Pauses, err = desk.Pauses(ctx); err != nil {
		return nil, err
	}
	page.Counts, page.Due, page.Waiting = admin.CountLetters(page.Plan), page.Plan.Count(letters.Due, ""),
		len(page.Plan.Batch.Letters)
	page.Held = page.Plan.Count(letters.Waits, "") - page.Waiting
	page.Tomorrow = page.Plan.At.AddDate(0, 0, 1).Format(time.DateOnly)
	if !page.Operator {
		return page, nil
	}
	if desk.Desk.Settings.Test {
		page.TestTo = desk.Desk.Settings.TestTo
	}
	desk.Remember(page.Plan.Batch)
	return page, errors.Join(v.addBatch(page), v.addAlone(page), v.addUndecided(page), v.addBounced(page))
}

// addBatch adds the letters of the waiting batch: some in full, and a page of the list.
func (v *visit) addBatch(page *lettersPage) error {
	batch := page.Plan.Batch.Letters
	examples, err := v.letterRows(admin.Examples(batch))
	if err != nil {
		return err
	}
	for _, row := range examples {
		text, err := v.letterText(row)
		if err != nil {
			return err
		}
		page.Texts = append(page.Texts, text)
	}
	shown, next := after(batch, v.filled("after"))
	page.Pager = v.page(next)
	page.Rows, err = v.letterRows(shown)
	return err
}

// after returns one page of the letters behind a place, and the place of the last one if there are more. "" is the
// beginning. A place stays valid after its letter has left the list.
func after(all []letters.Next, place string) (shown []letters.Next, next string) {
	connection, id, _ := strings.Cut(place, "/")
	for _, x := range all {
		if place != "" && (x.Connection < connection || x.Connection == connection && x.SourceID <= id) {
			continue
		}
		if len(shown) == rowsShown {
			last := shown[rowsShown-1]
			return shown, last.Connection + "/" + last.SourceID
		}
		shown = append(shown, x)
	}
	return shown, ""
}

func (v *visit) letterRows(next []letters.Next) ([]letterRow, error) {
	named, err := v.pages.cfg.Letters.Named(v.Context(), next)
	rows := make([]letterRow, len(named))
	for i, x := range named {
		rows[i] = letterRow{NamedLetter: x, Path: payerPath(x.RecordID)}
		address := v.email(x.Label.Email)
		at := strings.IndexByte(address, '@') + 1
		rows[i].Local, rows[i].Domain = address[:at], address[at:]
	}
	return rows, err
}

func (v *visit) letterText(row letterRow) (letterText, error) {
	text, err := v.pages.cfg.Letters.Text(v.Context(), row.Next)
	return letterText{row, strings.Split(text, "\n")}, err
}

// addAlone adds the letters to approve individually, each in full.
func (v *visit) addAlone(page *lettersPage) error {
	var alone []letters.Next
	for _, x := range page.Plan.Next {
		if x.What == letters.Waits && x.Why.Alone() && len(alone) < rowsShown {
			alone = append(alone, x)
		}
	}
	rows, err := v.letterRows(alone)
	if err != nil {
		return err
	}
	for _, row := range rows {
		text, err := v.letterText(row)
		if err != nil {
			return err
		}
		page.Alone = append(page.Alone,
			aloneRow{text, upper(row.Why.Sentence()) + ".", page.Plan.Alone([]state.RecordID{row.RecordID}).Hash})
	}
	return nil
}

// addUndecided adds the letters with an outcome for a person to state.
func (v *visit) addUndecided(page *lettersPage) error {
	found, err := v.pages.cfg.Letters.Undecided(v.Context(), page.Plan)
	if err != nil {
		return err
	}
	if len(found) > rowsShown {
		page.More, found = len(found)-rowsShown, found[:rowsShown]
	}
	ids := make([]state.RecordID, len(found))
	for i, t := range found {
		ids[i] = t.RecordID
	}
	labels, err := v.ledger().LabelsOf(v.Context(), ids)
	for i, t := range found {
		row := undecidedRow{Letter: t, Path: payerPath(t.RecordID), Name: labels[ids[i]].Name,
			Unclear: t.State == state.MessageUnclear, Said: chip{"✕", "Refused", stopped}}
		switch t.State {
		case state.MessageUnclear:
			row.Said = chip{"?", "Delivery unknown", waits}
		case state.MessageDeferred:
			row.Said = chip{"✕", "Postponed too often", stopped}
		}
		page.Undecided = append(page.Undecided, row)
	}
	return err
}

// desk returns the letters service and the operator, or a problem if letters are off.
func (v *visit) desk() (*admin.Letters, operator, error) {
	by, err := v.operator()
	if err != nil {
		return nil, by, err
	}
	if !v.pages.cfg.Letters.On() {
		return nil, by, problem{Status: http.StatusConflict, Title: "Letters are off",
			Sentence: "payersync sends no letters, so nothing was changed.",
			Next:     "The operator of payersync turns them on with letters.sender in the configuration."}
	}
	return v.pages.cfg.Letters, by, nil
}

// approveLetters releases exactly the letters shown to the visitor.
func (v *visit) approveLetters() error {
	desk, by, err := v.desk()
	if err != nil {
		return err
	}
	n, err := desk.Approve(v.Context(), v.filled("shown"), by)
	switch {
	case errors.Is(err, letters.ErrChanged), errors.Is(err, letters.ErrNothing):
		return v.staleLetters()
	case err != nil:
		return err
	}
	v.changed()
	return v.done(connector.Plural(n,
		"letter")+" approved. Nothing was sent yet: payersync sends them during the hours for letters, after a last check of each payer.", "/mandates/letters")
}

// staleLetters answers a visitor with an outdated list of letters, and shows the new list.
func (v *visit) staleLetters() error {
	v.changed()
	page, err := v.lettersPage(v.pages.cfg.Letters.Desk.Plan)
	if err != nil {
		return err
	}
	page.Stale = true
	var fresh []letters.Next
	fresh, page.Gone, page.Known = v.pages.cfg.Letters.News(v.filled("shown"), page.Plan.Batch)
	page.News = len(fresh)
	if page.Fresh, err = v.letterRows(fresh[:min(rowsShown, len(fresh))]); err != nil {
		return err
	}
	for i, r := range page.Rows {
		page.Rows[i].New = slices.ContainsFunc(fresh, func(x letters.Next) bool { return x.MandateID == r.MandateID })
	}
	return v.showAs(http.StatusConflict, "letters", "The letters changed", page)
}

// approveAlone releases one letter to approve individually.
func (v *visit) approveAlone() error {
	desk, by, err := v.desk()
	if err != nil {
		return err
	}
	connection, id, _ := strings.Cut(v.filled("payer"), "/")
	_, err = desk.ApproveAlone(v.Context(), []state.RecordID{{Connection: connection, SourceID: id}}, v.filled("shown"),
		id, by)
	switch {
	case errors.Is(err, letters.ErrChanged), errors.Is(err, letters.ErrNothing):
		return problem{Status: http.StatusConflict, Title: "The letter changed",
			Sentence: "The letter changed, or no longer waits. Nothing was approved.",
			Next:     "Go back to the letters, and look again."}
	case err != nil:
		return err
	}
	v.changed()
	return v.done("1 letter approved. Nothing was sent yet: payersync sends it during the hours for letters.",
		"/mandates/letters")
}

// whose returns the connection of a form, "" for all, and its display name.
func (v *visit) whose() (connection, called string, err error) {
	if connection = v.filled("connection"); connection == "" {
		return "", "All letters", nil
	}
	if !slices.Contains(v.pages.cfg.Connections, connection) {
		return "", "", problem{Status: http.StatusUnprocessableEntity, Title: "Nothing was changed",
			Sentence: "There is no connection of this name.", Next: "Go back, choose one, and try again."}
	}
	return connection, "Letters of " + connection, nil
}

// pauseLetters keeps all letters back, or those of a connection.
func (v *visit) pauseLetters() error {
	desk, by, err := v.desk()
	if err != nil {
		return err
	}
	connection, called, err := v.whose()
	if err != nil {
		return err
	}
	var until letters.Day
	note := called + " are paused until somebody resumes them."
	if text := v.filled("until"); text != "" {
		until, err = letters.ParseDay(text)
		if err != nil || letters.DayOf(v.pages.now()).Since(until) >= 0 {
			return problem{Status: http.StatusUnprocessableEntity, Title: "Nothing was paused",
				Sentence: "The end date is not a date in the future.", Next: "Go back, and enter a later date or none."}
		}
		note = called + " are paused until " + text + "."
	}
	if err := desk.Pause(v.Context(), connection, until, by); err != nil {
		return err
	}
	v.changed()
	return v.done(note+" payersync skips letters that fall due meanwhile.", "/mandates/letters")
}

// resumeLetters takes back a pause or a brake.
func (v *visit) resumeLetters() error {
	desk, by, err := v.desk()
	if err != nil {
		return err
	}
	connection, called, err := v.whose()
	if err != nil {
		return err
	}
	n, err := desk.Resume(v.Context(), connection, by)
	v.changed()
	switch {
	case err != nil:
		return err
	case n == 0:
		return v.done(called+" were not paused.", "/mandates/letters")
	}
	return v.done(called+" are sent again. Missed letters stay skipped.", "/mandates/letters")
}

// continueLetters resumes letters after a restore, a lost journal or a clock change.
func (v *visit) continueLetters() error {
	desk, by, err := v.desk()
	if err != nil {
		return err
	}
	if _, err := v.reason(); err != nil {
		return err
	}
	n, err := desk.Continue(v.Context(), by)
	var unshared *letters.NotSharedError
	switch {
	case errors.As(err, &unshared):
		return problem{Status: http.StatusConflict, Title: "This node does not have the journal of letters",
			Sentence: "Nothing was changed: " + unshared.Error() + ".", Next: "Ask the operators of the nodes."}
	case errors.Is(err, letters.ErrBusy):
		return problem{Status: http.StatusConflict, Title: "Letters are being sent",
			Sentence: "Nothing was changed: another payersync process is sending letters.", Next: "Try again in a few minutes."}
	case err != nil:
		return err
	}
	v.changed()
	return v.done(fmt.Sprintf("Letters continue, and the next ones wait for your approval. The journal had %s that the ledger did not have.", connector.Plural(n, "letter")), "/mandates/letters")
}

// sayOfLetter notes a person's statement about a submitted letter.
func (v *visit) sayOfLetter() error {
	desk, by, err := v.desk()
	if err != nil {
		return err
	}
	notes := map[string]string{state.WordArrived: "Noted: the letter arrived. It counts as sent.",
		state.WordAgain: "payersync sends the letter again when it is due, after a last check of its payer."}
	id, err := strconv.ParseInt(v.filled("letter"), 10, 64)
	word := v.filled("word")
	if err != nil || notes[word] == "" {
		return problem{Status: http.StatusUnprocessableEntity, Title: "Nothing was changed",
			Sentence: "The form names no letter, or no decision.", Next: "Open the letters, and use one of the buttons."}
	}
	err = desk.DecideOnLetter(v.Context(), id, word, by)
	switch {
	case errors.Is(err, state.ErrNotUnclear):
		return problem{Status: http.StatusConflict, Title: "Nothing was changed",
			Sentence: "This letter no longer needs a decision: somebody else decided, or it was sent.",
			Next:     "Go back to the letters, and look again."}
	case err != nil:
		return err
	}
	v.changed()
	return v.done(notes[word], "/mandates/letters")
}
