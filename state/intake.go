package state

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"payersync/connector"
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

// StoreDelivery stores a delivery, or notes a repeat as RepeatDelivery does, and returns when that is
// durable. When ctx ends it is not stored, unless the writer has begun: then it is waited for.
func (l *Ledger) StoreDelivery(ctx context.Context, d Delivery) (Taken, error) {
	if l.seal.away != nil {
		return Taken{}, l.seal.away
	}
	a := l.newArrival(d)
	with := l.joinArrivals(ctx, a)
	select {
	case <-with.done:
	case <-ctx.Done():
		if l.intake.withdraw(with, a) {
			return Taken{}, context.Cause(ctx)
		}
		<-with.done
	}
	return a.taken, a.failed
}

func (l *Ledger) newArrival(d Delivery) *arrival {
	return &arrival{Delivery: d, box: l.seal.box(d.Body, place("inbox", "body", d.Key))}
}

// joinArrivals adds a delivery to those that the writer has not begun with.
func (l *Ledger) joinArrivals(ctx context.Context, a *arrival) *arrivals {
	l.intake.mu.Lock()
	defer l.intake.mu.Unlock()
	with := l.intake.open
	if with == nil {
		with = &arrivals{done: make(chan struct{})}
		l.intake.open = with
		go l.storeArrivals(context.WithoutCancel(ctx), with)
	}
	with.of = append(with.of, a)
	if len(with.of) == maxBatch {
		l.intake.open = nil
	}
	return with
}

// withdraw reports whether a delivery could still be taken back.
func (i *intake) withdraw(from *arrivals, a *arrival) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if from.begun {
		return false
	}
	from.of = slices.DeleteFunc(from.of, func(o *arrival) bool { return o == a })
	return true
}

// start returns deliveries that can no longer be withdrawn or joined.
func (i *intake) start(with *arrivals) []*arrival {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.open == with {
		i.open = nil
	}
	with.begun = true
	return with.of
}

// wait waits for more callers as long as some arrive after all runnable goroutines have run: the
// last answered caller sends the next.
func (i *intake) wait(all *arrivals) {
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

// storeArrivals stores deliveries that came together. If one of them cannot be, each is stored by itself.
func (l *Ledger) storeArrivals(ctx context.Context, all *arrivals) {
	defer close(all.done)
	l.intake.wait(all)
	var ofOne error
	err := l.Do(ctx, func(tx *Tx) error {
		ofOne = tx.receive(l.intake.start(all))
		return ofOne
	})
	of := l.intake.start(all) // also where the ledger took no write
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
	err = tx.insertArrivals([]*arrival{a})
	return a.taken.Fresh, err
}

// receive stores deliveries, and notes repeats.
func (tx *Tx) receive(all []*arrival) error {
	if err := tx.insertArrivals(all); err != nil {
		return err
	}
	var repeats []*arrival
	for _, a := range all {
		if !a.taken.Fresh {
			repeats = append(repeats, a)
		}
	}
	return tx.repeat(repeats)
}

// The row that a delivery becomes.
const (
	insertInbox = "INSERT INTO inbox (inbox_id, delivery_key, received_at, event_type, billing_id, mandate_id, state, detail, type_header, body) VALUES "
	inboxRow    = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

// lastDelivery returns the highest id of a delivery; 0 where there is none.
func (tx *Tx) lastDelivery() (last int, err error) {
	if err := tx.row([]any{&last}, "SELECT coalesce(max(inbox_id), 0) FROM inbox"); err != nil {
		return 0, fmt.Errorf("look which webhook delivery is the last: %w", err)
	}
	return last, nil
}

// insertArrivals stores the deliveries with new keys, marks them, and counts them together.
func (tx *Tx) insertArrivals(all []*arrival) error {
	last, err := tx.lastDelivery()
	if err == nil {
		err = tx.blankForgotten(all)
	}
	if err != nil {
		return err
	}
	next := last + 1
	for rest := all; len(rest) > 0; {
		part := rest[:rowsAtOnce(len(rest))]
		if err := tx.insertSome(part, next); err != nil {
			return err
		}
		rest, next = rest[len(part):], next+len(part)
	}
	if !slices.ContainsFunc(all, func(a *arrival) bool { return a.taken.Fresh }) {
		return nil
	}
	return tx.tally(1, "inbox_id > ?", last)
}

// rowsAtOnce returns how many of n rows the next statement inserts: a power of two, because each
// length is a statement of its own that stays prepared.
func rowsAtOnce(n int) int {
	rows := 64
	for rows > n {
		rows /= 2
	}
	return rows
}

// insertSome stores those of some deliveries that have new keys, with ids from next, and marks them.
func (tx *Tx) insertSome(some []*arrival, next int) error {
	args, received := make([]any, 0, 10*len(some)), stamp(tx.now)
	for i, a := range some {
		args = append(args, next+i, a.Key, received, a.Type, a.BillingID, a.MandateID, string(a.State), a.Detail,
			a.TypeHeader, a.box)
	}
	n, err := tx.count(insertInbox+inboxRow+strings.Repeat(", "+inboxRow,
		len(some)-1)+" ON CONFLICT (delivery_key) DO NOTHING", args...)
	if err != nil {
		return fmt.Errorf("store webhook deliveries: %w", err)
	}
	for _, a := range some {
		a.taken = Taken{Fresh: n == int64(len(some))}
	}
	if n == 0 || n == int64(len(some)) {
		return nil
	}
	if err := tx.each("SELECT inbox_id FROM inbox WHERE inbox_id >= ?", []any{next}, func(scan func(...any) error) error {
		var id int
		err := scan(&id)
		if err == nil {
			some[id-next].taken.Fresh = true
		}
		return err
	}); err != nil {
		return fmt.Errorf("look which webhook deliveries are new: %w", err)
	}
	return nil
}

// blankForgotten removes the bodies of deliveries about forgotten payers: the ledger keeps none of
// them. It asks once for all deliveries, and only where a payer was forgotten.
func (tx *Tx) blankForgotten(all []*arrival) error {
	var some bool
	if err := tx.row([]any{&some}, "SELECT EXISTS (SELECT 1 FROM source_records WHERE forgotten <> '')"); err != nil ||
		!some {
		return connector.Wrap(err, "look whether a payer was forgotten")
	}
	type subject struct{ Customer, Mandate string }
	about := make([]subject, len(all))
	for i, a := range all {
		about[i] = subject{a.BillingID, a.MandateID}
	}
	asked, err := json.Marshal(about)
	if err != nil {
		return fmt.Errorf("list the customers of webhook deliveries: %w", err)
	}
	return connector.Wrap(tx.each("SELECT CAST(j.key AS BIGINT) FROM json_each(?) j WHERE "+fmt.Sprintf(ofForgotten,
		"j.value ->> 'Customer'")+
		" OR j.value ->> 'Customer' = '' AND "+fmt.Sprintf(ofForgotten,
		"(SELECT m.billing_id FROM mandates m WHERE m.mandate_id = j.value ->> 'Mandate')"),
		[]any{string(asked)}, func(scan func(...any) error) error {
			var i int
			err := scan(&i)
			if err == nil {
				all[i].box = []byte{}
			}
			return err
		}), "look which deliveries are about forgotten payers")
}

// RepeatDelivery notes a repeat of a delivery and reports whether it waits again. It may be an
// identical later event of its customer. It goes behind all others, so a read that has begun does
// not cover it. Waiting deliveries keep their time, so repeats cannot delay them.
func (tx *Tx) RepeatDelivery(key string) (again bool, err error) {
	a := &arrival{Delivery: Delivery{Key: key}}
	err = tx.repeat([]*arrival{a})
	return a.taken.Again, err
}

// repeat is RepeatDelivery for many deliveries. Of several with one key, the first is marked.
func (tx *Tx) repeat(all []*arrival) error {
	if len(all) == 0 {
		return nil
	}
	last, err := tx.lastDelivery()
	if err != nil {
		return err
	}
	first, keys := map[string]*arrival{}, []string{}
	type repeats struct{ ID, Times int }
	came := map[string]repeats{}
	for i, a := range all {
		if first[a.Key] == nil {
			first[a.Key], keys = a, append(keys, a.Key)
		}
		came[a.Key] = repeats{last + 1 + i, came[a.Key].Times + 1}
	}
	counted, err := json.Marshal(came)
	if err != nil {
		return fmt.Errorf("list repeated webhook deliveries: %w", err)
	}
	if err := tx.exec(`UPDATE inbox SET repeats = repeats + CAST(j.value ->> 'Times' AS BIGINT), inbox_id = CAST(j.value ->> 'ID' AS BIGINT)
		FROM json_each(?) j WHERE delivery_key = j.key`, string(counted)); err != nil {
		return fmt.Errorf("note that webhook deliveries came again: %w", err)
	}
	return tx.reopen(keys, first)
}

// reopen makes settled deliveries wait again, and marks them.
func (tx *Tx) reopen(keys []string, of map[string]*arrival) error {
	repeated, err := json.Marshal(keys)
	if err != nil {
		return fmt.Errorf("list repeated webhook deliveries: %w", err)
	}
	settled := []string{}
	if err := tx.each(`SELECT i.delivery_key FROM json_each(?) j CROSS JOIN inbox i ON i.delivery_key = j.value
		WHERE (i.billing_id <> '' OR i.mandate_id <> '') AND i.state NOT IN ('received', 'parked', 'quarantined')`,
		[]any{string(repeated)}, func(scan func(...any) error) error {
			var key string
			err := scan(&key)
			if err == nil {
				settled, of[key].taken.Again = append(settled, key), true
			}
			return err
		}); err != nil {
		return fmt.Errorf("look which webhook deliveries wait again: %w", err)
	}
	if len(settled) == 0 {
		return nil
	}
	if repeated, err = json.Marshal(settled); err != nil {
		return fmt.Errorf("list repeated webhook deliveries: %w", err)
	}
	_, err = tx.recounted("delivery_key IN (SELECT value FROM json_each(?))", string(repeated), "1 = 1",
		"received_at = ?, state = 'received', next_attempt = NULL, attempts = 0, processed_at = NULL", stamp(tx.now))
	return connector.Wrap(err, "open webhook deliveries again")
}
