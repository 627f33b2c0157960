package syncer

import (
	"context"

	"payersync/state"
)

// storedPage is how many stored records are read at a time.
const storedPage = 500

// EachStored passes the connection's stored records to do in pages, ordered by id, as the next plan with the
// connection's mapping would see them. It leaves out rows missing from the last complete reading of a snapshot. It
// reads only the ledger. A connection without a mapping is allowed.
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
