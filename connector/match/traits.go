package match

import (
	"slices"
	"strings"

	"payersync/connector"
)

// Traits are the values for finding similar payers: the name, e-mail addresses, phones and postcodes,
// normalised.
type Traits struct {
	Name                      string // "" when it says nothing
	Emails, Phones, Postcodes []string
}

// mostTraits is of how many e-mail addresses, phones and postcodes account is taken.
const mostTraits = 5

// TraitsOf returns the traits of a customer. Two names are one if they have equal words in any order, but for
// case, signs and marks, and the same legal form in any spelling. Junior and senior are two.
func TraitsOf(c connector.Customer) Traits {
	e := entryOfRecord(Record{Want: c}, "")
	few := func(list []string) []string { return list[:min(mostTraits, len(list))] }
	return Traits{e.name.plain(), few(e.emails), few(e.phones), few(e.postcodes())}
}

// plain returns the name as one text, the same for equal names.
func (n *name) plain() string {
	if len(n.words) == 0 {
		return ""
	}
	list := make([]string, len(n.words))
	for i, w := range n.words {
		list[i] = w.text
	}
	slices.Sort(list)
	return strings.Join(append(list, "/"+n.form, "/"+n.generation), " ")
}

// Alike reports whether a record and a customer have the same name or an e-mail address in common. Then the
// record is on hold, whatever else they show.
func Alike(want connector.Customer, have connector.RemoteCustomer) bool {
	r, k := entryOfRecord(Record{Want: want}, ""), entryOfCustomer(Customer{RemoteCustomer: have}, "")
	v := newCounts().compare(nil, &r, &k)
	return v.alike(&r, &k)
}
