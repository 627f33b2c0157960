package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxBatch is how many writes share one transaction at most.
const maxBatch = 256

// ErrClosed is returned for a write or a read that came after Close.
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
	return l.enqueue(ctx, &write{fn: fn})
}

// DoAlone is Do for a write that may change very many rows: it shares its transaction with no
// other. In a shared transaction, the old content of its changes would stay in memory until the
// commit. Alone it needs only the memory of its largest statement.
func (l *Ledger) DoAlone(ctx context.Context, fn func(*Tx) error) error {
	return l.enqueue(ctx, &write{fn: fn, alone: true})
}

// enqueue passes a write to the writer and waits for its result.
func (l *Ledger) enqueue(ctx context.Context, w *write) error {
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
	if err := l.WaitForIntegrity(ctx); err != nil {
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
	rest := time.NewTimer(l.idleAfter)
	defer rest.Stop()
	for {
		select {
		case w := <-l.queue:
			l.commitAll(w)
			rest.Reset(l.idleAfter)
		case <-rest.C:
			l.below.freeCache(l.conn)
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
	defer l.below.endBatch(l) // which may take its time: nobody waits for it
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
		err = l.below.findOutcome(context.Background(), tx, err)
	}
	if err != nil {
		return tx.abandon(fmt.Errorf("commit to the ledger: %w", err))
	}
	if err := l.asked(true); err != nil {
		return err
	}
	return errors.Join(l.advanceGeneration(context.Background(), tx.commits, tx.leads), l.inPlace())
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
		tx.lost = tx.rollbackToSavepoint()
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
		err = tx.decideTouched()
	}
	if err == nil {
		err = tx.failed // which fn was not told of
	}
	if err == nil && tx.lost == nil {
		err = tx.flush() // before its savepoint ends: one of them may find nothing to change
	}
	return err
}

// rollbackToSavepoint goes back to the savepoint.
func (tx *Tx) rollbackToSavepoint() error {
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
