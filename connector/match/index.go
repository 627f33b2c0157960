package match

import "hash/fnv"

// mostAlike is how many customers may have a key in common for it to be followed.
// What more have is said by many, and finer keys find who is meant among them.
const mostAlike = 100

// Words of a name that are used for keys: more make no key rarer.
const mostWords = 6

// index finds customers by what they have in common with a record.
type index map[uint64][]int

func newIndex(customers []entry) index {
	x := index{}
	for i := range customers {
		for key := range customers[i].keys {
			if l := x[key]; len(l) <= mostAlike && (len(l) == 0 || l[len(l)-1] != i) {
				x[key] = append(l, i)
			}
		}
	}
	return x
}

// customers returns those that have a key, and nobody when too many have it.
func (x index) customers(key uint64) []int {
	if l := x[key]; len(l) <= mostAlike {
		return l
	}
	return nil
}

// keys yields what two entries must have one of in common to be compared: an e-mail
// address, a phone, a company number, a domain of one's own, a whole name, a word of
// it, two words, a word or its beginning with the postcode or the e-mail address.
func (e *entry) keys(yield func(uint64) bool) {
	for key := range e.parts {
		h := fnv.New64a()
		for _, part := range key {
			_, _ = h.Write([]byte(part)) // a hash takes everything
			_, _ = h.Write([]byte{0})
		}
		if !yield(h.Sum64()) {
			return
		}
	}
}

func (e *entry) parts(yield func([3]string) bool) {
	var list [][3]string
	add := func(kind, a, b string) { list = append(list, [3]string{kind, a, b}) }
	for _, s := range e.emails {
		add("email", s, "")
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
	add("together", digraphs.Replace(e.name.together), "")
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
