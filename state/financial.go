package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Financial is the billing service's own word for a customer's financial status, and its last
// sighting; zero if it never gave one. It is for people to read: nothing is decided by it.
type Financial struct {
	Status string    `json:"financial_status,omitempty"`
	SeenAt time.Time `json:"financial_seen,omitzero"`
}

func placeOfFinancial(billingID string) []byte {
	return place("financial_statuses", "status", billingID)
}

// SaveFinancial stores the financial status of our customer from a read. It keeps none for forgotten payers and for
// customers without a payer. It is no change of the customer: nothing else moves with it.
func (tx *Tx) SaveFinancial(billingID, status string) error {
	return tx.exec(`INSERT INTO financial_statuses (billing_id, status, seen_at)
		SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM payers WHERE billing_id = ?1) AND NOT `+fmt.Sprintf(ofForgotten, "?1")+`
		ON CONFLICT (billing_id) DO UPDATE SET status = excluded.status, seen_at = excluded.seen_at`,
		billingID, tx.l.seal.box([]byte(status), placeOfFinancial(billingID)), stamp(tx.now))
}

// Financial returns a customer's known financial status. Without the sealing key that is nothing.
func (l *Ledger) Financial(ctx context.Context, billingID string) (Financial, error) {
	var box []byte
	var seen sql.NullString
	err := l.queryRow(ctx, "SELECT f.status, "+lastSeenOf("f",
		"seen_at")+" FROM financial_statuses f WHERE f.billing_id = ?", billingID).Scan(&box, &seen)
	if errors.Is(err, sql.ErrNoRows) {
		return Financial{}, nil
	}
	if err != nil {
		return Financial{}, fmt.Errorf("look for a financial status: %w", err)
	}
	return l.openFinancial(billingID, box, seen)
}

func (l *Ledger) openFinancial(billingID string, box []byte, seen sql.NullString) (f Financial, err error) {
	if box == nil || l.Sealed() {
		return f, nil
	}
	status, err := l.seal.open(box, placeOfFinancial(billingID))
	if err != nil {
		return f, fmt.Errorf("the financial status of customer %s: %w", billingID, err)
	}
	f.Status = string(status)
	f.SeenAt, err = parseTime(seen)
	return f, err
}
