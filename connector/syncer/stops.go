package syncer

import (
	"context"
	"slices"

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
		m, err := tx.Matching(r.conn.Name)
		if err != nil {
			return err
		}
		var stops []state.CreateStop
		if !r.linkOnly && (!m.Begun || m.Waiting) { // a connection that has created customers is stopped no more
			first, err := r.firstMatching(tx, m)
			if err != nil {
				return err
			}
			same, err := r.sameBooks(tx)
			if err != nil {
				return err
			}
			stops = slices.Concat(first, same)
		}
		_, err = tx.SaveCreateStops(r.conn.Name, stops)
		return err
	})
}

// firstMatching stops the creates of a connection whose payers have no customers yet, while the service has
// customers that belong to no record: each may be one of its payers. A stop that has begun stays when the first
// payers are linked, until a person finishes matching or nobody is left to be matched.
func (r *run) firstMatching(tx *state.Tx, m state.Matching) ([]state.CreateStop, error) {
	if !r.Settings.Guards.FirstMatching || m.Finished || m.Begun && !m.Stopped {
		return nil, nil
	}
	stop, err := tx.CountFirstMatching(r.conn.Name, r.conn.Mapping.KeyName())
	if err != nil || stop.Customers == 0 {
		return nil, err
	}
	return []state.CreateStop{stop}, nil
}

// Records that look like payers of another connection stop a connection from two on, or where they are a tenth of its
// records. One alone may be a customer of two companies: it is shown beside its create, and sent. In books of ten
// records or fewer, one is too large a part to be passed over.
const (
	sameBooksRecords = 2
	sameBooksShare   = 10 // one in so many
)

// sameBooks stops the creates of a connection whose records look like the payers of another one: the books may have
// moved to a new system, and then each of its payers would get a second customer. A person says whether the books moved
// or are another company's.
func (r *run) sameBooks(tx *state.Tx) (stops []state.CreateStop, err error) {
	if !r.Settings.Guards.SameBooks {
		return nil, nil
	}
	ours := state.Books{Connection: r.conn.Name, Kind: r.conn.Info.Kind, Tenant: r.conn.Info.Tenant}
	others, records, err := tx.OtherBooks(r.conn.Name)
	for _, o := range others {
		if (o.Records >= sameBooksRecords || o.Records*sameBooksShare >= records) && !r.Settings.areTwoCompanies(ours, o.Books) {
			stops = append(stops, state.CreateStop{Connection: r.conn.Name, Cause: state.CauseSameBooks, Other: o.Connection, Customers: o.Records})
		}
	}
	return stops, err
}

// areTwoCompanies reports whether the configuration, or the accounting system of both, says that two connections have the
// books of two companies. A connection that is not configured any more may be the one that the other replaces.
func (s Settings) areTwoCompanies(a, b state.Books) bool {
	one, isOne := s.Configured[a.Connection]
	other, isOther := s.Configured[b.Connection]
	switch {
	case !isOne || !isOther:
		return false
	case one != "" && other != "":
		return one != other
	}
	return a.Kind == b.Kind && a.Tenant != "" && b.Tenant != "" && a.Tenant != b.Tenant
}

// stopsOf returns why creates of a plan wait; nothing where it has none.
func (r *run) stopsOf(ctx context.Context, plan state.Plan) ([]state.CreateStop, error) {
	if plan.Creates == 0 {
		return nil, nil
	}
	return r.Ledger.CreateStops(ctx, r.conn.Name)
}
