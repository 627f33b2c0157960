package state

import (
	"context"
	"fmt"
	"strings"

	"payersync/connector"
)

// Account is an account of the billing service, as far as a configuration names one.
type Account struct {
	// the service's host, with its port where it has one, and the path of its interface
	Address     string `json:"address"`
	Credentials string `json:"credentials"` // the beginning of a hash of what the service knows us by
}

// String names the account to people.
func (a Account) String() string {
	return fmt.Sprintf("%s with the credentials %s", a.Address, a.Credentials)
}

// SameAddress reports whether two accounts are at one address. Earlier versions noted no
// path.
func (a Account) SameAddress(b Account) bool {
	hostA, pathA, _ := strings.Cut(strings.ToLower(a.Address), "/")
	hostB, pathB, _ := strings.Cut(strings.ToLower(b.Address), "/")
	return hostA == hostB && (pathA == pathB || pathA == "" || pathB == "")
}

// Same reports whether two accounts are known by the same name.
func (a Account) Same(b Account) bool { return a.SameAddress(b) && a.Credentials == b.Credentials }

// ErrOtherAccount means that the ledger probably belongs to another account of the billing service
// than the configured one (fault F77).
type ErrOtherAccount struct {
	Ledger, Config Account
	Why            string // what was looked at, and how it came out
}

// Error names the difference and the next step.
func (e *ErrOtherAccount) Error() string {
	if e.Ledger == e.Config {
		return fmt.Sprintf("the ledger belongs to another account of the billing service at %s than these credentials reach: %s; "+
			"use those of its account, or give this one a ledger of its own (ledger.path)", e.Ledger.Address, e.Why)
	}
	return fmt.Sprintf("the ledger belongs to the billing service at %s, and the configuration now names %s: %s; "+
		"use the old configuration, or give the other account a ledger of its own (ledger.path); "+
		"if it is the same account after all, move the ledger there", e.Ledger, e.Config, e.Why)
}

// Steps returns the step that moves the ledger.
func (e *ErrOtherAccount) Steps() []connector.Step {
	if e.Ledger == e.Config {
		return nil
	}
	return []connector.Step{{Do: connector.DoMoveLedger}}
}

// Account returns the account that the ledger belongs to; the zero Account while no run
// has been made.
func (l *Ledger) Account(ctx context.Context) (a Account, err error) {
	if err = l.queryRow(ctx, "SELECT billing_address, billing_credentials FROM ledger").Scan(&a.Address,
		&a.Credentials); err != nil {
		err = fmt.Errorf("read the ledger's account: %w", err)
	}
	return a, err
}

// LinkedSample returns up to 2n payers whose customers are not known to be gone: the last changed
// and the longest unchanged. Ties are taken from both ends.
func (l *Ledger) LinkedSample(ctx context.Context, n int) ([]Payer, error) {
	const linked = "SELECT p.connection, p.source_id FROM payers p WHERE p.billing_id IS NOT NULL AND NOT " + isMissing +
		" ORDER BY p.updated_at "
	return l.payers(ctx, "SELECT "+payerColumns+" FROM payers p WHERE (p.connection, p.source_id) IN (SELECT * FROM ("+linked+"DESC, p.connection, p.source_id LIMIT ?1) latest UNION SELECT * FROM ("+
		linked+"ASC, p.connection DESC, p.source_id DESC LIMIT ?1) oldest) ORDER BY p.updated_at DESC, p.connection, p.source_id", n)
}

const knowsCustomers = `SELECT EXISTS (SELECT 1 FROM remote_customers) OR EXISTS (SELECT 1 FROM changes WHERE state <> 'pending')
	OR EXISTS (SELECT 1 FROM payers WHERE billing_id IS NOT NULL)`

// KnowsCustomers reports whether the ledger has ever listed customers from a billing service, or
// sent changes to one.
func (l *Ledger) KnowsCustomers(ctx context.Context) (knows bool, err error) {
	if err = l.queryRow(ctx, knowsCustomers).Scan(&knows); err != nil {
		err = fmt.Errorf("look for customers in the ledger: %w", err)
	}
	return knows, err
}

// TakeAccount binds the ledger to the account of its first run. It accepts new credentials at the same
// address: their first user has checked that they reach the same account. A ledger without customers accepts
// a new address; any other refuses it with *ErrOtherAccount.
func (tx *Tx) TakeAccount(a Account, by string) error {
	var have Account
	if err := tx.row([]any{&have.Address, &have.Credentials},
		"SELECT billing_address, billing_credentials FROM ledger"); err != nil {
		return fmt.Errorf("read the ledger's account: %w", err)
	}
	switch {
	case have == a:
		return nil
	case have == Account{}:
		return tx.setAccount(a)
	case have.SameAddress(a):
		return tx.MoveAccount(a, Entry{Actor: by, Reason: "new credentials of the same account"})
	}
	var knows bool
	if err := tx.row([]any{&knows}, knowsCustomers); err != nil {
		return fmt.Errorf("look for customers in the ledger: %w", err)
	}
	if knows {
		return &ErrOtherAccount{Ledger: have, Config: a, Why: "it is another address"}
	}
	return tx.MoveAccount(a, Entry{Actor: by,
		Reason: "nothing had been read from the account before, and nothing sent to it"})
}

// MoveAccount binds the ledger to another account, or to the same one by another name, and records
// the person and the reason in the audit log.
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
