package syncer

import (
	"context"
	"fmt"
	"slices"

	"payersync/connector/match"
	"payersync/state"
)

// mostAccounts is how many other customers of records of the same books may look like one payer. A payer with more has many
// accounts, as state.Ledger.Twins has it too.
const mostAccounts = 5

// Duplicates is the result of FindDuplicates.
type Duplicates struct {
	Skipped bool // no reading of the service's list is believed, so nothing was compared
	Records int  // records of which a second customer is told
}

// FindDuplicates compares the customers that payers are linked to, of all connections, with every customer of the index, and
// keeps the pairs that are near-certain to be two customers of one payer (match.DuplicateLevel). It reads nothing from the
// service: the index holds the newest believed list and what was read since. What is told of the pairs is computed by the
// ledger, and ends when a person has decided, when a customer is gone, or when the two match no more.
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

// linkedRecords yields what payers' customers were last written as, each under its customer's id.
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

// withoutAccounts returns pairs without those of two records of the same books that are probably meant to be two: they have
// different addresses there, or the payer has many accounts.
func (s *Syncer) withoutAccounts(ctx context.Context, pairs []match.Pair) ([]match.Pair, error) {
	books := map[string]string{} // connection of a customer's record
	for _, p := range pairs {
		books[p.Record], books[p.Customer] = "", ""
	}
	for page, err := range s.Ledger.LinkedPages(ctx) {
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if _, asked := books[p.BillingID]; asked {
				books[p.BillingID] = p.Connection
			}
		}
	}
	together := func(p match.Pair) bool { return books[p.Record] != "" && books[p.Record] == books[p.Customer] }
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
