package syncer

import (
	"context"
	"errors"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/connector/reconcile"
	"payersync/state"
)

// adopt reads a customer with a payer's key and asks package protocol whether it belongs to the payer. If so, adopt
// links the two and updates the customer. A missing customer does not count as deleted: only complete lists prove
// deletion. A customer changed since the plan is planned again. A customer without the whole key is updated first: see
// adoptBare.
func (r *run) adopt(ctx context.Context, c state.Change) error {
	if c.Payer.BillingID != "" { // linked by an earlier try with an unanswered update
		return r.update(ctx, c)
	}
	shown, err := r.readCustomer(ctx, c.BillingID)
	if err != nil {
		return err
	}
	fetched, ticket := shown.customer, shown.ticket
	k, err := r.gatherKey(ctx, c.Payer.SourceID, c.Payer.Key,
		protocol.Record{Usability: protocol.Included, Key: c.Payer.Key.ID(), Hash: c.Wanted.Hash()}, protocol.Facts{},
		c.Wanted)
	if err != nil {
		return err
	}
	if why := k.acceptedGone(shown); why != "" {
		return r.holdAccepted(ctx, c, why)
	}
	k.judge(shown, c.Wanted)
	next := protocol.Decide(k.facts)
	switch step := next.Customer; {
	case step.Do == protocol.Wait, step.Do == protocol.ReadList: // for time or for lists, and for no person: it is planned again
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	case step.Do != protocol.Adopt && step.Reason != "":
		reason := k.reasonFor(step.Reason)
		return r.hold(ctx, c, next.Link, reason, k.because(reason))
	case step.Do != protocol.Adopt || step.Customer != c.BillingID: // nobody carries it any more, or another does
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	}
	if r.linkOnly && (k.byWord || k.unscoped) {
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	}
	carries := connector.KeyIn(fetched.ExternalData, c.Payer.Key.Name) == c.Payer.Key
	if !r.linkOnly && (c.State == connector.ChangePending || !carries) { // a sent change that arrived ends as it began
		if as, err := r.adoptsAsShown(ctx, c, fetched); err != nil || !as {
			return errors.Join(err, r.closeWith(ctx, c, connector.ChangeVoid, "", ""))
		}
	}
	if !carries {
		return r.adoptBare(ctx, c, fetched)
	}
	seen, taken, err := r.linkFetched(ctx, c, fetched, ticket)
	if err != nil || !taken {
		return err
	}
	c.Payer.BillingID, c.Payer.Seen = c.BillingID, true
	if r.linkOnly {
		return r.linkAlone(ctx, c)
	}
	if seen.Stale { // a newer read was applied while the payer was nobody's: see its mandate too
		return r.update(ctx, c)
	}
	return r.mergeOrResume(ctx, c, fetched)
}

// adoptsAsShown is asShown for an adoption.
func (r *run) adoptsAsShown(ctx context.Context, c state.Change, fetched connector.RemoteCustomer) (bool, error) {
	p := c.Payer
	p.BillingID = c.BillingID
	base, err := r.base(ctx, p)
	if err != nil {
		return false, err
	}
	as, err := r.asShown(c, fetched, base, false)
	return as || err != nil, nil // an incomparable value cannot be merged; merge reports it
}

// linkFetched links a payer to a customer just read with its key, and reports whether it could. Otherwise it closes the
// change.
func (r *run) linkFetched(ctx context.Context, c state.Change, fetched connector.RemoteCustomer,
	ticket int64) (seen reconcile.Seen, taken bool, err error) {
	err = r.Ledger.Do(ctx, func(tx *state.Tx) error {
		if holders, err := tx.KeyCount(c.Payer.Key); err != nil || holders > 1 {
			return errors.Join(err, state.ErrKeyDoubled)
		}
		if err := tx.LinkAdopted(r.id, c); err != nil {
			return err
		}
		seen, err = reconcile.Observe(tx, reconcile.OfCustomer(fetched, ticket, connector.CauseAdopt, r.cause()))
		return err
	})
	switch {
	case errors.Is(err, state.ErrCustomerTaken):
		return seen, false, r.closeWith(ctx, c, connector.ChangeHeld, connector.ReasonOtherKey, "")
	case errors.Is(err, state.ErrKeyDoubled):
		return seen, false, r.hold(ctx, c, connector.LinkConflict, connector.ReasonKeyDoubled, "")
	}
	return seen, err == nil, err
}
