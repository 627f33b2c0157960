package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"payersync/connector"
)

// UndocumentedStatuses returns the statuses of mandates in the ledger that connector.MandateStatuses does not
// list, sorted. It reads every mandate.
func (l *Ledger) UndocumentedStatuses(ctx context.Context) ([]string, error) {
	statuses, err := list(ctx, l, "SELECT DISTINCT status FROM mandates ORDER BY status", nil,
		func(s *string) []any { return []any{s} })
	return slices.DeleteFunc(statuses, func(s string) bool { return connector.MandateStatus(s).Known() }), err
}

// SaveMandate stores a mandate, and returns its status before; "" for a new one.
//
// Only tests call it: Reflect stores observed mandates.
func (tx *Tx) SaveMandate(m connector.Mandate, cause connector.Cause, causeID string) (before connector.MandateStatus,
	err error) {
	err = tx.row([]any{&before}, "SELECT status FROM mandates WHERE mandate_id = ?", m.ID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("read mandate %s: %w", m.ID, err)
	}
	return before, tx.saveMandate(&Known{Observation: Observation{Cause: cause, CauseID: causeID}, Status: before,
		LinkApart: true}, m)
}

// saveMandate stores an observed mandate and, if its status changed, a line of history. An unchanged mandate in a list
// writes nothing.
func (tx *Tx) saveMandate(k *Known, m connector.Mandate) (err error) {
	now := stamp(tx.now)
	if k.Status == m.Status {
		if k.List != nil {
			k.List.mandates.Add(m.ID)
		}
		if err := tx.exec("UPDATE mandates SET last_seen_at = ?1, service_time = CASE WHEN ?2 <> '' THEN ?2 ELSE service_time END WHERE mandate_id = ?3 AND (?4 = 0 OR ?2 <> '' AND ?2 <> service_time)",
			now, m.ServiceTime, m.ID, k.List != nil); err != nil {
			return fmt.Errorf("save mandate %s: %w", m.ID, err)
		}
		if k.List != nil && m.URL != "" {
			if m.URL, err = tx.newLink(m); err != nil {
				return err
			}
		}
	} else if err := errors.Join(tx.exec(`INSERT INTO mandates (mandate_id, billing_id, status, status_since, service_time, first_seen_at, last_seen_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (mandate_id) DO UPDATE SET status = excluded.status, status_since = excluded.status_since,
		  service_time = excluded.service_time, last_seen_at = excluded.last_seen_at`,
		m.ID, m.CustomerID, m.Status, now, m.ServiceTime, now, now), tx.appendHistory(transition{
		mandate: m.ID, customer: m.CustomerID, serviceTime: m.ServiceTime, from: k.Status, to: m.Status, cause: k.Cause,
		causeID: k.CauseID,
	})); err != nil {
		return fmt.Errorf("save mandate %s and its history: %w", m.ID, err)
	}
	if k.Status != m.Status || k.LinkApart {
		if err := tx.voidLinks(m); err != nil {
			return err
		}
	}
	return errors.Join(tx.keepLatestLink(m), tx.keepReason(m)) // a reason stays with the status that it came with
}

// newLink returns the signing link that a list shows; "" if the ledger keeps the same one already.
func (tx *Tx) newLink(m connector.Mandate) (string, error) {
	var box []byte
	if err := tx.row([]any{&box}, "SELECT link FROM mandates WHERE mandate_id = ?", m.ID); err != nil || box == nil {
		return m.URL, err
	}
	kept, err := tx.l.seal.open(box, place("mandates", "link", m.ID))
	if err == nil && string(kept) == m.URL {
		return "", nil
	}
	return m.URL, err
}

// voidLinks drops the links of a customer's other mandates: m is its latest, and a customer
// has one link at most.
func (tx *Tx) voidLinks(m connector.Mandate) error {
	err := tx.exec(`UPDATE mandates SET link = NULL, link_at = NULL, link_refused = 0 WHERE link IS NOT NULL AND mandate_id <> ?1
		AND billing_id = (SELECT n.billing_id FROM mandates n WHERE n.mandate_id = ?1)`, m.ID)
	return connector.Wrap(err, "drop the signing links that mandate %s replaces", m.ID)
}

// SaveLink seals the signing link of an answer older than a newer read, and reports whether it is
// kept. Unlike a status, the link may still be new. The link of a mandate that is the payer's
// latest no more is void, and is not kept.
func (tx *Tx) SaveLink(m connector.Mandate) (kept bool, err error) {
	if m.URL == "" {
		return false, nil
	}
	query, args := tx.keepingLink(m,
		"AND EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = mandates.billing_id AND p.mandate_id = mandates.mandate_id)")
	n, err := tx.count(query, args...)
	return n > 0, err
}

// keepLatestLink seals a mandate's signing link when the answer had one.
func (tx *Tx) keepLatestLink(m connector.Mandate) error {
	if m.URL == "" {
		return nil
	}
	query, args := tx.keepingLink(m, "")
	return tx.exec(query, args...)
}

// keepingLink returns the statement that keeps a mandate's signing link. A mandate known under
// another customer keeps none, because its owner is uncertain.
func (tx *Tx) keepingLink(m connector.Mandate, where string) (query string, args []any) {
	return "UPDATE mandates SET link = ?, link_at = ?, link_refused = 0 WHERE mandate_id = ? AND billing_id = ? AND NOT " +
			fmt.Sprintf(ofForgotten, "mandates.billing_id") + " " + where,
		[]any{tx.l.boxLink(m), stamp(tx.now), m.ID, m.CustomerID}
}

// boxLink seals the signing link of a mandate.
func (l *Ledger) boxLink(m connector.Mandate) []byte {
	return l.seal.box([]byte(m.URL), place("mandates", "link", m.ID))
}

// RefuseLink stores that the billing service refuses to return the signing link of a payer's mandate again.
// The stored link is no longer used.
func (tx *Tx) RefuseLink(p Payer) error {
	n, err := tx.count(`UPDATE mandates SET link = NULL, link_at = NULL, link_refused = (SELECT max(ticket, 1) FROM ledger)
		WHERE mandate_id = ? AND billing_id = ? AND status = 'CREATED'`, p.MandateID, p.BillingID)
	if err != nil || n == 0 {
		return err
	}
	tx.Touch(p)
	return tx.LookNext(p)
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
	text, err := l.seal.open(box, place("mandates", "link", mandateID))
	return string(text), err
}

// Mandate returns the row of v_mandates with this id; nil when there is none.
func (l *Ledger) Mandate(ctx context.Context, id string) (*MandateRow, error) {
	rows, err := list(ctx, l, "SELECT "+mandateColumns+" FROM v_mandates WHERE mandate_id = ?", []any{id},
		(*MandateRow).dest)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

const (
	// unsigned are the payers p whose current mandate m waits for a signature. It queries the
	// mandates first: the waiting ones are fewer than the payers, and have an index.
	unsigned = "mandates m CROSS JOIN payers p ON p.billing_id = m.billing_id AND p.mandate_id = m.mandate_id WHERE m.status = 'CREATED' AND "
	// lostLink is the condition that the current mandate of payer p is unsigned and its link is not
	// stored.
	lostLink = "EXISTS (SELECT 1 FROM mandates lost WHERE lost.mandate_id = p.mandate_id AND lost.status = 'CREATED' AND lost.link IS NULL)"
)

// LostLinks returns the linked payers of a connection ("" for all) with an unsigned mandate and no
// usable signing link. The link was never seen, was refused, or was last given before expired, if
// links expire.
func (l *Ledger) LostLinks(ctx context.Context, connection string, expired time.Time) ([]Payer, error) {
	return l.payers(ctx, "SELECT "+payerColumns+" FROM "+unsigned+`
		(m.link IS NULL OR m.link_at <= ?2) AND (p.connection = ?1 OR ?1 = '') AND `+inOrder+" ORDER BY p.connection, p.source_id", connection, orEver(expired))
}

// OldLinks returns the linked payers of a connection ("" for all) with an unsigned mandate whose
// signing link was last given before a time.
func (l *Ledger) OldLinks(ctx context.Context, connection string, before time.Time) ([]Payer, error) {
	return l.payers(ctx, "SELECT "+payerColumns+" FROM "+unsigned+`
		m.link IS NOT NULL AND m.link_at <= ?2 AND (p.connection = ?1 OR ?1 = '') AND `+inOrder+" ORDER BY p.connection, p.source_id", connection, stamp(before))
}

// orEver returns a moment as the ledger stores it; "", before all of them, for none.
func orEver(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(layout)
}

// LinkGiven returns when the billing service last gave the stored signing link of a mandate; the
// zero time if none is stored.
func (l *Ledger) LinkGiven(ctx context.Context, mandateID string) (time.Time, error) {
	var at sql.NullString
	err := l.queryRow(ctx, "SELECT link_at FROM mandates WHERE mandate_id = ? AND link IS NOT NULL", mandateID).Scan(&at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, fmt.Errorf("read when the signing link of mandate %s was given: %w", mandateID, err)
	}
	return parseTime(at)
}
