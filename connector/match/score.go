package match

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// verdict is the rules' result for a pair.
type verdict struct {
	hits   []hit
	points int
	limit  int
	least  int
}

// hit is a rule that applies, with the number of records and customers that share its value.
type hit struct {
	rule               *rule
	records, customers int
}

func (v *verdict) add(r *rule) { v.share(r, 0, 0) }

func (v *verdict) share(r *rule, records, customers int) {
	v.hits = append(v.hits, hit{r, records, customers})
}

func (v *verdict) holds(r *rule) bool {
	return slices.ContainsFunc(v.hits, func(h hit) bool { return h.rule == r })
}

// sum adds the points up and finds the limits.
func (v *verdict) sum() {
	v.points, v.limit, v.least = 0, 100, 0
	proven := v.holds(&numberSame) || v.holds(&exportedSame)
	for _, h := range v.hits {
		v.points += h.rule.points
		if h.rule.limit > 0 && !(proven && h.rule.lifted()) {
			v.limit = min(v.limit, h.rule.limit)
		}
		v.least = max(v.least, h.rule.least)
	}
	if slices.ContainsFunc(v.hits, func(h hit) bool { return h.rule.contradicts() }) {
		v.least = 0
	}
}

// score is the score of a pair, from 0 to 100.
func (v *verdict) score() int { return max(v.least, min(v.points, v.limit)) }

// counts holds how many records and customers have each e-mail address, phone and company number of a record.
// A phone is counted by its end, because not everybody writes the country code.
type counts struct {
	emails, phones, numbers map[string][2]int

	own bool // every record is a customer too: customers alone are counted, and a pair is two of them
}

func newCounts() counts {
	return counts{emails: map[string][2]int{}, phones: map[string][2]int{}, numbers: map[string][2]int{}}
}

// add counts a record.
func (c counts) add(record *entry) {
	c.of(record, func(in map[string][2]int, s string) {
		if c.own {
			in[s] = [2]int{}
			return
		}
		in[s] = [2]int{in[s][0] + 1, in[s][1]}
	})
}

// count counts a customer.
func (c counts) count(customer *entry) {
	c.of(customer, func(in map[string][2]int, s string) {
		if n, has := in[s]; has {
			in[s] = [2]int{n[0], n[1] + 1}
		}
	})
}

// of passes all counted values of an entry to do, with their maps.
func (c counts) of(e *entry, do func(in map[string][2]int, s string)) {
	for _, s := range e.emails {
		do(c.emails, s)
	}
	for _, s := range e.phones {
		do(c.phones, phoneEnd(s))
	}
	for _, s := range e.numbers {
		do(c.numbers, s)
	}
}

// compare finds the rules that apply to a record and a customer. hits is a buffer for them.
func (c counts) compare(hits []hit, r, k *entry) verdict {
	v := verdict{hits: hits[:0]}
	compareNames(&v, r, k)
	c.compareEmails(&v, r, k)
	c.comparePhones(&v, r, k)
	comparePlaces(&v, r, k)
	c.compareNumbers(&v, r, k)
	if slices.ContainsFunc(r.exported, func(s string) bool { return slices.Contains(k.exported, s) }) {
		v.add(&exportedSame)
		v.sum()
		return v
	}
	if !v.holds(&emailSame) && !v.holds(&emailShared) && !v.holds(&numberSame) {
		v.add(&unproven)
	}
	if !v.holds(&postcodeSame) && !v.holds(&streetSame) && !v.holds(&streetDiffers) && !v.holds(&postcodeDiffers) &&
		!v.holds(&countryDiffers) {
		v.add(&placeUnknown)
	}
	if (len(r.phones) == 0 || len(k.phones) == 0) && r.name.form == "" && k.name.form == "" {
		v.add(&phoneUnknown)
	}
	v.sum()
	return v
}

func compareNames(v *verdict, r, k *entry) {
	likeness := r.name.likeness(&k.name)
	if likeness == &nameWord || likeness == &nameDiffers {
		if slices.ContainsFunc(r.contacts,
			func(n name) bool { l := n.likeness(&k.name); return l == &nameSame || l == &nameOrder }) {
			likeness = &nameContact
		}
	}
	a, b := &r.name, &k.name
	if likeness == &nameTypo && a.oneLetter(b) {
		likeness = &nameLetter
	}
	v.add(likeness)
	if likeness.points <= 0 {
		return // further differences do not matter
	}
	if a.thin() || b.thin() {
		v.add(&nameThin)
	}
	switch {
	case a.form == b.form:
	case a.form == "" || b.form == "":
		v.add(&formMissing)
	default:
		v.add(&formDiffers)
	}
	if a.generation != b.generation {
		v.add(&generation)
	}
	if a.counted() != b.counted() {
		v.add(&numerals)
	}
}

// thin reports whether a name may be that of many people.
func (n *name) thin() bool {
	long := 0
	for _, w := range n.words {
		if len(w.text) > 1 {
			long++
		}
	}
	return long < 2 && n.form == ""
}

// counted returns the counting words of a name.
func (n *name) counted() string {
	out := ""
	for _, w := range n.words {
		if w.counts {
			out += w.text + " "
		}
	}
	return out
}

// likeness returns the rule for the similarity of two names.
func (n *name) likeness(o *name) *rule {
	if len(n.words) == 0 || len(o.words) == 0 {
		return &nameDiffers
	}
	p := pairUp(n.words, o.words)
	switch restA, restB := len(p.restA), len(p.restB); {
	case restA == 0 && restB == 0 && p.inOrder:
		return &nameSame
	case restA == 0 && restB == 0:
		return &nameOrder
	case n.together == o.together || (n.marked || o.marked) && n.bare == o.bare:
		return &nameSpaces
	case restA == 0 && p.equal > 0 || restB == 0 && p.equal > 0:
		return &namePart
	}
	slips, initials := p.pairRest()
	equal := p.equal - p.ands
	switch rest := len(p.restA) + len(p.restB); {
	case rest == 0 && initials == 0 && slips <= 2:
		return &nameTypo
	case rest == 0 && slips == 0 && equal > 0:
		return &nameInitial
	case equal+slips >= 2 && 3*(equal+slips) >= 2*max(len(n.words), len(o.words)):
		return &nameSimilar
	case equal > 0:
		return &nameWord
	}
	return &nameDiffers
}

// oneLetter reports whether two names differ by one added letter, in companies of several words and one legal
// form: Dock Repair Ltd and Dock Repairs Ltd.
func (n *name) oneLetter(o *name) bool {
	if n.form == "" || n.form != o.form || len(n.words) < 2 || len(n.words) != len(o.words) {
		return false
	}
	p := pairUp(n.words, o.words)
	if len(p.restA) != 1 || len(p.restB) != 1 || p.equal == p.ands {
		return false
	}
	a, b := []rune(p.restA[0].text), []rune(p.restB[0].text)
	return len(a)-len(b) == 1 || len(b)-len(a) == 1
}

// pairing maps the equal words of two names to each other.
type pairing struct {
	restA, restB []word // without a partner
	equal        int
	ands         int // among the equal ones
	inOrder      bool
}

func pairUp(a, b []word) pairing {
	p := pairing{inOrder: true, restB: slices.Clone(b)}
	at := 0
	for _, w := range a {
		i := slices.IndexFunc(p.restB, w.same)
		if i < 0 {
			p.restA = append(p.restA, w)
			continue
		}
		p.restB = slices.Delete(p.restB, i, i+1)
		p.inOrder = p.inOrder && i >= at
		at = i
		p.equal++
		if w == and {
			p.ands++
		}
	}
	return p
}

// pairRest pairs words with a typo between them, or an initial and its word, and counts them.
func (p *pairing) pairRest() (slips, initials int) {
	var alone []word
	for _, w := range p.restA {
		if i := slices.IndexFunc(p.restB, func(v word) bool { return oneSlip(w, v) }); i >= 0 {
			p.restB = slices.Delete(p.restB, i, i+1)
			slips++
			continue
		}
		if i := slices.IndexFunc(p.restB, func(v word) bool { return stands(w, v) || stands(v, w) }); i >= 0 {
			p.restB = slices.Delete(p.restB, i, i+1)
			initials++
			continue
		}
		alone = append(alone, w)
	}
	p.restA = alone
	return slips, initials
}

// stands reports whether a is an initial of b.
func stands(a, b word) bool {
	return a.initial() && !b.counts && len(b.text) > 1 && a.text[0] == b.text[0]
}

func (c counts) compareEmails(v *verdict, r, k *entry) {
	if len(r.emails) == 0 || len(k.emails) == 0 {
		return
	}
	if records, customers, found := common(r.emails, k.emails, equal,
		func(s string) [2]int { return c.emails[s] }); found {
		c.which(v, &emailSame, &emailShared, records, customers)
		return
	}
	for _, a := range r.emails {
		if h := host(a); h != "" && slices.ContainsFunc(k.emails, func(b string) bool { return host(b) == h }) {
			v.add(&emailHost)
			return
		}
	}
	v.add(&emailDiffers)
}

func (c counts) comparePhones(v *verdict, r, k *entry) {
	if len(r.phones) == 0 || len(k.phones) == 0 {
		return
	}
	if records, customers, found := common(r.phones, k.phones, samePhone,
		func(s string) [2]int { return c.phones[phoneEnd(s)] }); found {
		c.which(v, &phoneSame, &phoneShared, records, customers)
		return
	}
	v.add(&phoneDiffers)
}

func (c counts) compareNumbers(v *verdict, r, k *entry) {
	if records, customers, found := common(r.numbers, k.numbers, equal,
		func(s string) [2]int { return c.numbers[s] }); found {
		c.which(v, &numberSame, &numberShared, records, customers)
		return
	}
	for _, a := range r.numbers {
		if slices.ContainsFunc(k.numbers, func(b string) bool { return len(a) == len(b) }) {
			v.add(&numberDiffers)
			return
		}
	}
}

// common finds the shared values of two lists, and of these the rarest.
func common(a, b []string, same func(a, b string) bool, count func(string) [2]int) (records, customers int,
	found bool) {
	for _, x := range a {
		for _, y := range b {
			if !same(x, y) {
				continue
			}
			ofX, ofY := count(x), count(y)
			if r, k := max(ofX[0], ofY[0]), max(ofX[1], ofY[1]); !found || max(r, k) < max(records, customers) {
				records, customers, found = r, k, true
			}
		}
	}
	return records, customers, found
}

func equal(a, b string) bool { return a == b }

// which adds the rule for an unshared value, or the one for a shared value.
func (c counts) which(v *verdict, own, shared *rule, records, customers int) {
	pair := 1
	if c.own {
		pair = 2
	}
	if records > 1 || customers > pair {
		v.share(shared, records, customers)
		return
	}
	v.add(own)
}

func comparePlaces(v *verdict, r, k *entry) {
	best := (*rule)(nil)
	for _, a := range r.places {
		for _, b := range k.places {
			if found := a.likeness(b); found != nil && (best == nil || found.points > best.points) {
				best = found
			}
		}
	}
	if best != nil {
		v.add(best)
	}
}

func (s spot) likeness(o spot) *rule {
	switch {
	case s.country != "" && o.country != "" && s.country != o.country:
		return &countryDiffers
	case s.postcode != "" && s.postcode == o.postcode && s.line != "" && s.line == o.line:
		return &streetSame
	case s.postcode != "" && s.postcode == o.postcode && elsewhere(s.street, o.street):
		return &streetDiffers
	case s.postcode != "" && s.postcode == o.postcode:
		return &postcodeSame
	case s.postcode != "" && o.postcode != "":
		return &postcodeDiffers
	case s.city != "" && s.city == o.city:
		return &citySame
	}
	return nil
}

// Reason is one reason for or against a pair.
type Reason struct {
	Rule string `json:"rule"` // the rule, as README.md#the-rules has it
	Text string `json:"text"` // the same in words
}

func (h hit) reason() Reason {
	text := h.rule.text
	switch {
	case h.records > 1 && h.customers > 1:
		text = fmt.Sprintf(text, numberWord(h.records)+" records and "+numberWord(h.customers)+" customers")
	case h.records > 1:
		text = fmt.Sprintf(text, numberWord(h.records)+" records")
	case h.customers > 1:
		text = fmt.Sprintf(text, numberWord(h.customers)+" customers")
	}
	return Reason{h.rule.code, text}
}

// codesOf writes rules as one text, without a personal value: "name_same email_shared:2:3". Behind a rule
// about a shared value stands how many records and customers share it.
func codesOf(hits []hit) string {
	var b strings.Builder
	for i, h := range hits {
		if i > 0 {
			b.WriteByte(' ')
		}
		if b.WriteString(h.rule.code); h.records > 1 || h.customers > 1 {
			fmt.Fprintf(&b, ":%d:%d", h.records, h.customers)
		}
	}
	return b.String()
}

// ReasonsOf reads reasons from their codes: what speaks for a pair, then what speaks against it. A code of
// another version is shown as it is.
func ReasonsOf(codes string) []Reason {
	var out, against []Reason
	for _, code := range strings.Fields(codes) {
		var h hit
		name, shared, _ := strings.Cut(code, ":")
		_, _ = fmt.Sscanf(shared, "%d:%d", &h.records, &h.customers) // most are shared by nobody
		i := slices.IndexFunc(rules, func(r *rule) bool { return r.code == name })
		switch {
		case i < 0:
			against = append(against, Reason{name, name})
			continue
		case strings.Contains(rules[i].text, "%s") && h.records+h.customers < 2:
			h.records = 2
		}
		if h.rule = rules[i]; h.rule.points > 0 {
			out = append(out, h.reason())
		} else {
			against = append(against, h.reason())
		}
	}
	return append(out, against...)
}

func numberWord(n int) string {
	small := []string{2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}
	if n < len(small) {
		return cmp.Or(small[n], fmt.Sprint(n))
	}
	return fmt.Sprint(n)
}

// Equal reports whether the codes of a pair include an equal name, and a shared e-mail address.
func Equal(codes string) (name, email bool) {
	for _, code := range strings.Fields(codes) {
		rule, _, _ := strings.Cut(code, ":")
		name = name || rule == nameSame.code || rule == nameOrder.code || rule == nameSpaces.code
		email = email || rule == emailSame.code || rule == emailShared.code
	}
	return name, email
}

// Lacks names the one missing thing that keeps a pair's score down: "only a phone"; "" for another reason.
func Lacks(p Pair) string {
	lacks := func(r *rule) bool { return slices.Contains(strings.Fields(p.Codes), r.code) }
	switch {
	case p.Score == phoneUnknown.limit && lacks(&phoneUnknown):
		return "only a phone"
	case p.Score == placeUnknown.limit && lacks(&placeUnknown) && !lacks(&phoneUnknown):
		return "only a postcode"
	case p.Score == placeUnknown.limit && lacks(&placeUnknown):
		return "only a postcode and a phone"
	}
	return ""
}

// Why puts the reasons of a pair into one line.
func Why(codes string) string {
	out := connector.Map(ReasonsOf(codes), func(r Reason) string { return r.Text })
	return strings.Join(out, "; ")
}
