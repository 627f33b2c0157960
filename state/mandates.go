package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"payersync/connector"
)

// MandateStatus returns the status the ledger holds of a mandate; "" when it
// knows none.
func (tx *Tx) MandateStatus(id string) (connector.MandateStatus, error) {
	var s connector.MandateStatus
	err := tx.row([]any{&s}, "SELECT status FROM mandates WHERE mandate_id = ?", id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return s, err
}

// SaveMandate writes what was observed of a mandate and, when its status moved,
// a line of history. It returns the status before, "" for a mandate that is new.
func (tx *Tx) SaveMandate(m connector.Mandate, cause connector.Cause, causeID string) (before connector.MandateStatus, err error) {
	if before, err = tx.MandateStatus(m.ID); err != nil {
		return "", fmt.Errorf("read mandate %s: %w", m.ID, err)
	}
	now := stamp(tx.now)
	if before == m.Status {
		err = tx.exec("UPDATE mandates SET last_seen_at = ?, service_time = CASE WHEN ?2 <> '' THEN ?2 ELSE service_time END WHERE mandate_id = ?3",
			now, m.ServiceTime, m.ID)
		if err != nil {
			return before, fmt.Errorf("save mandate %s: %w", m.ID, err)
		}
		return before, tx.SaveLink(m)
	}
	if err := tx.exec(`INSERT INTO mandates (mandate_id, billing_id, status, status_since, service_time, first_seen_at, last_seen_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (mandate_id) DO UPDATE SET status = excluded.status, status_since = excluded.status_since,
		  service_time = excluded.service_time, last_seen_at = excluded.last_seen_at`,
		m.ID, m.CustomerID, m.Status, now, m.ServiceTime, now, now); err != nil {
		return before, fmt.Errorf("save mandate %s: %w", m.ID, err)
	}
	if err := tx.appendHistory(transition{
		mandate: m.ID, customer: m.CustomerID, serviceTime: m.ServiceTime, from: before, to: m.Status, cause: cause, causeID: causeID,
	}); err != nil {
		return before, fmt.Errorf("save the history of mandate %s: %w", m.ID, err)
	}
	return before, tx.SaveLink(m)
}

// SaveLink seals a mandate's signing link when the answer had one. Unlike a
// status it cannot be overtaken by a newer read.
func (tx *Tx) SaveLink(m connector.Mandate) error {
	if m.URL == "" {
		return nil
	}
	return tx.exec("UPDATE mandates SET link = ?, link_at = ? WHERE mandate_id = ?",
		tx.l.seal.box([]byte(m.URL), place("mandates", "link", m.ID)), stamp(tx.now), m.ID)
}

// SigningLink returns the signing link of a mandate; "" when none is kept. Every
// caller that shows it to a person says so in the audit log.
func (l *Ledger) SigningLink(ctx context.Context, mandateID string) (string, error) {
	var box []byte
	err := l.queryRow(ctx, "SELECT link FROM mandates WHERE mandate_id = ?", mandateID).Scan(&box)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the signing link of mandate %s: %w", mandateID, err)
	}
	link, err := l.seal.open(box, place("mandates", "link", mandateID))
	return string(link), err
}

// NeedsLink reports whether a payer still waits for its first signing link: no
// request for one was ever settled, and the ledger knows of no mandate but one
// that waits for a signature and whose link it never saw.
func (l *Ledger) NeedsLink(ctx context.Context, p Payer) (needs bool, err error) {
	err = l.queryRow(ctx, `SELECT
		NOT EXISTS (SELECT 1 FROM changes c WHERE c.connection = ? AND c.source_id = ? AND c.lane = 'mandate' AND c.state IN ('done', 'held', 'failed'))
		AND NOT EXISTS (SELECT 1 FROM mandates m WHERE m.billing_id = ? AND (m.status <> 'CREATED' OR m.link IS NOT NULL))`,
		p.Connection, p.SourceID, p.BillingID).Scan(&needs)
	return needs, err
}
