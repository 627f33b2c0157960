package syncer

import (
	"context"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/state"
)

// Unlinked is a stored record that has no customer and that the mapping makes a payer.
type Unlinked struct {
	SourceID string
	Key      connector.Key
	Want     connector.Customer
}

// Unlinked returns the stored records of a connection that have no customer, are to have
// one, and could be sent as they are. Those whose create has no answer yet are left out. It
// asks the ledger alone.
func (s *Syncer) Unlinked(ctx context.Context, conn Connection) (out []Unlinked, err error) {
	r := &run{Syncer: s, conn: conn}
	err = s.EachStored(ctx, conn, func(page []state.StoredRecord) error {
		for _, stored := range page {
			if stored.InFlight || stored.Payer != nil && stored.Payer.BillingID != "" {
				continue
			}
			m, err := r.render(stored.Candidate)
			if err != nil {
				return err
			}
			if m.Standing == protocol.Included {
				out = append(out, Unlinked{stored.Record.SourceID, m.Result.Key, m.Customer})
			}
		}
		return nil
	})
	return out, err
}
