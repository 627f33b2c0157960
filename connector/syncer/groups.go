package syncer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/state"
)

const (
	mostFrozen = 256                    // requests frozen by one write at most
	groupTime  = 500 * time.Millisecond // in which a group leaves; the one behind it is frozen meanwhile
	leaveTime  = 30 * time.Second       // see Settings.LeaveWithin
)

// errLate means a request did not leave soon after its freeze, so the stored time of its request is wrong.
var errLate = errors.New("the request was not sent in time after its freeze")

// frozen is a request of a group that was frozen together.
type frozen struct {
	state.Sent
	leaves *connector.Lease // over once it may not leave any more
}

// job is one change of a group: a frozen request, or other work.
type job struct {
	frozen *frozen // nil for other work
	do     work
}

// dispatchGroups is dispatch with requests frozen by the group. The next group is frozen while the one before is sent.
// An orderly stop takes back the freeze of those that have not left.
func (w *walker) dispatchGroups(ctx context.Context, start func(work)) error {
	groups, freezing := make(chan []job), make(chan error, 1)
	size := newGroupSize(w.Settings.Workers / 8) // the workers wait for their turn, too
	go func() {
		defer close(groups)
		freezing <- connector.Guard(func() error { return w.freezeGroups(ctx, size, groups) })
	}()
	var left []state.Sent
	for group := range groups {
		began, before := connector.OfThisMachine(), w.finished()
		for _, j := range group {
			switch {
			case ctx.Err() == nil && w.sending.Err() == nil:
				start(j.do)
			case j.frozen != nil:
				left = append(left, j.frozen.Sent)
			}
		}
		size.adapt(w.finished()-before, connector.OfThisMachine().Sub(began))
	}
	err := errors.Join(<-freezing, w.thaw(ctx, left))
	if ctx.Err() != nil {
		return cmp.Or(err, context.Cause(ctx))
	}
	return err
}

// thaw takes back the freeze of requests that have not left.
func (r *run) thaw(ctx context.Context, left []state.Sent) error {
	if len(left) == 0 {
		return nil
	}
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.Thaw(left) })
}

// freezeGroups freezes the requests of the walk, group by group, until the walk ends or is stopped.
func (w *walker) freezeGroups(ctx context.Context, size *groupSize, groups chan<- []job) error {
	for after := int64(0); ctx.Err() == nil && w.sending.Err() == nil; {
		changes, err := w.page(ctx, after)
		if err != nil || len(changes) == 0 {
			return err
		}
		after = changes[len(changes)-1].ID
		changes = slices.DeleteFunc(changes, w.leavesOut)
		for len(changes) > 0 && ctx.Err() == nil && w.sending.Err() == nil {
			n := min(size.get(), len(changes))
			group, err := w.freezeGroup(ctx, changes[:n])
			if err != nil {
				w.finish(err)
				return nil
			}
			groups <- group
			changes = changes[n:]
		}
	}
	return nil
}

// freezeGroup freezes together what nothing but a freeze comes before. The rest of the changes is other work.
func (w *walker) freezeGroup(ctx context.Context, changes []state.Change) ([]job, error) {
	var out []job
	var creates []state.PlannedCreate
	var links []state.Change
	for _, c := range changes {
		switch body, err := w.bodyOf(c); {
		case err != nil:
			out = append(out, job{do: func(ctx context.Context) error { return w.unwritable(ctx, c) }})
		case body != nil:
			creates = append(creates, state.PlannedCreate{Change: c, Body: body})
		case c.Action == connector.ActionLink && c.Attempts == 0 && c.Payer.BillingID != "" && w.madeHere(c):
			links = append(links, c)
		default:
			out = append(out, job{do: func(ctx context.Context) error { return w.do(ctx, c) }})
		}
	}
	made, err := w.freezeCreates(ctx, creates)
	if err != nil {
		return nil, err
	}
	asked, err := w.freezeLinks(ctx, links)
	return slices.Concat(out, made, asked), err
}

// bodyOf returns the bytes of a create that nothing but its freeze comes before, and nil for another change: see
// applyCustomer and create.
func (w *walker) bodyOf(c state.Change) ([]byte, error) {
	if c.Action != connector.ActionCreate || w.noProof != nil || w.linkOnly || w.probe {
		return nil, nil
	}
	return w.Billing.CreateBody(c.Wanted)
}

func (w *walker) freezeCreates(ctx context.Context, creates []state.PlannedCreate) ([]job, error) {
	changes := connector.Map(creates, func(c state.PlannedCreate) state.Change { return c.Change })
	return w.freeze(ctx, changes,
		func(tx *state.Tx) ([]state.Frozen, error) {
			return tx.FreezeCreates(w.id, creates, w.trustedSince.Load())
		},
		func(ctx context.Context, i int, f *frozen) error { return w.sendCreate(ctx, f, creates[i].Body) })
}

// freezeLinks freezes requests for the signing links of customers made in this run: they have no mandate, so the facts
// of the ledger decide, and the customers are not read. The other requests are decided one by one.
func (w *walker) freezeLinks(ctx context.Context, changes []state.Change) ([]job, error) {
	next := func(f protocol.Facts) protocol.Do {
		f.Mandate.Approved, f.Mandate.Again, f.Mandate.Rest = true, w.Settings.again(), false
		return protocol.Decide(f).Mandate.Do
	}
	return w.freeze(ctx, changes,
		func(tx *state.Tx) ([]state.Frozen, error) { return tx.FreezeLinks(w.id, changes, next) },
		func(ctx context.Context, _ int, f *frozen) error { return w.sendLink(ctx, f) })
}

// freeze freezes changes by one write and returns the work of sending them. send sends one by its place.
func (w *walker) freeze(ctx context.Context, changes []state.Change, write func(*state.Tx) ([]state.Frozen, error),
	send func(context.Context, int, *frozen) error) ([]job, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	var done []state.Frozen
	leaves := connector.NewLease(cmp.Or(w.Settings.LeaveWithin, leaveTime), connector.OfThisMachine())
	if err := w.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		done, err = write(tx)
		return err
	}); err != nil {
		return nil, err
	}
	out := make([]job, len(changes))
	for i, c := range changes {
		if err := done[i].Err; errors.Is(err, state.ErrLookFirst) {
			out[i].do = func(ctx context.Context) error { return w.do(ctx, c) }
			continue
		} else if err != nil {
			out[i].do = func(ctx context.Context) error { return w.notFrozen(ctx, c, err) }
			continue
		}
		c.Run = w.id
		f := &frozen{state.Sent{Change: c, Attempt: done[i].Attempt}, leaves}
		out[i] = job{f, func(ctx context.Context) error {
			return w.inTime(ctx, f, func(ctx context.Context) error { return send(ctx, i, f) })
		}}
	}
	return out, nil
}

// inTime calls send while the request may leave. A request that is too late and was never tried is frozen anew by
// itself. Every request that send makes on the freeze has the fence of the freeze, and no other one.
func (w *walker) inTime(ctx context.Context, f *frozen, send func(context.Context) error) error {
	if f.inTime() == nil {
		if err := send(ctx); !errors.Is(err, errLate) || !errors.Is(err, connector.ErrNeverTried) {
			return err
		}
	}
	if err := w.thaw(ctx, []state.Sent{f.Sent}); err != nil {
		return err
	}
	return w.do(ctx, f.Change)
}

// inTime returns errLate once the request may not leave any more.
func (f *frozen) inTime() error {
	if f.leaves.Over() {
		return errLate
	}
	return nil
}

// fence returns a context for the frozen request alone: a later look at its outcome may come at any time.
func (f *frozen) fence(ctx context.Context) context.Context {
	return connector.WithFence(ctx, f.inTime)
}

func (w *walker) sendCreate(ctx context.Context, f *frozen, body []byte) error {
	w.noteMade(f.Change)
	made, err := w.post(f.fence(ctx), f.Change, attempt{f.Attempt, body, true})
	if err != nil || made == nil {
		return err
	}
	return w.enqueueAnswer(ctx, f.Sent, *made)
}

func (w *walker) sendLink(ctx context.Context, f *frozen) error {
	mandate, err := w.askLink(ctx, f.fence(ctx), f.Change, f.Attempt)
	switch {
	case errors.Is(err, connector.ErrTokenRenewed): // see applyLink
		return w.lookAndRequest(ctx, f.Change, false)
	case err != nil || mandate == nil:
		return err
	}
	w.noteTaken()
	w.links.in <- w.Ledger.PrepareLink(f.Sent, *mandate)
	return errKept
}

// groupSize is how many requests the next group has: as many as finish within groupTime.
type groupSize struct{ n atomic.Int64 }

func newGroupSize(first int) *groupSize {
	s := &groupSize{}
	s.n.Store(int64(min(max(first, 1), mostFrozen)))
	return s
}

func (s *groupSize) get() int { return int(s.n.Load()) }

// adapt notes that so many requests finished within a time. It says nothing if none did: free workers took the group,
// and wait for their turns. A group grows to twice its size at most.
func (s *groupSize) adapt(finished int, within time.Duration) {
	if finished > 0 && within > 0 {
		fits := int64(float64(finished) * float64(groupTime) / float64(within))
		s.n.Store(min(max(fits, 1), 2*s.n.Load(), mostFrozen))
	}
}
