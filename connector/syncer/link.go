package syncer

import (
	"context"
	"errors"

	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/state"
)

// applyLink asks for one payer's signing link (step U13 of faults.md section 2).
// It asks only for a linked payer of whom no mandate was ever seen: a cancelled
// mandate is never replaced by itself. A request whose answer was lost is not
// repeated before a read has shown that it made nothing.
func (r *run) applyLink(ctx context.Context, c state.Change) error {
	if c.Payer.LinkState != connector.LinkLinked {
		return nil // its customer is not there yet; the change waits
	}
	if c.State != connector.ChangePending || c.Attempts > 0 {
		return r.settleLink(ctx, c)
	}
	known, err := r.Ledger.MandateKnown(ctx, c.Payer.BillingID)
	if err != nil {
		return err
	}
	if known {
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	}
	return r.requestLink(ctx, c)
}

func (r *run) requestLink(ctx context.Context, c state.Change) error {
	var ticket int64
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		ticket, err = tx.Attempt(r.id, c)
		return err
	}); err != nil {
		return err
	}
	mandate, err := r.Billing.RequestMandateLink(ctx, c.Payer.BillingID)
	switch connector.FaultOf(err) {
	case "":
	case connector.FaultRejected, connector.FaultNotFound:
		return r.closeWith(ctx, c, connector.ChangeFailed, connector.ReasonLinkRefused, "")
	case connector.FaultUnknown:
		return r.settleLink(ctx, c)
	default:
		return errors.Join(err, r.unsent(ctx, c))
	}
	if err != nil {
		return err
	}
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		if _, err := reconcile.Observe(tx, reconcile.Observation{
			CustomerID: c.Payer.BillingID, Mandate: &mandate, Ticket: ticket, Cause: connector.CauseLink, CauseID: r.cause(),
		}); err != nil {
			return err
		}
		return tx.CloseLink(r.id, c, "")
	})
}

// unsent puts a request back that certainly never had an effect.
func (r *run) unsent(ctx context.Context, c state.Change) error {
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.Unsent(c) })
}

// settleLink finds out by a read what became of a request without an answer. A
// mandate that exists settles it, though its link is lost; without one the
// request is made again, a few times in all.
func (r *run) settleLink(ctx context.Context, c state.Change) error {
	fetched, err := r.observe(ctx, c, connector.CauseLink)
	if err != nil || fetched == nil {
		return err
	}
	if fetched.Mandate != nil {
		return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
			return tx.CloseLink(r.id, c, connector.ReasonLinkLost)
		})
	}
	if c.Attempts >= linkTries {
		return r.closeWith(ctx, c, connector.ChangeHeld, connector.ReasonOutcomeUnknown, "Asked for a signing link several times without an answer.")
	}
	if c.State == connector.ChangePending {
		return r.closeWith(ctx, c, connector.ChangeUnknown, connector.ReasonOutcomeUnknown, "")
	}
	return r.requestLink(ctx, c)
}
