package state

import (
	"context"
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
	prev, err := tx.chainHead("SELECT hash FROM audit ORDER BY seq DESC LIMIT 1")
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	at := stamp(tx.now)
	hash, err := link(prev, at, e.Actor, e.Action, e.Subject, e.Reason)
	if err != nil {
		return err
	}
	return tx.exec("INSERT INTO audit (at, actor, action, subject, reason, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?)",
		at, e.Actor, e.Action, e.Subject, e.Reason, prev, hash)
}

// transition is one row of the mandate history.
type transition struct {
	mandate, customer, serviceTime string
	from, to                       connector.MandateStatus
	cause                          connector.Cause
	causeID                        string
}

func (tx *Tx) appendHistory(t transition) error {
	prev, err := tx.chainHead("SELECT hash FROM mandate_history ORDER BY seq DESC LIMIT 1")
	if err != nil {
		return fmt.Errorf("read the mandate history: %w", err)
	}
	at := stamp(tx.now)
	hash, err := link(prev, t.mandate, t.customer, t.from, t.to, t.serviceTime, at, t.cause, t.causeID)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO mandate_history
		(mandate_id, billing_id, from_status, to_status, service_time, observed_at, cause, cause_id, prev_hash, hash)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.mandate, t.customer, t.from, t.to, t.serviceTime, at, t.cause, t.causeID, prev, hash)
}

func (l *Ledger) verifyAudit(ctx context.Context) error {
	return l.verifyChain(ctx, "audit log", "SELECT seq, prev_hash, hash, at, actor, action, subject, reason FROM audit ORDER BY seq")
}

func (l *Ledger) verifyHistory(ctx context.Context) error {
	return l.verifyChain(ctx, "mandate history", `SELECT seq, prev_hash, hash,
		mandate_id, billing_id, from_status, to_status, service_time, observed_at, cause, cause_id
		FROM mandate_history ORDER BY seq`)
}

// verifyMandates compares each mandate's status with the last one of its history.
func (l *Ledger) verifyMandates(ctx context.Context) error {
	var id string
	err := l.queryRow(ctx, `SELECT m.mandate_id FROM mandates m LEFT JOIN (
		SELECT mandate_id, to_status FROM mandate_history WHERE seq IN (SELECT max(seq) FROM mandate_history GROUP BY mandate_id)
		) h ON h.mandate_id = m.mandate_id
		WHERE m.status IS DISTINCT FROM h.to_status ORDER BY m.mandate_id LIMIT 1`).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("compare the mandates with their history: %w", err)
	}
	return fmt.Errorf("the status of mandate %s is not the last one of its history", id)
}

// verifyChain walks a chain whose query gives seq, prev_hash, hash and then the
// hashed values.
func (l *Ledger) verifyChain(ctx context.Context, name, query string) error {
	rows, err := l.query(ctx, query)
	if err != nil {
		return fmt.Errorf("read the %s: %w", name, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return fmt.Errorf("read the %s: %w", name, err)
	}
	head := ""
	for rows.Next() {
		seq, prev, hash, values := int64(0), "", "", make([]string, len(columns)-3)
		dest, hashed := []any{&seq, &prev, &hash}, make([]any, len(values))
		for i := range values {
			dest = append(dest, &values[i])
		}
		if err := rows.Scan(dest...); err != nil {
			return fmt.Errorf("read the %s: %w", name, err)
		}
		for i, v := range values {
			hashed[i] = v
		}
		want, err := link(head, hashed...)
		if err != nil {
			return err
		}
		if prev != head || hash != want {
			return fmt.Errorf("the %s was altered at entry %d", name, seq)
		}
		head = hash
	}
	return rows.Err()
}
