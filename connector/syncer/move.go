package syncer

import (
	"context"
	"errors"
	"fmt"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/state"
)

// ErrNothingToMove means the customer already carries the record's key.
var ErrNothingToMove = errors.New("its customer carries the record's key already")

// ErrNotSent means the record cannot be sent in its present form, so none of its values would reach a customer.
var ErrNotSent = errors.New("the record that would get the customer is excluded, or payersync cannot send it as it is")

// Move gives a customer a new key because its record was renumbered or replaced by another record.
type Move struct {
	From     state.Payer             // the payer with the customer
	Record   state.RecordID          // the new record; From's own if that was renumbered
	Key      connector.Key           // the customer's new key
	Diff     []connector.FieldChange // its changes in the next plan
	Mandate  connector.MandateStatus // of the mandate that stays with it; "" for none
	Elsewise []string                // customers already with the key: nothing is sent while there are any
}

// MoveOf reads the customer of a payer, and returns the effect of moving it to a record's key. The record is
// the payer's own, or another of whichever connection, as conn reads it. Nothing is noted.
func (s *Syncer) MoveOf(ctx context.Context, conn Connection, from state.Payer, sourceID string) (Move, error) {
	m := Move{From: from, Record: state.RecordID{Connection: conn.Name, SourceID: sourceID}}
	if from.BillingID == "" || !from.Seen {
		return m, state.ErrNotMovable
	}
	stored, err := s.Ledger.StoredRecord(ctx, conn.Name, sourceID, conn.Mapping.Version())
	if err != nil {
		return m, err
	}
	r := &run{Syncer: s, conn: conn}
	made, err := r.render(stored.Candidate)
	if err != nil {
		return m, err
	}
	if made.Usability != protocol.Included {
		return m, ErrNotSent
	}
	if m.Key = made.Result.Key; m.Key == from.Key {
		return m, ErrNothingToMove
	}
	if _, m.Elsewise, err = r.inTheWay(ctx, from, m.Key); err != nil {
		return m, err
	}
	seen, err := r.readCustomer(ctx, from.BillingID)
	if err != nil {
		return m, err
	}
	if seen.missing {
		return m, state.ErrNotMovable
	}
	if seen.customer.Mandate != nil {
		m.Mandate = seen.customer.Mandate.Status
	}
	base, err := r.base(ctx, from)
	if err != nil {
		return m, err
	}
	have := connector.Customer{}
	if base != nil {
		have = *base
	}
	m.Diff, err = s.Billing.MergeDiff(seen.customer, base, conn.Mapping.Owned(made.Customer, have), conn.Mapping.Own())
	return m, err
}

// SayMove notes an operator's decision to give a customer another record's key, or its own record's new key. The next
// plan shows and sends the move, within the limits.
func (s *Syncer) SayMove(ctx context.Context, m Move, by Operator) error {
	if by.Reason == "" {
		return fmt.Errorf("move a customer: %w", ErrReasonNeeded)
	}
	own := m.Record == state.RecordID{Connection: m.From.Connection, SourceID: m.From.SourceID}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		p, err := tx.PayerByBillingID(m.From.BillingID)
		if err != nil || own && p.Moves == m.Key { // it was said before
			return err
		}
		if own {
			err = tx.MoveKey(m.From, m.Key)
		} else {
			err = tx.HandOver(m.From, m.Record.Connection, m.Record.SourceID, m.Key)
		}
		return errors.Join(err, tx.Audit(state.Entry{
			Actor: by.Name, Action: "move customer", Subject: m.From.SourceID + " " + m.Record.SourceID + " " + m.From.BillingID,
			Reason: by.Reason,
		}))
	})
}
