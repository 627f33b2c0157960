package syncer

import (
	"context"

	"golang.org/x/sync/errgroup"

	"payersync/connector"
	"payersync/state"
)

const (
	planPage  = 500 // records planned in one commit
	listPage  = 100 // customers on a page of the service's list, for comparing costs
	lookPages = 100 // the pages always worth a second reading
)

// makePlan decides on every record changed or possibly affected by a change, and gathers the pending changes into one
// plan.
func (r *run) makePlan(ctx context.Context) (state.Plan, error) {
	if r.Settings.SameMandate {
		if err := r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.ReplanLost(r.conn.Name) }); err != nil {
			return state.Plan{}, err
		}
	}
	if err := r.learnLikenesses(ctx); err != nil {
		return state.Plan{}, err
	}
	if err := r.lookForCustomers(ctx); err != nil {
		return state.Plan{}, err
	}
	if err := r.lookForTwoWay(ctx); err != nil {
		return state.Plan{}, err
	}
	if err := r.planAll(ctx); err != nil {
		return state.Plan{}, err
	}
	if err := r.findStops(ctx); err != nil {
		return state.Plan{}, err
	}
	nothing, err := r.Ledger.PlansNothing(ctx, r.conn.Name)
	if err != nil {
		return state.Plan{}, err
	}
	if nothing && !r.edited {
		r.empty = state.PlanDraft
		return state.Plan{Connection: r.conn.Name, RunID: r.id, Mapping: r.conn.Mapping.Version(), State: state.PlanDraft,
			CreatedAt: r.Ledger.Now()}, nil
	}
	var plan state.Plan
	if err := r.Ledger.DoAlone(ctx, func(tx *state.Tx) (err error) {
		if err := r.noteReading(tx); err != nil {
			return err
		}
		plan, err = tx.FinishPlan(r.id, r.conn.Name, r.conn.Mapping.Version(), r.Settings.Guards.tooMany)
		return err
	}); err != nil {
		return plan, err
	}
	r.notes = nil
	return r.guard(ctx, plan)
}

// saveEmptyPlan saves the plan of a run with nothing to do. It exceeds no limit and needs no approval.
func (r *run) saveEmptyPlan(tx *state.Tx) error {
	if r.empty == "" {
		return nil
	}
	return tx.SaveEmptyPlan(r.plan, r.empty)
}

// planAll decides on every candidate. Afterwards it decides again on records with a key newly shared, or no longer
// shared, with a record decided later, and on probable duplicates of such a record.
func (r *run) planAll(ctx context.Context) error {
	defer r.reportNotCarried()
	planned, err := r.planRecords(ctx)
	if err != nil {
		return err
	}
	if err := r.Ledger.IndexLikenesses(ctx); err != nil {
		return err
	}
	pending, err := r.Ledger.PendingCount(ctx, r.conn.Name, state.LaneCustomer)
	if err != nil || r.first.planned+planned+pending == 0 { // pending: a plan may have been interrupted right here
		return err
	}
	var woken int64
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		if woken, err = tx.WakeRivals(r.conn.Name, r.conn.Info.Snapshot); err != nil || r.Settings.Adopt == AdoptExact {
			return err
		}
		twins, err := tx.ReplanSimilar(r.conn.Name, r.conn.Info.Snapshot)
		woken += twins
		return err
	}); err != nil || woken == 0 {
		return err
	}
	_, err = r.planRecords(ctx)
	return err
}

// lookForCustomers makes sure the index knows the service's customers before records without a customer are planned,
// and compares those records with them.
func (r *run) lookForCustomers(ctx context.Context) error {
	if err := r.matchNews(ctx); err != nil { // it may have records planned again
		return err
	}
	unlinked, err := r.Ledger.UnlinkedCandidates(ctx, r.conn.Name, r.conn.Mapping.Version(), r.conn.Info.Snapshot)
	if err != nil {
		return err
	}
	begun, err := r.Ledger.UnfinishedCount(ctx, r.conn.Name) // also by a run that ended before it compared them
	if unlinked += max(r.first.planned, begun); err != nil || unlinked == 0 {
		return err
	}
	if err := r.trustIndex(ctx, unlinked); err != nil {
		return err
	}
	return r.match(ctx)
}

// planRecords decides on every candidate, page by page. The next page is decided
// while one is saved: no decision looks at what another has just said.
func (r *run) planRecords(ctx context.Context) (planned int, err error) {
	pages := make(chan []state.Decision)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(pages)
		return connector.Guard(func() error { return r.decideAll(ctx, pages) })
	})
	group.Go(func() error {
		for page := range pages {
			if err := connector.Guard(func() error { return r.saveDecisions(ctx, page) }); err != nil {
				return err
			}
			planned += len(page)
			r.progress("plan", planned, 0)
		}
		return nil
	})
	err = group.Wait()
	return planned, err
}

func (r *run) decideAll(ctx context.Context, pages chan<- []state.Decision) error {
	after := ""
	for {
		candidates, err := r.Ledger.Candidates(ctx, r.conn.Name, r.conn.Mapping.Version(), r.conn.Info.Snapshot, after,
			planPage)
		if err != nil || len(candidates) == 0 {
			return err
		}
		decisions, err := r.decidePage(ctx, candidates)
		if err != nil {
			return err
		}
		select {
		case pages <- decisions:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		after = candidates[len(candidates)-1].Record.SourceID
	}
}

func (r *run) saveDecisions(ctx context.Context, decisions []state.Decision) error {
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.SaveDecisions(r.id, r.conn.Name, r.conn.Mapping.Version(), decisions...)
	}); err != nil || r.opts.Decided == nil {
		return err
	}
	for _, d := range decisions {
		r.opts.Decided(r.id, d)
	}
	return nil
}

// reportNotCarried reports the values of new customers without a place in the service.
func (r *run) reportNotCarried() {
	if r.cuts.Load() {
		r.addNote("The country of new customers is not sent: the short spelling of addresses has none. If the service takes the long one, set billing.dialect.address_fields: long.")
	}
}
