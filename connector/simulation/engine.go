package simulation

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"maps"

	"payersync/state"
	"payersync/state/statetest"
)

// backup is a copy of the ledger, with the acknowledged deliveries of its time.
type backup struct {
	path     string
	commits  int64 // of the ledger by then
	accepted map[string]bool
	known    map[string]bool
	sent     map[string][sha256.Size]byte // creates by then, by key
	givenUp  map[state.RecordID]wordSaid
}

// atRest runs f while no process has the ledger open.
func (w *world) atRest(f func() error) error {
	errs := []error{w.closeAll(), f()}
	for _, p := range w.procs {
		errs = append(errs, p.open())
	}
	return errors.Join(errs...)
}

// commits is how often the ledger was written to.
func (w *world) commits() (int64, error) {
	return w.procs[0].ledger.Commits(context.Background())
}

func (w *world) takeBackup() (err error) {
	b := &backup{path: w.path + ".bak", accepted: cloneSet(w.oracle.accepted), known: cloneSet(w.oracle.known),
		sent: w.oracle.sentSoFar(), givenUp: maps.Clone(w.oracle.givenUp)}
	if b.commits, err = w.commits(); err != nil {
		return err
	}
	if err := w.atRest(func() error { return statetest.Copy(w.path, b.path) }); err != nil {
		return err
	}
	w.backup = b
	return nil
}

// restore puts the backup in place. Nobody reports it to a file's ledger: its mark does, at the next opening.
// It is one step without a crash. If there were no noticeable writes since the backup, it restores nothing.
func (w *world) restore() error {
	now, err := w.commits()
	if err != nil {
		return err
	}
	older := now-w.untold.Swap(0) > w.backup.commits
	if err := w.atRest(func() error {
		err := statetest.Copy(w.backup.path, w.path)
		if err == nil && older {
			err = statetest.PutBack(w.path, now, w.now())
		}
		return err
	}); err != nil {
		return err
	}
	if older {
		w.oracle.restored(w.backup)
	}
	w.checked = -1 // another ledger: check it in any case
	return nil
}

// remove removes the world's data outside of its folder.
func (w *world) remove() error {
	return errors.Join(statetest.Remove(w.path), statetest.Remove(w.path+".bak"))
}

// cutOff ends every session of the server, like a restart: committed writes stay, others are lost. It
// replaces read connections before the judge needs them.
func (w *world) cutOff() {
	if w.plan.cuts == 0 || !statetest.OnServer(w.path) || w.healed || w.plan.without["cut"] ||
		w.cuts.Float64() >= w.plan.cuts {
		return
	}
	if err := statetest.CutOff(w.path); err != nil {
		w.violate("harness", "end the sessions: %v", err)
	}
	w.logf("the server ends all sessions")
	w.reach(allSessionsEnd)
	for _, p := range w.procs {
		for range readers {
			if p.ledger != nil {
				_, _ = p.ledger.Commits(context.Background()) // fails on a lost connection
			}
		}
	}
}

// allSessionsEnd is the goal of a server that ended all sessions.
const allSessionsEnd = "all sessions end"

// readers is the maximum number of a ledger's read connections.
const readers = 4

// hold is a run's lock on a connection, like the lock of a file. Its holder knows that an open run is dead.
// On a server, only leases show that, later.
func (w *world) hold(b *books) (release func(), err error) {
	if !w.plan.locks || w.held[b.connection] != nil {
		return func() {}, nil
	}
	mine := new(int)
	w.held[b.connection] = mine
	return func() {
		if w.held[b.connection] == mine {
			delete(w.held, b.connection)
		}
	}, statetest.LetRunGo(w.path, b.connection)
}

// engine is the database below the ledgers.
func engine() string { return flag.Lookup("engine").Value.String() }
