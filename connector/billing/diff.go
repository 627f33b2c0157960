package billing

import (
	"encoding/json"
	"fmt"

	"payersync/connector"
)

// MergeDiff lists the changes MergeCustomer would make to a fetched customer, before and after, sorted by path. The
// arguments are those of MergeCustomer. List elements have their indexes in the customer; new ones follow at the end.
func (c *Client) MergeDiff(fetched connector.RemoteCustomer, last *connector.Customer, want connector.Customer,
	own []string) ([]connector.FieldChange, error) {
	m := merge{dialect: c.dialect, want: want, own: own}
	if last != nil {
		m.last = *last
	}
	o, err := decodeObject(fetched.Raw)
	if err != nil {
		return nil, fmt.Errorf("compare customer %s: %w", fetched.ID, err)
	}
	merged, err := m.apply(fetched.Raw)
	if err != nil {
		return nil, fmt.Errorf("compare customer %s: %w", fetched.ID, err)
	}
	before := connector.Customer{Name: scalar(o.get(ownName)), ExternalData: pairsOf(o.get("externalData"))}
	after := connector.Customer{Name: scalar(merged.get(ownName)), ExternalData: pairsOf(merged.get("externalData"))}
	for _, key := range []string{ownPeople, ownAddresses} {
		if !m.owns(key) {
			continue
		}
		list, err := parseArray(o.get(key))
		if err != nil {
			return nil, fmt.Errorf("compare customer %s: %s: %w", fetched.ID, key, err)
		}
		now := m.plan(key, list).inPlace(list, m.long(key))
		for i, raw := range now {
			var was json.RawMessage
			if i < len(list) {
				was = list[i]
			}
			if key == ownPeople {
				before.People, after.People = append(before.People, c.dialect.personOf(was)),
					append(after.People, c.dialect.personOf(raw))
				continue
			}
			before.Addresses, after.Addresses = append(before.Addresses, addressOf(was)), append(after.Addresses, addressOf(raw))
		}
	}
	return connector.Diff(before, after), nil
}

// inPlace is apply, with nil for a removed element.
func (p listPlan) inPlace(list []json.RawMessage, long bool) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(list)+len(p.added))
	for i := range list {
		alone := listPlan{fates: p.fates[i : i+1]}.apply(list[i:i+1], long)
		if alone == nil {
			alone = []json.RawMessage{nil}
		}
		out = append(out, alone...)
	}
	return append(out, listPlan{added: p.added}.apply(nil, long)...)
}

// personOf reads a person in any spelling; the zero value for other values.
func (d Dialect) personOf(raw json.RawMessage) connector.Person {
	o, err := parseObject(raw)
	if err != nil {
		return connector.Person{}
	}
	return d.readPerson(o)
}

func (d Dialect) readPerson(o object) connector.Person {
	flag := func(key string) string {
		if key == "" {
			return ""
		}
		return flagOf(o.get(key))
	}
	return connector.Person{
		Name: o.text("name"), FirstName: o.text("firstName"), LastName: o.text("lastName"),
		Email: o.text("email"), Phone: o.text("phone", "phoneNo"),
		Primary: flag(d.PersonPrimary), Communication: flag(d.PersonComms), ID: o.text("id"),
	}
}

// addressOf reads an address in any spelling; the zero value for other values.
func addressOf(raw json.RawMessage) connector.Address {
	o, err := parseObject(raw)
	if err != nil {
		return connector.Address{}
	}
	return connector.Address{
		Line1: o.text("line1", "addressLine1"), City: o.text("city"),
		PostCode: o.text("postCode", "postalCode"), Country: o.text("country"),
	}
}
