package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// BooksDecision is a person's decision about the records of two connections.
type BooksDecision string

// The decisions.
const (
	BooksMoved    BooksDecision = "moved"    // the old connection's books are the new one's by now; the old one is closed
	BooksSeparate BooksDecision = "separate" // the two hold the books of separate companies
)

// ConnectionDecision is a decision about two connections, with its author and time.
type ConnectionDecision struct {
	Old, New string
	Decision BooksDecision
	Actor    string
	Reason   string
	At       time.Time
}

// Why a decision about two connections is not taken.
var (
	// ErrNoConnection means that the ledger has no connection with this name.
	ErrNoConnection = errors.New("the ledger has no connection of that name")
	// ErrSameConnection means that both names are of one connection.
	ErrSameConnection = errors.New("both names are of the same connection")
	// ErrConnectionDecided means that another decision about one of the connections is in force.
	ErrConnectionDecided = errors.New("another decision about these connections stands; take it back first")
	// ErrNotDecided means that no such decision is in force, so there is none to take back.
	ErrNotDecided = errors.New("no such decision stands, so there is none to take back")
)

// MovedError means that a connection is closed, because it moved to another one.
type MovedError struct {
	Old, New string
	At       time.Time
}

// Error names the new connection, and says how to open the connection again.
func (e *MovedError) Error() string {
	return fmt.Sprintf("connection %s moved to %s on %s and is closed. To open it again, undo that", e.Old, e.New,
		e.At.Format(time.DateOnly))
}

// Steps returns the step that opens the connection again.
func (e *MovedError) Steps() []connector.Step {
	return []connector.Step{{Do: connector.DoUndoMoveBooks, Connection: e.Old, Of: e.New}}
}

// DecideConnections keeps a decision about two connections with an entry in the audit log, and
// makes the next plan of the new connection look at all its records. It reports false when the
// same decision stood before; a decision that they are separate holds in both directions. It fails with
// ErrNoConnection, ErrSameConnection or ErrConnectionDecided.
func (tx *Tx) DecideConnections(d ConnectionDecision) (news bool, err error) {
	if d.Old == d.New {
		return false, ErrSameConnection
	}
	var known, same, other bool
	if err := tx.row([]any{&known, &same, &other}, `SELECT
		EXISTS (SELECT 1 FROM connections WHERE name = ?1),
		EXISTS (SELECT 1 FROM connection_decisions WHERE decision = ?3 AND (old_connection = ?1 AND new_connection = ?2
		  OR decision = 'separate' AND old_connection = ?2 AND new_connection = ?1)),
		EXISTS (SELECT 1 FROM connection_decisions WHERE old_connection = ?1 AND new_connection = ?2 OR old_connection = ?2 AND new_connection = ?1
		  OR ?3 = 'moved' AND decision = 'moved' AND old_connection IN (?1, ?2))`,
		d.Old, d.New, d.Decision); err != nil {
		return false, fmt.Errorf("look what was decided about the connections %s and %s: %w", d.Old, d.New, err)
	}
	switch {
	case !known:
		return false, fmt.Errorf("%s: %w", d.Old, ErrNoConnection)
	case same:
		return false, nil
	case other:
		return false, ErrConnectionDecided
	}
	action := map[BooksDecision]string{BooksMoved: "move connection", BooksSeparate: "separate connections"}[d.Decision]
	return true, errors.Join(
		tx.exec("INSERT INTO connection_decisions (old_connection, new_connection, decision, actor, reason, decided_at) VALUES (?, ?, ?, ?, ?, ?)",
			d.Old, d.New, d.Decision, d.Actor, d.Reason, stamp(tx.now)),
		tx.endSameBooks(d.Old, d.New, d.Actor),
		tx.replanConnection(d.New),
		tx.Audit(Entry{Actor: d.Actor, Action: action, Subject: d.Old + " " + d.New, Reason: d.Reason}))
}

// TakeConnectionDecisionBack takes a decision about two connections back, with an entry in the audit log. The
// next plan of the new connection looks at all its records. It fails with ErrNotDecided, and with
// ErrConnectionDecided while the new connection moved on.
func (tx *Tx) TakeConnectionDecisionBack(d ConnectionDecision) error {
	var on bool
	if err := tx.row([]any{&on},
		"SELECT ?1 = 'moved' AND EXISTS (SELECT 1 FROM connection_decisions WHERE old_connection = ?2 AND decision = 'moved')", d.Decision, d.New); err != nil {
		return err
	}
	if on {
		return ErrConnectionDecided
	}
	n, err := tx.count(`DELETE FROM connection_decisions WHERE decision = ?3 AND (old_connection = ?1 AND new_connection = ?2
		OR decision = 'separate' AND old_connection = ?2 AND new_connection = ?1)`, d.Old, d.New, d.Decision)
	if err != nil {
		return fmt.Errorf("take back what was decided about the connections %s and %s: %w", d.Old, d.New, err)
	}
	if n == 0 {
		return ErrNotDecided
	}
	action := map[BooksDecision]string{BooksMoved: "take connection move back",
		BooksSeparate: "take separate connections back"}[d.Decision]
	return errors.Join(tx.reopenSameBooks(d.Old, d.New), tx.replanConnection(d.New),
		tx.Audit(Entry{Actor: d.Actor, Action: action, Subject: d.Old + " " + d.New, Reason: d.Reason}))
}

// replanConnection makes the next plan of a connection look at all its records.
func (tx *Tx) replanConnection(name string) error {
	return tx.exec("UPDATE source_records SET replan = 1 WHERE connection = ? AND replan = 0", name)
}

// ConnectionDecisions returns the decisions in force about all connections, by their names.
func (l *Ledger) ConnectionDecisions(ctx context.Context) ([]ConnectionDecision, error) {
	type row struct {
		ConnectionDecision
		at sql.NullString
	}
	rows, err := list(ctx, l,
		"SELECT old_connection, new_connection, decision, actor, reason, decided_at FROM connection_decisions ORDER BY old_connection, new_connection", nil,
		func(r *row) []any { return []any{&r.Old, &r.New, &r.Decision, &r.Actor, &r.Reason, &r.at} })
	if err != nil {
		return nil, fmt.Errorf("read what was decided about connections: %w", err)
	}
	out := make([]ConnectionDecision, len(rows))
	for i, r := range rows {
		out[i] = r.ConnectionDecision
		if out[i].At, err = parseTime(r.at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// MovedTo returns the decision that moved a connection; nil for an open connection.
func (l *Ledger) MovedTo(ctx context.Context, connection string) (*ConnectionDecision, error) {
	all, err := l.ConnectionDecisions(ctx)
	for _, d := range all {
		if d.Decision == BooksMoved && d.Old == connection {
			return &d, err
		}
	}
	return nil, err
}

// Predecessors returns the connections that moved to this one, one after the other.
func (l *Ledger) Predecessors(ctx context.Context, connection string) ([]string, error) {
	return l.ids(ctx, `WITH RECURSIVE before (name) AS (SELECT old_connection FROM connection_decisions WHERE new_connection = ?1 AND decision = 'moved'
		UNION SELECT d.old_connection FROM before b JOIN connection_decisions d ON d.new_connection = b.name AND d.decision = 'moved') SELECT name FROM before ORDER BY name`, connection)
}

// closedBooks fails with *MovedError when a connection moved to another one.
func (tx *Tx) closedBooks(connection string) error {
	moved := &MovedError{Old: connection}
	var at sql.NullString
	err := tx.row([]any{&moved.New, &at},
		"SELECT new_connection, decided_at FROM connection_decisions WHERE old_connection = ? AND decision = 'moved'",
		connection)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		moved.At, err = parseTime(at)
	}
	if err != nil {
		return fmt.Errorf("look whether the connection %s is closed: %w", connection, err)
	}
	return moved
}

// HasConnection reports whether the ledger knows a connection of that name, configured or not.
func (l *Ledger) HasConnection(ctx context.Context, name string) (bool, error) {
	return single[bool](l.queryRow(ctx, "SELECT EXISTS (SELECT 1 FROM connections WHERE name = ?)", name))
}

// ConnectionNames returns the connections that the ledger knows, configured or not, by name.
func (l *Ledger) ConnectionNames(ctx context.Context) ([]string, error) {
	return l.ids(ctx, "SELECT name FROM connections ORDER BY name")
}
