package letters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/outbox"
	"payersync/state"
)

// When something is too long ago, or too much.
const (
	staleAfter    = 26 * time.Hour
	clockForward  = 24 * time.Hour
	clockBack     = 5 * time.Minute
	unclearWithin = 72 * time.Hour
	journalHolds  = 500 * 24 * time.Hour // an older line decides nothing, and its letter may be kept no longer
)

// findHolds finds the holds of all letters, or of a connection's.
func (d *Desk) findHolds(ctx context.Context, p *Plan, b *books, h *history,
	sources map[string]state.LetterSources) error {
	add := func(code HoldCode, connection string, person bool, format string, args ...any) {
		p.Holds = append(p.Holds,
			Hold{Code: code, Connection: connection, Text: fmt.Sprintf(format, args...), Person: person})
	}
	s := &d.Settings
	switch {
	case s.Sender != SenderPayersync:
		add(HoldSender, "", false, "payersync does not write to payers: letters.sender says %s.",
			cmp.Or(string(s.Sender), string(SenderNobody)))
	case s.Test && s.TestTo == "":
		add(HoldTest, "", false, "The billing service is a sandbox, or on this machine, so that no payer is written to, and letters.test_to names nobody else.")
	}
	if !b.desk.RestoredAt.Equal(b.desk.GoneOn) && !b.desk.RestoredAt.IsZero() {
		add(HoldRestored, "", true, "The ledger was put back; what was sent since that copy was made is not in it.")
	}
	if err := d.checkJournal(ctx, p, b, h); err != nil {
		return err
	}
	switch ahead := p.At.Sub(b.desk.LookedAt); {
	case !clockSet(p.At, b.desk.LookedAt):
	case ahead < 0:
		add(HoldClock, "", true, "By the clock it is earlier than when letters were last looked for.")
	default:
		add(HoldClock, "", true, "payersync has not looked for letters for %d hours, or the clock was set.",
			int(ahead.Hours()))
	}
	if b.unclear >= outbox.Letters.Unclear {
		add(HoldUnclear, "", false, "Of %d letters of the last days nobody knows whether they arrived.", b.unclear)
	}
	swept, err := d.Ledger.LastPass(ctx)
	if err != nil {
		return err
	}
	if p.At.Sub(swept) > staleAfter || swept.After(p.At.Add(clockBack)) {
		add(HoldSweep, "", false, "The billing service's list was not read in %s.", staleAfter)
	}
	for name, of := range sources {
		switch {
		case of.Problem != "":
			add(HoldMapping, name, false, "The mapping of %s has a mistake.", name)
		case of.State == "disconnected", p.At.Sub(of.ReadAt) > staleAfter, of.ReadAt.After(p.At.Add(clockBack)):
			add(HoldSource, name, false, "The records of %s were not read completely in %s.", name, staleAfter)
		}
	}
	slices.SortStableFunc(p.Holds, func(a, b Hold) int { return strings.Compare(a.Connection, b.Connection) })
	return nil
}

// checkJournal compares the journal with the ledger.
func (d *Desk) checkJournal(ctx context.Context, p *Plan, b *books, h *history) error {
	hold := func(format string, args ...any) {
		p.Holds = append(p.Holds, Hold{Code: HoldJournal, Text: fmt.Sprintf(format, args...), Person: true})
	}
	j, err := readJournal(d.Settings.place(), b.desk.Ledger)
	var other *otherJournalError
	unshared := d.findUnshared(b.desk, h, j, err, p.At)
	switch {
	case errors.Is(err, errNoJournal) && b.desk.Journal == "" && len(h.sent) == 0:
		return nil // there was never one
	case unshared != nil:
		p.Holds = append(p.Holds, Hold{Code: HoldJournal, Text: "Letters do not start here: " + unshared.Error() + "."})
		return nil
	case errors.Is(err, errNoJournal):
		hold("The journal of letters is not there: %s.", d.Settings.Journal)
		return nil
	case errors.As(err, &other):
		hold("The journal of letters cannot be used: %v.", err)
		return nil
	case err != nil:
		return err
	}
	p.journal = j
	if p.words, err = d.Ledger.AddressWords(ctx); err != nil {
		return err
	}
	more := 0
	for _, t := range h.unknownIn(j) {
		if t.At.After(p.At.Add(-journalHolds)) {
			more++
		}
	}
	shown, err := d.showsWord(b.desk)
	if err != nil {
		return err
	}
	switch {
	case more > 0:
		hold("The journal tells of %s of which the ledger does not know: it was put back.", connector.Plural(more, "letter"))
	case len(lacking(j.words, p.words)) > 0:
		hold("The journal tells of recipients who want no letters, or do not exist, of which the ledger does not know: it was put back.")
	case h.lacksIn(j, p.At), j.id != b.desk.Journal && b.desk.Journal != "":
		hold("The journal of letters is not the one that was written: it lacks what the ledger knows.")
	case !shown:
		hold("The folder of the journal %s does not show what node %s wrote there at %s: the database was put back, or this folder is a copy of the one that the nodes share.", d.Settings.Journal, b.desk.FolderNode, b.desk.FolderAt.Format(time.RFC3339))
	}
	return nil
}
