package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
	"payersync/state"
)

// The settings of Drain: the parking time and tries of a delivery for an unknown customer, the wait of earlier
// deliveries for another read of their customer, and the number of customers read from the inbox at a time.
const (
	parkBase  = time.Minute
	parkTries = 5
	drainPage = 100
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
		if err := connector.Each(open, func(d state.OpenDelivery) error { return r.reflect(ctx, d, &res) }); err != nil {
			return res, err
		}
	}
}

// reflect settles the waiting deliveries of one customer. For deliveries with only a mandate it first finds the
// customer; they are handled again with that customer's others.
func (r *Reconciler) reflect(ctx context.Context, d state.OpenDelivery, res *DrainResult) error {
	if d.BillingID == "" {
		named := false
		err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
			named, err = tx.NameDeliveries(d)
			return err
		})
		if err != nil || named {
			return err
		}
	}
	if !d.Known {
		return r.park(ctx, d, res)
	}
	var ticket int64
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		ticket, err = tx.BeginDrain(d)
		return err
	}); err != nil {
		return err
	}
	c, err := r.Billing.Customer(ctx, d.BillingID)
	if connector.FaultOf(err) == connector.FaultNotFound {
		res.Reflected++
		return r.Ledger.Do(ctx, func(tx *state.Tx) error { return reflectMissing(tx, d, ticket) })
	}
	if err != nil {
		res.Postponed++
		wait := backoff(d.Attempts)
		return errors.Join(fmt.Errorf("reflect customer %s: %w", d.BillingID, err),
			r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
				return tx.PostponeDeliveries(d, connector.InboxReceived, wait)
			}))
	}
	var seen Seen
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		seen, err = reflectRead(tx, d, c, ticket)
		return err
	}); err != nil {
		return err
	}
	if seen.Overtaken { // they stay in the inbox and come up once more
		return nil
	}
	res.Superseded += count(seen.Stale)
	res.Reflected += count(!seen.Stale)
	if !seen.Stale && !d.Since.IsZero() && r.Reflected != nil {
		r.Reflected(max(0, r.Ledger.Now().Sub(d.Since)))
	}
	res.Moved += count(seen.Moved)
	return nil
}

func reflectRead(tx *state.Tx, d state.OpenDelivery, c connector.RemoteCustomer, ticket int64) (Seen, error) {
	seen, err := Observe(tx, OfCustomer(c, ticket, connector.CauseWebhook, d.Key))
	if err != nil || seen.Overtaken {
		return seen, err
	}
	if seen.Stale {
		return seen, tx.CloseDeliveries(d, connector.InboxSuperseded, "")
	}
	return seen, tx.CloseDeliveries(d, connector.InboxReflected, "")
}

func reflectMissing(tx *state.Tx, d state.OpenDelivery, ticket int64) error {
	switch err := noteMissing(tx, d.BillingID, ticket); {
	case errors.Is(err, state.ErrOvertaken): // they come up once more
		return nil
	case errors.Is(err, ErrNotYet):
		return tx.PostponeDeliveries(d, connector.InboxReceived, backoff(d.Attempts))
	case err != nil:
		return err
	}
	return tx.CloseDeliveries(d, connector.InboxReflected, "the customer no longer exists")
}

// park keeps deliveries for a customer or a mandate unknown to the ledger: a create may be in flight. After some tries
// the sweep takes care of them (fault F42).
func (r *Reconciler) park(ctx context.Context, d state.OpenDelivery, res *DrainResult) error {
	if d.Attempts >= parkTries {
		res.Ignored++
		return r.Ledger.Do(ctx, func(tx *state.Tx) error {
			return tx.CloseDeliveries(d, connector.InboxIgnored, unknownTo(d))
		})
	}
	res.Parked++
	return r.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.PostponeDeliveries(d, connector.InboxParked, backoff(d.Attempts))
	})
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
