package syncer

import (
	"context"
	"fmt"
	"time"

	"payersync/connector"
	"payersync/state"
)

// stream names the reading position of a source's customers.
const stream = "customers"

// pull saves the source's records page by page. The reading position is the
// run's start minus an overlap, and moves only after a complete read; an
// incomplete one ends the run, so that nothing is concluded from half a source.
func (r *run) pull(ctx context.Context) error {
	since, err := r.since(ctx)
	if err != nil {
		return err
	}
	pulled := 0
	for page, err := range r.conn.Source.Customers(ctx, since) {
		if err != nil {
			return err
		}
		if err := r.Ledger.Do(ctx, func(tx *state.Tx) error {
			return tx.SavePage(r.id, r.conn.Name, page.Records)
		}); err != nil {
			return err
		}
		pulled += len(page.Records)
		r.progress("pull", pulled, 0)
	}
	position := r.started.Add(-r.Settings.Overlap).Format(time.RFC3339Nano)
	return r.Ledger.Do(ctx, func(tx *state.Tx) error {
		if r.conn.Info.Snapshot {
			if err := tx.DropUnseen(r.id, r.conn.Name); err != nil {
				return err
			}
		}
		return tx.SetCursor(r.conn.Name, stream, position, r.id)
	})
}

// since returns where to read from: the zero time for snapshot sources, for
// backfills and for the first run.
func (r *run) since(ctx context.Context) (time.Time, error) {
	if r.conn.Info.Snapshot || r.opts.Kind == connector.RunBackfill {
		return time.Time{}, nil
	}
	position, err := r.Ledger.Cursor(ctx, r.conn.Name, stream)
	if err != nil || position == "" {
		return time.Time{}, err
	}
	since, err := time.Parse(time.RFC3339Nano, position)
	if err != nil {
		return since, fmt.Errorf("read the reading position: %w", err)
	}
	return since, nil
}
