package session

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/oauth2"

	"payersync/cmd/payersync/internal/config"
	"payersync/connector/reconcile"
	"payersync/state"
)

// settleAccount refuses with *state.ErrOtherAccount when the ledger belongs to another billing account than
// the configured one: its customers must neither be sent there nor judged by the customers there (fault F77).
// An account is recognised by its customers. So new credentials at the same address are accepted if linked
// customers exist there with their keys; OpenBilling stores them. A ledger without customers may go anywhere.
func (s *Session) settleAccount(ctx context.Context) error {
	have, err := s.Ledger.Account(ctx)
	want := s.Config.Account()
	if err != nil || have.Same(want) || have == (state.Account{}) || have.SameAddress(want) &&
		have.Credentials == config.NoCredentials {
		return err
	}
	knows, err := s.Ledger.KnowsCustomers(ctx)
	switch {
	case err != nil || !knows:
		return err
	case !have.SameAddress(want):
		return &state.ErrOtherAccount{Ledger: have, Config: want, Why: "it is another address"}
	}
	return sameAccount(ctx, s.Reconciler, have, want)
}

// sameAccountAs is settleAccount for a session that replaces another, perhaps still at work. Even a ledger
// without customers must stay then: customers being read or created now would belong to the old account.
func (s *Session) sameAccountAs(ctx context.Context, before *Session) error {
	if s.Config.Account().Same(before.Config.Account()) {
		return nil
	}
	knows, err := s.Ledger.KnowsCustomers(ctx)
	if err == nil && !knows {
		err = errors.New("the account of the billing service has changed, and no linked customer identifies it yet; restart payersync serve to use it")
	}
	if err != nil {
		return err
	}
	return s.settleAccount(ctx)
}

// noteAccount stores the ledger's account if none or another name of it is stored. It must run before any
// read that would tie the ledger to the account.
func (s *Session) noteAccount(ctx context.Context) error {
	have, err := s.Ledger.Account(ctx)
	if err != nil || have == s.Config.Account() {
		return err
	}
	return s.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.TakeAccount(s.Config.Account(), "payersync") })
}

// SameAccountBy refuses with *state.ErrOtherAccount when tokens of a new consent reach another billing
// account than the ledger's. It reports false if there is no linked customer to tell by, but customers were
// listed: the list may be of another account.
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
	err = sameAccount(ctx, &reconcile.Reconciler{Ledger: s.Ledger, Billing: client}, have, s.Config.Account())
	return err == nil, err
}

// sameAccount checks that r reaches the ledger's account, as want, and refuses with *state.ErrOtherAccount
// without proof.
func sameAccount(ctx context.Context, r *reconcile.Reconciler, have, want state.Account) error {
	if err := r.Ledger.WaitForIntegrity(ctx); err != nil {
		return err
	}
	found, err := r.Evidence(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("cannot find out whether the new credentials belong to the ledger's account: %w; try again, or use the old ones", err)
	case !found.Proves():
		return &state.ErrOtherAccount{Ledger: have, Config: want, Why: found.String()}
	}
	return nil
}
