package state

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"payersync/connector"
	"payersync/connector/protocol"
)

// Forgotten says why nothing but the id of a record is kept.
type Forgotten string

// Why a record is kept by its id alone.
const (
	ForgottenNot   Forgotten = ""      // all of it is kept
	ForgottenPayer Forgotten = "payer" // a person had its payer forgotten
	ForgottenOther Forgotten = "other" // so it was, and the record looks like somebody else by now
	// it is new, and has the number, or the name and the e-mail address, of a payer that was
	ForgottenAlike Forgotten = "alike"
)

// RecordForgotten is the displayed state of a record with only its id.
const RecordForgotten connector.RecordState = "forgotten"

// blank is a record with only its id: every plan treats it as removed.
func blank(sourceID string) connector.Record {
	return connector.Record{SourceID: sourceID, State: connector.RecordDeleted, Data: json.RawMessage("{}")}
}

// customersOf are the customers of record ?1, ?2: its present one, and earlier or requested ones
// that belong to no other payer.
const customersOf = `(SELECT p.billing_id FROM payers p WHERE p.connection = ?1 AND p.source_id = ?2 AND p.billing_id IS NOT NULL
	UNION SELECT a.billing_id FROM attempts a WHERE a.connection = ?1 AND a.source_id = ?2 AND a.billing_id <> ''
	  AND NOT EXISTS (SELECT 1 FROM payers o WHERE o.billing_id = a.billing_id AND (o.connection <> ?1 OR o.source_id <> ?2)))`

// aboutThem is the condition that delivery i is about one of the customers.
const aboutThem = "(i.billing_id IN " + customersOf +
	" OR i.billing_id = '' AND i.mandate_id IN (SELECT m.mandate_id FROM mandates m WHERE m.billing_id IN " + customersOf +
	"))"

// ofForgotten is the condition that customer %s belongs to a record with only its id.
const ofForgotten = `EXISTS (SELECT 1 FROM payers fp JOIN source_records fr ON fr.connection = fp.connection AND fr.source_id = fp.source_id AND fr.forgotten <> ''
	WHERE fp.billing_id = %s)`

// recipientsOf are the hashes of the addresses that record ?1, ?2 was written to at, or would
// have been.
const recipientsOf = `(SELECT t.recipient FROM letters t WHERE t.connection = ?1 AND t.source_id = ?2
	UNION SELECT a.recipient FROM letter_addresses a WHERE a.connection = ?1 AND a.source_id = ?2)`

// erase removes every personal value of a record's payer from the ledger. Ids, statuses, times, and
// the fact of sent requests and decisions remain. A request that may still arrive stays known: its
// change ends, and it does not.
func (tx *Tx) erase(id RecordID, how Forgotten) error {
	plain, err := json.Marshal(blank(id.SourceID))
	if err != nil {
		return err
	}
	if err := tx.dropPlanned(id.Connection, id.SourceID, LaneCustomer, LaneMandate); err != nil {
		return err
	}
	if err := tx.dropTraits("p.connection = ? AND p.source_id = ?", id.Connection, id.SourceID); err != nil {
		return fmt.Errorf("forget the payer of record %s: %w", id.SourceID, err)
	}
	record := tx.l.seal.box(plain, place("source_records", "record", id.Connection, id.SourceID))
	for _, query := range voidMessages { // they are frozen, and may name the payer
		if err := tx.exec(query); err != nil {
			return fmt.Errorf("forget the payer of record %s: %w", id.SourceID, err)
		}
	}
	for _, step := range []struct {
		query string
		args  []any
	}{
		{`UPDATE source_records SET forgotten = ?3, record = ?4, content_hash = ?5, state = ?6, unreadable = 0, source_time = NULL, origin = '', planned_hash = '', planned_mapping = '',
			decision = 'excluded', class = ?7, replan = 1, rests = 0, contested = 0, let_go = 1, lost_by = NULL, given_up_of = '', asking = CASE asking WHEN 'ask' THEN '' ELSE asking END, not_asked = '', updated_at = ?8 WHERE connection = ?1 AND source_id = ?2`,
			[]any{how, record, blank(id.SourceID).Hash(), connector.RecordDeleted, protocol.Out, stamp(tx.now)}},
		{"UPDATE labels SET number = (SELECT max(number) + 1 FROM labels), mapping = '', digest = '', label = ?3 WHERE connection = ?1 AND source_id = ?2", []any{tx.l.seal.box([]byte("{}"), placeOfLabel(id))}},
		{"DELETE FROM attention WHERE connection = ?1 AND source_id = ?2", nil},
		{`UPDATE changes SET state = CASE WHEN state = 'frozen' OR state = 'unknown' THEN 'void' ELSE state END, wanted = NULL, wanted_hash = '', change_hash = '', diff = NULL,
			body = NULL, body_sha256 = '', pre_image = NULL, detail = '' WHERE connection = ?1 AND source_id = ?2`, nil},
		{"UPDATE inbox AS i SET body = x'', detail = '' WHERE " + aboutThem, nil},
		{"UPDATE writebacks SET field = NULL, problem = '', " + closedWrite + " WHERE connection = ?1 AND source_id = ?2",
			nil},
		{"UPDATE mandates SET link = NULL, link_at = NULL WHERE billing_id IN " + customersOf, nil},
		{"DELETE FROM failure_reasons WHERE mandate_id IN (SELECT m.mandate_id FROM mandates m WHERE m.billing_id IN " +
			customersOf + ")", nil},
		{"DELETE FROM financial_statuses WHERE billing_id IN " + customersOf +
			" OR NOT EXISTS (SELECT 1 FROM payers o WHERE o.billing_id = financial_statuses.billing_id)", nil},
		// The record of the sent letter stays: without it the journal would report a letter unknown
		// to the ledger. An address that somebody else has, too, is theirs.
		{`UPDATE letter_journal SET recipient = 'forgotten' WHERE message_id IN (SELECT message_id FROM letters WHERE connection = ?1 AND source_id = ?2)
			OR recipient IN ` + recipientsOf +
			` AND NOT EXISTS (SELECT 1 FROM letter_addresses o WHERE o.recipient = letter_journal.recipient AND (o.connection <> ?1 OR o.source_id <> ?2))`, nil},
		{"UPDATE letter_stops SET note = '' WHERE scope = 'address' AND note <> '' AND recipient IN " + recipientsOf, nil},
		{`UPDATE letters SET body = NULL, digest = '', recipient = 'forgotten', language = '', answer = '', state = CASE WHEN state = 'frozen' OR state = 'deferred' THEN 'void' ELSE state END
			WHERE connection = ?1 AND source_id = ?2`, nil},
		{"DELETE FROM letter_approved WHERE mandate_id IN (SELECT mandate_id FROM letters WHERE connection = ?1 AND source_id = ?2) OR mandate_id IN (SELECT mandate_id FROM mandates WHERE billing_id IN " + customersOf + ")", nil},
		{"DELETE FROM letter_addresses WHERE connection = ?1 AND source_id = ?2", nil},
		{"UPDATE letter_stops SET note = '' WHERE scope = 'payer' AND connection = ?1 AND source_id = ?2", nil},
		{"DELETE FROM remote_traits WHERE kind <> 'key' AND billing_id IN " + customersOf, nil},
		{"DELETE FROM remote_profiles WHERE billing_id IN " + customersOf, nil},
		{"DELETE FROM match_candidates WHERE connection = ?1 AND source_id = ?2", nil},
		{`UPDATE payers SET applied = NULL, applied_hash = '', read_values = NULL, read_digest = '', accepted = NULL, shows = '', shown_at = 0, confirmed_at = 0, likeness = '', moves_name = '', moves_value = '',
			unlink_at = 0, unlink_from = 0, updated_at = ?3 WHERE connection = ?1 AND source_id = ?2`, []any{stamp(tx.now)}},
		// The person who ran the command knows that the customer stays, with its mandate.
		{`UPDATE payers SET stays_at = (SELECT max(ticket, 1) FROM ledger), stays_with = coalesce(mandate_id, '') WHERE connection = ?1 AND source_id = ?2 AND billing_id IS NOT NULL`, nil},
	} {
		if err := tx.exec(step.query, append([]any{id.Connection, id.SourceID}, step.args...)...); err != nil {
			return fmt.Errorf("forget the payer of record %s: %w", id.SourceID, err)
		}
	}
	return nil
}

// permitAgain permits a record to be kept again; it comes back with the next reading, and the next run
// reads everything.
func (tx *Tx) permitAgain(id RecordID) error {
	n, err := tx.count("UPDATE source_records SET forgotten = '', content_hash = '', replan = 1 WHERE connection = ? AND source_id = ? AND forgotten <> ''", id.Connection, id.SourceID)
	if err == nil && n > 0 {
		err = errors.Join(tx.endPermission(id.Connection, id.SourceID),
			tx.exec("DELETE FROM cursors WHERE connection = ?", id.Connection))
	}
	if err != nil {
		return fmt.Errorf("let record %s be kept again: %w", id.SourceID, err)
	}
	return nil
}

// Why a payer cannot be forgotten, or is not.
var (
	ErrRunning      = errors.New("a run of its connection is at work")
	ErrForgotten    = errors.New("the payer is forgotten already")
	ErrNotForgotten = errors.New("nobody had the payer forgotten")
)

// mayForget fails while a payer's sent request may still arrive, or a person's decision on its
// customer is unfinished.
func (tx *Tx) mayForget(id RecordID) error {
	var how Forgotten
	var unlinking bool
	err := tx.row([]any{&how, &unlinking}, `SELECT r.forgotten, coalesce(p.unlink_at, 0) > 0 FROM source_records r
		LEFT JOIN payers p ON p.connection = r.connection AND p.source_id = r.source_id WHERE r.connection = ? AND r.source_id = ?`, id.Connection, id.SourceID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrNoRecord
	case err != nil:
		return err
	case how == ForgottenPayer:
		return ErrForgotten
	case unlinking:
		return ErrUnlinking
	}
	return tx.nothingUnderWay(id.Connection, id.SourceID)
}

// holdStill keeps runs from a connection; ErrRunning while there is one.
func (l *Ledger) holdStill(connection string) (*Lock, error) {
	hold, err := l.TryLock(connection)
	if err == nil && hold == nil {
		err = ErrRunning
	}
	return hold, err
}

// stillHolds fails with ErrRunning while a run of the connection may be at work and holds its lock.
func (tx *Tx) stillHolds(hold *Lock, connection string) error {
	if hold.Proves() {
		return nil
	}
	_, holds, err := tx.LastRun(connection)
	if err == nil && holds {
		err = ErrRunning
	}
	return err
}

// MayForget says why a payer cannot be forgotten now; nil when it can.
func (l *Ledger) MayForget(ctx context.Context, id RecordID) error {
	return l.Do(ctx, func(tx *Tx) error { return tx.mayForget(id) })
}

// Forget removes every personal value of a record's payer from the ledger and its files. It keeps a
// tombstone, so the next reading does not bring the payer back. It fails with ErrRunning, ErrNoRecord,
// ErrForgotten, ErrUnlinking or ErrUnderWay. by is for the audit log.
//
// left reports remaining erased values in free pages of the files, because another process was reading. The
// next opening of the ledger clears them.
func (l *Ledger) Forget(ctx context.Context, id RecordID, by Entry) (left bool, err error) {
	hold, err := l.holdStill(id.Connection)
	if err != nil {
		return false, err
	}
	defer func() { _ = hold.Release() }()
	if err := l.MayForget(ctx, id); err != nil {
		return false, err
	}
	labels, err := l.LabelsOf(ctx, []RecordID{id})
	if err != nil {
		return false, err
	}
	boxes, loose, err := l.heldOf(ctx, id, labels[id])
	if err != nil {
		return false, err
	}
	var t tombstone
	if err := l.writeTombstone(ctx, id, true, labels[id], func(k forgetKey, said tombstone) error {
		t = said
		return l.Do(ctx, func(tx *Tx) error {
			for _, key := range loose {
				if err := tx.exec("UPDATE inbox SET body = x'' WHERE delivery_key = ?", key); err != nil {
					return err
				}
			}
			if email := labels[id].Email; email != "" { // which nothing may have been sent to
				if err := tx.exec("UPDATE letter_stops SET note = '' WHERE scope = 'address' AND recipient = ?",
					l.RecipientHash(email)); err != nil {
					return err
				}
			}
			return errors.Join(tx.stillHolds(hold, id.Connection), tx.saveTombstone(k, said), tx.erase(id, ForgottenPayer),
				tx.Audit(by))
		})
	}); err != nil {
		return false, err
	}
	clean, err := l.scrub(ctx, boxes)
	if err != nil || !clean {
		return true, err
	}
	return false, l.Do(ctx, func(tx *Tx) error {
		return tx.exec("UPDATE tombstones SET scrubbed = 1 WHERE record = ?",
			t.record)
	})
}

// Unforget permits payersync to store a forgotten payer, or a similar record, again. It comes back with the
// next complete reading, in the next run. It fails with ErrNotForgotten, ErrNoRecord or ErrRunning.
func (l *Ledger) Unforget(ctx context.Context, id RecordID, by Entry) error {
	hold, err := l.holdStill(id.Connection)
	if err != nil {
		return err
	}
	defer func() { _ = hold.Release() }()
	how, err := l.ForgottenAs(ctx, id)
	if err != nil {
		return err
	}
	if how == ForgottenNot {
		return ErrNotForgotten
	}
	return l.writeTombstone(ctx, id, false, connector.Label{}, func(k forgetKey, said tombstone) error {
		return l.Do(ctx, func(tx *Tx) error {
			return errors.Join(tx.stillHolds(hold, id.Connection), tx.saveTombstone(k, said), tx.permitAgain(id), tx.Audit(by))
		})
	})
}

// ForgottenAs returns why nothing but the id of a record is kept; ErrNoRecord when there is
// no such record.
func (l *Ledger) ForgottenAs(ctx context.Context, id RecordID) (how Forgotten, err error) {
	err = l.queryRow(ctx, "SELECT forgotten FROM source_records WHERE connection = ? AND source_id = ?", id.Connection,
		id.SourceID).Scan(&how)
	if errors.Is(err, sql.ErrNoRows) {
		return how, ErrNoRecord
	}
	return how, err
}

// writeTombstone writes a person's decision on a payer to the file, and then carries it out.
func (l *Ledger) writeTombstone(ctx context.Context, id RecordID, holds bool, of connector.Label,
	then func(forgetKey, tombstone) error) error {
	f, err := l.openTombstones(ctx, l.seal, true)
	if err != nil {
		return err
	}
	if f == nil { // the server keeps what is said, as everything else
		f = &tombstonesFile{said: noTombstones()}
	} else {
		defer func() { _ = f.Close() }()
	}
	stored, err := l.storedTombstones(ctx)
	if err != nil {
		return err
	}
	for key, k := range f.said.keys { // of a process that died before it told the ledger
		stored.keys[key] = k
	}
	k := stored.anyKey()
	var lines []string
	if _, known := f.said.keys[k.id]; !known {
		lines = append(lines, l.seal.keyLine(k))
	}
	t := tombstone{record: k.ofRecord(id), key: k.id, holds: holds, at: l.Now()}
	if holds {
		if of.Number == "" {
			if p, err := l.Payer(ctx, id.Connection, id.SourceID); err == nil {
				of.Number = p.Key.Value
			}
		}
		t.marks = k.marks(id.Connection, of)
	}
	for _, other := range stored.keys { // what was said with another key is said anew with this one
		if old := other.ofRecord(id); old != t.record {
			if s, known := stored.stone[old]; known {
				s.holds, s.marks, s.at, s.key = holds, nil, t.at, other.id
				lines = append(lines, s.line(other))
			}
		}
	}
	if f.File != nil {
		if err := l.writeTombstones(f, append(lines, t.line(k))...); err != nil {
			return err
		}
	}
	return then(k, t)
}

// heldOf returns a payer's sealed values, for a search in the files. It includes webhook bodies about the
// payer without a customer's name.
func (l *Ledger) heldOf(ctx context.Context, id RecordID, of connector.Label) (boxes [][]byte, loose []string,
	err error) {
	for _, query := range []string{
		"SELECT m.body FROM alarm_messages m, (SELECT ?1, ?2) of WHERE m.sent_at IS NULL", // whomever they name
		"SELECT record FROM source_records WHERE connection = ?1 AND source_id = ?2",
		"SELECT label FROM labels WHERE connection = ?1 AND source_id = ?2",
		"SELECT applied FROM payers WHERE connection = ?1 AND source_id = ?2 AND applied IS NOT NULL",
		"SELECT read_values FROM payers WHERE connection = ?1 AND source_id = ?2 AND read_values IS NOT NULL",
		"SELECT accepted FROM payers WHERE connection = ?1 AND source_id = ?2 AND accepted IS NOT NULL",
		"SELECT wanted FROM changes WHERE connection = ?1 AND source_id = ?2 AND wanted IS NOT NULL",
		"SELECT diff FROM changes WHERE connection = ?1 AND source_id = ?2 AND diff IS NOT NULL",
		"SELECT body FROM changes WHERE connection = ?1 AND source_id = ?2 AND body IS NOT NULL",
		"SELECT pre_image FROM changes WHERE connection = ?1 AND source_id = ?2 AND pre_image IS NOT NULL",
		"SELECT field FROM writebacks WHERE connection = ?1 AND source_id = ?2 AND field IS NOT NULL",
		"SELECT request FROM writebacks WHERE connection = ?1 AND source_id = ?2 AND request IS NOT NULL",
		"SELECT i.body FROM inbox i WHERE i.body <> x'' AND " + aboutThem,
		"SELECT link FROM mandates WHERE link IS NOT NULL AND billing_id IN " + customersOf,
		"SELECT body FROM letters WHERE connection = ?1 AND source_id = ?2 AND body IS NOT NULL",
		"SELECT f.reason FROM failure_reasons f JOIN mandates m ON m.mandate_id = f.mandate_id WHERE m.billing_id IN " +
			customersOf,
		"SELECT status FROM financial_statuses WHERE billing_id IN " + customersOf,
	} {
		found, err := list(ctx, l, query, []any{id.Connection, id.SourceID}, func(b *[]byte) []any { return []any{b} })
		if err != nil {
			return nil, nil, err
		}
		boxes = append(boxes, found...)
	}
	names, err := l.ids(ctx, "SELECT billing_id FROM "+customersOf+" of UNION SELECT mandate_id FROM mandates WHERE billing_id IN "+customersOf, id.Connection, id.SourceID)
	if err != nil {
		return nil, nil, err
	}
	if of.Email != "" {
		names = append(names, of.Email)
	}
	type row struct {
		key string
		box []byte
	}
	err = each(ctx, l, "SELECT delivery_key, body FROM inbox WHERE billing_id = '' AND body <> x''", nil,
		func(r *row) []any { return []any{&r.key, &r.box} }, func(r row) error {
			body, err := l.seal.open(r.box, place("inbox", "body", r.key))
			if err != nil {
				return err
			}
			if slices.ContainsFunc(names, func(name string) bool { return bytes.Contains(body, []byte(name)) }) {
				boxes, loose = append(boxes, r.box), append(loose, r.key)
			}
			return nil
		})
	return boxes, loose, err
}
