package strict

import (
	"errors"
	"strings"
	"testing"
)

// A file with each form of YAML that a value may have.
const edited = `# head
version: 1   # stays
customer:
  # who it is
  name: trim(Name)   # behind
  quoted: 'trim(field("Post Code"))'
  folded: >-   # why
    coalesce(A,
    B)

  flow: {a: one, b: 'two, three'} # flow
  people:
    # the person
    - name: Contact
      # its address
      email: Email   # mail
    - {name: Other}
# tail
`

func TestOneValueIsEditedAndAllOtherBytesStay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path     string
		text     string // "-" removes the value
		old, new string
	}{
		"plain":               {"customer.name", "Name", "trim(Name)   #", "Name   #"},
		"one that needs none": {"customer.quoted", "City", `'trim(field("Post Code"))'`, "City"},
		"one that needs them": {"customer.name", `A == "x" ? B : ""`, "trim(Name)", `'A == "x" ? B : ""'`},
		"folded":              {"customer.folded", "C", ">-   # why\n    coalesce(A,\n    B)\n", "C   # why\n"},
		"in braces":           {"customer.flow.b", "x", "'two, three'", "x"},
		"new in braces":       {"customer.flow.c", "f(x, y)", "'two, three'}", "'two, three', c: 'f(x, y)'}"},
		"new in a block":      {"customer.people.0.phone", "Tel", "Email   # mail\n", "Email   # mail\n      phone: Tel\n"},
		"new in a list":       {"customer.people.1.phone", "Tel", "{name: Other}", "{name: Other, phone: Tel}"},
		"a new list": {"customer.addresses.0.line1", "Street", "- {name: Other}\n",
			"- {name: Other}\n  addresses:\n    - line1: Street\n"},
		"a new block": {"mandate.language", `"en"`, "- {name: Other}\n",
			"- {name: Other}\nmandate:\n  language: '\"en\"'\n"},
		"removed": {"customer.people.0.email", "-", "      email: Email   # mail\n", ""},
		"the first removed": {"customer.people.0.name", "-", "    - name: Contact\n      # its address\n      email",
			"      # its address\n    - email"},
		"removed in braces":  {"customer.flow.a", "-", "a: one, ", ""},
		"the last in braces": {"customer.flow.b", "-", ", b: 'two, three'", ""},
	} {
		for _, end := range []string{"\n", "\r\n"} {
			for _, mark := range []string{"", "\uFEFF"} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					in := func(s string) string { return strings.ReplaceAll(s, "\n", end) }
					if strings.Count(edited, c.old) != 1 {
						t.Fatalf("%q is there %d times", c.old, strings.Count(edited, c.old))
					}
					path := Path(strings.Split(c.path, "."))
					got, err := Set([]byte(mark+in(edited)), path, c.text)
					if c.text == "-" {
						got, err = Remove([]byte(mark+in(edited)), path)
					}
					if want := mark + in(strings.Replace(edited, c.old, c.new, 1)); err != nil || string(got) != want {
						t.Errorf("%v: it is\n%s", err, got)
					}
				})
			}
		}
	}
}

func TestAValueThatCannotBeEditedAloneIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ data, path, text string }{
		"a block":                {edited, "customer.people", "x"},
		"the only entry":         {edited, "customer.people.1.name", "-"},
		"a value below a text":   {edited, "customer.name.first", "x"},
		"an empty list":          {"a: {b: []}\n", "a.b.0.c", "x"},
		"an empty block":         {"a: {}\n", "a.b", "x"},
		"no YAML":                {"a: [", "a", "x"},
		"one that is not there":  {edited, "customer.none", "-"},
		"a block that is folded": {"a: {b: {c: d},\n  e: f\n  }\n", "a.b.x.y", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := Path(strings.Split(c.path, "."))
			got, err := Set([]byte(c.data), path, c.text)
			if c.text == "-" {
				got, err = Remove([]byte(c.data), path)
			}
			if !errors.Is(err, ErrNoPlace) {
				t.Errorf("%v, and it is\n%s", err, got)
			}
		})
	}
}

func TestAFileWithoutALastLineEndIsContinued(t *testing.T) {
	t.Parallel()
	got, err := Set([]byte("a:\n  b: c"), Path{"a", "d"}, "e")
	if err != nil || string(got) != "a:\n  b: c\n  d: e" {
		t.Errorf("%v, and it is %q", err, got)
	}
}

// An edit never panics, and the value reads back.
func FuzzSet(f *testing.F) {
	for _, path := range []string{"customer.name", "customer.flow.c", "customer.people.0.phone", "customer.folded"} {
		f.Add(edited, path, "x: # y")
	}
	f.Fuzz(func(t *testing.T, data, at, text string) {
		path := Path(strings.Split(at, "."))
		if got, err := Set([]byte(data), path, text); err == nil {
			doc, problems := parse("", got)
			if len(problems) > 0 || doc.Node(path) == nil || doc.Node(path).Value != text {
				t.Errorf("%q at %s became\n%s", text, at, got)
			}
			if again, err := Set(got, path, text); err != nil || string(again) != string(got) {
				t.Errorf("%v: set again it is\n%s\nand was\n%s", err, again, got)
			}
		}
		if got, err := Remove([]byte(data), path); err == nil {
			if doc, problems := parse("", got); len(problems) > 0 || doc.Node(path) != nil {
				t.Errorf("%s is left in\n%s", at, got)
			}
		}
	})
}
