package httpsource

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// dateTime is the format of a time in an OpenAPI description: RFC 3339.
const dateTime = "date-time"

// company proposes the request for the company, and its answer in the model: the list in front of the first hole in the
// path of the customers, or else a path called company, me or the like.
func (d *drafting) company(l listed) (request, answer string) {
	paths := d.at(d.root, "paths")
	var tries []string
	if before, _, found := strings.Cut(l.path, "/{"); found {
		tries = append(tries, before)
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if last := path[strings.LastIndex(path, "/")+1:]; meNames.MatchString(last) && !strings.Contains(path, "{") {
			tries = append(tries, path)
		}
	}
	for _, path := range tries {
		c := listed{path: path, get: d.at(paths[path], "get")}
		if c.get == nil {
			continue
		}
		if d.findRows(&c) {
			if id, name := d.idAndName(d.properties(c.row)); id != "" {
				return fmt.Sprintf("{path: %s, records: %q, id: %s, name: %s} # guessed", path, c.records, id, name),
					inObject(c.records, fmt.Sprintf("[{%q: b1, %q: Northwind Ltd}]", id, name))
			}
			continue
		}
		outer, row := "$", c.answer
		if id, _ := d.idAndName(row); id == "" {
			for _, key := range slices.Sorted(maps.Keys(c.answer)) {
				if inner := d.properties(d.at(c.answer[key])); len(inner) > 0 {
					outer, row = key, inner
					break
				}
			}
		}
		if id, name := d.idAndName(row); id != "" {
			return fmt.Sprintf("{path: %s, records: %q, id: %s, name: %s} # guessed", path, outer, id, name),
				inObject(outer, fmt.Sprintf("{%q: b1, %q: Northwind Ltd}", id, name))
		}
	}
	return fmt.Sprintf("{path: %q, records: %[1]q, id: %[1]q, name: %[1]q} # the request that names the company, as /company", open),
		quote(open)
}

// idAndName returns the fields with the id and the name of a company; two blanks unless both are there.
func (d *drafting) idAndName(row map[string]any) (id, name string) {
	if id, name = fitting(row, plainID), fitting(row, companyNames); id == "" || name == "" {
		return "", ""
	}
	return id, name
}

func inObject(key, text string) string {
	if key == "$" {
		return text
	}
	return fmt.Sprintf("{%q: %s}", key, text)
}

// member is a member of an answer, or of an object in it.
type member struct{ outer, name string }

// String returns the member as an expression.
func (m member) String() string {
	if m.outer == "" {
		return fmt.Sprintf("body[%q]", m.name)
	}
	return fmt.Sprintf("body[%q][%q]", m.outer, m.name)
}

// inAnswer returns the member of the answer whose name fits; its own come before those of objects in it.
func (d *drafting) inAnswer(l listed, names *regexp.Regexp) member {
	if name := fitting(l.answer, names); name != "" {
		return member{"", name}
	}
	for _, outer := range slices.Sorted(maps.Keys(l.answer)) {
		if name := fitting(d.properties(d.at(l.answer[outer])), names); name != "" {
			return member{outer, name}
		}
	}
	return member{}
}

// cursor returns the member with the cursor of the next page; none if the request takes none.
func (d *drafting) cursor(l listed) member {
	if name, _ := d.parameter(l.get, cursorNames); name == "" {
		return member{}
	}
	if m := d.inAnswer(l, tokenNames); m.name != "" {
		return m
	}
	return d.inAnswer(l, nextNames)
}

// fakeAnswer writes the shape of a page.
func (d *drafting) fakeAnswer(l listed) string {
	parts := map[string][]string{"": {fmt.Sprintf(`%q: "${rows}"`, l.records)}}
	add := func(m member, hole string) {
		if m.name != "" {
			parts[m.outer] = append(parts[m.outer], fmt.Sprintf("%q: %q", m.name, hole))
		}
	}
	add(d.inAnswer(l, totalNames), "${total}")
	add(d.inAnswer(l, moreNames), "${next != nil}")
	if cursor := d.cursor(l); cursor.name != "" {
		add(cursor, "${cursor}")
	} else {
		add(d.inAnswer(l, nextNames), "${next}")
	}
	for _, outer := range slices.Sorted(maps.Keys(parts)) {
		if outer != "" {
			parts[""] = append(parts[""], fmt.Sprintf("%q: {%s}", outer, strings.Join(parts[outer], ", ")))
		}
	}
	return "{" + strings.Join(parts[""], ", ") + "}"
}

var (
	fromZero = regexp.MustCompile(`(?i)\b(from|starts? (at|with|from)|begins? (at|with)|first (page )?is) (0|zero)\b|zero-based|0-based`)
	fromOne  = regexp.MustCompile(`(?i)\b(from|starts? (at|with|from)|begins? (at|with)|first (page )?is) (1|one)\b|one-based|1-based`)
)

// pageNumber returns the number of a page as the request writes it, and a note if a person must say which is the first.
// A wrong guess would skip the first page.
func (d *drafting) pageNumber(l listed) (value, note string) {
	name, _ := d.parameter(l.get, pageNames)
	about := d.describe(l, name)
	switch first := d.schemaOf(l, name)["default"]; {
	case name == "":
		return "", ""
	case first == 0 || fromZero.MatchString(about):
		return "${page}", ""
	case first == 1 || fromOne.MatchString(about):
		return "${page + 1}", ""
	}
	return open, "; write ${page} in place of the ? if the first page is 0, and ${page + 1} if it is 1"
}

// named returns the parameter of a request with this name; nil for none.
func (d *drafting) named(l listed, name string) map[string]any {
	all, _ := l.get["parameters"].([]any)
	for _, one := range all {
		if p := d.at(one); p["name"] == name {
			return p
		}
	}
	return nil
}

// describe returns the description of a parameter.
func (d *drafting) describe(l listed, name string) string {
	p := d.named(l, name)
	return fmt.Sprint(p["description"], " ", d.at(p, "schema")["description"])
}

// timeForm returns the form of a time by its schema and description; "" if they do not tell.
func timeForm(schema map[string]any, about any) string {
	text := strings.ToLower(fmt.Sprint(schema["description"], about))
	switch number := schema["type"] == "integer" || schema["type"] == "number"; {
	case schema["format"] == dateTime:
		return time.RFC3339
	case number && strings.Contains(text, "millisecond"):
		return "unix-ms"
	case number && (strings.Contains(text, "epoch") || strings.Contains(text, "unix")):
		return "unix"
	}
	return ""
}

// schemaOf returns the schema of a parameter. Swagger 2 writes it into the parameter itself.
func (d *drafting) schemaOf(l listed, name string) map[string]any {
	p := d.named(l, name)
	if schema := d.at(p, "schema"); schema != nil {
		return schema
	}
	return p
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
	switch form := timeForm(d.schemaOf(l, name), d.describe(l, name)); form {
	case "":
		return fmt.Sprintf("%q # the form of the time that the request names: as 2006-01-02T15:04:05Z, unix or unix-ms", open)
	case time.RFC3339:
		return `"2006-01-02T15:04:05Z" # guessed`
	default:
		return form + " # guessed"
	}
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
