package billing

import (
	"fmt"
	"slices"

	"payersync/connector"
)

// Drift lists the differences between a fetched customer and the wanted one, sorted by path: From is the customer's
// value, To the wanted one. Unlike MergeDiff, it uses the indexes of list elements in want. A value in another form
// (connector.SameForm) counts as equal. Drift finds the contact an update would change, by the same rules; a contact
// not found is blank.
func (c *Client) Drift(fetched connector.RemoteCustomer, last *connector.Customer, want connector.Customer,
	own []string) ([]connector.FieldChange, error) {
	o, err := decodeObject(fetched.Raw)
	if err != nil {
		return nil, fmt.Errorf("compare customer %s: %w", fetched.ID, err)
	}
	m := merge{dialect: c.dialect, want: want, own: own}
	if last != nil {
		m.last = *last
	}
	shows := connector.Customer{Name: want.Name, People: slices.Clone(want.People),
		Addresses: slices.Clone(want.Addresses), ExternalData: map[string]string{}}
	if m.owns(ownName) && want.Name != "" {
		shows.Name = scalar(o.get(ownName))
	}
	if m.owns(ownPeople) {
		list, err := parseArray(o.get(ownPeople))
		if err != nil {
			return nil, fmt.Errorf("compare customer %s: %s: %w", fetched.ID, ownPeople, err)
		}
		wanted := c.dialect.peopleParts(want.People)
		plan := planPeople(list, c.dialect.peopleParts(m.last.People), wanted)
		for i, p := range want.People {
			shows.People[i] = connector.Person{}
			if c.dialect.personPart(p).blank() {
				continue
			}
			if at := plan.placeOf(&wanted[0]); at >= 0 {
				shows.People[i] = personLike(p, c.dialect.personOf(list[at]))
			}
			wanted = wanted[1:]
		}
	}
	if m.owns(ownAddresses) {
		list, err := parseArray(o.get(ownAddresses))
		if err != nil {
			return nil, fmt.Errorf("compare customer %s: %s: %w", fetched.ID, ownAddresses, err)
		}
		for i, a := range want.Addresses {
			shows.Addresses[i] = connector.Address{}
			if i < len(list) {
				shows.Addresses[i] = addressLike(a, addressOf(list[i]))
			}
		}
	}
	pairs := pairsOf(o.get("externalData"))
	for name := range want.ExternalData {
		shows.ExternalData[name] = pairs[name]
	}
	return slices.DeleteFunc(connector.Diff(shows, want),
		func(d connector.FieldChange) bool { return connector.SameForm(d.From, d.To) }), nil
}

// placeOf returns the index of the element assigned to a part; -1 for none.
func (p listPlan) placeOf(want *part) int {
	return slices.IndexFunc(p.fates, func(f fate) bool { return f.want == want })
}

// personLike returns of a person what ours says something of, with the name in ours' form.
func personLike(ours, shown connector.Person) connector.Person {
	full, first, last := nameForms(shown)
	return connector.Person{
		Name: where(ours.Name, full), FirstName: where(ours.FirstName, first), LastName: where(ours.LastName, last),
		Email: where(ours.Email, shown.Email), Phone: where(ours.Phone, shown.Phone),
		Primary: flagLike(ours.Primary, shown.Primary), Communication: flagLike(ours.Communication, shown.Communication),
	}
}

// addressLike is personLike for an address.
func addressLike(ours, shown connector.Address) connector.Address {
	return connector.Address{
		Line1: where(ours.Line1, shown.Line1), City: where(ours.City, shown.City),
		PostCode: where(ours.PostCode, shown.PostCode), Country: where(ours.Country, shown.Country),
	}
}

// flagLike compares a flag: a missing one is false.
func flagLike(ours, shown string) string {
	if shown == "" && ours == "false" {
		return ours
	}
	return where(ours, shown)
}

// where returns the shown value if we have a value for the field.
func where(ours, shown string) string {
	if ours == "" {
		return ""
	}
	return shown
}
