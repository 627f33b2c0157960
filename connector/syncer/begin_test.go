package syncer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state/statetest"
)

// A process that has closed its run and not let the lock go yet: a run that is
// opened meanwhile would be taken for a dead one's by whoever gets the lock next.
//
// covers F61, L4
func TestRunWaitsForALockThatIsHeldWithoutARun(t *testing.T) {
	t.Parallel()
	statetest.OnlySQLite(t, "on a server no lock keeps anybody from a connection, but the run's lease")
	w := newWorld(t)
	w.fill(2)
	lock, err := w.ledger.TryLock("acme")
	if err != nil || lock == nil {
		t.Fatalf("lock %v, %v", lock, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = w.syncer.Run(ctx, w.connection(),
		syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the lock was held: %v", err)
	}
	if runs, err := w.ledger.LatestRuns(t.Context()); err != nil || len(runs) > 0 {
		t.Errorf("a run was opened without the lock: %+v, %v", runs, err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	w.complete(w.run())
}
