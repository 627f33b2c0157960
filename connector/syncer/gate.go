package syncer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"payersync/connector"
	"payersync/state"
)

// openTrialsMost is the number of updates in an unverified write format sent by one run without a known outcome.
const openTrialsMost = 3

// gate holds updates back until a round trip is verified. An update replaces the whole customer, so an update in a
// wrong field format loses the values of others (connector/RULES.md#updates-wait-for-a-proven-round-trip). Until then,
// updates are sent one at a time, and each is compared before the next. The same applies to the first update of a
// customer with an unverified kind of member. Two processes may send one each.
type gate struct {
	trial   sync.Mutex   // locked by the update on trial
	started atomic.Int64 // updates on trial so far
	open    atomic.Int64 // of them, those without a result that may have arrived
	held    atomic.Int64 // changes held back since the last check
}

// alone marks the context of the change holding gate.trial.
type alone struct{}

func (r *run) updateFormat() state.UpdateFormat {
	return state.UpdateFormat{Address: r.Account.Address, Spelling: r.Billing.UpdateWay()}
}

func (r *run) roundTrips(ctx context.Context) (state.Proof, error) {
	return r.Ledger.RoundTrip(ctx, r.updateFormat())
}

// gated calls do for a change of an existing customer. It runs alone while the write format is unverified, and is
// skipped for a planned update once the format is disproved. Earlier requests are still checked, but not sent again.
func (r *run) gated(ctx context.Context, c state.Change, do func(context.Context, state.Change) error) error {
	proven, err := r.isProven(ctx)
	switch {
	case err != nil:
		return err
	case proven:
		return do(ctx, c)
	}
	r.gate.trial.Lock()
	proven, err = r.isProven(ctx)
	if err != nil || proven {
		r.gate.trial.Unlock()
		if err != nil {
			return err
		}
		return do(ctx, c)
	}
	defer r.gate.trial.Unlock()
	if p, err := r.roundTrips(ctx); err != nil || len(p.Disproved()) > 0 && c.State == connector.ChangePending &&
		c.Action == connector.ActionUpdate {
		r.gate.held.Add(1)
		return err
	}
	return do(context.WithValue(ctx, alone{}, true), c)
}

func (r *run) isProven(ctx context.Context) (bool, error) {
	p, err := r.roundTrips(ctx)
	_, proven := p.Proven()
	return proven, err
}

// mayUpdate reports whether an update of a customer with these kinds of foreign members may be sent now. Call release
// once the outcome is known. An update held back stays unchanged.
func (r *run) mayUpdate(ctx context.Context, c state.Change, kinds []string) (release func(), may bool, err error) {
	p, err := r.roundTrips(ctx)
	if err != nil {
		return nil, false, err
	}
	if p.Covers(kinds) {
		return func() {}, true, nil
	}
	again := c.State != connector.ChangePending
	if len(p.Disproved()) > 0 || !again && r.gate.open.Load() >= openTrialsMost {
		r.gate.held.Add(1)
		return nil, false, nil
	}
	release = func() {}
	if ctx.Value(alone{}) == nil {
		if !r.gate.trial.TryLock() { // the customer would have to be read anew after a wait
			r.gate.held.Add(1)
			return nil, false, nil
		}
		release = r.gate.trial.Unlock
	}
	if !again {
		r.gate.started.Add(1)
		r.gate.open.Add(1)
	}
	return release, true, nil
}

// cameBack notes a trial update without effect.
func (r *run) cameBack() {
	for n := r.gate.open.Load(); n > 0 && !r.gate.open.CompareAndSwap(n, n-1); n = r.gate.open.Load() {
	}
}

// tripOf compares the customer before and after an update and returns the verification of its write format: nil if
// already known. An unclear result counts only if read at once. If our values differ from those sent (notShown), or a
// foreign member is gone or changed, somebody may have edited the customer: two such cases are needed. The loss of all
// pairs is enough after one update, if there were pairs before and one was sent. A person deleting all pairs in the
// same moment is less likely, and a false alarm costs only a person's confirmation.
func (r *run) tripOf(ctx context.Context, c state.Change, before, after connector.RemoteCustomer,
	notShown []string) (*state.Verification, error) {
	own := r.conn.Mapping.Own()
	kinds, err := r.Billing.Others(before.Raw, c.Payer.Applied, c.Wanted, own)
	if err != nil {
		return nil, nil //nolint:nilerr // its form is told of otherwise, and proves nothing
	}
	p, err := r.roundTrips(ctx)
	if err != nil || p.Covers(kinds) || len(p.Disproved()) > 0 {
		return nil, err
	}
	lost, err := r.Billing.ForeignChanges(before.Raw, after.Raw, c.Payer.Applied, c.Wanted, own)
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	return &state.Verification{
		By: state.TripUpdate, Subject: strconv.FormatInt(c.ID, 10), Survived: kinds, Lost: slices.Concat(notShown, lost),
		Sure: len(c.Wanted.ExternalData) > 0 && len(before.ExternalData) > 0 && len(after.ExternalData) == 0,
	}, nil
}

// saveTrip stores the result of a verification. Members changed by every update before the first verification do not
// count as lost.
func (r *run) saveTrip(tx *state.Tx, t *state.Verification) error {
	if t == nil {
		return nil
	}
	if err := unmoved(tx, t); err != nil {
		return err
	}
	r.cameBack()
	return tx.SaveRoundTrip(r.updateFormat(), *t)
}

// unmoved removes from a round trip the paths known to change with every update. A round trip with losses proves no
// kind of member safe.
func unmoved(tx *state.Tx, t *state.Verification) error {
	known, err := tx.KnownToMove(withoutIndexes(t.Lost))
	if err != nil {
		return err
	}
	t.Lost = slices.DeleteFunc(t.Lost,
		func(path string) bool { return slices.Contains(known, listIndex.ReplaceAllString(path, "[]")) })
	if len(t.Lost) > 0 {
		t.Survived = nil
	}
	return nil
}

// noteLost keeps what letting a customer go has lost of what is not written then. It proves
// nothing: what is ours goes off the customer, and need not come out right.
func (r *run) noteLost(ctx context.Context, c state.Change, before, after connector.RemoteCustomer) error {
	r.cameBack()
	c.Wanted = connector.Customer{}
	trip, err := r.tripOf(ctx, c, before, after, nil)
	if err != nil || trip == nil {
		return err
	}
	written := append(r.conn.Mapping.Own(), "externalData")
	trip.Lost = slices.DeleteFunc(trip.Lost, func(path string) bool {
		member, _, _ := strings.Cut(strings.ReplaceAll(path, "[", "."), ".")
		return slices.Contains(written, member)
	})
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		if err := unmoved(tx, trip); err != nil || len(trip.Lost) == 0 {
			return err
		}
		return tx.SaveRoundTrip(r.updateFormat(), *trip)
	})
}

// UnprovenError means updates are held back because no round trip has been verified.
type UnprovenError struct {
	Held int      // waiting changes
	Lost []string // damaged paths; none while unknown
}

// Error names the held updates, the settings likely at fault, and the next step.
func (e *UnprovenError) Error() string {
	if len(e.Lost) == 0 {
		return fmt.Sprintf("%s: what became of the first ones is not known yet, and each replaces a customer as a whole; the next run goes on", waiting(e.Held))
	}
	return fmt.Sprintf("%s: after updates, customers did not show %s as they should. %s", waiting(e.Held),
		JoinPaths(e.Lost), WayOutOfDoubt(e.Lost))
}

// Steps returns the steps of a person after updates have lost values.
func (e *UnprovenError) Steps() []connector.Step {
	if len(e.Lost) == 0 {
		return nil
	}
	return StepsOutOfDoubt()
}

// StepsOutOfDoubt returns the steps of WayOutOfDoubt.
func StepsOutOfDoubt() []connector.Step {
	return []connector.Step{{Do: connector.DoProbe}, {Do: connector.DoTrustWhatIsShown}}
}

func waiting(n int) string {
	if n == 1 {
		return "1 update waits"
	}
	return fmt.Sprintf("%d updates wait", n)
}

// WayOutOfDoubt names the settings likely at fault for paths lost by updates, and the next step.
func WayOutOfDoubt(lost []string) string {
	return fmt.Sprintf("Compare %s with what the service documents, and probe the service. If what you see is right, trust it.", strings.Join(SettingsOf(lost), " and "))
}

// SettingsOf names the settings likely at fault for paths lost by updates.
func SettingsOf(lost []string) (settings []string) {
	add := func(setting string) {
		if !slices.Contains(settings, setting) {
			settings = append(settings, setting)
		}
	}
	for _, path := range lost {
		if s := spelling(path); s != "" {
			add(s)
			continue
		}
		add("billing.dialect.update")
		add("billing.dialect.read_only (where the service computes it)")
	}
	return settings
}

// heldBack returns the error of a run with updates held back; nil if there are none.
func (r *run) heldBack(ctx context.Context) error {
	held := int(r.gate.held.Load())
	if held == 0 {
		return nil
	}
	p, err := r.roundTrips(ctx)
	return errors.Join(err, &UnprovenError{held, state.Paths(p.Disproved())})
}

// sendAll walks the changes of customers, then walks once more the updates held back until the trial's result.
func (r *run) sendAll(ctx context.Context) error {
	for {
		started := r.gate.started.Load()
		r.gate.held.Store(0)
		if err := r.walk(ctx, walk{stage: "send", lane: state.LaneCustomer, pending: true, grouped: true,
			do: r.applyCustomer}); err != nil {
			return err
		}
		if err := r.resume(ctx); err != nil { // a second try for this run's unknown outcomes
			return err
		}
		if r.gate.held.Load() == 0 || r.gate.started.Load() == started {
			return nil
		}
	}
}
