package match

import "hash/fnv"

// mostAlike is how many customers may have a key in common for it to be followed. A word of more customers
// says little; finer keys find the right one among them. A whole name and an e-mail address lead to as many
// in any case: for one of them alone a record is on hold.
const mostAlike = 100

// mostWords is the number of words of a name used for keys: more make no key rarer.
const mostWords = 6

// index finds customers by values in common with a record. It has the keys of the records and no others.
type index map[uint64][]int

// tooMany stands for the customers of an ignored key.
var tooMany = make([]int, mostAlike+1)

func newIndex(records []entry) index {
	x := index{}
	for i := range records {
		for key := range records[i].keys {
			x[key] = nil
		}
	}
	return x
}

// indexKey is a value in common between a customer and a record. For a strong one alone a record is on hold.
type indexKey struct {
	hash   uint64
	strong bool
}

// common returns the keys of a customer shared with a record.
func (x index) common(customer *entry) (keys []indexKey) {
	for hash, strong := range customer.keys {
		if l, has := x[hash]; has && len(l) <= mostAlike {
			keys = append(keys, indexKey{hash, strong})
		}
	}
	return keys
}

// add stores a customer's key in the index, and reports false if it was there or is ignored. If a key now
// leads to too many customers, it returns those that lost it. A strong key still leads to the first of them.
func (x index) add(key indexKey, customer int) (lost []int, added bool) {
	l := x[key.hash]
	if len(l) > mostAlike || len(l) > 0 && l[len(l)-1] == customer || key.strong && len(l) == mostAlike {
		return nil, false
	}
	if l = append(l, customer); len(l) > mostAlike {
		x[key.hash] = tooMany
		return l, true
	}
	x[key.hash] = l
	return nil, true
}

// customers returns the customers of a key, and nobody when there are too many.
func (x index) customers(key uint64) []int {
	if l := x[key]; len(l) <= mostAlike {
		return l
	}
	return nil
}

// keys yields the values that two entries must share to be compared: an e-mail address, a phone, a company
// number, a number of an export, a domain of one's own, a whole name, a word of it, two words, a word or its
// beginning with the postcode or the e-mail address. An e-mail address and a whole name are strong.
func (e *entry) keys(yield func(key uint64, strong bool) bool) {
	for key := range e.parts {
		h := fnv.New64a()
		for _, part := range key {
			_, _ = h.Write([]byte(part)) // a hash takes everything
			_, _ = h.Write([]byte{0})
		}
		strong := key[0] == "together" || key[0] == "letters" || key[0] == "address"
		if !yield(h.Sum64(), strong) {
			return
		}
	}
}

func (e *entry) parts(yield func([3]string) bool) {
	var list [][3]string
	add := func(kind, a, b string) { list = append(list, [3]string{kind, a, b}) }
	for _, s := range e.emails {
		add("address", s, "")
		if h := host(s); h != "" {
			add("host", h, "")
		}
	}
	for _, s := range e.phones {
		add("phone", phoneEnd(s), "")
	}
	for _, s := range e.numbers {
		add("number", s, "")
	}
	for _, s := range e.exported {
		add("exported", s, "")
	}
	add("together", digraphs.Replace(e.name.together), "")
	if e.letters != "" {
		add("letters", e.letters, "")
	}
	var bare []string
	for _, w := range e.name.words {
		if w != and && len(bare) < mostWords {
			bare = append(bare, digraphs.Replace(w.text))
		}
	}
	for i, w := range bare {
		add("word", w, "")
		for _, v := range bare[i+1:] {
			add("two words", min(w, v), max(w, v))
		}
		for _, begin := range []string{w, w[:min(3, len(w))]} {
			for _, p := range e.places {
				add("postcode", begin, p.postcode)
			}
			for _, s := range e.emails {
				add("email", begin, s)
			}
		}
	}
	for _, key := range list {
		if !yield(key) {
			return
		}
	}
}
