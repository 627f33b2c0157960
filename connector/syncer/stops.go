package syncer

import (
	"context"
	"slices"

	"payersync/state"
)

// findStops decides whether to stop the connection's creates, and notes the reasons. Pages and commands show only these
// notes (state.Ledger.CreateStops).
//
// Without a trusted list, the earlier notes stay.
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
		if !r.linkOnly && (!m.Begun || m.Waiting) { // a connection with created customers is no longer stopped
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

// firstMatching stops the creates of a connection without linked customers while the service has unmatched customers:
// each may be one of its payers. A stop continues after the first links, until a person finishes matching or no
// unmatched customers are left.
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

// Two records similar to payers of another connection stop a connection; so does one, if it is a tenth of its
// records. A single record may be a customer of two companies: it is shown with its create, and sent. In a
// connection of ten records or fewer, one is too large a share to ignore.
const (
	sameBooksRecords = 2
	sameBooksShare   = 10 // one in so many
)

// sameBooks stops the creates of a connection if its records look like the payers of another connection. The
// records may have moved to a new system, and each of its payers would get a second customer. A person
// decides whether the records moved or belong to another company.
func (r *run) sameBooks(tx *state.Tx) (stops []state.CreateStop, err error) {
	if !r.Settings.Guards.SameBooks {
		return nil, nil
	}
	ours := state.Books{Connection: r.conn.Name, Kind: r.conn.Info.Kind, Tenant: r.conn.Info.Tenant}
	others, records, err := tx.OtherBooks(r.conn.Name)
	for _, o := range others {
		if (o.Records >= sameBooksRecords || o.Records*sameBooksShare >= records) &&
			!r.Settings.areTwoCompanies(ours, o.Books) {
			stops = append(stops, state.CreateStop{Connection: r.conn.Name, Cause: state.CauseSameBooks, Other: o.Connection,
				Customers: o.Records})
		}
	}
	return stops, err
}

// areTwoCompanies reports whether two connections belong to two companies, by the configuration or by both
// accounting systems. A connection no longer configured may have been replaced by the other.
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

// stopsOf returns the reasons for holding a plan's creates; none for a plan without creates.
func (r *run) stopsOf(ctx context.Context, plan state.Plan) ([]state.CreateStop, error) {
	if plan.Creates == 0 {
		return nil, nil
	}
	return r.Ledger.CreateStops(ctx, r.conn.Name)
}
