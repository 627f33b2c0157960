package propose

import (
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// Percentages of rows that may have no id or another row's: they wait, and the others go on. More may if the
// heading names the id.
const (
	mayLack      = 5
	mayLackKnown = 20
	mayLackRows  = 2 // always allowed, if the heading means an id
)

// identity finds the column with the customer's id.
func (p *proposing) identity() {
	if len(p.said.ID) > 0 {
		for _, name := range p.said.ID {
			if i := slices.IndexFunc(p.columns, func(c *column) bool { return strings.EqualFold(c.name, name) }); i >= 0 {
				p.id = append(p.id, p.columns[i])
			}
		}
		if len(p.id) == len(p.said.ID) {
			p.identifyBy("you said so")
		}
		return
	}
	if p.byKey() {
		return
	}
	var fit, unfit []*column
	for _, c := range p.columns {
		if c.noID() == "" {
			fit = append(fit, c)
		} else if c.filled > 0 {
			unfit = append(unfit, c)
		}
	}
	fit = slices.DeleteFunc(fit, func(c *column) bool { return !c.outranks(unfit) })
	slices.SortStableFunc(unfit, func(a, b *column) int { return b.asID() - a.asID() })
	for _, c := range unfit {
		if len(fit) == 0 && !c.ofManyAlike() || c.score(roleID) > 0 || c.spoilt > 0 {
			p.out.Refused = append(p.out.Refused, Note{c.name, c.noID()})
		}
	}
	slices.SortStableFunc(fit, func(a, b *column) int { return b.asID() - a.asID() })
	if len(fit) == 0 {
		return
	}
	taken := 0
	if near := likelyIDs(fit); len(near) > 1 {
		names := connector.Map(near, func(c *column) string { return fmt.Sprintf("%s (%s)", c.name, c.idFacts()) })
		taken = p.choose("id", "Which column is the customer's number in your accounting system, and stays with the customer for ever?", false, names...)
	}
	p.id = fit[taken : taken+1]
	p.identifyBy(p.id[0].asIDWhy())
}

// outranks reports whether a column may be the id although another one, with the heading of an id, has the
// same values in many rows. In that case each row is, for example, an invoice or a contract, and the values
// that differ are its number.
func (c *column) outranks(unfit []*column) bool {
	for _, other := range unfit {
		if other.score(roleID) < 900 || other.shared() <= other.mayLack() {
			continue
		}
		if c.score(roleID) == 0 || other.namesCustomer() && !c.namesCustomer() {
			return false
		}
	}
	return true
}

// namesCustomer reports whether the heading names a customer's number, and not just any number.
func (c *column) namesCustomer() bool { return c.score(roleID) > 0 && !slices.Contains(alone, c.words) }

// ofManyAlike reports whether nobody would think of a column as an id.
func (c *column) ofManyAlike() bool {
	return c.dates*2 > c.filled || c.amounts*2 > c.filled || c.lands*2 > c.filled || len(c.times)*2 < c.filled
}

// likelyIDs returns the columns about as good as the best one, three at most.
func likelyIDs(fit []*column) []*column {
	n := 1
	if fit[0].meant != nil {
		return fit[:n]
	}
	for n < min(len(fit), 3) && fit[0].asID()-fit[n].asID() < 150 {
		n++
	}
	return fit[:n]
}

func (p *proposing) identifyBy(why string) {
	var parts []string
	for _, c := range p.id {
		p.out.ID = append(p.out.ID, c.name)
		parts = append(parts, "trim("+c.written()+")")
		p.idNotes(c)
	}
	value := parts[0]
	if len(parts) > 1 {
		value = "join([" + strings.Join(parts, ", ") + `], "|")`
	}
	verb := " identifies a customer: "
	if len(p.id) > 1 {
		verb = " identify a customer together: "
	}
	p.rule("key.customerNumber", value, quoted(p.id...)+verb+why, p.id...)
	p.rule("scope", "tenant", "another company may have the same numbers")
}

// idNotes lists the rows that will wait because of their id.
func (p *proposing) idNotes(c *column) {
	if n := c.rows - c.filled; n > 0 && !c.leavesBlankOut() {
		p.note("%s nothing in %q: nobody can tell whose they are, so they wait.", rowsHave(n), c.name)
	}
	if n := c.shared(); n > 0 && len(p.id) == 1 {
		p.note("%s a value in %q that another row has, too: they wait until each has its own.", rowsHave(n), c.name)
	}
	if c.spoilt > 0 {
		p.note("%s a value in %q that a spreadsheet has changed, as in 1.23E+15: two that look equal may have been two, so they wait. Format the column as text and export again.", rowsHave(c.spoilt), c.name)
	}
}

// leavesBlankOut reports whether rows with a blank are no customers in a known export.
func (c *column) leavesBlankOut() bool { return c.meant != nil && slices.Contains(c.meant.left, "") }

func rowsHave(n int) string {
	if n == 1 {
		return "1 row has"
	}
	return fmt.Sprintf("%d rows have", n)
}

// asID scores a column as id, among the possible ones.
func (c *column) asID() int {
	points := c.score(roleID)
	if c.codes*10 >= c.filled*9 {
		points += 300
	}
	return points + 200*(c.filled-c.shared())/max(1, c.rows)
}

func (c *column) asIDWhy() string {
	why := c.idFacts()
	if c.score(roleID) >= 900 {
		return "its heading says so, and " + why
	}
	return why
}

// idFacts says how full and how unique the column is.
func (c *column) idFacts() string {
	if n := c.shared(); n > 0 {
		return fmt.Sprintf("%s rows have a value; %d share it with another row", of(c.filled, c.rows), n)
	}
	return fmt.Sprintf("%s rows have a value, each its own", of(c.filled, c.rows))
}

// mayLack is how many rows may be without an id of their own.
func (c *column) mayLack() int {
	switch known := c.score(roleID); {
	case known >= 900:
		return max(mayLackRows, c.rows*mayLackKnown/100)
	case known > 0:
		return max(mayLackRows, c.rows*mayLack/100)
	}
	return c.rows * mayLack / 100
}

// isElse reports whether the heading stands for something other than an id.
func (c *column) isElse() bool {
	if c.score(roleID) > 0 {
		return false
	}
	if c.meant != nil {
		return true
	}
	for r := range role(len(headings)) {
		if r != roleID && c.score(r) > 0 {
			return true
		}
	}
	return false
}

// countingWords are headings of columns that count either the rows or the customers.
var countingWords = []string{"number", "nummer", "numero", "nr", "no"}

// noID says why a column cannot identify a customer; "" when it can.
func (c *column) noID() string {
	switch {
	case c.filled == 0:
		return "it is empty"
	case c.spoilt*10 > c.filled:
		return fmt.Sprintf("a spreadsheet has written %s values as 1.23E+15: two that look equal may have been two",
			of(c.spoilt, c.filled))
	case c.has(aside[0].words), c.ibans*2 > c.filled:
		return "bank details stay in your accounting system"
	case c.emails*2 > c.filled:
		return "people change their e-mail address"
	case c.dates*2 > c.filled, c.amounts*2 > c.filled:
		return "it holds dates or amounts"
	case c.running && (c.score(roleID) == 0 || slices.Contains(countingWords, c.words)):
		return "it counts the rows of this file, and the next file counts them anew"
	case c.score(roleID) == 0 && c.codes*10 < c.filled*9:
		return "its texts are no numbers, and names change"
	case c.score(roleID) == 0 && (c.score(rolePhone) > 0 || c.score(roleMobile) > 0 || c.plus*2 > c.filled):
		return "people change their telephone number"
	case c.score(roleID) == 0 && c.has(aside[2].words):
		return "not every customer has a tax number, and some share one"
	case c.has(aside[1].words):
		return "people change their fax number"
	case c.ofDocument():
		return "every invoice, order or contract would be a customer of its own"
	case c.isElse():
		return "its heading says what it is, and two customers may share that"
	case c.rows-c.filled > c.mayLack() && !c.leavesBlankOut():
		return fmt.Sprintf("%s rows have none", of(c.rows-c.filled, c.rows))
	case c.shared() > c.mayLack():
		return fmt.Sprintf("%s rows have a value that another row has, too", of(c.shared(), c.rows))
	}
	return ""
}
