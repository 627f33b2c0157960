package syncer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/connector/reconcile"
	"payersync/state"
)

// update reads the customer, asks package protocol what is next for it, merges and sends
// (connector/RULES.md#fetch-merge-send).
func (r *run) update(ctx context.Context, c state.Change) error {
	if c.Unlinks {
		return r.unlink(ctx, c)
	}
	fetched, err := r.observe(ctx, c, connector.CauseUpdate)
	if err != nil || fetched == nil {
		return err
	}
	if !c.Payer.Seen && len(fetched.ExternalData) == 0 {
		return nil // a new customer without its key yet: reported, and read again
	}
	f, err := r.gatherUpdate(ctx, c)
	if err != nil {
		return err
	}
	next := protocol.Decide(f)
	switch step := next.Customer; {
	case step.Do == protocol.Tell:
		return r.hold(ctx, c, next.Link, step.Reason, "")
	case f.Record.Usability != protocol.Included: // nobody asks for it any more
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	case step.Do == protocol.Update, step.Do == protocol.Nothing, step.Do == protocol.Later:
		return r.mergeAsShown(ctx, c, *fetched, f.Look.Holds)
	}
	return nil // it cannot be read yet
}

// mergeAsShown calls merge if the update does to the customer exactly the planned changes; otherwise the record is
// planned again. An update already sent continues in resumeUpdate. holds is the hash of our values in the read.
func (r *run) mergeAsShown(ctx context.Context, c state.Change, fetched connector.RemoteCustomer, holds string) error {
	if c.State == connector.ChangePending {
		base, err := r.base(ctx, c.Payer)
		if err != nil {
			return err
		}
		if r.isEcho(c, fetched, base, holds) {
			if err := r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.NoteEcho(c.Payer) }); err != nil {
				return err
			}
		}
		// an incomparable value cannot be merged; merge reports it
		if as, err := r.asShown(c, fetched, base, holds != "" && holds == c.Payer.AppliedHash); err == nil && !as {
			return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
		}
	}
	return r.mergeOrResume(ctx, c, fetched)
}

// mergeOrResume is merge, and resumeUpdate for what was sent already.
func (r *run) mergeOrResume(ctx context.Context, c state.Change, fetched connector.RemoteCustomer) error {
	if c.PreImage != nil && c.State != connector.ChangePending {
		return r.resumeUpdate(ctx, c, fetched)
	}
	return r.merge(ctx, c, fetched)
}

// gatherUpdate gathers the facts about a payer after its customer was read for an approved update. The plan has already
// decided on values confirmed or overwritten at that time.
func (r *run) gatherUpdate(ctx context.Context, c state.Change) (protocol.Facts, error) {
	f, err := r.gatherLinked(ctx, c)
	f.Record.Hash = c.Wanted.Hash()
	f.Approved = protocol.Intent{Action: connector.ActionUpdate, Customer: c.Payer.BillingID, Hash: f.Record.Hash}
	f.Link.Confirmed, f.Link.Answered = "", ""
	return f, err
}

// gatherLinked gathers the facts about a payer, including its current record, after its customer was read for a change.
func (r *run) gatherLinked(ctx context.Context, c state.Change) (protocol.Facts, error) {
	stored, err := r.Ledger.StoredRecord(ctx, c.Payer.Connection, c.Payer.SourceID, r.conn.Mapping.Version())
	if err != nil {
		return protocol.Facts{}, err
	}
	return r.factsOf(ctx, stored)
}

// merge puts what is wanted into what was fetched and sends it, unless nothing
// of ours differs.
func (r *run) merge(ctx context.Context, c state.Change, fetched connector.RemoteCustomer) error {
	base, err := r.base(ctx, c.Payer)
	if err != nil {
		return err
	}
	c.Payer.Applied = base
	body, changed, err := r.Billing.MergeCustomer(fetched, base, c.Wanted, r.conn.Mapping.Own())
	if err != nil {
		return r.closeWith(ctx, c, connector.ChangeFailed, connector.ReasonRejected,
			"The customer in the billing service has a form that cannot be updated safely.")
	}
	if !changed {
		return r.closeShown(ctx, c, fetched)
	}
	if bytes.Equal(c.PreImage, fetched.Raw) && c.Body != nil {
		body = c.Body // nothing changed since the attempt with the lost answer
	}
	kinds, err := r.Billing.Others(fetched.Raw, base, c.Wanted, r.conn.Mapping.Own())
	if err != nil {
		return err
	}
	release, may, err := r.mayUpdate(ctx, c, kinds)
	if err != nil || !may {
		return err
	}
	defer release()
	var left state.Attempt
	err = r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		left, err = tx.FreezeUpdate(r.id, c, body, fetched.Raw)
		return err
	})
	switch {
	case errors.Is(err, state.ErrKeyDoubled):
		return r.hold(ctx, c, connector.LinkConflict, connector.ReasonKeyDoubled, "")
	case errors.Is(err, state.ErrKeyFound), errors.Is(err, state.ErrKeyTaken):
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "") // planned again, over the new facts
	case err != nil:
		return err
	}
	err = r.Billing.UpdateCustomer(ctx, c.Payer.BillingID, body)
	if ending := r.end(ctx, c, left, err); ending != nil {
		return errors.Join(err, ending)
	}
	if err == nil || connector.FaultOf(err) == connector.FaultNotFound { // a read finds the customer, if any
		return r.confirmUpdate(ctx, c, fetched)
	}
	if connector.FaultOf(err) != connector.FaultUnknown {
		r.cameBack()
	}
	return r.requestFailed(ctx, c, err)
}

// closeShown closes an update with nothing left to send. If an earlier try sent it and no other value changed, the
// update verifies the write format. If other values changed meanwhile, it verifies nothing.
func (r *run) closeShown(ctx context.Context, c state.Change, fetched connector.RemoteCustomer) error {
	var trip *state.Verification
	if c.Body != nil && c.PreImage != nil {
		var err error
		if trip, err = r.tripOf(ctx, c, connector.RemoteCustomer{Raw: c.PreImage}, fetched, nil); err != nil {
			return err
		}
		if trip != nil && len(trip.Lost) > 0 {
			trip = nil
		}
	}
	c.Wanted = c.Wanted.WithIDs(fetched.People)
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		return errors.Join(tx.CloseDone(r.id, c), reconcile.KeepRead(tx, c.Payer, c.Wanted, fetched), r.saveTrip(tx, trip))
	})
}

// confirmUpdate reads the customer after an update. Our values must be as wanted, in any format of the service, and no
// other value may have changed. Until then the outcome counts as unknown. The read is sent even during a drain, because
// it finishes a request in flight.
func (r *run) confirmUpdate(ctx context.Context, c state.Change, before connector.RemoteCustomer) error {
	if c.OnBare() {
		return r.confirmBare(ctx, c, before)
	}
	after, err := r.observe(connector.WithDrain(ctx, context.WithoutCancel(ctx)), c, connector.CauseUpdate)
	if err != nil {
		return errors.Join(err, r.leaveUnknown(ctx, c, ""))
	}
	if after == nil {
		return nil
	}
	return r.compare(ctx, c, before, *after)
}

// compare closes an update by a later read.
func (r *run) compare(ctx context.Context, c state.Change, before, after connector.RemoteCustomer) error {
	own := r.conn.Mapping.Own()
	_, differs, err := r.Billing.MergeCustomer(after, &c.Wanted, c.Wanted, own)
	if err != nil || differs {
		return r.notShown(ctx, c, before, after)
	}
	paths, err := r.Billing.ForeignChanges(before.Raw, after.Raw, c.Payer.Applied, c.Wanted, own)
	if err != nil {
		return r.closeOverwritten(ctx, c, after, nil, "")
	}
	trip, err := r.tripOf(ctx, c, before, after, nil)
	if err != nil {
		return err
	}
	c.Wanted = c.Wanted.WithIDs(after.People)
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		if err := r.saveTrip(tx, trip); err != nil { // before this update counts as a change
			return err
		}
		err := tx.CloseConfirmed(r.id, c, withoutIndexes(paths),
			fmt.Sprintf("While the customer was being updated, fields that are not ours changed: %s. "+
				"Fields that the service itself changes with every update belong under billing.dialect.read_only.",
				JoinPaths(paths)))
		return errors.Join(err, reconcile.KeepRead(tx, c.Payer, c.Wanted, after))
	})
}

// notShown closes an update if a read does not show the sent values. If the read shows the customer unchanged, it may
// lag behind, so notShown first schedules another read.
func (r *run) notShown(ctx context.Context, c state.Change, before, after connector.RemoteCustomer) error {
	if c.Attempts+1 < updateTries && bytes.Equal(before.Raw, after.Raw) {
		return r.leaveUnknown(ctx, c, "The billing service took the update and does not show it yet. It is looked at again.")
	}
	paths, err := r.Billing.NotShown(after.Raw, c.Wanted, r.conn.Mapping.Own())
	if err != nil || len(paths) == 0 {
		return r.closeOverwritten(ctx, c, after, nil, "The billing service does not show what was just sent.")
	}
	trip, err := r.tripOf(ctx, c, before, after, paths)
	if err != nil {
		return err
	}
	return r.closeOverwritten(ctx, c, after, trip,
		fmt.Sprintf("The billing service does not show what was just sent: %s.%s", JoinPaths(paths), spelledBy(paths)))
}

// spelledBy names the settings for the field spelling of paths.
func spelledBy(paths []string) string {
	var settings []string
	for _, path := range paths {
		if s := spelling(path); s != "" && !slices.Contains(settings, s) {
			settings = append(settings, s)
		}
	}
	if len(settings) == 0 {
		return ""
	}
	return fmt.Sprintf(" If it is so for every customer, compare %s with the service's spelling.",
		strings.Join(settings, " and "))
}

// spelling names the setting for the service's spelling of a field; "" for none.
func spelling(path string) string {
	for _, at := range []struct{ prefix, setting string }{
		{"people", "billing.dialect.person_fields"}, {"addresses", "billing.dialect.address_fields"},
		{"externalData", "billing.dialect.external_data"},
	} {
		if strings.HasPrefix(path, at.prefix) {
			return at.setting
		}
	}
	return ""
}

// withoutIndexes returns the paths without list indexes, so the same field of two customers has one path.
func withoutIndexes(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = listIndex.ReplaceAllString(p, "[]")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var listIndex = regexp.MustCompile(`\[[0-9]+\]`)

// closeOverwritten closes an answered update after somebody else changed the customer at once: the read shows after.
// The sent values are the last known values of ours on the customer. trip is the verification of the write format; nil
// for none.
func (r *run) closeOverwritten(ctx context.Context, c state.Change, after connector.RemoteCustomer,
	trip *state.Verification, detail string) error {
	err := r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		p := c.Payer
		p.AppliedHash, p.Shows = c.Wanted.Hash(), c.Wanted.Hash()
		return errors.Join(r.saveTrip(tx, trip), tx.SetApplied(p, c.Wanted), tx.SetShown(p, false),
			reconcile.KeepRead(tx, p, c.Wanted, after),
			tx.CloseWith(r.id, c, connector.ChangeFailed, connector.ReasonForeignChange, detail))
	})
	if err == nil {
		r.reportFailed(c, connector.ReasonForeignChange)
	}
	return err
}

// JoinPaths names a few paths and how many more there are.
func JoinPaths(paths []string) string {
	const show = 5
	text := ""
	for i, p := range paths {
		if i == show {
			return fmt.Sprintf("%s and %d more", text, len(paths)-show)
		}
		if i > 0 {
			text += ", "
		}
		text += p
	}
	return text
}
