package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"payersync/connector"
)

// PairVerdict is a person's decision about a record and a customer.
type PairVerdict string

// The words.
const (
	WordAccept PairVerdict = "accept" // they are the same; gone once they are linked
	WordReject PairVerdict = "reject" // they are not
	WordSpent  PairVerdict = "spent"  // they were said to be the same, and the customer was not to be had any more
)

// PairDecision is a decision with its pair.
type PairDecision struct {
	SourceID  string
	BillingID string
	Word      PairVerdict
	Reason    connector.Reason // why the customer of a spent word was not to be had any more
}

// Apart reports whether a person has separated the two, by a decision or by unlinking the customer.
func (s PairDecision) Apart() bool {
	return s.Word == WordReject || s.Word == WordSpent && s.Reason == connector.ReasonUnlinked
}

// The reasons to refuse a decision.
var (
	// ErrAccepted means that the customer is accepted for another record, or the record for
	// a customer.
	ErrAccepted = errors.New("the customer is accepted for another record")
	// ErrNoPairDecision means that there is no decision about a record and a customer to take back.
	ErrNoPairDecision = errors.New("nothing was said of the two that could be taken back")
	// ErrDecidedMeanwhile means that another person has meanwhile decided something new about a record
	// or the pair.
	ErrDecidedMeanwhile = errors.New("somebody has decided otherwise meanwhile")
	// ErrUnderWay means that a request of an earlier decision may still arrive.
	ErrUnderWay = errors.New("a request for this record may still arrive; say it again in a quarter of an hour")
)

// SavePairDecision stores a person's decision about a record and a customer in place of the earlier one. A
// decision that they are the same also replaces one about another customer. It reports false for a
// repeated decision. The next plan looks at the record again. It fails with ErrNoRecord,
// ErrLinkedAlready, ErrCustomerTaken, ErrAccepted or ErrUnderWay.
func (tx *Tx) SavePairDecision(connection, sourceID, billingID string, word PairVerdict) (news bool, err error) {
	var known, taken, accepted, underWay bool
	var before, linked sql.NullString
	if err := tx.row([]any{&known, &before, &linked, &taken, &accepted, &underWay}, `SELECT
		EXISTS (SELECT 1 FROM source_records WHERE connection = ?1 AND source_id = ?2),
		(SELECT word FROM words WHERE connection = ?1 AND source_id = ?2 AND billing_id = ?3),
		(SELECT billing_id FROM payers WHERE connection = ?1 AND source_id = ?2),
		EXISTS (SELECT 1 FROM payers WHERE billing_id = ?3),
		EXISTS (SELECT 1 FROM words WHERE billing_id = ?3 AND word = 'accept' AND (connection <> ?1 OR source_id <> ?2)),
		EXISTS (SELECT 1 FROM changes WHERE connection = ?1 AND source_id = ?2 AND lane = 'customer' AND state <> 'pending' AND `+openStates+`)
		  OR EXISTS (SELECT 1 FROM attempts WHERE connection = ?1 AND source_id = ?2 AND action = 'adopt' AND ended = '' AND over = 0)`,
		connection, sourceID, billingID); err != nil {
		return false, fmt.Errorf("look what was said of record %s: %w", sourceID, err)
	}
	switch {
	case !known:
		return false, ErrNoRecord
	case PairVerdict(before.String) == word:
		return false, nil
	case underWay:
		return false, ErrUnderWay
	case word == WordAccept && linked.Valid, linked.String == billingID:
		return false, ErrLinkedAlready
	case word == WordAccept && taken:
		return false, ErrCustomerTaken
	case word == WordAccept && accepted:
		return false, ErrAccepted
	}
	if word == WordAccept { // an unlinked customer keeps the person's decision; its reason names its origin
		if err := tx.exec("UPDATE words SET word = 'reject' WHERE connection = ? AND source_id = ? AND billing_id <> ? AND word = 'spent' AND reason = ?",
			connection, sourceID, billingID, connector.ReasonUnlinked); err != nil {
			return false, err
		}
		if err := tx.exec("DELETE FROM words WHERE connection = ? AND source_id = ? AND word <> 'reject'", connection,
			sourceID); err != nil {
			return false, err
		}
	}
	if err := tx.exec(`INSERT INTO words (connection, source_id, billing_id, word, ticket, said_at) VALUES (?, ?, ?, ?, (SELECT max(ticket, 1) FROM ledger), ?)
		ON CONFLICT (connection, source_id, billing_id) DO UPDATE SET word = excluded.word, reason = '', ticket = excluded.ticket, said_at = excluded.said_at`,
		connection, sourceID, billingID, word, stamp(tx.now)); err != nil {
		return false, err
	}
	if err := tx.updateOpenMatches(connection, sourceID); err != nil {
		return false, err
	}
	_, err = tx.ReplanRecord(connection, sourceID)
	return true, err
}

// CheckPairDecision fails with ErrDecidedMeanwhile when a new decision about a record and a customer
// would undo another one. The person may not have seen the other decision.
func (tx *Tx) CheckPairDecision(connection, sourceID, billingID string, word PairVerdict) error {
	var said bool
	err := tx.row([]any{&said}, `SELECT EXISTS (SELECT 1 FROM words WHERE connection = ?1 AND source_id = ?2
		AND (word = 'accept' OR billing_id = ?3) AND word <> 'spent' AND NOT (billing_id = ?3 AND word = ?4))`, connection,
		sourceID, billingID, word)
	switch {
	case err != nil:
		return fmt.Errorf("look what was said of record %s: %w", sourceID, err)
	case said:
		return ErrDecidedMeanwhile
	}
	return nil
}

// RevokePairDecision revokes a person's decision about a record and a customer, until a request was sent
// because of it. For a linked record, it revokes that a second customer is not its own. It fails
// with ErrNoPairDecision, ErrLinkedAlready or ErrUnderWay.
func (tx *Tx) RevokePairDecision(connection, sourceID, billingID string) error {
	var said, second, linked, underWay bool
	if err := tx.row([]any{&said, &second, &linked, &underWay}, `SELECT
		EXISTS (SELECT 1 FROM words WHERE connection = ?1 AND source_id = ?2 AND billing_id = ?3 AND word <> 'spent'),
		EXISTS (SELECT 1`+rejectedSeconds+`AND w.billing_id = ?3),
		EXISTS (SELECT 1 FROM payers WHERE connection = ?1 AND source_id = ?2 AND billing_id IS NOT NULL),
		EXISTS (SELECT 1 FROM changes WHERE connection = ?1 AND source_id = ?2 AND lane = 'customer' AND state <> 'pending' AND `+openStates+`)
		  OR EXISTS (SELECT 1 FROM attempts WHERE connection = ?1 AND source_id = ?2 AND ended = '' AND over = 0)`,
		connection, sourceID, billingID); err != nil {
		return fmt.Errorf("look what was said of record %s: %w", sourceID, err)
	}
	switch {
	case linked && !second:
		return ErrLinkedAlready
	case underWay:
		return ErrUnderWay
	case !said:
		return ErrNoPairDecision
	}
	if err := tx.exec("DELETE FROM words WHERE connection = ? AND source_id = ? AND billing_id = ?", connection, sourceID,
		billingID); err != nil {
		return err
	}
	if second {
		return nil // it decided nothing that a plan does
	}
	if err := errors.Join(tx.holdUnlinked(connection, sourceID), tx.updateOpenMatches(connection, sourceID)); err != nil {
		return err
	}
	_, err := tx.ReplanRecord(connection, sourceID)
	return err
}

// holdUnlinked holds an unlinked record again after the decision about its identity was taken back.
// Otherwise the next plan would make a new customer without a decision.
func (tx *Tx) holdUnlinked(connection, sourceID string) error {
	if err := tx.exec(`UPDATE words SET word = 'spent' WHERE connection = ?1 AND source_id = ?2 AND word = 'reject' AND reason = ?3
		AND NOT EXISTS (SELECT 1 FROM words w WHERE w.connection = ?1 AND w.source_id = ?2 AND w.word <> 'reject')`,
		connection, sourceID, connector.ReasonUnlinked); err != nil {
		return err
	}
	return tx.exec(`INSERT INTO words (connection, source_id, billing_id, word, reason, ticket, said_at)
		SELECT p.connection, p.source_id, c.billing_id, 'spent', ?3, (SELECT max(ticket, 1) FROM ledger), ?4
		FROM payers p JOIN changes c ON c.change_id = p.parted
		WHERE p.connection = ?1 AND p.source_id = ?2 AND p.parted > 0 AND p.billing_id IS NULL AND c.billing_id <> ''
		  AND NOT EXISTS (SELECT 1 FROM words w WHERE w.connection = ?1 AND w.source_id = ?2 AND (w.word <> 'reject' OR w.billing_id = c.billing_id))`,
		connection, sourceID, connector.ReasonUnlinked, stamp(tx.now))
}

// AcceptedIsGone notes that a record's accepted customer is no longer available, and why. The record is on hold
// until a person decides again.
func (tx *Tx) AcceptedIsGone(connection, sourceID, billingID string, why connector.Reason) error {
	return tx.exec("UPDATE words SET word = 'spent', reason = ? WHERE connection = ? AND source_id = ? AND billing_id = ? AND word = 'accept'",
		why, connection, sourceID, billingID)
}

// PairDecisions returns the decisions about the records of a connection.
func (l *Ledger) PairDecisions(ctx context.Context, connection string) ([]PairDecision, error) {
	return list(ctx, l, "SELECT source_id, billing_id, word, reason FROM words WHERE connection = ? ORDER BY source_id, billing_id", []any{connection},
		func(s *PairDecision) []any { return []any{&s.SourceID, &s.BillingID, &s.Word, &s.Reason} })
}

// PendingLink is a record and the customer that a person has assigned to it, not yet linked by a run.
type PendingLink struct {
	RecordID
	BillingID string
	At        string // when it was said
}

// PendingLinks returns the pending links of all connections after one, the newest first; the zero value is
// before all.
func (l *Ledger) PendingLinks(ctx context.Context, after PendingLink, limit int) ([]PendingLink, error) {
	return list(ctx, l, `SELECT connection, source_id, billing_id, said_at FROM words
		WHERE word = 'accept' AND (?1 = '' OR said_at < ?1 OR said_at = ?1 AND (connection, source_id) > (?2, ?3))
		ORDER BY said_at DESC, connection, source_id LIMIT ?4`, []any{after.At, after.Connection, after.SourceID, limit},
		func(p *PendingLink) []any { return []any{&p.Connection, &p.SourceID, &p.BillingID, &p.At} })
}

// PendingLinksByCustomer returns the record that each promised customer was accepted for, of all connections, by
// customer.
func (l *Ledger) PendingLinksByCustomer(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	type row struct{ customer, record string }
	err := each(ctx, l, "SELECT billing_id, source_id FROM words WHERE word = 'accept'", nil,
		func(r *row) []any { return []any{&r.customer, &r.record} },
		func(r row) error { out[r.customer] = r.record; return nil })
	return out, err
}

// PendingLinkCount returns the number of pending links.
func (l *Ledger) PendingLinkCount(ctx context.Context) (int, error) {
	return single[int](l.queryRow(ctx, "SELECT count(*) FROM words WHERE word = 'accept'"))
}

// Rejected reports whether a person has rejected a customer for a record.
func (l *Ledger) Rejected(ctx context.Context, connection, sourceID, billingID string) (bool, error) {
	return single[bool](l.queryRow(ctx,
		"SELECT EXISTS (SELECT 1 FROM words WHERE connection = ? AND source_id = ? AND billing_id = ? AND word = 'reject')",
		connection, sourceID, billingID))
}

// Accepted is the customer that a person has accepted for a record. The zero value is none.
type Accepted struct {
	BillingID string
	At        int64            // ticket at which it was said
	Spent     connector.Reason // why it was not to be had any more; "" while it was
	Gone      bool             // the newest read said that it does not exist
	Carries   bool             // it carries another value under the key's name, which may be another record's
	// the key that it carries, no record has, and the person may have seen: the adoption replaces it; zero for none
	Replaces connector.Key
	LinkedTo string // record that it is linked to; "" for none
}

// Why says why the customer cannot be had; "" while it can.
func (a Accepted) Why() connector.Reason {
	switch {
	case a.Spent != "":
		return a.Spent
	case a.Gone:
		return connector.ReasonCustomerMissing
	case a.Carries, a.LinkedTo != "":
		return connector.ReasonOtherKey
	}
	return ""
}

// Accepted returns the customer that a person accepted for a record, and its state.
func (l *Ledger) Accepted(ctx context.Context, connection, sourceID string, key connector.Key) (Accepted, error) {
	var a Accepted
	var linked, pairs sql.NullString
	err := l.queryRow(ctx, `SELECT w.billing_id, w.ticket, w.reason, coalesce(c.digest = '', false), c.key_values, (SELECT p.source_id FROM payers p WHERE p.billing_id = w.billing_id)
		FROM words w LEFT JOIN remote_customers c ON c.billing_id = w.billing_id
		WHERE w.connection = ? AND w.source_id = ? AND w.word <> 'reject'`, connection, sourceID).
		Scan(&a.BillingID, &a.At, &a.Spent, &a.Gone, &pairs, &linked)
	if errors.Is(err, sql.ErrNoRows) {
		return a, nil
	}
	if err != nil {
		return a, fmt.Errorf("read whom record %s was said to be: %w", sourceID, err)
	}
	a.LinkedTo = linked.String
	if pairs.Valid {
		var carried map[string]string
		if err = json.Unmarshal([]byte(pairs.String), &carried); err != nil {
			return a, fmt.Errorf("read what customer %s carries: %w", a.BillingID, err)
		}
		_, has := carried[key.Name]
		if a.Carries = has && !key.MayBe(connector.KeyIn(carried, key.Name)); a.Carries {
			a.Replaces, err = l.unclaimedAt(ctx, connection, key.Name, a.BillingID, a.At)
			a.Carries = a.Replaces.Value == ""
		}
	}
	return a, err
}
