package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// View limits the truth shown to readers, always with status 200: lists and searches without some customers
// or their keys, and readers behind the writers. The zero value shows the truth. Writes act on the truth
// under any view, and a read of one customer by its id shows it unless ReadLag is set.
type View struct {
	// chance of each customer to be left out of lists: the same ones for as long as the view lasts; 1 makes lists empty
	Missing   float64
	LostPages float64       // chance of each page of a list to be left out whole, the same way; those behind it close up
	NoKeys    bool          // lists show customers without externalData
	ListLag   time.Duration // the delay of changes in lists; changes before the lag was set show at once
	ReadLag   time.Duration // the same for reads by id: a customer made since is not found, a deleted one still is
}

// Validate reports the invalid parts of v; nil for none.
func (v View) Validate() error {
	var errs []error
	for _, share := range []float64{v.Missing, v.LostPages} {
		if !(share >= 0 && share <= 1) { // nor NaN
			errs = append(errs, fmt.Errorf("sandbox view: the missing share is %v: use a number from 0 to 1", share))
		}
	}
	if v.ListLag < 0 || v.ReadLag < 0 {
		errs = append(errs, errors.New("sandbox view: a lag is negative: use 0 or more"))
	}
	return errors.Join(errs...)
}

// SetView changes the readers' view from now on. It panics when v does not pass Validate.
func (s *Sandbox) SetView(v View) {
	if err := v.Validate(); err != nil {
		panic(err)
	}
	defer s.lock()()
	s.readers.lists.set(v.ListLag, s.readers.changes)
	s.readers.reads.set(v.ReadLag, s.readers.changes)
	s.readers.view = v
	s.readers.drawn++
	if v.ListLag == 0 && v.ReadLag == 0 {
		s.readers.undo = nil
	}
}

// View returns the readers' present view.
func (s *Sandbox) View() View {
	defer s.lock()()
	return s.readers.view
}

// readers apply a View to the truth.
type readers struct {
	view         View
	drawn        uint64 // views so far: each draws its omissions anew
	lists, reads replica
	changes      int      // so far
	undo         []change // those of late, the oldest first, while a replica lags
}

// replica is a copy that changes reach late. It never goes back.
type replica struct {
	lag  time.Duration
	upTo int // the number of the last change before the lag was set; it has all up to that
}

func (r *replica) set(lag time.Duration, changes int) {
	if lag != r.lag {
		r.lag, r.upTo = lag, changes
	}
}

// has reports whether a change has reached the replica.
func (r *replica) has(c change, now time.Time) bool {
	return c.number <= r.upTo || now.Sub(c.at) >= r.lag
}

// change is how a customer was before something changed it; nil for not there.
type change struct {
	number int
	at     time.Time
	id     string
	was    *customer
}

// changing is called before anything that readers see of a customer changes.
func (s *Sandbox) changing(id string) {
	now := s.opt.Now()
	if s.readers.lists.lag == 0 && s.readers.reads.lag == 0 {
		return
	}
	s.readers.undo = slices.DeleteFunc(s.readers.undo, func(c change) bool {
		return s.readers.lists.has(c, now) && s.readers.reads.has(c, now)
	})
	s.readers.changes++
	s.readers.undo = append(s.readers.undo, change{s.readers.changes, now, id, s.customers[id].copy()})
}

// copy returns a copy of c with its mandates; nil for nil.
func (c *customer) copy() *customer {
	if c == nil {
		return nil
	}
	out := *c
	out.mandates = make([]*Mandate, len(c.mandates))
	for i, m := range c.mandates {
		was := m.copy()
		out.mandates[i] = &was
	}
	return &out
}

// before returns the customers that a replica does not show as they are, as it
// shows them.
func (s *Sandbox) before(r *replica) map[string]*customer {
	if r.lag == 0 {
		return nil
	}
	now, old := s.opt.Now(), map[string]*customer{}
	for _, c := range s.readers.undo {
		if _, older := old[c.id]; !older && !r.has(c, now) {
			old[c.id] = c.was
		}
	}
	return old
}

// readable returns the customer that a read by id shows; nil for none.
func (s *Sandbox) readable(id string) *customer {
	if was, old := s.before(&s.readers.reads)[id]; old {
		return was
	}
	return s.customers[id]
}

// listable returns the customers that lists show, oldest first, before any page
// is left out.
func (s *Sandbox) listable() []*customer {
	all := s.order
	if old := s.before(&s.readers.lists); len(old) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(c *customer) bool { _, changed := old[c.id]; return changed })
		for _, was := range old {
			if was != nil {
				all = append(all, was)
			}
		}
		slices.SortFunc(all, func(a, b *customer) int { return cmp.Compare(a.number, b.number) })
	}
	if s.readers.view.Missing == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(c *customer) bool { return s.leftOut(s.readers.view.Missing, c.id) })
}

// pagesShown leaves whole pages out.
func (s *Sandbox) pagesShown(customers []*customer, size int) []*customer {
	if s.readers.view.LostPages == 0 {
		return customers
	}
	var out []*customer
	n := 0
	for page := range slices.Chunk(customers, size) {
		if !s.leftOut(s.readers.view.LostPages, fmt.Sprint("page ", n)) {
			out = append(out, page...)
		}
		n++
	}
	return out
}

// leftOut draws once for each name and view, whatever else is drawn.
func (s *Sandbox) leftOut(share float64, name string) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return rand.New(rand.NewPCG(s.opt.Seed+s.readers.drawn<<32, h.Sum64())).Float64() < share
}

// listed returns the customer as a list states it.
func (s *Sandbox) listed(c *customer) []byte {
	shown := s.json(c)
	if !s.readers.view.NoKeys {
		return shown
	}
	fields, _ := parseObject(shown) // built by json
	return fields.without("externalData").json()
}

// ParseView reads a view as people write it: missing=0.5, lostPages=0.1, noKeys,
// listLag=30s and readLag=30s, with commas between them.
func ParseView(text string) (v View, err error) {
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "missing":
			v.Missing, err = strconv.ParseFloat(value, 64)
		case "lostPages":
			v.LostPages, err = strconv.ParseFloat(value, 64)
		case "noKeys":
			v.NoKeys = true
		case "listLag":
			v.ListLag, err = time.ParseDuration(value)
		case "readLag":
			v.ReadLag, err = time.ParseDuration(value)
		default:
			err = refused(fmt.Sprintf("a sandbox view has no member %q: use missing, lostPages, noKeys, listLag, readLag", name))
		}
		if err != nil {
			return View{}, err
		}
	}
	return v, v.Validate()
}
