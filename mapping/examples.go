package mapping

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	yaml "go.yaml.in/yaml/v4"

	"payersync/connector"
	"payersync/mapping/strict"
)

// CheckExamples applies the mapping to each of its examples and compares the values given there. The error is a
// *strict.Error with one problem per difference, at the expected value.
func (m *Mapping) CheckExamples() error {
	var problems []strict.Problem
	for i := range m.file.Examples {
		problems = append(problems, m.checkExample(i)...)
	}
	return strict.NewError(problems)
}

func (m *Mapping) checkExample(i int) []strict.Problem {
	path := strict.Path{"examples"}.Index(i)
	given, err := json.Marshal(jsonOf(m.doc.Node(path.Key("given"))))
	if err != nil {
		return []strict.Problem{m.doc.Problem(path.Key("given"), "example %d cannot be read: %v", i+1, err)}
	}
	got, err := m.apply(connector.Record{SourceID: "example", State: connector.RecordActive, Data: given},
		cmp.Or(m.tenant, "example"), watcher{})
	var failed *RecordError
	if errors.As(err, &failed) {
		return []strict.Problem{m.doc.Problem(path.Key("given"), "example %d fails: %s", i+1, failed.Detail)}
	}
	c := comparison{doc: m.doc, example: i + 1, path: path.Key("want")}
	c.compare(got, m.file.Examples[i].Want)
	return c.problems
}

// comparison collects the differences between one example's result and its expectation.
type comparison struct {
	doc      *strict.Doc
	example  int
	path     strict.Path
	problems []strict.Problem
}

func (c *comparison) differ(at strict.Path, got, want any) {
	path := append(slices.Clone(c.path), at...)
	c.problems = append(c.problems, c.doc.Problem(path, "example %d: %s is %v, wanted %v", c.example, at, got, want))
}

func (c *comparison) compare(got Result, want wantFile) {
	if want.Include != nil && *want.Include != got.Included {
		c.differ(strict.Path{"include"}, got.Included, *want.Include)
	}
	if !got.Included && (want.Name != nil || want.People != nil || want.Addresses != nil || want.ExternalData != nil ||
		want.Request != nil || want.To != nil || want.Language != nil) {
		c.problems = append(c.problems,
			c.doc.KeyProblem(c.path, "example %d: the record is not included, so it has no customer", c.example))
		return
	}
	if want.Name != nil && *want.Name != got.Customer.Name {
		c.differ(strict.Path{"name"}, quoted(got.Customer.Name), quoted(*want.Name))
	}
	if want.People != nil {
		compareElements(c, strict.Path{"people"}, got.Customer.People, *want.People, personFile[wanted].fields,
			fieldsOfPerson)
	}
	if want.Addresses != nil {
		compareElements(c, strict.Path{"addresses"}, got.Customer.Addresses, *want.Addresses, addressFile[wanted].fields,
			fieldsOfPlace)
	}
	c.texts(strict.Path{"externalData"}, got.Customer.ExternalData, want.ExternalData)
	if want.Request != nil && *want.Request != got.RequestMandate {
		c.differ(strict.Path{"request"}, got.RequestMandate, *want.Request)
	}
	if want.To != nil && *want.To != got.To {
		c.differ(strict.Path{"to"}, quoted(got.To), quoted(*want.To))
	}
	if want.Language != nil && *want.Language != got.Language {
		c.differ(strict.Path{"language"}, quoted(got.Language), quoted(*want.Language))
	}
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }

// texts compares the wanted entries only.
func (c *comparison) texts(at strict.Path, got map[string]string, want map[string]wanted) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != string(want[name]) {
			c.differ(at.Key(name), quoted(got[name]), quoted(string(want[name])))
		}
	}
}

// compareElements compares lists of people or addresses one by one.
func compareElements[G, W any](c *comparison, at strict.Path, got []G, want []W, wants func(W) map[string]*wanted,
	fields func(G) map[string]string) {
	if len(got) != len(want) {
		c.differ(at, fmt.Sprintf("a list of %d", len(got)), fmt.Sprintf("a list of %d", len(want)))
		return
	}
	for i := range want {
		texts := map[string]wanted{}
		for name, text := range wants(want[i]) {
			if text != nil {
				texts[name] = *text
			}
		}
		c.texts(at.Index(i), fields(got[i]), texts)
	}
}

func fieldsOfPerson(p connector.Person) map[string]string {
	return map[string]string{
		"name": p.Name, "firstName": p.FirstName, "lastName": p.LastName, "email": p.Email, "phone": p.Phone,
		flagPrimary: p.Primary, flagCommunication: p.Communication,
	}
}

func fieldsOfPlace(a connector.Address) map[string]string {
	return map[string]string{"line1": a.Line1, "city": a.City, "postCode": a.PostCode, "country": a.Country}
}

// checkGiven reports example fields missing from the source.
func (m *Mapping) checkGiven(c *compiling) {
	known := slices.Sorted(maps.Keys(c.types))
	for i, example := range m.file.Examples {
		for _, name := range slices.Sorted(maps.Keys(example.Given)) {
			if _, ok := c.types[name]; !ok {
				path := strict.Path{"examples"}.Index(i).Key("given").Key(name)
				p := m.doc.KeyProblem(path, "unknown field %q; %s", name, strict.Suggest(name, known))
				if near := connector.Nearest(name, known); near != "" {
					p.Instead = m.doc.KeyInstead(path, near)
				}
				c.report(p)
			}
		}
	}
}

// jsonOf converts an example's YAML to a source's JSON. Numbers keep their digits, so an unquoted id stays unchanged.
func jsonOf(node *yaml.Node) any {
	switch node.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			out[node.Content[i].Value] = jsonOf(node.Content[i+1])
		}
		return out
	case yaml.SequenceNode:
		out := make([]any, len(node.Content))
		for i, element := range node.Content {
			out[i] = jsonOf(element)
		}
		return out
	}
	return jsonScalar(node)
}

func jsonScalar(node *yaml.Node) any {
	switch node.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var flag bool
		if node.Decode(&flag) == nil {
			return flag
		}
	case "!!int", "!!float":
		if json.Valid([]byte(node.Value)) {
			return json.Number(node.Value)
		}
	}
	return node.Value
}
