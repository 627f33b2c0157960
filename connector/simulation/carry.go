package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payersync/state"
	"payersync/state/statetest"
)

var (
	stops   int  // how often every process of a world is stopped
	carries bool // the ledger is carried to the other engine then
)

// drawStops plans the number of stops of every process, before steps or at the end. It has a random source of
// its own, so seeds without stops keep their stories.
func (p *plan) drawStops(times int) {
	r := rand.New(rand.NewPCG(p.seed, 16))
	for range times {
		p.stops = append(p.stops, r.IntN(p.steps+1))
	}
	p.carries = carries && times > 0
}

// noStep is the number of none.
const noStep = -1

// standStill stops every process if a stop is due before step n, and starts them again. If a dead run
// prevents the move, it happens after a later run has ended that one. Older backups are no longer restored.
func (w *world) standStill(n int) error {
	for _, at := range w.plan.stops {
		if at == n && !w.plan.without["stop"] {
			w.due++
		}
	}
	if w.due == 0 || w.full {
		return nil
	}
	commits, err := w.commits()
	runs, errRuns := w.procs[0].ledger.Runs(context.Background(), state.Filter{})
	if err := errors.Join(err, errRuns); err != nil || commits == 0 {
		return err // an unwritten ledger has nothing to move
	}
	running := slices.ContainsFunc(runs, func(r state.RunRow) bool { return r.FinishedAt == nil })
	began := time.Now()
	if err := w.atRest(func() error { return w.moveLedger(running) }); err != nil {
		return err
	}
	if d := time.Since(began); d > 0 {
		w.violate("harness", "to be stopped took %v", d)
	}
	w.reach("every process stopped")
	w.checked = -1 // another ledger: check it in any case
	if !running {
		w.due--
		w.backup = nil
	}
	return nil
}

// moveLedger moves the closed ledger to the other engine, like payersync ledger copy. It is refused while a
// run is open. It may die at one of its six commits, and is then repeated.
func (w *world) moveLedger(running bool) error {
	if !w.plan.carries {
		return nil
	}
	from, to := w.path, filepath.Join(w.dir, fmt.Sprintf("ledger%d.db", w.carried+1))
	if err := statetest.Opposite(from, to); err != nil {
		return err
	}
	left := 1 + w.journeys.IntN(12)
	dies := func(bool) error {
		if left--; left == 0 {
			return errDead
		}
		return nil
	}
	c := state.Transfer{
		From: state.Options{Path: from, KeyFile: w.key, Now: w.now, Commit: dies},
		To:   state.Options{Path: to, KeyFile: w.key, Now: w.now, Commit: dies},
		By:   state.Entry{Actor: "Olive", Reason: "to another machine"},
	}
	_, err := c.Run(context.Background())
	if errors.Is(err, errDead) {
		w.reach(diesOnTheWay)
		_, err = c.Run(context.Background())
		if gone := (*state.OpenError)(nil); errors.As(err, &gone) {
			err = nil // it died of the last look: whether it opens there, the processes will see
		}
	}
	switch {
	case running && errors.Is(err, state.ErrRunning):
		w.reach(refusedByRun)
		return statetest.Remove(to)
	case running || err != nil:
		w.violate("F188", "while a run is open (%t), what carries the ledger says: %v", running, err)
		return statetest.Remove(to)
	}
	return w.arrived(from, to)
}

// arrived lets every process use the ledger at its new place, and none at the old one.
func (w *world) arrived(from, to string) error {
	l, err := state.Open(context.Background(), state.Options{Path: from, KeyFile: w.key, Now: w.now})
	if err == nil {
		err = l.Close()
	}
	if refused := (*state.OpenError)(nil); !errors.As(err, &refused) {
		w.violate("F188", "the ledger opens where it was: %v", err)
	}
	w.path = to
	w.carried++
	where := toFile
	if statetest.OnServer(to) {
		where = toServer
	}
	w.aside("%s", where)
	w.reach(where)
	return errors.Join(statetest.Remove(from), statetest.Remove(from+".bak"))
}

// The goals reached by moves. Their names share a beginning, because the story is the same without moves.
const (
	ofCarrying   = "carried: "
	toServer     = ofCarrying + "to a server"
	toFile       = ofCarrying + "to a file"
	diesOnTheWay = ofCarrying + "dies on the way"
	refusedByRun = ofCarrying + "refused while a run is open"
)

func isOfCarrying(what string, _ int) bool { return strings.HasPrefix(what, ofCarrying) }
