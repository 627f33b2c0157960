package propose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// called holds the columns for the names of a customer and its contact.
type called struct {
	company *column   // the company, or any other customer
	more    *column   // the rest of a long name
	person  []*column // first and last name
	contact *column
	other   *column // the name of customers other than companies and persons
	byKind  bool    // the filled column depends on the kind of address
}

// names finds the columns for the names of the customer and its contact.
func (p *proposing) names() {
	text := func(c *column) bool { return c.texts*10 >= c.filled*9 && c.emails == 0 }
	n := p.byKind()
	if !n.byKind {
		n = called{person: p.person(text)}
		if n.person == nil || !n.person[1].has(companyOrLast) {
			n.company = p.company(text)
		}
	}
	if n.company != nil {
		n.other = cmp.Or(n.other, p.displayName(n.company))
		n.more = p.claim(roleMoreName, text)
	}
	if n.contact = p.claim(roleContact, text); n.contact == nil && n.person == nil {
		n.contact = p.claim(roleName, text)
	}
	if n.company == nil && n.person == nil {
		n.company, n.contact = n.contact, nil
	}
	if n.company == nil && n.person == nil {
		n.company = p.anyText()
	}
	if n.company == nil && n.person == nil && len(p.id) == 1 && text(p.id[0]) && p.id[0].codes*10 < p.id[0].filled*9 {
		n.company = p.id[0]
	}
	p.name = n
	p.customerName(n)
	p.contactName(n)
}

// displayName returns the column that a known program displays as the customer's name; nil for none.
func (p *proposing) displayName(company *column) *column {
	i := slices.IndexFunc(p.columns,
		func(c *column) bool { return c != company && c.meant != nil && c.meant.role == roleName })
	if i < 0 {
		return nil
	}
	p.columns[i].used = true
	return p.columns[i]
}

// companyOrLast are headings of a column with companies, and with the last names of persons.
var companyOrLast = []string{"co last name", "company last name", "company or last name", "firma nachname",
	"firma name", "name firma"}

// company returns the column with the companies' names. The id column serves if its values are names.
func (p *proposing) company(text func(*column) bool) *column {
	if c := p.claim(roleCompany, text); c != nil {
		return c
	}
	for _, c := range p.id {
		if text(c) && c.score(roleCompany)+c.score(roleName) > 0 && c.codes*10 < c.filled*9 {
			return c
		}
	}
	found := p.free(roleName, text)
	if len(found) == 0 {
		return nil
	}
	c := found[0]
	for _, other := range found { // a customer without a contact still has a name
		if c.filled < c.rows && other.filled == other.rows && other.score(roleName) > 900 {
			c = other
		}
	}
	c.used = true
	return c
}

// byKind returns the columns of an export in which the kind of an address decides on the column of its name.
// It returns all, even empty ones.
func (p *proposing) byKind() called {
	const kind = "adressattyp"
	var n called
	var firstName, lastName *column
	for _, c := range p.columns {
		switch c.words {
		case "name " + kind + " unternehmen":
			n.company = c
		case "name " + kind + " keine angabe":
			n.other = c
		case "vorname " + kind + " naturl person":
			firstName = c
		case "name " + kind + " naturl person":
			lastName = c
		}
	}
	if n.company == nil || firstName == nil || lastName == nil {
		return called{}
	}
	n.person, n.byKind = []*column{firstName, lastName}, true
	for _, c := range append(some(n.company, n.other), n.person...) {
		c.used = true
	}
	return n
}

// claim takes the likeliest column of a role.
func (p *proposing) claim(r role, fits func(*column) bool) *column {
	c := p.first(r, fits)
	if c != nil {
		c.used = true
	}
	return c
}

// person returns the columns of first and last name; none when it has not both.
func (p *proposing) person(text func(*column) bool) []*column {
	first := p.first(roleFirst, text)
	if first == nil {
		return nil
	}
	for _, last := range p.free(roleLast, text) {
		if last != first {
			first.used, last.used = true, true
			return []*column{first, last}
		}
	}
	return nil
}

// companyName, personName, contactName and otherName are expressions; "" without a column.
func (n called) companyName() string {
	switch {
	case n.company == nil:
		return ""
	case n.more != nil:
		return fmt.Sprintf(`join([%s, %s], " ")`, n.company.written(), n.more.written())
	}
	return n.company.trimmed()
}

func (n called) personName() string {
	if n.person == nil {
		return ""
	}
	return fmt.Sprintf(`join([%s, %s], " ")`, n.person[0].written(), n.person[1].written())
}

func (n called) contactName() string {
	if n.contact == nil {
		return ""
	}
	return n.contact.trimmed()
}

func (n called) otherName() string {
	if n.other == nil {
		return ""
	}
	return n.other.trimmed()
}

// customerName sets the name of the customer: the company, or the person if there is none.
func (p *proposing) customerName(n called) {
	columns := some(n.company, n.more)
	whole := n.company != nil && n.company.filled == n.company.rows && !n.byKind
	switch {
	case n.company == nil && n.person == nil:
		return
	case n.company == nil:
		p.rule("customer.name", n.personName(), "no column holds companies, so the person is the customer", n.person...)
	case n.company.score(roleCompany)+n.company.score(roleName)+n.company.score(roleContact) == 0 &&
		!slices.Contains(p.id, n.company):
		p.rule("customer.name", n.companyName(),
			fmt.Sprintf("no heading says which column holds names; %q holds texts that differ", n.company.name), columns...)
	case whole || n.person == nil && n.contact == nil && n.other == nil:
		p.rule("customer.name", n.companyName(),
			fmt.Sprintf("%s rows have one in %q", of(n.company.filled, n.company.rows), n.company.name), columns...)
	default:
		columns = append(append(columns, n.person...), some(n.other, n.contact)...)
		p.rule("customer.name", first(n.companyName(), n.personName(), n.otherName(), n.contactName()),
			fmt.Sprintf("%q is filled in %s rows; elsewhere the person is the customer", n.company.name,
				of(n.company.filled, n.company.rows)), columns...)
	}
}

// contactName makes the name of the person to write to.
func (p *proposing) contactName(n called) {
	name := first(n.contactName(), n.personName(), n.companyName(), n.otherName())
	if name == "" || len(p.emails)+len(p.phoneColumns) == 0 && n.contact == nil && n.person == nil {
		return
	}
	why := "the person, or the customer where there is none"
	if n.contact == nil && n.person == nil {
		why = "no column holds the person to write to, so it is the customer"
	}
	p.rule("customer.people[0].name", name, why,
		append(append(some(n.contact), n.person...), some(n.company, n.more, n.other)...)...)
}

// first returns an expression for the first value that is not blank.
func first(expressions ...string) string {
	there := connector.Filter(expressions, func(e string) bool { return e != "" })
	if len(there) < 2 {
		return strings.Join(there, "")
	}
	return "coalesce(" + strings.Join(there, ", ") + ")"
}

// some returns the columns other than nil.
func some(columns ...*column) (there []*column) {
	return connector.Filter(columns, func(c *column) bool { return c != nil })
}

// anyText asks for the column with the names if no heading tells.
func (p *proposing) anyText() *column {
	var found []*column
	var options []string
	for _, c := range p.columns {
		if !c.used && p.left[c] == "" && c.texts*10 >= c.filled*9 && c.filled*2 > c.rows && len(c.times)*2 > c.filled &&
			len(found) < 4 {
			found, options = append(found, c), append(options, c.name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[p.choose("name", "Which column holds the customers' names?", len(found) == 1, options...)]
}
