package reconcile

import (
	"context"

	"payersync/connector"
	"payersync/state"
)

// ObserveList makes a list pass of the given pages. Together observes each page as Pass does; otherwise its customers
// one by one.
func (r *Reconciler) ObserveList(ctx context.Context, pages [][]connector.RemoteCustomer, together bool) (repaired int,
	otherwise map[string]bool, err error) {
	var list *state.Listing
	if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) { list, err = tx.BeginPass(); return err }); err != nil {
		return 0, nil, err
	}
	otherwise = map[string]bool{}
	for _, page := range pages {
		if err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
			observe := observeEach
			if together {
				observe = observeAll
			}
			shown := listed(list, page)
			all, err := observe(tx, shown)
			for i, seen := range all {
				if repaired += count(seen.Moved); seen.Otherwise {
					otherwise[shown[i].CustomerID] = true
				}
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

func observeEach(tx *state.Tx, shown []Observation) (all []Seen, err error) {
	for _, o := range shown {
		seen, err := Observe(tx, o)
		if err != nil {
			return nil, err
		}
		all = append(all, seen)
	}
	return all, nil
}

// Agreeing returns how many customers of a page are as the ledger knows them. It writes nothing.
func (r *Reconciler) Agreeing(ctx context.Context, page []connector.RemoteCustomer) (n int, err error) {
	return n, r.Ledger.Do(ctx, func(tx *state.Tx) error {
		known, err := tx.Known(listed(&state.Listing{Ticket: 1 << 40}, page)...)
		for _, k := range known {
			if k != nil {
				news, _ := compare(k)
				n += count(agrees(k, news))
			}
		}
		return err
	})
}

// Compare is compare, for tests.
var Compare = compare
