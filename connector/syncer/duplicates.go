package syncer

import (
	"context"
	"fmt"
	"slices"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/state"
)

// mostAccounts is how many other customers of the same connection's records may look like one payer. A payer
// with more has many accounts, as state.Ledger.Twins has it too.
const mostAccounts = 5

// Duplicates is the result of FindDuplicates.
type Duplicates struct {
	Skipped bool // no reading of the service's list is believed, so nothing was compared
	Records int  // records with a finding about a second customer
}

// FindDuplicates compares the linked customers of all connections with all customers of the index. It stores the pairs
// almost certain to be two customers of one payer (match.DuplicateLevel). It sends no requests: the index holds the
// newest trusted list and later reads. The ledger computes the findings. A finding ends after a person's decision,
// after a deletion, or when the two customers no longer match.
func (s *Syncer) FindDuplicates(ctx context.Context) (Duplicates, error) {
	index, err := s.Ledger.Index(ctx, s.Reconciler.Lookup.Quarantine)
	if err != nil {
		return Duplicates{}, err
	}
	if skipped := index.Believed.IsZero(); !skipped {
		pairs, err := match.Duplicates(ctx, s.linkedRecords(ctx), s.indexed(ctx), match.Settings{})
		if err != nil {
			return Duplicates{}, fmt.Errorf("compare customers with each other: %w", err)
		}
		if pairs, err = s.withoutAccounts(ctx, pairs); err != nil {
			return Duplicates{}, err
		}
		found := make([]state.DuplicateCustomers, len(pairs))
		for i, p := range pairs {
			found[i] = state.DuplicateCustomers{BillingID: p.Record, OtherID: p.Customer, Score: p.Score, Reasons: p.Codes}
		}
		if err := s.Ledger.DoAlone(ctx, func(tx *state.Tx) error { return tx.SaveDuplicates(found) }); err != nil {
			return Duplicates{}, err
		}
	}
	n, err := s.Ledger.CountDuplicates(ctx)
	return Duplicates{Skipped: index.Believed.IsZero(), Records: n}, err
}

// linkedRecords yields the last written values of payers' customers, each under its customer's id.
func (s *Syncer) linkedRecords(ctx context.Context) match.Pages[match.Record] {
	return func(yield func([]match.Record, error) bool) {
		for page, err := range s.Ledger.LinkedPages(ctx) {
			var records []match.Record
			for _, p := range page {
				if p.Applied != nil {
					records = append(records, match.Record{ID: p.BillingID, Want: *p.Applied})
				}
			}
			if !yield(records, err) || err != nil {
				return
			}
		}
	}
}

// holder is the company of a customer, as far as known.
type holder struct {
	connection string // of the payer that is linked to it; "" for none
	scope      string // of the key that it carries; "" for none
}

// holders returns the companies of the customers in pairs.
func (s *Syncer) holders(ctx context.Context, pairs []match.Pair) (map[string]holder, error) {
	out := map[string]holder{}
	for _, p := range pairs {
		out[p.Record], out[p.Customer] = holder{}, holder{}
	}
	names, err := s.Ledger.KeyNames(ctx)
	if err != nil {
		return nil, err
	}
	for page, err := range s.Ledger.Profiles(ctx) {
		if err != nil {
			return nil, err
		}
		for _, c := range page {
			if _, asked := out[c.ID]; asked {
				out[c.ID] = holder{scope: scopeOf(c.RemoteCustomer, names)}
			}
		}
	}
	for page, err := range s.Ledger.LinkedPages(ctx) {
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if _, asked := out[p.BillingID]; asked {
				out[p.BillingID] = holder{p.Connection, p.Key.Scope}
			}
		}
	}
	return out, nil
}

// scopeOf returns the scope of the first key among names on a customer; "" for none.
func scopeOf(c connector.RemoteCustomer, names []string) string {
	return connector.First(names, func(name string) string { return connector.KeyIn(c.ExternalData, name).Scope })
}

// withoutAccounts returns pairs without intended duplicates. These are customers of two companies, and two
// records of the same connection with different addresses or with a payer with many accounts.
func (s *Syncer) withoutAccounts(ctx context.Context, pairs []match.Pair) ([]match.Pair, error) {
	have, err := s.holders(ctx, pairs)
	if err != nil {
		return nil, err
	}
	apart, err := s.companies(ctx)
	if err != nil {
		return nil, err
	}
	pairs = slices.DeleteFunc(pairs, func(p match.Pair) bool { return apart(have[p.Record], have[p.Customer]) })
	together := func(p match.Pair) bool {
		a, b := have[p.Record].connection, have[p.Customer].connection
		return a != "" && a == b
	}
	others := map[string]int{}
	for _, p := range pairs {
		if together(p) {
			others[p.Record]++
			others[p.Customer]++
		}
	}
	return slices.DeleteFunc(pairs, func(p match.Pair) bool {
		return together(p) && (match.AtAnotherPlace(p.Codes) || max(others[p.Record], others[p.Customer]) > mostAccounts)
	}), nil
}

// companies returns a function to report whether two customers belong to two companies, each with its own customer for
// the same payer. An unlinked customer belongs to another company if its key has another scope.
func (s *Syncer) companies(ctx context.Context) (apart func(a, b holder) bool, err error) {
	sources, err := s.Ledger.Sources(ctx)
	if err != nil {
		return nil, err
	}
	books := map[string]state.Books{}
	for _, c := range sources {
		books[c.Connection] = state.Books{Connection: c.Connection, Kind: c.Kind, Tenant: c.Tenant}
	}
	decided, err := s.Ledger.ConnectionDecisions(ctx)
	separate := map[[2]string]bool{}
	for _, d := range decided {
		if d.Decision == state.BooksSeparate {
			separate[[2]string{d.Old, d.New}], separate[[2]string{d.New, d.Old}] = true, true
		}
	}
	return func(a, b holder) bool {
		if a.connection == "" || b.connection == "" {
			return a.scope != "" && b.scope != "" && a.scope != b.scope
		}
		return separate[[2]string{a.connection, b.connection}] ||
			s.Settings.areTwoCompanies(books[a.connection], books[b.connection])
	}, err
}
