package syncer

import (
	"context"

	"payersync/state"
)

// findStops decides why the connection creates no customers yet, and notes it. Everything else that says so, on
// pages and in commands, reads what this noted (state.Ledger.CreateStops).
//
// Without a believed list, nothing is concluded: what was noted before stays.
func (r *run) findStops(ctx context.Context) error {
	if r.noProof != nil {
		return nil
	}
	return r.Ledger.Do(ctx, func(tx *state.Tx) error {
		stops, err := r.firstMatching(tx)
		if err != nil {
			return err
		}
		_, err = tx.SaveCreateStops(r.conn.Name, stops)
		return err
	})
}

// firstMatching stops the creates of a connection whose payers have no customers yet, while the service has
// customers that belong to no record: each may be one of its payers. A stop that has begun stays when the first
// payers are linked, until a person finishes matching or nobody is left to be matched.
func (r *run) firstMatching(tx *state.Tx) ([]state.CreateStop, error) {
	if !r.Settings.Guards.FirstMatching || r.linkOnly {
		return nil, nil
	}
	m, err := tx.Matching(r.conn.Name)
	if err != nil || m.Finished || m.Begun && !m.Stopped {
		return nil, err
	}
	free, err := tx.FreeCustomers(r.conn.Mapping.KeyName())
	if err != nil || free == 0 {
		return nil, err
	}
	return []state.CreateStop{{Connection: r.conn.Name, Cause: state.CauseFirstMatching, Customers: free}}, nil
}

// stopsOf returns why creates of a plan wait; nothing where it has none.
func (r *run) stopsOf(ctx context.Context, plan state.Plan) ([]state.CreateStop, error) {
	if plan.Creates == 0 {
		return nil, nil
	}
	return r.Ledger.CreateStops(ctx, r.conn.Name)
}
