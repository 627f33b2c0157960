package mapping

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"payersync/connector"
)

// Bounds of what a Coverage remembers. All else is counted only, and the report
// says so.
const (
	maxMisreadValues = 500     // different values of one rule's function
	maxMisreadText   = 80      // characters of one
	maxShownValues   = 20      // reported values of one function
	maxCompared      = 250_000 // different names, and as many e-mail addresses
	maxSharedKept    = 1000    // shared names, and as many e-mail addresses, with their records
	maxShownShared   = 20      // of those reported, the most shared ones
	maxSharedIDs     = 10      // records named of each
)

// Misread says how often a function did not understand what it was given in a
// rule. The values are personal: what is shown of them is the caller's decision.
type Misread struct {
	Path     string   // of the rule, for example "customer.addresses[0].country"
	Line     int      // of the mapping file
	Function string   // as in "country", or "phone without a region"
	Fields   []string // of the rule
	Cure     string   // a person's next step
	Count    int      // misread texts
	Values   []MisreadValue
	Others   int // of Count, those with a value outside of Values
}

// MisreadValue is a text not understood, most frequent first.
type MisreadValue struct {
	Value   string
	Count   int
	CouldBe []string // the codes of possible countries
}

// Shared says how many payers have the same name, or the same e-mail address.
type Shared struct {
	Field   string        // "name" or "email"
	Values  int           // different values of several payers
	Records int           // payers with one of them
	Partial bool          // more values were met than are remembered: there may be further ones
	Largest []SharedValue // the most shared ones, most first
}

// SharedValue is a name or an address of several payers.
type SharedValue struct {
	Value     string // as one of them has it
	Count     int
	SourceIDs []string // the first of them
}

// misreadCures are a person's next steps for misread texts.
var misreadCures = map[string]string{
	"country":     `correct them in the accounting system, or translate them in the mapping, as in %[1]s == "…" ? "DE" : country(%[1]s)`,
	"postcode":    "correct them in the accounting system; those of other countries are right as they are",
	"phone":       "correct them in the accounting system: one number in a cell, and no words",
	WithoutRegion: `say in the mapping which country writes its numbers so: region: GB at the top, or phone(…, "GB")`,
	"firstEmail":  "correct them in the accounting system: there is no well-formed address among them",
	"emails":      "correct them in the accounting system: there is no well-formed address among them",
	"date":        `correct them in the accounting system, or give date their form, as in date(…, "DD.MM.YYYY")`,
	"number":      `correct them in the accounting system, or tell number their decimal sign, as in number(…, ",")`,
}

// misreads counts the texts misread by one function in one rule.
type misreads struct {
	count  int
	values map[string]int
}

func (m *misreads) add(value string) {
	value = strings.TrimSpace(value)
	if r := []rune(value); len(r) > maxMisreadText {
		value = string(r[:maxMisreadText]) + "…"
	}
	m.count++
	if m.values[value] > 0 || len(m.values) < maxMisreadValues {
		m.values[value]++
	}
}

func (m *misreads) report(r *rule, function string) Misread {
	out := Misread{Path: r.path.String(), Line: r.line, Function: function, Fields: fieldsRead(r), Count: m.count,
		Others: m.count}
	if out.Cure = misreadCures[function]; strings.Contains(out.Cure, "%") {
		name := "Country"
		if len(out.Fields) > 0 {
			name = Written(out.Fields[0])
		}
		out.Cure = fmt.Sprintf(out.Cure, name)
	}
	for value, n := range m.values {
		out.Values = append(out.Values, MisreadValue{Value: value, Count: n})
	}
	slices.SortFunc(out.Values, func(a, b MisreadValue) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value))
	})
	out.Values = out.Values[:min(maxShownValues, len(out.Values))]
	for i := range out.Values {
		out.Others -= out.Values[i].Count
		if function == "country" {
			out.Values[i].CouldBe = couldBe(out.Values[i].Value)
		}
	}
	return out
}

// fieldsRead returns the input fields of a rule.
func fieldsRead(r *rule) []string {
	return connector.Map(r.reads, func(variable string) string { return strings.TrimPrefix(variable, fieldPrefix) })
}

// sharing finds values of several records. It keeps a 64-bit hash of each value and the first record: among 250,000
// values, a collision occurs in one of half a billion files.
type sharing struct {
	seed    maphash.Seed
	first   map[uint64]sharer
	groups  map[uint64]*SharedValue
	values  int
	records int
	partial bool
}

type sharer struct {
	sourceID string
	count    int
}

func newSharing() *sharing {
	return &sharing{seed: maphash.MakeSeed(), first: map[uint64]sharer{}, groups: map[uint64]*SharedValue{}}
}

// plainly reduces a value to its distinguishing part: case and the number of spaces do not.
func plainly(value string) string { return strings.Join(strings.Fields(strings.ToLower(value)), " ") }

// add notes a record's value.
func (s *sharing) add(sourceID, value string) {
	plain := plainly(value)
	if plain == "" {
		return
	}
	hash := maphash.String(s.seed, plain)
	known, met := s.first[hash]
	switch {
	case !met && len(s.first) >= maxCompared:
		s.partial = true
		return
	case !met:
		s.first[hash] = sharer{sourceID, 1}
		return
	}
	known.count++
	s.first[hash] = known
	s.records++
	if known.count == 2 {
		s.records++
		s.values++
		if len(s.groups) < maxSharedKept {
			s.groups[hash] = &SharedValue{Value: strings.TrimSpace(value), SourceIDs: []string{known.sourceID}}
		}
	}
	if group := s.groups[hash]; group != nil {
		if group.Count = known.count; len(group.SourceIDs) < maxSharedIDs {
			group.SourceIDs = append(group.SourceIDs, sourceID)
		}
	}
}

func (s *sharing) report(field string) Shared {
	out := Shared{Field: field, Values: s.values, Records: s.records, Partial: s.partial}
	for _, group := range s.groups {
		shared := *group
		shared.SourceIDs = slices.Clone(group.SourceIDs)
		out.Largest = append(out.Largest, shared)
	}
	slices.SortFunc(out.Largest, func(a, b SharedValue) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.SourceIDs[0], b.SourceIDs[0]))
	})
	out.Largest = out.Largest[:min(maxShownShared, len(out.Largest))]
	return out
}

// share notes the name and the addresses of a payer.
func (c *Coverage) share(sourceID string, customer connector.Customer) {
	c.names.add(sourceID, customer.Name)
	var emails []string
	for _, p := range customer.People {
		if email := plainly(p.Email); !slices.Contains(emails, email) { // a record's two contacts may share one
			emails = append(emails, email)
			c.emails.add(sourceID, p.Email)
		}
	}
}
