package quickbooks_test

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/accounting/quickbooks"
	"payersync/connector/accounting/quickbooks/quickbookstest"
)

// schema is Intuit's own description of its objects: the elements of each
// complex type, inherited ones included.
type schema map[string]complexType

type complexType struct {
	Name      string        `xml:"name,attr"`
	Own       elements      `xml:"sequence"`
	Extension xmlExtension  `xml:"complexContent>extension"`
	Text      *xmlExtension `xml:"simpleContent>extension"`
}

type xmlExtension struct {
	Base       string    `xml:"base,attr"`
	Sequence   elements  `xml:"sequence"`
	Attributes []element `xml:"attribute"`
}

type elements struct {
	Elements []element  `xml:"element"`
	Choices  []elements `xml:"choice"`
}

type element struct {
	Name string `xml:"name,attr"`
	Type string `xml:"type,attr"`
}

// intuit loads the description, stored outside of the repository. Without it the test is skipped, unless
// VENDOR_SPECS says it is there.
func intuit(t *testing.T) schema {
	t.Helper()
	folder, promised := os.LookupEnv("VENDOR_SPECS")
	folder = cmp.Or(folder, "../../../../shared/specs")
	all := schema{}
	for _, name := range []string{"IntuitBaseTypes.xsd", "IntuitNamesTypes.xsd", "Finance.xsd"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if os.IsNotExist(err) && !promised {
			t.Skipf("there is no %s in %s: Intuit's schema is not part of the repository; set VENDOR_SPECS to its folder", name,
				folder)
		}
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Types []complexType `xml:"complexType"`
		}
		if err := xml.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		for _, c := range file.Types {
			all[c.Name] = c
		}
	}
	return all
}

// properties returns the type of every property that JSON has for a type: its
// elements, and for a text with attributes these and "value".
func (s schema) properties(name string) map[string]string {
	out := map[string]string{}
	c, known := s[name]
	if !known {
		return out
	}
	if c.Text != nil {
		out["value"] = c.Text.Base
		for _, a := range c.Text.Attributes {
			out[a.Name] = a.Type
		}
		return out
	}
	out = s.properties(c.Extension.Base)
	for _, part := range []elements{c.Own, c.Extension.Sequence} {
		for _, group := range append(part.Choices, part) {
			for _, e := range group.Elements {
				out[e.Name] = e.Type
			}
		}
	}
	return out
}

func (s schema) fits(want connector.FieldType, name string) bool {
	switch name {
	case "xs:boolean":
		return want == connector.TypeFlag
	case "xs:int", "xs:integer", "xs:decimal":
		return want == connector.TypeNumber
	}
	if c, isObject := s[name]; isObject {
		return want == connector.TypeObject || c.Text != nil && want == connector.TypeText // an id is a text with attributes
	}
	return want == connector.TypeText
}

func TestDeclaredFieldsAreIntuitsOwn(t *testing.T) {
	t.Parallel()
	s := intuit(t)
	info, err := open(t, 0, quickbooks.Config{}).source.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.compare(t, "Customer", "Customer", info.Fields)
}

func (s schema) compare(t *testing.T, at, name string, fields []connector.Field) {
	t.Helper()
	properties := s.properties(name)
	for _, f := range fields {
		kind, ok := properties[f.Name]
		switch {
		case !ok:
			t.Errorf("%s.%s is declared, and Intuit has no such property", at, f.Name)
		case !s.fits(f.Type, kind):
			t.Errorf("%s.%s is declared as %s, and is %s", at, f.Name, f.Type, kind)
		case f.Type == connector.TypeObject:
			s.compare(t, at+"."+f.Name, kind, f.Fields)
		}
	}
}

func TestModelSendsIntuitsOwnProperties(t *testing.T) {
	t.Parallel()
	s := intuit(t)
	b := open(t, 3, quickbooks.Config{})
	b.Edit("2", func(c *quickbookstest.StoredCustomer) {
		c.Job, c.ParentRef = true, &quickbookstest.Ref{Value: "1", Name: "x"}
	})
	for _, c := range b.Customers() {
		var sent map[string]any
		if err := json.Unmarshal(dataOf(c), &sent); err != nil {
			t.Fatal(err)
		}
		s.known(t, "Customer", "Customer", sent)
	}
}

func (s schema) known(t *testing.T, at, name string, sent map[string]any) {
	t.Helper()
	properties := s.properties(name)
	for key, value := range sent {
		kind, ok := properties[key]
		if !ok {
			t.Errorf("the model sends %s.%s, and Intuit has no such property", at, key)
		}
		if below, isObject := value.(map[string]any); isObject && !strings.HasPrefix(kind, "xs:") {
			s.known(t, at+"."+key, kind, below)
		}
	}
}
