package match

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"payersync/connector"
)

// entity is a person or a company as it is in the world, before anybody types it
// in. Two entries are the same exactly when their entities have the same number.
type entity struct {
	no          int
	person      bool
	given, last string // of a person
	firm, form  string // of a company
	email       string
	phone       string // national, digits
	street      string
	place       place
	number      string
}

type place struct{ postcode, city, country string }

// name returns the name as somebody would write it down in full.
func (e entity) name() string {
	if e.person {
		return strings.TrimSpace(e.given + " " + e.last)
	}
	return strings.TrimSpace(e.firm + " " + e.form)
}

// population is a labelled set: records and customers, and which of them are the
// same.
type population struct {
	records   []Record
	customers []Customer
	of        map[string]int    // entity of a record or customer, by id
	family    map[string]string // the family that made a record or customer
}

// right reports whether a record and a customer are the same.
func (p *population) right(record, customer string) bool { return p.of[record] == p.of[customer] }

// matches returns how many entities have both a record and a customer, by family.
func (p *population) matches() map[string]int {
	onService := map[int]bool{}
	for _, c := range p.customers {
		onService[p.of[c.ID]] = true
	}
	out, counted := map[string]int{}, map[int]bool{}
	for _, r := range p.records {
		if no := p.of[r.ID]; onService[no] && !counted[no] {
			counted[no] = true
			out[p.family[r.ID]]++
			out[""]++
		}
	}
	return out
}

// maker makes a population. All chance comes from rnd.
type maker struct {
	rnd    *rand.Rand
	out    *population
	now    string // family at work
	count  int
	domain int
}

// family makes a few entries that belong together.
type family struct {
	name   string
	weight int
	make   func(m *maker)
}

// populate makes n groups of entries from the families, by their weights.
func populate(seed uint64, n int, families []family) *population {
	m := &maker{rnd: rand.New(rand.NewPCG(seed, 7)), out: &population{of: map[string]int{}, family: map[string]string{}}}
	var wheel []family
	for _, f := range families {
		wheel = append(wheel, slices.Repeat([]family{f}, f.weight)...)
	}
	for range n {
		f := pick(m, wheel)
		m.now = f.name
		f.make(m)
	}
	m.rnd.Shuffle(len(m.out.records),
		func(i, j int) { m.out.records[i], m.out.records[j] = m.out.records[j], m.out.records[i] })
	m.rnd.Shuffle(len(m.out.customers), func(i, j int) {
		m.out.customers[i], m.out.customers[j] = m.out.customers[j], m.out.customers[i]
	})
	return m.out
}

func pick[T any](m *maker, from []T) T { return from[m.rnd.IntN(len(from))] }

// chance reports true in so many of a hundred cases.
func (m *maker) chance(percent int) bool { return m.rnd.IntN(100) < percent }

// record and customer add an entry as somebody typed it in.
func (m *maker) record(e entity) {
	m.count++
	id := fmt.Sprintf("R%05d", m.count)
	want := connector.Customer{Name: m.typed(e.name())}
	p := connector.Person{Name: want.Name, Email: m.cased(e.email), Phone: m.dialled(e)}
	if p.Email != "" || p.Phone != "" {
		want.People = []connector.Person{p}
	}
	if a := m.address(e); a != (connector.Address{}) {
		want.Addresses = []connector.Address{a}
	}
	r := Record{ID: id, Want: want}
	if e.number != "" {
		r.Numbers = []string{e.number}
	}
	m.out.records = append(m.out.records, r)
	m.out.of[id], m.out.family[id] = e.no, m.now
}

func (m *maker) customer(e entity) {
	m.count++
	id := fmt.Sprintf("C%05d", m.count)
	c := Customer{RemoteCustomer: connector.RemoteCustomer{ID: id, Name: m.typed(e.name())}}
	if e.email != "" {
		c.Emails = []string{m.cased(e.email)}
	}
	if p := m.dialled(e); p != "" {
		c.Phones = []string{p}
	}
	if a := m.address(e); a != (connector.Address{}) {
		c.Addresses = []connector.Address{a}
	}
	if e.number != "" {
		c.ExternalData = map[string]string{"vatNumber": e.number}
	}
	m.out.customers = append(m.out.customers, c)
	m.out.of[id], m.out.family[id] = e.no, m.now
}

// pair adds an entity on both sides, the second time as changed. Services are
// told less than the books hold, so something is left out there.
func (m *maker) pair(e entity, change func(e *entity)) {
	m.record(e)
	other := e
	if change != nil {
		change(&other)
	}
	m.customer(m.poorer(other))
}

// poorer leaves out what people leave out.
func (m *maker) poorer(e entity) entity {
	if m.chance(25) {
		e.phone = ""
	}
	if m.chance(20) {
		e.street, e.place = "", place{}
	}
	if m.chance(10) {
		e.email = ""
	}
	if m.chance(60) {
		e.number = ""
	}
	return e
}

// anywhere adds entities that are easily mistaken for each other, each by chance
// to one side, to both or to none.
func (m *maker) anywhere(entities ...entity) {
	for _, e := range entities {
		if m.chance(70) {
			m.record(e)
		}
		if m.chance(70) {
			m.customer(m.poorer(e))
		}
	}
}

// apart adds one entity to the books and another to the service: the worst case,
// because nothing shows that there are two.
func (m *maker) apart(a, b entity) {
	m.record(a)
	m.customer(m.poorer(b))
}

// either is anywhere or apart.
func (m *maker) either(a, b entity) {
	if m.chance(50) {
		m.apart(a, b)
		return
	}
	m.anywhere(a, b)
}

func (m *maker) typed(s string) string {
	switch m.rnd.IntN(12) {
	case 0:
		return strings.ToUpper(s)
	case 1:
		return strings.ReplaceAll(s, " ", "  ") + " "
	}
	return s
}

func (m *maker) cased(s string) string {
	if m.chance(15) {
		return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):]
	}
	return s
}

var callingCodes = map[string]string{"DE": "49", "NO": "47", "SE": "46", "GB": "44", "NL": "31", "FR": "33"}

func (m *maker) dialled(e entity) string {
	if e.phone == "" {
		return ""
	}
	zero := "0"
	if e.place.country == "NO" {
		zero = ""
	}
	code := callingCodes[e.place.country]
	switch m.rnd.IntN(4) {
	case 0:
		if code != "" {
			return "+" + code + e.phone
		}
	case 1:
		if code != "" {
			return "00" + code + " " + e.phone[:2] + " " + e.phone[2:]
		}
	case 2:
		return zero + e.phone[:2] + "/" + e.phone[2:5] + "-" + e.phone[5:]
	}
	return zero + e.phone[:3] + " " + e.phone[3:]
}

func (m *maker) address(e entity) connector.Address {
	a := connector.Address{Line1: e.street, City: e.place.city, PostCode: e.place.postcode, Country: e.place.country}
	if m.chance(20) {
		a.Line1 = strings.ReplaceAll(strings.ReplaceAll(a.Line1, "straße", "str."), " Road", " Rd")
	}
	if m.chance(15) && a.Country == "DE" {
		a.PostCode = "D-" + a.PostCode
	}
	if m.chance(15) {
		a.PostCode = strings.ReplaceAll(strings.ToLower(a.PostCode), " ", "")
	}
	if m.chance(25) {
		a.Country = ""
	}
	return a
}
