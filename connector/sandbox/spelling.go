package sandbox

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"payersync/connector"
)

// respell returns a customer's fields in the service's own spelling of people, addresses and externalData.
// Fields already spelt so, and all unknown fields, keep their bytes.
func (sw *Switches) respell(fields object) object {
	out := slices.Clone(fields)
	for i, m := range out {
		switch m.name {
		case "people":
			out[i] = eachObject(m, personSpelling(sw.PersonFields))
		case "addresses":
			out[i] = eachObject(m, addressSpelling(sw.AddressFields))
		case "externalData":
			out[i] = reshape(m, sw.ExternalData)
		}
	}
	return out
}

// eachObject applies spell to every object in the list of m. It returns an unchanged list as it is.
func eachObject(m member, spell func(object) object) member {
	elements, ok := list(m.value)
	if !ok {
		return m
	}
	changed := false
	for i, raw := range elements {
		before, err := parseObject(raw)
		if err != nil {
			continue
		}
		if after := spell(before); len(after) != len(before) || after.names() != before.names() {
			elements[i], changed = after.json(), true
		}
	}
	if !changed {
		return m
	}
	value, _ := json.Marshal(elements) // elements are JSON already
	return field(m.name, value)
}

func (o object) names() string {
	var names strings.Builder
	for _, m := range o {
		names.WriteString(m.name + "\n")
	}
	return names.String()
}

// personSpelling returns the step to change a person to short or long names (billing/README.md#customers). A
// person with the wanted name field keeps the other one as an unknown field.
func personSpelling(form string) func(object) object {
	if form == "long" {
		return func(p object) object { return rename(splitName(p), "phone", "phoneNo") }
	}
	return func(p object) object { return rename(joinName(p), "phoneNo", "phone") }
}

func addressSpelling(form string) func(object) object {
	if form == "long" {
		return func(a object) object {
			return rename(rename(a, "line1", "addressLine1"), "postCode", "postalCode")
		}
	}
	return func(a object) object {
		return rename(rename(a, "addressLine1", "line1"), "postalCode", "postCode")
	}
}

func rename(o object, from, to string) object {
	if !o.has(from) || o.has(to) {
		return o
	}
	return o.replace(from, field(to, o.get(from)))
}

func splitName(p object) object {
	name, ok := p.text("name")
	if !ok || p.has("firstName") || p.has("lastName") {
		return p
	}
	first, last := strings.TrimSpace(name), ""
	if cut := strings.LastIndexByte(first, ' '); cut > 0 {
		first, last = strings.TrimSpace(first[:cut]), first[cut+1:]
	}
	return p.replace("name", field("firstName", quote(first)), field("lastName", quote(last)))
}

func joinName(p object) object {
	if p.has("name") || !p.has("firstName") && !p.has("lastName") {
		return p
	}
	first, _ := p.text("firstName")
	last, _ := p.text("lastName")
	name := field("name", quote(strings.TrimSpace(first+" "+last)))
	if p.has("firstName") {
		return p.replace("firstName", name).without("lastName")
	}
	return p.replace("lastName", name)
}

// pair is one key of externalData, whatever shape it came in: a member of a
// map, {key, value}, or {connectorType, id}.
type pair struct {
	key   string
	value json.RawMessage
	link  json.RawMessage // the whole {connectorType, id, …} it came in; nil in other shapes
}

// pairsOf reads externalData in every documented shape and names the shape; ""
// when it has none of them.
func pairsOf(raw json.RawMessage) (pairs []pair, shape string) {
	if elements, ok := list(raw); ok {
		return pairsOfList(elements)
	}
	o, err := parseObject(raw)
	if err != nil {
		return nil, ""
	}
	if p, ok := connectorPair(o, raw); ok {
		return []pair{p}, "object"
	}
	for _, m := range o {
		pairs = append(pairs, pair{key: m.name, value: m.value})
	}
	return pairs, "map"
}

func pairsOfList(elements []json.RawMessage) (pairs []pair, shape string) {
	shape = "list"
	for _, raw := range elements {
		o, err := parseObject(raw)
		if err != nil {
			return nil, ""
		}
		if p, ok := connectorPair(o, raw); ok {
			pairs, shape = append(pairs, p), "array"
			continue
		}
		key, ok := o.text("key")
		if !ok {
			return nil, ""
		}
		pairs = append(pairs, pair{key: key, value: o.get("value")})
	}
	return pairs, shape
}

func connectorPair(o object, raw json.RawMessage) (pair, bool) {
	key, ok := o.text("connectorType")
	return pair{key, o.get("id"), raw}, ok && o.has("id")
}

// connector returns p as {connectorType, id}, or as it came in that shape.
func (p pair) connector() json.RawMessage {
	if p.link != nil {
		return p.link
	}
	return object{field("connectorType", quote(p.key)), field("id", p.value)}.json()
}

// reshape brings externalData into the wanted shape. Map and list have no place for other members of a linked
// object: they are lost.
func reshape(m member, want string) member {
	pairs, have := pairsOf(m.value)
	if have == "" || have == want || len(pairs) == 0 {
		return m
	}
	if want == "object" && len(pairs) > 1 {
		want = "array"
	}
	return field(m.name, shaped(pairs, want))
}

func shaped(pairs []pair, shape string) []byte {
	var members object
	var elements []json.RawMessage
	for _, p := range pairs {
		switch shape {
		case "map":
			members = append(members, field(p.key, p.value))
		case "list":
			elements = append(elements, object{field("key", quote(p.key)), field("value", p.value)}.json())
		default:
			elements = append(elements, p.connector())
		}
	}
	switch shape {
	case "map":
		return members.json()
	case "object":
		return elements[0]
	}
	out, _ := json.Marshal(elements) // elements are JSON already
	return out
}

// externalData returns the pairs of raw as text; a value that is no string is
// given as its JSON.
func externalData(raw json.RawMessage) map[string]string {
	pairs, _ := pairsOf(raw)
	if len(pairs) == 0 {
		return nil
	}
	out := make(map[string]string, len(pairs))
	for _, p := range pairs {
		var s string
		if err := json.Unmarshal(p.value, &s); err != nil {
			s = string(p.value)
		}
		out[p.key] = s
	}
	return out
}

// time returns t as the service spells times: UTC with milliseconds.
func (sw *Switches) time(t time.Time) string {
	suffix := map[string]string{"rfc3339": "Z", "utc": "UTC", "zoneless": ""}[sw.Times]
	return t.UTC().Format("2006-01-02T15:04:05.000") + suffix
}

// refusesCancel reports whether a cancel call is refused in status.
func (sw *Switches) refusesCancel(status connector.MandateStatus) bool {
	return slices.Contains(sw.CancelRefused, status)
}
