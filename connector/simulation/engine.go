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

// backup is a copy of the ledger, with what was acknowledged by then.
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
	b := &backup{path: w.path + ".bak", accepted: cloneSet(w.oracle.accepted), known: cloneSet(w.oracle.known), sent: w.oracle.sentSoFar(), givenUp: maps.Clone(w.oracle.givenUp)}
	if b.commits, err = w.commits(); err != nil {
		return err
	}
	if err := w.atRest(func() error { return statetest.Copy(w.path, b.path) }); err != nil {
		return err
	}
	w.backup = b
	return nil
}

// restore puts the backup in place. Nobody says so to the ledger of a file: its mark does,
// when it is opened. That is one step that does not crash. Where nothing has been
// written since the backup that anybody could know of, nothing is restored.
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
	w.checked = -1 // another ledger: check it whatever the step does
	return nil
}

// remove removes what the world kept beside its folder.
func (w *world) remove() error {
	return errors.Join(statetest.Remove(w.path), statetest.Remove(w.path+".bak"))
}

// cutOff lets the server end every session, as one does that is started anew: what was committed stays, what
// was under way does not. Connections that only read are replaced before the judge needs them.
func (w *world) cutOff() {
	if w.plan.cuts == 0 || !statetest.OnServer(w.path) || w.healed || w.plan.without["cut"] || w.cuts.Float64() >= w.plan.cuts {
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
				_, _ = p.ledger.Commits(context.Background()) // fails on a connection that is lost
			}
		}
	}
}

// allSessionsEnd is what is reached where the server ended all sessions.
const allSessionsEnd = "all sessions end"

// readers is as many connections as a ledger has at most that read.
const readers = 4

// hold is a run's hold on the connection of some books, as the lock of a file is. Whoever has it knows that an open
// run is dead, which a server's leases alone tell later.
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
