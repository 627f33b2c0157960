package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"payersync/connector"
	"payersync/connector/outbox"
	"payersync/connector/syncer"
	"payersync/connector/writeback"
	"payersync/state"
)

// Writebacks shows the planned writes of mandate statuses to accounting systems, and approves them.
type Writebacks struct {
	Ledger *state.Ledger
	// Open opens the write-back of a connection. Its Writer is nil for a connection without one.
	Open func(ctx context.Context, connection string) (writeback.Target, error)

	mu     sync.Mutex
	plans  map[string]*snapshot[writesMade] // by connection
	closed bool
	parts  parts[Writebacks]
}

// LimitedTo returns the write-backs of a ledger limited to some connections. They are closed with these.
func (w *Writebacks) LimitedTo(ledger *state.Ledger, connections []string) *Writebacks {
	return w.parts.of(connections, func() *Writebacks {
		w.mu.Lock()
		defer w.mu.Unlock()
		return &Writebacks{Ledger: ledger, Open: w.Open, closed: w.closed}
	})
}

// Close ends the making of plans. Close the write-backs before their ledger. It may be asked of nil.
func (w *Writebacks) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.closed = true
	plans := slices.Collect(maps.Values(w.plans))
	w.mu.Unlock()
	for _, p := range plans {
		p.close()
	}
	w.parts.each((*Writebacks).Close)
}

// writesMade is a plan with its items in their order. The plan of many payers takes seconds, so it is made in the
// background: the items on a page are read anew.
type writesMade struct {
	writeback.Plan
	items []writesItem
}

type writesItem struct {
	id           string
	fresh, stuck bool
}

// fewPayers is up to how many payers a plan is made anew after each commit.
const fewPayers = 2000

// isIn reports whether a list has the item.
func (i writesItem) isIn(which WritesShown) bool {
	return which == AllWrites || which == WaitingWrites && i.fresh || which == StuckWrites && i.stuck
}

// made returns the last plan of a connection, of few payers a new one. It fails with ErrCounting while there is none.
func (w *Writebacks) made(ctx context.Context, c writeback.Target) (*writesMade, error) {
	commits, err := w.Ledger.Commits(ctx)
	if err != nil {
		return nil, err
	}
	plan := w.plan(c.Name)
	if last := plan.kept(); plan.isNews(commits) && last != nil && last.Payers <= fewPayers {
		plan.renew()
	}
	return plan.latest(ctx, lookWaits, func(ctx context.Context) (*writesMade, error) {
		var items []writesItem
		p, err := writeback.MakePlan(ctx, w.Ledger, c, func(i writeback.Item) {
			items = append(items, writesItem{i.SourceID, i.Fresh(), i.Doing.Stuck()})
		})
		return &writesMade{p, items}, err
	})
}

// plan returns the plans of a connection.
func (w *Writebacks) plan(connection string) *snapshot[writesMade] {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plans[connection] == nil {
		if w.plans == nil {
			w.plans = map[string]*snapshot[writesMade]{}
		}
		w.plans[connection] = &snapshot[writesMade]{closed: w.closed}
	}
	return w.plans[connection]
}

// Errors of write-backs.
var (
	ErrNoWriteback   = errors.New("the connection writes nothing back")
	ErrNotOpened     = errors.New("the write-back cannot be opened")
	ErrNothingToTake = errors.New("nobody else changed the field, and nothing was refused")
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

// Plan returns a page of a connection's planned writes. It fails with ErrNoWriteback, ErrNotOpened or ErrCounting.
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

// items returns the items of the plan that are on the page.
func (w *Writebacks) items(ctx context.Context, c writeback.Target, q WritesQuery, out *Writes) (
	items []writeback.Item, err error) {
	made, err := w.made(ctx, c)
	if err != nil {
		return nil, err
	}
	if out.Plan = made.Plan; q.Which == WaitingWrites && out.Batch == "" { // the due ones go with the next run
		return nil, nil
	}
	var ids []string
	for _, i := range made.items {
		if i.id <= q.After || !i.isIn(q.Which) {
			continue
		}
		if len(ids) == q.Most {
			out.After = ids[q.Most-1]
			break
		}
		ids = append(ids, i.id)
	}
	if items, err = c.Items(ctx, w.Ledger, ids); err != nil {
		return nil, err
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
	defer w.plan(connection).renew()
	return writeback.Approve(ctx, w.Ledger, c, batch, actor, reason)
}

// FieldOf returns the task for the field of a record, if a person should look at it; nil otherwise.
func (w *Writebacks) FieldOf(ctx context.Context, id state.RecordID) (*writeback.Item, error) {
	c, err := w.open(ctx, id.Connection)
	if err != nil {
		return nil, err
	}
	items, err := c.Items(ctx, w.Ledger, []string{id.SourceID})
	if err != nil || len(items) == 0 || !items[0].Doing.Stuck() {
		return nil, err
	}
	return &items[0], nil
}

// proposeTakeField gives the field of a record back to write-back.
func (a *Attention) proposeTakeField(ctx context.Context, p *Proposal) (err error) {
	w, id := a.Writebacks, p.Record
	if w == nil {
		return ErrNoWriteback
	}
	if p.Field, err = w.FieldOf(ctx, id); err != nil {
		return err
	}
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) error {
		c, err := w.open(ctx, id.Connection)
		if err != nil {
			return err
		}
		defer w.plan(c.Name).renew()
		out.News, err = writeback.TakeField(ctx, a.Ledger, c, id.SourceID, by.Name, by.Reason)
		if err == nil && !out.News {
			return ErrNothingToTake
		}
		return err
	}
	return nil
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
