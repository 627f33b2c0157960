package state

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// intake gathers deliveries while the writer is busy. They become one write, so many of them need few
// statements.
type intake struct {
	mu   sync.Mutex
	open *arrivals // which the next one joins; nil for none
}

// arrivals are deliveries that one write stores.
type arrivals struct {
	of    []*arrival
	begun bool          // by the writer: nobody joins or leaves
	done  chan struct{} // closed when it is known what became of each
}

// arrival is one delivery with its result.
type arrival struct {
	Delivery
	box    []byte // its body as it is stored
	taken  Taken
	failed error
}

// Taken is the result of a delivery in the ledger.
type Taken struct {
	Fresh bool // there was none with its key
	Again bool // there was, and it waits anew
}

// TakeIn stores a delivery, or notes a repeat as RepeatDelivery does, and returns when that is
// durable. When ctx ends it is not stored, unless the writer has begun: then it is waited for.
func (l *Ledger) TakeIn(ctx context.Context, d Delivery) (Taken, error) {
	if l.seal.away != nil {
		return Taken{}, l.seal.away
	}
	a := l.newArrival(d)
	with := l.join(ctx, a)
	select {
	case <-with.done:
	case <-ctx.Done():
		if l.intake.leave(with, a) {
			return Taken{}, context.Cause(ctx)
		}
		<-with.done
	}
	return a.taken, a.failed
}

func (l *Ledger) newArrival(d Delivery) *arrival {
	return &arrival{Delivery: d, box: l.seal.box(d.Body, place("inbox", "body", d.Key))}
}

// join adds a delivery to those that the writer has not begun with.
func (l *Ledger) join(ctx context.Context, a *arrival) *arrivals {
	l.intake.mu.Lock()
	defer l.intake.mu.Unlock()
	with := l.intake.open
	if with == nil {
		with = &arrivals{done: make(chan struct{})}
		l.intake.open = with
		go l.takeIn(context.WithoutCancel(ctx), with)
	}
	with.of = append(with.of, a)
	if len(with.of) == maxBatch {
		l.intake.open = nil
	}
	return with
}

// leave reports whether a delivery could still be taken back.
func (i *intake) leave(from *arrivals, a *arrival) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if from.begun {
		return false
	}
	from.of = slices.DeleteFunc(from.of, func(o *arrival) bool { return o == a })
	return true
}

// begin returns deliveries that can no longer be withdrawn or joined.
func (i *intake) begin(with *arrivals) []*arrival {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.open == with {
		i.open = nil
	}
	with.begun = true
	return with.of
}

// gather waits for more callers as long as some arrive after all runnable goroutines have run: the
// last answered caller sends the next.
func (i *intake) gather(all *arrivals) {
	for before := -1; before != i.size(all); {
		before = i.size(all)
		runtime.Gosched()
	}
}

func (i *intake) size(all *arrivals) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(all.of)
}

// takeIn stores deliveries that came together. If one of them cannot be, each is stored by itself.
func (l *Ledger) takeIn(ctx context.Context, all *arrivals) {
	defer close(all.done)
	l.intake.gather(all)
	var ofOne error
	err := l.Do(ctx, func(tx *Tx) error {
		ofOne = tx.receive(l.intake.begin(all))
		return ofOne
	})
	of := l.intake.begin(all) // also where the ledger took no write
	if ofOne == nil || Unwritable(ofOne) || len(of) == 1 {
		for _, a := range of {
			a.failed = err
		}
		return
	}
	var each sync.WaitGroup
	for _, a := range of {
		each.Go(func() { a.failed = l.Do(ctx, func(tx *Tx) error { return tx.receive([]*arrival{a}) }) })
	}
	each.Wait()
}

// Receive stores a delivery before it is acknowledged and reports false when a
// delivery with the same key is there already: the insert decides (fault F31).
// The caller goes on with RepeatDelivery then.
func (tx *Tx) Receive(d Delivery) (fresh bool, err error) {
	a := tx.l.newArrival(d)
	last, err := tx.lastDelivery()
	if err == nil {
		err = tx.insertArrivals([]*arrival{a}, last)
	}
	return a.taken.Fresh, err
}

// receive stores deliveries, and notes repeats.
func (tx *Tx) receive(all []*arrival) error {
	const some = 16 // statements are kept by their texts: some lengths and no more
	last, err := tx.lastDelivery()
	if err != nil {
		return err
	}
	for part := range slices.Chunk(all, some) {
		if err := tx.insertArrivals(part, last); err != nil {
			return err
		}
		last += len(part)
		for _, a := range part {
			if a.taken.Fresh {
				continue
			}
			var err error
			if a.taken.Again, err = tx.RepeatDelivery(a.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// The row that a delivery becomes. It keeps no body of a delivery about a forgotten payer.
var (
	insertInbox = "INSERT INTO inbox (inbox_id, delivery_key, received_at, event_type, billing_id, mandate_id, state, detail, type_header, body) VALUES "
	inboxRow    = "(?, ?, ?, ?, ?, ?, ?, ?, ?, CASE WHEN " + fmt.Sprintf(ofForgotten, "?") +
		" OR ? = '' AND " + fmt.Sprintf(ofForgotten, "(SELECT billing_id FROM mandates WHERE mandate_id = ?)") + " THEN x'' ELSE ? END)"
)

// lastDelivery returns the highest id of a delivery; 0 where there is none.
func (tx *Tx) lastDelivery() (last int, err error) {
	if err := tx.row([]any{&last}, "SELECT coalesce(max(inbox_id), 0) FROM inbox"); err != nil {
		return 0, fmt.Errorf("look which webhook delivery is the last: %w", err)
	}
	return last, nil
}

// insertArrivals stores the deliveries with new keys, with ids that follow last, and marks them.
func (tx *Tx) insertArrivals(all []*arrival, last int) error {
	args, received := make([]any, 0, 13*len(all)), stamp(tx.now)
	for i, a := range all {
		args = append(args, last+1+i, a.Key, received, a.Type, a.BillingID, a.MandateID, a.State, a.Detail, a.TypeHeader, a.BillingID, a.BillingID, a.MandateID, a.box)
	}
	n, err := tx.count(insertInbox+inboxRow+strings.Repeat(", "+inboxRow, len(all)-1)+" ON CONFLICT (delivery_key) DO NOTHING", args...)
	if err != nil {
		return fmt.Errorf("store webhook deliveries: %w", err)
	}
	for _, a := range all {
		a.taken = Taken{Fresh: n == int64(len(all))}
	}
	if n == 0 || n == int64(len(all)) {
		return nil
	}
	if err := tx.each("SELECT inbox_id FROM inbox WHERE inbox_id > ?", []any{last}, func(scan func(...any) error) error {
		var id int
		err := scan(&id)
		if err == nil {
			all[id-last-1].taken.Fresh = true
		}
		return err
	}); err != nil {
		return fmt.Errorf("look which webhook deliveries are new: %w", err)
	}
	return nil
}
