package mapping

import (
	"reflect"
	"strings"

	"payersync/connector"
)

// mostLabel is how many characters of a text go into a label: what is longer is no name.
const mostLabel = 200

// Label returns the display name of a record. Excluded, invalid and deleted records need a name too, so each rule runs
// separately: a failed rule gives nothing, and so does an invalid field.
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
			v = labelled(text) // too long: people know its beginning
		case err != nil:
			v = reflect.Zero(in.goType).Interface()
		}
		e.env[in.variable] = v
	}
	e.env[varTenant] = m.tenant
	out := connector.Label{Number: m.labelText(e, m.key), Name: m.labelText(e, m.name)}
	out.Email, out.Contact = m.labelPerson(e, out.Name)
	e.env[varMeter] = &meter{left: maxSteps}
	out.Language, _ = e.language(m.language) // a failing rule gives nothing
	return out
}

// labelPerson returns the address of letters and its owner's name, for the salutation. A person with the customer's own
// name may be a company, and gets no personal salutation.
func (m *Mapping) labelPerson(e *evaluation, customer string) (email, contact string) {
	wanted := ""
	if m.to != nil {
		if wanted = m.labelText(e, m.to); wanted == "" {
			return "", ""
		}
	}
	for _, person := range m.labelPeople(e) {
		email := person("email")
		if email == "" || wanted != "" && !strings.EqualFold(email, wanted) {
			continue
		}
		contact := labelled(person("firstName") + " " + person("lastName"))
		if contact == "" {
			contact = person("name")
		}
		if strings.EqualFold(contact, customer) {
			contact = ""
		}
		return email, contact
	}
	return "", ""
}

// labelPeople returns the people as functions for their fields; a failed rule gives nothing.
func (m *Mapping) labelPeople(e *evaluation) (people []func(field string) string) {
	for _, block := range m.people.blocks {
		people = append(people, func(field string) string {
			for _, p := range block {
				if p.name == field {
					return m.labelText(e, p.value)
				}
			}
			return ""
		})
	}
	if m.people.whole != nil {
		e.env[varMeter] = &meter{left: maxSteps}
		found, _ := e.elements(m.people)
		for _, person := range found {
			people = append(people, func(field string) string { return labelled(person[field]) })
		}
	}
	return people
}

// labelText returns a rule's result; nothing if it fails.
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
