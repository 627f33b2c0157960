package simulation

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

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
		if in := o.intents[c.id]; in != nil && f != faultThrottled && f != faultBefore && f != faultOutage &&
			status != http.StatusUnauthorized && status != 0 {
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
	pass := passSeen{number: c.pass, p: c.p, began: pages[0].at, skew: pages[0].skew, lied: o.lied[c.pass],
		keys: map[string]string{}}
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
	r := &runSeen{books: b, epoch: o.w.epoch, began: time.Now(), passes: map[int]bool{}, creates: map[string]bool{},
		frozen: map[string]bool{}, w: o.w, outer: o.run[p]}
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
