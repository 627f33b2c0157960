package billing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"payersync/connector"
)

// ForeignChanges compares a customer before and after our update and returns the JSON paths with differences outside
// our own fields. Either somebody else changed them in between, or the update lost them (fault F11). last, want and own
// are those of the merge.
//
// It ignores the dialect's read-only members, members added by the service to our new elements, and advanced stamps
// (standStill). It also ignores the order of an object's members. A number in another spelling is a difference.
func (c *Client) ForeignChanges(before, after json.RawMessage, last *connector.Customer, want connector.Customer,
	own []string) ([]string, error) {
	m := merge{dialect: c.dialect, want: want, own: own}
	if last != nil {
		m.last = *last
	}
	if err := checkOwn(own); err != nil {
		return nil, fmt.Errorf("compare customer: %w", err)
	}
	was, err := decodeObject(before)
	if err != nil {
		return nil, fmt.Errorf("compare customer, as it was: %w", err)
	}
	if err := checkJSON(after); err != nil {
		return nil, fmt.Errorf("compare customer, as it is: %w", err)
	}
	is, err := parseObject(standStill("", before, after))
	if err != nil {
		return nil, fmt.Errorf("compare customer, as it is: %w", err)
	}
	c.dialect.dropReadOnly(&was)
	c.dialect.dropReadOnly(&is)
	paths := m.foreignPaths(was, is)
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

func (m *merge) foreignPaths(was, is object) []string {
	var paths []string
	for _, key := range keysOf(was, is) {
		switch {
		case key == ownName && m.owns(key):
		case key == "externalData":
			paths = append(paths, m.foreignPairs(was.get(key), is.get(key))...)
		case (key == ownPeople || key == ownAddresses) && m.owns(key):
			paths = append(paths, m.foreignElements(key, was.get(key), is.get(key))...)
		default:
			paths = append(paths, differences(key, was.get(key), is.get(key))...)
		}
	}
	return paths
}

// keysOf returns the keys of both objects, each once.
func keysOf(a, b object) []string {
	keys := connector.Map(slices.Concat(a, b), func(m member) string { return m.key })
	slices.Sort(keys)
	return slices.Compact(keys)
}

// foreignPairs compares the foreign pairs, in any shape.
func (m *merge) foreignPairs(was, is json.RawMessage) []string {
	before, after := pairTexts(was), pairTexts(is)
	var paths []string
	for name := range before {
		after[name] += "" // removed members count too
	}
	for name := range after {
		_, wanted := m.want.ExternalData[name]
		if _, written := m.last.ExternalData[name]; !wanted && !written && before[name] != after[name] {
			paths = append(paths, "externalData."+name)
		}
	}
	return paths
}

// pairTexts returns the pairs of externalData with their values as canonical JSON, to compare values other than text
// too.
func pairTexts(raw json.RawMessage) map[string]string {
	out := make(map[string]string)
	if o, err := parseObject(raw); err == nil && !isConnector(o) {
		for _, m := range o {
			out[m.key] = canonical(m.value)
		}
		return out
	}
	for element := range pairElements(raw) {
		name, _ := pairOf(element)
		out[name] = canonical(element.get(valueKey(element)))
	}
	return out
}

// foreignElements compares the foreign elements of a shared list.
func (m *merge) foreignElements(key string, was, is json.RawMessage) []string {
	before, err := parseArray(was)
	after, errAfter := parseArray(is)
	if err != nil || errAfter != nil {
		return differences(key, was, is)
	}
	e := elementsCompared{key: key, before: before, after: after, taken: make([]bool, len(after)), lost: m.movesPrimary()}
	plan := m.plan(key, before)
	for i, f := range plan.fates {
		if f.want != nil {
			e.compareOurs(i, *f.want)
		}
	}
	for i := range plan.added {
		e.takeAdded(plan.added[i])
	}
	for i, f := range plan.fates {
		if f.foreign() {
			e.compareTheirs(i)
		}
	}
	return append(e.paths, e.leftOver()...)
}

// elementsCompared finds for each element before the one it became.
type elementsCompared struct {
	key           string
	before, after []json.RawMessage
	lost          string // the flag that a service takes from all others when one of ours gets it; "" for none
	taken         []bool // elements of after already matched
	paths         []string
}

func (e *elementsCompared) path(i int) string { return e.key + "[" + strconv.Itoa(i) + "]" }

// find marks the first matching element after the update; -1 for none.
func (e *elementsCompared) find(fits func(raw json.RawMessage) bool) int {
	for i, raw := range e.after {
		if !e.taken[i] && fits(raw) {
			e.taken[i] = true
			return i
		}
	}
	return -1
}

// ours finds the element after the update with a part of ours.
func (e *elementsCompared) ours(want part) int {
	return e.find(func(raw json.RawMessage) bool {
		v, ok := viewOf(raw)
		return ok && (want.is(v) || e.key == ownAddresses)
	})
}

// compareOurs compares the foreign members of an element of ours.
func (e *elementsCompared) compareOurs(i int, want part) {
	j := e.ours(want)
	if j < 0 { // it is recognised without its address, by our update's values
		made, _ := viewOf(want.update(e.before[i], nil, false))
		j = e.find(func(raw json.RawMessage) bool {
			v, ok := viewOf(raw)
			return ok && v.email == made.email && sameLabel(v.label, made.label)
		})
	}
	if j < 0 {
		e.paths = append(e.paths, e.path(i))
		return
	}
	was, err := parseObject(e.before[i])
	is, errAfter := parseObject(e.after[j])
	if err != nil || errAfter != nil {
		return // ours returns objects only, and so does the plan
	}
	for _, key := range keysOf(was, is) {
		if !want.owned(key) && !e.loses(key, was, is) {
			e.paths = append(e.paths, differences(e.path(j)+"."+key, was.get(key), is.get(key))...)
		}
	}
}

// takeAdded marks an element added by us; the service may have added members to it.
func (e *elementsCompared) takeAdded(want part) { e.ours(want) }

// compareTheirs finds a foreign element; it must not have changed.
func (e *elementsCompared) compareTheirs(i int) {
	same := canonical(e.before[i])
	if e.find(func(raw json.RawMessage) bool { return canonical(raw) == same }) < 0 && !e.findWithout(i) {
		e.paths = append(e.paths, e.path(i))
	}
}

// loses reports whether the only change of a member is the loss of the primary flag.
func (e *elementsCompared) loses(key string, was, is object) bool {
	return key == e.lost && e.lost != "" && flagOf(was.get(key)) == "true" && flagOf(is.get(key)) != "true"
}

// findWithout marks the element after the update different from its earlier version only by the primary flag.
func (e *elementsCompared) findWithout(i int) bool {
	was, err := parseObject(e.before[i])
	if err != nil || flagOf(was.get(e.lost)) != "true" {
		return false
	}
	rest := slices.Clone(was)
	rest.remove(e.lost)
	return e.find(func(raw json.RawMessage) bool {
		is, err := parseObject(raw)
		if err != nil || !e.loses(e.lost, was, is) {
			return false
		}
		is = slices.Clone(is)
		is.remove(e.lost)
		return canonical(is.bytes()) == canonical(rest.bytes())
	}) >= 0
}

// movesPrimary returns the primary flag if a contact of ours is to have it. A customer has one primary contact, so the
// service may take the flag from another.
func (m *merge) movesPrimary() string {
	for _, p := range m.want.People {
		if p.Primary == "true" {
			return m.dialect.PersonPrimary
		}
	}
	return ""
}

// leftOver returns the unmarked elements after the update.
func (e *elementsCompared) leftOver() []string {
	var paths []string
	for i, taken := range e.taken {
		if !taken {
			paths = append(paths, e.path(i))
		}
	}
	return paths
}

// differences returns the paths below path with different values.
func differences(path string, was, is json.RawMessage) []string {
	if canonical(was) == canonical(is) {
		return nil
	}
	before, errBefore := parseObject(was)
	if after, errAfter := parseObject(is); errBefore == nil && errAfter == nil {
		var paths []string
		for _, key := range keysOf(before, after) {
			paths = append(paths, differences(path+"."+key, before.get(key), after.get(key))...)
		}
		return paths
	}
	return differentElements(path, was, is)
}

func differentElements(path string, was, is json.RawMessage) []string {
	before, errBefore := split(was, '[')
	after, errAfter := split(is, '[')
	if errBefore != nil || errAfter != nil {
		return []string{path}
	}
	var paths []string
	for i := range max(len(before), len(after)) {
		at := path + "[" + strconv.Itoa(i) + "]"
		if i >= len(before) || i >= len(after) {
			paths = append(paths, at)
			continue
		}
		paths = append(paths, differences(at, before[i], after[i])...)
	}
	return paths
}

// canonical returns a value's JSON with members sorted and strings spelt in one
// way; numbers keep their spelling. A missing value is not null.
func canonical(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '{':
		o, _ := parseObject(raw)
		parts := connector.Map(o, func(m member) string { return string(quote(m.key)) + ":" + canonical(m.value) })
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	case '[':
		list, _ := split(raw, '[')
		parts := connector.Map(list, canonical)
		return "[" + strings.Join(parts, ",") + "]"
	case '"':
		return string(quote(unquote(raw)))
	}
	return string(raw)
}
