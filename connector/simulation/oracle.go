package simulation

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"payersync/connector/sandbox"
	"payersync/state"
)

// oracle judges the connector by the true events: it sees every request like the service, every answer like
// the connector, and all acts of others. It knows nothing of the connector's code.
type oracle struct {
	touched bool // somebody edited a customer
	w       *world

	foreign    map[string]bool                 // customers made by others
	keys       map[string]map[string]bool      // every key value a customer ever carried
	carried    map[string]string               // the key of a customer
	since      map[string]time.Time            // when a customer got the key it carries
	shown      map[string]keyShown             // a customer's key as last read by the ledger
	readAt     map[string]time.Time            // when a read of the customer by itself last showed it
	taints     map[string]map[string]bool      // by key value: acts of others on it
	parted     map[string]bool                 // records with a person's decision on their customers
	heirs      map[string]map[string]bool      // by key: the keys its customer was to get instead
	accepted   map[string]bool                 // inbox keys answered with 2xx
	intents    map[string]*intent              // by key value
	sentBefore map[string][sha256.Size]byte    // by key value: the creates known to the restored ledger
	gets       map[*process]map[string]reading // each process's last read of a customer
	// the time of a process's last read of a customer, without a link request since
	looks    map[*process]map[string]time.Time
	passes   map[int]map[int]pageSeen    // list passes under way, by number and page
	complete []passSeen                  // complete list passes, in order
	lied     map[int]bool                // list passes over an incomplete view
	links    map[string]time.Time        // the time of a customer's lost link request, without a read since
	known    map[string]bool             // customers read by the ledger, and not confirmed gone
	learnt   map[*process]int            // the newest list pass with its customers included
	left     map[string]time.Time        // by key: when its record was last excluded or archived
	givenUp  map[state.RecordID]wordSaid // records given up by a person, and not included again
	// by key passed on because of a clock set ahead: the last time for creates with it to arrive
	unmeasured    map[string]time.Time
	misled        map[string]bool // customers not found by reads for longer than the tolerated lag
	lag           time.Duration   // the longest lag of a read by id
	restoredAt    time.Time       // on the connector's clock; zero for never
	restoredTruly time.Time       // the same, on the service's
	run           map[*process]*runSeen
	departed      map[*process][]time.Time // its requests within the last second
	secrets       struct {
		sync.Mutex
		texts []string // texts that must not appear
	}
}

// wordSaid is a person's decision to give a record up, with its payer's customer and key.
type wordSaid struct {
	at            time.Time
	customer, key string
}

// intent is the last create sent for a key.
type intent struct {
	body    [sha256.Size]byte
	settled bool      // a definite answer came
	sends   []sending // with a possible effect, in order
}

// sending is one sending of a create.
type sending struct {
	at    time.Time
	clock time.Time // the same, on the connector's
	run   time.Time // the start of its run
}

// last returns the newest sending; long ago when there is none.
func (in *intent) last() sending {
	if in == nil || len(in.sends) == 0 {
		return sending{}
	}
	return in.sends[len(in.sends)-1]
}

type reading struct{ raw []byte }

// keyShown is a customer's key in a read; a list without keys shows none.
type keyShown struct {
	key string
	at  time.Time // the start of the read: later writes may hold earlier data
}

type pageSeen struct {
	keys map[string]string // that each customer was shown with; "" for none
	at   time.Time
	skew time.Duration // of the clock that noted it
}

type passSeen struct {
	number int
	p      *process
	began  time.Time
	skew   time.Duration // by its clock: a clock ahead makes it seem younger
	keys   map[string]string
	ids    string
	lied   bool     // it was shown less than the truth
	lacks  []string // known customers missing from the list
	bare   []string // known customers listed without the key
}

type searchSeen struct {
	at   time.Time
	lied bool
}

// runSeen is one run, from outside.
type runSeen struct {
	books    *books
	epoch    int
	began    time.Time
	passes   map[int]bool    // list passes begun by it
	searched searchSeen      // its newest search
	creates  map[string]bool // keys with a create first sent in this run
	frozen   map[string]bool // keys with a create frozen by an earlier run
	asked    *state.Plan
	said     bool
	w        *world
	outer    *runSeen
}

func newOracle(w *world) *oracle {
	o := &oracle{
		w: w, foreign: map[string]bool{}, keys: map[string]map[string]bool{}, carried: map[string]string{},
		since: map[string]time.Time{}, readAt: map[string]time.Time{}, shown: map[string]keyShown{},
		taints: map[string]map[string]bool{}, heirs: map[string]map[string]bool{}, parted: map[string]bool{},
		accepted: map[string]bool{}, intents: map[string]*intent{}, gets: map[*process]map[string]reading{},
		looks:  map[*process]map[string]time.Time{},
		passes: map[int]map[int]pageSeen{}, links: map[string]time.Time{}, run: map[*process]*runSeen{},
		departed: map[*process][]time.Time{}, known: map[string]bool{}, learnt: map[*process]int{}, misled: map[string]bool{},
		unmeasured: map[string]time.Time{}, left: map[string]time.Time{}, givenUp: map[state.RecordID]wordSaid{},
		lied: map[int]bool{},
	}
	o.secrets.texts = []string{"sandbox-secret", "@payer.test", "/sign/", "LS1 4AP", "DECEASED"}
	return o
}

// departs checks S18: a process sends no more requests in a second than it may.
func (o *oracle) departs(p *process) {
	now := time.Now()
	recent := append(slices.DeleteFunc(o.departed[p], func(t time.Time) bool { return now.Sub(t) >= time.Second }), now)
	o.departed[p] = recent
	if most := o.w.plan.rate + jitter; o.w.plan.rate > 0 && float64(len(recent)) > most {
		o.w.violate("S18", "%s sent %d requests within a second, %v are allowed", p.name, len(recent), o.w.plan.rate)
	}
}

// jitter is how many requests more than the rate the wire's own delays may bring
// into one second.
const jitter = 2

// told checks S15 on an outgoing text.
func (o *oracle) told(where, what string) {
	o.secrets.Lock()
	defer o.secrets.Unlock()
	for _, secret := range o.secrets.texts {
		if strings.Contains(what, secret) {
			o.w.violate("S15", "%s tells %q", where, secret)
		}
	}
}

// hide adds a value that must not appear from now on.
func (o *oracle) hide(secret string) {
	o.secrets.Lock()
	defer o.secrets.Unlock()
	if secret != "" && !slices.Contains(o.secrets.texts, secret) {
		o.secrets.texts = append(o.secrets.texts, secret)
	}
}

func put[K comparable, V any](m map[K]map[string]V, at K, name string, value V) {
	if m[at] == nil {
		m[at] = map[string]V{}
	}
	m[at][name] = value
}

// taint notes others' act on a key, and on the keys its customer was to get instead. A person may have to
// decide on them.
func (o *oracle) taint(key, what string) {
	if o.taints[key][what] {
		return
	}
	put(o.taints, key, what, true)
	for heir := range o.heirs[key] {
		o.taint(heir, what)
	}
}

// inherits notes that the customer with a key will get another.
func (o *oracle) inherits(heir, key string) {
	put(o.heirs, key, heir, true)
	for what := range o.taints[key] {
		o.taint(heir, what)
	}
}

func (o *oracle) taintCustomer(id, what string) {
	for key := range o.keys[id] {
		o.taint(key, what)
	}
}

// keysTaken reports whether somebody took the keys off a customer.
func (o *oracle) keysTaken() bool {
	for _, what := range o.taints {
		if what["key gone"] {
			return true
		}
	}
	return false
}

func (o *oracle) addedBy(id string, fields map[string]any) {
	o.foreign[id] = true
	raw, _ := json.Marshal(fields) // made of text
	o.carries(id, keyOf(raw))
}

// edited notes a customer's key after somebody's edit.
func (o *oracle) edited(id string) {
	o.touched = true
	if c, ok := o.w.service.Customer(id); ok {
		o.carries(id, c.ExternalData[keyName])
	}
}

func (o *oracle) carries(id, key string) {
	if key != "" {
		put(o.keys, id, key, true)
	}
	if c, ok := o.w.service.Customer(id); ok && c.ExternalData[keyName] == key && o.carried[id] != key {
		o.carried[id], o.since[id] = key, time.Now()
	}
}

func (o *oracle) acknowledged(event string) { o.accepted["event:"+event] = true }

// restored notes that the ledger is now an older one.
func (o *oracle) restored(b *backup) {
	o.accepted, o.known, o.sentBefore = cloneSet(b.accepted), cloneSet(b.known), b.sent
	o.restoredAt, o.restoredTruly = o.w.now(), time.Now()
	o.intents, o.links, o.shown = map[string]*intent{}, map[string]time.Time{}, map[string]keyShown{}
	o.complete, o.givenUp = nil, maps.Clone(b.givenUp)
	o.passes = map[int]map[int]pageSeen{}
}

// watched is the truth before a request took effect.
type watched struct{ customers []sandbox.Customer }

// judgeGivenUp checks S19: nothing leaves for a record after a person has given it up. A key now of another
// record counts for that one.
func (o *oracle) judgeGivenUp(c call) {
	if c.asked || o.isLate(c) {
		return
	}
	for id, word := range o.givenUp {
		if c.at.Before(word.at) {
			continue
		}
		switch {
		case (c.op == "update" || c.op == "link") && word.customer != "" && c.id == word.customer:
		case c.op == "create" && word.key != "" && c.id == word.key && o.alone(id, word.key):
		default:
			continue
		}
		o.w.violate("S19", "a request (%s) left for record %s, which a person had given up", c.op, id.SourceID)
	}
}
