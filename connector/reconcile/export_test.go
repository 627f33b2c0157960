package reconcile

import (
	"context"
	"fmt"

	"payersync/connector"
	"payersync/state"
)

// ObserveList makes a list pass of the given pages. Together observes each page as Pass does; otherwise its customers
// one by one.
func (r *Reconciler) ObserveList(ctx context.Context, pages [][]connector.RemoteCustomer, together bool) (repaired int, otherwise map[string]bool, err error) {
	var list *state.Listing
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) { list, err = tx.BeginPass(); return err }); err != nil {
		return 0, nil, err
	}
	otherwise = map[string]bool{}
	for _, page := range pages {
		if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
			observe := observeEach
			if together {
				observe = observeListed
			}
			res, err := observe(tx, list, page)
			repaired += res.repaired
			for _, id := range res.otherwise {
				otherwise[id] = true
			}
			return err
		}); err != nil {
			return 0, nil, err
		}
	}
	if err := r.Ledger.Compare(ctx, list); err != nil {
		return 0, nil, err
	}
	return repaired, otherwise, r.Ledger.Do(ctx, func(tx *state.Tx) error {
		if err := tx.FinishPass(list); err != nil {
			return err
		}
		_, err := holdDoubled(tx)
		return err
	})
}

func observeEach(tx *state.Tx, list *state.Listing, page []connector.RemoteCustomer) (res observed, err error) {
	for _, c := range page {
		o := OfCustomer(c, list.Ticket, connector.CauseSweep, fmt.Sprint(list.Pass))
		o.List = list
		seen, err := Observe(tx, o)
		if err != nil {
			return res, err
		}
		res.repaired += count(seen.Moved)
		if seen.Otherwise {
			res.otherwise = append(res.otherwise, c.ID)
		}
	}
	return res, nil
}

// Agreeing returns how many customers of a page are as the ledger knows them. It writes nothing.
func (r *Reconciler) Agreeing(ctx context.Context, page []connector.RemoteCustomer) (n int, err error) {
	return n, r.Ledger.Do(ctx, func(tx *state.Tx) error {
		known, err := tx.AskOfPage(&state.Listing{Ticket: 1 << 40}, page)
		for _, c := range page {
			if k := known[c.ID]; k != nil && agrees(k, c) {
				n++
			}
		}
		return err
	})
}
