package mapping

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"payersync/connector"
)

// Coverage counts the results of a mapping's rules over many records, the texts not understood by functions, and payers
// with the same name or e-mail address. Its memory is bounded to about 50 MB, for a quarter of a million payers with
// different names and addresses; beyond this it only counts. Use it from one goroutine.
//
// A rule fires for a record if it gives a nonblank text, true, or a list with a nonblank element; otherwise it was
// blank. A part of a rule is one side of a condition ? a : b, or one argument of coalesce or default; it fires when it
// is taken.
type Coverage struct {
	mapping *Mapping
	report  CoverageReport // without its lists of names
	rules   map[*rule]int  // places in report.Rules
	parts   map[int]int    // places in report.Rules by the number of the part

	misread map[misreading]*misreads
	pending []missedText // in the running rule
	names   *sharing
	emails  *sharing
}

// misreading is a function of a rule.
type misreading struct {
	rule     *rule
	function string
}

type missedText struct{ function, value string }

// CoverageReport is the result of Coverage. Records is the sum of included, failed and excluded ones.
type CoverageReport struct {
	Records      int
	Included     int
	Failed       int
	Rules        []RuleCoverage // every expression and its parts, in the order of the file
	NeverFired   []string       // rules and parts without any use, in words with their lines
	UnusedFields []string       // the source's unused fields, in the source's order
	Misread      []Misread      // texts misread by functions, by rule in the order of the file
	Shared       []Shared       // names and e-mail addresses of several payers, if any
}

// RuleCoverage says how often a rule or a part of it fired and was blank.
type RuleCoverage struct {
	Path string `json:"path"` // what the rule decides, for example "customer.people[0].email"
	Line int    `json:"line"` // of the mapping file
	// the part's expression: one side of a condition, or one argument of coalesce or default; "" for the whole rule
	Part  string `json:"part,omitempty"`
	Fired int    `json:"fired"`
	Blank int    `json:"blank"` // always 0 for a part
}

// String names the rule or part.
func (r RuleCoverage) String() string {
	if r.Part != "" {
		return fmt.Sprintf("%s (line %d), the part %s", r.Path, r.Line, r.Part)
	}
	return fmt.Sprintf("%s (line %d)", r.Path, r.Line)
}

// NewCoverage returns a coverage without records.
func (m *Mapping) NewCoverage() *Coverage {
	c := &Coverage{mapping: m, rules: map[*rule]int{}, parts: map[int]int{}, misread: map[misreading]*misreads{},
		names: newSharing(), emails: newSharing()}
	for _, r := range m.rules() {
		c.rules[r] = c.enter(RuleCoverage{Path: r.path.String(), Line: r.line})
		for _, p := range r.parts {
			c.parts[p.number] = c.enter(RuleCoverage{Path: r.path.String(), Line: r.line, Part: p.text})
		}
	}
	return c
}

func (c *Coverage) enter(r RuleCoverage) int {
	c.report.Rules = append(c.report.Rules, r)
	return len(c.report.Rules) - 1
}

// Add applies the mapping to a record and counts its rules' results.
func (c *Coverage) Add(r connector.Record) {
	got, err := c.mapping.apply(r, c.mapping.tenant, watcher{rule: c.ran, part: c.took, misses: c.missed})
	c.report.Records++
	switch {
	case err != nil:
		c.report.Failed++
	case got.Included:
		c.report.Included++
		c.share(r.SourceID, got.Customer)
	}
}

func (c *Coverage) missed(function, value string) {
	c.pending = append(c.pending, missedText{function, value})
}

func (c *Coverage) ran(r *rule, value any) {
	for _, text := range c.pending {
		at := misreading{r, text.function}
		if c.misread[at] == nil {
			c.misread[at] = &misreads{values: map[string]int{}}
		}
		c.misread[at].add(text.value)
	}
	c.pending = c.pending[:0]
	counts := &c.report.Rules[c.rules[r]]
	switch {
	case fires(value):
		counts.Fired++
	case value != nil:
		counts.Blank++
	}
}

func (c *Coverage) took(part int) { c.report.Rules[c.parts[part]].Fired++ }

// Report returns the counts so far.
func (c *Coverage) Report() CoverageReport {
	out := c.report
	out.Rules = slices.Clone(out.Rules)
	for _, r := range out.Rules {
		if r.Fired == 0 {
			out.NeverFired = append(out.NeverFired, r.String())
		}
	}
	out.UnusedFields = slices.Clone(c.mapping.unused)
	for _, at := range slices.SortedFunc(maps.Keys(c.misread), func(a, b misreading) int {
		return cmp.Or(cmp.Compare(c.rules[a.rule], c.rules[b.rule]), cmp.Compare(a.function, b.function))
	}) {
		out.Misread = append(out.Misread, c.misread[at].report(at.rule, at.function))
	}
	out.Shared = append(out.Shared,
		connector.Filter([]Shared{c.names.report("name"), c.emails.report("email")},
			func(shared Shared) bool { return shared.Values > 0 || shared.Partial })...)
	return out
}
