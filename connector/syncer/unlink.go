package syncer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/connector/reconcile"
	"payersync/state"
)

// releaseOf returns the release of a payer's customer, based on a read. It removes the payer's keys and reverts the
// updates chosen by a person.
func (s *Syncer) releaseOf(ctx context.Context, p state.Payer, fetched connector.RemoteCustomer) (connector.Release,
	error) {
	writes, err := s.Ledger.Written(ctx, p, p.Unlink.From)
	if err != nil {
		return connector.Release{}, err
	}
	keys := p.Key.Pairs()
	if p.Applied != nil {
		maps.Copy(keys, p.Applied.ExternalData)
	}
	return s.Billing.ReleaseCustomer(fetched, writes, keys)
}

// decideUnlink plans the release of a payer's customer after a person has decided it is not the payer's. The customer
// gets no more link requests.
func (r *run) decideUnlink(ctx context.Context, d state.Decision, p state.Payer, seen *customerRead) (state.Decision, error) {
	d.Verdict, d.Topic = state.Included, state.TopicLink
	if d.Left {
		d.Verdict = state.Excluded
	}
	d.Customer = &state.NewChange{Action: connector.ActionUpdate, Unlinks: true, BillingID: p.BillingID}
	if seen == nil || seen.missing {
		return d, nil
	}
	released, err := r.releaseOf(ctx, p, seen.customer)
	if err != nil { // the act reports it
		return d, nil
	}
	d.Customer.Diff, d.Customer.Seen = released.Diff, true
	return d, nil
}

// unlink reads a customer wrongly linked, sends the planned reversal, and unlinks the two once a read shows it
// complete.
func (r *run) unlink(ctx context.Context, c state.Change) error {
	fetched, missing, err := r.observeOrMissing(ctx, c)
	if err != nil || fetched == nil && !missing {
		return err
	}
	f, err := r.gatherLinked(ctx, c)
	if err != nil {
		return err
	}
	f.Approved = protocol.Intent{Action: connector.ActionUpdate, Customer: c.Payer.BillingID, Hash: f.Record.Hash,
		Unlinks: true}
	switch step := protocol.Decide(f).Customer; {
	case f.Words.Unlink == 0 && c.State == connector.ChangePending: // it was taken back
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	case step.Do != protocol.Unlink:
		return nil // for requests that may still arrive
	case missing:
		return r.letGo(ctx, c, f)
	}
	released, err := r.releaseOf(ctx, c.Payer, *fetched)
	switch {
	case err != nil:
		return r.closeWith(ctx, c, connector.ChangeFailed, connector.ReasonRejected,
			"The customer in the billing service has a form that cannot be updated safely.")
	case c.State == connector.ChangePending && !slices.Equal(released.Diff, c.Diff): // it differs from the plan
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	case released.Body == nil:
		return r.letGo(ctx, c, f)
	}
	if c.PreImage != nil && c.State != connector.ChangePending {
		if as, err := r.releasesAsFrozen(ctx, c, released); err != nil || !as {
			return errors.Join(err, r.closeWith(ctx, c, connector.ChangeVoid, "", "")) // the next plan shows the present values
		}
	}
	return r.sendRelease(ctx, c, f, *fetched, released.Body)
}

// observeOrMissing is observe for a customer possibly deleted; its absence causes no error.
func (r *run) observeOrMissing(ctx context.Context, c state.Change) (fetched *connector.RemoteCustomer, missing bool, err error) {
	got, ticket, err := r.fetch(ctx, c.Payer.BillingID)
	if missing = connector.FaultOf(err) == connector.FaultNotFound; err != nil && !missing {
		return nil, false, err
	}
	err = r.Ledger.Do(ctx, func(tx *state.Tx) error {
		if missing {
			return reconcile.Missing(tx, c.Payer, ticket)
		}
		_, err := reconcile.Observe(tx, reconcile.OfCustomer(got, ticket, connector.CauseUpdate, r.cause()))
		return err
	})
	switch {
	case errors.Is(err, reconcile.ErrNotYet): // a possibly lagging read
		return nil, false, nil
	case err != nil || missing:
		return nil, missing, err
	}
	return &got, false, nil
}

func (r *run) sendRelease(ctx context.Context, c state.Change, f protocol.Facts, fetched connector.RemoteCustomer,
	body []byte) error {
	if bytes.Equal(c.PreImage, fetched.Raw) && c.Body != nil {
		body = c.Body // nothing changed since the attempt with the lost answer
	}
	kinds, err := r.Billing.Others(fetched.Raw, c.Payer.Applied, connector.Customer{}, r.conn.Mapping.Own())
	if err != nil {
		return err
	}
	release, may, err := r.mayUpdate(ctx, c, kinds)
	if err != nil || !may {
		return err
	}
	defer release()
	var left state.Attempt
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		left, err = tx.FreezeUpdate(r.id, c, body, fetched.Raw)
		return err
	}); err != nil {
		return err
	}
	err = r.Billing.UpdateCustomer(ctx, c.Payer.BillingID, body)
	if ending := r.end(ctx, c, left, err); ending != nil {
		return errors.Join(err, ending)
	}
	if err != nil && connector.FaultOf(err) != connector.FaultNotFound {
		if connector.FaultOf(err) != connector.FaultUnknown {
			r.cameBack()
		}
		return r.requestFailed(ctx, c, err)
	}
	after, missing, err := r.observeOrMissing(connector.WithDrain(ctx, context.WithoutCancel(ctx)), c)
	switch {
	case err != nil || after == nil && !missing:
		return errors.Join(err, r.leaveUnknown(ctx, c, ""))
	case missing:
		return r.letGo(ctx, c, f)
	}
	released, err := r.releaseOf(ctx, c.Payer, *after)
	if err == nil && released.Body == nil || !bytes.Equal(fetched.Raw, after.Raw) { // it has arrived
		if err := r.noteLost(ctx, c, fetched, *after); err != nil {
			return err
		}
	}
	switch {
	case err == nil && released.Body == nil:
		return r.letGo(ctx, c, f)
	case err == nil && c.Attempts+1 < updateTries:
		return r.leaveUnknown(ctx, c, "The billing service took the update and does not show it yet. It is looked at again.")
	}
	return r.closeWith(ctx, c, connector.ChangeFailed, connector.ReasonForeignChange,
		"The billing service does not show the customer without the key that was just taken off.")
}

// letGo unlinks a payer and its customer. A record still to be sent waits for a person to choose its customer.
func (r *run) letGo(ctx context.Context, c state.Change, f protocol.Facts) error {
	detail := ""
	if f.Record.Usability == protocol.Included || f.Record.Usability == protocol.Unfit {
		detail = acceptedGone(c.Payer.BillingID, connector.ReasonUnlinked)
	}
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		return errors.Join(tx.CloseWith(r.id, c, connector.ChangeDone, "", ""), tx.Unlink(c.Payer, detail))
	})
}

// Unlink is the effect of unlinking a payer's customer.
type Unlink struct {
	Payer   state.Payer
	Diff    []connector.FieldChange // the customer's present and future values
	Kept    []string                // paths changed by others since; they stay
	Mandate connector.MandateStatus // of the mandate that stays with it; "" for none
	Missing bool                    // the service says it no longer exists
	From    int64                   // the first change to take back; 0 for the key alone
}

// UnlinkOf reads a payer's customer and returns the effect of unlinking it. from is the change of its adoption: all
// writes since then are reverted. UnlinkOf writes nothing to the ledger.
func (s *Syncer) UnlinkOf(ctx context.Context, p state.Payer, from int64) (Unlink, error) {
	u := Unlink{Payer: p, From: from}
	if p.BillingID == "" || !p.Seen {
		return u, state.ErrNotMovable
	}
	seen, err := (&run{Syncer: s}).readCustomer(ctx, p.BillingID)
	if err != nil {
		return u, err
	}
	if u.Missing = seen.missing; u.Missing {
		return u, nil
	}
	if seen.customer.Mandate != nil {
		u.Mandate = seen.customer.Mandate.Status
	}
	p.Unlink.From = from
	released, err := s.releaseOf(ctx, p, seen.customer)
	u.Diff, u.Kept = released.Diff, released.Kept
	return u, err
}

// SayUnlink notes an operator's decision to unlink a payer's customer. The next plan shows and does the steps in
// UnlinkOf, within the limits.
func (s *Syncer) SayUnlink(ctx context.Context, u Unlink, by Operator) error {
	if by.Reason == "" {
		return fmt.Errorf("unlink a customer: %w", ErrReasonNeeded)
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		// it was said before
		if p, err := tx.PayerByBillingID(u.Payer.BillingID); err != nil || p.Unlink.At != 0 && p.Unlink.From == u.From {
			return err
		}
		return errors.Join(tx.SayUnlink(u.Payer, u.From), tx.Audit(state.Entry{
			Actor: by.Name, Action: "unlink customer",
			Subject: fmt.Sprintf("%s %s %d", u.Payer.SourceID, u.Payer.BillingID, u.From), Reason: by.Reason,
		}))
	})
}

// TakeUnlinkBack notes an operator's decision to keep a payer's customer after all.
func (s *Syncer) TakeUnlinkBack(ctx context.Context, p state.Payer, by Operator) error {
	if by.Reason == "" {
		return fmt.Errorf("keep a customer: %w", ErrReasonNeeded)
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		return errors.Join(tx.TakeUnlinkBack(p), tx.Audit(state.Entry{
			Actor: by.Name, Action: "keep customer", Subject: p.SourceID + " " + p.BillingID, Reason: by.Reason,
		}))
	})
}
