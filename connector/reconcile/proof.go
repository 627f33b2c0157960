package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
	"payersync/state"
)

// This file defines the proof of a key's absence from the billing service. Creates, replays and sweeps all use it.
//
// A complete list proves it if
//
//   - it shows every customer known before, except customers reported as nonexistent by a read: a list can be empty, short
//     or old and still come with status 200;
//   - it shows externalData, or every customer without it was read individually: a list may omit it, for all or for some,
//     or be an old one;
//   - the next complete list shows the same customers, so none moved from one page to another during the read.
//
// Customers missing from a list are read one by one. If more of ours than Lookup.MaxMissing are missing, none is read:
// this is reported, and the list proves nothing.

const (
	maxPasses   = 6 // list passes of Believe before it gives up
	maxFailures = 5 // failed reads in a row before the service counts as down
	enough      = 3 // the number of existing customers unlisted, or listed without their data, that disproves a list
)

// ErrListChanges means the list of customers changed with every pass, so it proves no key's absence.
var ErrListChanges = errors.New("the billing service's list of customers kept changing; nothing is created before two readings of it agree")

// QuarantineError means the ledger does not know the last requests, because it was restored or its clock had been
// ahead. A request from that time may still arrive, so nothing is created before the latest possible arrival (fault
// F64).
type QuarantineError struct {
	Until time.Time
	Clock bool // the clock is the reason
}

// Error says why and until when creates wait.
func (e *QuarantineError) Error() string {
	why := "the ledger was restored from a backup"
	if e.Clock {
		why = "this computer's clock had been ahead, so it is not known how old the last requests are"
	}
	return why + "; nothing is created before " + e.Until.Format(time.RFC3339)
}

// ShortListError means a complete list lacks customers known before, so it proves nothing.
type ShortListError struct {
	Listed  int  // listed customers
	Lacking int  // the missing customers: linked ones when Limit is passed, otherwise existing ones
	Linked  int  // linked customers
	Limit   int  // how many of them may be missing; 0 if another limit was passed
	Exist   bool // some missing ones were read individually, so the list is wrong and the customers exist
}

// Standstill reports whether a person has to look: it lacks more than the guards
// allow.
func (e *ShortListError) Standstill() bool { return e.Limit > 0 }

// Error names the missing customers and the next step.
func (e *ShortListError) Error() string {
	const nothing = "nothing is created and nobody is taken for deleted"
	switch {
	case !e.Standstill():
		return fmt.Sprintf("the billing service lists %s and lacks at least %d that exist; %s until its list is whole again",
			connector.Plural(e.Listed, "customer"), e.Lacking, nothing)
	case e.Exist:
		return fmt.Sprintf("the billing service lists %s and lacks %d of the %d that are linked here, some of which still exist; %s until its list is whole again: "+
			"see whether its credentials may list all customers, or ask the billing service",
			connector.Plural(e.Listed, "customer"), e.Lacking, e.Linked, nothing)
	}
	return fmt.Sprintf("the billing service lists %s and lacks %d of the %d that are linked here, more than the limit of %d; %s: "+
		"see what its credentials may read, or raise guards.max_missing if they were really deleted",
		connector.Plural(e.Listed, "customer"), e.Lacking, e.Linked, e.Limit, nothing)
}

// Believe makes list passes until the index is trusted. This needs two consecutive proving passes with the same
// customers, both started after a ticket and within Lookup.MaxAge. It makes none if the index is already trusted, and
// reports whether it made any.
func (r *Reconciler) Believe(ctx context.Context, after int64) (listed bool, err error) {
	var short *ShortListError
	began := r.Ledger.Now()
	for made := 0; ; made++ {
		x, err := r.Ledger.Index(ctx, r.Lookup.Quarantine)
		if err != nil {
			return false, err
		}
		now := r.Ledger.Now()
		if until := x.Doubted().Add(r.Lookup.Quarantine); !x.Doubted().IsZero() && now.Before(until) {
			return false, &QuarantineError{Until: until, Clock: x.ClockBack.After(x.Restored)}
		}
		// A list made just now is not too old, regardless of the duration of its reads.
		if !x.Believed.IsZero() && x.Since > after && (now.Sub(x.Believed) <= r.Lookup.MaxAge || !x.Believed.Before(began)) {
			return made > 0, nil
		}
		if made == maxPasses {
			return false, ErrListChanges
		}
		again := short != nil
		switch err := r.Prove(ctx, began); {
		case errors.As(err, &short) && (again || short.Standstill()): // a customer made a moment ago may be listed a moment later
			return false, short
		case err != nil && !errors.As(err, &short):
			return false, err
		}
	}
}

// Prove makes one list pass and examines it. It returns nil if the pass is proof, and *ShortListError if it lacks
// existing customers, or too many. Customers listed incompletely must have been read individually after since.
func (r *Reconciler) Prove(ctx context.Context, since time.Time) error {
	pass, err := r.Pass(ctx)
	if err != nil {
		return err
	}
	found, err := r.examine(ctx, pass, since)
	if err != nil {
		return err
	}
	if found.exist > 0 {
		return &ShortListError{Listed: pass.Customers, Lacking: found.exist, Exist: true}
	}
	if err := r.readUnshown(ctx, pass, found); err != nil {
		return err
	}
	return r.judge(ctx, pass, 0, 0)
}

// found is the result of a closer check of a pass.
type found struct {
	missing int      // deleted linked customers
	exist   int      // existing customers missing from the list; counted up to enough
	unread  []string // customers listed without externalData and not read since
}

// examine reads the customers missing from a complete pass. It also reads those of ours, or with a key, listed without
// externalData and not read individually after since. It notes the remaining doubts.
func (r *Reconciler) examine(ctx context.Context, pass PassResult, since time.Time) (found, error) {
	var f found
	if err := r.lookForLacking(ctx, pass, &f); err != nil {
		return f, err
	}
	if err := r.lookAtUnshown(ctx, pass, since, &f); err != nil {
		return f, err
	}
	return f, r.judge(ctx, pass, f.exist, len(f.unread))
}

// lookForLacking reads the customers missing from the list one by one. If too many of ours are missing, a wrong token
// or a faulty list is more likely, and it reads none.
func (r *Reconciler) lookForLacking(ctx context.Context, pass PassResult, f *found) error {
	lacking, err := r.Ledger.Lacking(ctx, pass.list)
	if err != nil || len(lacking) == 0 {
		return err
	}
	ours := 0
	for ours < len(lacking) && lacking[ours].Ours {
		ours++
	}
	if err := r.tooMany(ctx, pass, lacking[:ours]); err != nil {
		return err
	}
	look := r.looker(pass, len(lacking))
	for i, c := range lacking {
		if i >= ours && f.exist >= enough { // the list is disproved; ours are still searched
			break
		}
		switch read, _, err := look.at(ctx, c.BillingID); {
		case err != nil:
			return err
		case read == gone:
			f.missing += count(c.Ours)
		case read != unknown:
			f.exist++
		}
	}
	return look.failed()
}

// tooMany returns a *ShortListError when the list lacks more of ours than
// Lookup.MaxMissing allows, and has looked whether some of them exist.
func (r *Reconciler) tooMany(ctx context.Context, pass PassResult, ours []state.Lacking) error {
	if r.Lookup.MaxMissing == nil {
		return nil
	}
	linked, err := r.Ledger.LinkedCustomers(ctx)
	if err != nil {
		return err
	}
	limit := r.Lookup.MaxMissing(linked)
	if len(ours) <= limit {
		return nil
	}
	short := &ShortListError{Listed: pass.Customers, Lacking: len(ours), Linked: linked, Limit: limit}
	for _, c := range ours[:min(enough, len(ours))] {
		_, err := r.Billing.Customer(ctx, c.BillingID)
		short.Exist = short.Exist || err == nil
	}
	return short
}

// lookAtUnshown reads our customers listed without externalData, or without pairs shown before. A list without any
// externalData may omit it for all. In this case, one customer with pairs in its own read is enough evidence.
func (r *Reconciler) lookAtUnshown(ctx context.Context, pass PassResult, since time.Time, f *found) error {
	bare, err := r.Ledger.Unshown(ctx, pass.list, since)
	if err != nil {
		return err
	}
	leavesOut, shown := !pass.pairs, 0
	doubtful := 0
	for _, c := range bare {
		doubtful += count(c.Doubtful)
	}
	look := r.looker(pass, doubtful)
	for _, c := range bare {
		if !c.Doubtful {
			continue
		}
		_, pairs, err := look.at(ctx, c.BillingID)
		if err != nil {
			return err
		}
		if !c.Hidden(pairs) {
			continue
		}
		leavesOut = true
		if shown++; !pass.pairs || shown == enough {
			break
		}
	}
	if leavesOut {
		for _, c := range bare {
			if c.Unread {
				f.unread = append(f.unread, c.BillingID)
			}
		}
	}
	return look.failed()
}

// readUnshown reads each customer with externalData possibly omitted from the list.
func (r *Reconciler) readUnshown(ctx context.Context, pass PassResult, f found) error {
	look := r.looker(pass, len(f.unread))
	for _, id := range f.unread {
		if _, _, err := look.at(ctx, id); err != nil {
			return err
		}
	}
	return look.failed()
}

// judge stores the pass's open doubts.
func (r *Reconciler) judge(ctx context.Context, pass PassResult, lacking, unread int) error {
	return r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.JudgePass(pass.list.Pass, lacking, unread) })
}

// looker reads customers one after the other. An unreadable customer does not stop the others; a few in a row mean the
// service is down.
type looker struct {
	*Reconciler
	cause    string
	failures []error
	inARow   int

	done, total int // reads, for the progress

	repaired, drifted int
}

// looker returns a looker for so many customers at most; 0 for an unknown number.
func (r *Reconciler) looker(pass PassResult, total int) *looker {
	return &looker{Reconciler: r, cause: fmt.Sprint(pass.list.Pass), total: total}
}

type progressKey struct{}

// WithProgress returns a context whose reads of single customers report their progress.
func WithProgress(ctx context.Context, report func(done, total int)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// progress reports another read of a single customer.
func (l *looker) progress(ctx context.Context) {
	l.done++
	if report, ok := ctx.Value(progressKey{}).(func(done, total int)); ok {
		report(l.done, l.total)
	}
}

// reading is the result of a read of one customer.
type reading int

const (
	unknown reading = iota // it could not be read
	gone                   // it does not exist
	exists                 // it exists, or is too new to be readable
)

// at reads one customer and observes it. It returns the customer's externalData
// too.
func (l *looker) at(ctx context.Context, id string) (reading, map[string]string, error) {
	c, seen, err := l.read(ctx, id, connector.CauseSweep, l.cause)
	l.progress(ctx)
	switch {
	case errors.Is(err, ErrNotYet):
		return exists, nil, nil
	case err != nil:
		l.failures = append(l.failures, err)
		if l.inARow++; l.inARow >= maxFailures || ctx.Err() != nil {
			return unknown, nil, l.failed()
		}
		return unknown, nil, nil
	}
	l.inARow = 0
	l.repaired += count(seen.Moved)
	l.drifted += count(seen.Drifted)
	if c == nil {
		return gone, nil, nil
	}
	return exists, c.ExternalData, nil
}

// failed returns the customers that could not be read.
func (l *looker) failed() error { return errors.Join(l.failures...) }
