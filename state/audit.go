package state

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// link returns the hash of one row of a chain: of the row before it and of the
// row's own values in column order.
func link(prev string, values ...any) (string, error) {
	b, err := json.Marshal(append([]any{prev}, values...))
	if err != nil {
		return "", fmt.Errorf("hash a chained row: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// linked returns what a new row of a chain holds: its values as they are stored, the hash of the
// row before it, and its own.
func linked(prev string, values ...any) ([]any, error) {
	values, err := bound(values)
	if err != nil {
		return nil, err
	}
	hash, err := link(prev, values...)
	return append(values, prev, hash), err
}

// chainHead returns the hash of the newest row, "" for an empty chain.
func (tx *Tx) chainHead(query string) (string, error) {
	var head string
	err := tx.row([]any{&head}, query)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return head, err
}

// Entry is one line of the audit log. It names people who act and things acted
// on by id, never a payer's personal values.
type Entry struct {
	At      time.Time
	Actor   string // who, for example the operating system's user name
	Action  string // what, for example "approve plan"
	Subject string // on which plan, mandate, connection
	Reason  string // why, in the actor's words
}

// Audit appends an entry to the audit log.
func (tx *Tx) Audit(e Entry) error {
	prev, err := tx.chainHead(auditHead)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	values, err := linked(prev, stamp(tx.now), e.Actor, e.Action, e.Subject, e.Reason)
	if err != nil {
		return err
	}
	return tx.exec(insertAudit, values...)
}

const (
	auditHead   = "SELECT hash FROM audit ORDER BY seq DESC LIMIT 1"
	insertAudit = "INSERT INTO audit (at, actor, action, subject, reason, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"
)

// transition is one row of the mandate history.
type transition struct {
	mandate, customer, serviceTime string
	from, to                       connector.MandateStatus
	cause                          connector.Cause
	causeID                        string
}

// appendHistory appends lines to the mandate history.
func (tx *Tx) appendHistory(lines ...transition) error {
	head, err := tx.chainHead("SELECT hash FROM mandate_history ORDER BY seq DESC LIMIT 1")
	if err != nil {
		return fmt.Errorf("read the mandate history: %w", err)
	}
	var rows []any
	for _, t := range lines {
		values, err := linked(head, t.mandate, t.customer, t.from, t.to, t.serviceTime, stamp(tx.now), t.cause, t.causeID)
		if err != nil {
			return err
		}
		rows = append(rows, values...)
		head, _ = rows[len(rows)-1].(string)
	}
	return tx.insertRows(`INSERT INTO mandate_history
		(mandate_id, billing_id, from_status, to_status, service_time, observed_at, cause, cause_id, prev_hash, hash)
		VALUES `, "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows, "")
}
