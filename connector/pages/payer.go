package pages

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/readiness"
	"payersync/connector/writeback"
	"payersync/state"
)

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
	admin.Payer
	Row        payerRow
	Word       string // where it stands, for a payer of whom nothing is the matter; "" to say it as the ledger does
	Path       string
	Matter     admin.Matter
	Facts      state.ReadinessFacts
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
	Live       bool            // its mandate can be cancelled
	Undo       int64           // the update that can be undone; 0 for none
	Field      *writeback.Item // its field in the accounting system, if a person should look at it
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
		if made.IsZero() && c.State == connector.ChangeDone &&
			(c.Action == connector.ActionCreate || c.Action == connector.ActionAdopt) {
			made = c.UpdatedAt
		}
	}
	active := status == connector.MandateActive
	return []stepOn{
		{Title: "Record read", Done: true}, {"In the service", s.LinkState == connector.LinkLinked, made},
		{"Asked to sign", status != "", s.Facts.Mandate.FirstSeen},
		{"Signed", active || status == connector.MandatePending, first[connector.MandatePending]},
		{"Active", active, first[connector.MandateActive]},
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

// Differing returns how many fields visibly differ.
func (s shownPayer) Differing() (n int) {
	for _, f := range s.Different() {
		if f.Differs {
			n++
		}
	}
	return n
}

// Head returns the buttons in the head of the page. Their effects are described below it.
func (s shownPayer) Head() []offer {
	out := slices.Clone(s.Offers)
	for i := range out {
		out[i].Does = ""
	}
	return out
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
	if s.Payer, err = admin.PayerOf(ctx, v.ledger(), id, by, admin.Privacy{Whole: true}); err != nil {
		return s, err
	}
	if s.Matter, err = admin.MatterOf(ctx, v.ledger(), id, by); err != nil {
		return s, err
	}
	status := connector.MandateStatus("")
	if row.MandateStatus != nil {
		status = connector.MandateStatus(*row.MandateStatus)
	}
	s.Waits, s.Cancelled = status == connector.MandateCreated, status == connector.MandateCancelled
	s.Live = status != "" && !s.Cancelled
	facts, err := v.ledger().ReadinessOf(ctx, id)
	if err != nil || facts == nil {
		return s, errors.Join(err, orNoPayer(facts))
	}
	s.Facts = readiness.WithoutExpired(*facts, v.pages.now(), v.pages.cfg.Valid)
	if s.Asking, err = v.ledger().AskingOf(ctx, id); err != nil {
		return s, err
	}
	stands := readiness.Of(s.Facts, v.pages.now())
	s.Gone, s.LeftAt = stands.Class == readiness.LeftBehind && !s.Facts.Stays, stands.Since
	s.Still = stands.Step.Title()
	s.Letters = letterCount{readiness.Times(s.Facts), readiness.FirstSent(s.Facts), readiness.LastSent(s.Facts)}
	if s.Stop = readiness.StopOf(s.Facts); s.Stop != nil {
		s.Stopped = stopWords(*s.Stop)
	}
	next, err := v.pages.cfg.Letters.NextOf(ctx, id)
	if err != nil && !errors.Is(err, admin.ErrCounting) {
		return s, err
	}
	if x, has := next[id]; has && s.Waits {
		s.Next = nextLetter(x)
	}
	if s.Field, err = v.fieldOf(id); err != nil {
		return s, err
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
			if desk := v.pages.cfg.Letters; desk != nil && desk.Desk != nil && desk.Desk.Settings.Test &&
				s.Facts.Handed.Times == 0 {
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
func (v *visit) addOffers(s *shownPayer, by admin.Explainer) (err error) {
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

func orNoPayer(facts *state.ReadinessFacts) error {
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
		state.StopOptedOut: "the payer asked for no more", state.StopBounced: "the address accepts no mail",
		state.StopPerson: "a person stopped them",
	}[s.Why]
	if s.UntilOn != "" {
		why += ", until " + s.UntilOn
	}
	return cmp.Or(why, "they are stopped")
}

// eventsOf are the events of a payer, the newest first.
func (v *visit) eventsOf(p admin.Payer) (out []event, err error) {
	for _, h := range p.History {
		out = append(out, event{At: since(h.ObservedAt), What: "Mandate: " + mandate(h.ToStatus).Word,
			Why: causeWords(h.Cause)})
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
		connector.CauseWebhook: "from a delivery", connector.CauseSweep: "from the sweep",
		connector.CauseLink: "from an answer to our request", connector.CauseCancel: "cancelled by us",
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
		return problem{Status: http.StatusConflict, Title: "There is no signing link",
			Sentence: "Only an unsigned mandate has one.", Next: "Open the payer again."}
	}
	if err := admin.Audit(v.Context(), v.ledger(), state.Entry{Actor: v.User.Name, Action: "show signing links", Subject: s.MandateID}); err != nil {
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
	s.Offers = v.offers(s)
	return v.showPayer(s)
}

// cannotSend is the answer on pages without a billing service.
var cannotSend = problem{Status: http.StatusConflict, Title: "Nothing can be sent from here",
	Sentence: "These pages were opened without the billing service. Nothing was changed.", Next: notHere}
