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
	// two letters of the country whose phone numbers are written without its code; "" for none
	Region    string
	RunnersUp int                                // how many pairs are kept beside the proposed one; 0 for 3
	Rejected  func(record, customer string) bool // pairs rejected by a person, skipped; may be nil
	Part      int                                // how many records are compared at once; 0 for 50,000
}

// Pages yields all records or all customers, page by page. Find reads them more than once, each time in the same order.
type Pages[T any] = iter.Seq2[[]T, error]

// All yields a list in one page.
func All[T any](list []T) Pages[T] {
	return func(yield func([]T, error) bool) { yield(list, nil) }
}

// Side is one side of a pair as it is shown.
type Side struct {
	Name     string `json:"name,omitempty"`
	Email    string `json:"email,omitempty"`
	Phone    string `json:"phone,omitempty"`
	Street   string `json:"-"` // of the first address
	Postcode string `json:"postcode,omitempty"`
	City     string `json:"city,omitempty"`
	Number   string `json:"company_number,omitempty"`
}

// Pair is a record and a customer, perhaps the same payer.
type Pair struct {
	Record, Customer string // ids
	Score            int    // from 0 to 100
	Codes            string // the reasons, as ReasonsOf reads them
	Taken            string // why the customer cannot be proposed, in words; "" when it is free
	Carries          string // the key of no record that the customer carries and that taking it over replaces; "" for none
	Ours, Theirs     *Side  // the record and the customer; nil before Show
}

// Reasons returns the reasons for the pair, then those against it.
func (p Pair) Reasons() []Reason { return ReasonsOf(p.Codes) }

// about describes the pair's customer.
func (p Pair) about() string {
	if p.Taken == "" && p.Carries != "" {
		return "carries the key " + p.Carries + ", which no record has"
	}
	return p.Taken
}

// Why explains a pair's score. Before that it says why the customer is not free, or names its key.
func (p Pair) Why() string {
	var all []string
	if about := p.about(); about != "" {
		all = append(all, about)
	}
	all = append(all, connector.Map(p.Reasons(), func(r Reason) string { return r.Text })...)
	return strings.Join(all, "; ")
}

// Bulk reports whether the pair may be accepted without a look at it.
func (p Pair) Bulk() bool { return p.Taken == "" && p.Score >= BulkLevel }

// Suggestion is the result for one record.
type Suggestion struct {
	Record string
	Best   *Pair  // the proposed customer, proposed for no other record; nil for none
	Others []Pair // other possible customers, best first
}

// Pairs returns all pairs, to be changed in place, the proposed one first.
func (s *Suggestion) Pairs() []*Pair {
	var out []*Pair
	if s.Best != nil {
		out = append(out, s.Best)
	}
	for i := range s.Others {
		out = append(out, &s.Others[i])
	}
	return out
}

// Offered returns all pairs of the record, the proposed one first.
func (s Suggestion) Offered() []Pair {
	return connector.Map(s.Pairs(), func(p *Pair) Pair { return *p })
}

// Free returns the pairs with free customers, the proposed one first. A record with one of them is on hold.
func (s Suggestion) Free() []Pair {
	var out []Pair
	if s.Best != nil {
		out = append(out, *s.Best)
	}
	out = append(out, connector.Filter(s.Others, func(p Pair) bool { return p.Taken == "" })...)
	return out
}

// HoldLevel is the lowest score of a match; its record is on hold. A customer with the same name or e-mail
// address is a match at any score.
const HoldLevel = 40

// kept is how many free customers of a record are remembered, and how many taken ones.
const kept = 8

// part is how many records are compared at once when Settings say nothing.
const part = 50_000

// found is a stored pair.
type found struct {
	record, customer int // places in search.ids and search.met
	evidence         int // the score before others are looked at
	points           int // before limits, to order equal scores
	score            int
	codes            string
	rivalRecord      bool
	rivalCustomer    bool
}

// rivals are a customer's best two scores with any record, -1 for none.
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

// met is a customer with a match, or a linked one that fits a record.
type met struct {
	id, taken string
	rivals    rivals
}

// search is one run of Find or Duplicates.
type search struct {
	Settings
	counts counts
	own    bool     // the records are customers of the list, each under its own id: see Duplicates
	ids    []string // of the records
	met    []met
	metAt  map[string]int // places in met
	found  []found        // those of a record side by side, best first
	codes  map[string]string
	seen   []int // for each customer of the part the last record it was compared with
	hits   []hit
	// The part under comparison.
	records []entry
	from    int    // place of its first record in ids
	near    []near // the customers of the index, and free places
	free    []int  // these
	index   index
}

// near is a customer with a key in common with a record.
type near struct {
	entry
	taken string
	keys  int // how many keys of the index lead to it
}

// Find looks for the customer of each record. It returns the matches best first, without the records for
// which it found none. No customer is the Best of two records, and no taken customer is a Best. Find compares
// records in parts. For each part it keeps the customers that share a rare value with a record, and only a
// few pairs of each record. So its memory grows with the number of matches and the size of a part, and not with
// the lists. It stops early when ctx ends.
func Find(ctx context.Context, records Pages[Record], customers Pages[Customer], settings Settings) ([]Suggestion,
	error) {
	s := newSearch(settings)
	if err := s.compareAll(ctx, records, customers); err != nil {
		return nil, err
	}
	s.lookForRivals()
	return s.results(s.assign()), nil
}

func newSearch(settings Settings) *search {
	s := &search{Settings: settings, counts: newCounts(), metAt: map[string]int{}, codes: map[string]string{}}
	s.RunnersUp, s.Part = cmp.Or(s.RunnersUp, 3), cmp.Or(s.Part, part)
	return s
}

// compareAll compares every record with every customer found by the index.
func (s *search) compareAll(ctx context.Context, records Pages[Record], customers Pages[Customer]) error {
	first, err := s.countRecords(records)
	if err != nil || len(first) == 0 {
		return err
	}
	s.records = first
	if err := s.comparePart(ctx, customers); err != nil {
		return err
	}
	return s.compareRest(ctx, records, customers)
}

// countRecords reads all records once, and returns those of the first part.
func (s *search) countRecords(records Pages[Record]) (first []entry, err error) {
	ids := connector.NewIDs()
	for page, err := range records {
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			if err := distinct(ids, "record", r.ID); err != nil {
				return nil, err
			}
			e := entryOfRecord(r, s.Region)
			s.counts.add(&e)
			if s.ids = append(s.ids, r.ID); len(first) < s.Part {
				first = append(first, e)
			}
		}
	}
	return first, nil
}

// compareRest compares the records behind the first part.
func (s *search) compareRest(ctx context.Context, records Pages[Record], customers Pages[Customer]) error {
	if len(s.ids) <= s.Part {
		return nil
	}
	at := 0
	s.records = nil
	for page, err := range records {
		if err != nil {
			return err
		}
		for _, r := range page {
			if at++; at <= s.Part || at > len(s.ids) {
				continue
			}
			s.ids[at-1] = r.ID
			if s.records = append(s.records, entryOfRecord(r, s.Region)); len(s.records) < s.Part {
				continue
			}
			s.from = at - len(s.records)
			if err := s.comparePart(ctx, customers); err != nil {
				return err
			}
			s.records = s.records[:0]
		}
	}
	s.from = min(at, len(s.ids)) - len(s.records)
	return s.comparePart(ctx, customers)
}

// comparePart compares the records of a part with every customer.
func (s *search) comparePart(ctx context.Context, customers Pages[Customer]) error {
	if len(s.records) == 0 {
		return nil
	}
	s.index, s.near, s.free = newIndex(s.records), nil, nil
	if err := s.meetAll(customers); err != nil {
		return err
	}
	s.seen = make([]int, len(s.near))
	for i := range s.records {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.compareOne(i)
	}
	return nil
}

// meetAll meets every customer once.
func (s *search) meetAll(customers Pages[Customer]) error {
	ids := connector.NewIDs()
	for page, err := range customers {
		if err != nil {
			return err
		}
		for _, c := range page {
			if err := distinct(ids, "customer", c.ID); err != nil {
				return err
			}
			s.countCustomer(c)
		}
	}
	return nil
}

// distinct adds an id to others, and reports a blank or repeated one.
func distinct(ids *connector.IDs, what, id string) error {
	if id == "" || !ids.Add(id) {
		return fmt.Errorf("compare records with customers: two %ss have the id %q, or it is blank", what, id)
	}
	return nil
}

// countCustomer counts a customer when the first part is compared, and keeps it for as long as a key leads to it.
func (s *search) countCustomer(c Customer) {
	e := entryOfCustomer(c, s.Region)
	if s.from == 0 {
		s.counts.count(&e)
	}
	keys := s.index.common(&e)
	if len(keys) == 0 {
		return
	}
	at := s.place(near{entry: e, taken: c.Taken, keys: 1})
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

// place stores a customer, and returns its position.
func (s *search) place(n near) int {
	if last := len(s.free) - 1; last >= 0 {
		at := s.free[last]
		s.free, s.near[at] = s.free[:last], n
		return at
	}
	s.near = append(s.near, n)
	return len(s.near) - 1
}

// let drops a customer when no key leads to it any more.
func (s *search) let(at int) {
	if s.near[at].keys--; s.near[at].keys == 0 {
		s.near[at], s.free = near{}, append(s.free, at)
	}
}

// compareOne compares a record of the part with the customers found by the index.
func (s *search) compareOne(i int) {
	r, record := &s.records[i], s.from+i
	start := len(s.found)
	for key := range r.keys {
		for _, k := range s.index.customers(key) {
			n := &s.near[k]
			if s.seen[k] == i+1 {
				continue
			}
			s.seen[k] = i + 1
			if s.own && r.id == n.id || s.Rejected != nil && s.Rejected(r.id, n.id) {
				continue
			}
			v := s.counts.compare(s.hits, r, &n.entry)
			s.hits = v.hits
			if !s.remembers(&v, r, &n.entry) {
				continue
			}
			customer := s.meetAgain(n)
			s.found = append(s.found,
				found{record: record, customer: customer, evidence: v.score(), points: v.points, codes: s.code(v.hits)})
			s.met[customer].rivals.note(record, v.score())
		}
	}
	own := s.found[start:]
	slices.SortFunc(own, s.order)
	var room [2]int
	s.found = s.found[:start+len(slices.DeleteFunc(own, func(f found) bool {
		of := &room[0]
		if s.met[f.customer].taken != "" {
			of = &room[1]
		}
		*of++
		return *of > kept
	}))]
}

// remembers reports whether a pair is good enough to be kept.
func (s *search) remembers(v *verdict, r, k *entry) bool {
	if s.own {
		return v.isDuplicate()
	}
	return v.score() >= HoldLevel || v.alike(r, k)
}

// meetAgain returns the place of a customer in met.
func (s *search) meetAgain(n *near) int {
	at, known := s.metAt[n.id]
	if !known {
		at = len(s.met)
		s.metAt[n.id] = at
		s.met = append(s.met, met{n.id, n.taken, rivals{best: -1, scores: [2]int{-1, -1}}})
	}
	return at
}

// code returns rules as codes. Few texts say what all pairs have in common, so each is kept once.
func (s *search) code(hits []hit) string {
	text := codesOf(hits)
	if known, has := s.codes[text]; has {
		return known
	}
	s.codes[text] = text
	return text
}

// alike reports whether the two have the same name or an e-mail address in common. Then the record is on hold
// at any score.
func (v *verdict) alike(r, k *entry) bool {
	return r.letters != "" && r.letters == k.letters || slices.ContainsFunc(v.hits, func(h hit) bool {
		return h.rule == &nameSame || h.rule == &nameSpaces || h.rule == &emailSame || h.rule == &emailShared
	})
}

func (s *search) pair(f found) Pair {
	codes := f.codes
	if f.rivalRecord {
		codes += " " + recordToo.code
	}
	if f.rivalCustomer {
		codes += " " + customerToo.code
	}
	if known, has := s.codes[codes]; has {
		codes = known
	}
	s.codes[codes] = codes
	return Pair{Record: s.ids[f.record], Customer: s.met[f.customer].id, Score: f.score, Codes: codes,
		Taken: s.met[f.customer].taken}
}
