package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
)

// CreateCause is a cause for which a connection creates no customers yet.
type CreateCause string

// The causes.
const (
	// customers exist that belong to no record, and nobody has finished matching
	CauseFirstMatching CreateCause = "first_matching"
	CauseSameBooks     CreateCause = "same_books" // the records look like the payers of another connection
)

// CreateStop says why a connection creates no customers until a person has decided.
type CreateStop struct {
	Connection string      `json:"connection"`
	Cause      CreateCause `json:"cause"`
	Other      string      `json:"other,omitempty"`   // the connection whose payers the records look like
	Customers  int         `json:"customers"`         // customers without a record, or records that look like payers
	Records    int         `json:"records,omitempty"` // records that may be one of the customers without a record
	Since      time.Time   `json:"since"`
}

// Sentence says why the connection creates no customers.
func (s CreateStop) Sentence() string {
	if s.Cause == CauseSameBooks {
		look := "look"
		if s.Customers == 1 {
			look = "looks"
		}
		return fmt.Sprintf("%s of %s %s like payers of %s. No customer is created before a person says whether the two read the same company.",
			connector.Plural(s.Customers, "record"), s.Connection, look, s.Other)
	}
	exist := "exist in the billing service that belong"
	if s.Customers == 1 {
		exist = "exists in the billing service that belongs"
	}
	look := connector.Plural(s.Records, "record") + " look"
	switch s.Records {
	case 0:
		look = "no record looks"
	case 1:
		look += "s"
	}
	return fmt.Sprintf("%s %s to no record yet, and %s like one of them. No customer is created until matching is finished.", connector.Plural(s.Customers, "customer"), exist, look)
}

// Steps returns the steps that show more, or end the stop.
func (s CreateStop) Steps() []connector.Step {
	if s.Cause == CauseSameBooks {
		return []connector.Step{{Do: connector.DoMoveBooks, Of: s.Other, Connection: s.Connection},
			{Do: connector.DoSeparateBooks, Of: s.Other, Connection: s.Connection}}
	}
	return []connector.Step{{Do: connector.DoMatch, Connection: s.Connection},
		{Do: connector.DoFinishMatching, Connection: s.Connection}}
}

// Next says how a person can end the stop, with Steps.
func (s CreateStop) Next() string {
	if s.Cause == CauseSameBooks {
		return "If the two read the same company, move the payers; if these are another company's, say so:"
	}
	return "Compare them with the records, and then finish:"
}

// Text describes the stop and the way to end it, in one line.
func (s CreateStop) Text() string {
	return s.Sentence() + " " + strings.TrimSuffix(s.Next(), ":") + "."
}

// StopsText returns the text of several stops; "" for none.
func StopsText(stops []CreateStop) string {
	texts := connector.Map(stops, CreateStop.Text)
	return strings.Join(texts, " ")
}

// ErrCreatesWait means that the connection of a create creates no customers yet.
var ErrCreatesWait = errors.New("no customer is created before a person has decided")

// CreatesWaitError means that creates were not approved or sent, because the connection creates no
// customers yet.
type CreatesWaitError struct{ Stops []CreateStop }

// Error says why, and what to do.
func (e *CreatesWaitError) Error() string { return StopsText(e.Stops) }

// Steps returns the steps that end the stops.
func (e *CreatesWaitError) Steps() []connector.Step { return StepsOfStops(e.Stops) }

// StepsOfStops returns the steps that end several stops.
func StepsOfStops(stops []CreateStop) (steps []connector.Step) {
	for _, s := range stops {
		steps = append(steps, s.Steps()...)
	}
	return steps
}

const (
	// isStopped is the condition that the connection in place of %s creates no customers yet.
	isStopped = "EXISTS (SELECT 1 FROM create_stops stop WHERE stop.connection = %s AND stop.finished_at IS NULL)"

	// waitsForPerson selects the pending creates c that wait for a person's decision, and their links.
	waitsForPerson = `(EXISTS (SELECT 1 FROM create_stops stop WHERE stop.connection = c.connection AND stop.finished_at IS NULL)
		AND (c.action = 'create' OR c.action = 'link' AND EXISTS (SELECT 1 FROM changes m WHERE m.connection = c.connection AND m.source_id = c.source_id
		  AND m.lane = 'customer' AND m.action = 'create' AND m.state = 'pending')))`

	stopColumns = "SELECT connection, cause, other, customers, records, since FROM create_stops WHERE finished_at IS NULL AND (?1 = '' OR connection = ?1) ORDER BY connection, cause, other"
)

// CreateStops returns why connections create no customers yet, of one connection or of all with "".
func (l *Ledger) CreateStops(ctx context.Context, connection string) ([]CreateStop, error) {
	return collect("read why creates wait", scanStop)(l.query(ctx, stopColumns, connection))
}

func (tx *Tx) createStops(connection string) ([]CreateStop, error) {
	return collect("read why creates wait", scanStop)(tx.query(stopColumns, connection))
}

func scanStop(scan scanner) (s CreateStop, err error) {
	var since sql.NullString
	if err := scan(&s.Connection, &s.Cause, &s.Other, &s.Customers, &s.Records, &since); err != nil {
		return s, fmt.Errorf("read why creates wait: %w", err)
	}
	s.Since, err = parseTime(since)
	return s, err
}

// SaveCreateStops replaces the stops of a connection's creates. A stop finished by a person stays finished.
func (tx *Tx) SaveCreateStops(connection string, stops []CreateStop) ([]CreateStop, error) {
	before, err := tx.createStops(connection)
	if err != nil {
		return nil, err
	}
	for _, b := range before {
		if !slices.ContainsFunc(stops, func(s CreateStop) bool { return s.Cause == b.Cause && s.Other == b.Other }) {
			if err := tx.exec("DELETE FROM create_stops WHERE connection = ? AND cause = ? AND other = ? AND finished_at IS NULL", connection, b.Cause, b.Other); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range stops {
		if err := tx.exec(`INSERT INTO create_stops (connection, cause, other, customers, records, since) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (connection, cause, other) DO UPDATE SET customers = excluded.customers, records = excluded.records
			WHERE create_stops.finished_at IS NULL AND (create_stops.customers <> excluded.customers OR create_stops.records <> excluded.records)`,
			connection, s.Cause, s.Other, s.Customers, s.Records, stamp(tx.now)); err != nil {
			return nil, err
		}
	}
	return tx.createStops(connection)
}

// Matching says how far the first matching of a connection is.
type Matching struct {
	Stopped  bool // creates wait for a person to finish it
	Finished bool // a person has finished it
	Waiting  bool // creates wait for any cause
	Begun    bool // a payer of the connection has a customer, or a request for one was sent
}

// Matching returns how far the first matching of a connection is.
func (tx *Tx) Matching(connection string) (m Matching, err error) {
	err = tx.row([]any{&m.Stopped, &m.Finished, &m.Waiting, &m.Begun}, `SELECT
		EXISTS (SELECT 1 FROM create_stops WHERE connection = ?1 AND cause = 'first_matching' AND finished_at IS NULL),
		EXISTS (SELECT 1 FROM create_stops WHERE connection = ?1 AND cause = 'first_matching' AND finished_at IS NOT NULL),
		EXISTS (SELECT 1 FROM create_stops WHERE connection = ?1 AND finished_at IS NULL),
		EXISTS (SELECT 1 FROM payers WHERE connection = ?1 AND billing_id IS NOT NULL)
		  OR EXISTS (SELECT 1 FROM changes WHERE connection = ?1 AND lane = 'customer' AND attempts > 0)`, connection)
	if err != nil {
		err = fmt.Errorf("look how far matching is: %w", err)
	}
	return m, err
}

// FreeCustomers returns how many customers of the index belong to no record of a connection. Such a
// customer has no linked payer, was not accepted for a record by a person, and carries no key of a
// record. Before the first complete reading, a customer also counts if its key may belong to an
// unread record.
func (tx *Tx) FreeCustomers(connection, keyName string) (n int, err error) {
	names := []string{keysNamed(keyName)}
	if err := tx.each("SELECT DISTINCT key_name FROM payers", nil, func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, keysNamed(name))
		return err
	}); err != nil {
		return 0, fmt.Errorf("read the names of keys: %w", err)
	}
	list, err := json.Marshal(names)
	if err != nil {
		return 0, err
	}
	if err := tx.row([]any{&n}, `SELECT count(*) FROM remote_customers c WHERE c.digest <> ''
		AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = c.billing_id)
		AND NOT EXISTS (SELECT 1 FROM words w WHERE w.billing_id = c.billing_id AND w.word = 'accept')
		AND NOT EXISTS (SELECT 1 FROM remote_traits t CROSS JOIN json_each(?1) k WHERE t.billing_id = c.billing_id AND t.kind = 'key' AND substr(t.value, 1, length(k.value)) = k.value
		  AND NOT `+fmt.Sprintf(isUnclaimed, "t", "?2")+`)`, string(list), connection); err != nil {
		return 0, fmt.Errorf("count the customers that belong to no record: %w", err)
	}
	return n, nil
}

// CountFirstMatching counts the customers of a connection without a record, and the records that
// may be one of them.
func (tx *Tx) CountFirstMatching(connection, keyName string) (s CreateStop, err error) {
	s = CreateStop{Connection: connection, Cause: CauseFirstMatching}
	if s.Customers, err = tx.FreeCustomers(connection, keyName); err != nil {
		return s, err
	}
	if err := tx.row([]any{&s.Records}, matchCount, connection); err != nil {
		return s, fmt.Errorf("count the records that may be customers: %w", err)
	}
	return s, nil
}

// RecountFirstMatching recounts the reasons that stop a connection's creates until matching is finished, so
// all reports agree with the match list. It ends no stop: the next plan does.
func (tx *Tx) RecountFirstMatching(connection, keyName string) error {
	stops, err := tx.createStops(connection)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(stops, func(s CreateStop) bool { return s.Cause == CauseFirstMatching })
	if i < 0 {
		return nil
	}
	before := stops[i]
	if stops[i], err = tx.CountFirstMatching(connection, keyName); err != nil || stops[i].Sentence() == before.Sentence() {
		return err
	}
	if _, err := tx.SaveCreateStops(connection, stops); err != nil {
		return err
	}
	return tx.replaceLimits(connection, before.Text(), stops[i].Text())
}

// matchingFinished is the stored reason of a plan that waited for matching, until the next run
// checks its limits.
const matchingFinished = "Matching is finished. The next run decides on the new customers, within the limits."

// FinishMatching notes that a person finished matching the records of a connection with the existing customers.
// The next runs create the other customers. It reports false when matching was finished before.
func (tx *Tx) FinishMatching(connection, actor, reason string) (news bool, err error) {
	stops, err := tx.createStops(connection)
	if err != nil {
		return false, err
	}
	n, err := tx.count(`INSERT INTO create_stops (connection, cause, other, since, finished_at, finished_by) VALUES (?1, 'first_matching', '', ?2, ?2, ?3)
		ON CONFLICT (connection, cause, other) DO UPDATE SET finished_at = excluded.finished_at, finished_by = excluded.finished_by WHERE create_stops.finished_at IS NULL`,
		connection, stamp(tx.now), actor)
	if err != nil || n == 0 {
		return false, err
	}
	for _, s := range stops {
		if s.Cause == CauseFirstMatching {
			if err := tx.replaceLimits(connection, s.Text(), matchingFinished); err != nil {
				return false, err
			}
		}
	}
	return true, tx.Audit(Entry{Actor: actor, Action: "finish matching", Subject: connection, Reason: reason})
}

// ErrMatchingOpen means that nobody has finished the matching of a connection.
var ErrMatchingOpen = errors.New("nobody has finished the matching of this connection")

// ReopenMatching takes FinishMatching back. Creates that were not sent wait again while some customers belong to no
// record. It fails with ErrMatchingOpen.
func (tx *Tx) ReopenMatching(connection, actor, reason string) error {
	if err := tx.must(ErrMatchingOpen, `UPDATE create_stops SET finished_at = NULL, finished_by = '', since = ?
		WHERE connection = ? AND cause = 'first_matching' AND finished_at IS NOT NULL`, stamp(tx.now),
		connection); err != nil {
		return err
	}
	return tx.Audit(Entry{Actor: actor, Action: "reopen matching", Subject: connection, Reason: reason})
}

// replaceLimits replaces a part of the reason for which a plan of a connection waits.
func (tx *Tx) replaceLimits(connection, old, with string) error {
	return tx.exec("UPDATE plans SET limits = replace(limits, ?, ?) WHERE connection = ? AND state = 'waiting'", old, with,
		connection)
}

// stoppedCreates returns how many pending creates of a connection wait for a person's decision.
func (tx *Tx) stoppedCreates(connection string) (n int, err error) {
	return n, tx.row([]any{&n},
		"SELECT count(*) FROM changes c WHERE c.connection = ? AND c.lane = 'customer' AND c.action = 'create' AND c.state = 'pending' AND "+waitsForPerson, connection)
}
