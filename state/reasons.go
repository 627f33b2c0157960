package state

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"payersync/connector"
)

// FailureReason is the service's code for a mandate's status, with its line of the history.
type FailureReason struct {
	ObservedAt string `json:"observed_at"`
	Status     string `json:"status"`
	Code       string `json:"code"`
}

func placeOfReason(seq int64) []byte {
	return place("failure_reasons", "reason", strconv.FormatInt(seq, 10))
}

// keepReason seals the reason of a mandate's status beside the newest line of its history. The first reason
// of a line stays.
func (tx *Tx) keepReason(m connector.Mandate) error {
	if m.FailureReason.IsZero() {
		return nil
	}
	var seq int64
	var known bool
	err := tx.row([]any{&seq, &known},
		`SELECT h.seq, EXISTS (SELECT 1 FROM failure_reasons f WHERE f.seq = h.seq) OR `+fmt.Sprintf(ofForgotten,
			"h.billing_id")+`
		FROM mandate_history h WHERE h.mandate_id = ? ORDER BY h.seq DESC LIMIT 1`, m.ID)
	if err != nil || known {
		return err
	}
	return tx.exec("INSERT INTO failure_reasons (seq, mandate_id, reason, kept_at) VALUES (?, ?, ?, ?)",
		seq, m.ID, tx.l.seal.box([]byte(m.FailureReason.Expose()), placeOfReason(seq)), stamp(tx.now))
}

// FailureReasons returns the service's stored reason codes for a mandate's status, oldest first.
// They are for questions to the service; callers that show them to a person record this in the
// audit log.
func (l *Ledger) FailureReasons(ctx context.Context, mandateID string) ([]FailureReason, error) {
	type row struct {
		FailureReason
		seq int64
		box []byte
	}
	out := []FailureReason{}
	err := each(ctx, l, `SELECT f.seq, h.observed_at, h.to_status, f.reason FROM failure_reasons f JOIN mandate_history h ON h.seq = f.seq
		WHERE f.mandate_id = ? ORDER BY f.seq`, []any{mandateID},
		func(r *row) []any { return []any{&r.seq, &r.ObservedAt, &r.Status, &r.box} },
		func(r row) error {
			code, err := l.seal.open(r.box, placeOfReason(r.seq))
			if err != nil {
				return fmt.Errorf("the reason of mandate %s: %w", mandateID, err)
			}
			r.Code = string(code)
			out = append(out, r.FailureReason)
			return nil
		})
	return out, err
}

// moveReasons is migration 37. It is no script, because a box is sealed for its place, and only
// this program can seal it for another one.
func (l *Ledger) moveReasons(ctx context.Context, tx *sql.Tx) error {
	if err := l.checkKey(ctx, tx); err != nil {
		return err
	}
	rows, err := tx.QueryContext(ctx, `SELECT m.mandate_id, m.failure_reason, h.seq, h.observed_at FROM mandates m
		JOIN mandate_history h ON h.seq = (SELECT max(n.seq) FROM mandate_history n WHERE n.mandate_id = m.mandate_id) WHERE m.failure_reason IS NOT NULL`)
	if err != nil {
		return err
	}
	defer rows.Close()
	type kept struct {
		mandate, at string
		box         []byte
		seq         int64
	}
	var all []kept
	for rows.Next() {
		var k kept
		if err := rows.Scan(&k.mandate, &k.box, &k.seq, &k.at); err != nil {
			return err
		}
		all = append(all, k)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, k := range all {
		plain, err := l.seal.open(k.box, place("mandates", "failure_reason", k.mandate))
		if err != nil {
			return fmt.Errorf("the reason of mandate %s: %w", k.mandate, err)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO failure_reasons (seq, mandate_id, reason, kept_at) VALUES (?, ?, ?, ?)",
			k.seq, k.mandate, l.seal.box(plain, placeOfReason(k.seq)), k.at); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, "ALTER TABLE mandates DROP COLUMN failure_reason")
	return err
}
