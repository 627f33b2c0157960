package pages

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// linkedRow is a link not sent yet.
type linkedRow struct {
	ID, Number, Name, Connection, Path string
	At                                 time.Time
	Ticked                             bool
	Then                               string // with all of the same moment ticked
}

// pairID names a pair in a form.
func pairID(p state.PendingLink) string {
	return strings.Join([]string{p.Connection, p.SourceID, p.BillingID}, "\x1f")
}

// linked lists the links not sent yet. The last group linked together is ticked, or the group of the time in the
// address.
func (v *visit) linked() error {
	var after state.PendingLink
	if p := strings.SplitN(v.filled("after"), "|", 3); len(p) == 3 {
		after = state.PendingLink{At: p[0], RecordID: state.RecordID{Connection: p[1], SourceID: p[2]}}
	}
	some, err := v.ledger().PendingLinks(v.Context(), after, mostTicked+1)
	if err != nil {
		return err
	}
	next := ""
	if len(some) > mostTicked {
		some = some[:mostTicked]
		last := some[mostTicked-1]
		next = strings.Join([]string{last.At, last.Connection, last.SourceID}, "|")
	}
	ids := make([]state.RecordID, len(some))
	for i, p := range some {
		ids[i] = p.RecordID
	}
	labels, err := v.ledger().LabelsOf(v.Context(), ids)
	if err != nil {
		return err
	}
	at := v.filled("at")
	content := struct {
		Rows  []linkedRow
		Count int
		Pager pager
	}{Pager: v.page(next)}
	if content.Count, err = v.ledger().PendingLinkCount(v.Context()); err != nil {
		return err
	}
	for _, p := range some {
		at = cmp.Or(at, p.At)
		content.Rows = append(content.Rows,
			linkedRow{pairID(p), p.SourceID, labels[p.RecordID].Name, p.Connection, payerPath(p.RecordID), since(p.At),
				p.At == at, v.with("at", p.At)})
	}
	return v.show("linked", "Linked, waiting for a run", content)
}

// unlink undoes the ticked links, except links already sent.
func (v *visit) unlink() error {
	by, err := v.operator()
	if err != nil {
		return err
	}
	m, err := v.matcher()
	if err != nil {
		return err
	}
	var pairs []admin.Pair
	for _, id := range v.Form["id"] {
		if p := strings.Split(id, "\x1f"); len(p) == 3 {
			pairs = append(pairs, admin.Pair{RecordID: state.RecordID{Connection: p[0], SourceID: p[1]}, BillingID: p[2]})
		}
	}
	if len(pairs) == 0 {
		return errNothingDone("No payer was selected.", "Go back, select the payers, and try again.")
	}
	left, err := m.TakeBack(v.Context(), pairs, by)
	if err != nil {
		return err
	}
	v.changed()
	return v.done(takenBack(len(pairs), left), "/matches/linked")
}

// takenBack gives the number of undone links and names the others.
func takenBack(asked int, left []admin.Left) string {
	note := connector.Plural(asked-len(left), "link") + " taken back. Nothing was sent by this."
	var sent, underWay []string
	gone := 0
	for _, l := range left {
		switch {
		case errors.Is(l.Why, state.ErrNoPairDecision):
			gone++
		case errors.Is(l.Why, state.ErrUnderWay):
			underWay = append(underWay, l.SourceID)
		default:
			sent = append(sent, l.SourceID)
		}
	}
	note += leftBecause("something was sent since", sent) + leftBecause("a request is under way", underWay)
	if gone > 0 {
		note += fmt.Sprintf(" %s had been taken back before.", connector.Plural(gone, "link"))
	}
	return note
}

// leftBecause names the remaining links and the reason; nothing if there are none.
func leftBecause(why string, ids []string) string {
	n := len(ids)
	if n == 0 {
		return ""
	}
	few := ids[:min(n, 5)]
	note := fmt.Sprintf(" %s left, because %s: %s", connector.Plural(n, "link"), why, strings.Join(few, ", "))
	if n > len(few) {
		note += fmt.Sprintf(" and %d more", n-len(few))
	}
	return note + "."
}
