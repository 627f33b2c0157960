package session

import (
	"context"
	"fmt"

	"golang.org/x/oauth2"

	"payersync/connector/reconcile"
	"payersync/state"
)

// settleAccount refuses with *state.ErrOtherAccount when the ledger belongs to another account
// of the billing service than the configuration names: what it holds must be neither sent
// there nor judged by what is there (fault F77). An account is known by its customers, so new
// credentials at the same address are taken when a linked customer is there with its key, and
// noted in the ledger if note says so. A ledger that knows no customers may go anywhere.
func (s *Session) settleAccount(ctx context.Context, note bool) error {
	have, err := s.Ledger.Account(ctx)
	want := s.Config.Account()
	if err != nil || have == want || have == (state.Account{}) {
		return err
	}
	knows, err := s.Ledger.KnowsCustomers(ctx)
	if err != nil {
		return err
	}
	why := "nothing had been read from the account before, and nothing sent to it"
	if knows {
		if have.Address != want.Address {
			return &state.ErrOtherAccount{Ledger: have, Config: want, Why: "it is another address"}
		}
		found, err := sameAccount(ctx, s.Reconciler, have, want)
		if err != nil {
			return err
		}
		why = "new credentials: " + found.String()
	}
	if !note {
		return nil
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.MoveAccount(want, state.Entry{Actor: "payersync", Reason: why})
	})
}

// SameAccountBy refuses with *state.ErrOtherAccount when tokens, of a consent that is not kept
// yet, reach another account of the billing service than the ledger belongs to. It reports
// false where no customer is linked by which that could be told, and customers were listed:
// what the list showed may be of another account.
func (s *Session) SameAccountBy(ctx context.Context, tokens oauth2.TokenSource) (proven bool, err error) {
	have, err := s.Ledger.Account(ctx)
	if err != nil {
		return false, err
	}
	linked, err := s.Ledger.LinkedSample(ctx, 1)
	if err != nil {
		return false, err
	}
	if len(linked) == 0 {
		knows, err := s.Ledger.KnowsCustomers(ctx)
		return !knows, err
	}
	client, err := s.newBilling(tokens)
	if err != nil {
		return false, err
	}
	_, err = sameAccount(ctx, &reconcile.Reconciler{Ledger: s.Ledger, Billing: client}, have, s.Config.Account())
	return err == nil, err
}

// sameAccount looks whether r reaches, as want, the account that the ledger belongs to, and
// refuses with *state.ErrOtherAccount when no linked customer is there.
func sameAccount(ctx context.Context, r *reconcile.Reconciler, have, want state.Account) (reconcile.Evidence, error) {
	found, err := r.Evidence(ctx)
	switch {
	case err != nil:
		return found, fmt.Errorf("it cannot be told whether the new credentials reach the account that the ledger belongs to: %w; try again, or use the old ones", err)
	case found.Customer == "":
		return found, &state.ErrOtherAccount{Ledger: have, Config: want, Why: found.String()}
	}
	return found, nil
}
