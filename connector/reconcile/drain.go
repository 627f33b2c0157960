package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"payersync/connector"
	"payersync/state"
)

// The settings of Drain: the parking time and tries of a delivery for an unknown customer, the number of customers
// read from the inbox at a time, and how many of them, or the reads of how long, share their writes.
const (
	parkBase   = time.Minute
	parkTries  = 5
	drainPage  = 100
	drainGroup = 8
	drainFor   = 250 * time.Millisecond
)

// RepeatGap is the minimum time between two reads of a customer for earlier deliveries.
const RepeatGap = 2 * time.Second

// DrainResult is the result of a drain, counted in customers.
type DrainResult struct {
	Reflected  int `json:"reflected"`
	Superseded int `json:"superseded"`
	Parked     int `json:"parked"`
	Ignored    int `json:"ignored"`
	Postponed  int `json:"postponed"` // the service gave no answer; they stay in the inbox
	Moved      int `json:"moved"`     // mandates with a changed status
}

// Drain reflects every due delivery: one GET for each customer, for any number of deliveries. It stops at the first
// customer without an answer from the service and returns this error. Deliveries leave the inbox only after a read.
func (r *Reconciler) Drain(ctx context.Context) (DrainResult, error) {
	var res DrainResult
	for {
		open, err := r.Ledger.OpenDeliveries(ctx, RepeatGap, drainPage)
		if err != nil || len(open) == 0 {
			return res, err
		}
		for group := range slices.Chunk(open, drainGroup) {
			if err := r.reflect(ctx, group, &res); err != nil {
				return res, err
			}
		}
	}
}

// reflect settles the waiting deliveries of some customers: it begins in one write, and records what it read in
// another.
func (r *Reconciler) reflect(ctx context.Context, group []state.OpenDelivery, res *DrainResult) error {
	var left []state.OpenDelivery
	var ticket int64
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		left, ticket, err = begin(tx, group, res)
		return err
	}); err != nil {
		return err
	}
	var read []answered
	for began := r.Ledger.Now(); len(left) > 0; {
		d := left[0]
		c, err := r.Billing.Customer(ctx, d.BillingID)
		missing := connector.FaultOf(err) == connector.FaultNotFound
		if err != nil && !missing {
			res.Postponed++
			return errors.Join(fmt.Errorf("reflect customer %s: %w", d.BillingID, err),
				r.record(context.WithoutCancel(ctx), read, ticket, res), r.postpone(context.WithoutCancel(ctx), d))
		}
		read, left = append(read, answered{d, c, missing}), left[1:]
		if r.Ledger.Now().Sub(began) >= drainFor {
			break
		}
	}
	if err := r.record(ctx, read, ticket, res); err != nil || len(left) == 0 {
		return err
	}
	return r.reflect(ctx, left, res)
}

// begin returns the deliveries with a customer to read, and the ticket of the reads. For deliveries with only a mandate
// it finds the customer; they are handled again with that customer's others. It parks those of unknown customers.
func begin(tx *state.Tx, group []state.OpenDelivery, res *DrainResult) (left []state.OpenDelivery, ticket int64,
	err error) {
	for _, d := range group {
		named := false
		if d.BillingID == "" {
			if named, err = tx.NameDeliveries(d); err != nil {
				return nil, 0, err
			}
		}
		switch {
		case named:
		case d.Known:
			left = append(left, d)
		default:
			if err := park(tx, d, res); err != nil {
				return nil, 0, err
			}
		}
	}
	if len(left) == 0 {
		return nil, 0, nil
	}
	ticket, err = tx.BeginDrain(left)
	return left, ticket, err
}

// answered is a read of the customer of some deliveries.
type answered struct {
	of       state.OpenDelivery
	customer connector.RemoteCustomer
	missing  bool // the service reports the customer as nonexistent
}

// record writes what was read. If that fails, it writes each read by itself, so that one customer holds up no other.
func (r *Reconciler) record(ctx context.Context, read []answered, ticket int64, res *DrainResult) error {
	if len(read) == 0 {
		return nil
	}
	var done DrainResult
	var waited []time.Duration
	err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		waited, err = recordReads(tx, read, ticket, &done)
		return err
	})
	if err != nil && len(read) > 1 {
		return connector.Each(read, func(one answered) error { return r.record(ctx, []answered{one}, ticket, res) })
	}
	if err != nil {
		return err
	}
	res.Reflected, res.Superseded, res.Moved = res.Reflected+done.Reflected, res.Superseded+done.Superseded,
		res.Moved+done.Moved
	for _, w := range waited {
		if r.Reflected != nil {
			r.Reflected(w)
		}
	}
	return nil
}

// recordReads observes the customers, closes their deliveries together, and returns how long the reflected ones waited.
// Deliveries whose read was overtaken stay in the inbox and come up once more.
func recordReads(tx *state.Tx, read []answered, ticket int64, done *DrainResult) (waited []time.Duration, err error) {
	var shown []Observation
	var of []state.OpenDelivery
	var reflected, superseded, gone state.OpenDelivery
	for _, one := range read {
		if !one.missing {
			shown, of = append(shown, OfCustomer(one.customer, ticket, connector.CauseWebhook, one.of.Key)), append(of, one.of)
			continue
		}
		done.Reflected++
		switch err := noteMissing(tx, one.of.BillingID, ticket); {
		case errors.Is(err, state.ErrOvertaken): // they come up once more
		case errors.Is(err, ErrNotYet):
			if err := tx.PostponeDeliveries(one.of, connector.InboxReceived, backoff(one.of.Attempts)); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		default:
			gone.IDs = append(gone.IDs, one.of.IDs...)
		}
	}
	all, err := observeAll(tx, shown)
	if err != nil {
		return nil, err
	}
	for i, seen := range all {
		switch {
		case seen.Overtaken:
		case seen.Stale:
			done.Superseded++
			superseded.IDs = append(superseded.IDs, of[i].IDs...)
		default:
			done.Reflected++
			done.Moved += count(seen.Moved)
			reflected.IDs = append(reflected.IDs, of[i].IDs...)
			if !of[i].Since.IsZero() {
				waited = append(waited, max(0, tx.Now().Sub(of[i].Since)))
			}
		}
	}
	return waited, errors.Join(tx.CloseDeliveries(reflected, connector.InboxReflected, ""),
		tx.CloseDeliveries(superseded, connector.InboxSuperseded, ""),
		tx.CloseDeliveries(gone, connector.InboxReflected, "the customer no longer exists"))
}

// postpone leaves deliveries for a later read, because the service gave no answer.
func (r *Reconciler) postpone(ctx context.Context, d state.OpenDelivery) error {
	return r.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.PostponeDeliveries(d, connector.InboxReceived, backoff(d.Attempts))
	})
}

// park keeps deliveries for a customer or a mandate unknown to the ledger: a create may be in flight. After some tries
// the sweep takes care of them (fault F42).
func park(tx *state.Tx, d state.OpenDelivery, res *DrainResult) error {
	if d.Attempts >= parkTries {
		res.Ignored++
		return tx.CloseDeliveries(d, connector.InboxIgnored, unknownTo(d))
	}
	res.Parked++
	return tx.PostponeDeliveries(d, connector.InboxParked, backoff(d.Attempts))
}

// unknownTo says why deliveries were given up.
func unknownTo(d state.OpenDelivery) string {
	if d.BillingID == "" {
		return "no customer of ours is known to have the mandate; left to the sweep"
	}
	return "the customer is linked to no payer; left to the sweep"
}

// backoff doubles from parkBase, up to an hour.
func backoff(attempts int) time.Duration {
	return min(parkBase<<min(attempts, 10), time.Hour)
}
