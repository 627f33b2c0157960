package pages

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

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

// askingNotes describe the effects of decisions.
var askingNotes = map[connector.Act]string{
	connector.ActAsk:    "Mandates to request: %s. The next plan lists the signing links. Nothing was sent.",
	connector.ActAskNot: "No mandate request: %s. Nothing was sent.",
}

// askTicked notes a decision on the payers ticked in the list.
func (v *visit) askTicked() error {
	act := map[string]connector.Act{string(connector.Ask): connector.ActAsk,
		string(connector.DoNotAsk): connector.ActAskNot}[v.filled("act")]
	if act == "" {
		return errNothingDone("The form has no decision about mandate requests.", "Open the list of payers again.")
	}
	ids, err := v.ticked()
	if err != nil {
		return err
	}
	reason, err := v.why()
	if err != nil {
		return err
	}
	done, before, with := 0, 0, 0
	for _, id := range ids {
		out, err := v.acts().Perform(v.Context(), admin.Decision{Act: act, Record: id}, v.by(reason))
		switch {
		case errors.Is(err, state.ErrNoRecord):
			continue
		case err != nil:
			return err
		case out.News:
			done++
		default:
			before++
		}
		if out.MandateID != "" {
			with++
		}
	}
	v.changed()
	note := fmt.Sprintf(askingNotes[act], connector.Plural(done, "payer"))
	if before > 0 {
		note += fmt.Sprintf(" %s had this decision before.", number(before))
	}
	if with > 0 && act == connector.ActAsk {
		note += fmt.Sprintf(" %s a mandate already, or had one that was cancelled; no other is asked for by itself.",
			map[bool]string{true: "1 has", false: number(with) + " have"}[with == 1])
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
func (v *visit) notAsked(connection string) ([]admin.NotAsked, error) {
	return admin.NotAskedBy(v.Context(), v.ledger(), connection, func(connection string) string {
		if v.pages.cfg.Mappings == nil {
			return ""
		}
		f, _ := connector.Find(v.pages.cfg.Mappings.Files,
			func(f admin.MappingFile) bool { return f.Connection == connection })
		return f.Path
	})
}
