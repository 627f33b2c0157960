package match

import (
	"slices"

	"payersync/connector"
)

// Against returns the differences between a record and a customer with its key, in words; nil if there are
// none. The rules are in README.md#a-customer-that-carries-the-key.
//
// A key is strong evidence, so little has to agree with it: a name, an e-mail address or a phone, or a
// similar name and the postcode. A value missing on one side says nothing.
func Against(want connector.Customer, have connector.RemoteCustomer) []string {
	_, against := compare(want, have)
	return against
}

// Agree reports whether a customer shows positive evidence for the record, by the rules of Against. The lack
// of differences is not enough.
func Agree(want connector.Customer, have connector.RemoteCustomer) bool {
	agree, _ := compare(want, have)
	return agree
}

func compare(want connector.Customer, have connector.RemoteCustomer) (agree bool, against []string) {
	r, k := entryOfRecord(Record{Want: want}, ""), entryOfCustomer(Customer{RemoteCustomer: have}, "")
	same, similar := r.named(&k)
	email := haveInCommon(r.emails, k.emails, equal)
	phone := haveInCommon(r.phones, k.phones, samePhone)
	postcode := haveInCommon(r.postcodes(), k.postcodes(), equal)
	if same || email == yes || phone == yes || similar && postcode == yes {
		return true, nil
	}
	var out []string
	if len(r.name.words) > 0 && len(k.name.words) > 0 {
		out = append(out, "name")
	}
	for _, m := range []struct {
		words string
		told  inCommon
	}{{"e-mail address", email}, {"phone", phone}, {"postcode", postcode}} {
		if m.told == no {
			out = append(out, m.words)
		}
	}
	return false, out
}

// named reports whether a customer has the record's name, or a similar one, that of a contact included.
// Junior and senior, House 1 and House 2 are two.
func (e *entry) named(k *entry) (same, similar bool) {
	likeness := e.name.likeness(&k.name)
	same = slices.Contains([]*rule{&nameSame, &nameOrder, &nameSpaces}, likeness)
	alike := same || slices.Contains([]*rule{&nameTypo, &nameInitial, &namePart, &nameSimilar}, likeness)
	similar = alike && e.name.counted() == k.name.counted() || slices.ContainsFunc(e.contacts, func(n name) bool {
		l := n.likeness(&k.name)
		return l == &nameSame || l == &nameOrder
	})
	return same && e.name.generation == k.name.generation, similar && e.name.generation == k.name.generation
}

func (e *entry) postcodes() []string {
	var out []string
	for _, p := range e.places {
		out = addNew(out, p.postcode)
	}
	return out
}

// inCommon says whether two lists have something in common.
type inCommon int

const (
	unsaid inCommon = iota // one of them is empty
	no
	yes
)

func haveInCommon(a, b []string, same func(a, b string) bool) inCommon {
	if len(a) == 0 || len(b) == 0 {
		return unsaid
	}
	for _, x := range a {
		if slices.ContainsFunc(b, func(y string) bool { return same(x, y) }) {
			return yes
		}
	}
	return no
}
