package mapping

import (
	"reflect"
	"strings"

	"payersync/connector"
)

// mostLabel is how many characters of a text go into a label: what is longer is no name.
const mostLabel = 200

// Label returns what people know a record by. Whoever is left out, unfit or gone has a name
// too, so each rule is asked on its own: one that fails gives nothing, and so does a field
// that does not fit.
func (m *Mapping) Label(r connector.Record) connector.Label {
	if len(r.Data) > maxRecord {
		return connector.Label{}
	}
	e := m.evaluations.Get().(*evaluation)
	defer func() {
		clear(e.env) // nothing of this record is left for the next
		m.evaluations.Put(e)
	}()
	values, _ := fieldsOf(r)
	for _, in := range m.inputs {
		v, err := in.convert(values[in.field.Name])
		text, isText := values[in.field.Name].(string)
		switch {
		case err != nil && isText && in.goType.Kind() == reflect.String:
			v = labelled(text) // too long: how it begins is what people know
		case err != nil:
			v = reflect.Zero(in.goType).Interface()
		}
		e.env[in.variable] = v
	}
	e.env[varTenant] = m.tenant
	out := connector.Label{Number: m.labelText(e, m.key), Name: m.labelText(e, m.name), Email: m.labelEmail(e)}
	e.env[varMeter] = &meter{left: maxSteps}
	out.Language, _ = e.language(m.language) // a rule that fails gives nothing
	return out
}

// labelEmail returns the first e-mail address of the contacts.
func (m *Mapping) labelEmail(e *evaluation) string {
	for _, block := range m.people.blocks {
		for _, p := range block {
			if p.name != "email" {
				continue
			}
			if found := m.labelText(e, p.value); found != "" {
				return found
			}
		}
	}
	if m.people.whole == nil {
		return ""
	}
	e.env[varMeter] = &meter{left: maxSteps}
	people, _ := e.elements(m.people) // a rule that fails gives nobody
	for _, person := range people {
		if found := labelled(person["email"]); found != "" {
			return found
		}
	}
	return ""
}

// labelText returns what a rule gives; nothing when it fails.
func (m *Mapping) labelText(e *evaluation, r *rule) string {
	e.env[varMeter] = &meter{left: maxSteps}
	text, _ := e.text(r)
	return labelled(text)
}

// labelled returns a text as a label holds it: without the spaces around it, and cut.
func labelled(text string) string {
	text = strings.TrimSpace(text)
	count := 0
	for at := range text {
		if count++; count > mostLabel {
			return text[:at]
		}
	}
	return text
}
