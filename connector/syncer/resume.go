package syncer

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"payersync/connector"
	"payersync/state"
)

// resumeUpdate continues a frozen update without an answer. It compares the customer with the frozen body and with its
// earlier state:
//
//   - it shows the sent values: the update is done;
//   - it shows the earlier values: the update is sent again;
//   - it shows other values in our fields: somebody wrote them meanwhile, so nothing is sent and a
//     person is told.
//
// Foreign members come from the read in each case, so none gets lost.
func (r *run) resumeUpdate(ctx context.Context, c state.Change, fetched connector.RemoteCustomer) error {
	own := r.conn.Mapping.Own()
	if _, differs, err := r.Billing.MergeCustomer(fetched, &c.Wanted, c.Wanted, own); err == nil && !differs {
		return r.closeShown(ctx, c, fetched)
	}
	base, err := r.base(ctx, c.Payer)
	if err != nil {
		return err
	}
	before, errBefore := r.Billing.MergeDiff(connector.RemoteCustomer{ID: fetched.ID, Raw: c.PreImage}, base, c.Wanted,
		own)
	now, errNow := r.Billing.MergeDiff(fetched, base, c.Wanted, own)
	// an incomparable value cannot be merged; merge reports it
	if errBefore != nil || errNow != nil || sameEffect(before, now) {
		return r.merge(ctx, c, fetched)
	}
	return r.closeOverwritten(ctx, c, fetched, nil,
		fmt.Sprintf("The answer to the last update was lost. By now the customer shows neither what was there before it nor what was sent: %s. "+
			"Somebody changed it meanwhile, so nothing was sent again.", JoinPaths(movedMeanwhile(before, now))))
}

// sameEffect reports whether two lists name the same changes, wherever in a list the
// elements stand.
func sameEffect(a, b []connector.FieldChange) bool {
	return slices.Equal(placeless(a), placeless(b))
}

// placeless returns changes without the places of elements in their lists, sorted.
func placeless(changes []connector.FieldChange) []connector.FieldChange {
	out := slices.Clone(changes)
	for i := range out {
		out[i].Path = listIndex.ReplaceAllString(out[i].Path, "[]")
	}
	slices.SortFunc(out, func(a, b connector.FieldChange) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return out
}

// movedMeanwhile returns the paths of new changes: the update would make them now, but not before.
func movedMeanwhile(before, now []connector.FieldChange) (paths []string) {
	had := placeless(before)
	for _, c := range now {
		if !slices.Contains(had, placeless([]connector.FieldChange{c})[0]) {
			paths = append(paths, c.Path)
		}
	}
	return paths
}

// releasesAsFrozen reports whether releasing a customer has the same effect as at the time its update was frozen, so no
// later edit is affected.
func (r *run) releasesAsFrozen(ctx context.Context, c state.Change, released connector.Release) (bool, error) {
	before, err := r.releaseOf(ctx, c.Payer, connector.RemoteCustomer{ID: c.Payer.BillingID, Raw: c.PreImage})
	return err == nil && sameEffect(before.Diff, released.Diff), err
}
