package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ahead is a statement with an unneeded answer: it is sent together with the next statement with a
// needed one.
type ahead struct {
	query   string
	args    []any
	rows    int64 // how many it is to change at least
	missing error // its error when it changes fewer; nil if that is no failure
	of      *Tx   // which is told how many rows it changed
}

// aheadError is the error of a statement that was sent ahead of another.
type aheadError struct{ error }

func (e aheadError) Unwrap() error { return e.error }

// exec runs a statement of the write. On a remote engine, it is sent together with the next statement that
// needs an answer; that statement then returns its error.
func (tx *Tx) exec(query string, args ...any) error { return tx.must(nil, query, args...) }

// must is exec for a statement that fails with missing when it changes no row.
func (tx *Tx) must(missing error, query string, args ...any) error {
	return tx.mustAll(1, missing, query, args...)
}

// mustAll is exec for a statement that fails with missing when it changes fewer rows.
func (tx *Tx) mustAll(rows int, missing error, query string, args ...any) error {
	if !tx.l.below.pipelines() {
		n, err := tx.count(query, args...)
		if err == nil && n < int64(rows) {
			err = missing
		}
		return err
	}
	if err := errors.Join(tx.lost, tx.failed); err != nil {
		return err
	}
	args, err := bound(args)
	if err != nil {
		return err
	}
	tx.ahead = append(tx.ahead, ahead{query, args, int64(rows), missing, tx})
	if len(tx.ahead) < mostAhead {
		return nil
	}
	return tx.flush()
}

// mostAhead is how many statements are sent together at most.
const mostAhead = 256

// flush sends the unsent statements before another use of the connection.
func (tx *Tx) flush() error {
	if len(tx.ahead) == 0 {
		return nil
	}
	_, err := tx.count("SELECT 1")
	return err
}

// prepare prepares a statement with an awaited answer, and returns its context and arguments.
func (tx *Tx) prepare(query string, args []any) (context.Context, []any, error) {
	if err := errors.Join(tx.lost, tx.failed); err != nil {
		return nil, nil, err
	}
	args, err := bound(args)
	if err != nil {
		return nil, nil, err
	}
	if err := tx.l.prepared(query); err != nil {
		return nil, nil, tx.noticeLoss(err)
	}
	ctx := withAhead(context.Background(), tx.ahead)
	tx.ahead = nil
	return ctx, args, nil
}

// someRows is how many rows a statement has at most. Statements are kept by their texts: some lengths and no more.
const someRows = 32

// insertRows runs a statement that inserts several rows at a time, each with the values of row from
// args. fixed are its arguments ?1 and so on, which all rows share, and which come first in the row.
func (tx *Tx) insertRows(into, row string, args []any, end string, fixed ...any) error {
	each := strings.Count(row, "?,") + strings.Count(row, "?)")
	for part := range slices.Chunk(args, someRows*each) {
		rows := len(part) / each
		if err := tx.exec(into+row+strings.Repeat(", "+row, rows-1)+end, slices.Concat(fixed, part)...); err != nil {
			return err
		}
	}
	return nil
}

// updateRows runs a statement that updates a table by several rows of values at a time, as insertRows
// does. The columns of the values are g.column1 and so on. fixed are the arguments ?1 and so on of set. It
// fails with missing when it does not change a row for each.
func (tx *Tx) updateRows(missing error, set, row, where string, fixed, args []any) error {
	for part := range slices.Chunk(args, someRows*strings.Count(row, "?")) {
		rows := len(part) / strings.Count(row, "?")
		if err := tx.mustAll(rows, missing, set+" FROM (VALUES "+row+strings.Repeat(", "+row, rows-1)+") AS g WHERE "+where,
			slices.Concat(fixed, part)...); err != nil {
			return err
		}
	}
	return nil
}

// count runs a statement and returns how many rows it changed.
func (tx *Tx) count(query string, args ...any) (int64, error) {
	ctx, args, err := tx.prepare(query, args)
	if err != nil {
		return 0, err
	}
	res, err := tx.l.stmts[query].ExecContext(ctx, args...)
	if err != nil {
		return 0, tx.noticeLoss(err)
	}
	n, err := res.RowsAffected()
	tx.l.changed += n
	tx.note(query, n)
	return n, err
}

// note notes that a statement changed so many rows. For statements other than INSERT, UPDATE and
// DELETE, an engine may return the number of the statement before.
func (tx *Tx) note(query string, rows int64) {
	tx.wrote = tx.wrote || changes(query) && rows > 0
}

// Changed reports whether the transaction has changed a row so far, also for another write that shares it.
func (tx *Tx) Changed() (bool, error) {
	err := tx.flush()
	return tx.wrote, err
}

// changes reports whether a statement changes rows, by its first word. One with WITH may.
func changes(query string) bool {
	query = strings.TrimSpace(query)
	if end := strings.IndexAny(query, " \t\n("); end >= 0 {
		query = query[:end]
	}
	switch query {
	case "SELECT", "SAVEPOINT", "RELEASE", "ROLLBACK", "COMMIT", "BEGIN":
		return false
	}
	return true
}

// row runs a statement that gives one row and scans it; sql.ErrNoRows when it gives none. For many
// records, the next statement reads the written rows. SQLite takes longer with RETURNING than with
// both, and a server does both in one round trip.
func (tx *Tx) row(dest []any, query string, args ...any) error {
	ctx, args, err := tx.prepare(query, args)
	if err != nil {
		return err
	}
	err = tx.l.stmts[query].QueryRowContext(ctx, args...).Scan(dest...)
	if err == nil {
		tx.note(query, 1)
	}
	return tx.noticeLoss(err)
}

// query runs a statement that returns rows; the caller closes them before the write runs another.
func (tx *Tx) query(query string, args ...any) (*sql.Rows, error) {
	ctx, args, err := tx.prepare(query, args)
	if err != nil {
		return nil, err
	}
	tx.note(query, 1)
	rows, err := tx.l.stmts[query].QueryContext(ctx, args...)
	return rows, tx.noticeLoss(err)
}

// each runs a statement that gives rows, and has every one read.
func (tx *Tx) each(query string, args []any, read func(scan func(dest ...any) error) error) error {
	rows, err := tx.query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// noticeLoss stores an error after which SQLite may have rolled back the transaction, or the connection was
// lost. A later statement would commit on its own, so none runs. It also keeps the error of a statement sent
// ahead, because its caller does not know it.
func (tx *Tx) noticeLoss(err error) error {
	var of aheadError
	if errors.As(err, &of) {
		tx.failed = of.error
	}
	switch troubleOf(tx.l.sound.noteDamage(err)) {
	case diskFull, givenUp:
		err = ofDisk(err)
		tx.lost = err
	}
	if disconnected(err) {
		err = fmt.Errorf("%w: %w", ErrConnectionLost, err)
		tx.lost = err
	}
	return err
}

// Unwritable reports whether a write failed because the ledger takes no writes for now. Its disk
// may be full or failing, or another process keeps it locked. It may be too slow or damaged,
// without a connection, or closed. Nothing of such a write is kept.
func Unwritable(err error) bool {
	switch troubleOf(err) {
	case diskFull, inUse, tooSlow, readOnly, corrupt:
		return true
	}
	var damaged *OpenError
	return errors.Is(err, ErrClosed) || errors.Is(err, ErrConnectionLost) || errors.Is(err, ErrServer) ||
		errors.As(err, &damaged)
}

// ofDisk adds the next step to an error of the disk (fault F59).
func ofDisk(err error) error {
	if troubleOf(err) == diskFull {
		return fmt.Errorf("%w; the disk with the ledger is full or failing: make room or mend it, and go on", err)
	}
	return err
}

// prepared makes sure that the statement for query is prepared on the writing connection, once per
// connection. Statements run without a caller's context: the transaction belongs to a whole batch,
// and no single caller may end it.
func (l *Ledger) prepared(query string) error {
	if l.stmts[query] != nil {
		return nil
	}
	s, err := l.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return fmt.Errorf("prepare a ledger statement: %w", err)
	}
	l.stmts[query] = s
	return nil
}
