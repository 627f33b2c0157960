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
	proof, err := r.read(ctx, since)
	if err != nil {
		return err
	}
	full := since.IsZero()
	if full && !r.conn.Info.Snapshot && !r.conn.Info.Partial {
		if err := r.takeMissing(ctx); err != nil {
			return err
		}
	}
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) error { return r.finishPull(tx, full, proof) }); err != nil {
		return err
	}
	r.proof = proof
	return nil
}

// read saves what changed since, and returns what it took to read it.
func (r *run) read(ctx context.Context, since time.Time) (proof connector.Proof, err error) {
	pulled := 0
	for page, err := range r.conn.Source.Customers(ctx, since) {
		if err != nil {
			return proof, err
		}
		if err := r.savePage(ctx, page.Records); err != nil {
			return proof, err
		}
		page.Proof.Pages = max(1, page.Proof.Pages) // a source may keep no proof
		proof = proof.Plus(page.Proof)
		pulled += len(page.Records)
		r.progress("pull", pulled, 0)
	}
	proof.Passes = max(1, proof.Passes)
	return proof, nil
}

// finishPull draws the conclusions that only a complete read allows.
func (r *run) finishPull(tx *state.Tx, full bool, proof connector.Proof) error {
	if err := tx.RecordRead(r.id, full, proof); err != nil {
		return err
	}
	if r.conn.Info.Snapshot {
		if err := tx.DropUnseen(r.id, r.conn.Name); err != nil {
			return err
		}
	}
	position := r.started.Add(-r.Settings.Overlap).Format(time.RFC3339Nano)
	return tx.SetCursor(r.conn.Name, stream, position, r.id)
}

func (r *run) savePage(ctx context.Context, records []connector.Record) error {
	if len(records) == 0 {
		return nil
	}
	return r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.SavePage(r.id, r.conn.Name, records) })
}

// since returns where to read from. The zero time, for everything, stands for
// snapshot sources, for backfills, for the first run, and for one whose last
// complete reading of everything is too long ago: there are changes that no
// source tells of (sources.md section 1, rule 5). A time that has not come yet was
// noted by a clock that was set back since, and says nothing (fault F36).
func (r *run) since(ctx context.Context) (time.Time, error) {
	if r.conn.Info.Snapshot || r.opts.Kind == connector.RunBackfill {
		return time.Time{}, nil
	}
	position, err := r.Ledger.Cursor(ctx, r.conn.Name, stream)
	if err != nil || position == "" {
		return time.Time{}, err
	}
	full, err := r.Ledger.LastFullRead(ctx, r.conn.Name)
	if err != nil || r.conn.FullEvery > 0 && r.started.Sub(full) >= r.conn.FullEvery {
		return time.Time{}, err
	}
	since, err := time.Parse(time.RFC3339Nano, position)
	switch {
	case err != nil:
		return since, fmt.Errorf("read the reading position: %w", err)
	case since.After(r.started):
		return time.Time{}, nil
	}
	return since, nil
}

// takeMissing takes the records that a complete reading of everything no longer
// shows for deleted, unless they are so many, or all there are, that a permission
// or a filter is the likelier reason (fault F45).
func (r *run) takeMissing(ctx context.Context) error {
	unseen, known, err := r.Ledger.MissingCount(ctx, r.conn.Name, r.id)
	if err != nil || unseen == 0 {
		return err
	}
	if unseen == known {
		r.note = fmt.Sprintf("A full reading of the accounting system shows none of the %d known records: "+
			"none of them is taken for deleted. See what the connected user may read.", known)
		return nil
	}
	g := r.Settings.Guards
	if limit := max(g.MaxChanges.Of(known), g.MaxChangesFloor); unseen > limit {
		r.note = fmt.Sprintf("%d of %d known records are missing from a full reading of the accounting system, more than the limit of %d: "+
			"none of them is taken for deleted. See what the connected user may read, or raise guards.max_changes.", unseen, known, limit)
		return nil
	}
	for {
		gone, err := r.Ledger.MissingRecords(ctx, r.conn.Name, r.id, planPage)
		if err != nil || len(gone) == 0 {
			return err
		}
		for i := range gone {
			gone[i].State, gone[i].Problem = connector.RecordDeleted, ""
		}
		if err := r.savePage(ctx, gone); err != nil {
			return err
		}
	}
}
