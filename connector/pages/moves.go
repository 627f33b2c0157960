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

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/match"
	"payersync/connector/syncer"
	"payersync/state"
)

// moveSide is one side of a pair as the page shows it.
type moveSide struct{ ID, Path, Name, Email, Place string }

// moveRow is a pair of an old payer and a new record.
type moveRow struct {
	ID       string // in a form
	Old, New moveSide
	Score    int
	Why      string
	Mandate  chip
	Written  bool
}

// movePage compares the records of two connections.
type movePage struct {
	Olds, News []string // to choose from
	Old, New   string
	Chosen     bool
	Closed     bool // a person decided that the connection moved
	Certain    moveRows
	More       int // certain pairs not shown on the page
	Unsure     moveRows
	Accepted   moveRows
	OnlyOld    int
	OnlyNew    int
}

// moveClose asks whether the old connection is to be closed, because no pair counts before.
type moveClose struct {
	Old, New, Act, Reason, Count string
	IDs                          []string
	Pairs, Undecided             string
}

// Back is the page of the pairs.
func (m moveClose) Back() string { return movesPath(m.Old, m.New) }

// movesPath is the page for two connections.
func movesPath(from, to string) string {
	return "/connections/move?" + url.Values{"old": {from}, "new": {to}}.Encode()
}

// mover returns the service for moves.
func (v *visit) mover() (*admin.Moves, error) {
	if m := v.pages.cfg.Moves; m != nil {
		return m, nil
	}
	return nil, problem{Status: http.StatusConflict, Title: "Payers cannot be moved here",
		Sentence: "These pages were opened without the connections' mappings.", Next: notHere}
}

// moves shows the pairs of a connection's records and another connection's payers.
func (v *visit) moves() error {
	m, err := v.mover()
	if err != nil {
		return err
	}
	p := movePage{News: v.pages.cfg.Connections, Old: v.filled("old"), New: v.filled("new")}
	if p.Olds, err = v.ledger().ConnectionNames(v.Context()); err != nil {
		return err
	}
	p.Chosen = p.Old != "" && p.New != "" && slices.Contains(p.News, p.New)
	if !p.Chosen {
		return v.show("move", "Move payers", p)
	}
	found, err := m.Propose(v.Context(), p.Old, p.New, match.BulkLevel)
	if err != nil {
		return notMovedHere(err)
	}
	if err := v.fillMove(&p, found); err != nil {
		return err
	}
	return v.show("move", "Move payers", p)
}

// moveRows are the rows of a table of moves.
type moveRows []moveRow

// movesOpen is how many rows of each table stand open, so that the page fits a phone.
const movesOpen = 5

// Parts returns the rows that the page shows, and then those that it folds, if there are some.
func (r moveRows) Parts() []moveRows {
	if len(r) <= 2*movesOpen {
		return []moveRows{r}
	}
	return []moveRows{r[:movesOpen], r[movesOpen:]}
}

// fillMove puts a proposal into the tables of the page.
func (v *visit) fillMove(p *movePage, found *admin.MoveProposal) error {
	p.Closed, p.OnlyOld, p.OnlyNew = found.Decision != nil, len(found.OnlyOld), len(found.OnlyNew)
	for _, s := range found.Certain {
		p.Certain = append(p.Certain, moveRowOf(p, *s.Best, found.Mandates))
	}
	if over := len(p.Certain) - mostTicked; over > 0 {
		p.Certain, p.More = p.Certain[:mostTicked], over
	}
	for _, s := range found.Unsure {
		if s.Best != nil {
			p.Unsure = append(p.Unsure, moveRowOf(p, *s.Best, found.Mandates))
		}
		for _, other := range s.Others {
			p.Unsure = append(p.Unsure, moveRowOf(p, other, found.Mandates))
		}
	}
	p.Unsure = p.Unsure[:min(len(p.Unsure), mostTicked)]
	var ids []state.RecordID
	for _, a := range found.Accepted {
		ids = append(ids, a.Old, a.New)
	}
	labels, err := v.ledger().LabelsOf(v.Context(), ids)
	for _, a := range found.Accepted {
		side := func(id state.RecordID) moveSide {
			return moveSide{ID: id.SourceID, Path: payerPath(id), Name: labels[id].Name, Email: labels[id].Email}
		}
		p.Accepted = append(p.Accepted,
			moveRow{ID: moveID(a.Old.SourceID, a.New.SourceID), Old: side(a.Old), New: side(a.New), Written: a.Written})
	}
	return err
}

func moveRowOf(p *movePage, pair match.Pair, mandates map[string]string) moveRow {
	side := func(connection, id string, s match.Side) moveSide {
		return moveSide{id, payerPath(state.RecordID{Connection: connection, SourceID: id}), s.Name, s.Email,
			strings.TrimSpace(s.Postcode + " " + s.City)}
	}
	why := connector.Map(pair.Reasons(), func(r match.Reason) string { return r.Text })
	return moveRow{
		ID: moveID(pair.Customer, pair.Record), Old: side(p.Old, pair.Customer, *pair.Theirs),
		New:   side(p.New, pair.Record, *pair.Ours),
		Score: pair.Score, Why: strings.Join(why, "; "), Mandate: mandate(mandates[pair.Customer]),
	}
}

// moveID names a pair in a form.
func moveID(oldID, newID string) string { return oldID + "\x1f" + newID }

// decideMove stores a person's decisions on the pairs of two connections.
func (v *visit) decideMove() error {
	m, err := v.mover()
	if err != nil {
		return err
	}
	by, err := v.operator()
	if err != nil {
		return err
	}
	from, to, act := v.filled("old"), v.filled("new"), v.filled("act")
	if !slices.Contains(v.pages.cfg.Connections, to) {
		return notMovedHere(state.ErrNoConnection)
	}
	if act == "certain" || act == "undo" {
		if by.Reason, err = v.reason(); err != nil {
			return err
		}
	}
	by.Reason = cmp.Or(by.Reason, "its payers moved to "+to)
	var note string
	switch act {
	case "certain", "pair", "not":
		note, err = v.acceptMove(m, from, to, act, by)
	case "back", "undo":
		note, err = v.takeMoveBack(m, from, to, act, by)
	default:
		return problem{Status: http.StatusBadRequest, Title: "Nothing was decided", Sentence: "The form has no action.",
			Next: "Open the page again, and use one of its buttons."}
	}
	if err != nil {
		return notMovedHere(err)
	}
	if note == "" { // a page asks whether the connection is to be closed
		return nil
	}
	v.changed()
	return v.done(note, movesPath(from, to))
}

// acceptMove accepts the pairs in the form, or rejects one. Without a note it decided nothing: it showed a page that
// asks whether the old connection is to be closed.
func (v *visit) acceptMove(m *admin.Moves, from, to, act string, by syncer.Operator) (note string, err error) {
	found, err := m.Propose(v.Context(), from, to, match.BulkLevel)
	if err != nil {
		return "", err
	}
	var pairs []state.MovePair
	for _, id := range slices.Compact(slices.Sorted(slices.Values(v.Form["id"]))) {
		oldID, newID, _ := strings.Cut(id, "\x1f")
		pair, ok := found.Pair(oldID, newID)
		if !ok {
			return "", problem{Status: http.StatusConflict, Title: "Nothing was decided",
				Sentence: "One of the matches changed since the page was made.", Next: "Open the page again."}
		}
		pairs = append(pairs, pair)
	}
	if len(pairs) == 0 {
		return "", errNothingDone("No match was selected.", "Go back, select the matches, and try again.")
	}
	if act == "not" {
		if err := connector.Each(pairs, func(p state.MovePair) error { return m.Reject(v.Context(), p, by) }); err != nil {
			return "", err
		}
		return "Rejected. Nothing was sent.", nil
	}
	if typed := v.filled("count"); act == "certain" && typed != strconv.Itoa(len(pairs)) {
		return "", errNothingDone(fmt.Sprintf("The number that you typed is not the number of selected matches: %d.",
			len(pairs)), "Go back, check the selection, and type the number.")
	}
	if found.Decision == nil && v.filled("close") != "yes" {
		return "", v.show("moveclose", "Close a connection", moveClose{
			Old: from, New: to, Act: act, Reason: v.filled("reason"), Count: v.filled("count"), IDs: v.Form["id"],
			Pairs: connector.Plural(len(pairs), "pair"), Undecided: found.Undecided(pairs),
		})
	}
	left, err := m.Accept(v.Context(), found, pairs, by)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s accepted. Nothing was sent yet: the next run of %s writes the new keys, within its limits.%s",
		connector.Plural(len(pairs)-len(left), "pair"), to, leftOfMove(left)), nil
}

// takeMoveBack undoes the pairs in the form, or the whole move.
func (v *visit) takeMoveBack(m *admin.Moves, from, to, act string, by syncer.Operator) (note string, err error) {
	var left []state.MoveLeft
	if act == "undo" {
		if left, err = m.Undo(v.Context(), from, to, by); err != nil {
			return "", err
		}
		if len(left) > 0 {
			return fmt.Sprintf("Not all was taken back, so %s stays closed.%s", from, leftOfMove(left)), nil
		}
		return fmt.Sprintf("The move was taken back, and %s is open again. Its next run writes the old keys where new ones were written.", from), nil
	}
	var newIDs []string
	for _, id := range v.Form["id"] {
		_, newID, _ := strings.Cut(id, "\x1f")
		newIDs = append(newIDs, newID)
	}
	if len(newIDs) == 0 {
		return "", errNothingDone("No match was selected.", "Go back, select the matches, and try again.")
	}
	if left, err = m.TakeBack(v.Context(), from, to, newIDs, by); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s taken back. Nothing was sent.%s", connector.Plural(len(newIDs)-len(left), "pair"),
		leftOfMove(left)), nil
}

// leftOfMove names the unchanged pairs.
func leftOfMove(left []state.MoveLeft) string {
	ids := connector.Map(left, func(l state.MoveLeft) string { return fmt.Sprintf("%s (%v)", l.New.SourceID, l.Why) })
	if len(ids) == 0 {
		return ""
	}
	return " Left as they are: " + strings.Join(ids[:min(len(ids), 5)], ", ") + "."
}

// notMovedHere says why a connection is not moved.
func notMovedHere(err error) error {
	var is problem
	var moved *state.MovedError
	p := problem{Status: http.StatusConflict, Title: "Nothing was decided", Next: "Open the page again.", err: err}
	switch {
	case errors.As(err, &is):
		return is
	case errors.As(err, &moved):
		p.Sentence, p.Next = fmt.Sprintf("The payers of %s moved to %s.", moved.Old, moved.New),
			"Choose that connection, or take that move back first."
	case errors.Is(err, admin.ErrNotRead):
		p.Sentence, p.Next = "No record of the new connection is stored yet.",
			"Run it once, and open the page again. Nothing is created before you decide."
	case errors.Is(err, state.ErrNoConnection), errors.Is(err, state.ErrSameConnection):
		p.Sentence, p.Next = "Choose an old connection that has run before, and another one that is configured.",
			"Go back, and choose."
	case errors.Is(err, state.ErrConnectionDecided):
		p.Sentence, p.Next = "Another decision about these connections stands.", "Take that one back first."
	case errors.Is(err, state.ErrUnderWay):
		p.Sentence, p.Next = "A request of the old connection may still arrive.",
			"Run the old connection once more, and try again in a quarter of an hour."
	case errors.Is(err, state.ErrRunning):
		p.Sentence, p.Next = "A run of one of the two connections is in progress.", "Try again when it has ended."
	case errors.Is(err, state.ErrNotDecided):
		p.Sentence = "The move was taken back before."
	default:
		return err
	}
	return p
}
