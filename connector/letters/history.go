package letters

import (
	"context"
	"slices"
	"time"

	"payersync/connector"
	"payersync/state"
)

// history holds the earlier letters, ours and others'.
type history struct {
	letters   map[string]map[int]*state.Letter // by mandate and step
	first     map[string]Day                   // by mandate
	last      map[state.RecordID]Day           // by payer
	lastThere map[string]Day                   // by recipient
	mandates  map[state.RecordID][]string      // with letters sent
	told      map[string]state.JournalLetter   // by message, known only from the journal
	toldAll   []state.JournalLetter
	sent      []*state.Letter
	today     int // sent today
}

// reached notes a day on which a letter reached a payer, or may have.
func (h *history) reached(mandate string, id state.RecordID, on Day) {
	if first, known := h.first[mandate]; !known || on.Since(first) < 0 {
		h.first[mandate] = on
	}
	if last, known := h.last[id]; !known || on.Since(last) > 0 {
		h.last[id] = on
	}
	if !slices.Contains(h.mandates[id], mandate) {
		h.mandates[id] = append(h.mandates[id], mandate)
	}
}

func (h *history) there(recipient string, on Day) {
	if last, known := h.lastThere[recipient]; !known || on.Since(last) > 0 {
		h.lastThere[recipient] = on
	}
}

func (d *Desk) history(ctx context.Context, p *Plan) (*history, error) {
	h := &history{letters: map[string]map[int]*state.Letter{}, first: map[string]Day{}, last: map[state.RecordID]Day{},
		lastThere: map[string]Day{}, mandates: map[state.RecordID][]string{}, told: map[string]state.JournalLetter{}}
	err := d.Ledger.EachLetter(ctx, "", func(l state.Letter) error {
		if h.letters[l.MandateID] == nil {
			h.letters[l.MandateID] = map[int]*state.Letter{}
		}
		h.letters[l.MandateID][l.Step] = &l
		if l.Attempts > 0 {
			h.sent = append(h.sent, &l)
			if zone := d.Settings.zone(l.Connection); DayOf(l.SendingAt.In(zone)) == DayOf(p.At.In(zone)) {
				h.today++
			}
		}
		if l.Reached() {
			on := DayOf(l.SendingAt.In(d.Settings.zone(l.Connection)))
			h.reached(l.MandateID, l.RecordID, on)
			h.there(l.Recipient, on)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	handed, err := d.Ledger.HandOvers(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range handed {
		on, err := ParseDay(o.On)
		if err != nil {
			return nil, err
		}
		h.reached(o.MandateID, o.RecordID, on)
	}
	told, err := d.Ledger.JournalLetters(ctx)
	if err != nil {
		return nil, err
	}
	h.toldAll = told
	for _, t := range told {
		h.told[t.MessageID] = t
		h.there(t.Recipient, DayOf(t.At))
	}
	return h, nil
}

// lacksIn reports whether a journal lacks a letter noted in the ledger as sent.
func (h *history) lacksIn(j *journal, at time.Time) bool {
	lines := connector.Set(connector.Map(j.lines, func(t state.JournalLetter) string { return t.MessageID }))
	return slices.ContainsFunc(h.sent, func(l *state.Letter) bool {
		return (l.State == state.MessageSent || l.State == state.MessageRefused) && !lines[l.MessageID] &&
			l.SendingAt.After(at.Add(-journalHolds))
	})
}

// lacking returns the words missing from the known ones.
func lacking(words, known []state.AddressWord) (out []state.AddressWord) {
	is := connector.Set(known)
	out = append(out, connector.Filter(words, func(w state.AddressWord) bool { return !is[w] })...)
	return out
}
