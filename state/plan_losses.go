package state

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"

	"payersync/connector"
)

// Losses is the number of payers a plan would drop. It counts payers of earlier plans with a customer, or
// with one released by a person or the limits.
type Losses struct {
	Held    int // their records wait for a person
	LeftOut int // their records are excluded, or gone
	Of      int // payers before
	Remain  int // payers now, new ones too; counted only where some are lost
}

// Lost returns how many payers are lost.
func (l Losses) Lost() int { return l.Held + l.LeftOut }

const (
	// turned is the condition that the newest decision changed whether record r is on hold or left out.
	turned = "r.let_go <> (r.decision = 'held' OR r.decision = 'excluded')"
	// counts is the condition that losing the payer of record r matters. It counts for the reason given at
	// factColumns. It filters on a customer, so no server begins with all linked payers.
	counts = `r.let_go = 0 AND (
		(SELECT count(*) > 0 FROM payers y WHERE y.connection = r.connection AND y.source_id = r.source_id AND coalesce(y.billing_id, '') <> '')
		OR (SELECT count(*) > 0 FROM changes c WHERE c.connection = r.connection AND c.source_id = r.source_id AND c.lane = 'customer'
			AND ` + isApproved + ` AND (c.state = 'pending' OR c.state = 'void')))`  // void: by this very decision
	// lost is the condition that the payer of record r is lost by the newest decision. A payer
	// waiting for time or an answer is decided again by itself, and records missing from a complete
	// reading have a guard of their own.
	lost = turned + " AND (r.decision = 'held' OR r.decision = 'excluded') AND r.replan = 0 AND r.unseen = 0 AND " + counts
)

// losses counts the payers that the decisions on a connection's records would lose.
func (tx *Tx) losses(connection string) (l Losses, err error) {
	err = tx.row([]any{&l.Held, &l.LeftOut},
		"SELECT count(*) FILTER (WHERE r.decision = 'held'), count(*) FILTER (WHERE r.decision = 'excluded') FROM source_records r WHERE r.connection = ? AND "+lost, connection)
	if err == nil && l.Lost() > 0 {
		err = tx.row([]any{&l.Of, &l.Remain},
			"SELECT count(*) FILTER (WHERE "+counts+"), count(*) FILTER (WHERE r.decision = 'included') FROM source_records r WHERE r.connection = ? AND r.unseen = 0", connection)
	}
	if err != nil {
		return l, fmt.Errorf("count the payers that the plan would lose: %w", err)
	}
	return l, nil
}

// acceptDecisions makes the decisions on a connection's records the base of comparison for later plans.
func (tx *Tx) acceptDecisions(connection string) error {
	return tx.exec("UPDATE source_records AS r SET let_go = CASE WHEN decision = 'held' OR decision = 'excluded' THEN 1 ELSE 0 END, lost_by = NULL WHERE r.connection = ? AND r.replan = 0 AND "+turned, connection)
}

// hashLost extends a plan's hash for a standstill with exactly the lost payers.
func (tx *Tx) hashLost(connection, hash string) (string, error) {
	h := sha256.New()
	h.Write([]byte(hash))
	err := tx.each("SELECT r.source_id, r.decision FROM source_records r WHERE r.connection = ? AND "+lost+" ORDER BY r.source_id", []any{connection}, func(scan func(...any) error) error {
		var id, decision string
		err := scan(&id, &decision)
		h.Write([]byte("\x00" + id + "\x00" + decision))
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// noteLost stores the payers that a plan would lose; approving the plan releases them.
func (tx *Tx) noteLost(connection string, plan int64) error {
	return tx.exec("UPDATE source_records AS r SET lost_by = ?2 WHERE r.connection = ?1 AND "+lost, connection, plan)
}

// dropLost takes the payers that a plan would lose for payers no more.
func (tx *Tx) dropLost(plan int64) error {
	return tx.exec("UPDATE source_records AS r SET let_go = 1, lost_by = NULL WHERE r.connection = (SELECT connection FROM plans WHERE plan_id = ?1) AND r.lost_by = ?1 AND r.let_go = 0 AND "+turned, plan)
}

// ReleaseMissing releases the records of MissingCount with the permission of the guard of missing
// records: they no longer count as payers.
func (tx *Tx) ReleaseMissing(run int64, connection string) error {
	if err := tx.holds(run); err != nil {
		return err
	}
	return tx.exec("UPDATE source_records SET let_go = 1 WHERE "+countable+" AND missed = 1", connection)
}

// LostPayer is a payer that a plan at a standstill would lose.
type LostPayer struct {
	SourceID string           `json:"source_id"`
	Verdict  Verdict          `json:"verdict"`          // held or excluded
	Reason   connector.Reason `json:"reason,omitempty"` // "" when the mapping leaves it out
}

// LostBy returns up to limit payers after source id after, in order, that a plan at a standstill
// would lose; none after its release or end.
func (l *Ledger) LostBy(ctx context.Context, p Plan, after string, limit int) ([]LostPayer, error) {
	type row struct {
		LostPayer
		reason sql.NullString
	}
	rows, err := list(ctx, l, `SELECT r.source_id, r.decision, (SELECT a.reason FROM attention a
		WHERE a.connection = r.connection AND a.source_id = r.source_id
		ORDER BY CASE a.topic WHEN 'record' THEN 0 WHEN 'link' THEN 1 ELSE 2 END LIMIT 1)
		FROM source_records r WHERE r.connection = ?1 AND `+lost+" AND r.lost_by = ?2 AND r.source_id > ?3 ORDER BY r.source_id"+limitTo,
		[]any{p.Connection, p.ID, after, limit}, func(r *row) []any { return []any{&r.SourceID, &r.Verdict, &r.reason} })
	if err != nil {
		return nil, err
	}
	out := make([]LostPayer, len(rows))
	for i, r := range rows {
		out[i] = r.LostPayer
		out[i].Reason = connector.Reason(r.reason.String)
	}
	return out, nil
}
