package admin

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

// Attention performs people's acts on findings about records, and on payers. The audit log has each of them.
type Attention struct {
	Ledger *state.Ledger
	Syncer *syncer.Syncer
	// a connection with the mapping in force
	Stored     func(ctx context.Context, connection string) (syncer.Connection, error)
	Mandates   *Mandates   // for acts on mandates
	Deliveries *Deliveries // for acts on webhooks
	Writebacks *Writebacks // for acts on fields of the accounting system
}

// Subscription is the id of the webhook subscription, in place of a record id.
const Subscription = "webhooks"

var (
	// ErrGivenUp means a person gave the record up, so it is not tried again.
	ErrGivenUp = errors.New("it was given up")
	// ErrNoSuchRecord means no record has the id.
	ErrNoSuchRecord = errors.New("no record has this source id")
)

// proposeRetry lets the next sync retry a record.
func (a *Attention) proposeRetry(ctx context.Context, p *Proposal) error {
	id := p.Record
	told, err := a.Ledger.AttentionOf(ctx, id.Connection, id.SourceID)
	if err != nil {
		return err
	}
	closed, err := a.Ledger.Closed(ctx, id, 0)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(closed, func(w state.ClosedRow) bool { return w.Kind == state.ClosedGivenUp }) {
		return ErrGivenUp
	}
	codes := strings.Join(connector.Map(told, func(t state.AttentionRow) string { return t.Reason }), " ")
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) error {
		return a.Ledger.Do(ctx, func(tx *state.Tx) error {
			marked, before := 0, 0
			if err := retry(tx, id, &marked, &before); err != nil {
				return err
			}
			if out.News = marked > 0; marked+before == 0 {
				return ErrNoSuchRecord
			}
			if !out.News {
				return nil
			}
			return tx.Audit(state.Entry{Actor: by.Name, Action: "retry record", Subject: id.SourceID,
				Reason: codesAnd(codes, by.Reason)})
		})
	}
	return nil
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
		return tx.Audit(state.Entry{Actor: by.Name, Action: "retry records", Subject: connector.Plural(marked, "record"),
			Reason: codesAnd(f.State, by.Reason)})
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

// proposeClose notes a payer's finding as known and acceptable.
func (a *Attention) proposeClose(ctx context.Context, p *Proposal) error {
	payer, err := a.Ledger.Payer(ctx, p.Record.Connection, p.Record.SourceID)
	if errors.Is(err, state.ErrNoPayer) {
		return syncer.ErrNothingToClose
	}
	if err != nil {
		return err
	}
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) (err error) {
		out.MandateID = payer.MandateID
		out.News, err = (&syncer.Syncer{Ledger: a.Ledger}).Close(ctx, payer, by)
		return err
	}
	return a.findSuccessors(ctx, p)
}

// proposeCloseSubscription notes the webhook subscription's finding as known.
func (a *Attention) proposeCloseSubscription(_ context.Context, p *Proposal) error {
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) error {
		return a.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
			out.News, err = tx.CloseSubscription(state.Entry{Actor: by.Name, Action: "close subscription", Subject: Subscription,
				Reason: by.Reason})
			return err
		})
	}
	return nil
}

func (a *Attention) proposeGiveUp(ctx context.Context, p *Proposal) error {
	id := p.Record
	conn, err := a.Stored(ctx, id.Connection)
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) (err error) {
		if out.News, err = a.Syncer.GiveUp(ctx, conn, id, by); err == nil {
			out.MandateID, err = a.mandateOf(ctx, id)
		}
		return err
	}
	return err
}

func (a *Attention) proposeTakeUp(_ context.Context, p *Proposal) error {
	id := p.Record
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) (err error) {
		if out.News, err = a.Syncer.TakeUp(ctx, id, by); err == nil {
			out.MandateID, err = a.mandateOf(ctx, id)
		}
		return err
	}
	return nil
}

// mandateOf returns the mandate of a record's payer; "" for none.
func (a *Attention) mandateOf(ctx context.Context, id state.RecordID) (string, error) {
	p, err := a.Ledger.Payer(ctx, id.Connection, id.SourceID)
	return p.MandateID, unless(err, state.ErrNoPayer)
}

// LaterFor is the time to hide a postponed finding.
const LaterFor = 7 * 24 * time.Hour

// Later hides records with a reason for LaterFor. It returns the end of this time and the number of records. The reason
// stays, and automatic processing continues.
func (a *Attention) Later(ctx context.Context, r connector.Reason, ids []state.RecordID,
	by syncer.Operator) (until time.Time, n int, err error) {
	until = a.Ledger.Now().Add(LaterFor)
	n, err = a.each(ctx, ids, func(tx *state.Tx, id state.RecordID) (bool, error) {
		return tx.PutOff(id, r, until, entryOf(by, "put off", id, r))
	})
	return until, n, err
}

// TellNow shows postponed records again, and returns their number.
func (a *Attention) TellNow(ctx context.Context, r connector.Reason, ids []state.RecordID, by syncer.Operator) (int,
	error) {
	return a.each(ctx, ids, func(tx *state.Tx, id state.RecordID) (bool, error) {
		return tx.RevokePutOff(id, r, entryOf(by, "tell now", id, r))
	})
}

// entryOf is the audit log's line about a finding on a record.
func entryOf(by syncer.Operator, action string, id state.RecordID, r connector.Reason) state.Entry {
	return state.Entry{Actor: by.Name, Action: action, Subject: strings.TrimPrefix(id.Connection+"/"+id.SourceID, "/") +
		", " + string(r), Reason: by.Reason}
}

// each calls do for records in one write, and counts the changed ones.
func (a *Attention) each(ctx context.Context, ids []state.RecordID,
	do func(*state.Tx, state.RecordID) (bool, error)) (n int, err error) {
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
