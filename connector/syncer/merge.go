package syncer

import (
	"context"
	"errors"
	"fmt"

	"payersync/connector"
	"payersync/state"
)

// Merge is what saying that two records are one payer would do: the first is left out.
type Merge struct {
	Record  state.RecordID
	Into    state.RecordID
	Payer   *state.Payer            // of the record; nil when it never was one
	Mandate connector.MandateStatus // of its customer, as it was last seen; "" for none
	Move    *Move                   // set when its customer comes to be the other record's, which has none
}

// ErrSaidBefore means that an operator has said the very same before, and it holds.
var ErrSaidBefore = errors.New("it was said before, and holds")

// MergeOf says what merging a record into another one of the same connection would do. Where
// only the first has a customer, the customer moves. Nothing is noted.
func (s *Syncer) MergeOf(ctx context.Context, conn Connection, sourceID, into string) (Merge, error) {
	m := Merge{Record: state.RecordID{Connection: conn.Name, SourceID: sourceID}, Into: state.RecordID{Connection: conn.Name, SourceID: into}}
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

// SayMerge notes that an operator has said that two records are one payer. From the next plan
// on the first is left out, and what moves is sent within the limits.
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
		return tx.Audit(state.Entry{Actor: by.Name, Action: "merge records", Subject: m.Record.SourceID + " " + m.Into.SourceID, Reason: by.Reason})
	})
}

// SayUnmerge notes that an operator has said that a record is a payer of its own after all. A
// customer that has moved stays where it is.
func (s *Syncer) SayUnmerge(ctx context.Context, r state.RecordID, by Operator) error {
	if by.Reason == "" {
		return fmt.Errorf("take a merge back: %w", ErrReasonNeeded)
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		return errors.Join(tx.Unmerge(r.Connection, r.SourceID), tx.Audit(state.Entry{Actor: by.Name, Action: "take merge back", Subject: r.SourceID, Reason: by.Reason}))
	})
}
