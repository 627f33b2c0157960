package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payersync/internal/longtest"
	"payersync/state/statetest"
)

var (
	seeds     = longtest.Int("seeds", 16/scale, 64/scale, "how many seeds to play")
	seed      = flag.Uint64("seed", 0, "the one seed to play")
	shrinking = flag.Bool("shrink", true, "shorten failing seeds")
	from      = flag.Uint64("from", 1, "the first seed; 0 for a random one")
	processes = flag.Int("processes", runtime.NumCPU(), "how many processes share the seeds")
	tallyFile = flag.String("tally", "", "where a process leaves its counts for the one that started it")
)

// TestMain trades memory for speed: worlds are many and small.
func TestMain(m *testing.M) {
	flag.BoolVar(&amends, "amends", true, "let two seeds of three have amends")
	flag.StringVar(&troubles, "troubles", drawnTroubles,
		"the troubles that seeds draw: all, none, or kinds with commas between")
	flag.BoolVar(&asFile, "as-file", false,
		"play on PostgreSQL what is played on a file: its locks tell which runs are dead, and no session ends early")
	flag.IntVar(&stops, "stops", 0, "how often every process of a world is stopped")
	flag.BoolVar(&carries, "carry", true, "carry the ledger to the other engine whenever every process is stopped")
	flag.Parse()
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// workers is how many worlds are played at a time.
func workers() int { return runtime.GOMAXPROCS(0) }

// each plays do for every number below n, on all processors.
func each(t *testing.T, n int, do func(t *testing.T, i int) (more bool)) {
	t.Helper()
	var next atomic.Int64
	var stop atomic.Bool
	t.Run("worlds", func(t *testing.T) {
		for worker := range workers() {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1) - 1; i < int64(n) && !stop.Load(); i = next.Add(1) - 1 {
					if !do(t, int(i)) {
						stop.Store(true)
					}
				}
			})
		}
	})
}

// tally sums the rare states of many worlds.
type tally struct {
	mu      sync.Mutex
	Counts  map[string]int
	Worlds  int
	Stories map[uint64]string // how each seed's went, see outcome.story
}

func newTally() *tally {
	return &tally{Counts: map[string]int{}, Stories: map[uint64]string{}}
}

func (t *tally) add(other *tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Worlds += other.Worlds
	maps.Copy(t.Stories, other.Stories)
	for what, n := range other.Counts {
		t.Counts[what] += n
	}
}

// TestSimulation runs beside the other long tests: its worlds are played by other
// processes.
func TestSimulation(t *testing.T) {
	t.Parallel()
	if *seed != 0 {
		playOne(t, newTemplate(t, memoryDir(t)), *seed)
		return
	}
	first := *from
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	t.Logf("playing seeds %d to %d at commit %s", first, first+uint64(seeds())-1, commit())
	start, sum := time.Now(), newTally()
	if *processes > 1 {
		farm(t, first, seeds(), sum, "-engine", engine(), "-as-file="+strconv.FormatBool(asFile), "-stops",
			strconv.Itoa(stops), "-carry="+strconv.FormatBool(carries))
	} else {
		playMany(t, first, sum)
	}
	if *tallyFile != "" {
		leave(t, sum)
		return
	}
	t.Logf("%d seeds in %v, %.0f a second", sum.Worlds, time.Since(start).Round(time.Millisecond),
		float64(sum.Worlds)/time.Since(start).Seconds())
	sum.report(t)
}

// playMany plays seeds in this process until too many of them fail.
func playMany(t *testing.T, first uint64, sum *tally) {
	tmpl := newTemplate(t, memoryDir(t))
	var failures atomic.Int64
	each(t, seeds(), func(t *testing.T, i int) bool {
		o := play(t, drawn(first+uint64(i)), tmpl, randomStory)
		sum.add(&tally{Counts: o.counts, Worlds: 1, Stories: map[uint64]string{o.plan.seed: o.story()}})
		if !o.failed() {
			return true
		}
		if !*shrinking {
			t.Error(o.report(12))
			return failures.Add(1) < 30
		}
		t.Error(shrink(o, func(p plan) outcome { return play(t, p, tmpl, randomStory) }).report(60))
		return failures.Add(1) < 3
	})
}

// farm shares the seeds among processes, which have these arguments besides, because the worlds of one process wait
// for the memory of its one database engine.
func farm(t *testing.T, first uint64, seeds int, sum *tally, arguments ...string) {
	t.Helper()
	var wg sync.WaitGroup
	for n := range *processes {
		begin, end := seeds*n / *processes, seeds*(n+1) / *processes
		file := filepath.Join(t.TempDir(), "tally.json")
		c := exec.CommandContext(t.Context(), os.Args[0],
			slices.Concat([]string{"-test.run", "^TestSimulation$", "-test.timeout", "0", "-processes", "1", "-troubles",
				troubles, "-amends=" + strconv.FormatBool(amends),
				"-from", fmt.Sprint(first + uint64(begin)), "-seeds", fmt.Sprint(end - begin), "-shrink=" + fmt.Sprint(*shrinking),
				"-tally", file}, arguments)...)
		c.Env = append(os.Environ(), "GOMAXPROCS=1")
		wg.Go(func() {
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			gather(t, file, sum)
		})
	}
	wg.Wait()
}

func leave(t *testing.T, sum *tally) {
	b, err := json.Marshal(sum)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*tallyFile, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func gather(t *testing.T, file string, sum *tally) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	var one tally
	if err := json.Unmarshal(b, &one); err != nil {
		t.Error(err)
		return
	}
	sum.add(&one)
}

// amends says whether seeds may have some.
var amends bool

// drawn is the plan of a seed as the command line wants it.
func drawn(seed uint64) plan {
	if !amends {
		return draw(seed)
	}
	return draw(seed).amended()
}

// rare are states that enough seeds must reach: an unreached state tests nothing that depends on it.
var rare = []string{
	"another run holds the connection", "lease lost", "late create", "late link", "create replayed",
	"create replayed after the trusted window",
	"link request without an answer", "older read superseded", "webhook parked", "sweep repaired a status",
	"forged webhook", "twins", "told apart", "update",
	"restore of an older ledger", "restore with a create under way", "commit on a full disk", "clock set back",
	"crash at a commit", "crash before a call", "crash inside a call", "crash after a call",
	"a plan above the limits", "a waiting plan approved",
	"attention key_doubled", "attention key_removed", "attention customer_missing", "attention likeness",
	"attention entered_twice", "attention renumbered", "attention key_shared",
	"attention foreign_change", "attention rejected", "attention link_lost", "attention mandate_cancelled",
	"attention outcome_unknown",
}

// rareTroubles are those of them that only seeds with every trouble reach.
var rareTroubles = []string{
	"trouble: list empty", "trouble: list short", "trouble: pages lost", "trouble: list keyless", "trouble: list behind",
	"trouble: reads behind",
	"trouble: clock ahead", "trouble: the clock put right", "trouble: copied back", "trouble: late look",
	"trouble: begins inside a list pass",
	"trouble: a customer that lives was not found", "trouble: a list that lacked whom the ledger knew",
	"trouble: a list that showed no key of whom the ledger knew",
}

// rareAmends are those that only seeds with amends reach.
var rareAmends = []string{"amends: " + keyBack, "amends: " + undoubled, "amends: " + leaves, "amends: " + passedOn,
	"amends: passed on to other books", "amends: " + moves,
	"amends: " + parts, "amends: an adoption undone", "amends: an update undone", "amends: who it is, accept",
	"amends: who it is, reject", "amends: " + givesUp, "amends: taken up again"}

// rareCarried are those reached only by seeds with moved ledgers.
var rareCarried = []string{toServer, toFile, diesOnTheWay, refusedByRun}

// enoughSeeds is from how many seeds on every rare state must be reached.
const enoughSeeds = 3000

func (t *tally) report(test *testing.T) {
	test.Helper()
	for _, what := range slices.Sorted(maps.Keys(t.Counts)) {
		test.Logf("reached %6d × %s", t.Counts[what], what)
	}
	wanted := rare
	if troubles == "all" {
		wanted = slices.Concat(rare, rareTroubles)
	}
	if amends {
		wanted = slices.Concat(wanted, rareAmends)
	}
	if statetest.OnPostgres() && !asFile {
		wanted = append(slices.Clone(wanted), allSessionsEnd)
	}
	if stops > 0 && carries {
		wanted = slices.Concat(wanted, rareCarried)
	}
	for _, what := range wanted {
		if t.Counts[what] == 0 && t.Worlds >= enoughSeeds {
			test.Errorf("no seed of %d reached %q: nothing was tested there", t.Worlds, what)
		}
	}
}

func playOne(t *testing.T, tmpl template, seed uint64) {
	o := play(t, drawn(seed), tmpl, randomStory)
	if !o.failed() {
		t.Logf("seed %d holds; log hash %016x", seed, o.hash)
		return
	}
	t.Log(o.report(len(o.log)))
	if !*shrinking {
		t.Fail()
		return
	}
	t.Error(shrink(o, func(p plan) outcome { return play(t, p, tmpl, randomStory) }).report(100))
}

func TestOneSeedHasOneStory(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	each(t, longtest.Number(3, 24/scale), func(t *testing.T, i int) bool {
		p := draw(uint64(i) + 1).amended()
		a, b := play(t, p, tmpl, randomStory), play(t, p, tmpl, randomStory)
		if a.hash != b.hash {
			for n := range a.log {
				if n >= len(b.log) || a.log[n] != b.log[n] {
					t.Errorf("seed %d tells two stories from line %d on:\n  %s\n  %s", p.seed, n, a.log[n],
						b.log[min(n, len(b.log)-1)])
					break
				}
			}
		}
		return true
	})
}
