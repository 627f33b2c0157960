package admin

import (
	"context"
	"slices"

	"payersync/connector/syncer"
	"payersync/state"
)

// Stops returns why these connections create no customers yet.
func Stops(ctx context.Context, ledger *state.Ledger, connections []string) ([]state.CreateStop, error) {
	stops, err := ledger.CreateStops(ctx, "")
	return slices.DeleteFunc(stops, func(s state.CreateStop) bool { return !slices.Contains(connections, s.Connection) }),
		err
}

// FinishMatching marks the matching of a connection's records with existing customers as finished. It sends nothing:
// the next run creates the others, within the limits. It reports false if this was noted before.
func FinishMatching(ctx context.Context, ledger *state.Ledger, connection string, by syncer.Operator) (news bool,
	err error) {
	err = ledger.Do(ctx, func(tx *state.Tx) error {
		news, err = tx.FinishMatching(connection, by.Name, by.Reason)
		return err
	})
	return news, err
}

// ReopenMatching reverses FinishMatching. It fails with state.ErrMatchingOpen.
func ReopenMatching(ctx context.Context, ledger *state.Ledger, connection string, by syncer.Operator) error {
	return ledger.Do(ctx, func(tx *state.Tx) error { return tx.ReopenMatching(connection, by.Name, by.Reason) })
}

// SeparateConnections notes the decision to treat two connections as two companies. It fails with
// state.ErrNoConnection, state.ErrSameConnection or state.ErrConnectionDecided. It reports false for a repeated
// decision.
func SeparateConnections(ctx context.Context, ledger *state.Ledger, old, connection string, by syncer.Operator) (news bool,
	err error) {
	err = ledger.Do(ctx, func(tx *state.Tx) error {
		news, err = tx.DecideConnections(separation(old, connection, by))
		return err
	})
	return news, err
}

// UndoSeparation reverses SeparateConnections. It fails with state.ErrConnectionDecided without such a decision.
func UndoSeparation(ctx context.Context, ledger *state.Ledger, old, connection string, by syncer.Operator) error {
	return ledger.Do(ctx,
		func(tx *state.Tx) error { return tx.TakeConnectionDecisionBack(separation(old, connection, by)) })
}

func separation(old, connection string, by syncer.Operator) state.ConnectionDecision {
	return state.ConnectionDecision{Old: old, New: connection, Decision: state.BooksSeparate, Actor: by.Name,
		Reason: by.Reason}
}
