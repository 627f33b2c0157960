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

// applyLink requests one payer's signing link (connector/RULES.md#freeze-then-send), or closes a request without an
// answer. It reads the customer right before, because the ledger may be out of date: a cancelled mandate is never
// replaced automatically. A customer created in this run needs no read, because it has no mandate.
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
		if f.Mandate.Rest && protocol.Decide(f).Mandate.Do == protocol.Wait {
			return r.postponeLink(ctx, c, next)
		}
	}
	err := r.lookAndRequest(ctx, c, known)
	// time has passed: another process may have asked, and the payer cancelled
	if errors.Is(err, connector.ErrTokenRenewed) {
		return r.lookAndRequest(ctx, c, false)
	}
	return err
}

// lookAndRequest reads the customer and requests a link if this is the next step. A customer known to have no mandate
// needs no read.
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
	step := protocol.Decide(f).Mandate
	switch {
	case step.Do == protocol.AskLink:
		return r.requestLink(ctx, c)
	case step.Do == protocol.Wait && f.Mandate.Rest:
		return r.postponeLink(ctx, c, next)
	case f.Mandate.Status != "":
		return r.closeKnown(ctx, c, f, c.Attempts > 0)
	case step.Do == protocol.Nothing && c.State != connector.ChangePending: // its customer is not in order: planned again when it is
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	}
	if awaited := r.awaited(f, step); awaited != "" {
		return r.reportMandate(ctx, c, awaited)
	}
	return nil // its customer comes first
}

// gatherLink gathers the facts about a payer's mandate after a plan has approved its link request. next is the earliest
// time to ask again after requests without an answer.
func (r *run) gatherLink(ctx context.Context, c state.Change) (f protocol.Facts, next time.Time, err error) {
	stored, err := r.Ledger.StoredRecord(ctx, c.Payer.Connection, c.Payer.SourceID, r.conn.Mapping.Version())
	if err != nil {
		return f, next, err
	}
	return r.linkFacts(ctx, c, stored)
}

// linkFacts is gatherLink for a record read before.
func (r *run) linkFacts(ctx context.Context, c state.Change, stored state.StoredRecord) (f protocol.Facts,
	next time.Time, err error) {
	if f, err = r.factsOf(ctx, stored); err != nil {
		return f, next, err
	}
	var sent []time.Time
	if c.Attempts > 0 {
		sent, err = r.Ledger.LinkAttempts(ctx, c, f.Words.Retry)
	}
	next = protocol.NextTry(sent)
	f.Mandate.Approved, f.Mandate.Again, f.Mandate.Rest = true, r.Settings.again(), r.Ledger.Now().Before(next)
	return f, next, err
}

// postponeLink leaves an unanswered request alone until its pause is over, and reports this time.
func (r *run) postponeLink(ctx context.Context, c state.Change, next time.Time) error {
	r.waitsUntil(next)
	return r.reportMandate(ctx, c,
		fmt.Sprintf("The request for a signing link got no answer. It is made again at %s.", next.UTC().Format(time.RFC3339)))
}

// reportMandate says on the payer why a request for a signing link waits.
func (r *run) reportMandate(ctx context.Context, c state.Change, detail string) error {
	return r.Ledger.Do(ctx, func(tx *state.Tx) error {
		tx.Explain(c.Payer, state.TopicMandate, connector.ReasonOutcomeUnknown, detail)
		return nil
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
	mandate, err := r.askLink(ctx, ctx, c, left)
	if err != nil || mandate == nil {
		return err
	}
	return r.Ledger.Do(context.WithoutCancel(ctx),
		func(tx *state.Tx) error { return r.saveLink(tx, state.Sent{Change: c, Attempt: left}, *mandate) })
}

// askLink sends a frozen request for a signing link and returns the mandate in the answer. It returns nil if there is
// none, with the outcome stored. sending is the context of the request, and ctx that of what follows it.
func (r *run) askLink(ctx, sending context.Context, c state.Change, left state.Attempt) (*connector.Mandate, error) {
	mandate, err := r.Billing.RequestMandateLink(sending, c.Payer.BillingID)
	switch fault := connector.FaultOf(err); {
	case err == nil:
		return &mandate, nil
	case fault == "":
		return nil, err
	case errors.Is(err, errLate) && errors.Is(err, connector.ErrNeverTried): // see inTime
		return nil, err
	case errors.Is(err, connector.ErrWrongWay): // no record is at fault
		return nil, errors.Join(err, r.unsent(ctx, c, left))
	case fault == connector.FaultRejected, fault == connector.FaultNotFound:
		return nil, errors.Join(r.linkRefused(ctx, c, left, err), refusedAlike(c, err))
	case fault == connector.FaultUnknown:
		return nil, r.lookForLost(ctx, c)
	}
	return nil, errors.Join(err, r.unsent(ctx, c, left))
}

// saveLink stores the mandate in the answer to a request for a signing link.
func (r *run) saveLink(tx *state.Tx, sent state.Sent, mandate connector.Mandate) error {
	if _, err := reconcile.Observe(tx, reconcile.Observation{
		CustomerID: sent.Change.Payer.BillingID, Mandate: &mandate, Ticket: sent.Attempt.Ticket, Cause: connector.CauseLink,
		CauseID: r.cause(),
	}); err != nil {
		return err
	}
	return errors.Join(tx.CloseWith(r.id, sent.Change, connector.ChangeDone, "", ""),
		tx.EndAttempt(sent.Attempt, state.AttemptAnswered))
}

// linkRefused closes a request for a signing link that the service refused.
func (r *run) linkRefused(ctx context.Context, c state.Change, a state.Attempt, refusal error) error {
	how, _ := endOf(refusal)
	err := r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		return errors.Join(tx.EndAttempt(a, how),
			tx.CloseWith(r.id, c, connector.ChangeFailed, connector.ReasonLinkRefused, ""))
	})
	if err == nil {
		r.reportFailed(c, connector.ReasonLinkRefused)
	}
	return err
}

// unsent returns a request to the queue after an attempt certain to have had no effect.
func (r *run) unsent(ctx context.Context, c state.Change, a state.Attempt) error {
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.Unsent(c, a) })
}

// lookForLost finds out by a read whether a request without an answer made a
// mandate. Without one its outcome stays unknown until the next run.
func (r *run) lookForLost(ctx context.Context, c state.Change) error {
	fetched, err := r.observe(connector.WithDrain(ctx, context.WithoutCancel(ctx)), c, connector.CauseLink)
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

// answerLost is the detail of link_lost after a link request without an answer.
const answerLost = "A mandate exists, but the answer with its signing link was lost."

// closeKnown closes a request for a payer with a mandate. If the mandate waits for a signature and its link is lost, it
// reports this to a person. asked means a request was sent, so the report mentions its lost answer. Observe reports the
// other statuses.
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
		if reason != "" { // the mapping may want no mandate now: the next plan reports the rest
			err = errors.Join(err, tx.LookNext(c.Payer))
		}
		return err
	})
}
