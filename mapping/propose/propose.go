// Package propose proposes a first mapping for an unknown table: the column that identifies a customer, the
// rows of payers, and the columns for name, contact and address, each with its reason. It uses the headings,
// in English, German, French, Italian, Dutch and Spanish, and the values: a column with e-mail addresses in
// it is a column of e-mail addresses.
//
//	Table ──From──▶ Proposal ──File──▶ mapping.yaml
//	                  │  ▲
//	        Questions ▼  │ answers: where two readings are about equally likely
//	                 a person
//
// It is a function of the table and the answers. The caller reads the table, asks a person, and writes the
// file.
package propose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// Table holds the customers' data: the columns' names, and rows as wide as they are.
type Table struct {
	Columns []string
	Rows    [][]string
	Part    bool                   // the export has more rows than these
	Totals  [][]string             // probable rows of totals at the end, not customers
	Spoilt  func(cell string) bool // a spreadsheet has changed it, as in 1.23E+15

	// Of a database's table alone:
	Stored  bool       // the rows are kept in a database, and no spreadsheet has touched them
	Keys    [][]string // sets of columns, unique and never blank, likeliest first
	Primary bool       // the first of Keys is the primary key
}

// Proposal is a mapping with the reasons for it.
type Proposal struct {
	ID        []string   `json:"id"`        // the columns that identify a customer; none if Refused gives a reason
	Rules     []Rule     `json:"rules"`     // in the order of the file
	Left      []Note     `json:"left"`      // unused columns
	Refused   []Note     `json:"refused"`   // columns that look like an id, likeliest first
	Notes     []string   `json:"notes"`     // notes on the values
	Questions []Question `json:"questions"` // uncertain choices
	// Recognised is the program that wrote the table; nil if unknown.
	Recognised *Recognised `json:"recognised"`
	First      int         `json:"-"` // the rows used, if the export has more; 0 for all
	Stored     bool        `json:"-"` // the rows are those of a database
}

// Rule is one line of the mapping.
type Rule struct {
	Path    string   `json:"path"`    // what it decides, for example "customer.name"
	Value   string   `json:"value"`   // the expression
	Why     string   `json:"why"`     // a sentence without personal values
	Columns []string `json:"columns"` // columns of the rule
}

// Note is something about a column.
type Note struct {
	Column string `json:"column"`
	Why    string `json:"why"`
}

// Question has several readings of similar likelihood.
type Question struct {
	Topic   string   `json:"topic"` // the key of an answer
	Text    string   `json:"question"`
	Options []string `json:"options"` // likeliest first
	Taken   int      `json:"taken"`   // the option used by the proposal
	Said    bool     `json:"said"`    // somebody has answered it
}

// Said holds a person's answers: the chosen option of each question by its topic, and the id columns if
// given.
type Said struct {
	Answers map[string]int
	ID      []string
}

// From makes a proposal.
func From(t Table, said Said) Proposal {
	p := &proposing{said: said, left: map[*column]string{}, keys: t.Keys, primary: t.Primary}
	if !t.Stored {
		t.setTemplatesAside()
	}
	p.rows, p.totals = t.Rows, t.Totals
	for i, name := range t.Columns {
		p.columns = append(p.columns, newColumn(t, i, name))
	}
	p.recognise()
	p.setAside()
	p.email()
	p.identity()
	p.phones()
	p.places()
	p.names()
	p.payers()
	p.region()
	p.mandate()
	p.warn()
	p.warnOfMarkup()
	p.out.Stored = t.Stored
	if t.Part {
		p.out.First = len(t.Rows)
	}
	return p.proposal()
}

// proposing is a proposal under construction.
type proposing struct {
	said    Said
	rows    [][]string
	totals  [][]string
	keys    [][]string // those of Table
	primary bool
	columns []*column
	left    map[*column]string // why no rule reads a column

	id, emails, phoneColumns []*column
	country, postcode        *column
	export                   *export // the recognised program's export; nil for none
	name                     called  // the customer's name columns

	out Proposal
}

// choose returns the option to use: the answered one, or the first. If that is uncertain, it adds a question.
func (p *proposing) choose(topic, text string, sure bool, options ...string) int {
	taken, answered := p.said.Answers[topic]
	if taken < 0 || taken >= len(options) {
		taken, answered = 0, false
	}
	if !sure {
		p.out.Questions = append(p.out.Questions,
			Question{Topic: topic, Text: text, Options: options, Taken: taken, Said: answered})
	}
	return taken
}

func (p *proposing) rule(path, value, why string, columns ...*column) {
	r := Rule{Path: path, Value: value, Why: why}
	for _, c := range columns {
		c.used = true
		r.Columns = append(r.Columns, c.name)
	}
	p.out.Rules = append(p.out.Rules, r)
}

func (p *proposing) note(format string, args ...any) {
	p.out.Notes = append(p.out.Notes, fmt.Sprintf(format, args...))
}

// leave says why nothing is made of a column.
func (p *proposing) leave(c *column, why string) {
	p.left[c] = cmp.Or(p.left[c], why)
}

// free returns the candidate columns for a role, likeliest first: unused so far, and with fitting values.
func (p *proposing) free(r role, fits func(*column) bool) []*column {
	var found []*column
	for _, c := range p.columns {
		if !c.used && p.left[c] == "" && c.filled > 0 && c.score(r) > 0 && (fits == nil || fits(c)) {
			found = append(found, c)
		}
	}
	slices.SortStableFunc(found, func(a, b *column) int { return b.score(r) - a.score(r) })
	return found
}

// first is the likeliest of free; nil when there is none.
func (p *proposing) first(r role, fits func(*column) bool) *column {
	if found := p.free(r, fits); len(found) > 0 {
		return found[0]
	}
	return nil
}

// order is the order of the rules in a mapping file.
var order = []string{
	"region", "key.customerNumber", "scope", "include", "customer.name",
	"customer.people[0].name", "customer.people[0].email", "customer.people[0].phone",
	"customer.addresses[0].line1", "customer.addresses[0].city", "customer.addresses[0].postCode",
	"customer.addresses[0].country", "externalData.number", "mandate.request",
}

func (p *proposing) proposal() Proposal {
	slices.SortFunc(p.out.Rules, func(a, b Rule) int { return slices.Index(order, a.Path) - slices.Index(order, b.Path) })
	for _, c := range p.columns {
		if c.used {
			continue
		}
		why := p.left[c]
		switch {
		case c.filled == 0:
			why = emptyColumn
		case why == "":
			why = "nothing in a customer is made of it"
		}
		p.out.Left = append(p.out.Left, Note{c.name, why})
	}
	return p.out
}

// emptyColumn is the reason for not using an empty column.
const emptyColumn = "it is empty"

// of says how many of several.
func of(n, all int) string {
	if n == all && all > 1 {
		return fmt.Sprintf("all %d", all)
	}
	return fmt.Sprintf("%d of %d", n, all)
}

// quoted lists names for people: “A”, “B” and “C”.
func quoted(columns ...*column) string {
	names := connector.Map(columns, func(c *column) string { return fmt.Sprintf("%q", c.name) })
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
