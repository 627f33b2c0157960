package simulation

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"payersync/state/statetest"
)

// template is a migrated ledger with its key, copied for every world.
type template struct{ ledger, key string }

// newTemplate makes the template in dir.
func newTemplate(tb testing.TB, dir string) template {
	tb.Helper()
	path := filepath.Join(dir, "template.db")
	statetest.New(tb, path)
	return template{path, path + ".key"}
}

// memoryDir returns a folder in memory if the system has one, removed after the test: every commit of a
// ledger is an fsync.
func memoryDir(tb testing.TB) string {
	tb.Helper()
	if info, err := os.Stat("/dev/shm"); err != nil || !info.IsDir() {
		return tb.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "payersync-simulation-")
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// outcome is the outcome of a world.
type outcome struct {
	plan   plan
	bad    []violation
	log    []string
	hash   uint64
	counts map[string]int
	points int // possible deaths of a process, before the healing
	deaths int
	err    error
}

// play runs one world in a bubble of its own: story decides what happens.
func play(t *testing.T, p plan, tmpl template, story func(*world) error) (out outcome) {
	dir, err := os.MkdirTemp(filepath.Dir(tmpl.ledger), "seed-")
	if err != nil {
		return outcome{plan: p, err: err}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	synctest.Test(t, func(*testing.T) { out = playInside(p, dir, tmpl, story) })
	return out
}

func playInside(p plan, dir string, tmpl template, story func(*world) error) outcome {
	w, err := newWorld(p, dir, tmpl)
	if err != nil {
		return outcome{plan: p, err: err}
	}
	err = story(w)
	out := outcome{plan: p, bad: w.bad, log: w.log, hash: w.hash, counts: w.counts, points: w.points, deaths: w.deaths}
	out.err = errors.Join(err, w.closeAll(), w.remove())
	return out
}

// randomStory is the story of a seed: faults all the time, the invariants of safety after every step, then
// the demands of liveness.
func randomStory(w *world) error {
	w.weather = w.plan.weather
	for range w.plan.records {
		if err := w.addRecord(); err != nil {
			return err
		}
	}
	for n := range w.plan.steps {
		if err := w.next(n); err != nil {
			return err
		}
		if w.passed != w.checked { // otherwise nothing was committed, and the ledger is as it was
			w.oracle.check(w.procs[0])
			w.checked = w.passed
		}
		if len(w.bad) > 0 {
			return nil
		}
	}
	return w.heal()
}

// failed reports whether the world broke an expectation.
func (o outcome) failed() bool { return len(o.bad) > 0 || o.err != nil }

// story returns all events of the world, and the violation.
func (o outcome) story() string {
	reached := fnv.New64a()
	counts := maps.Clone(o.counts)
	maps.DeleteFunc(counts, isOfCarrying)
	_, _ = fmt.Fprint(reached, counts) // never fails, and in the order of their names
	return fmt.Sprintf("%016x, %d deaths, reached %016x, wrong: %q", o.hash, o.deaths, reached.Sum64(), o.signature())
}

// signature identifies the violation, without details.
func (o outcome) signature() string {
	if len(o.bad) > 0 {
		return o.bad[0].invariant
	}
	if o.err != nil {
		return "error"
	}
	return ""
}

// shrink removes steps and faults as long as the same invariant breaks.
func shrink(o outcome, again func(plan) outcome) outcome {
	for _, f := range slices.Concat([]string{"crash", "cut", "stop", "disturb", string(faultOutage)}, amendKinds,
		troubleKinds, faultNames()) {
		p := o.plan
		p.without = cloneSet(p.without)
		p.without[f] = true
		if other := again(p); other.signature() == o.signature() {
			o = other
		}
	}
	for n := o.plan.steps - 1; n >= 0; n-- {
		p := o.plan
		p.skip = make(map[int]bool, len(o.plan.skip)+1)
		for k := range o.plan.skip {
			p.skip[k] = true
		}
		p.skip[n] = true
		if other := again(p); other.signature() == o.signature() {
			o = other
		}
	}
	return o
}

func faultNames() []string {
	out := make([]string, len(faults))
	for i, f := range faults {
		out[i] = string(f)
	}
	return out
}

// commit is the version of the source, if git knows it.
var commit = sync.OnceValue(func() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
})

// report describes a failing world's events, for people.
func (o outcome) report(tail int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d at commit %s", o.plan.seed, commit())
	if o.err != nil {
		fmt.Fprintf(&b, ": %v", o.err)
	}
	for _, v := range o.bad {
		fmt.Fprintf(&b, "\n  %s", v)
	}
	fmt.Fprintf(&b, "\n  again: %s\n", o.plan.rerun())
	log := o.log
	if len(log) > tail {
		log = log[len(log)-tail:]
	}
	for _, line := range log {
		b.WriteString("    " + line + "\n")
	}
	return b.String()
}
