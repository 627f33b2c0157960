package billing

import (
	"encoding/json"
	"slices"
	"strings"

	"payersync/connector"
)

// part is one person or address as a mapping renders it, in both spellings of the
// interface (README.md#customers). The service mixes them, so an element may carry
// either, and an update writes to whichever is there.
type part struct {
	short, long []field // all members of ours, blank ones included
	id          string  // the service's own id of a person whom we wrote; "" where no read has shown one
	email       string  // identifies a person; "" for addresses
	label       string  // name of a person, first line of an address
	phone       string
}

// field is one member in one spelling. about is its subject, so name and firstName have the same subject.
type field struct{ key, about, value string }

// flag reports whether the member is true or false; all others are texts.
func (f field) flag() bool { return f.about == flagPrimary || f.about == flagComms }

// json returns the value as it is written.
func (f field) json() json.RawMessage {
	if f.flag() {
		return json.RawMessage(f.value)
	}
	return quote(f.value)
}

// in returns an element's value of the field.
func (f field) in(o object) string {
	if f.flag() {
		return flagOf(o.get(f.key))
	}
	return scalar(o.get(f.key))
}

// flagOf reads a flag: "true", "false", or "" for anything else.
func flagOf(raw json.RawMessage) string {
	text := strings.ToLower(string(raw))
	if len(raw) > 0 && raw[0] == '"' {
		text = strings.ToLower(unquote(raw))
	}
	if text == "true" || text == "false" {
		return text
	}
	return ""
}

// flags returns a person's flags with a mapped value and a configured member name. Other flags are not ours and stay
// unchanged.
func (d Dialect) flags(p connector.Person) []field {
	return slices.DeleteFunc([]field{{d.PersonPrimary, flagPrimary, p.Primary},
		{d.PersonComms, flagComms, p.Communication}},
		func(f field) bool { return f.key == "" || f.value == "" })
}

func (d Dialect) personPart(p connector.Person) part {
	full, first, last := nameForms(p)
	flags := d.flags(p)
	return part{
		short: append([]field{{"name", "name", full}, {"email", "email", p.Email}, {"phone", "phone", p.Phone}}, flags...),
		long: append([]field{{"firstName", "name", first}, {"lastName", "name", last},
			{"email", "email", p.Email}, {"phoneNo", "phone", p.Phone}}, flags...),
		id:    p.ID,
		email: strings.ToLower(p.Email),
		label: full,
		phone: p.Phone,
	}
}

// nameForms derives the missing forms of a person's name. The last word of a full name counts as the last name.
func nameForms(p connector.Person) (full, first, last string) {
	full, first, last = strings.TrimSpace(p.Name), strings.TrimSpace(p.FirstName), strings.TrimSpace(p.LastName)
	if full == "" {
		return strings.TrimSpace(first + " " + last), first, last
	}
	if first != "" || last != "" {
		return full, first, last
	}
	words := strings.Fields(full)
	if len(words) == 1 {
		return full, full, ""
	}
	end := len(words) - 1
	return full, strings.Join(words[:end], " "), words[end]
}

func addressPart(a connector.Address) part {
	return part{
		short: []field{{"line1", "line1", a.Line1}, {"city", "city", a.City}, {"postCode", "postCode", a.PostCode}},
		long: []field{{"addressLine1", "line1", a.Line1}, {"city", "city", a.City},
			{"postalCode", "postCode", a.PostCode}, {"country", "country", a.Country}},
		label: a.Line1,
	}
}

// peopleParts and addressParts omit empty elements.
func (d Dialect) peopleParts(people []connector.Person) []part {
	var out []part
	for _, p := range people {
		if part := d.personPart(p); !part.blank() {
			out = append(out, part)
		}
	}
	return out
}

func addressParts(addresses []connector.Address) []part {
	var out []part
	for _, a := range addresses {
		if part := addressPart(a); !part.blank() {
			out = append(out, part)
		}
	}
	return out
}

func (p part) blank() bool { return blank(slices.Concat(p.short, p.long)) }

func blank(fields []field) bool {
	return !slices.ContainsFunc(fields, func(f field) bool { return f.value != "" && !f.flag() })
}

// spelt returns the fields in one spelling.
func (p part) spelt(long bool) []field {
	if long {
		return p.long
	}
	return p.short
}

// owned reports whether a member of an element is ours in any spelling.
func (p part) owned(key string) bool {
	return slices.ContainsFunc(slices.Concat(p.short, p.long), func(f field) bool { return f.key == key })
}

// value returns the part's value under a key of either spelling.
func (p part) value(key string) string {
	f, _ := connector.Find(slices.Concat(p.short, p.long), func(f field) bool { return f.key == key })
	return f.value
}

// write renders a new element, without blank members.
func (p part) write(long bool) json.RawMessage {
	var o object
	for _, f := range p.spelt(long) {
		if f.value != "" {
			o.set(f.key, f.json())
		}
	}
	return o.bytes()
}

// update writes the part into an existing element. A member wanted blank is removed if we wrote a value before;
// otherwise it stays. Without differences, the element is returned unchanged.
func (p part) update(raw json.RawMessage, last *part, long bool) json.RawMessage {
	o, err := parseObject(raw)
	if err != nil {
		return raw
	}
	changed := false
	for _, f := range p.fieldsFor(o, long) {
		switch has := f.in(o); {
		case f.value == has:
		case last != nil && last.value(f.key) == f.value && f.shownAs(has): // sent before, and shown in the service's own form
		case f.value != "":
			o.set(f.key, f.json())
			changed = true
		case last != nil && last.value(f.key) != "":
			o.remove(f.key)
			changed = true
		}
	}
	if !changed {
		return raw
	}
	return o.bytes()
}

// shownAs reports whether a value equals the field's, in the service's form. Identifying values may differ only in case
// and spacing.
func (f field) shownAs(value string) bool {
	if f.flag() { // a service may omit false
		return value == f.value || value == "" && f.value == "false"
	}
	if f.about == "name" || f.about == "email" {
		return sameLabel(f.value, value)
	}
	return connector.SameForm(f.value, value)
}

// fieldsFor returns the fields in the element's spelling, separately for each subject. An element with both spellings
// gets both, so they agree. For a subject without a member, it uses the spelling of the other members.
func (p part) fieldsFor(o object, long bool) []field {
	inShort, inLong := spokenOf(o, p.short), spokenOf(o, p.long)
	if l, s := speltOnly(o, p.long, p.short), speltOnly(o, p.short, p.long); l != s {
		long = l
	}
	out := connector.Filter(p.short, func(f field) bool { return inShort[f.about] || !inLong[f.about] && !long })
	for _, f := range p.long {
		if p.hasShort(f.key) && slices.Contains(out, f) {
			continue
		}
		if inLong[f.about] || !inShort[f.about] && long {
			out = append(out, f)
		}
	}
	return out
}

func (p part) hasShort(key string) bool {
	return slices.ContainsFunc(p.short, func(f field) bool { return f.key == key })
}

// spokenOf returns the subjects with a member in an element.
func spokenOf(o object, fields []field) map[string]bool {
	out := make(map[string]bool)
	for _, f := range fields {
		if o.has(f.key) {
			out[f.about] = true
		}
	}
	return out
}

// speltOnly reports whether an element has a member unique to the first of two spellings.
func speltOnly(o object, fields, other []field) bool {
	return slices.ContainsFunc(fields, func(f field) bool {
		return o.has(f.key) && !slices.ContainsFunc(other, func(g field) bool { return g.key == f.key })
	})
}

// view holds the identifying values of an element from the service.
type view struct{ id, email, label, phone string }

func viewOf(raw json.RawMessage) (view, bool) {
	o, err := parseObject(raw)
	if err != nil {
		return view{}, false
	}
	label := o.text("name")
	if label == "" {
		label = strings.TrimSpace(o.text("firstName") + " " + o.text("lastName"))
	}
	if label == "" {
		label = o.text("line1", "addressLine1")
	}
	return view{o.text("id"), strings.ToLower(o.text("email")), label, o.text("phone", "phoneNo")}, true
}

// is reports whether an element is this person: by e-mail address, or by name if neither side has one.
func (p part) is(v view) bool {
	if p.email != "" {
		return v.email == p.email
	}
	return v.email == "" && v.label != "" && sameLabel(v.label, p.label)
}

// isIn reports whether an element from the service is this person.
func (p part) isIn(o object) bool {
	v, ok := viewOf(o.bytes())
	return ok && p.is(v)
}

// looksLike reports whether an element of this person still has our name, or our phone number if there is no e-mail
// address.
func (p part) looksLike(v view) bool {
	if p.email == "" {
		return connector.SameForm(v.phone, p.phone)
	}
	return p.label == "" || sameLabel(v.label, p.label)
}

// sameLabel ignores case and spacing, because services normalise them.
func sameLabel(a, b string) bool {
	return strings.EqualFold(strings.Join(strings.Fields(a), " "), strings.Join(strings.Fields(b), " "))
}

// same reports whether two renderings speak of the same person.
func (p part) same(q part) bool { return p.is(view{q.id, q.email, q.label, q.phone}) }
