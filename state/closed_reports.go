package state

import (
	"context"
	"errors"
	"fmt"
)

// auditDecision appends a person's decision to the audit log and returns its line number, which its effects
// refer to.
func (tx *Tx) auditDecision(e Entry) (seq int64, err error) {
	if err := tx.Audit(e); err != nil {
		return 0, err
	}
	return seq, tx.row([]any{&seq}, "SELECT max(seq) FROM audit")
}

// GiveUp stores a person's decision to give a record up. From now on the record is excluded, with its
// customer and mandate, and its planned changes are not sent. Unanswered requests stay known. of describes
// the mapping's present result for the record: when that changes, a person gets a report. It reports false
// when the very same was said before, and fails with ErrNoRecord.
func (tx *Tx) GiveUp(id RecordID, of string, word Entry) (news bool, err error) {
	var known, same bool
	if err := tx.row([]any{&known, &same},
		`SELECT count(*) > 0, count(CASE WHEN given_up <> 0 AND given_up_of = ?3 THEN 1 END) > 0 FROM source_records WHERE connection = ?1 AND source_id = ?2`,
		id.Connection, id.SourceID, of); err != nil || same {
		return false, err
	}
	if !known {
		return false, ErrNoRecord
	}
	seq, err := tx.auditDecision(word)
	if err != nil {
		return false, err
	}
	ticket, err := tx.Ticket()
	if err != nil {
		return false, err
	}
	// A plan does not ask about this loss, because a person decided it.
	if err := tx.exec("UPDATE source_records SET given_up = ?, given_up_of = ?, replan = 1, decision = 'excluded', let_go = 1 WHERE connection = ? AND source_id = ?",
		seq, of, id.Connection, id.SourceID); err != nil {
		return false, fmt.Errorf("give record %s up: %w", id.SourceID, err)
	}
	if err := tx.exec("UPDATE payers SET stays_at = ?, stays_with = coalesce(mandate_id, ''), stays_word = ?, updated_at = ? WHERE connection = ? AND source_id = ? AND billing_id IS NOT NULL",
		ticket, seq, stamp(tx.now), id.Connection, id.SourceID); err != nil {
		return false, fmt.Errorf("give payer %s up: %w", id.SourceID, err)
	}
	if err := tx.dropPlanned(id.Connection, id.SourceID, LaneCustomer, LaneMandate); err != nil {
		return false, err
	}
	tx.Explain(id.payer(), TopicRecord, "", "")
	return true, nil
}

// TakeUp revokes GiveUp: the next plan decides on the record again. It reports false when the
// record is not given up.
func (tx *Tx) TakeUp(id RecordID, word Entry) (news bool, err error) {
	n, err := tx.count("UPDATE source_records SET given_up = 0, given_up_of = '', replan = 1 WHERE connection = ? AND source_id = ? AND given_up <> 0", id.Connection, id.SourceID)
	if err != nil || n == 0 {
		return false, err
	}
	tx.Explain(id.payer(), TopicRecord, "", "")
	return true, tx.Audit(word)
}

// IsGivenUp reports whether a person has given up the payer's record.
func (tx *Tx) IsGivenUp(p Payer) (bool, error) {
	return txSingle[bool](tx,
		"SELECT count(*) > 0 FROM source_records WHERE connection = ? AND source_id = ? AND given_up <> 0", p.Connection,
		p.SourceID)
}

const (
	// mandateNow describes in one text how the mandate of payer p got its status, and its last
	// request: a returning status is another one.
	mandateNow = `(coalesce(p.mandate_id, '') || ' ' || (SELECT coalesce(max(h.seq), 0) FROM mandate_history h WHERE h.billing_id = p.billing_id) || ' ' ||
		coalesce((SELECT n.change_id || ' ' || n.ended_at FROM changes n WHERE n.connection = p.connection AND n.source_id = p.source_id AND n.lane = 'mandate'
			AND (n.state = 'done' OR n.state = 'failed' OR n.state = 'held') AND n.change_id > coalesce(p.parted, 0) ORDER BY n.change_id DESC LIMIT 1), ''))`
	// letBe is the condition that a person decided to leave the mandate of payer p as it is.
	letBe = "(CASE coalesce(p.let_be, 0) WHEN 0 THEN false ELSE p.let_be_of = " + mandateNow + " END)"
)

// LetBe notes a person's decision to leave the payer's mandate as it is, and withdraws its reports.
// It holds until the mandate, its status, or the last request for its link is another. It reports
// false when the very same was said before, and fails with ErrOtherMandate when the payer has
// another mandate by now.
func (tx *Tx) LetBe(p Payer, word Entry) (news bool, err error) {
	same, err := tx.IsLetBe(p)
	if err != nil || same {
		return false, err
	}
	seq, err := tx.auditDecision(word)
	if err != nil {
		return false, err
	}
	n, err := tx.count("UPDATE payers AS p SET let_be = ?, let_be_of = "+mandateNow+", updated_at = ? WHERE p.connection = ? AND p.source_id = ? AND coalesce(p.mandate_id, '') = ?",
		seq, stamp(tx.now), p.Connection, p.SourceID, p.MandateID)
	if err != nil {
		return false, fmt.Errorf("let the mandate of payer %s be: %w", p.SourceID, err)
	}
	if n == 0 {
		return false, ErrOtherMandate
	}
	tx.Touch(p)
	return true, errors.Join(tx.dropPlanned(p.Connection, p.SourceID, LaneMandate), tx.LookNext(p))
}

// IsLetBe reports whether a person decided to leave the payer's mandate as it is.
func (tx *Tx) IsLetBe(p Payer) (bool, error) {
	return txSingle[bool](tx, "SELECT count(*) > 0 FROM payers p WHERE p.connection = ? AND p.source_id = ? AND "+letBe,
		p.Connection, p.SourceID)
}

// ErrNoProblem means that there is no report on the webhook subscription.
var ErrNoProblem = errors.New("the ledger knows of no problem with the webhook subscription")

// CloseSubscription notes that a person knows the problem of the webhook subscription: another
// problem is reported again. It reports false when the same was said before, and fails with
// ErrNoProblem.
func (tx *Tx) CloseSubscription(word Entry) (news bool, err error) {
	var problem, same bool
	if err := tx.row([]any{&problem, &same},
		"SELECT problem <> '', known <> 0 AND known_of = detail FROM subscription"); err != nil {
		return false, err
	}
	switch {
	case !problem:
		return false, ErrNoProblem
	case same:
		return false, nil
	}
	seq, err := tx.auditDecision(word)
	if err != nil {
		return false, err
	}
	return true, tx.exec("UPDATE subscription SET known = ?, known_of = detail", seq)
}

// ClosedKind is the kind of report that a person's decision has closed.
type ClosedKind string

// The kinds of decisions that close a report.
const (
	ClosedGivenUp      ClosedKind = "given_up"     // the record is left out
	ClosedStays        ClosedKind = "stays"        // a payer whose record has left stays as it is
	ClosedMandate      ClosedKind = "mandate"      // nothing is to be done about the mandate
	ClosedSubscription ClosedKind = "subscription" // the webhook subscription's problem is known
)

// ClosedRow is one decision in force.
type ClosedRow struct {
	Kind       ClosedKind `json:"kind"`
	Connection string     `json:"connection"` // blank for the webhook subscription
	SourceID   string     `json:"source_id"`
	At         string     `json:"at"` // blank for what was said before the ledger kept it here
	By         string     `json:"by"`
	Why        string     `json:"why"`
}

// closedWords are the words that hold, with their entries of the audit log. Few payers have one:
// those are asked first, by their index.
const closedWords = `SELECT 'given_up' AS kind, r.connection, r.source_id, r.given_up AS word FROM source_records r WHERE r.given_up <> 0
	UNION ALL SELECT 'stays', p.connection, p.source_id, p.stays_word FROM payers p CROSS JOIN source_records r ON r.connection = p.connection AND r.source_id = p.source_id AND r.given_up = 0 AND r.forgotten = ''
		WHERE p.stays_at <> 0 AND p.stays_with = coalesce(p.mandate_id, '')
	UNION ALL SELECT 'mandate', p.connection, p.source_id, p.let_be FROM payers p WHERE p.let_be <> 0 AND ` + letBe + `
	UNION ALL SELECT 'subscription', '', 'webhooks', known FROM subscription WHERE problem <> '' AND known <> 0 AND known_of = detail`

const closedRows = `SELECT w.kind, w.connection, w.source_id, coalesce(a.at, ''), coalesce(a.actor, ''), coalesce(a.reason, '') FROM (` + closedWords + `) w
	LEFT JOIN audit a ON a.seq = w.word WHERE (w.connection = ?1 OR ?1 = '') AND (w.source_id = ?2 OR ?2 = '')`

// Closed returns the decisions of people in force, newest first: of one connection or all, and of
// one record or all.
func (l *Ledger) Closed(ctx context.Context, of RecordID, limit int) ([]ClosedRow, error) {
	query, args := closedRows+" ORDER BY w.word DESC, w.connection, w.source_id, w.kind", []any{of.Connection, of.SourceID}
	if limit > 0 {
		query, args = query+limitTo, append(args, limit)
	}
	return list(ctx, l, query, args, func(r *ClosedRow) []any {
		return []any{&r.Kind, &r.Connection, &r.SourceID, &r.At, &r.By, &r.Why}
	})
}
