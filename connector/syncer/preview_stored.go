package syncer

import (
	"context"

	"payersync/state"
)

// storedPage is how many stored records are read at a time.
const storedPage = 500

// EachStored hands over the connection's stored records in the order of their
// ids, as the next plan with the connection's mapping would meet them, in pages.
// Rows that the last complete reading of a snapshot did not show are left out. It
// asks the ledger alone. A connection without a mapping will do.
func (s *Syncer) EachStored(ctx context.Context, conn Connection, do func([]state.StoredRecord) error) error {
	version := ""
	if conn.Mapping != nil {
		version = conn.Mapping.Version()
	}
	for after := ""; ; {
		page, err := s.Ledger.StoredRecords(ctx, conn.Name, version, conn.Info.Snapshot, after, storedPage)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := do(page); err != nil {
			return err
		}
		after = page[len(page)-1].Record.SourceID
	}
}
