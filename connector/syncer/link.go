package syncer

import (
	"context"
	"errors"

	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/state"
)

// applyLink asks for one payer's signing link (connector/RULES.md#freeze-then-send).
// It asks only for a linked payer of whom no mandate was ever seen, and looks at
// the customer right before, because the ledger may not have heard: a cancelled
// mandate is never replaced by itself. A request whose answer was lost is made
// again only after a read has shown that it made nothing, once in a run and a few
// times in all.
func (r *run) applyLink(ctx context.Context, c state.Change) error {
	switch c.Payer.LinkState {
	case connector.LinkLinked:
	case connector.LinkMissing:
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	default: // its customer is not there yet, or not for certain
		return r.closeSeen(ctx, c)
	}
	err := r.lookAndRequest(ctx, c, c.State == connector.ChangePending && r.madeHere(c))
	if errors.Is(err, connector.ErrTokenRenewed) { // time has passed: another process may have asked, and the payer cancelled
		return r.lookAndRequest(ctx, c, false)
	}
	return err
}

// lookAndRequest asks for a link after a look at the customer, unless it is known
// to have no mandate.
func (r *run) lookAndRequest(ctx context.Context, c state.Change, known bool) error {
	if known {
		return r.requestLink(ctx, c)
	}
	fetched, err := r.observe(ctx, c, connector.CauseLink)
	switch {
	case err != nil || fetched == nil:
		return err
	case fetched.Mandate != nil:
		lost, err := r.lost(ctx, *fetched.Mandate)
		if err != nil {
			return err
		}
		if lost && r.Settings.SameMandate && c.Attempts < linkTries {
			return r.requestLink(ctx, c)
		}
		return r.closeKnown(ctx, c, *fetched.Mandate)
	case c.Attempts >= linkTries:
		return r.closeWith(ctx, c, connector.ChangeHeld, connector.ReasonOutcomeUnknown, "Asked for a signing link several times without an answer.")
	}
	return r.requestLink(ctx, c)
}

// closeSeen closes a request that was sent while the payer was linked, and whose
// mandate has been seen since.
func (r *run) closeSeen(ctx context.Context, c state.Change) error {
	m := connector.Mandate{ID: c.Payer.MandateID}
	switch {
	case c.State == connector.ChangePending:
		return nil
	case m.ID == "":
		return r.giveUpLink(ctx, c)
	}
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		m.Status, err = tx.MandateStatus(m.ID)
		return err
	}); err != nil {
		return err
	}
	return r.closeKnown(ctx, c, m)
}

// giveUpLink gives up the unanswered request of a payer in conflict, once it is too
// old to arrive and a read shows no mandate. It is planned again when the link is
// whole. Any other waits.
func (r *run) giveUpLink(ctx context.Context, c state.Change) error {
	if c.Payer.LinkState != connector.LinkConflict || r.Ledger.Now().Sub(c.UpdatedAt) <= r.Settings.ResendWithin {
		return nil
	}
	fetched, err := r.observe(ctx, c, connector.CauseLink)
	switch {
	case err != nil || fetched == nil:
		return err
	case fetched.Mandate != nil:
		return r.closeKnown(ctx, c, *fetched.Mandate)
	}
	return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
}

func (r *run) requestLink(ctx context.Context, c state.Change) error {
	var left state.Attempt
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		left, err = tx.Attempt(r.id, c)
		return err
	}); err != nil {
		return err
	}
	mandate, err := r.Billing.RequestMandateLink(ctx, c.Payer.BillingID)
	switch connector.FaultOf(err) {
	case "":
	case connector.FaultRejected, connector.FaultNotFound:
		if err := errors.Join(r.closeWith(ctx, c, connector.ChangeFailed, connector.ReasonLinkRefused, ""), r.end(ctx, c, left, err)); err != nil {
			return err
		}
		return refusedAlike(c, err)
	case connector.FaultUnknown:
		return r.lookForLost(ctx, c)
	default:
		return errors.Join(err, r.unsent(ctx, c, left))
	}
	if err != nil {
		return err
	}
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		if _, err := reconcile.Observe(tx, reconcile.Observation{
			CustomerID: c.Payer.BillingID, Mandate: &mandate, Ticket: left.Ticket, Cause: connector.CauseLink, CauseID: r.cause(),
		}); err != nil {
			return err
		}
		return errors.Join(tx.CloseWith(r.id, c, connector.ChangeDone, "", ""), tx.EndAttempt(left, state.AttemptAnswered))
	})
}

// unsent puts a request back that certainly never had an effect.
func (r *run) unsent(ctx context.Context, c state.Change, a state.Attempt) error {
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.Unsent(c, a) })
}

// lookForLost finds out by a read whether a request without an answer made a
// mandate. Without one its outcome stays unknown until the next run.
func (r *run) lookForLost(ctx context.Context, c state.Change) error {
	fetched, err := r.observe(connector.WithLastCall(ctx, context.WithoutCancel(ctx)), c, connector.CauseLink)
	switch {
	case err == nil && fetched == nil:
		return nil
	case err == nil && fetched.Mandate != nil:
		return r.closeKnown(ctx, c, *fetched.Mandate)
	}
	return errors.Join(err, r.closeWith(ctx, c, connector.ChangeUnknown, connector.ReasonOutcomeUnknown, ""))
}

// closeKnown closes a request for a payer who has a mandate. When it waits for a
// signature and nobody has its link, a person is told; whatever else its status
// calls for, Observe has said.
func (r *run) closeKnown(ctx context.Context, c state.Change, m connector.Mandate) error {
	lost, err := r.lost(ctx, m)
	if err != nil {
		return err
	}
	reason := connector.Reason("")
	if lost {
		reason = connector.ReasonLinkLost
	}
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.CloseWith(r.id, c, connector.ChangeDone, reason, "") })
}

// lost reports whether a mandate waits for a signature and nobody has its link.
func (r *run) lost(ctx context.Context, m connector.Mandate) (bool, error) {
	if m.Status != connector.MandateCreated {
		return false, nil
	}
	link, err := r.Ledger.SigningLink(ctx, m.ID)
	return link == "", err
}
