package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"payersync/connector"
)

// A ledger is carried to another place, from a file to a server or back, in steps:
//
//	one transaction there ─▶ one here ─▶ one there
//	all rows, compared       it left     it has arrived
//
// The arriving ledger does not open until the departed one is certainly closed. After a crash, the
// same call continues, so two ledgers never work at once. From the first step to the end of the
// second nobody else can write here.

// The states of a ledger in a move.
const (
	carriedNowhere  = ""
	carriedArriving = "arriving" // the copy here works once the original is certainly closed
	carriedLeft     = "left"     // it works in another place
)

// transferRecord is the ledger's record of its move.
type transferRecord struct {
	commits  int64
	identity string // which ledger it is
	state    string
	at       sql.NullString
	place    string // the other one
}

const transferColumns = "commits, identity, carried, carried_at, carried_place"

func (p *transferRecord) columns() []any {
	return []any{&p.commits, &p.identity, &p.state, &p.at, &p.place}
}

func readTransfer(ctx context.Context, db executor) (p transferRecord, err error) {
	if err := db.QueryRowContext(ctx, "SELECT "+transferColumns+" FROM ledger").Scan(p.columns()...); err != nil {
		return p, fmt.Errorf("read whether the ledger works here: %w", err)
	}
	return p, nil
}

// refuse says why a ledger does not work here; nil when it does.
func (l *Ledger) refuse(p transferRecord) error {
	if l.carrying {
		return nil
	}
	return l.notHere(p)
}

func (l *Ledger) notHere(p transferRecord) error {
	since, err := parseTime(p.at)
	at := since.Format("2006-01-02 15:04 UTC")
	switch {
	case p.state == carriedLeft:
		return errors.Join(err, &OpenError{
			Path: l.path, Why: fmt.Sprintf("it was carried to %s on %s, and works there", p.place, at),
			Next:  "Name that place in the configuration. To bring it back from there, copy it into a new place.",
			steps: []connector.Step{{Do: connector.DoCopyLedger}},
		})
	case p.state == carriedArriving:
		return errors.Join(err, &OpenError{
			Path: l.path, Why: fmt.Sprintf("it came from %s on %s, where it may still be at work", p.place, at),
			Next: "Copy it again in the same way, which goes on with it.", steps: []connector.Step{{Do: connector.DoCopyLedger}},
		})
	}
	return nil
}

// Transfer names the ledger to move, and its new place.
type Transfer struct {
	From, To Options             // both with the same key file; what is To must be new
	By       Entry               // whose act it is, for the audit logs of both, and why
	Watch    func(CheckProgress) // learns how far it is, of each table and each check; nil for nobody
	Stage    func(string) error  // is told of every step that is done; nil for nobody
}

// Transferred is the result of a move.
type Transferred struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Tables  int    `json:"tables"`  // that hold rows
	Rows    int    `json:"rows"`    // in all of them
	Resumed bool   `json:"resumed"` // all rows were there already: what was left was done
}

// Why a ledger is not carried.
var (
	ErrNothing = errors.New("there is no ledger: nothing was ever written to it")
	ErrNotNew  = errors.New("something is there already")
	ErrGoneOn  = errors.New("the ledger went on after it had been copied there")
	ErrDiffers = errors.New("what arrived is not what left, so nothing of it was kept")
)

// Run moves the ledger From to the place To with every value unchanged. The old ledger then only names the
// new place, and no longer opens. No process may use it: Carry fails with ErrServed or ErrRunning, and with
// ErrNotNew if something is at To. Before the first row counts, it reads all rows back, compares them, and
// verifies everything like [Ledger.Verify]. After any interruption the same call continues; if the ledger has
// been written to since, it fails with ErrGoneOn.
func (c Transfer) Run(ctx context.Context) (out Transferred, err error) {
	if c.Watch == nil {
		c.Watch = func(CheckProgress) {}
	}
	if c.Stage == nil {
		c.Stage = func(string) error { return nil }
	}
	c.From.carrying, c.To.carrying = true, true
	from, err := Open(ctx, c.From)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	free, err := from.lockSenders(ctx)
	defer free()
	if err != nil {
		return out, err
	}
	to, err := openNew(ctx, c.To)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	freeThere, err := to.lockSenders(ctx)
	defer freeThere()
	if err != nil {
		return out, err
	}
	out.From, out.To = from.below.where(), to.below.where()
	return out, c.steps(ctx, from, to, &out)
}

// steps takes those that are left.
func (c Transfer) steps(ctx context.Context, from, to *Ledger, out *Transferred) error {
	here, err := readTransfer(ctx, from.reader)
	there, errThere := readTransfer(ctx, to.reader)
	if err := errors.Join(err, errThere, c.Stage("begun")); err != nil {
		return err
	}
	out.Resumed = there.state == carriedArriving && there.identity == here.identity
	switch {
	case here.commits == 0:
		return fmt.Errorf("carry the ledger from %s: %w", out.From, ErrNothing)
	case here.state == carriedNowhere:
		if err := c.closeOld(ctx, from, to, there, out); err != nil {
			return err
		}
	case here.state == carriedArriving, !out.Resumed:
		return from.notHere(here)
	}
	if err := c.Stage("left"); err != nil {
		return err
	}
	if err := to.doWholly(ctx, func(tx *Tx) error {
		return tx.exec("UPDATE ledger SET carried = '', carried_at = NULL, carried_place = ''")
	}); err != nil {
		return fmt.Errorf("let the ledger work in its new place: %w", err)
	}
	return c.Stage("done")
}

// leave copies the ledger, unless that is done, and stores in the old one that it has moved. Both are one
// write here, so no other write comes in between.
func (c Transfer) closeOld(ctx context.Context, from, to *Ledger, there transferRecord, out *Transferred) error {
	err := from.doWholly(ctx, func(tx *Tx) error {
		if err := from.below.patient(ctx, from.conn); err != nil {
			return err
		}
		s, err := from.Snapshot(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		if err := from.below.patient(ctx, s.tx); err != nil {
			return err
		}
		here, err := readTransfer(ctx, s.tx)
		switch {
		case err != nil:
			return err
		case out.Resumed && here.commits != there.commits:
			return ErrGoneOn
		case !out.Resumed:
			if err := c.copyRows(ctx, s, to, out); err != nil {
				return err
			}
		}
		if err := c.Stage("arrived"); err != nil {
			return err
		}
		return tx.recordTransfer(carriedLeft, out.To,
			Entry{Actor: c.By.Actor, Action: "ledger carried away", Subject: out.To, Reason: c.By.Reason})
	})
	if err != nil {
		return fmt.Errorf("carry the ledger to %s: %w", out.To, err)
	}
	return nil
}

func (tx *Tx) recordTransfer(state, place string, act Entry) error {
	if err := tx.exec("UPDATE ledger SET carried = ?, carried_at = ?, carried_place = ?", state, stamp(tx.now),
		place); err != nil {
		return err
	}
	return tx.Audit(act)
}

// bring copies every row of a ledger to another in one write, kept only if all rows read back
// equal.
func (c Transfer) copyRows(ctx context.Context, s *Snapshot, to *Ledger, out *Transferred) error {
	tables, err := tablesOf(ctx, s.tx, s.below)
	if err != nil {
		return err
	}
	known, err := tablesOf(ctx, to.reader, to.below)
	if err != nil {
		return err
	}
	if err := sameTables(tables, known); err != nil {
		return err
	}
	return to.doWholly(ctx, func(tx *Tx) error {
		if err := to.below.patient(ctx, to.conn); err != nil {
			return err
		}
		if err := tx.clear(tables); err != nil {
			return err
		}
		left := make([]sum, len(tables))
		for i, t := range tables {
			if left[i], err = c.copyTable(ctx, s.tx, tx, t); err != nil {
				return fmt.Errorf("table %s: %w", t.name, err)
			}
			if out.Rows += left[i].rows; left[i].rows > 0 {
				out.Tables++
			}
		}
		if err := errors.Join(to.below.raise(tx), tx.flush(), c.Stage("brought")); err != nil {
			return err
		}
		for i, t := range tables {
			arrived, err := t.read(ctx, to.conn, func([]any) error { return nil })
			if err != nil {
				return fmt.Errorf("table %s: %w", t.name, err)
			}
			if arrived != left[i] {
				return fmt.Errorf("%w: of table %s, %d rows left and %d arrived, or a value of them is another", ErrDiffers, t.name,
					left[i].rows, arrived.rows)
			}
		}
		damages, err := verify(ctx, to.conn, to.below, to.seal, c.Watch)
		if err != nil {
			return err
		}
		if len(damages) > 0 {
			return fmt.Errorf("the ledger is damaged, so nothing of it was kept: %w", damages[0])
		}
		arrived, err := readTransfer(ctx, to.conn)
		if err != nil {
			return err
		}
		to.identity = arrived.identity // which the mark of its file is about from now on
		tx.leads = true
		return tx.recordTransfer(carriedArriving, out.From,
			Entry{Actor: c.By.Actor, Action: "ledger carried here", Subject: out.From, Reason: c.By.Reason})
	})
}

// clear fails with ErrNotNew unless the ledger holds nothing, and empties the tables of one row.
func (tx *Tx) clear(tables []table) error {
	var writes int64 // this one among them
	if err := tx.row([]any{&writes}, "SELECT commits FROM ledger"); err != nil {
		return err
	}
	if writes > 1 {
		return ErrNotNew
	}
	for _, t := range tables {
		if t.ofOneRow() {
			if err := tx.exec("DELETE FROM " + t.name); err != nil {
				return err
			}
			continue
		}
		var filled bool
		if err := tx.row([]any{&filled}, "SELECT EXISTS (SELECT 1 FROM "+t.name+")"); err != nil {
			return err
		}
		if filled {
			return ErrNotNew
		}
	}
	return nil
}

// pour writes the rows of a table that from reads.
func (c Transfer) copyTable(ctx context.Context, from books, tx *Tx, t table) (sum, error) {
	const most, values = 100, 30_000 // of one statement; SQLite takes 32,766 values
	var total, done int
	if err := from.QueryRowContext(ctx, "SELECT count(*) FROM "+t.name).Scan(&total); err != nil {
		return sum{}, err
	}
	some := min(most, values/len(t.columns))
	var held []any
	flush := func() error {
		rows := len(held) / len(t.columns)
		if rows == 0 {
			return nil
		}
		err := tx.exec(t.insert(rows), held...)
		done, held = done+rows, held[:0]
		c.Watch(CheckProgress{t.name, done, total})
		return err
	}
	read, err := t.read(ctx, from, func(row []any) error {
		if held = append(held, row...); len(held) < some*len(t.columns) {
			return nil
		}
		return flush()
	})
	if err != nil {
		return sum{}, err
	}
	return read, flush()
}

// doWholly is Do for an unshared write that, on failure, keeps not even the commit count.
func (l *Ledger) doWholly(ctx context.Context, fn func(*Tx) error) error {
	return l.Do(ctx, func(tx *Tx) error {
		if err := fn(tx); tx.lost == nil {
			tx.lost = err
		}
		return tx.lost
	})
}

// lockSenders locks out serve, runs, and all senders from the ledger until free is called.
func (l *Ledger) lockSenders(ctx context.Context) (free func(), err error) {
	locks, err := l.holdAll(ctx)
	free = func() {
		for _, k := range locks {
			_ = k.Release()
		}
	}
	for _, ending := range []string{requestsEnding, MessageAlarm.lock(), MessageLetter.lock(), rotationLock,
		MessageWriteback.lock()} {
		if err != nil {
			return free, err
		}
		k, tryErr := l.below.tryLock(ctx, ending)
		if tryErr != nil || k == nil {
			return free, errors.Join(tryErr, ErrServed)
		}
		locks = append(locks, k)
	}
	var runs bool
	if err == nil {
		err = l.queryRow(ctx, "SELECT EXISTS (SELECT 1 FROM runs WHERE finished_at IS NULL)").Scan(&runs)
	}
	if err == nil && runs {
		err = ErrRunning
	}
	return free, err
}

// openNew opens the place that a ledger is carried to. A new file must not find the files beside an
// earlier one, because it would take them for its own.
func openNew(ctx context.Context, opts Options) (*Ledger, error) {
	if opts.Server == nil {
		if _, err := os.Lstat(opts.Path); errors.Is(err, os.ErrNotExist) {
			for _, ending := range []string{"-wal", "-shm", "-journal", generationEnding, lookedEnding, tombstonesEnding,
				restoredEnding} {
				if _, err := os.Lstat(opts.Path + ending); err == nil {
					return nil, fmt.Errorf("%w: %s of an earlier ledger", ErrNotNew, opts.Path+ending)
				}
			}
		}
	}
	return Open(ctx, opts)
}
