package match

import (
	"slices"
	"strings"
)

// Sides returns a record and a customer as a pair of them is shown.
func Sides(r Record, c Customer) (ours, theirs Side) { return sideOfRecord(r), sideOfCustomer(c) }

// EqualPhones reports whether two sides have a phone number in common, however it is written.
func EqualPhones(ours, theirs string) bool {
	return shareOne(ours, theirs, func(s string) string { return phone(s, "") }, samePhone)
}

// EqualStreets reports whether two first lines of an address are the same, however they are shortened.
func EqualStreets(ours, theirs string) bool { return street(ours) == street(theirs) }

// EqualPostcodes reports whether two postcodes are the same, however they are spaced.
func EqualPostcodes(ours, theirs string) bool { return postcode(ours) == postcode(theirs) }

// EqualTexts reports whether two texts differ in case, accents and spaces at most.
func EqualTexts(ours, theirs string) bool { return Fold(ours) == Fold(theirs) }

// shareOne reports whether two lists, as a Side holds them, have a value in common.
func shareOne(ours, theirs string, form func(string) string, same func(a, b string) bool) bool {
	for a := range strings.SplitSeq(ours, ", ") {
		for b := range strings.SplitSeq(theirs, ", ") {
			if x, y := form(a), form(b); x != "" && y != "" && same(x, y) {
				return true
			}
		}
	}
	return EqualTexts(ours, theirs)
}

// Show fills in both sides of every pair of some suggestions.
func Show(suggestions []Suggestion, records Pages[Record], customers Pages[Customer]) error {
	ours, theirs := map[string]*Side{}, map[string]*Side{}
	each := func(do func(*Pair)) {
		for i := range suggestions {
			for _, p := range suggestions[i].Pairs() {
				do(p)
			}
		}
	}
	each(func(p *Pair) { ours[p.Record], theirs[p.Customer] = &Side{}, &Side{} })
	if err := fill(ours, records, func(r Record) (string, Side) { return r.ID, sideOfRecord(r) }); err != nil {
		return err
	}
	if err := fill(theirs, customers, func(c Customer) (string, Side) { return c.ID, sideOfCustomer(c) }); err != nil {
		return err
	}
	each(func(p *Pair) { p.Ours, p.Theirs = ours[p.Record], theirs[p.Customer] })
	return nil
}

func fill[T any](sides map[string]*Side, pages Pages[T], side func(T) (string, Side)) error {
	if len(sides) == 0 {
		return nil
	}
	for page, err := range pages {
		if err != nil {
			return err
		}
		for _, of := range page {
			id, shows := side(of)
			if into := sides[id]; into != nil {
				*into = shows
			}
		}
	}
	return nil
}

func sideOfRecord(r Record) Side {
	var emails, phones []string
	for _, p := range r.Want.People {
		emails, phones = append(emails, p.Email), append(phones, p.Phone)
	}
	side := Side{Name: shown(r.Want.Name), Email: shown(emails...), Phone: shown(phones...),
		Number: shown(slices.Concat(r.Numbers, Numbers(r.Want.ExternalData), r.Exported)...)}
	for _, a := range r.Want.Addresses[:min(1, len(r.Want.Addresses))] {
		side.Street, side.Postcode, side.City = shown(a.Line1), shown(a.PostCode), shown(a.City)
	}
	return side
}

func sideOfCustomer(c Customer) Side {
	side := Side{Name: shown(c.Name), Email: shown(c.Emails...), Phone: shown(c.Phones...),
		Number: shown(slices.Concat(c.Numbers, Numbers(c.ExternalData), c.Exported)...)}
	for _, a := range c.Addresses[:min(1, len(c.Addresses))] {
		side.Street, side.Postcode, side.City = shown(a.Line1), shown(a.PostCode), shown(a.City)
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
