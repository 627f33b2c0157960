package match

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// DuplicateLevel is the lowest score of two probable customers of one payer. It allows for one difference: a
// typo in the name, or a move. Family members at one address have other first names, and score 55 at most.
const DuplicateLevel = 75

// allAgrees are the points of a pair with the same name, e-mail address, phone and street.
var allAgrees = nameSame.points + emailSame.points + phoneSame.points + streetSame.points

// isDuplicate reports whether two customers are probably of one payer. Without a shared company number,
// initials may be those of a couple, a missing legal form may mean the owner of the company, and a common
// name needs everything else to agree.
func (v *verdict) isDuplicate() bool {
	switch {
	case v.score() < DuplicateLevel:
		return false
	case v.holds(&numberSame):
		return true
	case v.holds(&nameInitial), v.holds(&formMissing):
		return false
	}
	return !v.holds(&nameThin) || v.points >= allAgrees
}

// Duplicates finds probable pairs of customers of one payer. ours are the customers linked to payers, each
// under its customer's id; all are all customers, these included. It returns each pair once, with the lesser
// id as its Record, ordered by both ids, whatever the order of the lists. Other good fits do not limit a
// score: a payer may have three customers. Memory is bounded as in Find.
func Duplicates(ctx context.Context, ours Pages[Record], all Pages[Customer], settings Settings) ([]Pair, error) {
	s := newSearch(settings)
	s.own, s.counts.own = true, true
	if err := s.compareAll(ctx, ours, all); err != nil {
		return nil, err
	}
	pairs := make([]Pair, len(s.found))
	for i, f := range s.found {
		p := Pair{Record: s.ids[f.record], Customer: s.met[f.customer].id, Score: f.evidence, Codes: f.codes}
		if p.Record > p.Customer { // if both are ours, it is also found from the other side
			p.Record, p.Customer = p.Customer, p.Record
		}
		pairs[i] = p
	}
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(strings.Compare(a.Record, b.Record), strings.Compare(a.Customer, b.Customer),
			cmp.Compare(b.Score, a.Score), strings.Compare(a.Codes, b.Codes))
	})
	return slices.CompactFunc(pairs, func(a, b Pair) bool { return a.Record == b.Record && a.Customer == b.Customer }), nil
}

// AtAnotherPlace reports whether the codes of a pair include different addresses.
func AtAnotherPlace(codes string) bool {
	return slices.ContainsFunc(strings.Fields(codes), func(code string) bool {
		return code == streetDiffers.code || code == postcodeDiffers.code || code == countryDiffers.code
	})
}
