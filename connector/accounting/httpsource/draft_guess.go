package httpsource

import (
	"fmt"
	"strings"
)

// dateTime is the format of a time in an OpenAPI description: RFC 3339.
const dateTime = "date-time"

// company proposes the request for the company, and its answer in the model: the list in front of the first hole in the
// path of the customers.
func (d *drafting) company(l listed) (request, answer string) {
	before, _, found := strings.Cut(l.path, "/{")
	c := listed{path: before, get: d.at(d.root, "paths", before, "get")}
	if found && c.get != nil && d.findRows(&c) {
		row := d.properties(c.row)
		if id, name := fitting(row, plainID), fitting(row, companyNames); id != "" && name != "" {
			one := fmt.Sprintf("[{%q: b1, %q: Northwind Ltd}]", id, name)
			if c.records != "$" {
				one = fmt.Sprintf("{%q: %s}", c.records, one)
			}
			return fmt.Sprintf("{path: %s, records: %q, id: %s, name: %s} # guessed", before, c.records, id, name), one
		}
	}
	return fmt.Sprintf("{path: %q, records: %[1]q, id: %[1]q, name: %[1]q} # the request that names the company, as /company", open),
		quote(open)
}

// schemaOf returns the schema of a parameter. Swagger 2 writes it into the parameter itself.
func (d *drafting) schemaOf(l listed, name string) map[string]any {
	all, _ := l.get["parameters"].([]any)
	for _, one := range all {
		if p := d.at(one); p["name"] == name {
			if schema := d.at(p, "schema"); schema != nil {
				return schema
			}
			return p
		}
	}
	return nil
}

// size returns the number of records on a page: the most that the description allows.
func (d *drafting) size(l listed, sized bool) string {
	if !sized {
		return "100 # the system's own size: no parameter for it is described"
	}
	name, _ := d.parameter(l.get, sizeNames)
	if most, ok := d.schemaOf(l, name)["maximum"].(int); ok && most > 0 {
		return fmt.Sprintf("%d # the description allows %d at most", min(most, 500), most)
	}
	return "100 # guessed"
}

// sinceForm returns the form of the time since.
func (d *drafting) sinceForm(l listed) string {
	name, _ := d.parameter(l.get, sinceNames)
	if d.schemaOf(l, name)["format"] == dateTime {
		return `"2006-01-02T15:04:05Z" # guessed`
	}
	return fmt.Sprintf("%q # the form of the time that the request names, as 2006-01-02T15:04:05Z", open)
}

// stateCalled returns the state that a value of a status names; "" if a person must say.
func stateCalled(value any) string {
	switch word := strings.ToLower(fmt.Sprint(value)); word {
	case "active", "archived", "deleted":
		return word
	}
	return ""
}

// stateInFake writes a status by the state of a record in the model; "" if the description has no value called active.
func (d *drafting) stateInFake(name string, fields map[string]any) string {
	values, _ := d.at(fields[name])["enum"].([]any)
	called := map[string]string{}
	for _, v := range values {
		called[stateCalled(v)] = fmt.Sprint(v)
	}
	active, ok := called["active"]
	if !ok {
		return ""
	}
	out := fmt.Sprintf("%q", active)
	for _, state := range []string{"archived", "deleted"} {
		if word := called[state]; word != "" {
			out = fmt.Sprintf("state == %q ? %q : %s", state, word, out)
		}
	}
	return "${" + out + "}"
}
