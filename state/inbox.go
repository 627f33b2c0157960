package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// Delivery is one accepted webhook.
type Delivery struct {
	Key       string // its identity: the sender's id, or a hash of body and coarse time
	Type      string
	BillingID string // the customer it speaks of; "" when it names none
	Body      []byte // the verified bytes
	State     connector.InboxState
	Detail    string // why it is quarantined, in plain words
}

// Receive stores a delivery before it is acknowledged and reports false when a
// delivery with the same key is there already: the insert decides (fault F31).
func (tx *Tx) Receive(d Delivery) (fresh bool, err error) {
	n, err := tx.count(`INSERT INTO inbox (delivery_key, received_at, event_type, billing_id, body, state, detail)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (delivery_key) DO NOTHING`,
		d.Key, stamp(tx.now), d.Type, d.BillingID, tx.l.seal.box(d.Body, place("inbox", "body", d.Key)), d.State, d.Detail)
	if err != nil {
		return false, fmt.Errorf("store a webhook delivery: %w", err)
	}
	return n > 0, nil
}

// OpenDelivery is a customer with deliveries that wait to be reflected.
type OpenDelivery struct {
	BillingID string
	UpTo      int64 // the newest waiting delivery; a read started now covers all up to it
	Attempts  int   // tries of the newest, so that each delivery has its own
	Known     bool  // the customer is linked to a payer
}

// OpenDeliveries returns up to limit customers with deliveries that are due, the
// longest waiting first; all deliveries of a customer count as one.
func (l *Ledger) OpenDeliveries(ctx context.Context, limit int) ([]OpenDelivery, error) {
	rows, err := l.query(ctx, `
		SELECT i.billing_id, max(i.inbox_id), min(i.attempts), EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = i.billing_id)
		FROM inbox i WHERE i.state IN ('received', 'parked')
		GROUP BY i.billing_id HAVING min(coalesce(i.next_attempt, '')) <= ?
		ORDER BY min(i.inbox_id)`+limitTo, stamp(l.Now()), limit)
	if err != nil {
		return nil, fmt.Errorf("read the inbox: %w", err)
	}
	defer rows.Close()
	var out []OpenDelivery
	for rows.Next() {
		var d OpenDelivery
		if err := rows.Scan(&d.BillingID, &d.UpTo, &d.Attempts, &d.Known); err != nil {
			return nil, fmt.Errorf("read the inbox: %w", err)
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

// CloseDeliveries marks every waiting delivery of a customer, up to the newest
// that a read covered, with how it ended.
func (tx *Tx) CloseDeliveries(d OpenDelivery, to connector.InboxState, detail string) error {
	return tx.exec(`UPDATE inbox SET state = ?, processed_at = ?, detail = ?, next_attempt = NULL
		WHERE billing_id = ? AND inbox_id <= ? AND state IN ('received', 'parked')`, to, stamp(tx.now), detail, d.BillingID, d.UpTo)
}

// PostponeDeliveries leaves the waiting deliveries of a customer for a later
// time, parked or received as they shall be called.
func (tx *Tx) PostponeDeliveries(d OpenDelivery, as connector.InboxState, wait time.Duration) error {
	return tx.exec(`UPDATE inbox SET state = ?, attempts = attempts + 1, next_attempt = ?
		WHERE billing_id = ? AND inbox_id <= ? AND state IN ('received', 'parked')`, as, stamp(tx.now.Add(wait)), d.BillingID, d.UpTo)
}

// DeliveryKeyOf returns the key of the newest delivery that a drain covers, as
// the cause of what it changes.
func (tx *Tx) DeliveryKeyOf(d OpenDelivery) (key string, err error) {
	err = tx.row([]any{&key}, "SELECT delivery_key FROM inbox WHERE inbox_id = ?", d.UpTo)
	return key, err
}

// ReplayDelivery puts a delivery back to be reflected again, and reports false
// when there is none with the key or it names no customer.
func (tx *Tx) ReplayDelivery(key string) (bool, error) {
	n, err := tx.count(`UPDATE inbox SET state = 'received', next_attempt = NULL, attempts = 0, processed_at = NULL
		WHERE delivery_key = ? AND billing_id <> ''`, key)
	return n > 0, err
}

// DeliveryBody returns the stored bytes of a delivery; nil when there is none.
func (l *Ledger) DeliveryBody(ctx context.Context, key string) ([]byte, error) {
	var box []byte
	err := l.queryRow(ctx, "SELECT body FROM inbox WHERE delivery_key = ?", key).Scan(&box)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a webhook delivery: %w", err)
	}
	return l.seal.open(box, place("inbox", "body", key))
}
