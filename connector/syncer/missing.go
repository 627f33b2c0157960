package syncer

import (
	"context"
	"fmt"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/state"
)

// reportMissing reports payers with a mandate and a record absent from the reading just finished. It plans no change: a
// missing row is never a deletion. A person still needs to know about the valid mandate.
func (r *run) reportMissing(ctx context.Context) error {
	after := ""
	for {
		page, err := r.Ledger.MissingWithMandate(ctx, r.conn.Name, after, planPage)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := r.Ledger.Do(ctx, func(tx *state.Tx) error {
			for _, c := range page {
				c.Facts.Record = protocol.Record{Usability: protocol.NotShown}
				next := protocol.Decide(c.Facts)
				n := state.MissingReport{SourceID: c.Record.SourceID, Stands: c.Stands, Reason: next.Customer.Reason,
					OfMandate: next.Mandate.Reason}
				n.Awaited = r.awaited(c.Facts, next.Mandate)
				if n.Reason != "" {
					n.Detail = removedDetail(c, c.Facts)
				}
				if err := tx.ReportMissing(r.id, r.conn.Name, n); err != nil {
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

// removedDetail says how the record of a payer was removed, and what is still valid.
func removedDetail(c state.Candidate, f protocol.Facts) string {
	return stillHolds("The mapping excludes the record", c, f)
}

// stillHolds is removedDetail; how describes the departure of a record excluded by the mapping.
func stillHolds(how string, c state.Candidate, f protocol.Facts) string {
	switch f.Record.Usability {
	case protocol.NotShown:
		how = "The accounting system does not show the record any more"
	case protocol.Gone:
		how = removedState(c)
	}
	if f.Mandate.Status == connector.MandateCreated {
		return how + ", and the payer can still sign: a mandate waits for its signature. Nothing was cancelled."
	}
	return fmt.Sprintf("%s, and the payer's mandate still holds: %s. Nothing was cancelled.", how,
		f.Mandate.Status.Label())
}

// removedState describes the state of a record no longer active.
func removedState(c state.Candidate) string {
	switch {
	case c.Forgotten != state.ForgottenNot:
		return "The payer was forgotten"
	case c.Merged:
		return fmt.Sprintf("A person said that the record is the same payer as %s", c.Record.MergedInto)
	case c.Record.MergedInto != "":
		return fmt.Sprintf("The record was merged into %s in the accounting system", c.Record.MergedInto)
	}
	return fmt.Sprintf("The record is %s in the accounting system", c.Record.State)
}
