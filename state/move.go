package state

import (
	"database/sql"
	"errors"
	"fmt"

	"payersync/connector"
)

// Why a customer is not moved.
var (
	// ErrNotMovable means that no read has shown a customer of the payer, so there is nothing to
	// move.
	ErrNotMovable = errors.New("no read has shown a customer of the record")
	// ErrUnlinking means that a person has unlinked the customer from the payer, and the next plan will do
	// it.
	ErrUnlinking = errors.New("a person said that the customer is not the record's")
	// ErrInTheBooks means that the customer's record is still a payer of its own.
	ErrInTheBooks = errors.New("the record that has the customer is still in the accounting system")
)

// MoveKey notes a person's decision that a payer's customer gets another key: the present key of
// its record. An update of the next plan writes it, and it is the payer's when a read has shown it.
// It fails with ErrNotMovable, ErrUnlinking or ErrUnderWay.
func (tx *Tx) MoveKey(p Payer, to connector.Key) error {
	if err := movable(p); err != nil {
		return err
	}
	if err := tx.nothingUnderWay(p.Connection, p.SourceID); err != nil {
		return err
	}
	if err := tx.exec("UPDATE payers SET moves_name = ?, moves_value = ?, updated_at = ? WHERE connection = ? AND source_id = ?",
		to.Name, to.ScopedValue(), stamp(tx.now), p.Connection, p.SourceID); err != nil {
		return err
	}
	_, err := tx.ReplanRecord(p.Connection, p.SourceID)
	return err
}

func movable(p Payer) error {
	switch {
	case !p.Seen || p.BillingID == "":
		return ErrNotMovable
	case p.Unlink.At != 0:
		return ErrUnlinking
	}
	return nil
}

// HandOver links a payer's customer to another record, with its mandate and all facts about it. The payer's
// record must be removed from the accounting system, by its state or by the newest complete reading. HandOver
// stores that the customer will get the new record's key. It fails with ErrNotMovable, ErrUnlinking,
// ErrInTheBooks, ErrNoRecord, ErrLinkedAlready or ErrUnderWay.
func (tx *Tx) HandOver(from Payer, connection, sourceID string, key connector.Key) error {
	if err := movable(from); err != nil {
		return err
	}
	if err := tx.mayHandOver(from, connection, sourceID); err != nil {
		return err
	}
	return tx.handOver(from, connection, sourceID, key)
}

// handOver gives the customer of a payer to another record, as HandOver describes it. Its caller
// has made sure that the record may have it.
func (tx *Tx) handOver(from Payer, connection, sourceID string, key connector.Key) error {
	to := from
	to.Connection, to.SourceID, to.Moves = connection, sourceID, key
	steps := []func() error{
		func() error { // two payers never have one customer, not even for a moment
			return tx.exec("UPDATE payers SET billing_id = NULL, link_state = 'new' WHERE connection = ? AND source_id = ?",
				from.Connection, from.SourceID)
		},
		func() error {
			d := Decision{SourceID: sourceID, Key: from.Key, Left: true}
			known, err := tx.knownBefore(connection, []Decision{d})
			if err != nil {
				return err
			}
			var new additions
			return errors.Join(tx.savePayer(connection, d, known[0], &new), tx.add(0, connection, new))
		},
		func() error {
			return tx.exec(`UPDATE payers SET billing_id = ?1, moves_name = ?2, moves_value = ?3, updated_at = ?4,
				(link_state, seen_at, mandate_id, drained_at, answered_at, parted, let_be, let_be_of) = (SELECT ?5, o.seen_at, o.mandate_id, o.drained_at, o.answered_at, o.parted, o.let_be, o.let_be_of
				  FROM payers o WHERE o.connection = ?6 AND o.source_id = ?7)
				WHERE connection = ?8 AND source_id = ?9`,
				from.BillingID, key.Name, key.ScopedValue(), stamp(tx.now), from.LinkState, from.Connection, from.SourceID,
				connection, sourceID)
		},
		func() error {
			if from.Applied == nil {
				return nil
			}
			return tx.SetApplied(to, *from.Applied)
		},
		func() error { return tx.Accept(to, from.Accepted) },
		func() error { return tx.emptyPayer(from) },
		func() error {
			return tx.moveHistory(RecordID{from.Connection, from.SourceID}, RecordID{connection, sourceID})
		},
		func() error {
			return tx.moveAsking(RecordID{from.Connection, from.SourceID}, RecordID{connection, sourceID})
		},
		func() error {
			return tx.exec("DELETE FROM words WHERE connection = ? AND source_id = ? AND (word <> 'reject' OR billing_id = ?)",
				connection, sourceID, from.BillingID)
		},
	}
	if err := connector.Each(steps, func(step func() error) error { return step() }); err != nil {
		return fmt.Errorf("move customer %s: %w", from.BillingID, err)
	}
	for _, p := range []Payer{from, to} {
		if err := tx.dropPlanned(p.Connection, p.SourceID, LaneCustomer, LaneMandate); err != nil {
			return err
		}
		tx.Explain(p, TopicRecord, "", "")
		tx.Explain(p, TopicLink, "", "")
		if _, err := tx.ReplanRecord(p.Connection, p.SourceID); err != nil {
			return err
		}
	}
	return nil
}

// moveHistory moves a payer's requests, write-backs and decisions to another record: they belong to
// the customer, now the record's.
func (tx *Tx) moveHistory(from, to RecordID) error {
	const ids = " WHERE connection = ?3 AND source_id = ?4"
	for _, query := range []string{
		"UPDATE changes SET connection = ?1, source_id = ?2" + ids + " AND state <> 'pending'",
		"UPDATE attempts SET connection = ?1, source_id = ?2" + ids,
		"UPDATE letters SET connection = ?1, source_id = ?2" + ids,
		"UPDATE letter_stops SET connection = ?1, source_id = ?2" + ids + " AND scope = 'payer'",
		"DELETE FROM letter_addresses WHERE connection = ?1 AND source_id = ?2 AND EXISTS (SELECT 1 FROM letter_addresses o WHERE o.connection = ?3 AND o.source_id = ?4)",
		"UPDATE letter_addresses SET connection = ?1, source_id = ?2" + ids,
		"DELETE FROM put_off WHERE connection = ?1 AND source_id = ?2 AND EXISTS (SELECT 1 FROM put_off o WHERE o.connection = ?3 AND o.source_id = ?4 AND o.reason = put_off.reason)",
		"UPDATE put_off SET connection = ?1, source_id = ?2" + ids,
		"DELETE FROM words WHERE connection = ?1 AND source_id = ?2 AND EXISTS (SELECT 1 FROM words o WHERE o.connection = ?3 AND o.source_id = ?4 AND o.billing_id = words.billing_id AND o.word = 'reject')",
		"UPDATE words SET connection = ?1, source_id = ?2" + ids + " AND word = 'reject'",
	} {
		if err := tx.exec(query, to.Connection, to.SourceID, from.Connection, from.SourceID); err != nil {
			return err
		}
	}
	return nil
}

// mayHandOver says why a record may not have the customer of a payer; nil when it may.
func (tx *Tx) mayHandOver(from Payer, connection, sourceID string) error {
	var lives, known bool
	var linked sql.NullString
	if err := tx.row([]any{&lives, &known, &linked}, `SELECT
		EXISTS (SELECT 1 FROM source_records r WHERE r.connection = ?1 AND r.source_id = ?2 AND NOT `+hasLeft+`),
		EXISTS (SELECT 1 FROM source_records WHERE connection = ?3 AND source_id = ?4),
		(SELECT billing_id FROM payers WHERE connection = ?3 AND source_id = ?4)`,
		from.Connection, from.SourceID, connection, sourceID); err != nil {
		return fmt.Errorf("look who may have customer %s: %w", from.BillingID, err)
	}
	switch {
	case lives:
		return ErrInTheBooks
	case !known:
		return ErrNoRecord
	case linked.Valid:
		return ErrLinkedAlready
	}
	return errors.Join(tx.nothingUnderWay(from.Connection, from.SourceID), tx.nothingUnderWay(connection, sourceID))
}

// nothingUnderWay fails with ErrUnderWay while a request of a record's payer may still
// arrive.
func (tx *Tx) nothingUnderWay(connection, sourceID string) error {
	var open bool
	err := tx.row([]any{&open},
		`SELECT EXISTS (SELECT 1 FROM changes WHERE connection = ?1 AND source_id = ?2 AND state <> 'pending' AND `+openStates+`)
		OR EXISTS (SELECT 1 FROM attempts WHERE connection = ?1 AND source_id = ?2 AND ended = '' AND over = 0)`, connection,
		sourceID)
	if err == nil && open {
		return ErrUnderWay
	}
	return err
}
