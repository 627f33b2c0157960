package propose

import (
	"fmt"
	"slices"
)

// byKey takes the id from the keys of a database's table: the primary key, or a business number with a unique
// constraint. It reports whether there was one.
func (p *proposing) byKey() bool {
	var found [][]*column
	var options, reasons []string
	for i, key := range p.keys {
		columns := p.named(key)
		primary := p.primary && i == 0
		if columns == nil || !primary && (len(columns) > 1 || columns[0].score(roleID) == 0) ||
			slices.ContainsFunc(columns, (*column).isPersonal) {
			continue
		}
		why := "the database keeps it unique, and it is never blank"
		if primary {
			why = "it is the primary key, and each row keeps its own"
		}
		found, reasons = append(found, columns), append(reasons, why)
		options = append(options, fmt.Sprintf("%s (%s)", quoted(columns...), why))
	}
	if len(found) == 0 {
		return false
	}
	text := "Which column is the customer's number in your accounting system, and stays with the customer for ever?"
	taken := p.choose("id", text, len(found) == 1, options...)
	p.id = found[taken]
	p.identifyBy(reasons[taken])
	for i, other := range found {
		switch {
		case i == taken || len(other) > 1:
		case p.primary && i == 0:
			p.leave(other[0], "it would identify a customer as well, and "+quoted(p.id...)+" is taken")
		case !p.hasRule("externalData.number"):
			p.rule("externalData.number", other[0].trimmed(), "the number that people know the customer by", other[0])
		}
	}
	return true
}

func (p *proposing) hasRule(path string) bool {
	return slices.ContainsFunc(p.out.Rules, func(r Rule) bool { return r.Path == path })
}

// named returns the columns of these names; nil if one is missing.
func (p *proposing) named(names []string) (found []*column) {
	for _, name := range names {
		i := slices.IndexFunc(p.columns, func(c *column) bool { return c.name == name })
		if i < 0 {
			return nil
		}
		found = append(found, p.columns[i])
	}
	return found
}

// isPersonal reports whether a column holds e-mail addresses or bank details.
func (c *column) isPersonal() bool {
	return c.filled > 0 && (c.emails*2 > c.filled || c.ibans*2 > c.filled) || c.has(aside[0].words)
}
