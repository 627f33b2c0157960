package syncer

import (
	"context"
	"errors"
	"fmt"

	"payersync/connector"
	"payersync/state"
)

// Merge is the effect of declaring two records one payer: the first is excluded.
type Merge struct {
	Record  state.RecordID
	Into    state.RecordID
	Payer   *state.Payer            // of the record; nil when it never was one
	Mandate connector.MandateStatus // of its customer, as it was last seen; "" for none
	Move    *Move                   // set when its customer goes to the other, unlinked record
}

// ErrSaidBefore means an operator has made the same decision before, and it is still in force.
var ErrSaidBefore = errors.New("it was said before, and holds")

// MergeOf returns the effect of merging a record into another record of the same connection. If only the first has a
// customer, the customer moves. It writes nothing.
func (s *Syncer) MergeOf(ctx context.Context, conn Connection, sourceID, into string) (Merge, error) {
	m := Merge{Record: state.RecordID{Connection: conn.Name, SourceID: sourceID},
		Into: state.RecordID{Connection: conn.Name, SourceID: into}}
	if sourceID == into {
		return m, state.ErrSameRecord
	}
	first, err := s.Ledger.StoredRecord(ctx, conn.Name, sourceID, conn.Mapping.Version())
	if err != nil {
		return m, fmt.Errorf("%s: %w", sourceID, err)
	}
	other, err := s.Ledger.StoredRecord(ctx, conn.Name, into, conn.Mapping.Version())
	if err != nil {
		return m, fmt.Errorf("%s: %w", into, err)
	}
	switch {
	case first.Merged && first.Record.MergedInto == into:
		return m, ErrSaidBefore
	case first.Merged, other.Merged:
		return m, state.ErrMerged
	}
	m.Payer, m.Mandate = first.Payer, first.Facts.Mandate.Status
	if first.Payer == nil || first.Payer.BillingID == "" || other.Payer != nil && other.Payer.BillingID != "" {
		return m, nil
	}
	move, err := s.MoveOf(ctx, conn, *first.Payer, into)
	m.Move = &move
	return m, err
}

// SayMerge notes an operator's decision to merge two records into one payer. The next plan leaves the first record out
// and moves its customer within the limits.
func (s *Syncer) SayMerge(ctx context.Context, m Merge, by Operator) error {
	if by.Reason == "" {
		return fmt.Errorf("merge two records: %w", ErrReasonNeeded)
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		if err := tx.Merge(m.Record.Connection, m.Record.SourceID, m.Into.SourceID); err != nil {
			return err
		}
		if m.Move != nil {
			if err := tx.HandOver(m.Move.From, m.Into.Connection, m.Into.SourceID, m.Move.Key); err != nil {
				return err
			}
		}
		return tx.Audit(state.Entry{Actor: by.Name, Action: "merge records", Subject: m.Record.SourceID + " " +
			m.Into.SourceID, Reason: by.Reason})
	})
}

// SayUnmerge notes an operator's decision to treat a record as a separate payer again. A moved customer stays in place.
func (s *Syncer) SayUnmerge(ctx context.Context, r state.RecordID, by Operator) error {
	if by.Reason == "" {
		return fmt.Errorf("take a merge back: %w", ErrReasonNeeded)
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		return errors.Join(tx.Unmerge(r.Connection, r.SourceID),
			tx.Audit(state.Entry{Actor: by.Name, Action: "take merge back", Subject: r.SourceID, Reason: by.Reason}))
	})
}
