package syncer

import (
	"context"
	"errors"
	"fmt"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/state"
)

// Why nothing is closed or given up.
var (
	// ErrNothingToClose means the payer has no finding for an operator to close.
	ErrNothingToClose = errors.New("nothing is told of it that can be closed")
	// ErrLeftOut means the record is removed or excluded.
	ErrLeftOut = errors.New("payersync sends nothing for the record in any case: it was removed, or the mapping excludes it")
)

// Close notes an operator's decision on a payer's finding, and reports false if it was noted before. For a removed
// record, it may keep its mandate until the record returns and leaves again, or another mandate appears. For a finding
// about its mandate, no action is needed in its present state. Close sends nothing. It fails with ErrNothingToClose for
// other findings.
func (s *Syncer) Close(ctx context.Context, p state.Payer, by Operator) (news bool, err error) {
	if by.Reason == "" {
		return false, fmt.Errorf("close what is told of a payer: %w", ErrReasonNeeded)
	}
	told, err := s.Ledger.AttentionOf(ctx, p.Connection, p.SourceID)
	if err != nil {
		return false, err
	}
	word := state.Entry{Actor: by.Name, Subject: p.SourceID + " " + p.BillingID, Reason: by.Reason}
	for _, a := range told {
		say := lastWord(connector.Reason(a.Reason))
		if say == nil {
			continue
		}
		if err := s.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
			news, err = say(tx, p, word)
			return err
		}); err != nil {
			return false, err
		}
	}
	if news {
		return true, nil
	}
	closed, err := s.Ledger.Closed(ctx, state.RecordID{Connection: p.Connection, SourceID: p.SourceID}, 0)
	if err == nil && len(closed) == 0 {
		err = ErrNothingToClose
	}
	return false, err
}

// Closable reports whether Close ends findings with a reason.
func Closable(r connector.Reason) bool { return lastWord(r) != nil }

// lastWord returns the function to note a decision closing a finding of a reason; nil if none can.
func lastWord(r connector.Reason) func(*state.Tx, state.Payer, state.Entry) (bool, error) {
	switch r {
	case connector.ReasonLeftWithMandate, connector.ReasonRecordGone:
		return func(tx *state.Tx, p state.Payer, word state.Entry) (bool, error) {
			word.Action = "let payer stay"
			return true, tx.AllowWithoutRecord(p, word)
		}
	case connector.ReasonMandateCancelled, connector.ReasonStatusUnknown, connector.ReasonLinkLost,
		connector.ReasonLinkRefused:
		return func(tx *state.Tx, p state.Payer, word state.Entry) (bool, error) {
			word.Action = "let mandate be"
			return tx.LetBe(p, word)
		}
	}
	return nil
}

// GiveUp notes an operator's decision not to connect a record in its present mapped form. It reports false if
// this was noted before. From then on the record is excluded: nothing is sent, and its customer and mandate
// stay unchanged. A request possibly in flight stays known until its time is over. GiveUp fails with
// ErrLeftOut.
func (s *Syncer) GiveUp(ctx context.Context, conn Connection, id state.RecordID, by Operator) (news bool, err error) {
	if by.Reason == "" {
		return false, fmt.Errorf("give a record up: %w", ErrReasonNeeded)
	}
	stored, err := s.Ledger.StoredRecord(ctx, id.Connection, id.SourceID, conn.Mapping.Version())
	if err != nil {
		return false, err
	}
	m, err := (&run{Syncer: s, conn: conn}).mapped(stored.Record)
	if err != nil {
		return false, err
	}
	if m.Usability != protocol.Included && m.Usability != protocol.Unfit {
		if !stored.GivenUp {
			err = ErrLeftOut
		}
		return false, err
	}
	err = s.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		news, err = tx.GiveUp(id, m.digest(stored.ContentHash),
			state.Entry{Actor: by.Name, Action: "give record up", Subject: id.SourceID, Reason: by.Reason})
		return err
	})
	return news, err
}

// TakeUp reverts GiveUp, and reports false when the record is not given up. The next plan decides on it like
// on any other.
func (s *Syncer) TakeUp(ctx context.Context, id state.RecordID, by Operator) (news bool, err error) {
	if by.Reason == "" {
		return false, fmt.Errorf("take a record up again: %w", ErrReasonNeeded)
	}
	err = s.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		news, err = tx.TakeUp(id,
			state.Entry{Actor: by.Name, Action: "take record up again", Subject: id.SourceID, Reason: by.Reason})
		return err
	})
	return news, err
}
