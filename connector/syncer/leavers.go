package syncer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/state"
)

// tellNotShown tells of the payers with a mandate whose records the reading that has just
// ended did not show. They are not planned: a row that is missing is never a deletion, and
// a person should know all the same that the mandate still holds.
func (r *run) tellNotShown(ctx context.Context) error {
	after := ""
	for {
		page, err := r.Ledger.NotShown(ctx, r.conn.Name, after, planPage)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := r.Ledger.Do(ctx, func(tx *state.Tx) error {
			for _, c := range page {
				c.Facts.Record = protocol.Record{Standing: protocol.NotShown}
				n := state.Notice{SourceID: c.Record.SourceID, Stands: c.Stands, OfMandate: protocol.Asking(c.Facts).Reason}
				if n.Reason = protocol.Customer(c.Facts).Reason; n.Reason != "" {
					n.Detail = leftDetail(c, c.Facts)
				}
				if err := tx.TellNotShown(r.id, r.conn.Name, n); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return fmt.Errorf("tell of payers whose records are not shown any more: %w", err)
		}
		after = page[len(page)-1].Record.SourceID
	}
}

// leftDetail says how the record of a payer has left, and what holds all the same.
func leftDetail(c state.Candidate, f protocol.Facts) string {
	how := "The mapping leaves the record out"
	switch f.Record.Standing {
	case protocol.NotShown:
		how = "The accounting system does not show the record any more"
	case protocol.Gone:
		how = gone(c)
	}
	if f.Mandate.Status == connector.MandateCreated {
		return how + ", and the payer can still sign: a mandate waits for its signature. Nothing was cancelled."
	}
	return fmt.Sprintf("%s, and the payer's mandate still holds: %s. Nothing was cancelled.", how, f.Mandate.Status.Label())
}

// gone says what became of a record that is no active one.
func gone(c state.Candidate) string {
	switch {
	case c.Merged:
		return fmt.Sprintf("A person said that the record is the same payer as %s", c.Record.MergedInto)
	case c.Record.MergedInto != "":
		return fmt.Sprintf("The record was merged into %s in the accounting system", c.Record.MergedInto)
	}
	return fmt.Sprintf("The record is %s in the accounting system", c.Record.State)
}

// ErrNothingToClose means that nobody is told that the payer has left.
var ErrNothingToClose = errors.New("only what is told of a payer whose record has left can be closed; anything else is over when it is put right")

// LetStay notes that an operator knows that a payer's record has left, and that the
// customer with the mandate it has now may stay. Nobody is told of it again before the
// record returns and leaves again, or another mandate appears.
func (s *Syncer) LetStay(ctx context.Context, p state.Payer, by Operator) error {
	if by.Reason == "" {
		return fmt.Errorf("close what is told of a payer: %w", ErrReasonNeeded)
	}
	told, err := s.Ledger.AttentionOf(ctx, p.Connection, p.SourceID)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(told, func(a state.AttentionRow) bool { return closable(connector.Reason(a.Reason)) }) {
		return ErrNothingToClose
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.LetStay(p, state.Entry{Actor: by.Name, Action: "let payer stay", Subject: p.SourceID + " " + p.BillingID, Reason: by.Reason})
	})
}

func closable(r connector.Reason) bool {
	return r == connector.ReasonLeftWithMandate || r == connector.ReasonRecordGone
}
