package state

import (
	"context"
	"errors"
	"fmt"

	"payersync/connector"
)

// hasLeft is the condition that record r is no longer a payer's. The newest plan leaves it out, its
// system has deleted it, a complete reading missed it, or a person merged it into another record.
const hasLeft = "(r.decision = 'excluded' OR r.state <> 'active' OR r.unseen = 1 OR r.same_as <> '')"

// isNoPayer is the condition that record r does not count as a payer: it has left, or a person gave
// it up or ran `ledger forget` for its payer.
const isNoPayer = "(" + hasLeft + " OR r.forgotten <> '' OR r.given_up <> 0)"

// MissingWithMandate returns up to limit records after source id after, in order, with a mandate and missing
// from the newest complete reading.
func (l *Ledger) MissingWithMandate(ctx context.Context, connection, after string, limit int) ([]Candidate, error) {
	return l.candidates(ctx, connection, "r.source_id > ?2 AND r.unseen = 1 AND p.mandate_id IS NOT NULL", after, limit)
}

// MissingReport is the report on a record outside of plans.
type MissingReport struct {
	SourceID  string
	Stands    string           // Candidate.Stands, by which it was found
	Reason    connector.Reason // left_with_mandate, or "" for nothing
	Detail    string
	OfMandate connector.Reason // what a person should know of the customer's mandate; "" for nothing
	Awaited   string           // of OfMandate, as Decision.Awaited
}

// ReportMissing replaces the reports on a missing record and its mandate by the notice, unless the
// record was read or its customer seen otherwise since.
func (tx *Tx) ReportMissing(run int64, connection string, n MissingReport) error {
	if err := tx.holds(run); err != nil {
		return err
	}
	var same bool
	if err := tx.row([]any{&same},
		`SELECT EXISTS (SELECT 1 FROM source_records r JOIN payers p ON p.connection = r.connection AND p.source_id = r.source_id
		WHERE r.connection = ?1 AND r.source_id = ?2 AND r.unseen = 1 AND ?3 = `+stands+`)`, connection, n.SourceID,
		n.Stands); err != nil || !same {
		return err
	}
	tx.replaceMissingReport(connection, n)
	return nil
}

// replaceMissingReport replaces the reports on a departed record and its mandate by the notice.
func (tx *Tx) replaceMissingReport(connection string, n MissingReport) {
	p := RecordID{connection, n.SourceID}.payer()
	tx.Explain(p, TopicMandate, n.OfMandate, n.Awaited)
	tx.Explain(p, TopicRecord, n.Reason, n.Detail)
}

// ErrOtherMandate means that the payer has another mandate by now than a person spoke of.
var ErrOtherMandate = errors.New("the payer has another mandate by now; look at it again")

// AllowWithoutRecord notes a person's permission that a payer without a record may stay with its mandate, and
// withdraws the report of its leaving. It fails with ErrOtherMandate when it has another by now.
func (tx *Tx) AllowWithoutRecord(p Payer, word Entry) error {
	seq, err := tx.auditDecision(word)
	if err != nil {
		return err
	}
	ticket, err := tx.Ticket()
	if err != nil {
		return err
	}
	n, err := tx.count("UPDATE payers SET stays_at = ?, stays_with = ?, stays_word = ?, updated_at = ? WHERE connection = ? AND source_id = ? AND coalesce(mandate_id, '') = ?",
		ticket, p.MandateID, seq, stamp(tx.now), p.Connection, p.SourceID, p.MandateID)
	if err != nil {
		return fmt.Errorf("let payer %s stay: %w", p.SourceID, err)
	}
	if n == 0 {
		return ErrOtherMandate
	}
	tx.Touch(p)
	return tx.LookNext(p)
}

// endPermission deletes a permission to stay: the payer's record is there again.
func (tx *Tx) endPermission(connection, sourceID string) error {
	return tx.exec("UPDATE payers SET stays_at = 0, stays_with = '', stays_word = 0 WHERE connection = ? AND source_id = ? AND stays_at <> 0", connection, sourceID)
}
