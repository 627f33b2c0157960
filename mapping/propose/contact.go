package propose

import (
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// setAside removes columns without use for a customer, above all bank details.
func (p *proposing) setAside() {
	for _, c := range p.columns {
		switch {
		case c.ibans*2 > c.filled && c.filled > 0:
			p.leave(c, aside[0].why)
		case c.meant != nil || c.emails*2 > c.filled || c.score(roleID) >= 900:
		default:
			for _, a := range aside {
				if c.has(a.words) {
					p.leave(c, a.why)
				}
			}
		}
	}
}

// email finds the column with the address for signing links.
func (p *proposing) email() {
	for _, c := range p.columns {
		if c.emails > 0 && (c.emails*2 >= c.filled || c.score(roleEmail) >= 900) {
			p.emails = append(p.emails, c)
		}
	}
	if len(p.emails) == 0 {
		return
	}
	if doubtful := slices.DeleteFunc(slices.Clone(p.emails),
		func(c *column) bool { return c.notTheirs() == "" }); len(doubtful) > 0 {
		p.emails = slices.DeleteFunc(p.emails, func(c *column) bool { return c.notTheirs() != "" })
		if len(p.emails) == 0 {
			p.emails = p.askDoubtful(doubtful)
		}
		for _, c := range doubtful {
			if !slices.Contains(p.emails, c) {
				p.leave(c, c.notTheirs())
			}
		}
		if len(p.emails) == 0 {
			return
		}
	}
	likely := func(c *column) int { return c.score(roleEmail) + 300*c.emails/max(1, c.rows) }
	slices.SortStableFunc(p.emails, func(a, b *column) int { return likely(b) - likely(a) })
	taken := 0
	if len(p.emails) > 1 {
		var options []string
		for _, c := range p.emails[:min(3, len(p.emails))] {
			options = append(options, fmt.Sprintf("%s (filled in %s rows)", c.name, of(c.filled, c.rows)))
		}
		sure := p.emails[0].meant != nil || p.emails[1].secondary() || p.emails[1].emails*3 < len(p.rows)
		taken = p.choose("email", "Which e-mail address is to get the signing link?", sure, options...)
	}
	c := p.emails[taken]
	columns, text := []*column{c}, c.written()
	for _, other := range p.emails {
		switch {
		case other == c:
		case taken == 0 && c.meant != nil && other.meant != nil && other.meant.role == roleEmail:
			columns = append(columns, other)
		default:
			p.leave(other, fmt.Sprintf("the e-mail address is taken from %q", c.name))
		}
	}
	p.emails = []*column{c}
	why := fmt.Sprintf("%s values are e-mail addresses", of(c.emails, c.filled))
	if len(columns) > 1 {
		text = coalesced(columns)
		why += "; where it is blank, the next column is taken"
	} else if n := c.rows - c.filled; n > 0 {
		why += fmt.Sprintf("; %s none, so nobody is asked there", rowsHave(n))
	}
	p.rule("customer.people[0].email", "lower(firstEmail("+text+"))", why, columns...)
}

// askDoubtful asks whether e-mail addresses, perhaps of the company's own staff, are the customers'. Without
// an answer none is used: a stranger would get all signing links.
func (p *proposing) askDoubtful(doubtful []*column) []*column {
	doubtful = doubtful[:min(3, len(doubtful))]
	options := []string{"no e-mail address"}
	options = append(options,
		connector.Map(doubtful, func(c *column) string { return fmt.Sprintf("%s (%s)", c.name, c.notTheirs()) })...)
	taken := p.choose("email", "Which e-mail address is the customer's, and is to get the signing link?", false,
		options...)
	if taken == 0 {
		return nil
	}
	return doubtful[taken-1 : taken]
}

// staff are words in a heading for the company's own staff, or an adviser of many.
var staff = []string{
	"sales", "rep", "salesperson", "salesman", "representative", "account manager", "accountmanager", "account owner",
	"agent", "advisor", "adviser", "assigned", "assignee", "created", "modified", "staff", "employee", "handled",
	"accountant", "bookkeeper",
	"betreuer", "kundenbetreuer", "sachbearbeiter", "vertreter", "verkaufer", "vertrieb", "vertriebler", "steuerberater",
	"berater", "mitarbeiter", "zustandig", "bearbeiter", "handelsvertreter", "innendienst", "aussendienst",
	"commercial", "vendeur", "conseiller", "gestionnaire", "expert comptable", "representant", "venditore", "agente",
	"commerciale", "commercialista", "consulente", "referente interno", "verkoper", "vertegenwoordiger", "boekhouder",
	"belastingadviseur", "medewerker", "beheerder",
	"vendedor", "comercial", "gestor", "asesor", "representante",
}

// notTheirs says why e-mail addresses may not be the customers'; "" when nothing speaks
// against it.
func (c *column) notTheirs() string {
	switch {
	case c.has(staff):
		return "its heading speaks of your own people or an adviser"
	case c.emails > 2 && len(c.times)*2 < c.filled:
		return fmt.Sprintf("only %d different in %d rows", len(c.times), c.filled)
	}
	return ""
}

// phones finds the columns with telephone numbers.
func (p *proposing) phones() {
	number := func(c *column) bool { return c.numbers*10 >= c.filled*6 }
	for _, r := range []role{rolePhone, roleMobile} {
		if c := p.first(r, number); c != nil && !slices.Contains(p.phoneColumns, c) {
			p.phoneColumns = append(p.phoneColumns, c)
			c.used = true
		}
	}
	if p.phoneColumns != nil {
		return
	}
	for _, c := range p.columns {
		if !c.used && p.left[c] == "" && c.plus*10 >= c.filled*8 && c.filled > 0 && number(c) {
			p.phoneColumns, c.used = []*column{c}, true
			return
		}
	}
}

// phoneText is the number as the columns hold it.
func (p *proposing) phoneText() string {
	if len(p.phoneColumns) == 1 {
		return p.phoneColumns[0].written()
	}
	return coalesced(p.phoneColumns)
}

// coalesced returns the expression of the first column with a value.
func coalesced(columns []*column) string {
	names := connector.Map(columns, func(c *column) string { return c.written() })
	return "coalesce(" + strings.Join(names, ", ") + ")"
}

// places finds the address.
func (p *proposing) places() {
	p.streets()
	p.towns()
	if c := p.first(roleCountry, func(c *column) bool { return c.lands*2 >= c.filled }); c != nil {
		p.country = c
		why := fmt.Sprintf("%s values are countries", of(c.lands, c.filled))
		if c.lands < c.filled {
			why += "; the others are sent as they are"
		}
		p.rule("customer.addresses[0].country", "country("+c.written()+")", why, c)
	}
	for _, c := range p.free(roleLanguage, nil) {
		p.leave(c, "the billing service has no place for it")
	}
}

func (p *proposing) streets() {
	text := func(c *column) bool { return c.texts*2 > c.filled && (c.rows < 20 || len(c.times) > 5) }
	street := p.first(roleStreet, text)
	if street == nil {
		return
	}
	value, columns := street.trimmed(), []*column{street}
	street.used = true
	if house := p.first(roleHouse, nil); house != nil {
		value, columns = fmt.Sprintf(`join([%s, %s], " ")`, value, house.written()), append(columns, house)
		house.used = true
	}
	lines := []string{value}
	more := p.free(roleMoreStreet, func(c *column) bool { return c.emails == 0 && !c.secondaryStreet() })
	slices.SortFunc(more, func(a, b *column) int { return a.at - b.at })
	for _, c := range more {
		lines, columns = append(lines, c.trimmed()), append(columns, c)
	}
	if len(lines) > 1 {
		value = "join([" + strings.Join(lines, ", ") + `], ", ")`
	}
	p.rule("customer.addresses[0].line1", value, "its heading says so; the service takes one line", columns...)
}

// secondaryStreet reports whether a line is of another address than the one for invoices.
func (c *column) secondaryStreet() bool {
	return slices.ContainsFunc(strings.Fields(c.words), func(w string) bool { return slices.Contains(others, w) })
}

func (p *proposing) towns() {
	if c := p.first(rolePlace, nil); c != nil {
		p.rule("customer.addresses[0].city", "join(split(trim("+c.written()+`), " ")[1:], " ")`,
			"what stands behind the postcode", c)
		p.rule("customer.addresses[0].postCode", "split(trim("+c.written()+`), " ")[0]`, "the first word of the cell", c)
		return
	}
	if c := p.first(roleTown, func(c *column) bool { return c.texts*2 > c.filled }); c != nil {
		p.rule("customer.addresses[0].city", "trim("+c.written()+")", "its heading says so", c)
	}
	if c := p.first(rolePostcode,
		func(c *column) bool { return c.short*2 >= c.filled || c.has([]string{"postcode", "post code"}) }); c != nil {
		p.postcode = c
		p.rule("customer.addresses[0].postCode", "postcode("+c.written()+")", "its heading says so", c)
		p.lostZeros(c)
	}
}

// lostZeros warns about postcodes whose leading zero a spreadsheet removed.
func (p *proposing) lostZeros(c *column) {
	four, five := 0, 0
	for v, n := range c.times {
		if strings.Trim(v, "0123456789") == "" {
			switch len(v) {
			case 4:
				four += n
			case 5:
				five += n
			}
		}
	}
	if four > 0 && four*5 < five && p.country == nil {
		p.note("%s 4 digits in %q where most have 5: a spreadsheet may have dropped a zero in front.", rowsHave(four), c.name)
	}
}
