package main

import (
	"context"
	"time"

	"payersync/connector"
	"payersync/state"
)

// lookForRun is how often a node looks whether another's run of a connection is over.
const lookForRun = 2 * time.Second

// others waits during another process's run of the connection: one begun by a person, or a lost node's run
// until its lease ends. done means the run finished.
func (j *accountJobs) others(ctx context.Context, connection string) (done bool, err error) {
	for waited := false; ; waited = true {
		var holds bool
		var last connector.RunOutcome
		if err := j.ledger.Do(ctx, func(tx *state.Tx) (err error) {
			last, holds, err = tx.LastRun(connection)
			return err
		}); err != nil {
			return false, err
		}
		if !holds {
			return waited && (last == connector.RunComplete || last == connector.RunAwaitingApproval), nil
		}
		select {
		case <-time.After(lookForRun):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
