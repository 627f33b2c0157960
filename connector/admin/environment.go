package admin

import (
	"context"

	"payersync/connector/syncer"
	"payersync/state"
)

// Audit notes in the audit log that a person is about to see or export personal data, or to try a write. Without the
// note nothing may be shown or tried.
func Audit(ctx context.Context, ledger *state.Ledger, e state.Entry) error {
	return ledger.Do(ctx, func(tx *state.Tx) error { return tx.Audit(e) })
}

// MoveAccount ties the ledger to another account of the billing service. What the ledger knows of customers is doubted
// as after a restore: nothing is created before the service's list was read again.
func MoveAccount(ctx context.Context, ledger *state.Ledger, account state.Account, by syncer.Operator) error {
	return ledger.Do(ctx, func(tx *state.Tx) error {
		if err := tx.MoveAccount(account, state.Entry{Actor: by.Name, Reason: by.Reason}); err != nil {
			return err
		}
		return tx.MarkRestored()
	})
}

// DoubtCustomers doubts what the ledger knows of customers, as MoveAccount does.
func DoubtCustomers(ctx context.Context, ledger *state.Ledger) error {
	return ledger.Do(ctx, func(tx *state.Tx) error { return tx.MarkRestored() })
}

// TrustUpdates lets updates of a format go on although they have changed other values: a person says that this is
// right.
func TrustUpdates(ctx context.Context, ledger *state.Ledger, format state.UpdateFormat, by syncer.Operator) error {
	return ledger.Do(ctx, func(tx *state.Tx) error {
		if err := tx.SaveRoundTrip(format,
			state.Verification{By: state.TripPerson, Subject: by.Name, Survived: []string{state.TripAny}}); err != nil {
			return err
		}
		return tx.Audit(state.Entry{Actor: by.Name, Action: "trust updates", Subject: format.Address, Reason: by.Reason})
	})
}
