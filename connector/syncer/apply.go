package syncer

import (
	"context"
	"errors"
	"fmt"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/state"
)

const (
	applyPage     = 256  // changes read from the ledger at a time
	resumeMost    = 4096 // unanswered changes handled in one run
	maxAlike      = 5    // equal refusals in a row of valid requests, after which a walk stops
	maxSilence    = 5    // unanswered calls in a row that stop a walk
	quickReplays  = 5    // quick attempts of a create within state.Arrival
	maxReplays    = 10   // attempts of a create before a person is asked
	updateTries   = 3    // attempts of an update invisible in reads, before a finding
	verifySingles = 20   // customers verified one by one instead of by a list pass
)

// apply carries out the approved part of the plan: customers first, then a read to confirm new customers, then signing
// links. The plan may be older than this run, so apply first checks the index again.
func (r *run) apply(ctx context.Context) error {
	if err := r.trustIndex(ctx, r.plan.Creates); err != nil {
		return err
	}
	if err := r.sendAll(ctx); err != nil {
		return err
	}
	if err := r.walk(ctx, walk{stage: "links", lane: state.LaneMandate, pending: true, grouped: true,
		do: r.applyLink}); err != nil {
		return err
	}
	if err := r.heldBack(ctx); err != nil || r.plan.Limits != "" || r.opts.Only != "" { // the rest waits
		return err
	}
	if r.empty != "" {
		r.empty = state.PlanApplied
		return nil
	}
	return r.setPlan(ctx, *r.plan, state.PlanApplied)
}

// resume finishes frozen requests without a definite answer, with their frozen bytes. It also verifies created
// customers not yet read back. A few records without an answer do not hold up the others.
func (r *run) resume(ctx context.Context) error {
	if err := r.lookBeforeReplay(ctx); err != nil {
		return err
	}
	if err := r.walk(ctx, walk{stage: "send", lane: state.LaneCustomer, do: r.applyCustomer}); err != nil {
		return err
	}
	if err := r.verify(ctx); err != nil {
		return err
	}
	missing, err := r.Ledger.Missing(ctx, r.conn.Name, verifySingles)
	if err != nil {
		return err
	}
	if err := r.readBack(ctx, missing); err != nil { // a read may have lagged behind, or somebody put the customer back
		return err
	}
	if err := r.Ledger.NoteArrived(ctx); err != nil {
		return err
	}
	outlived, err := r.Ledger.Outlived(ctx, r.conn.Name, verifySingles)
	if err != nil {
		return err
	}
	if err := r.readBack(ctx, outlived); err != nil { // it shows the results of expired updates
		return err
	}
	return r.walk(ctx, walk{stage: "links", lane: state.LaneMandate, do: r.applyLink})
}

// applyCustomer carries out one change of a customer.
func (r *run) applyCustomer(ctx context.Context, c state.Change) error {
	if c.State == connector.ChangePending && c.Payer.BillingID == "" && r.noProof != nil {
		return nil // it waits until the list proves something
	}
	if r.linkOnly && c.State == connector.ChangePending && !c.Unlinks && c.Action != connector.ActionAdopt {
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "") // planned before this was known
	}
	switch c.Action {
	case connector.ActionCreate:
		return r.create(ctx, c)
	case connector.ActionAdopt:
		return r.gated(ctx, c, r.adopt)
	default:
		return r.gated(ctx, c, r.update)
	}
}

// requestFailed stores the meaning of a failed call for its change. It returns the error when it concerns
// more than this record.
func (r *run) requestFailed(ctx context.Context, c state.Change, err error) error {
	if errors.Is(err, connector.ErrWrongWay) {
		return err // no record is at fault
	}
	switch connector.FaultOf(err) {
	case connector.FaultRejected:
		why := whyRefused(err)
		if proven, err := r.isProven(ctx); err != nil {
			return err
		} else if c.Action != connector.ActionCreate && !proven {
			why += " No update has come through yet: if it is so for every customer, compare billing.dialect.update, person_fields, address_fields and read_only with what the service documents."
		}
		if err := r.closeWith(ctx, c, connector.ChangeFailed, connector.ReasonRejected, why); err != nil {
			return err
		}
		return refusedAlike(c, err)
	case connector.FaultUnknown:
		return errors.Join(err, r.leaveUnknown(ctx, c, ""))
	}
	return err // nothing happened: the frozen bytes wait for the next run
}

// whyRefused says why the service refused, as far as it may be shown.
func whyRefused(err error) string {
	var remote *connector.RemoteError
	if !errors.As(err, &remote) {
		return ""
	}
	return fmt.Sprintf("The billing service refused the customer: %s (HTTP %d).", remote.Detail, remote.Status)
}

func (r *run) closeWith(ctx context.Context, c state.Change, to connector.ChangeState, reason connector.Reason,
	detail string) error {
	err := r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		return tx.CloseWith(r.id, c, to, reason, detail)
	})
	if err == nil && to == connector.ChangeFailed {
		r.reportFailed(c, reason)
	}
	return err
}

func (r *run) reportFailed(c state.Change, reason connector.Reason) {
	if r.opts.Failed != nil {
		r.opts.Failed(FailedChange{Run: r.id, SourceID: c.Payer.SourceID, Action: c.Does(), Reason: reason})
	}
}

func (r *run) leaveUnknown(ctx context.Context, c state.Change, detail string) error {
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.LeaveUnknown(r.id, c, detail) })
}

func (r *run) cause() string { return fmt.Sprintf("run %d", r.id) }

// hold holds a change for a person, and says how its payer is linked. A blank detail is
// the reason's own sentence.
func (r *run) hold(ctx context.Context, c state.Change, link connector.LinkState, reason connector.Reason,
	detail string) error {
	return r.Ledger.Do(ctx, func(tx *state.Tx) error {
		tx.HoldLink(c.Payer, link, reason)
		return tx.CloseWith(r.id, c, connector.ChangeHeld, reason, detail)
	})
}

// factsOf is gatherLinked for a record read before.
func (r *run) factsOf(ctx context.Context, stored state.StoredRecord) (protocol.Facts, error) {
	m, err := r.render(stored.Candidate)
	if err != nil {
		return protocol.Facts{}, err
	}
	f := stored.Facts
	f.Record, f.Look.Now = m.of(*stored.Payer), true
	_, err = r.contest(ctx, &f, stored.Candidate, m)
	return f, err
}
