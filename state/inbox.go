package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"payersync/connector"
)

// Delivery is one accepted webhook.
type Delivery struct {
	Key        string // its identity: a hash of the body, with the sender's id before it where there is one
	Type       string
	TypeHeader string // the header that named the type, as "name: value"; "" where none did
	BillingID  string // the customer it speaks of; "" when it names none
	MandateID  string // the mandate it speaks of, where it names no customer
	Body       []byte // the verified bytes
	State      connector.InboxState
	Detail     string // why it is quarantined, in plain words
}

// OpenDelivery is a customer with unreflected deliveries, or a mandate for deliveries without a
// customer.
type OpenDelivery struct {
	BillingID string    // "" while only the mandate is known
	MandateID string    // "" where the customer is known
	IDs       []int64   // of the waiting deliveries; a read started now covers them
	UpTo      int64     // the newest of them
	Key       string    // the delivery, as the cause of its changes
	Attempts  int       // tries of the newest, so that each delivery has its own
	Known     bool      // the customer is linked to a payer
	Since     time.Time // when the one that waits longest came
}

// longestWait is the longest that deliveries are postponed for. A longer wait was set by a fast
// clock, and counts as due.
const longestWait = time.Hour

// OpenDeliveries returns up to limit customers with deliveries that are due, the longest waiting
// first; all deliveries of a customer count as one. If all of them are repeats, the customer is due
// when its last read for deliveries began gap ago, because an attacker can resend a captured
// delivery at any rate.
func (l *Ledger) OpenDeliveries(ctx context.Context, gap time.Duration, limit int) ([]OpenDelivery, error) {
	return collect("read the inbox", func(scan scanner) (d OpenDelivery, err error) {
		var since sql.NullString
		var ids string
		if err = scan(&d.BillingID, &d.MandateID, &ids, &d.UpTo, &d.Key, &d.Attempts, &d.Known, &since); err == nil {
			err = json.Unmarshal([]byte(ids), &d.IDs)
		}
		slices.Sort(d.IDs)
		d.Since, _ = parseTime(since) // one that cannot be read keeps nothing from being reflected
		return d, readError("read the inbox", err)
	})(l.query(ctx, "SELECT o.billing_id, o.mandate, o.ids, o.up_to, k.delivery_key, o.attempts, o.known, o.since FROM ("+dueDeliveries+
		") o JOIN inbox k ON k.inbox_id = o.up_to ORDER BY o.first"+limitTo, append(dueArgs(l.Now(), gap), limit)...))
}

// NextDelivery returns when the next waiting delivery is due; the zero time for none. A past time stands for a delivery
// that is due now, or when OpenDeliveries no longer holds back a repeat.
func (l *Ledger) NextDelivery(ctx context.Context) (time.Time, error) {
	var next sql.NullString
	err := l.queryRow(ctx, `SELECT CASE WHEN EXISTS (SELECT 1 FROM inbox WHERE state IN ('received', 'parked') AND next_attempt IS NULL) THEN ''
		ELSE (SELECT min(next_attempt) FROM inbox WHERE state IN ('received', 'parked')) END`).Scan(&next)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("look for the next delivery: %w", err)
	case !next.Valid:
		return time.Time{}, nil
	case next.String == "":
		return l.Now(), nil
	}
	return parseTime(next)
}

// dueDeliveries are the customers with deliveries that are due by dueArgs.
const dueDeliveries = `
		  SELECT i.billing_id, CASE i.billing_id WHEN '' THEN i.mandate_id ELSE '' END AS mandate,
		    json_group_array(i.inbox_id) AS ids, max(i.inbox_id) AS up_to, min(i.inbox_id) AS first, min(i.attempts) AS attempts, count(p.billing_id) > 0 AS known,
		    min(i.received_at) AS since
		  FROM inbox i LEFT JOIN payers p ON p.billing_id = i.billing_id
		  WHERE i.state IN ('received', 'parked')
		  GROUP BY i.billing_id, mandate HAVING (min(coalesce(i.next_attempt, '')) <= ?1 OR min(i.next_attempt) > ?3)
		    AND (min(i.repeats) = 0 OR coalesce(max(p.drained_at), '') <= ?2 OR max(p.drained_at) > ?1)`

func dueArgs(now time.Time, gap time.Duration) []any {
	return []any{stamp(now), stamp(now.Add(-gap)), stamp(now.Add(longestWait + clockSlack))}
}

// BeginDrain notes that reads of customers for their deliveries begin now, and returns the ticket of
// all of them.
func (tx *Tx) BeginDrain(of []OpenDelivery) (ticket int64, err error) {
	ids, err := json.Marshal(connector.Map(of, func(d OpenDelivery) string { return d.BillingID }))
	if err == nil {
		err = tx.exec("UPDATE payers SET drained_at = ?1 WHERE billing_id IN (SELECT value FROM json_each(?2))",
			stamp(tx.now), string(ids))
	}
	if err != nil {
		return 0, fmt.Errorf("begin to reflect %d customers: %w", len(of), err)
	}
	return tx.Ticket()
}

// NameDeliveries assigns the known customer of a mandate to its waiting deliveries, and reports
// false for an unknown one.
func (tx *Tx) NameDeliveries(d OpenDelivery) (named bool, err error) {
	var customer string
	switch err := tx.row([]any{&customer}, "SELECT billing_id FROM mandates WHERE mandate_id = ?", d.MandateID); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up the customer of mandate %s: %w", d.MandateID, err)
	}
	n, err := tx.changeWaiting(d, `billing_id = ?1, attempts = 0, next_attempt = NULL, state = 'received',
		body = CASE WHEN `+fmt.Sprintf(ofForgotten, "?1")+` THEN x'' ELSE body END`, customer)
	return n > 0, err
}

// changeWaiting changes those deliveries of an OpenDelivery that still wait, and keeps their counts.
func (tx *Tx) changeWaiting(d OpenDelivery, set string, args ...any) (int64, error) {
	if len(d.IDs) == 0 {
		return 0, nil
	}
	ids, err := json.Marshal(d.IDs)
	if err != nil {
		return 0, fmt.Errorf("list the deliveries of customer %s: %w", d.BillingID, err)
	}
	return tx.recounted("inbox_id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))", string(ids),
		"state IN ('received', 'parked')", set, args...)
}

// CloseDeliveries marks the waiting deliveries of a customer with their result, up to the newest
// that a read covered.
func (tx *Tx) CloseDeliveries(d OpenDelivery, to connector.InboxState, detail string) error {
	_, err := tx.changeWaiting(d, "state = ?, processed_at = ?, detail = ?, next_attempt = NULL", to, stamp(tx.now),
		detail)
	return err
}

// PostponeDeliveries leaves the waiting deliveries of a customer for a later
// time, parked or received as they shall be called.
func (tx *Tx) PostponeDeliveries(d OpenDelivery, as connector.InboxState, wait time.Duration) error {
	_, err := tx.changeWaiting(d, "state = ?, attempts = attempts + 1, next_attempt = ?", as, stamp(tx.now.Add(wait)))
	return err
}

// StoredDelivery is a delivery as the ledger has it, without its body.
type StoredDelivery struct {
	InboxRow
	TypeHeader  string  `json:"-"`                    // that named the type, as Delivery says
	MandateID   string  `json:"mandate_id,omitempty"` // where it names no customer
	Detail      string  `json:"detail,omitempty"`     // why it is quarantined or was left, in plain words
	Repeats     int     `json:"repeats"`              // how often it came again
	Attempts    int     `json:"attempts"`             // to reflect it
	NextAttempt *string `json:"next_attempt"`         // null for at once, and when it does not wait
}

// DeliveryNamed returns the delivery with the key name, or the only one whose key begins with it:
// users need not type the hash at its end. It is nil when there is none, and when there are
// several.
func (l *Ledger) DeliveryNamed(ctx context.Context, name string) (*StoredDelivery, error) {
	found, err := list(ctx, l,
		`SELECT `+inboxColumns+`, type_header, mandate_id, detail, repeats, attempts, next_attempt FROM inbox
		WHERE delivery_key = ?1 OR substr(delivery_key, 1, length(?1) + 1) = ?1 || ':'
		ORDER BY delivery_key <> ?1`+limitTo, []any{name, 2}, func(d *StoredDelivery) []any {
			return append(d.dest(), &d.TypeHeader, &d.MandateID, &d.Detail, &d.Repeats, &d.Attempts, &d.NextAttempt)
		})
	if err != nil || len(found) == 0 || len(found) > 1 && found[0].DeliveryKey != name {
		return nil, err
	}
	return &found[0], nil
}

// ReplayDelivery puts a delivery back to be reflected at once, and reports false
// when there is none with the key or it names neither customer nor mandate.
func (tx *Tx) ReplayDelivery(key string) (bool, error) {
	if err := tx.exec("UPDATE payers SET drained_at = NULL WHERE billing_id = (SELECT billing_id FROM inbox WHERE delivery_key = ?)", key); err != nil {
		return false, err
	}
	n, err := tx.recounted(named, key, "(billing_id <> '' OR mandate_id <> '')",
		"state = 'received', next_attempt = NULL, attempts = 0, processed_at = NULL, detail = ''")
	return n > 0, err
}

// named is the condition of the delivery with a key, and isQuarantined of those that were not understood.
const (
	named         = "delivery_key = ?"
	isQuarantined = "state = 'quarantined'"
)

// RereadDelivery stores the present meaning of a quarantined delivery, and reports false if it is
// no longer quarantined. A type that only a header had named is kept.
func (tx *Tx) RereadDelivery(d Delivery) (bool, error) {
	n, err := tx.recounted(named, d.Key, isQuarantined,
		`event_type = CASE WHEN ?1 = '' THEN event_type ELSE ?1 END, billing_id = ?2, mandate_id = ?3, state = ?4, detail = ?5,
		body = CASE WHEN `+fmt.Sprintf(ofForgotten, "?2")+` THEN x'' ELSE body END`, d.Type, d.BillingID, d.MandateID,
		d.State, d.Detail)
	return n > 0, err
}

// eventsApart is the note on a delivery with separately listed events.
const eventsApart = "Its events are listed by themselves."

// SplitDelivery stores the events of a quarantined delivery as deliveries of their own, and reports
// false if it is no longer quarantined. The body goes: its events have their parts of it.
func (tx *Tx) SplitDelivery(key string, events []Delivery) (bool, error) {
	n, err := tx.recounted(named, key, isQuarantined,
		"state = 'ignored', processed_at = ?, next_attempt = NULL, detail = ?, body = x''", stamp(tx.now), eventsApart)
	if err != nil || n == 0 {
		return false, err
	}
	for _, event := range events {
		if _, err := tx.Receive(event); err != nil {
			return false, err
		}
	}
	return true, nil
}

// DismissDelivery closes a delivery that waits for a person or for an unknown customer, and reports
// false for any other.
func (tx *Tx) DismissDelivery(key, detail string) (bool, error) {
	n, err := tx.recounted(named, key, "state IN ('quarantined', 'parked')",
		"state = 'ignored', processed_at = ?, next_attempt = NULL, detail = ?", stamp(tx.now), detail)
	return n > 0, err
}

// ErrBodyErased means that the bytes of a delivery are not kept any more.
var ErrBodyErased = errors.New("its body is not kept any more")

// DeliveryBody returns the stored bytes of a delivery; nil when there is none. It fails with
// ErrBodyErased where its time is over, or its payer was forgotten.
func (l *Ledger) DeliveryBody(ctx context.Context, key string) ([]byte, error) {
	var box []byte
	err := l.queryRow(ctx, "SELECT body FROM inbox WHERE delivery_key = ?", key).Scan(&box)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a webhook delivery: %w", err)
	}
	if len(box) == 0 {
		return nil, ErrBodyErased
	}
	return l.seal.open(box, place("inbox", "body", key))
}
