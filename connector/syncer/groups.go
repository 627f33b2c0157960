package syncer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"payersync/connector"
	"payersync/state"
)

const (
	mostFrozen = 256                    // creates frozen by one write at most
	groupTime  = 500 * time.Millisecond // in which a group leaves; the one behind it is frozen meanwhile
	leaveTime  = 30 * time.Second       // see Settings.LeaveWithin
)

// errLate means a create did not leave soon after its freeze, so the stored time of its request is wrong.
var errLate = errors.New("the request was not sent in time after its freeze")

// frozen is a create of a group that was frozen together.
type frozen struct {
	state.SentCreate
	body   []byte
	leaves *connector.Lease // over once it may not leave any more
}

// job is one change of a group: a frozen create, or other work.
type job struct {
	create *frozen // nil for other work
	do     work
}

// dispatchGroups is dispatch with creates frozen by the group. The next group is frozen while the one before is sent.
// An orderly stop takes back the freeze of creates that have not left.
func (w *walker) dispatchGroups(ctx context.Context, start func(work)) error {
	groups, freezing := make(chan []job), make(chan error, 1)
	size := newGroupSize(w.Settings.Workers)
	go func() {
		defer close(groups)
		freezing <- connector.Guard(func() error { return w.freezeGroups(ctx, size, groups) })
	}()
	var left []state.SentCreate
	for group := range groups {
		began, n := connector.OfThisMachine(), 0
		for _, j := range group {
			switch {
			case ctx.Err() == nil && w.sending.Err() == nil:
				start(j.do)
				n++
			case j.create != nil:
				left = append(left, j.create.SentCreate)
			}
		}
		size.adapt(n, connector.OfThisMachine().Sub(began))
	}
	err := errors.Join(<-freezing, w.thaw(ctx, left))
	if ctx.Err() != nil {
		return cmp.Or(err, context.Cause(ctx))
	}
	return err
}

// thaw takes back the freeze of creates that have not left.
func (r *run) thaw(ctx context.Context, left []state.SentCreate) error {
	if len(left) == 0 {
		return nil
	}
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.Thaw(left) })
}

// freezeGroups freezes the creates of the walk, group by group, until the walk ends or is stopped.
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

// freezeGroup freezes the creates among changes together.
func (w *walker) freezeGroup(ctx context.Context, changes []state.Change) ([]job, error) {
	var out []job
	var creates []state.PlannedCreate
	for _, c := range changes {
		if !w.freezes(c) {
			out = append(out, job{do: func(ctx context.Context) error { return w.do(ctx, c) }})
			continue
		}
		body, err := w.Billing.CreateBody(c.Wanted)
		if err != nil {
			out = append(out, job{do: func(ctx context.Context) error { return w.unwritable(ctx, c) }})
			continue
		}
		creates = append(creates, state.PlannedCreate{Change: c, Body: body})
	}
	if len(creates) == 0 {
		return out, nil
	}
	var done []state.FrozenCreate
	leaves := connector.NewLease(cmp.Or(w.Settings.LeaveWithin, leaveTime), connector.OfThisMachine())
	if err := w.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		done, err = tx.FreezeCreates(w.id, creates, w.believed.Load())
		return err
	}); err != nil {
		return nil, err
	}
	for i, one := range done {
		c := creates[i].Change
		if one.Err != nil {
			out = append(out, job{do: func(ctx context.Context) error { return w.notFrozen(ctx, c, one.Err) }})
			continue
		}
		c.Run = w.id
		f := &frozen{state.SentCreate{Change: c, Attempt: one.Attempt}, creates[i].Body, leaves}
		out = append(out, job{f, func(ctx context.Context) error { return w.sendFrozen(ctx, f) }})
	}
	return out, nil
}

// freezes reports whether a change is a create that nothing but its freeze comes before: see applyCustomer and create.
func (w *walker) freezes(c state.Change) bool {
	return c.Action == connector.ActionCreate && c.State == connector.ChangePending && w.noProof == nil && !w.linkOnly && !w.probe
}

// sendFrozen sends a create of a group. If it cannot leave in time after its freeze, it is frozen anew by itself.
func (w *walker) sendFrozen(ctx context.Context, f *frozen) error {
	inTime := func() error {
		if f.leaves.Over() {
			return errLate
		}
		return nil
	}
	var made *connector.RemoteCustomer
	err := inTime()
	if err == nil {
		w.noteMade(f.Change)
		made, err = w.post(connector.WithFence(ctx, inTime), f.Change, attempt{f.Attempt, f.body, true})
	}
	switch {
	case err == nil && made != nil:
		return w.keep(ctx, f.SentCreate, *made)
	case !errors.Is(err, errLate):
		return err
	}
	if err := w.thaw(ctx, []state.SentCreate{f.SentCreate}); err != nil {
		return err
	}
	return w.create(ctx, f.Change)
}

// groupSize is how many creates the next group has: as many as leave within groupTime.
type groupSize struct{ n atomic.Int64 }

func newGroupSize(inFlight int) *groupSize {
	s := &groupSize{}
	s.n.Store(int64(min(max(inFlight, 1), mostFrozen)))
	return s
}

func (s *groupSize) get() int { return int(s.n.Load()) }

// adapt notes that a group of n left within a time.
func (s *groupSize) adapt(n int, within time.Duration) {
	switch size := s.get(); {
	case within > groupTime:
		s.n.Store(int64(max(size/2, 1)))
	case n >= size && within < groupTime/2:
		s.n.Store(int64(min(size*2, mostFrozen)))
	}
}
