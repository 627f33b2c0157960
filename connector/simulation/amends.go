package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
)

// The kinds of amends: what others spoilt in the service they put right themselves,
// while requests of ours that have to do with it may still be under way.
const (
	keyBack   = "key back"  // a key that was taken off a customer is put back
	undoubled = "undoubled" // of the customers with a doubled key some are deleted, or all
	leaves    = "all leave" // the record of a doubled key leaves with them, and another takes its key
)

// amended gives one seed of three amends, and requests that are late more often: what
// was settled by what others did meanwhile is so no more when the request arrives. It
// has chance of its own, so that a seed without amends has the story it always had.
func (p plan) amended() plan {
	r := rand.New(rand.NewPCG(p.seed, 9))
	if r.IntN(3) > 0 {
		return p
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
	}
	key, err := w.undouble()
	if err != nil || key == "" {
		return err
	}
	return w.passKeyOn(key)
}

// keyTaken is a key, with the pairs beside it, that others took off a customer.
type keyTaken struct {
	customer string
	pairs    any
}

// putKeyBack puts the key that was taken off a customer last back on it.
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

// passKeyOn lets the records with a key leave, and another one have the key.
func (w *world) passKeyOn(key string) error {
	w.oracle.taint(key, "rekeyed")
	for _, r := range w.books.records {
		f := w.books.fields(r.SourceID)
		if f.No != key {
			continue
		}
		w.reach("amends: " + leaves)
		switch w.minds.IntN(3) {
		case 0:
			f.Group = "supplier"
			w.putRecord(r.SourceID, f)
		case 1:
			w.books.put(r.SourceID, f, connector.RecordDeleted, time.Now())
		default:
			w.added++
			f.No = fmt.Sprintf("K%d", w.added)
			w.oracle.taint(f.No, "rekeyed")
			w.putRecord(r.SourceID, f)
		}
	}
	if len(w.books.records) >= 9 {
		return nil
	}
	w.added++
	id := fmt.Sprintf("R%d", w.added)
	w.putRecord(id, fields{key, "Payer " + id, strings.ToLower(id) + "@payer.test", "LS1 4AP", "payer"})
	return nil
}

// undouble deletes customers whose key is doubled, one of them or all, and returns the
// key; "" when none is.
func (w *world) undouble() (key string, err error) {
	holders := map[string][]sandbox.Customer{}
	all := w.service.Customers()
	for _, c := range all {
		if key := c.ExternalData[keyName]; key != "" {
			holders[key] = append(holders[key], c)
		}
	}
	for _, c := range all { // in their order, so that one seed has one story
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
