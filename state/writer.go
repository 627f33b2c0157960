package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxBatch is how many writes share one transaction at most.
const maxBatch = 256

// restAfter is how long the writer, and each reader, keeps unused memory.
const restAfter = 30 * time.Second

// ErrClosed is returned for a write that came after Close.
var ErrClosed = errors.New("the ledger is closed")

// write is one function that waits for the writer.
type write struct {
	fn    func(*Tx) error
	alone bool // in a transaction of its own, see DoAlone
	done  chan error
}

// Tx is one write to the ledger. Its methods are the only way to change rows;
// all its rows carry the same instant.
type Tx struct {
	l    *Ledger
	now  time.Time
	lost error // why the transaction was given up; nil while it stands

	ahead  []ahead // statements of the write that are not sent yet
	failed error   // of one that was sent ahead; nothing of the write is kept then

	id, timeline string // of the transaction, if the engine can report its outcome later

	commits int64 // that the ledger has with this one

	leads bool // to a request: the mark is on the disk before anybody sends it
	wrote bool // a row changed by the batch's writes, see note; a batch without changes is not committed

	run    int64 // that is known to be open, see holds; 0 for none
	change int64 // the highest id of a change, see nextChange; 0 before that is known
	payer  int64 // the highest id of a payer, see nextPayer; 0 before that is known

	touches     map[RecordID]*touchedPayer // payers to decide on again, see Touch
	differences []string                   // see Settle

}

// Now returns the instant that every row of this write carries.
func (tx *Tx) Now() time.Time { return tx.now }

// Do runs fn as one atomic write and returns when it is durable. When fn returns an error nothing of it is
// kept and Do returns that error. Writes that change no row are not committed: what fn read was durable
// before. Writes of several goroutines share a transaction, so fn must be quick and must not call the ledger
// itself. Nothing is written before the whole file was checked. Do waits for a queued write even when ctx
// ends, so its caller always learns the result.
func (l *Ledger) Do(ctx context.Context, fn func(*Tx) error) error {
	return l.hand(ctx, &write{fn: fn})
}

// DoAlone is Do for a write that may change very many rows: it shares its transaction with no
// other. In a shared transaction, the old content of its changes would stay in memory until the
// commit. Alone it needs only the memory of its largest statement.
func (l *Ledger) DoAlone(ctx context.Context, fn func(*Tx) error) error {
	return l.hand(ctx, &write{fn: fn, alone: true})
}

// hand passes a write to the writer and waits for its result.
func (l *Ledger) hand(ctx context.Context, w *write) error {
	if l.seal.away != nil {
		return l.seal.away
	}
	w.done = make(chan error, 1)
	select {
	case <-l.closing:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
	}
	if err := l.Sound(ctx); err != nil {
		return err
	}
	select {
	case <-l.closing:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	case l.queue <- w:
	}
	select {
	case err := <-w.done:
		return err
	case <-l.stopped:
		select {
		case err := <-w.done:
			return err
		default:
			return ErrClosed
		}
	}
}

// writeLoop commits the queued writes, as many at a time as have arrived. It is the only user of the writing
// connection.
func (l *Ledger) writeLoop() {
	defer close(l.stopped)
	rest := time.NewTimer(restAfter)
	defer rest.Stop()
	for {
		select {
		case w := <-l.queue:
			l.commitAll(w)
			rest.Reset(restAfter)
		case <-rest.C:
			l.below.rest(l.conn)
		case <-l.closing:
			for {
				select {
				case w := <-l.queue:
					l.commitAll(w)
				default:
					return
				}
			}
		}
	}
}

// commitAll commits a write with what else is queued, and then what may not share its transaction.
func (l *Ledger) commitAll(w *write) {
	for w != nil {
		var batch []*write
		batch, w = l.gather(w)
		l.commit(batch)
	}
}

// gather takes the queued writes without waiting for more. next is the following write that needs a
// transaction of its own, or nil.
func (l *Ledger) gather(first *write) (batch []*write, next *write) {
	batch = []*write{first}
	for !first.alone && len(batch) < maxBatch {
		select {
		case w := <-l.queue:
			if w.alone {
				return batch, w
			}
			batch = append(batch, w)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

// commit runs the batch in one transaction, isolates the failure of each write, and answers every
// caller after the commit.
func (l *Ledger) commit(batch []*write) {
	ended := l.watched()
	results, err := l.runBatch(batch)
	defer l.below.batchOver(l) // which may take its time: nobody waits for it
	ended(err)
	for i, w := range batch {
		if err != nil {
			w.done <- err
			continue
		}
		w.done <- results[i]
	}
}

func (l *Ledger) runBatch(batch []*write) ([]error, error) {
	results := make([]error, len(batch))
	var tx *Tx // nil while there is nothing to commit
	for i, w := range batch {
		var broken error
		if tx == nil {
			tx, results[i], broken = l.runFirst(w.fn)
		} else {
			results[i], broken = tx.runOne(w.fn)
		}
		if broken != nil {
			return nil, broken
		}
	}
	if tx == nil {
		return results, nil
	}
	if !tx.wrote {
		return results, errors.Join(tx.abandon(nil), l.inPlace())
	}
	return results, tx.end()
}

// runFirst begins the transaction of a batch with a write. It needs no savepoint: when it fails, there is nothing
// else to keep, and no transaction. The second error means the same as that of runOne.
func (l *Ledger) runFirst(fn func(*Tx) error) (tx *Tx, result, broken error) {
	tx = &Tx{l: l, now: l.Now()}
	if err := tx.beginBatch(); err != nil {
		return nil, nil, fmt.Errorf("begin a ledger write: %w", err)
	}
	if tx.commits, broken = tx.step(); broken != nil {
		return nil, nil, tx.abandon(broken)
	}
	tx.wrote = false // the count of the commit alone is no reason for one
	result = tx.attempt(fn)
	switch {
	case tx.lost != nil:
		return nil, nil, tx.abandon(tx.lost)
	case result != nil:
		return nil, result, tx.abandon(nil)
	}
	return tx, nil, nil
}

// end commits the transaction of a batch.
func (tx *Tx) end() error {
	l := tx.l
	err := l.asked(false)
	if err == nil {
		_, err = tx.count("COMMIT")
	}
	if disconnected(err) {
		err = l.below.settle(context.Background(), tx, err)
	}
	if err != nil {
		return tx.abandon(fmt.Errorf("commit to the ledger: %w", err))
	}
	if err := l.asked(true); err != nil {
		return err
	}
	return errors.Join(l.advanceMark(context.Background(), tx.commits, tx.leads), l.inPlace())
}

// The savepoint of one write of a batch.
const (
	beginOne = "SAVEPOINT one"
	undoOne  = "ROLLBACK TO one"
	endOne   = "RELEASE one"
)

// runOne runs fn behind a savepoint. The second error means that the transaction was lost as a
// whole, for example because the disk is full, and was given up.
func (tx *Tx) runOne(fn func(*Tx) error) (result, broken error) {
	if err := tx.exec(beginOne); err != nil {
		return nil, tx.abandon(err)
	}
	result = tx.attempt(fn)
	if result != nil && tx.lost == nil {
		tx.lost = tx.undo()
	}
	if tx.lost == nil {
		tx.lost = tx.exec(endOne)
	}
	if tx.lost != nil {
		return nil, tx.abandon(tx.lost)
	}
	return result, nil
}

// attempt runs fn, and waits for those statements of it that it did not wait for.
func (tx *Tx) attempt(fn func(*Tx) error) error {
	tx.touches = nil
	err := guarded(fn, tx)
	if err == nil {
		err = tx.settle()
	}
	if err == nil {
		err = tx.failed // which fn was not told of
	}
	if err == nil && tx.lost == nil {
		err = tx.flush() // before its savepoint ends: one of them may find nothing to change
	}
	return err
}

// undo goes back to the savepoint.
func (tx *Tx) undo() error {
	tx.run, tx.change, tx.failed = 0, 0, nil
	if begin := slices.IndexFunc(tx.ahead, func(a ahead) bool { return a.query == beginOne }); begin >= 0 {
		tx.ahead = tx.ahead[:begin+1] // nothing after it was sent
		return nil
	}
	tx.ahead = nil
	_, err := tx.count(undoOne)
	return err
}

// guarded turns a panic of one write into its error, so the other writes of the batch survive.
func guarded(fn func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a ledger write panicked with a %T", p)
		}
	}()
	return fn(tx)
}

// abandon rolls the transaction back. SQLite may have done so already, when the
// disk was full; that is no further error.
func (tx *Tx) abandon(cause error) error {
	tx.lost, tx.ahead, tx.failed = nil, nil, nil
	_, _ = tx.count("ROLLBACK")
	return cause
}

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
		if err := tx.mustAll(rows, missing, set+" FROM (VALUES "+row+strings.Repeat(", "+row, rows-1)+") AS g WHERE "+where, slices.Concat(fixed, part)...); err != nil {
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
	switch troubleOf(tx.l.sound.heed(err)) {
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
	return errors.Is(err, ErrClosed) || errors.Is(err, ErrConnectionLost) || errors.Is(err, ErrServer) || errors.As(err, &damaged)
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
