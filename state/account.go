package state

import (
	"context"
	"fmt"
)

// Account is an account of the billing service, as far as a configuration names one.
type Account struct {
	Address     string `json:"address"`     // the service's host, with its port where it has one
	Credentials string `json:"credentials"` // the beginning of a hash of what the service knows us by
}

// String names the account to people.
func (a Account) String() string {
	return fmt.Sprintf("%s with the credentials %s", a.Address, a.Credentials)
}

// ErrOtherAccount means that the ledger belongs to another account of the billing service
// than the configuration names, as far as anybody can tell (fault F77).
type ErrOtherAccount struct {
	Ledger, Config Account
	Why            string // what was looked at, and how it came out
}

// Error says what differs and what to do.
func (e *ErrOtherAccount) Error() string {
	if e.Ledger == e.Config {
		return fmt.Sprintf("the ledger belongs to another account of the billing service at %s than these credentials reach: %s; "+
			"use those of its account, or give this one a ledger of its own (ledger.path)", e.Ledger.Address, e.Why)
	}
	return fmt.Sprintf("the ledger belongs to the billing service at %s, and the configuration now names %s: %s; "+
		"use the old configuration, or give the other account a ledger of its own (ledger.path); "+
		"if it is the same account after all: payersync environment move --reason TEXT", e.Ledger, e.Config, e.Why)
}

// Account returns the account that the ledger belongs to; the zero Account while no run
// has been made.
func (l *Ledger) Account(ctx context.Context) (a Account, err error) {
	if err = l.queryRow(ctx, "SELECT billing_address, billing_credentials FROM ledger").Scan(&a.Address, &a.Credentials); err != nil {
		err = fmt.Errorf("read the ledger's account: %w", err)
	}
	return a, err
}

// LinkedSample returns up to n payers whose customers are not known to be gone, those that
// changed last before others.
func (l *Ledger) LinkedSample(ctx context.Context, n int) ([]Payer, error) {
	return l.payers(ctx, "SELECT "+payerColumns+" FROM payers p WHERE p.billing_id IS NOT NULL AND NOT "+isMissing+
		" ORDER BY p.updated_at DESC, p.connection, p.source_id LIMIT ?", n)
}

// KnowsCustomers reports whether the ledger holds anything that came from a billing
// service, or may have come to one: customers that were listed, or changes that were sent.
func (l *Ledger) KnowsCustomers(ctx context.Context) (knows bool, err error) {
	err = l.queryRow(ctx, `SELECT EXISTS (SELECT 1 FROM remote_customers) OR EXISTS (SELECT 1 FROM changes WHERE state <> 'pending')
		OR EXISTS (SELECT 1 FROM payers WHERE billing_id IS NOT NULL)`).Scan(&knows)
	if err != nil {
		err = fmt.Errorf("look for customers in the ledger: %w", err)
	}
	return knows, err
}

// TakeAccount binds the ledger to the account with its first run, and refuses any other
// with *ErrOtherAccount from then on.
func (tx *Tx) TakeAccount(a Account) error {
	var have Account
	if err := tx.row([]any{&have.Address, &have.Credentials}, "SELECT billing_address, billing_credentials FROM ledger"); err != nil {
		return fmt.Errorf("read the ledger's account: %w", err)
	}
	switch have {
	case a:
		return nil
	case Account{}:
		return tx.setAccount(a)
	}
	return &ErrOtherAccount{Ledger: have, Config: a, Why: "it was moved meanwhile"}
}

// MoveAccount binds the ledger to another account, or to the same one by another name, and
// writes into the audit log who says so and why.
func (tx *Tx) MoveAccount(to Account, by Entry) error {
	by.Action, by.Subject = "move environment", to.String()
	if err := tx.Audit(by); err != nil {
		return err
	}
	return tx.setAccount(to)
}

func (tx *Tx) setAccount(a Account) error {
	return tx.exec("UPDATE ledger SET billing_address = ?, billing_credentials = ?", a.Address, a.Credentials)
}
