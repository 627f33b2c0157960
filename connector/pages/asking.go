package pages

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/office"
	"payersync/state"
)

// askingDeeds are a person's decisions whether a payer without a mandate is asked for one.
func askingDeeds() []deed {
	return []deed{
		{
			name: "ask", label: "Request a mandate", reason: never, asks: never,
			may: func(s shownPayer) bool { return s.mayBeAsked() && !s.isAsked() },
			do:  decideAsking(connector.Ask),
		},
		{
			name: "ask-not", label: "Do not request", reason: never, asks: never,
			may: func(s shownPayer) bool { return s.mayBeAsked() && s.isAsked() },
			do:  decideAsking(connector.DoNotAsk),
		},
		{
			name: "ask-rule", label: "Let the mapping decide", reason: never, asks: never,
			may: func(s shownPayer) bool { return s.Asking.Decision != connector.AskByRule },
			do:  decideAsking(connector.AskByRule),
		},
	}
}

// mayBeAsked reports whether a decision means anything: the payer has no mandate, and none was cancelled.
func (s shownPayer) mayBeAsked() bool { return s.MandateID == "" && !s.Facts.Left && !s.Facts.GivenUp }

// isAsked reports whether the payer is to be asked, by a person's decision or else the newest plan.
func (s shownPayer) isAsked() bool {
	switch s.Asking.Decision {
	case connector.Ask:
		return true
	case connector.DoNotAsk:
		return false
	}
	return s.Facts.Decision == state.Included && s.Facts.Unasked.Why == ""
}

// askingNotes describe the effects of decisions; the page of a payer shows the sentence alone.
var askingNotes = map[connector.AskDecision]string{
	connector.Ask:       "Mandates to request: %s. The next plan lists the signing links. Nothing was sent.",
	connector.DoNotAsk:  "No mandate request: %s. Nothing was sent.",
	connector.AskByRule: "The mapping decides about %s again. Nothing was sent.",
}

func decideAsking(d connector.AskDecision) func(*visit, shownPayer, operator) (string, error) {
	return func(v *visit, s shownPayer, by operator) (string, error) {
		err := wordOn(s, func(ids []state.RecordID, told func(office.Word) error) error {
			return (&office.AskDecisions{Ledger: v.ledger()}).Decide(v.Context(), ids, d, by, told)
		})
		return fmt.Sprintf(askingNotes[d], "this payer"), err
	}
}

// askTicked notes a decision on the payers ticked in the list.
func (v *visit) askTicked() error {
	d := connector.AskDecision(v.filled("act"))
	if d != connector.Ask && d != connector.DoNotAsk {
		return errNothingDone("The form has no decision about mandate requests.", "Open the list of payers again.")
	}
	ids, err := v.ticked()
	if err != nil {
		return err
	}
	by := operator{Name: v.User.Name}
	if by.Reason, err = v.why(); err != nil {
		return err
	}
	done, before, with := 0, 0, 0
	err = (&office.AskDecisions{Ledger: v.ledger()}).Decide(v.Context(), ids, d, by, func(w office.Word) error {
		switch {
		case errors.Is(w.Err, state.ErrNoRecord):
			return nil
		case w.Err != nil:
			return w.Err
		case w.News:
			done++
		default:
			before++
		}
		if w.MandateID != "" {
			with++
		}
		return nil
	})
	v.changed()
	if err != nil {
		return err
	}
	note := fmt.Sprintf(askingNotes[d], connector.Plural(done, "payer"))
	if before > 0 {
		note += fmt.Sprintf(" %s had this decision before.", number(before))
	}
	if with > 0 && d == connector.Ask {
		note += fmt.Sprintf(" %s a mandate already, or had one that was cancelled; no other is asked for by itself.", map[bool]string{true: "1 has", false: number(with) + " have"}[with == 1])
	}
	return v.done(note, "/payers?"+v.back())
}

// tickOf names a record in the list of payers, with its connection if there are several.
func (v *visit) tickOf(id state.RecordID) string {
	if len(v.pages.cfg.Connections) == 1 {
		return id.SourceID
	}
	return id.Connection + "/" + id.SourceID
}

// ticked returns the ticked records of the connections visible to the visitor.
func (v *visit) ticked() (ids []state.RecordID, err error) {
	all := v.Form["id"]
	switch {
	case len(all) == 0:
		return nil, errNothingDone("No payer was selected.", "Go back, select the payers, and try again.")
	case len(all) > shortRowsShown:
		return nil, errNothingDone("The form has more payers than one page.", "Open the list of payers again.")
	}
	for _, text := range all {
		connection, source := v.pages.cfg.Connections[0], text
		if len(v.pages.cfg.Connections) > 1 {
			connection, source, _ = strings.Cut(text, "/")
		}
		if !slices.Contains(v.pages.cfg.Connections, connection) {
			return nil, errNothingDone("A selected payer does not exist.", "Open the list of payers again.")
		}
		ids = append(ids, state.RecordID{Connection: connection, SourceID: source})
	}
	return ids, nil
}

// back returns the query of the form's list.
func (v *visit) back() string {
	_, query, _ := strings.Cut(v.filled("back"), "?")
	return query
}

// notAsked returns the excluding rules of a connection, or of all for "", with their numbers of payers.
func (v *visit) notAsked(connection string) ([]office.NotAsked, error) {
	return office.NotAskedBy(v.Context(), v.ledger(), connection, func(connection string) string {
		if v.pages.cfg.Mappings == nil {
			return ""
		}
		f, _ := connector.Find(v.pages.cfg.Mappings.Files, func(f office.MappingFile) bool { return f.Connection == connection })
		return f.Path
	})
}
