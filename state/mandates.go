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
		return before, tx.saveLink(m)
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
	return before, tx.saveLink(m)
}

// saveLink seals a signing link when the answer had one.
func (tx *Tx) saveLink(m connector.Mandate) error {
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
	err := l.reader.QueryRowContext(ctx, "SELECT link FROM mandates WHERE mandate_id = ?", mandateID).Scan(&box)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the signing link of mandate %s: %w", mandateID, err)
	}
	link, err := l.seal.open(box, place("mandates", "link", mandateID))
	return string(link), err
}

// StatusOf returns the status the ledger holds of a mandate; "" when it knows
// none.
func (l *Ledger) StatusOf(ctx context.Context, mandateID string) (connector.MandateStatus, error) {
	var s connector.MandateStatus
	err := l.reader.QueryRowContext(ctx, "SELECT status FROM mandates WHERE mandate_id = ?", mandateID).Scan(&s)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return s, err
}

// MandateKnown reports whether the ledger ever saw a mandate of the customer.
func (l *Ledger) MandateKnown(ctx context.Context, billingID string) (known bool, err error) {
	err = l.reader.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM mandates WHERE billing_id = ?)", billingID).Scan(&known)
	return known, err
}
