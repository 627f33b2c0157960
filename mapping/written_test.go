package mapping

import (
	"errors"
	"strings"
	"testing"

	"payersync/mapping/strict"
)

// covers F146
func TestNoMappingMayReadWhatWeWrite(t *testing.T) {
	t.Parallel()
	const head = "version: 1\nsource: xero\n"
	src := xero()
	src.Written = []string{"Phones", "Post Code"}
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
		if !errors.As(err, &wrong) || len(wrong.Problems) != 1 || wrong.Problems[0].Line != tt.line || !strings.Contains(err.Error(), "read another field") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Load("mapping.yaml", []byte(tt.file), xero()); err != nil {
			t.Errorf("%s, where we write nothing: %v", name, err)
		}
	}
}
