package match

import (
	"cmp"
	"slices"
	"strings"
)

// order puts the better pair first, and decides by ids between equal ones, so every run proposes the same.
func (s *search) order(a, b found) int {
	return cmp.Or(
		cmp.Compare(b.evidence, a.evidence), cmp.Compare(b.points, a.points),
		strings.Compare(s.ids[a.record], s.ids[b.record]),
		strings.Compare(s.met[a.customer].id, s.met[b.customer].id))
}

// lookForRivals limits the score of pairs if the record or the customer fits another one about as well.
func (s *search) lookForRivals() {
	for start, end := 0, 0; start < len(s.found); start = end {
		for end = start; end < len(s.found) && s.found[end].record == s.found[start].record; end++ {
		}
		for i := start; i < end; i++ {
			f := &s.found[i]
			if f.score = f.evidence; f.score < HoldLevel {
				continue // neither fits
			}
			other := start
			if i == start {
				other++
			}
			near := f.evidence - Margin
			f.rivalCustomer = other < end && s.found[other].evidence >= near
			f.rivalRecord = s.met[f.customer].rivals.beside(f.record) >= max(near, 0)
			if f.rivalRecord {
				f.score = min(f.score, recordToo.limit)
			}
			if f.rivalCustomer {
				f.score = min(f.score, customerToo.limit)
			}
		}
	}
}

// assign gives each record the best free customer that fits no other record better. It returns the place in
// found, by record.
func (s *search) assign() map[int]int {
	queue := make([]int, 0, len(s.found))
	for i, f := range s.found {
		if s.met[f.customer].taken == "" {
			queue = append(queue, i)
		}
	}
	slices.SortFunc(queue, func(a, b int) int { return s.order(s.found[a], s.found[b]) })
	best, given := map[int]int{}, make([]bool, len(s.met))
	for _, i := range queue {
		f := s.found[i]
		if _, has := best[f.record]; !has && !given[f.customer] {
			best[f.record], given[f.customer] = i, true
		}
	}
	return best
}

// results returns the results, record by record.
func (s *search) results(best map[int]int) []Suggestion {
	var out []Suggestion
	for start, end := 0, 0; start < len(s.found); start = end {
		record := s.found[start].record
		suggestion := Suggestion{Record: s.ids[record]}
		for end = start; end < len(s.found) && s.found[end].record == record; end++ {
			f := s.found[end]
			if at, has := best[record]; has && at == end {
				suggestion.Best = new(s.pair(f))
			} else if len(suggestion.Others) < s.RunnersUp {
				suggestion.Others = append(suggestion.Others, s.pair(f))
			}
		}
		out = append(out, suggestion)
	}
	slices.SortFunc(out, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(b.score(), a.score()), strings.Compare(a.Record, b.Record))
	})
	return out
}

// score is the proposed pair's score, and -1 if there is none.
func (s Suggestion) score() int {
	if s.Best == nil {
		return -1
	}
	return s.Best.Score
}
