package syncer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"payersync/connector"
	"payersync/state"
)

// adoptBare updates a customer chosen by a person and without the record's full key, and links it once a read shows the
// key. Until then the ledger has no link, so nobody misses the key. After an interruption the update stays frozen, and
// the next run reads the customer again.
func (r *run) adoptBare(ctx context.Context, c state.Change, fetched connector.RemoteCustomer) error {
	c.Payer.BillingID = c.BillingID // for the attempt: the payer is linked when it has shown
	return r.merge(ctx, c, fetched)
}

// confirmBare reads the customer after the update with its key, and links it.
func (r *run) confirmBare(ctx context.Context, c state.Change, before connector.RemoteCustomer) error {
	after, ticket, err := r.fetch(connector.WithDrain(ctx, context.WithoutCancel(ctx)), c.BillingID)
	switch {
	case connector.FaultOf(err) == connector.FaultNotFound:
		return r.holdAccepted(ctx, c, connector.ReasonCustomerMissing)
	case err != nil:
		return errors.Join(err, r.leaveUnknown(ctx, c, ""))
	case connector.KeyIn(after.ExternalData, c.Payer.Key.Name) == c.Payer.Key:
	case c.Attempts+1 < updateTries && bytes.Equal(before.Raw, after.Raw):
		return r.leaveUnknown(ctx, c, "The billing service took the update and does not show it yet. It is looked at again.")
	default:
		trip, err := r.tripOf(ctx, c, before, after, []string{"externalData." + c.Payer.Key.Name})
		if err == nil {
			err = r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return r.saveTrip(tx, trip) })
		}
		return errors.Join(err, r.holdAccepted(ctx, c, connector.ReasonForeignChange))
	}
	if _, taken, err := r.linkFetched(context.WithoutCancel(ctx), c, after, ticket); err != nil || !taken {
		return err
	}
	c.Payer.Seen = true
	return r.compare(ctx, c, before, after)
}

// spend puts the link to a chosen customer on hold if it is no longer available, until the person decides
// again.
func (r *run) holdAccepted(ctx context.Context, c state.Change, why connector.Reason) error {
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		tx.HoldLink(c.Payer, connector.LinkHeld, why)
		return errors.Join(tx.AcceptedIsGone(c.Payer.Connection, c.Payer.SourceID, c.BillingID, why),
			tx.CloseWith(r.id, c, connector.ChangeHeld, why, acceptedGone(c.BillingID, why)))
	})
}

// acceptedGone describes the fate of the customer chosen by a person.
func acceptedGone(billingID string, why connector.Reason) string {
	if why == connector.ReasonUnlinked {
		return fmt.Sprintf("A person said that the customer %s, which this record had, is not its own. Nothing is sent for the record before you say who it is.", billingID)
	}
	what := "carries another key, or is linked to another record, by now"
	switch why {
	case connector.ReasonCustomerMissing:
		what = "does not exist any more"
	case connector.ReasonForeignChange:
		what = "did not come to show the key that was written on it"
	}
	return fmt.Sprintf("The customer %s, which was to be this record's, %s. Nothing is sent for the record before you decide again.", billingID, what)
}
