package syncer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/connector/reconcile"
	"payersync/state"
)

// applyLink asks for one payer's signing link (connector/RULES.md#freeze-then-send), or
// ends a request whose answer was lost. The customer is read right before, because the
// ledger may not have heard: a cancelled mandate is never replaced by itself. One that
// this very run has made can have none.
func (r *run) applyLink(ctx context.Context, c state.Change) error {
	known := c.State == connector.ChangePending && r.madeHere(c)
	switch {
	case c.Payer.BillingID == "" && c.State == connector.ChangePending: // it is not there yet
		return nil
	case c.Payer.BillingID == "":
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	case !known:
		f, next, err := r.gatherLink(ctx, c)
		if err != nil {
			return err
		}
		if f.Look.Shows == protocol.Missing {
			return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
		}
		f.Look.Seq = math.MaxInt64 // it is read before anything is sent
		if f.Mandate.Rest && protocol.Asking(f).Do == protocol.Wait {
			return r.rest(ctx, c, next)
		}
	}
	err := r.lookAndRequest(ctx, c, known)
	if errors.Is(err, connector.ErrTokenRenewed) { // time has passed: another process may have asked, and the payer cancelled
		return r.lookAndRequest(ctx, c, false)
	}
	return err
}

// lookAndRequest asks for a link if that is what is next after a look at the customer,
// which one that is known to have no mandate does not need.
func (r *run) lookAndRequest(ctx context.Context, c state.Change, known bool) error {
	var shown *connector.Mandate
	if !known {
		fetched, err := r.observe(ctx, c, connector.CauseLink)
		if err != nil || fetched == nil {
			return err
		}
		shown = fetched.Mandate
	}
	f, next, err := r.gatherLink(ctx, c)
	if err != nil {
		return err
	}
	if shown != nil && f.Mandate.Status == "" { // without an id there is nothing to keep it under
		f.Mandate.Status = cmp.Or(shown.Status, "not shown")
	}
	step := protocol.Asking(f)
	switch {
	case step.Do == protocol.AskLink:
		return r.requestLink(ctx, c)
	case step.Do == protocol.Wait && f.Mandate.Rest:
		return r.rest(ctx, c, next)
	case f.Mandate.Status != "":
		return r.closeKnown(ctx, c, f, c.Attempts > 0)
	case step.Do == protocol.Nothing && c.State != connector.ChangePending: // its customer is not in order: planned again when it is
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	}
	if awaited := r.awaited(f, step); awaited != "" {
		return r.tellOfMandate(ctx, c, awaited)
	}
	return nil // its customer comes first
}

// gatherLink gathers what is known of the mandate of a payer for which a plan has let a
// request go, and the earliest time to ask again after requests without an answer.
func (r *run) gatherLink(ctx context.Context, c state.Change) (f protocol.Facts, next time.Time, err error) {
	if f, err = r.gatherLinked(ctx, c); err != nil {
		return f, next, err
	}
	sent, err := r.Ledger.LinkAttempts(ctx, c, f.Words.Retry)
	next = protocol.NextTry(sent)
	f.Mandate.Approved, f.Mandate.Again, f.Mandate.Rest = true, r.Settings.again(), r.Ledger.Now().Before(next)
	return f, next, err
}

// rest leaves a request without an answer alone until its pause is over, and says when that is.
func (r *run) rest(ctx context.Context, c state.Change, next time.Time) error {
	r.waitsUntil(next)
	return r.tellOfMandate(ctx, c, fmt.Sprintf("The request for a signing link got no answer. It is made again at %s.", next.UTC().Format(time.RFC3339)))
}

// tellOfMandate says on the payer why a request for a signing link waits.
func (r *run) tellOfMandate(ctx context.Context, c state.Change, detail string) error {
	return r.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.SetAttention(c.Payer.Connection, c.Payer.SourceID, state.TopicMandate, connector.ReasonOutcomeUnknown, detail)
	})
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
	switch fault := connector.FaultOf(err); {
	case fault == "":
	case errors.Is(err, connector.ErrWrongWay): // it is nobody's record that is wrong
		return errors.Join(err, r.unsent(ctx, c, left))
	case fault == connector.FaultRejected, fault == connector.FaultNotFound:
		if err := errors.Join(r.closeWith(ctx, c, connector.ChangeFailed, connector.ReasonLinkRefused, ""), r.end(ctx, c, left, err)); err != nil {
			return err
		}
		return refusedAlike(c, err)
	case fault == connector.FaultUnknown:
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
	if err == nil && fetched == nil {
		return nil
	}
	if err == nil && fetched.Mandate != nil {
		f, _, err := r.gatherLink(ctx, c)
		if err != nil {
			return err
		}
		return r.closeKnown(ctx, c, f, true)
	}
	return errors.Join(err, r.leaveUnknown(ctx, c, ""))
}

// answerLost is the detail of link_lost where a request for the link left and got no answer.
const answerLost = "A mandate exists, but the answer with its signing link was lost."

// closeKnown closes a request for a payer who has a mandate. When it waits for a
// signature and nobody has its link, a person is told, and that an answer was lost only
// where asked says that a request left. Whatever else its status calls for, Observe has said.
func (r *run) closeKnown(ctx context.Context, c state.Change, f protocol.Facts, asked bool) error {
	reason, detail := connector.Reason(""), ""
	if f.Mandate.Status == connector.MandateCreated && !f.Mandate.Link {
		reason = connector.ReasonLinkLost
		if asked {
			detail = answerLost
		}
	}
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		err := tx.CloseWith(r.id, c, connector.ChangeDone, reason, detail)
		if reason != "" { // the mapping may want no mandate by now: the next plan tells what stays
			err = errors.Join(err, tx.LookNext(c.Payer))
		}
		return err
	})
}
