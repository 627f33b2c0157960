package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// Attempt is one sending of a changing request to the billing service.
type Attempt struct {
	ID     int64
	Ticket int64 // read ticket of its answer: a read whose ticket is later began after it had left
}

// AttemptEnd is how an attempt ended.
type AttemptEnd string

// The ends of an attempt. There is no other end: a found or doubled customer, a person's decision
// or a change of the record ends none.
const (
	AttemptAnswered AttemptEnd = "answered" // the service answered this very request, and took it
	AttemptRefused  AttemptEnd = "refused"  // it answered, and did not take it
	AttemptUnsent   AttemptEnd = "unsent"   // it certainly never left
	AttemptLooked   AttemptEnd = "looked"   // its time was over, and a later read showed no effect
)

// beginAttempt notes that the request of a change is about to leave.
func (tx *Tx) beginAttempt(c Change) (Attempt, error) {
	p := c.Payer
	p.BillingID = c.customer()
	return tx.begin(sql.NullInt64{Int64: c.ID, Valid: true}, c.Action, p)
}

// customer returns the customer that the request of a change is for; "" for a create.
func (c Change) customer() string {
	if c.Action == connector.ActionCreate {
		return ""
	}
	return c.Payer.BillingID
}

// beginAttempts is beginAttempt for several changes.
func (tx *Tx) beginAttempts(changes []Change) ([]Attempt, error) {
	last, err := tx.nextTickets(len(changes))
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(changes))
	out, place := make([]Attempt, len(changes)), make(map[int64]int, len(changes))
	var rows []any
	for i, c := range changes {
		ids[i], place[c.ID] = c.ID, i
		out[i].Ticket = last - int64(len(changes)-1-i)
		rows = append(rows, requestRow(c.ID, c.Action, c.Payer, c.customer(), out[i].Ticket, tx.now)...)
	}
	if err := tx.insertRows(insertAttempts, attemptPlaces, rows, ""); err != nil {
		return nil, fmt.Errorf("note the requests of a group: %w", err)
	}
	asked, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	err = tx.each("SELECT change_id, max(attempt_id) FROM attempts WHERE change_id IN (SELECT CAST(value AS BIGINT) FROM json_each(?)) GROUP BY change_id", []any{string(asked)}, func(scan func(...any) error) error {
		var change, id int64
		err := scan(&change, &id)
		out[place[change]].ID = id
		return err
	})
	return out, connector.Wrap(err, "note the requests of a group")
}

// BeginRequest notes that a person's request for a payer's signing link is about to leave.
func (tx *Tx) BeginRequest(p Payer) (Attempt, error) {
	tx.leads = true
	return tx.begin(sql.NullInt64{}, connector.ActionLink, p)
}

const (
	insertAttempts = "INSERT INTO attempts (change_id, action, connection, source_id, key_name, key_value, billing_id, ticket, sent_at) VALUES "
	attemptPlaces  = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

// requestRow returns the values of a row of insertAttempts.
func requestRow(change any, action connector.Action, p Payer, billingID string, ticket int64, at time.Time) []any {
	return []any{change, action, p.Connection, p.SourceID, p.Key.Name, p.Key.ScopedValue(), billingID, ticket, stamp(at)}
}

func (tx *Tx) begin(change sql.NullInt64, action connector.Action, p Payer) (Attempt, error) {
	a := Attempt{}
	var err error
	if a.Ticket, err = tx.nextTicket(); err != nil {
		return a, err
	}
	err = tx.exec(insertAttempts+attemptPlaces, requestRow(change, action, p, p.BillingID, a.Ticket, tx.now)...)
	if err == nil {
		err = tx.row([]any{&a.ID}, "SELECT max(attempt_id) FROM attempts")
	}
	if err != nil {
		return a, fmt.Errorf("note a request for payer %s: %w", p.SourceID, err)
	}
	return a, nil
}

// EndAttempt notes how an attempt ended. One that has ended stays as it is. An update answered
// after a later one of its customer was sent has not ended, because their order at the service is
// unknown.
func (tx *Tx) EndAttempt(a Attempt, end AttemptEnd) error {
	return connector.Wrap(tx.exec(`UPDATE attempts SET ended = ?1, end_ticket = (SELECT ticket FROM ledger) WHERE attempt_id = ?2 AND ended = ''
		AND (?1 <> 'answered' OR action = 'create' OR action = 'link' OR NOT EXISTS (
		  SELECT 1 FROM attempts n WHERE n.billing_id = attempts.billing_id AND n.attempt_id > attempts.attempt_id AND (n.action = 'adopt' OR n.action = 'update')))`,
		end, a.ID), "note the end of attempt %d", a.ID)
}

// LookedFor ends the attempts of a change. A read that began after the time of all attempts has
// shown no effect of any.
func (tx *Tx) LookedFor(c Change) error {
	return connector.Wrap(tx.exec("UPDATE attempts SET ended = ? WHERE change_id = ? AND ended = ''", AttemptLooked, c.ID),
		"note the end of the attempts of change %d", c.ID)
}

// LookedAt stores that a read of a payer's customer with this ticket shows the results of all requests that
// could no longer arrive at its start. An update with other values in between may have changed fields outside
// the comparison. Then the applied values no longer count as shown, and the next plan compares everything.
func (tx *Tx) LookedAt(p Payer, ticket int64, applied bool) error {
	const outlived = "a.billing_id = ?1 AND a.ended = '' AND a.action <> 'create' AND a.over > 0 AND a.over < ?2"
	var n, ended int64
	var err error
	if applied {
		n, err = tx.count(`UPDATE payers SET shows = '', confirmed_at = 0 WHERE connection = ?3 AND source_id = ?4 AND EXISTS (
			SELECT 1 FROM attempts a JOIN changes c ON c.change_id = a.change_id WHERE `+outlived+` AND c.lane = 'customer' AND c.wanted_hash <> payers.applied_hash)`,
			p.BillingID, ticket, p.Connection, p.SourceID)
	}
	if err == nil {
		ended, err = tx.count("UPDATE attempts AS a SET ended = 'looked', end_ticket = ?2 WHERE "+outlived, p.BillingID,
			ticket)
	}
	if ended > 0 {
		tx.Touch(p)
	}
	if err == nil && n > 0 {
		err = tx.lookAgain(p)
	}
	if err != nil {
		return fmt.Errorf("note the end of the requests to customer %s: %w", p.BillingID, err)
	}
	return nil
}

// LinkAttempts returns when the unanswered requests of a signing-link change were sent, oldest
// first. Those before a ticket do not count: a person has said since to try again.
func (l *Ledger) LinkAttempts(ctx context.Context, c Change, since int64) ([]time.Time, error) {
	rows, err := list(ctx, l,
		"SELECT sent_at FROM attempts WHERE change_id = ? AND action = 'link' AND (ended = '' OR ended = 'looked') AND ticket > ? ORDER BY attempt_id",
		[]any{c.ID, since}, func(at *sql.NullString) []any { return []any{at} })
	if err != nil {
		return nil, fmt.Errorf("look when the signing link of payer %s was asked for: %w", c.Payer.SourceID, err)
	}
	out := make([]time.Time, len(rows))
	for i, at := range rows {
		if out[i], err = parseTime(at); err != nil {
			return nil, fmt.Errorf("look when the signing link of payer %s was asked for: %w", c.Payer.SourceID, err)
		}
	}
	return out, nil
}

// CreateUnderWay is an unfinished create. It may still make a customer with its key, unless the
// caller has looked after its time.
type CreateUnderWay struct {
	Connection string
	SourceID   string
	Ticket     int64 // of its newest sending
	Over       int64 // ticket at which it expired; 0 before that
	SentAt     time.Time
}

// CreatesUnderWay returns the unfinished creates with this key, one for each payer, the last sent
// first.
func (l *Ledger) CreatesUnderWay(ctx context.Context, key connector.Key) ([]CreateUnderWay, error) {
	type row struct {
		CreateUnderWay
		at sql.NullString
	}
	rows, err := list(ctx, l, `SELECT connection, source_id, ticket, over, sent_at FROM attempts
		WHERE attempt_id IN (SELECT max(attempt_id) FROM attempts WHERE key_name = ? AND key_value = ? AND action = 'create' AND ended = '' GROUP BY connection, source_id)
		ORDER BY attempt_id DESC`, []any{key.Name, key.ScopedValue()},
		func(r *row) []any { return []any{&r.Connection, &r.SourceID, &r.Ticket, &r.Over, &r.at} })
	if err != nil {
		return nil, fmt.Errorf("look for creates under way: %w", err)
	}
	out := make([]CreateUnderWay, len(rows))
	for i, r := range rows {
		out[i] = r.CreateUnderWay
		if out[i].SentAt, err = parseTime(r.at); err != nil {
			return nil, fmt.Errorf("look for creates under way: %w", err)
		}
	}
	return out, nil
}

// OpenRequest is a request of a payer whose end is not known.
type OpenRequest struct {
	Action    connector.Action `json:"action"`
	BillingID string           `json:"billing_id,omitempty"` // the customer that it is for; "" for a create
	SentAt    string           `json:"sent_at"`
	Over      bool             `json:"over"` // it can arrive no more, and nobody has looked yet what became of it
}

// OpenRequests returns the requests of a record's payer whose end is not known, oldest first. They
// are few. Without the plus, SQLite scans all attempts, because their index has this order.
func (l *Ledger) OpenRequests(ctx context.Context, connection, sourceID string) ([]OpenRequest, error) {
	return list(ctx, l, "SELECT action, billing_id, sent_at, over <> 0 FROM attempts WHERE connection = ? AND source_id = ? AND ended = '' ORDER BY +attempt_id",
		[]any{connection, sourceID}, func(r *OpenRequest) []any { return []any{&r.Action, &r.BillingID, &r.SentAt, &r.Over} })
}

// ErrKeyUnderWay means that another create with the key may still arrive.
var ErrKeyUnderWay = errors.New("a create with the same key may still arrive")

// LastUnanswered returns when the last unanswered request about a record's customer that may still
// arrive was sent; the zero time for none.
func (l *Ledger) LastUnanswered(ctx context.Context, connection, sourceID string) (time.Time, error) {
	return l.time(ctx, `SELECT max(a.sent_at) FROM changes c CROSS JOIN attempts a ON a.change_id = c.change_id
		WHERE c.connection = ? AND c.source_id = ? AND a.action <> 'link' AND a.ended = '' AND a.over = 0`, connection,
		sourceID)
}
