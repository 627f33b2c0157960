package billing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// The fields available to a mapping.
const (
	ownName      = "name"
	ownPeople    = "people"
	ownAddresses = "addresses"
)

// MergeCustomer returns the body to bring a fetched customer to the wanted values, and whether anything differs.
// Without a difference there is no body and nothing to send (connector/RULES.md#fetch-merge-send, invariants S5 and
// S6).
//
// Only the fields in own (name, people, addresses) and our externalData pairs change. Every other member keeps its
// bytes and its place, except the dialect's read-only members: these are omitted. last is the last applied version; nil
// for none.
//
// Lists merge by element. A person is recognised by e-mail address, by name if there is no address, else by place and
// name. A wanted person is updated in place and keeps other members and the spelling. A person written by us and no
// longer wanted is removed, if the name is still ours. New people are added at the end in the dialect's spelling; all
// others stay. The service has a single address, so a wanted address replaces our members of any existing one.
//
// A blank wanted value removes a value written by us, and no other. A value written before and shown in another form
// (connector.SameForm) counts as equal.
func (c *Client) MergeCustomer(fetched connector.RemoteCustomer, last *connector.Customer, want connector.Customer,
	own []string) (body json.RawMessage, changed bool, err error) {
	m := merge{dialect: c.dialect, want: want, own: own}
	if last != nil {
		m.last = *last
	}
	o, err := m.apply(fetched.Raw)
	if err != nil {
		return nil, false, fmt.Errorf("merge customer %s: %w", fetched.ID, err)
	}
	if !m.changed {
		return nil, false, nil
	}
	return c.updateBody(o, fetched.ID), true, nil
}

// updateBody returns the body of an update to the customer o.
func (c *Client) updateBody(o object, id string) json.RawMessage {
	c.dialect.dropReadOnly(&o)
	if c.dialect.Update == "path_id" {
		o.remove("id")
	} else if !o.has("id") {
		o.set("id", quote(id))
	}
	return o.bytes()
}

// NotShown returns the paths with values different from the wanted ones, in the mapping's names and sorted. A value in
// another form (connector.SameForm) counts as equal.
func (c *Client) NotShown(shown json.RawMessage, want connector.Customer, own []string) ([]string, error) {
	o, err := decodeObject(shown)
	if err != nil {
		return nil, fmt.Errorf("compare customer: %w", err)
	}
	m := merge{own: own}
	var paths []string
	if m.owns(ownName) && !connector.SameForm(scalar(o.get(ownName)), want.Name) {
		paths = append(paths, ownName)
	}
	for key, parts := range map[string][]part{ownPeople: c.dialect.peopleParts(want.People),
		ownAddresses: addressParts(want.Addresses)} {
		if m.owns(key) {
			paths = append(paths, notShown(key, slices.Collect(elements(o.get(key))), parts)...)
		}
	}
	pairs := pairsOf(o.get("externalData"))
	for name, value := range want.ExternalData {
		if pairs[name] != value {
			paths = append(paths, "externalData."+name)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// notShown returns the fields of the parts missing from all elements.
func notShown(key string, list []object, parts []part) (paths []string) {
	for i, p := range parts {
		for _, f := range slices.Concat(p.short, p.long) {
			if !slices.ContainsFunc(list, func(o object) bool {
				return (!f.flag() || p.isIn(o)) && (says(o, p.short, f.about) || says(o, p.long, f.about))
			}) {
				paths = append(paths, fmt.Sprintf("%s[%d].%s", key, i, f.about))
			}
		}
	}
	return paths
}

// says reports whether an element says of a matter what the fields of one spelling
// say of it.
func says(o object, fields []field, about string) bool {
	spoken := false
	for _, f := range fields {
		if f.about != about {
			continue
		}
		if f.value != "" && !f.shownAs(f.in(o)) {
			return false
		}
		spoken = true
	}
	return spoken
}

// merge is one three-way merge.
type merge struct {
	dialect    Dialect
	last, want connector.Customer
	own        []string
	changed    bool
}

func (m *merge) apply(raw json.RawMessage) (object, error) {
	if err := checkOwn(m.own); err != nil {
		return nil, err
	}
	o, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	if m.owns(ownName) && m.want.Name != "" && !m.showsName(scalar(o.get(ownName))) {
		m.set(&o, ownName, quote(m.want.Name))
	}
	if err := connector.Each([]string{ownPeople, ownAddresses},
		func(key string) error { return m.mergeList(&o, key) }); err != nil {
		return nil, err
	}
	return o, m.mergeExternal(&o)
}

// showsName reports whether the customer shows the wanted name, or the service's
// own form of it when it was sent before.
func (m *merge) showsName(name string) bool {
	return name == m.want.Name || m.last.Name == m.want.Name && connector.SameForm(name, m.want.Name)
}

// decodeObject checks and splits an object from outside.
func decodeObject(raw json.RawMessage) (object, error) {
	if err := checkJSON(raw); err != nil {
		return nil, err
	}
	return parseObject(raw)
}

func checkOwn(own []string) error {
	for _, name := range own {
		if name != ownName && name != ownPeople && name != ownAddresses {
			return fmt.Errorf("own: %q is no field a mapping can own; use name, people, addresses", name)
		}
	}
	return nil
}

func (m *merge) owns(field string) bool { return slices.Contains(m.own, field) }

// set replaces a member if its value differs in more than whitespace.
func (m *merge) set(o *object, key string, value json.RawMessage) {
	if sameText(o.get(key), value) {
		return
	}
	o.set(key, value)
	m.changed = true
}

func sameText(a, b json.RawMessage) bool {
	return bytes.Equal(compact(a), compact(b))
}

func compact(raw json.RawMessage) []byte {
	var out bytes.Buffer
	_ = json.Compact(&out, raw) // only called with valid JSON or nothing
	return out.Bytes()
}

func (m *merge) mergeExternal(o *object) error {
	const key = "externalData"
	merged, err := m.dialect.mergePairs(o.get(key), m.want.ExternalData, m.pairsGone())
	if err != nil || merged == nil {
		return err
	}
	m.set(o, key, merged)
	return nil
}

// pairsGone returns the names of pairs written by us and no longer wanted.
func (m *merge) pairsGone() []string {
	var out []string
	for name := range m.last.ExternalData {
		if _, wanted := m.want.ExternalData[name]; !wanted {
			out = append(out, name)
		}
	}
	return out
}

func (m *merge) mergeList(o *object, key string) error {
	if !m.owns(key) {
		return nil
	}
	list, err := parseArray(o.get(key))
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	plan := m.plan(key, list)
	if merged := plan.apply(list, m.long(key)); len(merged) > 0 || len(list) > 0 {
		m.set(o, key, joinArray(merged))
	}
	return nil
}

func (m *merge) long(key string) bool {
	if key == ownPeople {
		return m.dialect.PersonFields == "long"
	}
	return m.dialect.AddressFields == "long"
}

func (m *merge) plan(key string, list []json.RawMessage) listPlan {
	if key == ownPeople {
		return planPeople(list, m.dialect.peopleParts(m.last.People), m.dialect.peopleParts(m.want.People))
	}
	return planAddresses(list, addressParts(m.last.Addresses), addressParts(m.want.Addresses))
}

// dropReadOnly removes members computed by the service, in the customer and in the elements of its lists.
func (d Dialect) dropReadOnly(o *object) {
	for _, field := range d.ReadOnly {
		list, key, nested := strings.Cut(field, ".")
		if !nested {
			o.remove(field)
			continue
		}
		parts, err := parseArray(o.get(list))
		if err != nil || len(parts) == 0 {
			continue
		}
		for i, part := range parts {
			if element, err := parseObject(part); err == nil && element.has(key) {
				element.remove(key)
				parts[i] = element.bytes()
			}
		}
		o.set(list, joinArray(parts))
	}
}
