package letters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/outbox"
	"payersync/connector/readiness"
	"payersync/state"
)

// Approve releases exactly the letters of the waiting batch. shown is the hash of the batch shown to a person. It
// returns their number, and fails with ErrNothing or ErrChanged. The audit log has the approval with its author.
func (d *Desk) Approve(ctx context.Context, shown string, by state.Entry) (int, error) {
	p, err := d.Plan(ctx)
	if err != nil {
		return 0, err
	}
	by.Action, by.Subject = "approve letters",
		fmt.Sprintf("%s, batch %s", connector.Plural(len(p.Batch.Letters), "letter"), shown)
	n, err := d.approve(ctx, p, p.Batch, shown, true, by)
	if err == nil {
		err = d.noteAddresses(ctx, p)
	}
	return n, err
}

// ApproveAlone releases exactly the letters to these payers, for any reason to wait. shown is the hash shown to a
// person ([Plan.Alone]). It fails with ErrNothing if none of them waits, and with ErrChanged.
func (d *Desk) ApproveAlone(ctx context.Context, records []state.RecordID, shown string, by state.Entry) (int, error) {
	p, err := d.Plan(ctx)
	if err != nil {
		return 0, err
	}
	return d.approve(ctx, p, p.Alone(records), shown, false, by)
}

// approve notes a person's approval of a batch as shown. If two people approve at once, the second gets ErrNothing. The
// letters of the batch need no further approval.
func (d *Desk) approve(ctx context.Context, p *Plan, b Batch, shown string, whole bool, by state.Entry) (int, error) {
	if err := outbox.Check(b.Hash, shown); err != nil {
		return 0, err
	}
	of := map[string][]state.ApprovedLetter{}
	for _, x := range b.Letters {
		of[x.Setup] = append(of[x.Setup],
			state.ApprovedLetter{Setup: x.Setup, MandateID: x.MandateID, Step: x.Step, Recipient: x.Recipient})
	}
	err := d.Ledger.Do(ctx, func(tx *state.Tx) error {
		if before, err := tx.ApprovedSince(b.Hash, p.At); before || err != nil {
			return cmp.Or(err, ErrNothing)
		}
		for setup, letters := range of {
			if err := tx.ApproveLetters(setup, b.Hash, whole, letters, by); err != nil {
				return err
			}
		}
		if err := tx.NoteLettersWaiting(p.waiting() - len(b.Letters)); err != nil {
			return err
		}
		return tx.Audit(by)
	})
	if err != nil {
		return 0, err
	}
	return len(b.Letters), nil
}

const exampleToken = "EXAMPLE"

// Example returns a letter as sent, but with only the host of its link and without the opt-out token. It sends no
// requests and stores nothing.
func (d *Desk) Example(ctx context.Context, x Next) ([]byte, error) {
	now, err := d.Ledger.ReadinessOf(ctx, x.RecordID)
	if err != nil {
		return nil, err
	}
	if now == nil || now.Label == nil || !readiness.CanBeInvited(*now) {
		return nil, &keptError{"its payer is not to be written to any more"}
	}
	link, err := d.Ledger.SigningLink(ctx, x.MandateID)
	if err != nil {
		return nil, err
	}
	draft := d.draft(x, now, "", d.Ledger.LetterID(x.MandateID, x.Step))
	if draft.Stop != "" {
		draft.Stop = exampleToken // the letter's own token would work
	}
	if u, err := url.Parse(link); err == nil {
		draft.Link = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/..."}).String()
	}
	if d.Settings.Test && d.Settings.TestTo != "" {
		draft.To = d.Settings.TestTo
	}
	return d.Settings.Templates.Write(draft)
}

// Pause stops all letters, or those of a connection, until a day; a zero day is for ever.
func (d *Desk) Pause(ctx context.Context, connection string, until Day, by state.Entry) error {
	stop := state.LetterStop{Scope: state.StopAll, Why: state.StopPause, Note: by.Reason, Actor: by.Actor}
	if connection != "" {
		stop.Scope, stop.Connection = state.StopConnection, connection
	}
	if until != (Day{}) {
		stop.UntilOn = until.String()
	}
	return d.Ledger.Do(ctx, func(tx *state.Tx) error { return errors.Join(tx.AddLetterStop(stop), tx.Audit(by)) })
}

// Resume takes back the pauses of all letters, or of a connection, and the brakes. It returns how many it
// took back.
func (d *Desk) Resume(ctx context.Context, connection string, by state.Entry) (n int, err error) {
	return d.takeBack(ctx, by, func(s state.LetterStop) bool {
		return (s.Why == state.StopPause || s.Why == state.StopBrake) &&
			(s.Scope == state.StopAll && connection == "" || s.Scope == state.StopConnection && s.Connection == connection)
	})
}

// Stop stops the letters to a payer, or to an address if given, until a day; a zero day means permanently.
func (d *Desk) Stop(ctx context.Context, id state.RecordID, address string, until Day, by state.Entry) error {
	stop := state.LetterStop{Scope: state.StopPayer, RecordID: id, Why: state.StopPerson, Note: by.Reason, Actor: by.Actor}
	if address != "" {
		stop.Scope, stop.RecordID, stop.Recipient = state.StopAddress, state.RecordID{}, d.Ledger.RecipientHash(address)
	}
	if until != (Day{}) {
		stop.UntilOn = until.String()
	}
	return d.Ledger.Do(ctx, func(tx *state.Tx) error { return errors.Join(tx.AddLetterStop(stop), tx.Audit(by)) })
}

// Unstop removes the stops for a payer and its address, or for an address, regardless of their author. It returns the
// number of stops.
func (d *Desk) Unstop(ctx context.Context, id state.RecordID, address string, by state.Entry) (n int, err error) {
	payer := address == ""
	if payer {
		now, err := d.Ledger.ReadinessOf(ctx, id)
		if err != nil {
			return 0, err
		}
		if now != nil && now.Label != nil {
			address = strings.TrimSpace(now.Label.Email)
		}
	}
	recipient := d.Ledger.RecipientHash(address)
	return d.takeBack(ctx, by, func(s state.LetterStop) bool {
		return payer && s.Scope == state.StopPayer && s.RecordID == id || address != "" && s.Scope == state.StopAddress &&
			s.Recipient == recipient
	})
}

func (d *Desk) takeBack(ctx context.Context, by state.Entry, which func(state.LetterStop) bool) (n int, err error) {
	stops, err := d.Ledger.LetterStops(ctx)
	if err != nil {
		return 0, err
	}
	stops = slices.DeleteFunc(stops, func(s state.LetterStop) bool { return !which(s) })
	if len(stops) == 0 {
		return 0, nil
	}
	return len(stops), d.Ledger.Do(ctx, func(tx *state.Tx) error {
		if err := connector.Each(stops, func(s state.LetterStop) error { return tx.EndLetterStop(s.ID) }); err != nil {
			return err
		}
		return tx.Audit(by)
	})
}

// DecideOnLetter stores a person's decision on an unclear letter: state.WordArrived or state.WordAgain. It fails with
// state.ErrNotUnclear.
func (d *Desk) DecideOnLetter(ctx context.Context, letter int64, word string, by state.Entry) error {
	return d.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.SayOfLetter(letter, word, by) })
}

// Continue resumes letters after a restore, with the present journal and clock. Letters known only from the journal
// count as sent, and recipients with an opt-out get none. Letters missing from the journal are added. It returns the
// number of letters added to the ledger, and fails with ErrBusy or NotSharedError.
func (d *Desk) Continue(ctx context.Context, by state.Entry) (learnt int, err error) {
	err = outbox.Locked(d.Ledger, state.MessageLetter, func() (err error) { learnt, err = d.resume(ctx, by); return err })
	return learnt, err
}

// resume does the work of Continue.
func (d *Desk) resume(ctx context.Context, by state.Entry) (learnt int, err error) {
	if err := d.Ledger.Do(ctx, func(tx *state.Tx) error { _, err := tx.AbandonSending(); return err }); err != nil {
		return 0, err
	}
	desk, err := d.Ledger.LetterDesk(ctx)
	if err != nil {
		return 0, err
	}
	h, err := d.history(ctx, &Plan{At: d.Ledger.Now()})
	if err != nil {
		return 0, err
	}
	j, err := readJournal(d.Settings.place(), desk.Ledger)
	if unshared := d.findUnshared(desk, h, j, err, d.Ledger.Now()); unshared != nil && !d.JournalLost {
		return 0, unshared
	}
	var other *otherJournalError
	switch {
	case errors.As(err, &other):
		if err := d.Settings.JournalWithin.Rename(d.Settings.Journal,
			filepath.Base(d.Settings.Journal)+".before-"+d.Ledger.Now().Format("20060102T150405Z")); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("move the journal of letters aside: %w", err)
		}
	case errors.Is(err, errNoJournal):
		j = nil
	case err != nil:
		return 0, err
	}
	told := h.unknownIn(j)
	words, err := d.unheard(ctx, j)
	if err != nil {
		return 0, err
	}
	if err := d.Ledger.Do(ctx, func(tx *state.Tx) error {
		if err := connector.Each(told, tx.SaveJournalLetter); err != nil {
			return err
		}
		for _, w := range words {
			if err := tx.AddLetterStop(state.LetterStop{Scope: state.StopAddress, Recipient: w.Recipient, Why: w.Why,
				Actor: "journal of letters"}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return 0, err
	}
	if other != nil || j == nil { // no journal can be appended to
		if j, err = beginJournal(d.Settings.place(), desk.Ledger); err != nil {
			return 0, err
		}
	}
	if missing := h.missingIn(j, told); len(missing) > 0 {
		if err := j.append(missing...); err != nil {
			return 0, err
		}
	}
	if err := d.Ledger.Do(ctx,
		func(tx *state.Tx) error { return errors.Join(tx.GoOnWithLetters(j.id), tx.Audit(by)) }); err != nil {
		return 0, err
	}
	return len(told), d.markFolder(ctx)
}

// unheard returns the journal's entries about addresses that the ledger lacks.
func (d *Desk) unheard(ctx context.Context, j *journal) ([]state.AddressWord, error) {
	if j == nil {
		return nil, nil
	}
	known, err := d.Ledger.AddressWords(ctx)
	return lacking(j.words, known), err
}

// unknownIn returns the journal lines unknown to the ledger. A line has the time of its letter, and the ledger has the
// time of the last letter.
func (h *history) unknownIn(j *journal) (out []state.JournalLetter) {
	if j == nil {
		return nil
	}
	last := make(map[string]time.Time, len(h.sent))
	for _, l := range h.sent {
		last[l.MessageID] = l.SendingAt
	}
	told := make(map[state.JournalLetter]bool, len(h.toldAll))
	for _, t := range h.toldAll {
		told[state.JournalLetter{MessageID: t.MessageID, At: t.At.UTC()}] = true
	}
	for _, t := range j.lines {
		if at, known := last[t.MessageID]; (!known || t.At.After(at)) &&
			!told[state.JournalLetter{MessageID: t.MessageID, At: t.At.UTC()}] {
			out = append(out, t)
		}
	}
	return out
}

// missingIn returns lines for letters known to the ledger as sent, or just learnt, and missing in the journal
// does not say.
func (h *history) missingIn(j *journal, learnt []state.JournalLetter) (out []state.JournalLetter) {
	lines := map[string]int{}
	for _, t := range j.lines {
		lines[t.MessageID]++
	}
	for _, l := range h.sent {
		if lines[l.MessageID] == 0 {
			out = append(out, state.JournalLetter{MessageID: l.MessageID, Recipient: l.Recipient, At: l.SendingAt})
		}
	}
	out = append(out, connector.Filter(slices.Concat(h.toldAll, learnt),
		func(t state.JournalLetter) bool { return lines[t.MessageID] == 0 })...)
	return out
}
