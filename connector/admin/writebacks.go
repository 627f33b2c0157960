package admin

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"payersync/connector"
	"payersync/connector/outbox"
	"payersync/connector/writeback"
	"payersync/state"
)

// Writebacks shows the planned writes of mandate statuses to accounting systems, and approves them.
type Writebacks struct {
	Ledger *state.Ledger
	// Open opens the write-back of a connection. Its Writer is nil for a connection without one.
	Open func(ctx context.Context, connection string) (writeback.Target, error)
}

// Errors of write-backs.
var (
	ErrNoWriteback   = errors.New("the connection writes nothing back")
	ErrNotOpened     = errors.New("the write-back cannot be opened")
	ErrNothingWaits  = outbox.ErrNothing // an approval came too late
	ErrWritesChanged = outbox.ErrChanged // so did this one
)

// WritesShown selects the payers of a list of writes.
type WritesShown string

// The selections.
const (
	AllWrites     WritesShown = ""        // every field with a wrong value, or not ours
	WaitingWrites WritesShown = "waiting" // for approval
	StuckWrites   WritesShown = "stuck"   // a person should look at them
)

// Writes is a page of the planned writes of a connection.
type Writes struct {
	writeback.Plan
	To     string // the system, and the field
	Reads  bool   // a run reads a field before it writes
	Rows   []WriteRow
	After  string // the place of the last row; "" if no row follows
	Unread error  // why the present values are missing; nil if they are there, or nobody asked for them
}

// WriteRow is a payer with the value of its field before and after.
type WriteRow struct {
	writeback.Shown
	Label connector.Label
}

// readWait is how long a person waits for the present values of the fields.
const readWait = 10 * time.Second

// WritesQuery selects a page of the planned writes.
type WritesQuery struct {
	Which WritesShown
	After string // only payers behind this place
	Most  int    // rows
	Read  bool   // also the fields' present values
}

// Plan returns a page of a connection's planned writes. It fails with ErrNoWriteback or ErrNotOpened.
func (w *Writebacks) Plan(ctx context.Context, connection string, q WritesQuery) (out Writes, err error) {
	c, err := w.open(ctx, connection)
	if err != nil {
		return out, err
	}
	out.To = addressee(c)
	_, out.Reads = c.Writer.(writeback.Reader)
	items, err := w.items(ctx, c, q, &out)
	if err != nil {
		return out, err
	}
	shown := connector.Map(items, func(i writeback.Item) writeback.Shown { return writeback.Shown{Item: i} })
	if q.Read {
		ctx, done := context.WithTimeout(ctx, readWait)
		shown, out.Unread = c.Show(ctx, w.Ledger, items)
		done()
	}
	labels, err := w.Ledger.LabelsOf(ctx,
		connector.Map(items, func(i writeback.Item) state.RecordID { return i.RecordID }))
	out.Rows = connector.Map(shown, func(s writeback.Shown) WriteRow { return WriteRow{s, labels[s.RecordID]} })
	return out, err
}

// items makes the plan, and returns its items on the page.
func (w *Writebacks) items(ctx context.Context, c writeback.Target, q WritesQuery, out *Writes) (
	items []writeback.Item, err error) {
	out.Plan, err = writeback.MakePlan(ctx, w.Ledger, c, func(i writeback.Item) {
		if i.SourceID > q.After && len(items) <= q.Most && (q.Which == AllWrites ||
			q.Which == WaitingWrites && i.Fresh() || q.Which == StuckWrites && i.Doing.Stuck()) {
			items = append(items, i)
		}
	})
	if err != nil || q.Which == WaitingWrites && out.Batch == "" { // the due ones go with the next run
		return nil, err
	}
	if len(items) > q.Most {
		items, out.After = items[:q.Most], items[q.Most-1].SourceID
	}
	return connector.Map(items, func(i writeback.Item) writeback.Item { return i.In(out.Plan) }), nil
}

// Approve approves the waiting writes, if they are the batch that a person has seen. It returns their number, and fails
// with one of these errors.
func (w *Writebacks) Approve(ctx context.Context, connection, batch, actor, reason string) (int, error) {
	c, err := w.open(ctx, connection)
	if err != nil {
		return 0, err
	}
	return writeback.Approve(ctx, w.Ledger, c, batch, actor, reason)
}

func (w *Writebacks) open(ctx context.Context, connection string) (writeback.Target, error) {
	c, err := w.Open(ctx, connection)
	switch {
	case err != nil:
		return c, fmt.Errorf("%w: %w", ErrNotOpened, err)
	case c.Writer == nil:
		return c, ErrNoWriteback
	}
	return c, nil
}

// addressee names the system and the field. The address of a webhook may hold a secret, so its host alone is named.
func addressee(c writeback.Target) string {
	hook, is := c.Writer.(*writeback.Webhook)
	if !is {
		return c.Writer.Setup()
	}
	to, err := url.Parse(hook.URL)
	if err != nil {
		return "webhook"
	}
	return "webhook " + to.Host
}
