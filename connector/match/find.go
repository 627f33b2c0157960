package match

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"payersync/connector"
)

// Settings say how pairs are looked for. The zero value will do.
type Settings struct {
	Region    string                             // two letters of the country whose phone numbers are written without its code; "" for none
	RunnersUp int                                // how many pairs are kept beside the proposed one; 0 for 3
	Rejected  func(record, customer string) bool // pairs that a person has rejected: they are passed over; nil for none
	Mark      func(found []*Customer) error      // notes in Taken of those that were found why they are nobody's to propose; nil where the list says it
}

// Side is one side of a pair as it is shown.
type Side struct {
	Name, Email, Phone, Postcode, City, Number string
}

// Pair is a record and a customer that may be the same.
type Pair struct {
	Record, Customer string // ids
	Score            int    // from 0 to 100
	Reasons          []Reason
	Taken            string // why the customer cannot be proposed, in words; "" when it is free
	Ours, Theirs     Side   // the record and the customer
}

// Bulk reports whether the pair may be accepted without a look at it.
func (p Pair) Bulk() bool { return p.Taken == "" && p.Score >= BulkLevel }

// Suggestion is what was found for one record.
type Suggestion struct {
	Record string
	Best   *Pair  // the proposed customer, which is proposed for no other record; nil for none
	Others []Pair // other customers that may be meant, best first
}

// leastScore is from which score on a pair is worth a look. One with the same name
// or the same e-mail address is shown whatever it scores, because the record is held
// for it.
const leastScore = 30

// kept is how many pairs of a record are remembered while others are looked at.
const kept = 8

// found is a pair that is remembered.
type found struct {
	record, customer int
	evidence         int // the score before others are looked at
	points           int // before limits, to order what scores alike
	score            int
	rivalRecord      bool
	rivalCustomer    bool
}

// rivals are the best two scores that a customer has with any record, -1 for none.
type rivals struct {
	best   int // record of the first
	scores [2]int
}

// beside returns the best score of any other record.
func (r *rivals) beside(record int) int {
	if r.best == record {
		return r.scores[1]
	}
	return r.scores[0]
}

func (r *rivals) note(record, score int) {
	switch {
	case score > r.scores[0]:
		r.best, r.scores = record, [2]int{score, r.scores[0]}
	case score > r.scores[1]:
		r.scores[1] = score
	}
}

// search is one run of Find.
type search struct {
	Settings
	records []entry
	near    []near // those that the index leads to, and places that are free
	free    []int  // these
	index   index
	counts  counts
	found   []found // those of a record side by side, best first
	rivals  []rivals
	seen    []int // for each customer the last record it was compared with
	hits    []hit
}

// near is a customer that has a key in common with a record.
type near struct {
	entry
	customer Customer
	keys     int // how many keys of the index lead to it
}

// Find looks for the customer of each record. It returns what it found best first;
// records for which there is nothing are left out. No customer is the Best of two
// records, and none that is taken is. The customers come in pages, and Find keeps of
// them those that share with a record what few of them have, and a few pairs of each
// record: its memory grows with the records, and neither with the list of customers
// nor with the product of both. It stops early when ctx ends.
func Find(ctx context.Context, records []Record, customers iter.Seq2[[]Customer, error], settings Settings) ([]Suggestion, error) {
	s := &search{Settings: settings}
	s.RunnersUp = cmp.Or(s.RunnersUp, 3)
	for _, r := range records {
		s.records = append(s.records, entryOfRecord(r, s.Region))
	}
	if err := s.meetAll(customers); err != nil {
		return nil, err
	}
	s.seen, s.rivals = make([]int, len(s.near)), slices.Repeat([]rivals{{best: -1, scores: [2]int{-1, -1}}}, len(s.near))
	if err := s.compareAll(ctx); err != nil {
		return nil, err
	}
	if err := s.mark(); err != nil {
		return nil, err
	}
	s.lookForRivals()
	best := s.assign()
	return s.tell(best, records), nil
}

// meetAll meets every customer once.
func (s *search) meetAll(customers iter.Seq2[[]Customer, error]) error {
	ids := connector.NewIDs()
	for i := range s.records {
		if err := distinct(ids, "record", s.records[i].id); err != nil {
			return err
		}
	}
	s.index, s.counts = newIndex(s.records), newCounts(s.records)
	ids = connector.NewIDs()
	for page, err := range customers {
		if err != nil {
			return err
		}
		for _, c := range page {
			if err := distinct(ids, "customer", c.ID); err != nil {
				return err
			}
			s.meet(c)
		}
	}
	return nil
}

// distinct puts an id among others, and reports one that is blank or doubled.
func distinct(ids *connector.IDs, what, id string) error {
	if id == "" || !ids.Add(id) {
		return fmt.Errorf("compare records with customers: two %ss have the id %q, or it is blank", what, id)
	}
	return nil
}

// meet counts a customer, and keeps it for as long as a key leads to it.
func (s *search) meet(c Customer) {
	e := entryOfCustomer(c, s.Region)
	s.counts.meet(&e)
	keys := s.index.common(&e)
	if len(keys) == 0 {
		return
	}
	c.Raw = nil // it takes the most room, and nothing of it is compared
	at := s.place(near{entry: e, customer: c, keys: 1})
	for _, key := range keys {
		lost, added := s.index.add(key, at)
		if added {
			s.near[at].keys++
		}
		for _, k := range lost {
			s.let(k)
		}
	}
	s.let(at)
}

// place keeps a customer, and returns where.
func (s *search) place(n near) int {
	if last := len(s.free) - 1; last >= 0 {
		at := s.free[last]
		s.free, s.near[at] = s.free[:last], n
		return at
	}
	s.near = append(s.near, n)
	return len(s.near) - 1
}

// let lets a customer go when this was the last that leads to it.
func (s *search) let(at int) {
	if s.near[at].keys--; s.near[at].keys == 0 {
		s.near[at], s.free = near{}, append(s.free, at)
	}
}

func (s *search) compareAll(ctx context.Context) error {
	for i := range s.records {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.compareOne(i)
	}
	return nil
}

func (s *search) compareOne(i int) {
	r := &s.records[i]
	start := len(s.found)
	for key := range r.keys {
		for _, k := range s.index.customers(key) {
			if s.seen[k] == i+1 {
				continue
			}
			s.seen[k] = i + 1
			if s.Rejected != nil && s.Rejected(r.id, s.near[k].id) {
				continue
			}
			v := s.counts.compare(s.hits, r, &s.near[k].entry)
			s.hits = v.hits
			if v.score() < leastScore && !v.alike() {
				continue
			}
			s.found = append(s.found, found{record: i, customer: k, evidence: v.score(), points: v.points})
			s.rivals[k].note(i, v.score())
		}
	}
	own := s.found[start:]
	slices.SortFunc(own, s.order)
	s.found = s.found[:start+min(kept, len(own))]
}

// alike reports whether the pair has the likeness for which a record is held.
func (v *verdict) alike() bool {
	return slices.ContainsFunc(v.hits, func(h hit) bool {
		return h.rule == &nameSame || h.rule == &nameSpaces || h.rule == &emailSame || h.rule == &emailShared
	})
}

// order puts the better pair first, and decides by ids between those that are
// alike, so that every run proposes the same.
func (s *search) order(a, b found) int {
	return cmp.Or(
		cmp.Compare(b.evidence, a.evidence), cmp.Compare(b.points, a.points),
		strings.Compare(s.records[a.record].id, s.records[b.record].id),
		strings.Compare(s.near[a.customer].id, s.near[b.customer].id))
}

// mark has it noted which of the customers that were found are taken.
func (s *search) mark() error {
	if s.Mark == nil {
		return nil
	}
	var customers []*Customer
	met := make([]bool, len(s.near))
	for _, f := range s.found {
		if !met[f.customer] {
			met[f.customer], customers = true, append(customers, &s.near[f.customer].customer)
		}
	}
	return s.Mark(customers)
}

// lookForRivals limits the score of pairs whose record or customer fits another one
// about as well.
func (s *search) lookForRivals() {
	for start, end := 0, 0; start < len(s.found); start = end {
		for end = start; end < len(s.found) && s.found[end].record == s.found[start].record; end++ {
		}
		for i := start; i < end; i++ {
			f := &s.found[i]
			if f.score = f.evidence; f.score < leastScore {
				continue // neither fits
			}
			other := start
			if i == start {
				other++
			}
			near := f.evidence - Margin
			f.rivalCustomer = other < end && s.found[other].evidence >= near
			f.rivalRecord = s.rivals[f.customer].beside(f.record) >= max(near, 0)
			if f.rivalRecord {
				f.score = min(f.score, recordToo.limit)
			}
			if f.rivalCustomer {
				f.score = min(f.score, customerToo.limit)
			}
		}
	}
}

// assign gives each record the best customer that is free and that fits no other
// record better. It returns the place in found, by record.
func (s *search) assign() map[int]int {
	queue := make([]int, 0, len(s.found))
	for i, f := range s.found {
		if s.near[f.customer].customer.Taken == "" {
			queue = append(queue, i)
		}
	}
	slices.SortFunc(queue, func(a, b int) int { return s.order(s.found[a], s.found[b]) })
	best, given := map[int]int{}, make([]bool, len(s.near))
	for _, i := range queue {
		f := s.found[i]
		if _, has := best[f.record]; !has && !given[f.customer] {
			best[f.record], given[f.customer] = i, true
		}
	}
	return best
}

// tell puts what was found into words.
func (s *search) tell(best map[int]int, records []Record) []Suggestion {
	var out []Suggestion
	for start, end := 0, 0; start < len(s.found); start = end {
		record := s.found[start].record
		suggestion := Suggestion{Record: s.records[record].id}
		for end = start; end < len(s.found) && s.found[end].record == record; end++ {
			f := s.found[end]
			if at, has := best[record]; has && at == end {
				pair := s.pair(f, records[f.record])
				suggestion.Best = &pair
			} else if len(suggestion.Others) < s.RunnersUp {
				suggestion.Others = append(suggestion.Others, s.pair(f, records[f.record]))
			}
		}
		out = append(out, suggestion)
	}
	slices.SortFunc(out, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(b.score(), a.score()), strings.Compare(a.Record, b.Record))
	})
	return out
}

// score is that of the proposed pair, and -1 when there is none.
func (s Suggestion) score() int {
	if s.Best == nil {
		return -1
	}
	return s.Best.Score
}

func (s *search) pair(f found, r Record) Pair {
	c := &s.near[f.customer]
	v := s.counts.compare(nil, &s.records[f.record], &c.entry)
	if f.rivalRecord {
		v.add(&recordToo)
	}
	if f.rivalCustomer {
		v.add(&customerToo)
	}
	slices.SortStableFunc(v.hits, func(a, b hit) int { return cmp.Compare(sign(b.rule), sign(a.rule)) })
	p := Pair{
		Record: r.ID, Customer: c.id, Score: f.score, Taken: c.customer.Taken,
		Ours: sideOfRecord(r), Theirs: sideOfCustomer(c.customer),
	}
	for _, h := range v.hits {
		p.Reasons = append(p.Reasons, h.reason())
	}
	return p
}

// sign is 1 for a rule that speaks for a pair, and 0 for one that speaks against it.
func sign(r *rule) int {
	if r.points > 0 {
		return 1
	}
	return 0
}

// Above returns the proposed pairs with at least that score, best first: those that
// a person accepts who says "accept all above". Taken customers are not among them.
func Above(suggestions []Suggestion, score int) []Pair {
	var out []Pair
	for _, s := range suggestions {
		if s.Best != nil && s.Best.Score >= score {
			out = append(out, *s.Best)
		}
	}
	return out
}

// Sides returns a record and a customer as a pair of them is shown.
func Sides(r Record, c Customer) (ours, theirs Side) { return sideOfRecord(r), sideOfCustomer(c) }

func sideOfRecord(r Record) Side {
	var emails, phones []string
	for _, p := range r.Want.People {
		emails, phones = append(emails, p.Email), append(phones, p.Phone)
	}
	side := Side{Name: shown(r.Want.Name), Email: shown(emails...), Phone: shown(phones...), Number: shown(slices.Concat(r.Numbers, Numbers(r.Want.ExternalData))...)}
	for _, a := range r.Want.Addresses[:min(1, len(r.Want.Addresses))] {
		side.Postcode, side.City = shown(a.PostCode), shown(a.City)
	}
	return side
}

func sideOfCustomer(c Customer) Side {
	side := Side{Name: shown(c.Name), Email: shown(c.Emails...), Phone: shown(c.Phones...), Number: shown(slices.Concat(c.Numbers, Numbers(c.ExternalData))...)}
	for _, a := range c.Addresses[:min(1, len(c.Addresses))] {
		side.Postcode, side.City = shown(a.PostCode), shown(a.City)
	}
	return side
}

// shown joins texts for a person to read, on one line.
func shown(texts ...string) string {
	var out []string
	for _, s := range texts {
		s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
		out = addNew(out, s)
	}
	return strings.Join(out, ", ")
}
