package syncer

import (
	"context"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/state"
)

// Unlinked is a stored record without a customer, mapped to a payer.
type Unlinked struct {
	SourceID string
	Key      connector.Key
	Want     connector.Customer
	Exported map[string]string // what the source's system writes into its own export too, by field
}

// Unlinked returns the stored and sendable records of a connection without a customer. It leaves out records with an
// unanswered create. It reads only the ledger.
func (s *Syncer) Unlinked(ctx context.Context, conn Connection) (out []Unlinked, err error) {
	err = s.eachUnlinked(ctx, conn, func(page []Unlinked) error {
		out = append(out, page...)
		return nil
	})
	return out, err
}

// UnlinkedOne returns one of Unlinked, and false when the record is none of them.
func (s *Syncer) UnlinkedOne(ctx context.Context, conn Connection, sourceID string) (u Unlinked, waits bool,
	err error) {
	stored, err := s.Ledger.StoredRecord(ctx, conn.Name, sourceID, conn.Mapping.Version())
	if err != nil {
		return u, false, err
	}
	return (&run{Syncer: s, conn: conn}).unlinked(stored)
}

func (r *run) unlinked(stored state.StoredRecord) (u Unlinked, waits bool, err error) {
	if stored.InFlight || stored.Payer != nil && stored.Payer.BillingID != "" {
		return u, false, nil
	}
	m, err := r.render(stored.Candidate)
	return Unlinked{stored.Record.SourceID, m.Result.Key, m.Customer,
		connector.ExportedValues(r.conn.Info.Fields, stored.Record.Data)}, err == nil && m.Usability == protocol.Included, err
}
