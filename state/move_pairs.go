package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"payersync/connector"
	"payersync/connector/protocol"
)

// MovePair says that a record of the new connection continues a payer of the old one.
type MovePair struct {
	Old, New  RecordID
	BillingID string        // the customer that moves
	Key       connector.Key // of the new record
	// what the mapping makes of the new record in one word, where a person gave the old one up; else ""
	GivenUpOf string
	Actor     string
	At        time.Time
}

// MoveLeft is a pair that was left as it is, and why: ErrUnderWay, ErrLinkedAlready, ErrNotMovable,
// ErrUnlinking, ErrNoPayer or ErrNoRecord.
type MoveLeft struct {
	MovePair
	Why error
}

// movesAtOnce is how many pairs one transaction moves.
const movesAtOnce = 100

// aboutOnePair reports whether an error is about one pair alone, so that the others go on.
func aboutOnePair(err error) bool {
	return slices.ContainsFunc([]error{ErrUnderWay, ErrLinkedAlready, ErrNotMovable, ErrUnlinking, ErrNoPayer,
		ErrNoRecord}, func(why error) bool { return errors.Is(err, why) })
}

// MoveBooks stores that a connection's records moved to another connection, and closes the old one. It links
// the old payers' customers to the records that continue them. It returns the pairs it did not change. Only
// the next plan of the new connection sends anything. An interrupted call can be repeated. It fails with
// ErrRunning, ErrUnderWay, and with the errors of DecideConnections.
func (l *Ledger) MoveBooks(ctx context.Context, d ConnectionDecision, pairs []MovePair) (left []MoveLeft, err error) {
	d.Decision = BooksMoved
	quiet, release, err := l.holdConnections(d.Old, d.New)
	if err != nil {
		return nil, err
	}
	defer release()
	forgotten, err := l.forgottenIn(ctx, d, pairs)
	if err != nil {
		return nil, err
	}
	if err := l.DoAlone(ctx, func(tx *Tx) error {
		if err := quiet(tx); err != nil {
			return err
		}
		news, err := tx.DecideConnections(d)
		if err == nil && news {
			err = tx.closeConnection(d.Old)
		}
		for _, id := range forgotten {
			err = errors.Join(err, tx.Bar(d.New, id, ForgottenAlike))
		}
		return err
	}); err != nil {
		return nil, err
	}
	err = l.eachPair(ctx, pairs, quiet, &left, func(tx *Tx, p MovePair) error { return tx.linkSuccessor(d, p) })
	return left, err
}

// TakePairsBack gives the customers of pairs back to the old payers, and returns the pairs that it
// left as they are. If the new key is already written, the next plan of the old connection restores
// the old one.
func (l *Ledger) TakePairsBack(ctx context.Context, d ConnectionDecision, pairs []MovePair) (left []MoveLeft,
	err error) {
	quiet, release, err := l.holdConnections(d.Old, d.New)
	if err != nil {
		return nil, err
	}
	defer release()
	err = l.eachPair(ctx, pairs, quiet, &left, func(tx *Tx, p MovePair) error { return tx.takePairBack(d, p) })
	return left, err
}

// ReopenBooks revokes the decision that a connection moved, once no pair of the two is left. The next run of
// the old connection plans all its records again.
func (l *Ledger) ReopenBooks(ctx context.Context, d ConnectionDecision) error {
	d.Decision = BooksMoved
	return l.DoAlone(ctx, func(tx *Tx) error {
		var some bool
		if err := tx.row([]any{&some},
			"SELECT EXISTS (SELECT 1 FROM move_pairs WHERE old_connection = ? AND new_connection = ?)", d.Old,
			d.New); err != nil {
			return err
		}
		if some {
			return ErrPairsLeft
		}
		return errors.Join(tx.TakeConnectionDecisionBack(d),
			tx.exec("UPDATE source_records SET decision = 'none', class = ?, replan = 1 WHERE connection = ? AND forgotten = ''",
				protocol.Working, d.Old))
	})
}

// ErrPairsLeft means that customers of the old connection are still linked to records of the new one.
var ErrPairsLeft = errors.New("customers are still with records of the new connection")

// eachPair hands pairs to do, some in each transaction, and notes those that are left.
func (l *Ledger) eachPair(ctx context.Context, pairs []MovePair, quiet func(*Tx) error, left *[]MoveLeft,
	do func(*Tx, MovePair) error) error {
	for some := range slices.Chunk(pairs, movesAtOnce) {
		var here []MoveLeft
		if err := l.DoAlone(ctx, func(tx *Tx) error {
			if err := quiet(tx); err != nil {
				return err
			}
			here = nil
			for _, p := range some {
				switch err := do(tx, p); {
				case aboutOnePair(err):
					here = append(here, MoveLeft{p, err})
				case err != nil:
					return fmt.Errorf("move %s to %s: %w", p.Old.SourceID, p.New.SourceID, err)
				}
			}
			return nil
		}); err != nil {
			return err
		}
		*left = append(*left, here...)
	}
	return nil
}

// heldConnection is a connection that runs are kept from.
type heldConnection struct {
	name string
	lock *Lock
}

// holdConnections keeps runs of this machine from connections until it is released; ErrRunning
// while there is one. quiet fails with ErrRunning while a run of another machine is at work.
func (l *Ledger) holdConnections(names ...string) (quiet func(*Tx) error, release func(), err error) {
	var held []heldConnection
	release = func() {
		for _, c := range held {
			_ = c.lock.Release()
		}
	}
	for _, name := range names {
		lock, err := l.holdStill(name)
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		held = append(held, heldConnection{name, lock})
	}
	return func(tx *Tx) error {
		for _, c := range held {
			if err := tx.stillHolds(c.lock, c.name); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		return nil
	}, release, nil
}

// forgottenIn returns the new connection's records similar to forgotten payers of the old one, by their ids
// alone. It omits records that continue a payer.
func (l *Ledger) forgottenIn(ctx context.Context, d ConnectionDecision, pairs []MovePair) (out []string, err error) {
	said, err := l.storedTombstones(ctx)
	if err != nil || len(said.stone) == 0 {
		return nil, err
	}
	ids, err := list(ctx, l, `SELECT r.connection, r.source_id FROM source_records r WHERE r.connection = ?1 AND r.forgotten = ''
		AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.connection = r.connection AND p.source_id = r.source_id AND p.billing_id IS NOT NULL)`,
		[]any{d.New}, func(r *RecordID) []any { return []any{&r.Connection, &r.SourceID} })
	if err != nil {
		return nil, fmt.Errorf("look for payers that were forgotten: %w", err)
	}
	labels, err := l.LabelsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	continues := connector.Set(connector.Map(pairs, func(p MovePair) RecordID { return p.New }))
	marked := said.marked()
	for _, id := range ids {
		if !continues[id] && said.alike([]string{d.Old}, labels[id], marked) {
			out = append(out, id.SourceID)
		}
	}
	return out, nil
}

// closeConnection drops the plans of a connection and marks its records as excluded: no plan looks at them
// any more. It fails with ErrUnderWay while a request of it may still arrive.
func (tx *Tx) closeConnection(name string) error {
	var open bool
	if err := tx.row([]any{&open},
		`SELECT EXISTS (SELECT 1 FROM changes WHERE connection = ?1 AND (state = 'frozen' OR state = 'unknown'))
		OR EXISTS (SELECT 1 FROM attempts WHERE connection = ?1 AND ended = '' AND over = 0)`, name); err != nil {
		return err
	}
	if open {
		return ErrUnderWay
	}
	for _, step := range []struct {
		query string
		args  []any
	}{
		{"UPDATE changes SET state = 'void', updated_at = ? WHERE connection = ? AND state = 'pending'",
			[]any{stamp(tx.now), name}},
		{"UPDATE plans SET state = 'superseded' WHERE connection = ? AND state IN ('draft', 'waiting', 'approved')",
			[]any{name}},
		{"DELETE FROM attention WHERE connection = ?", []any{name}},
		{"UPDATE connections SET state = 'active', parked_until = NULL, mapping_problem = '', mapping_problem_since = NULL WHERE name = ?", []any{name}},
		{"UPDATE source_records SET decision = 'excluded', class = ?, rests = 0, contested = 0, replan = 1 WHERE connection = ? AND forgotten = ''", []any{protocol.Out, name}},
	} {
		if err := tx.exec(step.query, step.args...); err != nil {
			return fmt.Errorf("close the connection %s: %w", name, err)
		}
	}
	return tx.dropPayers(name)
}

// dropPayers removes the payers without a customer of a closed connection: each would be twice in
// the lists of payers. Their records stay, and are planned again when the connection opens.
func (tx *Tx) dropPayers(connection string) error {
	return errors.Join(
		tx.dropTraits("p.connection = ? AND p.billing_id IS NULL", connection),
		tx.exec("DELETE FROM payers WHERE connection = ? AND billing_id IS NULL", connection))
}

// dropPayer is dropPayers for one record, whose customer has just moved.
func (tx *Tx) dropPayer(id RecordID) error {
	return errors.Join(
		tx.dropTraits("p.connection = ? AND p.source_id = ? AND p.billing_id IS NULL", id.Connection, id.SourceID),
		tx.exec("DELETE FROM payers WHERE connection = ? AND source_id = ? AND billing_id IS NULL", id.Connection,
			id.SourceID))
}

// linkSuccessor links the customer of an old payer to its successor. It does not change a finished pair.
func (tx *Tx) linkSuccessor(d ConnectionDecision, p MovePair) error {
	var before bool
	if err := tx.row([]any{&before},
		"SELECT EXISTS (SELECT 1 FROM move_pairs WHERE old_connection = ? AND old_id = ? AND new_connection = ? AND new_id = ?)",
		p.Old.Connection, p.Old.SourceID, p.New.Connection, p.New.SourceID); err != nil || before {
		return err
	}
	from, err := tx.payerOf(p.Old)
	if err != nil {
		return err
	}
	if err := tx.HandOver(from, p.New.Connection, p.New.SourceID, p.Key); err != nil {
		return err
	}
	if p.GivenUpOf != "" {
		if _, err := tx.GiveUp(p.New, p.GivenUpOf,
			Entry{Actor: d.Actor, Action: "give record up", Subject: p.New.SourceID, Reason: d.Reason}); err != nil {
			return err
		}
	}
	return errors.Join(
		tx.exec("INSERT INTO move_pairs (old_connection, old_id, new_connection, new_id, billing_id, old_key_name, old_key_value, actor, decided_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			p.Old.Connection, p.Old.SourceID, p.New.Connection, p.New.SourceID, from.BillingID, from.Key.Name,
			from.Key.ScopedValue(), d.Actor, stamp(tx.now)),
		tx.dropPayer(p.Old),
		tx.Audit(Entry{Actor: d.Actor, Action: "move customer", Subject: p.Old.text() + " " + p.New.text() + " " +
			from.BillingID, Reason: d.Reason}))
}

// takePairBack returns the customer of a pair to the old payer, with its old key.
func (tx *Tx) takePairBack(d ConnectionDecision, p MovePair) error {
	from, err := tx.payerOf(p.New)
	if err != nil {
		return err
	}
	var name, value string
	if err := tx.row([]any{&name, &value},
		"SELECT old_key_name, old_key_value FROM move_pairs WHERE old_connection = ? AND old_id = ?", p.Old.Connection,
		p.Old.SourceID); err != nil {
		return fmt.Errorf("read the key of payer %s: %w", p.Old.SourceID, err)
	}
	if from.BillingID == "" || from.BillingID != p.BillingID {
		return ErrNotMovable
	}
	if err := errors.Join(movable(from), tx.nothingUnderWay(p.New.Connection, p.New.SourceID)); err != nil {
		return err
	}
	back, key := connector.ParseKey(name, value), from.Key
	if from.Moves.Value != "" {
		key = from.Moves
	}
	if back == from.Key { // nothing was written yet
		back = connector.Key{}
	}
	return errors.Join(
		tx.handOver(from, p.Old.Connection, p.Old.SourceID, back),
		tx.exec("UPDATE payers SET key_name = ?, key_value = ? WHERE connection = ? AND source_id = ?", key.Name,
			key.ScopedValue(), p.New.Connection, p.New.SourceID),
		tx.exec("UPDATE source_records SET decision = 'none', let_go = 1 WHERE connection = ? AND source_id = ?",
			p.New.Connection, p.New.SourceID),
		tx.exec("DELETE FROM move_pairs WHERE old_connection = ? AND old_id = ?", p.Old.Connection, p.Old.SourceID),
		tx.Audit(Entry{Actor: d.Actor, Action: "move customer back", Subject: p.New.text() + " " + p.Old.text() + " " +
			from.BillingID, Reason: d.Reason}))
}

// text names a record with its connection, for the audit log.
func (id RecordID) text() string { return id.Connection + "/" + id.SourceID }

// payerOf returns the payer of a record; ErrNoPayer when there is none.
func (tx *Tx) payerOf(id RecordID) (Payer, error) {
	var r payerRow
	err := tx.row(r.dest(), "SELECT "+payerColumns+" FROM payers p WHERE p.connection = ? AND p.source_id = ?",
		id.Connection, id.SourceID)
	if errors.Is(err, sql.ErrNoRows) {
		return Payer{}, ErrNoPayer
	}
	if err != nil {
		return Payer{}, fmt.Errorf("read payer %s: %w", id.SourceID, err)
	}
	return tx.l.payer(r)
}

// MovePairs returns the pairs of two connections that a person has accepted, by the old record.
func (l *Ledger) MovePairs(ctx context.Context, from, to string) ([]MovePair, error) {
	type row struct {
		MovePair
		at sql.NullString
	}
	rows, err := list(ctx, l,
		"SELECT old_connection, old_id, new_connection, new_id, billing_id, actor, decided_at FROM move_pairs WHERE old_connection = ? AND new_connection = ? ORDER BY old_id",
		[]any{from, to}, func(r *row) []any {
			return []any{&r.Old.Connection, &r.Old.SourceID, &r.New.Connection, &r.New.SourceID, &r.BillingID, &r.Actor, &r.at}
		})
	if err != nil {
		return nil, fmt.Errorf("read which records were moved: %w", err)
	}
	out := make([]MovePair, len(rows))
	for i, r := range rows {
		out[i] = r.MovePair
		if out[i].At, err = parseTime(r.at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// LeftBehind returns up to limit records after source id after, in order, of a connection whose books moved.
// Their payers still have a mandate, and no record of the new connection continues them.
func (l *Ledger) LeftBehind(ctx context.Context, connection, after string, limit int) ([]Candidate, error) {
	return l.candidates(ctx, connection, "r.source_id > ?2 AND p.mandate_id IS NOT NULL AND p.billing_id IS NOT NULL",
		after, limit)
}

// ReportLeftBehind replaces the reports on a record of LeftBehind by the notice.
func (tx *Tx) ReportLeftBehind(connection string, n MissingReport) error {
	tx.replaceMissingReport(connection, n)
	return nil
}

// LinkedPayers returns the payers of a connection that have a customer, by source id.
func (l *Ledger) LinkedPayers(ctx context.Context, connection string) ([]Payer, error) {
	return l.payers(ctx, "SELECT "+payerColumns+" FROM payers p WHERE p.connection = ? AND p.billing_id IS NOT NULL ORDER BY p.source_id", connection)
}
