package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// The kinds of amends: others repair their own damage in the service, perhaps while our requests about it are
// under way.
const (
	keyBack   = "key back"  // a removed key is put back
	undoubled = "undoubled" // of the customers with a doubled key some are deleted, or all
	leaves    = "all leave" // the record of a doubled key leaves with them, and another takes its key
	// a record is renumbered, or replaced by another one, and a person orders the new key for its customer
	moves   = "moves"
	parts   = "parts"    // a person unlinks a record, takes that back, links it, or undoes an update
	givesUp = "gives up" // a person gives a record up, or takes that back
	// a record with a create under way is removed, doubled meanwhile or not, and another takes its key
	passedOn = "passed on"
)

var amendKinds = []string{keyBack, undoubled, leaves, passedOn, moves, parts, givesUp}

// mostRecords is the number of a connection's records up to which keys are passed on.
const mostRecords = 12

// amended gives one seed of three amends and more late requests: a late request may find its case already
// repaired. Every second other seed passes keys on. It has a random source of its own, so seeds without
// amends keep their stories.
func (p plan) amended() plan {
	p.told = true
	r := rand.New(rand.NewPCG(p.seed, 9))
	if r.IntN(3) > 0 {
		return p.passing()
	}
	p.amends = map[int]string{}
	for n := range p.steps {
		if r.IntN(3) == 0 {
			p.amends[n] = pick(r, keyBack, undoubled, undoubled, leaves)
		}
	}
	p.weather.odds[faultLate] = 0.1 + 0.2*r.Float64()
	p.weather.odds[faultLostRequest] += 0.1 * r.Float64()
	p.weights["foreign double"], p.weights["foreign key gone"], p.weights["edit"] = 3, 2, 4
	return p
}

// passing lets a key be passed on before one step in six, or, in every second of the other
// seeds, a customer be moved.
func (p plan) passing() plan {
	r := rand.New(rand.NewPCG(p.seed, 10))
	if r.IntN(2) == 0 {
		return p.moving()
	}
	p.amends = map[int]string{}
	for n := range p.steps {
		if r.IntN(6) == 0 {
			p.amends[n] = passedOn
		}
	}
	return p
}

// moving lets a customer be moved before one step in five.
func (p plan) moving() plan {
	r := rand.New(rand.NewPCG(p.seed, 11))
	if r.IntN(2) == 0 {
		return p.parting()
	}
	p.amends = map[int]string{}
	for n := range p.steps {
		if r.IntN(5) == 0 {
			p.amends[n] = moves
		}
	}
	return p
}

// parting lets a person part a record and its customer before one step in four, or move one.
func (p plan) parting() plan {
	r := rand.New(rand.NewPCG(p.seed, 12))
	if r.IntN(2) == 0 {
		return p.givingUp()
	}
	p.amends = map[int]string{}
	for n := range p.steps {
		if r.IntN(4) == 0 {
			p.amends[n] = pick(r, parts, parts, parts, moves)
		}
	}
	p.weights["foreign double"] = 2
	return p
}

// givingUp lets a person give a record up, or take that back, before one step in four.
func (p plan) givingUp() plan {
	r := rand.New(rand.NewPCG(p.seed, 13))
	p.amends = map[int]string{}
	for n := range p.steps {
		if r.IntN(4) == 0 {
			p.amends[n] = givesUp
		}
	}
	return p
}

// amend lets others put something right before a step.
func (w *world) amend(n int) error {
	kind := w.plan.amends[n]
	if kind == "" || w.plan.without[kind] {
		return nil
	}
	switch kind {
	case keyBack:
		return w.putKeyBack()
	case undoubled:
		_, err := w.undouble()
		return err
	case passedOn:
		return w.passOn()
	case moves:
		return w.moveOn()
	case parts:
		return w.part()
	case givesUp:
		return w.giveUp()
	}
	key, err := w.undouble()
	if err != nil || key == "" {
		return err
	}
	w.reach("amends: " + leaves)
	w.passKeyOn(key, w.books, 9)
	return nil
}

// keyTaken is a key removed from a customer by others, with the pairs beside it.
type keyTaken struct {
	customer string
	pairs    any
}

// putKeyBack puts the key removed last back on its customer.
func (w *world) putKeyBack() error {
	for i, taken := range slices.Backward(w.taken) {
		c, lives := w.service.Customer(taken.customer)
		if !lives || c.ExternalData[keyName] != "" {
			continue
		}
		w.taken = slices.Delete(w.taken, i, i+1)
		w.reach("amends: " + keyBack)
		return w.editOne(c, func(o map[string]any) { o["externalData"] = taken.pairs })
	}
	return nil
}

// passKeyOn removes the records with a key, and gives the key to another record, in a connection with at most
// most records.
func (w *world) passKeyOn(key string, to *books, most int) {
	w.oracle.taint(key, "rekeyed")
	for _, b := range w.allBooks() {
		for _, r := range b.records {
			if f := b.fields(r.SourceID); f.No == key {
				w.leave(b, r.SourceID, f)
			}
		}
	}
	if len(to.records) >= most {
		return
	}
	w.added++
	to.putPayer(fmt.Sprintf("R%d", w.added), key)
}

// leave lets a record be excluded, be deleted or get another key.
func (w *world) leave(b *books, id string, f fields) {
	as := connector.RecordActive
	switch w.minds.IntN(3) {
	case 0:
		f.Group = "supplier"
	case 1:
		as = connector.RecordDeleted
	default:
		w.added++
		f.No = fmt.Sprintf("K%d", w.added)
		w.oracle.taint(f.No, "rekeyed")
	}
	b.put(id, f, as, time.Now())
}

// passOn adds a record and lets its create get no answer and stay under way. Others may make customers with
// its key, be seen, and delete them again; then the record leaves and another comes with the key, in the same
// connection or another.
func (w *world) passOn() error {
	if len(w.books.records) >= mostRecords || len(w.second.records) >= mostRecords {
		return nil
	}
	from := pick(w.minds, w.books, w.books, w.second)
	to := pick(w.minds, w.books, w.books, w.second)
	w.added++
	key := fmt.Sprintf("P%d", w.added)
	from.putPayer(key, key)
	for range 2 { // its replay too
		w.strikes = append(w.strikes, strike{"create", faultLate, key})
	}
	if err := w.syncOf(from, w.anyProcess(), connector.RunSync); err != nil || !w.underWay(key) {
		return err // it was not sent, or has arrived
	}
	if err := w.doubleAndBack(key, from); err != nil {
		return err
	}
	w.passKeyOn(key, to, mostRecords+1)
	if w.minds.IntN(2) == 0 { // otherwise its own books are not read first
		if err := w.syncOf(from, w.anyProcess(), connector.RunSync); err != nil {
			return err
		}
	}
	if w.underWay(key) {
		w.reach("amends: " + passedOn)
		if from != to {
			w.reach("amends: passed on to other books")
		}
	}
	return w.syncOf(to, w.anyProcess(), connector.RunSync)
}

// moveOn renumbers a linked record, or replaces it by another, and has a person order the new key for the
// customer. The process may or may not have read the connection since.
func (w *world) moveOn() error {
	b, p := w.anyBooks(), w.anyProcess()
	if len(b.records) == 0 || len(b.records) >= mostRecords {
		return nil
	}
	id := pick(w.minds, b.records...).SourceID
	f := b.fields(id)
	old := f.No
	w.added++
	key, record := fmt.Sprintf("M%d", w.added), id
	w.oracle.taint(old, "rekeyed")
	w.oracle.taint(key, "rekeyed")
	w.oracle.taint(old, "moved")
	w.oracle.inherits(key, old)
	if w.minds.IntN(2) == 0 {
		f.No = key
		b.put(id, f, connector.RecordActive, time.Now())
	} else {
		record = key
		b.put(id, f, connector.RecordDeleted, time.Now())
		b.putPayer(record, key)
	}
	if err := w.syncOf(b, p, pick(w.minds, connector.RunPlan, connector.RunSync)); err != nil {
		return err
	}
	return w.as(p, func() error {
		ctx := context.Background()
		payer, err := p.ledger.Payer(ctx, b.connection, id)
		if err != nil {
			return nil // it never was one
		}
		w.oracle.inherits(key, payer.Key.Value)
		err = p.ledger.Do(ctx, func(tx *state.Tx) error {
			to := connector.Key{Name: keyName, Value: key}
			if record == id {
				return tx.MoveKey(payer, to)
			}
			return tx.HandOver(payer, b.connection, record, to)
		})
		w.logf("%s is told that the customer of %s, %s, comes to be %s of record %s: %v", p.name, id, old, key, record, err)
		if err == nil {
			w.reach("amends: " + moves)
		}
		return nil
	})
}

// part lets a person unlink or link a record's customer, or undo an update. The process may or may not have
// read the connection since.
func (w *world) part() error {
	b, p := w.anyBooks(), w.anyProcess()
	if len(b.records) == 0 {
		return nil
	}
	id := pick(w.minds, b.records...).SourceID
	if w.minds.IntN(3) == 0 {
		if err := w.syncOf(b, p, connector.RunSync); err != nil {
			return err
		}
	}
	return w.as(p, func() error {
		payer, err := p.ledger.Payer(context.Background(), b.connection, id)
		if err != nil {
			return nil // it never was one
		}
		for _, key := range []string{payer.Key.Value, b.fields(id).No} {
			w.oracle.taint(key, "parted")
			w.oracle.taint(key, "rekeyed")
		}
		w.oracle.parted[b.connection+" "+id] = true
		switch {
		case payer.BillingID == "":
			err = w.sayWho(p, b, payer)
		case payer.Unlink.At > 0:
			err = p.syncer.TakeUnlinkBack(context.Background(), payer, operator)
			w.logf("%s is told that the customer of %s is its own: %v", p.name, id, err)
		default:
			err = w.sayWrong(p, b, payer)
		}
		if err != nil {
			w.logf("what was said of %s of %s is not taken: %v", id, b.connection, err)
		}
		return nil
	})
}

// giveUp lets a person give a record up, or take that back.
func (w *world) giveUp() error {
	b, p := w.anyBooks(), w.anyProcess()
	if len(b.records) == 0 {
		return nil
	}
	id := state.RecordID{Connection: b.connection, SourceID: pick(w.minds, b.records...).SourceID}
	back := w.minds.IntN(3) == 0
	return w.as(p, func() error {
		if back {
			w.takeUp(p, id)
			return nil
		}
		payer, unknown := p.ledger.Payer(context.Background(), id.Connection, id.SourceID)
		news, err := p.syncer.GiveUp(context.Background(), w.connection(b), id, operator)
		w.logf("%s is told to give %s of %s up: %t, %v", p.name, id.SourceID, id.Connection, news, err)
		if err != nil || !news {
			return nil
		}
		w.reach("amends: " + givesUp)
		w.oracle.left[b.fields(id.SourceID).No] = time.Now()
		if unknown == nil {
			w.oracle.left[payer.Key.Value] = time.Now()
		}
		w.oracle.givenUp[id] = wordSaid{time.Now(), payer.BillingID, payer.Key.Value}
		return nil
	})
}

func (w *world) takeUp(p *process, id state.RecordID) {
	delete(w.oracle.givenUp, id)
	news, err := p.syncer.TakeUp(context.Background(), id, operator)
	w.logf("%s is told to take %s of %s up again: %t, %v", p.name, id.SourceID, id.Connection, news, err)
	if news {
		w.reach("amends: taken up again")
	}
}

// takeAllUp takes every giving-up back.
func (w *world) takeAllUp(p *process) error {
	closed, err := p.ledger.Closed(context.Background(), state.RecordID{}, 0)
	for _, c := range closed {
		if c.Kind == state.ClosedGivenUp {
			w.takeUp(p, state.RecordID{Connection: c.Connection, SourceID: c.SourceID})
		}
	}
	return err
}

var operator = syncer.Operator{Name: "Ann", Reason: "she knows"}

// sayWho lets a person decide on an unlinked record: it is the same customer after all, or a new one.
func (w *world) sayWho(p *process, b *books, payer state.Payer) error {
	who, err := p.ledger.Accepted(context.Background(), b.connection, payer.SourceID, payer.Key)
	if err != nil || who.Spent != connector.ReasonUnlinked {
		return err
	}
	word := pick(w.minds, state.WordAccept, state.WordReject)
	err = p.ledger.Do(context.Background(), func(tx *state.Tx) error {
		_, err := tx.SavePairDecision(b.connection, payer.SourceID, who.BillingID, word)
		return err
	})
	w.logf("%s is told to %s that %s is %s: %v", p.name, word, payer.SourceID, who.BillingID, err)
	if err == nil {
		w.reach("amends: who it is, " + string(word))
	}
	return err
}

// sayWrong lets a person unlink a record's customer, with all written values or the key alone, or undo its
// newest update.
func (w *world) sayWrong(p *process, b *books, payer state.Payer) error {
	ctx := context.Background()
	past, err := p.ledger.ChangesOf(ctx, b.connection, payer.SourceID)
	if err != nil {
		return err
	}
	adopted, updated := int64(0), int64(0)
	for _, c := range past {
		switch {
		case c.State != connector.ChangeDone:
		case c.Action == connector.ActionAdopt:
			adopted = c.ID
		case c.Action == connector.ActionUpdate:
			updated = c.ID
		}
	}
	if updated > 0 && w.minds.IntN(3) == 0 {
		u, err := p.syncer.UndoOf(ctx, w.connection(b), payer, updated)
		if err == nil {
			err = p.syncer.SayUndo(ctx, u, operator)
		}
		w.logf("%s is told to undo change %d of %s: %v", p.name, updated, payer.SourceID, err)
		if err == nil {
			w.oracle.taint(payer.Key.Value, "undone")
			w.oracle.taint(b.fields(payer.SourceID).No, "undone")
			w.reach("amends: an update undone")
		}
		return err
	}
	if w.minds.IntN(2) == 0 {
		adopted = 0
	}
	err = p.syncer.SayUnlink(ctx, syncer.Unlink{Payer: payer, From: adopted}, operator)
	w.logf("%s is told that customer %s is not %s's, from change %d: %v", p.name, payer.BillingID, payer.SourceID, adopted,
		err)
	if err == nil {
		w.reach("amends: " + parts)
		if adopted > 0 {
			w.reach("amends: an adoption undone")
		}
	}
	return err
}

// underWay reports whether a create with a key may still arrive.
func (w *world) underWay(key string) bool {
	return slices.ContainsFunc(w.late, func(l lateCall) bool { return l.c.op == "create" && l.c.id == key })
}

// doubleAndBack lets others create two customers with a key, one or none, lets a run see them, and deletes
// them, usually all.
func (w *world) doubleAndBack(key string, known *books) error {
	some := w.minds.IntN(3)
	if some == 0 {
		return nil
	}
	w.oracle.taint(key, "doubled")
	for range some {
		if err := w.add(map[string]any{"name": "Payer " + key, "externalData": map[string]any{keyName: key}}); err != nil {
			return err
		}
	}
	if err := w.syncOf(known, w.anyProcess(), connector.RunSync); err != nil {
		return err
	}
	for _, c := range w.service.Customers() {
		if c.ExternalData[keyName] != key || w.minds.IntN(8) == 0 {
			continue
		}
		w.oracle.taintCustomer(c.ID, "deleted")
		if err := w.service.Delete(c.ID); err != nil {
			return err
		}
	}
	return nil
}

// undouble deletes customers with a doubled key, one of them or all, and returns the key; "" without any.
func (w *world) undouble() (key string, err error) {
	holders := map[string][]sandbox.Customer{}
	all := w.service.Customers()
	for _, c := range all {
		if key := c.ExternalData[keyName]; key != "" {
			holders[key] = append(holders[key], c)
		}
	}
	for _, c := range all { // in order, so one seed has one story
		key := c.ExternalData[keyName]
		found := holders[key]
		if len(found) < 2 {
			continue
		}
		if w.minds.IntN(2) == 0 {
			found = found[w.minds.IntN(len(found)):][:1]
		}
		w.reach("amends: " + undoubled)
		for _, c := range found {
			w.oracle.taintCustomer(c.ID, "deleted")
			if err := w.service.Delete(c.ID); err != nil {
				return "", err
			}
		}
		return key, nil
	}
	return "", nil
}
