package mapping

import (
	"errors"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/mapping/strict"
)

// covers F146
func TestNoMappingMayReadWhatWeWrite(t *testing.T) {
	t.Parallel()
	const head = "version: 1\nsource: xero\n"
	src := xero()
	src.Written = []connector.WrittenPart{{Field: "Phones"}, {Field: "Post Code"}}
	for name, tt := range map[string]struct {
		file string
		line int
	}{
		"include": {head + "key: {id: ContactID}\ninclude: len(Phones) > 0\ncustomer:\n  name: Name\n", 4},
		"key":     {head + "key: {id: 'field(\"Post Code\")'}\ncustomer:\n  name: Name\n", 3},
		"rule":    {head + "key: {id: ContactID}\ncustomer:\n  name: Name + Phones[0].PhoneNumber\n", 5},
		"request": {head + "key: {id: ContactID}\ncustomer:\n  name: Name\nmandate:\n  request: any(Phones, .PhoneType == \"X\")\n", 7},
	} {
		_, err := Load("mapping.yaml", []byte(tt.file), src)
		var wrong *strict.Error
		if !errors.As(err, &wrong) || len(wrong.Problems) != 1 || wrong.Problems[0].Line != tt.line ||
			!strings.Contains(err.Error(), "read another field") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Load("mapping.yaml", []byte(tt.file), xero()); err != nil {
			t.Errorf("%s, where we write nothing: %v", name, err)
		}
	}
}

// Of a list, only what we write is kept from a mapping.
//
// covers F146
func TestOfAListAMappingMayReadWhatOthersWrite(t *testing.T) {
	t.Parallel()
	src := xero()
	src.Written = []connector.WrittenPart{{Field: "Tags", Values: []string{"DD active"}}}
	file := func(tag string) []byte {
		return []byte("version: 1\nsource: xero\nkey: {id: ContactID}\ninclude: '\"" + tag +
			"\" in Tags'\ncustomer:\n  name: Name\n")
	}
	if _, err := Load("mapping.yaml", file("Customers"), src); err != nil {
		t.Error(err)
	}
	_, err := Load("mapping.yaml", file("DD active"), src)
	var wrong *strict.Error
	if !errors.As(err, &wrong) || len(wrong.Problems) != 1 || wrong.Problems[0].Line != 4 ||
		!strings.Contains(err.Error(), "ask for something else") {
		t.Errorf("ours: %v", err)
	}
}
