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
		return before, tx.saveSealed(m, false)
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
	return before, tx.saveSealed(m, true)
}

// saveSealed keeps what nobody may read in the file: the link, and the reason of a
// failure. A reason stays with the status that it came with.
func (tx *Tx) saveSealed(m connector.Mandate, moved bool) error {
	if err := tx.SaveLink(m); err != nil || m.FailureReason.IsZero() {
		return err
	}
	return tx.exec("UPDATE mandates SET failure_reason = ? WHERE mandate_id = ? AND (? OR failure_reason IS NULL) AND NOT "+fmt.Sprintf(ofForgotten, "mandates.billing_id"),
		tx.l.seal.box([]byte(m.FailureReason.Expose()), place("mandates", "failure_reason", m.ID)), m.ID, moved)
}

// SaveLink seals a mandate's signing link when the answer had one. Unlike a
// status it cannot be overtaken by a newer read.
func (tx *Tx) SaveLink(m connector.Mandate) error {
	if m.URL == "" {
		return nil
	}
	return tx.exec("UPDATE mandates SET link = ?, link_at = ? WHERE mandate_id = ? AND NOT "+fmt.Sprintf(ofForgotten, "mandates.billing_id"),
		tx.l.seal.box([]byte(m.URL), place("mandates", "link", m.ID)), stamp(tx.now), m.ID)
}

// SigningLink returns the signing link of a mandate; "" when none is kept. Every
// caller that shows it to a person says so in the audit log.
func (l *Ledger) SigningLink(ctx context.Context, mandateID string) (string, error) {
	return l.openOfMandate(ctx, "link", mandateID)
}

// FailureReason returns the code by which the service said why a bank cancelled a
// mandate; "" when none is kept. It is for debugging with the service; every
// caller that shows it to a person says so in the audit log.
func (l *Ledger) FailureReason(ctx context.Context, mandateID string) (string, error) {
	return l.openOfMandate(ctx, "failure_reason", mandateID)
}

// openOfMandate opens a sealed column of a mandate.
func (l *Ledger) openOfMandate(ctx context.Context, column, mandateID string) (string, error) {
	var box []byte
	err := l.queryRow(ctx, "SELECT "+column+" FROM mandates WHERE mandate_id = ?", mandateID).Scan(&box)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read what is sealed of mandate %s: %w", mandateID, err)
	}
	text, err := l.seal.open(box, place("mandates", column, mandateID))
	return string(text), err
}

// Mandate returns the row of v_mandates with this id; nil when there is none.
func (l *Ledger) Mandate(ctx context.Context, id string) (*MandateRow, error) {
	rows, err := list(ctx, l, "SELECT "+mandateColumns+" FROM v_mandates WHERE mandate_id = ?", []any{id}, (*MandateRow).dest)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// lostLink is the condition that the current mandate of payer p waits for a
// signature, and that its link was never seen.
const lostLink = "EXISTS (SELECT 1 FROM mandates lost WHERE lost.mandate_id = p.mandate_id AND lost.status = 'CREATED' AND lost.link IS NULL)"

// LostLinks returns the linked payers of a connection, of all of them for "", whose
// mandate waits for a signature and whose signing link was never seen.
func (l *Ledger) LostLinks(ctx context.Context, connection string) ([]Payer, error) {
	return l.payers(ctx, "SELECT "+payerColumns+` FROM payers p
		WHERE (p.connection = ?1 OR ?1 = '') AND `+inOrder+` AND `+lostLink+" ORDER BY p.connection, p.source_id", connection)
}
