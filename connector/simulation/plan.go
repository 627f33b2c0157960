package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state/statetest"
)

// plan holds all decisions of a seed before the story begins: the faults and their strength (swarm testing),
// the service's choices on its open points, and the connector's configuration.
type plan struct {
	seed      uint64
	steps     int
	records   int
	processes int
	snapshot  bool
	retries   int
	crashes   float64 // the chance of a process's death in a step
	cuts      float64 // the chance that the server ends all sessions around a commit; 0 for a file
	locks     bool    // dead runs are recognised on a server's ledger, too; see hold
	poison    string  // the key that the service refuses; "" for none
	tokenLife time.Duration
	switches  sandbox.Switches
	guards    syncer.Guards
	adopt     syncer.Adoption
	weather   weather
	weights   map[string]float64 // of the steps
	// a process's requests per second; 0 for no limit. Seeds have none, because waiting pages have no order
	rate     float64
	doubles  float64               // the chance of a request delivered twice
	deaf     bool                  // no webhook ever arrives, healed or not
	outages  map[int]time.Duration // by step: for how long nothing gets through to the service
	troubles []trouble
	amends   map[int]string // by step
	stops    []int          // stops of every process before these steps
	carries  bool           // the ledger is carried to the other engine then
	told     bool           // findings are judged (V5)
	strict   bool           // troubles may be drawn: the judge applies their rules

	variant variant
	without map[string]bool // faults left out, by name: for shrinking
	skip    map[int]bool    // steps left out, by number: for shrinking
}

// draw makes the plan of a seed.
func draw(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := plan{
		seed: seed, steps: 12 + r.IntN(24), records: 2 + r.IntN(4), processes: 1, snapshot: r.IntN(2) == 0, retries: -1,
		tokenLife: pick(r, time.Hour, 24*time.Hour, 2*time.Minute), weights: map[string]float64{},
		adopt: pick(r, syncer.AdoptPropose, syncer.AdoptExact),
		guards: syncer.Guards{MaxChanges: syncer.Limit{Percent: 5}, MaxChangesFloor: 2 + r.IntN(8), MaxCreates: 1 + r.IntN(8),
			MaxBlanks: r.IntN(3), MaxIdentity: syncer.Limit{Percent: 2}},
	}
	if r.IntN(3) == 0 {
		p.processes = 2
	}
	if r.IntN(2) == 0 {
		p.retries = 2
	}
	if r.IntN(3) > 0 {
		p.crashes = r.Float64() * 0.5
	}
	if r.IntN(8) == 0 {
		p.poison = "R1"
	}
	p.weather = drawWeather(r)
	for _, s := range stepKinds {
		p.weights[s.name] = s.weight * pick(r, 0, 0.5, 1, 1, 3)
	}
	p.weights["sync"], p.weights["add"] = 8, max(1, p.weights["add"])
	if r.IntN(6) == 0 { // backups are put back while creates are under way
		p.weights["backup"], p.weights["restore"], p.weights["add"] = 3, 3, 4
		p.weather.odds[faultLate] = 0.1 + 0.2*r.Float64()
	}
	p.switches = drawSwitches(r)
	p.drawNet(rand.New(rand.NewPCG(seed, 5)))
	p.drawTroubles(named(troubles))
	p.drawStops(stops)
	p.drawServer(rand.New(rand.NewPCG(seed, 14)))
	return p
}

// drawServer gives every other seed a server that ends sessions, if a ledger is on a server at least for a
// while.
func (p *plan) drawServer(r *rand.Rand) {
	switch {
	case asFile:
		*p = p.onFile()
	case (statetest.OnPostgres() || p.carries) && r.IntN(2) == 0:
		p.cuts = 0.1 * r.Float64()
	}
}

// asFile plays a file's story on a server.
var asFile bool

// onFile returns a plan with the same story on a server as on a file: runs hold locks like those of a file,
// and events of servers alone do not happen.
func (p plan) onFile() plan {
	p.locks, p.cuts = true, 0
	return p
}

// drawNet gives some seeds an outage, a network with repeated requests, or one that loses every webhook.
func (p *plan) drawNet(r *rand.Rand) {
	if r.IntN(6) == 0 {
		p.doubles = 0.2 * r.Float64()
	}
	p.deaf = r.IntN(8) == 0
	p.outages = map[int]time.Duration{}
	if r.IntN(6) == 0 {
		p.outages[r.IntN(p.steps)] = time.Duration(r.Int64N(int64(3 * time.Hour)))
	}
}

// drawWeather turns some faults on. One seed in eight has calm weather, one in
// four a single fault, strong.
func drawWeather(r *rand.Rand) weather {
	w := weather{odds: map[fault]float64{}}
	switch kind := r.IntN(8); {
	case kind == 0:
	case kind <= 2:
		w.odds[pick(r, faults...)] = 0.1 + 0.4*r.Float64()
	default:
		for _, f := range faults {
			if r.IntN(2) == 0 {
				w.odds[f] = 0.08 * r.Float64()
			}
		}
	}
	switch r.IntN(6) { // one seed in six is a busy one
	case 0, 1, 2:
	case 3, 4:
		w.disturb = 0.15 * r.Float64()
	default:
		w.disturb = 0.3 + 0.3*r.Float64()
	}
	if r.IntN(2) == 0 {
		w.drift = 0.3 * r.Float64()
	}
	return w
}

func drawSwitches(r *rand.Rand) sandbox.Switches {
	sw := sandbox.Standard()
	sw.List.MaxSize = 2 + r.IntN(6)
	sw.List.Sort = pick(r, "created_asc", "created_desc", "name", "updated_desc")
	sw.HashMemory = pick(r, 0, 0, minMemory, time.Hour, 6*time.Hour)
	sw.HashOutlivesDelete = r.IntN(4) == 0
	sw.CreateHidesExternalData = r.IntN(4) == 0
	sw.LinkWhenCreated = pick(r, "same", "new")
	sw.WriteAnswer = pick(r, "object", "object", "empty")
	sw.EmptyMandate = pick(r, "absent", "object", "null")
	sw.MandateTimes = pick(r, "exact", "coarse", "missing")
	sw.CreateLink = pick(r, "url", "url", "none")
	return sw
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// rerun is the command for repeating the plan's seed.
func (p plan) rerun() string {
	flags := ""
	if !p.told {
		flags += " -amends=false"
	}
	if len(p.stops) > 0 {
		flags += fmt.Sprintf(" -stops %d -carry=%t -as-file=%t -engine %s", len(p.stops), p.carries, asFile, engine())
	}
	if troubles != drawnTroubles {
		flags += fmt.Sprintf(" -troubles %q", troubles)
	}
	return fmt.Sprintf("go test ./connector/simulation -run TestSimulation -seed %d%s -v", p.seed, flags)
}
