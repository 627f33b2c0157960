package simulation

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// oracle judges the connector by the true events: it sees every request like the service, every answer like
// the connector, and all acts of others. It knows nothing of the connector's code.
type oracle struct {
	w *world

	foreign       map[string]bool                   // customers made by others
	keys          map[string]map[string]bool        // every key value a customer ever carried
	carried       map[string]string                 // the key of a customer
	since         map[string]time.Time              // when a customer got the key it carries
	shown         map[string]keyShown               // a customer's key as last read by the ledger
	readAt        map[string]time.Time              // when a read of the customer by itself last showed it
	taints        map[string]map[string]bool        // by key value: acts of others on it
	parted        map[string]bool                   // records with a person's decision on their customers
	heirs         map[string]map[string]bool        // by key: the keys its customer was to get instead
	accepted      map[string]bool                   // inbox keys answered with 2xx
	intents       map[string]*intent                // by key value
	sentBefore    map[string][sha256.Size]byte      // by key value: the creates known to the restored ledger
	gets          map[*process]map[string]reading   // each process's last read of a customer
	looks         map[*process]map[string]time.Time // the time of a process's last read of a customer, without a link request since
	passes        map[int]map[int]pageSeen          // list passes under way, by number and page
	complete      []passSeen                        // complete list passes, in order
	lied          map[int]bool                      // list passes over an incomplete view
	links         map[string]time.Time              // the time of a customer's lost link request, without a read since
	known         map[string]bool                   // customers read by the ledger, and not confirmed gone
	learnt        map[*process]int                  // the newest list pass with its customers included
	left          map[string]time.Time              // by key: when its record was last excluded or archived
	givenUp       map[state.RecordID]wordSaid       // records given up by a person, and not included again
	unmeasured    map[string]time.Time              // by key passed on because of a clock set ahead: the last time for creates with it to arrive
	misled        map[string]bool                   // customers not found by reads for longer than the tolerated lag
	lag           time.Duration                     // the longest lag of a read by id
	restoredAt    time.Time                         // on the connector's clock; zero for never
	restoredTruly time.Time                         // the same, on the service's
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
		w: w, foreign: map[string]bool{}, keys: map[string]map[string]bool{}, carried: map[string]string{}, since: map[string]time.Time{}, readAt: map[string]time.Time{}, shown: map[string]keyShown{}, taints: map[string]map[string]bool{}, heirs: map[string]map[string]bool{}, parted: map[string]bool{},
		accepted: map[string]bool{}, intents: map[string]*intent{}, gets: map[*process]map[string]reading{},
		looks:  map[*process]map[string]time.Time{},
		passes: map[int]map[int]pageSeen{}, links: map[string]time.Time{}, run: map[*process]*runSeen{},
		departed: map[*process][]time.Time{}, known: map[string]bool{}, learnt: map[*process]int{}, misled: map[string]bool{}, unmeasured: map[string]time.Time{}, left: map[string]time.Time{}, givenUp: map[state.RecordID]wordSaid{}, lied: map[int]bool{},
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

// alone reports whether no record but one has a key.
func (o *oracle) alone(id state.RecordID, key string) bool {
	for _, b := range o.w.allBooks() {
		for _, r := range b.records {
			if b.fields(r.SourceID).No == key && (b.connection != id.Connection || r.SourceID != id.SourceID) {
				return false
			}
		}
	}
	return true
}

// before judges a request just before its effect.
func (o *oracle) before(c call) (b watched) {
	o.judgeGivenUp(c)
	switch c.op {
	case "create":
		b.customers = o.w.service.Customers()
		o.judgeCreate(c)
	case "update":
		o.judgeUpdate(c)
	case "get":
		o.lag = max(o.lag, o.w.view.ReadLag)
		put(o.looks, c.p, c.id, time.Now().Add(-o.lag))
	case "list":
		o.lied[c.pass] = o.lied[c.pass] || o.w.listsLie()
	case "search":
		if c.run != nil {
			c.run.searched = searchSeen{time.Now(), o.w.listsLie()}
		}
	case "link":
		o.judgeLink(c)
	case "delete":
		o.w.violate("S7", "a DELETE was sent")
	case "cancel":
		if !c.asked {
			o.w.violate("S7", "a mandate was cancelled without an operator")
		}
	}
	return b
}

// judgeCreate checks S3 and S4 on a create at the service.
func (o *oracle) judgeCreate(c call) {
	now, sum := time.Now(), sha256.Sum256(c.body)
	if o.isLate(c) {
		return // it was judged when it was sent
	}
	before := o.intents[c.id]
	last := before.last()
	// Another record with the key may have other bytes, once the first create's time is over. So may a record
	// that was excluded or archived since, and came back with other values: lists had proved that the first
	// create did not arrive.
	anew := o.taints[c.id]["rekeyed"] || o.left[c.id].After(last.run)
	if before != nil && before.body != sum && !before.settled && !(anew && o.outlived(c, last)) {
		o.w.violate("S3", "the create of %s was sent with other bytes while the first had no answer", c.id)
	}
	// A create refused only for its token had no effect: it needs a read like a new one.
	if before == nil || before.body != sum || len(before.sends) == 0 {
		if r := o.run[c.p]; r != nil && !r.frozen[c.id] && o.sentBefore[c.id] != sum {
			r.creates[c.id] = true
		}
		o.judgeLook(c, time.Time{})
		o.judgeOthers(c)
	} else if !before.settled {
		o.w.reach("create replayed")
		if now.Sub(last.at) > resendWithin {
			o.w.reach("create replayed after the trusted window")
		}
		if o.w.plan.strict && now.Sub(last.at) > resendWithin+2*maxSkew {
			o.judgeLook(c, last.at)
			o.judgeOthers(c)
		}
	}
	if o.quarantined(now) {
		o.w.violate("S4", "the create of %s was sent inside the quarantine", c.id)
	}
	o.sent(c)
}

// sent remembers a sent create, whether or not it arrives.
func (o *oracle) sent(c call) {
	sum := sha256.Sum256(c.body)
	if in := o.intents[c.id]; in == nil || in.body != sum {
		o.intents[c.id] = &intent{body: sum}
	}
	in := o.intents[c.id]
	in.sends = append(in.sends, sending{time.Now(), o.w.now(), c.run.start()})
}

// unsent forgets a sent create: its token was refused, so the service ignored it.
func (o *oracle) unsent(c call) {
	if in := o.intents[c.id]; in != nil && in.body == sha256.Sum256(c.body) {
		in.sends = slices.DeleteFunc(in.sends, func(s sending) bool { return !s.at.Before(c.at) })
	}
}

// outlived reports whether the time of a create is over before another record's is sent, as far as the
// connector can know. It cannot know if its clock was set ahead after the first had left. For example, a
// record is sent, gets no answer and leaves. The clock goes a quarter of an hour ahead, and lists do not show
// the key. Then another record with the key is created, although the first create left two minutes ago at
// most. A jumping clock cannot measure that (fault F116). The judge ignores a second customer for as long as
// the two may arrive, and counts it as doubled.
func (o *oracle) outlived(c call, s sending) bool {
	const long = resendWithin - 2*maxSkew
	if time.Since(s.at) > long {
		return true
	}
	measured := o.w.now().Sub(s.clock)
	if measured <= long || measured-time.Since(s.at) <= 2*maxSkew {
		return false
	}
	o.w.reach("a key passed on because a clock was put ahead")
	o.taint(c.id, "doubled")
	o.unmeasured[c.id] = time.Now().Add(maxLate)
	return true
}

// sentSoFar returns the sent creates known to the ledger, by key.
func (o *oracle) sentSoFar() map[string][sha256.Size]byte {
	out := maps.Clone(o.sentBefore)
	if out == nil {
		out = map[string][sha256.Size]byte{}
	}
	for key, in := range o.intents {
		out[key] = in.body
	}
	return out
}

// isLate reports whether the request arrives after its sender gave it up.
func (o *oracle) isLate(c call) bool { return c.given }

// quarantined reports whether a restored ledger must still wait. A clock after a jump measures that only as
// well as the service's permits.
func (o *oracle) quarantined(now time.Time) bool {
	switch {
	case o.restoredAt.IsZero():
		return false
	case o.w.jumped:
		return now.Before(o.restoredTruly.Add(quarantine - 2*maxSkew))
	}
	return o.w.now().Before(o.restoredAt.Add(quarantine))
}

// pairs returns the pairs of complete passes with the same customers within the lookup's age, both begun
// after the quarantine of a restore and after since; the newest first.
func (o *oracle) pairs(since time.Time) (found []passSeen) {
	now := o.w.now()
	for i, a := range o.complete {
		if now.Sub(a.began.Add(a.skew)) > 26*time.Hour || a.began.Before(since) {
			continue
		}
		for _, b := range o.complete[i+1:] {
			if a.ids == b.ids {
				a.lied = a.lied || b.lied
				a.lacks, a.bare = slices.Concat(a.lacks, b.lacks), slices.Concat(a.bare, b.bare)
				found = append(found, a)
			}
		}
	}
	slices.Reverse(found)
	return found
}

// judgeLook checks S4 and S17: before a create two complete passes agree, and they contain every existing
// customer known to the ledger, with its key.
func (o *oracle) judgeLook(c call, since time.Time) {
	pairs := o.pairs(since)
	if len(pairs) == 0 {
		o.w.violate("S4", "the create of %s was sent without two agreeing list passes", c.id)
		return
	}
	if !o.w.plan.strict {
		return
	}
	if !slices.ContainsFunc(pairs, func(p passSeen) bool { return o.doubt(p) == "" }) {
		o.w.violate("S17", "the create of %s was sent, and the list %s", c.id, o.doubt(pairs[0]))
	}
	since = c.run.start()
	proven := slices.ContainsFunc(o.complete, func(p passSeen) bool { return p.began.After(since) && o.doubt(p) == "" }) // by whichever process
	if pass, looked := o.lastPass(c.run); looked && !proven && o.doubt(pass) != "" {
		o.w.violate("S17", "the create of %s was sent, and the list that this run has read %s", c.id, o.doubt(pass))
	}
}

// start returns when a run began; the zero time for no run.
func (r *runSeen) start() time.Time {
	if r == nil {
		return time.Time{}
	}
	return r.began
}

// doubt returns the reason against a pass as proof; "" for none. A customer is missing, unless a read said it
// does not exist. Or its key is missing, unless that customer was read by itself within the lookup's age.
func (o *oracle) doubt(pass passSeen) string {
	for _, id := range pass.lacks {
		if _, lives := o.w.service.Customer(id); lives && !o.misled[id] { // the ledger may know a later deletion
			return "lacks customer " + id
		}
	}
	for _, id := range pass.bare {
		if o.since[id].After(pass.began) {
			continue // it was given another key since, as somebody may after any look
		}
		if at, read := o.readAt[id]; !read || at.Before(o.since[id]) || time.Since(at) > 26*time.Hour {
			return "lacks the key of customer " + id
		}
	}
	return ""
}

// judgeOthers checks S1 against others' creates: the run's own read finds a customer that had the key before
// the run began.
func (o *oracle) judgeOthers(c call) {
	r := c.run
	if r == nil || !o.w.plan.strict {
		return
	}
	for _, old := range o.w.service.Customers() {
		if old.ExternalData[keyName] != c.id || !o.since[old.ID].Before(r.began) {
			continue
		}
		switch pass, looked := o.lastPass(r); {
		case looked && pass.lied, !looked && r.searched.lied:
			// Nobody can know strangers' customers, nor ours after the ledger was replaced by an older copy.
			o.w.reach("a customer that a lying list hid")
			o.taint(c.id, "doubled")
		case looked && pass.keys[old.ID] == "" && !pass.missed(old.ID):
			o.w.violate("S1", "a customer was made for %s, which customer %s carries and the list of this run showed without it", c.id, old.ID)
		case looked && pass.missed(old.ID):
			o.w.reach("a customer that a moving list hid")
		case looked:
			o.w.violate("S1", "a customer was made for %s, which customer %s carries and the list of this run showed", c.id, old.ID)
		case r.searched.at.IsZero():
			o.w.violate("S1", "a customer was made for %s, which customer %s carries since before the run, and the run took no look", c.id, old.ID)
		default:
			o.w.violate("S1", "a customer was made for %s, which customer %s carries and the search of this run shows", c.id, old.ID)
		}
	}
}

// lastPass returns the newest complete pass made by a run.
func (o *oracle) lastPass(r *runSeen) (last passSeen, ok bool) {
	for _, pass := range o.complete {
		if r != nil && r.passes[pass.number] && pass.number >= last.number {
			last, ok = pass, true
		}
	}
	return last, ok
}

func (p passSeen) missed(id string) bool {
	_, listed := p.keys[id]
	return !listed
}

// learns notes that a process has stored the values it read.
func (o *oracle) learns(p *process) {
	for _, pass := range o.complete {
		if pass.p != p || pass.number <= o.learnt[p] {
			continue
		}
		o.learnt[p] = pass.number
		for id, key := range pass.keys {
			o.known[id] = true
			if key != "" && !pass.began.Before(o.shown[id].at) {
				o.shown[id] = keyShown{key, pass.began}
			}
		}
	}
}

// lacking returns the customers known to the ledger that are missing from a finished pass, and those without
// their keys. A key unknown to the ledger is missed only if the list shows no keys at all: an old list may
// lack any.
func (o *oracle) lacking(pass passSeen) (lacks, bare []string) {
	keyless := !slices.ContainsFunc(slices.Collect(maps.Values(pass.keys)), func(key string) bool { return key != "" })
	for _, id := range slices.Sorted(maps.Keys(o.known)) {
		c, lives := o.w.service.Customer(id)
		if !lives || !c.CreatedAt.Before(pass.began) {
			continue
		}
		if pass.missed(id) {
			o.w.reach("trouble: a list that lacked whom the ledger knew")
			lacks = append(lacks, id)
			continue
		}
		if key := c.ExternalData[keyName]; key != "" && pass.keys[id] == "" && o.since[id].Before(pass.began) && (keyless || o.shown[id].key == key) {
			o.w.reach("trouble: a list that showed no key of whom the ledger knew")
			bare = append(bare, id)
		}
	}
	return lacks, bare
}

// judgeUpdate checks S5 and S6: the body holds what the process last read of the
// customer, but for what is ours, and differs in something of ours.
func (o *oracle) judgeUpdate(c call) {
	if o.isLate(c) {
		return
	}
	read, ok := o.gets[c.p][c.id]
	if !ok {
		o.w.violate("S5", "customer %s was replaced without being read", c.id)
		return
	}
	if was, is := foreignPart(read.raw), foreignPart(c.body); was != is {
		o.w.violate("S5", "the update of customer %s changes what is not ours:\n  read %s\n  sent %s", c.id, was, is)
	}
	if managedPart(read.raw) == managedPart(c.body) {
		o.w.violate("S6", "the update of customer %s changes nothing of ours", c.id)
	}
	o.w.reach("update")
}

// judgeLink checks automatic requests for signing links: only while no mandate was cancelled, and once per
// read of the customer. The connector cannot know events after the service's answer to the read. Without a
// read since the last request, the moment of sending counts.
func (o *oracle) judgeLink(c call) {
	if c.asked || o.isLate(c) {
		return
	}
	known, looked := o.looks[c.p][c.id]
	if !looked {
		known = c.at.Add(-o.lag)
	}
	delete(o.looks[c.p], c.id)
	if lost, open := o.links[c.id]; open && !c.at.Before(lost) {
		o.w.violate("F58", "a signing link was asked for again before a look at customer %s", c.id)
	}
	customer, ok := o.w.service.Customer(c.id)
	if !ok || len(customer.Mandates) == 0 {
		return
	}
	last := customer.Mandates[len(customer.Mandates)-1]
	if since := last.History[len(last.History)-1].At; last.Status == connector.MandateCancelled && since.Before(known) {
		o.w.violate("V-cancelled", "a signing link was asked for by itself after mandate %s was cancelled", last.ID)
	}
}

// after examines the effect of a request.
func (o *oracle) after(c call, b watched) {
	switch c.op {
	case "create":
		for _, made := range o.w.service.Customers() {
			if slices.ContainsFunc(b.customers, func(old sandbox.Customer) bool { return old.ID == made.ID }) {
				continue
			}
			o.born(c, made, b)
		}
	case "update":
		o.edited(c.id)
	}
}

// born checks S1 at the moment a customer of ours comes into being.
func (o *oracle) born(c call, made sandbox.Customer, b watched) {
	key := made.ExternalData[keyName]
	if key != c.id {
		o.w.violate("S2", "the customer made for %s carries %q", c.id, key)
	}
	o.carries(made.ID, key)
	for _, old := range b.customers {
		if o.foreign[old.ID] || old.ExternalData[keyName] != key {
			continue
		}
		switch {
		case o.hidden(old):
			o.w.reach("a customer of ours that a lying list hid")
		case time.Now().After(o.unmeasured[key]):
			o.w.violate("S1", "customer %s was made for %s, which customer %s carries already", made.ID, key, old.ID)
		}
	}
}

// hidden reports whether the ledger could not know a customer of ours: it never saw it, and the newest
// proving read came later, was wrong, and had no other gap to reveal that.
func (o *oracle) hidden(old sandbox.Customer) bool {
	if !o.w.plan.strict || o.known[old.ID] {
		return false
	}
	for _, pass := range o.pairs(time.Time{}) {
		if o.doubt(pass) == "" {
			return pass.lied && pass.missed(old.ID) && old.CreatedAt.Before(pass.began)
		}
	}
	return false
}

// answered examines the answer as the process saw it: status 0 is no answer; whole means the body did not
// break off.
func (o *oracle) answered(c call, f fault, status int, body []byte, whole bool) {
	clean := whole && f != faultHTML && f != faultEmpty && f != faultAfter
	ok := clean && status == http.StatusOK
	switch c.op {
	case "token":
		o.hide(textOf(body, "access_token"))
	case "create":
		if ok {
			o.readAt[textOf(body, "id")] = time.Now() // it holds the sent values
		}
		if f == faultLostRequest || f == faultLate {
			o.judgeCreate(c) // it never came by the service, or will as a late one
		}
		if in := o.intents[c.id]; in != nil && f != faultThrottled && f != faultBefore && f != faultOutage && status != http.StatusUnauthorized && status != 0 {
			in.settled = in.settled || ok || clean && status >= 400 && status < 500
		}
		if clean && status == http.StatusUnauthorized {
			o.unsent(c)
		}
	case "get":
		if ok {
			put(o.gets, c.p, c.id, reading{body})
			o.readAt[c.id], o.shown[c.id] = time.Now(), keyShown{keyOf(body), c.at}
			delete(o.links, c.id)
		}
		if clean && status == http.StatusNotFound {
			delete(o.links, c.id)
			delete(o.known, c.id)
			o.notFound(c.id)
		}
	case "link":
		if status == 0 || status == http.StatusOK && !ok || status >= 500 && f != faultBefore && f != faultOutage {
			o.links[c.id] = time.Now()
			o.w.reach("link request without an answer")
		}
	case "list":
		o.listed(c, ok, body)
	}
}

// notFound tracks lagging reads: an existing customer that was not found is not missing if it is younger than
// the tolerated lag.
func (o *oracle) notFound(id string) {
	c, lives := o.w.service.Customer(id)
	if !lives {
		return
	}
	o.w.reach("trouble: a customer that lives was not found")
	if time.Since(c.CreatedAt) > shortLag || o.w.skew > maxSkew { // a jumped clock makes it look older
		o.misled[id] = true
	}
}

// listed follows list passes; one is complete when its last page came clean and
// empty, and every page before it clean. An empty page 0 is the last unless page 1
// is read all the same, because pages may begin there.
func (o *oracle) listed(c call, ok bool, body []byte) {
	if c.page == 0 {
		o.passes[c.pass] = map[int]pageSeen{}
	}
	pages := o.passes[c.pass]
	if !ok || pages == nil {
		return
	}
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil {
		return
	}
	seen := pageSeen{at: c.at, skew: o.w.skew, keys: map[string]string{}}
	for _, customer := range list {
		seen.keys[textOf(customer, "id")] = keyOf(customer)
	}
	pages[c.page] = seen
	o.countPass(c)
	o.complete = slices.DeleteFunc(o.complete, func(p passSeen) bool { return p.number == c.pass })
	pass := passSeen{number: c.pass, p: c.p, began: pages[0].at, skew: pages[0].skew, lied: o.lied[c.pass], keys: map[string]string{}}
	for n := 0; ; n++ {
		page, have := pages[n]
		if !have {
			return
		}
		maps.Copy(pass.keys, page.keys)
		if _, further := pages[1]; len(page.keys) == 0 && (n > 0 || !further) {
			break
		}
	}
	pass.ids = strings.Join(slices.Sorted(maps.Keys(pass.keys)), " ")
	pass.lacks, pass.bare = o.lacking(pass)
	o.complete = append(o.complete, pass)
}

// mostPasses is how many list passes a run needs at most, however many payers wait.
const mostPasses = 20

// countPass checks L4 on a run that reads the list.
func (o *oracle) countPass(c call) {
	r := c.run
	if r == nil {
		return
	}
	r.passes[c.pass] = true
	if o.w.plan.strict && len(r.passes) > mostPasses {
		o.w.violate("L4", "a run began more than %d list passes", mostPasses)
	}
}

// forged sends a forged delivery, and checks S11.
func (o *oracle) forged(h http.Header, body []byte) {
	p := o.w.procs[0]
	before := o.inboxKeys(p)
	if status := p.receive(h, body); status != http.StatusUnauthorized {
		o.w.violate("S11", "a forged webhook was answered %d", status)
	}
	if after := o.inboxKeys(p); !maps.Equal(before, after) {
		o.w.violate("S11", "a forged webhook changed the inbox")
	}
	o.w.reach("forged webhook")
}

// inboxKeys returns the state of each delivery by its event, without the hash of
// its body: the service gives an event one body.
func (o *oracle) inboxKeys(p *process) map[string]string {
	rows, err := p.ledger.Inbox(context.Background(), state.Filter{})
	if err != nil {
		o.w.violate("harness", "read the inbox: %v", err)
	}
	out := map[string]string{}
	for _, r := range rows {
		key := r.DeliveryKey[:strings.LastIndex(r.DeliveryKey, ":")]
		if _, twice := out[key]; twice {
			o.w.violate("F31", "the inbox holds the webhook %s twice", r.DeliveryKey)
		}
		out[key] = r.State
	}
	return out
}

// runBegins opens the oracle's account of a run of a connection.
func (o *oracle) runBegins(p *process, b *books) *runSeen {
	r := &runSeen{books: b, epoch: o.w.epoch, began: time.Now(), passes: map[int]bool{}, creates: map[string]bool{}, frozen: map[string]bool{}, w: o.w, outer: o.run[p]}
	o.run[p] = r
	frozen, err := p.ledger.Changes(context.Background(), b.connection, state.LaneCustomer, false, 0, 100)
	if err != nil {
		o.w.violate("harness", "read the changes: %v", err)
	}
	for _, c := range frozen {
		r.frozen[c.Payer.Key.Value] = true
	}
	return r
}

// approve is a person's answer to a plan above the limits.
func (r *runSeen) approve(p state.Plan) (bool, error) {
	r.asked = &p
	r.said = !r.w.silent && (r.w.healed || r.w.minds.IntN(2) == 0)
	r.w.reach("a plan above the limits")
	return r.said, nil
}

// runEnded checks S13 and V2 on a closed run.
func (o *oracle) runEnded(p *process, r *runSeen, kind connector.RunKind, res syncer.Result) {
	o.run[p] = r.outer
	if res.Err != nil {
		o.told("the error of a run", res.Err.Error())
	}
	if res.Plan != nil {
		ceiling := res.Plan.Creates
		switch {
		case kind == connector.RunPlan:
			ceiling = 0
		case r.asked != nil && !r.said: // approved earlier decisions are sent all the same
			ceiling = r.asked.Creates - r.asked.Open.Creates - r.asked.Open.LeftOut
		}
		if len(r.creates) > ceiling {
			o.w.violate("S13", "run %d sent %d new creates, %d were allowed", res.RunID, len(r.creates), ceiling)
		}
	}
	if res.Outcome == connector.RunComplete && kind != connector.RunPlan && r.epoch == o.w.epoch {
		o.judgeComplete(p, r.books, res)
	}
}

// judgeTold checks V5: a new decision on a record has the same findings as the stored ones. Decisions take
// time, so each seed checks one record without findings.
func (o *oracle) judgeTold(p *process, b *books, record connector.Record, any bool) {
	ctx := context.Background()
	shown, err := p.ledger.AttentionOf(ctx, b.connection, record.SourceID)
	if err != nil {
		o.w.violate("harness", "read what needs attention: %v", err)
	}
	if len(shown) == 0 && !any {
		return
	}
	next, err := p.syncer.Preview(ctx, o.w.connection(b), syncer.PreviewOptions{SourceID: record.SourceID})
	if err != nil || len(next.Customers) != 1 {
		o.w.violate("harness", "preview of record %s: %d customers, %v", record.SourceID, len(next.Customers), err)
		return
	}
	var told []connector.Reason
	for _, row := range shown {
		if !strings.HasPrefix(row.Detail, "While the customer was being updated") { // a past event; the present facts do not show it
			told = append(told, connector.Reason(row.Reason))
		}
	}
	c := next.Customers[0]
	if want, ok := o.w.rendered(record); ok && c.Action == connector.ActionAdopt && slices.Equal(told, []connector.Reason{connector.ReasonKeyDisputed}) && o.looksForeign(want) {
		return // a forecast reads no customer
	}
	foreseen := slices.DeleteFunc([]connector.Reason{c.Reason, c.Also, c.OfMandate}, func(r connector.Reason) bool { return r == "" })
	slices.Sort(told)
	slices.Sort(foreseen)
	if next.InFlight == 0 && !slices.Equal(told, foreseen) {
		o.w.violate("V5", "people are told %q of record %s, and deciding anew says %q: %v", told, record.SourceID, foreseen, shown)
	}
}

// judgeSettled checks V6: a decision from the facts of the ledger gives the stored findings, class and link.
func (o *oracle) judgeSettled(p *process) {
	if err := p.ledger.Do(context.Background(), func(tx *state.Tx) error {
		differences, err := tx.Settle()
		for _, d := range differences {
			o.w.violate("V6", "by the facts, %s", d)
		}
		return err
	}); err != nil {
		o.w.violate("harness", "decide again: %v", err)
	}
}

// judgeComplete checks V2: unfinished work of a complete run has a finding.
func (o *oracle) judgeComplete(p *process, b *books, res syncer.Result) {
	for _, record := range b.records {
		want, ok := o.w.rendered(record)
		if _, givenUp := o.givenUp[state.RecordID{Connection: b.connection, SourceID: record.SourceID}]; !ok || givenUp {
			continue
		}
		shown, err := p.ledger.AttentionOf(context.Background(), b.connection, record.SourceID)
		if err != nil || len(shown) > 0 {
			continue
		}
		payer, err := p.ledger.Payer(context.Background(), b.connection, record.SourceID)
		if err != nil || payer.LinkState != connector.LinkLinked || payer.Shows != want.Customer.Hash() && !o.taints[want.Key.Value]["undone"] {
			o.w.violate("V2", "run %d is complete, and record %s is %s without a word (%v)", res.RunID, record.SourceID, payer.LinkState, err)
		}
	}
}

// check judges the present ledger: S2, S8, S9, S10, S17 and V6.
func (o *oracle) check(p *process) {
	ctx := context.Background()
	payers, err := p.ledger.Payers(ctx, state.Filter{})
	if err != nil {
		o.w.violate("harness", "read the payers: %v", err)
		return
	}
	linked := map[string]string{}
	for _, row := range payers {
		o.checkPayer(row, linked)
	}
	o.checkMandates(ctx, p)
	o.checkAttention(ctx, p)
	o.judgeSettled(p)
	have := o.inboxKeys(p)
	for key := range o.accepted {
		if _, ok := have[key]; !ok {
			o.w.violate("S10", "the webhook %s was acknowledged and is not in the inbox", key)
		}
	}
}

// checkAttention checks S15 and V3: findings show no secret, and every create of unknown outcome has a
// finding after its run.
func (o *oracle) checkAttention(ctx context.Context, p *process) {
	shown, err := p.ledger.Attention(ctx, state.Filter{})
	if err != nil {
		o.w.violate("harness", "read what needs attention: %v", err)
	}
	listed := map[string]bool{}
	for _, row := range shown {
		o.told("attention", row.Detail)
		listed[row.SourceID] = true
	}
	for _, b := range o.w.allBooks() {
		open, err := p.ledger.Changes(ctx, b.connection, state.LaneCustomer, false, 0, 100)
		if err != nil {
			o.w.violate("harness", "read the changes: %v", err)
		}
		for _, c := range open {
			if c.State == connector.ChangeUnknown && !listed[c.Payer.SourceID] {
				o.w.violate("V3", "nobody is told that the outcome of the %s of record %s is unknown", c.Action, c.Payer.SourceID)
			}
		}
	}
}

func (o *oracle) checkPayer(row state.PayerRow, linked map[string]string) {
	o.w.reach("link state " + row.LinkState)
	if row.AttentionReason != nil {
		o.w.reach("attention " + *row.AttentionReason)
	}
	if row.BillingID == nil {
		return
	}
	id := *row.BillingID
	if other, twice := linked[id]; twice {
		o.w.violate("S2", "records %s and %s are both linked to customer %s", other, row.SourceID, id)
	}
	linked[id] = row.SourceID
	if _, lives := o.w.service.Customer(id); lives {
		o.known[id] = true
	}
	if o.keys[id] == nil {
		o.w.violate("S8", "record %s is linked to customer %s, which never was", row.SourceID, id)
	} else if !o.keys[id][row.KeyValue] {
		o.w.violate("S2", "record %s with key %s is linked to customer %s, which never carried it", row.SourceID, row.KeyValue, id)
	}
	if _, lives := o.w.service.Customer(id); lives && row.LinkState == string(connector.LinkMissing) && !o.misled[id] {
		o.w.violate("S17", "customer %s of record %s counts as missing and is there", id, row.SourceID)
	}
}

func (o *oracle) checkMandates(ctx context.Context, p *process) {
	mandates, err := p.ledger.Mandates(ctx, state.Filter{})
	if err != nil {
		o.w.violate("harness", "read the mandates: %v", err)
	}
	customers := map[string]bool{}
	for _, m := range mandates {
		customers[m.BillingID] = true
		truth, ok := o.w.service.Mandate(m.MandateID)
		if !ok || truth.CustomerID != m.BillingID || place(truth, m.Status) < 0 {
			o.w.violate("S8", "the ledger holds mandate %s of customer %s as %s, which it never was", m.MandateID, m.BillingID, m.Status)
		}
	}
	for id := range customers {
		o.checkHistory(ctx, p, id)
	}
}

func (o *oracle) checkHistory(ctx context.Context, p *process, id string) {
	rows, err := p.ledger.History(ctx, id)
	if err != nil {
		o.w.violate("harness", "read the history: %v", err)
	}
	last := map[string]int{}
	for _, r := range rows {
		truth, _ := o.w.service.Mandate(r.MandateID)
		at := place(truth, r.ToStatus)
		if at < 0 {
			o.w.violate("S8", "the history says that mandate %s was %s, which it never was", r.MandateID, r.ToStatus)
		}
		if at < last[r.MandateID] && o.lag == 0 { // no reader knows how far its answers are behind
			o.w.violate("S9", "the ledger took mandate %s back to %s", r.MandateID, r.ToStatus)
		}
		last[r.MandateID] = at
	}
}

// place returns the position of a status in a mandate's life; -1 if it never had it.
func place(m sandbox.Mandate, status string) int {
	return slices.IndexFunc(m.History, func(s sandbox.Step) bool { return string(s.Status) == status })
}

// checkIntegrity checks S16.
func (w *world) checkIntegrity(p *process) {
	if err := p.ledger.Integrity(context.Background()); err != nil {
		w.violate("S16", "%v", err)
	}
}

// ours reports whether a contact is one of the mappings'.
func ours(person map[string]any) bool {
	email, _ := person["email"].(string)
	name, _ := person["name"].(string)
	return strings.HasSuffix(email, "@payer.test") || email == "" && strings.HasPrefix(name, "Payer ")
}

var ownMembers = []string{"name", "email", "phone"}

// foreignPart returns, in one spelling, all parts of a customer without a mapping rule.
func foreignPart(raw []byte) string {
	o := decode(raw)
	for _, name := range []string{"id", "name", "addresses", "timezone", "directDebitMandate"} {
		delete(o, name)
	}
	if external, _ := o["externalData"].(map[string]any); external != nil {
		delete(external, keyName)
		delete(external, "tier")
	}
	if external, _ := o["externalData"].(map[string]any); len(external) == 0 {
		delete(o, "externalData")
	}
	var people []string
	list, _ := o["people"].([]any)
	for _, one := range list {
		person, _ := one.(map[string]any)
		if ours(person) {
			for _, name := range ownMembers {
				delete(person, name)
			}
		}
		if len(person) > 0 {
			people = append(people, text(person))
		}
	}
	delete(o, "people")
	slices.Sort(people)
	return text(o) + strings.Join(people, " ")
}

// managedPart returns, in one spelling, the parts of a customer with a mapping rule.
func managedPart(raw []byte) string {
	o := decode(raw)
	external, _ := o["externalData"].(map[string]any)
	out := []any{o["name"], o["addresses"], external[keyName], external["tier"]}
	list, _ := o["people"].([]any)
	for _, one := range list {
		if person, _ := one.(map[string]any); ours(person) {
			for _, name := range ownMembers {
				out = append(out, person[name])
			}
		}
	}
	return text(out)
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
