package simulation

import (
	"crypto/sha256"
	"maps"
	"slices"
	"time"

	"payersync/connector"
	"payersync/state"
)

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
	// by whichever process
	proven := slices.ContainsFunc(o.complete, func(p passSeen) bool { return p.began.After(since) && o.doubt(p) == "" })
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
			o.w.violate("S1", "a customer was made for %s, which customer %s carries and the list of this run showed without it",
				c.id, old.ID)
		case looked && pass.missed(old.ID):
			o.w.reach("a customer that a moving list hid")
		case looked:
			o.w.violate("S1", "a customer was made for %s, which customer %s carries and the list of this run showed", c.id,
				old.ID)
		case r.searched.at.IsZero():
			o.w.violate("S1", "a customer was made for %s, which customer %s carries since before the run, and the run took no look", c.id, old.ID)
		default:
			o.w.violate("S1", "a customer was made for %s, which customer %s carries and the search of this run shows", c.id,
				old.ID)
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
		if key := c.ExternalData[keyName]; key != "" && pass.keys[id] == "" && o.since[id].Before(pass.began) &&
			(keyless || o.shown[id].key == key) {
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
