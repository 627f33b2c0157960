package state

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
)

// countable are the planned records whose absence from a complete reading counts. Deleted records are
// omitted, and unreadable ones too, because their ids may be line numbers.
const countable = `connection = ?1 AND state <> 'deleted' AND planned_hash <> '' AND unreadable = 0`

// MissingCount returns the number of known records that the run of MarkMissing did not meet, and of
// all known records. Before the first plan of a connection it knows none: a reading that failed may
// have shown them (SaveFirst).
func (l *Ledger) MissingCount(ctx context.Context, connection string) (unseen, known int, err error) {
	err = l.queryRow(ctx, "SELECT count(*) FILTER (WHERE missed = 1), count(*) FROM source_records WHERE "+countable+" AND "+wasPlanned,
		connection).Scan(&unseen, &known)
	return unseen, known, err
}

// wasPlanned is the condition that the connection ?1 has a plan.
const wasPlanned = "EXISTS (SELECT 1 FROM plans WHERE plans.connection = ?1 AND " + isFinished + ")"

// WasPlanned reports whether a connection ever had a plan.
func (l *Ledger) WasPlanned(ctx context.Context, connection string) (bool, error) {
	return single[bool](l.queryRow(ctx, "SELECT "+wasPlanned, connection))
}

// HoldMissing makes a separate plan of the records of MissingCount, which wait for a person. An
// identical waiting or approved plan is reused; any other of the connection is superseded.
func (tx *Tx) HoldMissing(run int64, connection, mapping string, missing int, limits string) (Plan, error) {
	p := Plan{Connection: connection, RunID: run, State: PlanWaiting, CreatedAt: tx.now, Missing: missing, Limits: limits}
	err := tx.holds(run)
	if err != nil {
		return p, err
	}
	if p.Hash, err = tx.hashMissing(connection); err != nil {
		return p, fmt.Errorf("hash the missing records: %w", err)
	}
	err = tx.row([]any{&p.ID, &p.State}, `SELECT plan_id, state FROM plans
		WHERE connection = ? AND hash = ? AND missing > 0 AND state IN ('waiting', 'approved') ORDER BY plan_id DESC LIMIT 1`,
		connection, p.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.row([]any{&p.ID},
			`INSERT INTO plans (connection, run_id, hash, mapping_version, created_at, state, missing, limits)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING plan_id`, connection, run, p.Hash, mapping, stamp(tx.now), p.State,
			missing, limits)
	}
	if err != nil {
		return p, fmt.Errorf("save what waits: %w", err)
	}
	return p, tx.exec("UPDATE plans SET state = 'superseded' WHERE connection = ? AND missing > 0 AND plan_id <> ? AND state IN ('waiting', 'approved')",
		connection, p.ID)
}

func (tx *Tx) hashMissing(connection string) (string, error) {
	h := sha256.New()
	h.Write([]byte("missing"))
	err := tx.each("SELECT source_id FROM source_records WHERE "+countable+" AND missed = 1 ORDER BY source_id",
		[]any{connection}, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			h.Write([]byte("\x00" + id))
			return err
		})
	return hex.EncodeToString(h.Sum(nil)), err
}

// EndMissing closes the plan of HoldMissing: released records are done, and all others are over.
func (tx *Tx) EndMissing(connection string) error {
	return tx.exec(`UPDATE plans SET state = CASE state WHEN 'approved' THEN 'applied' ELSE 'superseded' END
		WHERE connection = ? AND missing > 0 AND state IN ('waiting', 'approved')`, connection)
}

// MissingWait reports whether missing records wait for a person, or for a run after their release.
func (l *Ledger) MissingWait(ctx context.Context, connection string) (bool, error) {
	return single[bool](l.queryRow(ctx,
		"SELECT EXISTS (SELECT 1 FROM plans WHERE connection = ? AND missing > 0 AND state IN ('waiting', 'approved'))",
		connection))
}
