package office

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// Attention holds people's actions on findings about records. Each act notes a decision in the audit log, and sends
// nothing.
type Attention struct {
	Ledger *state.Ledger
	Syncer *syncer.Syncer
	Stored func(ctx context.Context, connection string) (syncer.Connection, error) // a connection with the mapping in force
}

// Subscription is the id of the webhook subscription, in place of a record id.
const Subscription = "webhooks"

var (
	// ErrGivenUp means a person gave the record up, so it is not tried again.
	ErrGivenUp = errors.New("it was given up")
	// ErrNoSuchRecord means no record has the id.
	ErrNoSuchRecord = errors.New("no record has this source id")
)

// Retry lets the next sync retry the records with a source id in these connections. It reports false if all of them
// were already waiting for a retry.
func (a *Attention) Retry(ctx context.Context, connections []string, sourceID string, by syncer.Operator) (news bool, err error) {
	var codes []string
	for _, c := range connections {
		told, err := a.Ledger.AttentionOf(ctx, c, sourceID)
		if err != nil {
			return false, err
		}
		codes = append(codes, connector.Map(told, func(t state.AttentionRow) string { return t.Reason })...)
		closed, err := a.Ledger.Closed(ctx, state.RecordID{Connection: c, SourceID: sourceID}, 0)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(closed, func(w state.ClosedRow) bool { return w.Kind == state.ClosedGivenUp }) {
			return false, ErrGivenUp
		}
	}
	err = a.Ledger.Do(ctx, func(tx *state.Tx) error {
		marked, before := 0, 0
		for _, c := range connections {
			if err := retry(tx, state.RecordID{Connection: c, SourceID: sourceID}, &marked, &before); err != nil {
				return err
			}
		}
		if news = marked > 0; marked+before == 0 {
			return ErrNoSuchRecord
		}
		if !news {
			return nil
		}
		return tx.Audit(state.Entry{Actor: by.Name, Action: "retry record", Subject: sourceID, Reason: codesAnd(strings.Join(codes, " "), by.Reason)})
	})
	return news, err
}

// RetryAll lets the next sync retry every record with a finding of a reason. It returns the numbers of newly marked
// records and of those marked before.
func (a *Attention) RetryAll(ctx context.Context, f state.Filter, by syncer.Operator) (marked, before int, err error) {
	found, err := a.Ledger.Attention(ctx, f)
	if err != nil {
		return 0, 0, err
	}
	err = a.Ledger.Do(ctx, func(tx *state.Tx) error {
		marked, before = 0, 0
		for _, r := range found {
			if err := retry(tx, state.RecordID{Connection: r.Connection, SourceID: r.SourceID}, &marked, &before); err != nil {
				return err
			}
		}
		if marked == 0 && before > 0 {
			return nil
		}
		return tx.Audit(state.Entry{Actor: by.Name, Action: "retry records", Subject: connector.Plural(marked, "record"), Reason: codesAnd(f.State, by.Reason)})
	})
	return marked, before, err
}

// retry marks one record, and counts it.
func retry(tx *state.Tx, id state.RecordID, marked, before *int) error {
	waits, err := tx.IsRetried(id.Connection, id.SourceID)
	if err != nil {
		return err
	}
	if waits {
		*before++
		return nil
	}
	again, err := tx.RetryRecord(id.Connection, id.SourceID)
	if again {
		*marked++
	}
	return err
}

// codesAnd is the audit log's text about the reasons for a retry.
func codesAnd(codes, note string) string {
	if codes != "" && note != "" {
		return codes + ": " + note
	}
	return codes + note
}

// Word is the result of a person's decision on one record.
type Word struct {
	state.RecordID
	MandateID string // of its payer, which stays as it is; "" for none
	News      bool   // the very same was not said before
	Err       error  // why it was not noted
}

// Close notes a payer's finding as known and acceptable.
func (a *Attention) Close(ctx context.Context, id state.RecordID, by syncer.Operator) Word {
	w := Word{RecordID: id}
	p, err := a.Ledger.Payer(ctx, id.Connection, id.SourceID)
	if err == nil {
		w.MandateID = p.MandateID
		w.News, err = (&syncer.Syncer{Ledger: a.Ledger}).Close(ctx, p, by)
	}
	if errors.Is(err, state.ErrNoPayer) {
		err = syncer.ErrNothingToClose
	}
	w.Err = err
	return w
}

// CloseSubscription notes the webhook subscription's finding as known.
func (a *Attention) CloseSubscription(ctx context.Context, by syncer.Operator) Word {
	w := Word{RecordID: state.RecordID{SourceID: Subscription}}
	w.Err = a.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		w.News, err = tx.CloseSubscription(state.Entry{Actor: by.Name, Action: "close subscription", Subject: Subscription, Reason: by.Reason})
		return err
	})
	return w
}

// GiveUp stores the decision to give records up, and passes the result of each to told until told returns an
// error.
func (a *Attention) GiveUp(ctx context.Context, ids []state.RecordID, by syncer.Operator, told func(Word) error) error {
	known := map[string]syncer.Connection{}
	for _, id := range ids {
		conn, ok := known[id.Connection]
		if !ok {
			var err error
			if conn, err = a.Stored(ctx, id.Connection); err != nil {
				return err
			}
			known[id.Connection] = conn
		}
		news, err := a.Syncer.GiveUp(ctx, conn, id, by)
		if err := a.say(ctx, Word{RecordID: id, News: news, Err: err}, told); err != nil {
			return err
		}
	}
	return nil
}

// TakeUp reverses GiveUp for records, and passes the result of each to told until told returns an error.
func (a *Attention) TakeUp(ctx context.Context, ids []state.RecordID, by syncer.Operator, told func(Word) error) error {
	for _, id := range ids {
		news, err := a.Syncer.TakeUp(ctx, id, by)
		if err := a.say(ctx, Word{RecordID: id, News: news, Err: err}, told); err != nil {
			return err
		}
	}
	return nil
}

// say passes on a decision with the mandate of its payer.
func (a *Attention) say(ctx context.Context, w Word, told func(Word) error) error {
	if w.Err == nil {
		p, err := a.Ledger.Payer(ctx, w.Connection, w.SourceID)
		if err != nil && !errors.Is(err, state.ErrNoPayer) {
			return err
		}
		w.MandateID = p.MandateID
	}
	return told(w)
}

// LaterFor is the time to hide a postponed finding.
const LaterFor = 7 * 24 * time.Hour

// Later hides records with a reason for LaterFor. It returns the end of this time and the number of records. The reason
// stays, and automatic processing continues.
func (a *Attention) Later(ctx context.Context, r connector.Reason, ids []state.RecordID, by syncer.Operator) (until time.Time, n int, err error) {
	until = a.Ledger.Now().Add(LaterFor)
	n, err = a.each(ctx, ids, func(tx *state.Tx, id state.RecordID) (bool, error) {
		return tx.PutOff(id, r, until, entryOf(by, "put off", id, r))
	})
	return until, n, err
}

// TellNow shows postponed records again, and returns their number.
func (a *Attention) TellNow(ctx context.Context, r connector.Reason, ids []state.RecordID, by syncer.Operator) (int, error) {
	return a.each(ctx, ids, func(tx *state.Tx, id state.RecordID) (bool, error) {
		return tx.TellNow(id, r, entryOf(by, "tell now", id, r))
	})
}

// entryOf is the audit log's line about a finding on a record.
func entryOf(by syncer.Operator, action string, id state.RecordID, r connector.Reason) state.Entry {
	return state.Entry{Actor: by.Name, Action: action, Subject: strings.TrimPrefix(id.Connection+"/"+id.SourceID, "/") + ", " + string(r), Reason: by.Reason}
}

// each calls do for records in one write, and counts the changed ones.
func (a *Attention) each(ctx context.Context, ids []state.RecordID, do func(*state.Tx, state.RecordID) (bool, error)) (n int, err error) {
	err = a.Ledger.Do(ctx, func(tx *state.Tx) error {
		n = 0
		for _, id := range ids {
			news, err := do(tx, id)
			if err != nil {
				return err
			}
			if news {
				n++
			}
		}
		return nil
	})
	return n, err
}

// UndoOf returns the effect of restoring a payer's customer to its state before a change. Nothing is noted.
func (a *Attention) UndoOf(ctx context.Context, p state.Payer, change int64) (syncer.Undo, error) {
	conn, err := a.Stored(ctx, p.Connection)
	if err != nil {
		return syncer.Undo{}, err
	}
	return a.Syncer.UndoOf(ctx, conn, p, change)
}
