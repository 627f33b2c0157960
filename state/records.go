package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"payersync/connector"
	"payersync/connector/protocol"
)

// SavePage stores the records of one page as read by run. For unchanged records it stores only
// their origin. News decides which records of a page are stored.
func (tx *Tx) SavePage(run int64, connection string, records []connector.Record) error {
	if err := tx.holds(run); err != nil {
		return err
	}
	unchanged := make(map[string]bool, len(records))
	for part := range untilRepeated(records, func(r connector.Record) string { return r.SourceID }) {
		held, err := tx.saveRecords(connection, part)
		if err != nil {
			return fmt.Errorf("save a page of records: %w", err)
		}
		for _, r := range part {
			unchanged[r.SourceID] = held[connector.Clean(r.SourceID)]
		}
	}
	return tx.noteEchoes(run, connection, unchanged)
}

// untilRepeated returns what is listed in parts of which none shows an id twice.
func untilRepeated[T any](list []T, id func(T) string) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		begin, shown := 0, make(map[string]bool, len(list))
		for i, one := range list {
			if shown[id(one)] {
				if !yield(list[begin:i]) {
					return
				}
				begin = i
				clear(shown)
			}
			shown[id(one)] = true
		}
		if begin < len(list) {
			yield(list[begin:])
		}
	}
}

// saveRecords stores records without repeats, and returns the ids of those that the ledger already
// held unchanged.
func (tx *Tx) saveRecords(connection string, records []connector.Record) (held map[string]bool, err error) {
	hashes := make([]string, len(records))
	as := make(map[string]string, len(records))
	for i, r := range records {
		hashes[i] = r.Hash()
		as[connector.Clean(r.SourceID)] = hashes[i]
	}
	page, err := json.Marshal(as)
	if err != nil {
		return nil, err
	}
	held = make(map[string]bool, len(records))
	if err := tx.each(`SELECT r.source_id FROM json_each(?2) j CROSS JOIN source_records r ON r.connection = ?1 AND r.source_id = j.key AND r.content_hash = j.value`,
		[]any{connection, string(page)}, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			held[id] = true
			return err
		}); err != nil {
		return nil, err
	}
	var args []any
	for i, r := range records {
		if held[connector.Clean(r.SourceID)] {
			if err := tx.exec("UPDATE source_records SET missed = 0, unseen = 0, origin = ?, unreadable = ? WHERE connection = ? AND source_id = ?",
				r.Origin, r.Problem != "", connection, r.SourceID); err != nil {
				return nil, err
			}
			continue
		}
		box, err := tx.l.boxRecord(connection, r)
		if err != nil {
			return nil, err
		}
		args = append(args, recordRow(r, hashes[i], box)...)
	}
	return held, tx.insertRows("INSERT INTO source_records (connection, updated_at, "+recordRowColumns+") VALUES ",
		"(?1, ?2, ?, ?, ?, ?, ?, ?, ?)", args,
		` ON CONFLICT (connection, source_id) DO UPDATE SET content_hash = excluded.content_hash, record = excluded.record,
		  planned_hash = CASE source_records.planned_hash WHEN '`+sameContent+`' THEN source_records.content_hash ELSE source_records.planned_hash END,
		  state = excluded.state, unreadable = excluded.unreadable, source_time = excluded.source_time, origin = excluded.origin,
		  missed = 0, unseen = 0, updated_at = excluded.updated_at
		WHERE source_records.forgotten = ''`, connection, stamp(tx.now))
}

const recordRowColumns = "source_id, content_hash, record, state, unreadable, source_time, origin"

// recordRow returns the values of recordRowColumns for a record with this content hash.
func recordRow(r connector.Record, hash string, box []byte) []any {
	return []any{r.SourceID, hash, box, string(r.State), r.Problem != "", stamp(r.UpdatedAt), r.Origin}
}

// boxRecord seals a record.
func (l *Ledger) boxRecord(connection string, r connector.Record) ([]byte, error) {
	plain, err := json.Marshal(struct { // as connector.Record, without the id of its place and without blanks
		State      connector.RecordState
		MergedInto string    `json:",omitempty"`
		UpdatedAt  time.Time `json:",omitzero"`
		Data       json.RawMessage
		Origin     string `json:",omitempty"`
		Problem    string `json:",omitempty"`
	}{r.State, r.MergedInto, r.UpdatedAt, r.Data, r.Origin, r.Problem})
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", r.SourceID, err)
	}
	return l.seal.box(plain, place("source_records", "record", connection, r.SourceID)), nil
}

// DropMissing drops the open work for records that MarkMissing marked as gone from a snapshot source.
// Pending changes become void, and attention entries go with the row. A payer with a present or
// possible customer is left alone, because a missing row is never a deletion.
func (tx *Tx) DropMissing(run int64, connection string) error {
	if err := tx.holds(run); err != nil {
		return err
	}
	const unseen = `EXISTS (SELECT 1 FROM source_records r WHERE r.connection = %[1]s.connection AND r.source_id = %[1]s.source_id AND r.missed = 1)`
	const known = `EXISTS (SELECT 1 FROM payers p WHERE p.connection = %[1]s.connection AND p.source_id = %[1]s.source_id AND (p.billing_id IS NOT NULL
		OR EXISTS (SELECT 1 FROM changes c WHERE c.connection = p.connection AND c.source_id = p.source_id AND c.lane = 'customer' AND c.state <> 'pending' AND ` + openStates + `)))`
	if err := tx.each("SELECT source_id FROM attention WHERE connection = ? AND "+fmt.Sprintf(unseen,
		"attention")+" AND NOT "+fmt.Sprintf(known, "attention"), []any{connection}, func(scan func(...any) error) error {
		id := RecordID{Connection: connection}
		err := scan(&id.SourceID)
		tx.touched(id)
		return err
	}); err != nil {
		return fmt.Errorf("look what was told of rows that are gone: %w", err)
	}
	for _, query := range []string{
		`UPDATE changes SET state = 'void', updated_at = ?2 WHERE connection = ?1 AND state = 'pending' AND unlinks = 0 AND ` + fmt.Sprintf(unseen, "changes"),
		`UPDATE source_records SET planned_hash = '', replan = 0, rests = 0, decision = CASE WHEN ` +
			fmt.Sprintf(known, "source_records") + ` THEN decision ELSE 'none' END
			WHERE connection = ?1 AND missed = 1 AND (planned_hash <> '' OR replan = 1 OR rests = 1) AND ?2 <> ''`,
		"UPDATE source_records SET unseen = 1 WHERE connection = ?1 AND missed = 1 AND unseen = 0 AND ?2 <> ''",
	} {
		if err := tx.exec(query, connection, stamp(tx.now)); err != nil {
			return fmt.Errorf("drop what was planned for rows that are gone: %w", err)
		}
	}
	return nil
}

// Candidate is a record that a plan must look at, with what the ledger knows of
// its payer.
type Candidate struct {
	Record      connector.Record
	ContentHash string
	Merged      bool   // a person said that it is Record.MergedInto
	GivenUp     bool   // a person said that it is not to be connected
	GivenUpOf   string // what the mapping made of it then
	Asking      connector.AskDecision
	Forgotten   Forgotten // why nothing but the record's id is kept
	Payer       *Payer    // nil when the record was never included
	// what is known of the payer, but for its record, its rivals, and the key of one without a customer
	Facts      protocol.Facts
	Rival      string // another record that has the payer's key; "" for none
	Stands     string // for Decision.Stands
	LabelledBy string // the mapping version that made its label; "" for none

	// Adopting is the customer that a planned change adopts after a read without objections; "" for
	// none. Known of stored records alone.
	Adopting string

	underWay bool // requests to its customer have no end yet
}

// Candidates returns up to limit records after source id after, in order, that need planning. They changed
// since the last plan, were planned with another mapping, or their surroundings may have changed. Records
// that depend on others are always included. It omits records with an open frozen or unknown change: their
// sent bytes come first. there excludes records that the last complete reading of a snapshot missed, unless a
// person unlinked their customers.
func (l *Ledger) Candidates(ctx context.Context, connection, mapping string, there bool, after string,
	limit int) ([]Candidate, error) {
	return l.candidates(ctx, connection, `r.source_id > ?2 AND (r.unseen = 0 OR ?3 = 0 OR p.unlink_at > 0)
		  AND (NOT `+isPlanned+` OR NOT `+plannedWith("?4")+` OR r.replan = 1 OR r.rests = 1)
		  AND NOT EXISTS (SELECT 1 FROM changes c WHERE c.connection = r.connection AND c.source_id = r.source_id
		                  AND c.lane = 'customer' AND c.state <> 'pending' AND `+openStates+`)`, after, there, mapping, limit)
}

const recordColumns = `r.source_id, r.content_hash, r.record, r.same_as, r.given_up_of, r.asking, r.forgotten,
	coalesce((SELECT substr(b.mapping, length('` + labelForm + `') + 1) FROM labels b
	  WHERE b.connection = r.connection AND b.source_id = r.source_id AND substr(b.mapping, 1, length('` + labelForm +
	`')) = '` + labelForm + `'), '')`

// candidates returns the records under the condition where, in order. ?1 is the connection, and the
// last of args is the limit.
func (l *Ledger) candidates(ctx context.Context, connection, where string, args ...any) ([]Candidate, error) {
	out, err := collect("read the records to plan",
		func(scan scanner) (Candidate, error) { return l.scanCandidate(scan, connection) })(
		l.query(ctx, "SELECT "+recordColumns+", "+payerColumns+", "+factColumns+`
		FROM source_records r `+factFrom+`
		WHERE r.connection = ?1 AND `+where+`
		ORDER BY r.source_id`+limitTo, append([]any{connection}, args...)...))
	if err != nil {
		return nil, err
	}
	for i := range out {
		if err := l.addUnderWay(ctx, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addUnderWay adds the requests of unknown end to the candidate's customer.
func (l *Ledger) addUnderWay(ctx context.Context, c *Candidate) (err error) {
	if c.underWay {
		c.Facts.Attempts, err = l.updatesUnderWay(ctx, c.Payer.BillingID)
	}
	return err
}

// scanCandidate reads a record with its payer, and into more what else the row
// holds.
func (l *Ledger) scanCandidate(scan scanner, connection string, more ...any) (Candidate, error) {
	var c Candidate
	var id, same string
	var box []byte
	var p payerRow
	var f factRow
	if err := scan(slices.Concat([]any{&id, &c.ContentHash, &box, &same, &c.GivenUpOf, &c.Asking, &c.Forgotten,
		&c.LabelledBy}, p.dest(), f.dest(), more)...); err != nil {
		return c, fmt.Errorf("read a record to plan: %w", err)
	}
	c.Stands, c.GivenUp = f.stands(p), f.givenUp != 0
	var err error
	if c.Record, err = l.openRecord(connection, id, box); err != nil {
		return c, err
	}
	if c.Merged = same != "" && c.Record.State == connector.RecordActive; c.Merged {
		c.Record.State, c.Record.MergedInto = connector.RecordMerged, same
	}
	if p.connection.Valid {
		payer, err := l.payer(p)
		if err != nil {
			return c, err
		}
		c.Payer, c.Rival, c.underWay = &payer, f.rival.String, f.open
		if c.Facts, err = f.facts(payer); err != nil {
			return c, err
		}
	}
	return c, nil
}

// UnlinkedCandidates counts the records to plan without a customer. If there are any, the plan
// needs the index of the service's customers.
func (l *Ledger) UnlinkedCandidates(ctx context.Context, connection, mapping string, there bool) (int, error) {
	return single[int](l.queryRow(ctx, `
		SELECT count(*) FROM source_records r LEFT JOIN payers p ON p.connection = r.connection AND p.source_id = r.source_id
		WHERE r.connection = ?1 AND (NOT `+isPlanned+` OR NOT `+plannedWith("?2")+` OR r.replan = 1 OR r.rests = 1)
		  AND p.billing_id IS NULL AND (r.unseen = 0 OR ?3 = 0)`, connection, mapping, there))
}

// ReplanLost marks every record of the connection with a lost signing link, so that the next plan
// requests the link again.
func (tx *Tx) ReplanLost(connection string) error {
	return tx.exec(`UPDATE source_records SET replan = 1 WHERE connection = ?1 AND replan = 0 AND decision = 'included' AND source_id IN (
		SELECT p.source_id FROM payers p WHERE p.connection = ?1 AND `+inOrder+` AND `+lostLink+`)`, connection)
}

// Undecided marks records of a connection for planning that a plan could not decide on.
func (tx *Tx) Undecided(connection string, sourceIDs []string) error {
	for _, id := range sourceIDs {
		if _, err := tx.ReplanRecord(connection, id); err != nil {
			return err
		}
		tx.touched(RecordID{connection, id})
	}
	return nil
}

// Hold notes that a read has shown a problem of a payer's customer. What was read is among the facts, so to and reason
// count only while a run alone has all of the facts. The next plan decides on the record by all that is known.
func (tx *Tx) Hold(p Payer, to connector.LinkState, reason connector.Reason) error {
	t := tx.touched(RecordID{p.Connection, p.SourceID})
	t.link, t.shown = to, reason
	return errors.Join(tx.LookNext(p), tx.setSeen(p))
}

// LookNext makes the next plan look at a payer's record. Unlike ReplanRecord it keeps no
// run from being complete: nothing is known to be left to do.
func (tx *Tx) LookNext(p Payer) error {
	return tx.exec("UPDATE source_records SET rests = 1 WHERE connection = ? AND source_id = ? AND rests = 0",
		p.Connection, p.SourceID)
}

// lookNextAt makes the next plan look at the unlinked records with one of these keys, in their indexed form, because a
// customer with the key was seen.
func (tx *Tx) lookNextAt(keys []connector.Key) error {
	for _, key := range keys {
		if err := tx.exec(`UPDATE source_records SET rests = 1 WHERE rests = 0 AND decision <> 'excluded' AND (connection, source_id) IN (
			SELECT p.connection, p.source_id FROM payers p WHERE p.key_name = ?1 AND p.billing_id IS NULL
			AND (p.key_value = ?2 OR p.key_value > ?2 || char(31) AND p.key_value < ?2 || char(32)))`, key.Name,
			key.ScopedValue()); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) lookNextIfOthers(p Payer, reason connector.Reason) error {
	if !reason.RestsOnOthers() {
		return nil
	}
	return tx.LookNext(p)
}

// ReplanRecord makes the next plan look at one record again and reports false
// when there is no such record.
func (tx *Tx) ReplanRecord(connection, sourceID string) (bool, error) {
	n, err := tx.count("UPDATE source_records SET replan = 1 WHERE connection = ? AND source_id = ?", connection, sourceID)
	return n > 0, err
}

// RetryRecord is ReplanRecord on a person's word: what was refused or given up, for the
// record's signing link too, may be tried again.
func (tx *Tx) RetryRecord(connection, sourceID string) (bool, error) {
	ticket, err := tx.Ticket()
	if err != nil {
		return false, err
	}
	n, err := tx.count("UPDATE source_records SET replan = 1, retried_at = ? WHERE connection = ? AND source_id = ?",
		ticket, connection, sourceID)
	return n > 0, err
}

// IsRetried reports whether a person's retry of the record is still open.
func (tx *Tx) IsRetried(connection, sourceID string) (bool, error) {
	return txSingle[bool](tx,
		`SELECT count(*) > 0 FROM source_records r LEFT JOIN payers p ON p.connection = r.connection AND p.source_id = r.source_id
		WHERE r.connection = ?1 AND r.source_id = ?2 AND r.replan = 1
		AND r.retried_at > max(coalesce(p.shown_at, 0), coalesce(p.confirmed_at, 0), coalesce(p.answered_at, 0),
		  (SELECT coalesce(max(c.ended_at), 0) FROM changes c WHERE c.connection = r.connection AND c.source_id = r.source_id))`, connection, sourceID)
}
