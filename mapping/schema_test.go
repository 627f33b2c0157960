package mapping

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	yaml "go.yaml.in/yaml/v4"
)

// beyondSchema are the wrong files that no schema can refuse, and why.
var beyondSchema = map[string]string{
	"address-picked-as-an-element":            inExpression,
	"addresses-expression-with-a-list-inside": inExpression,
	"alias":                                   "an alias is gone when the schema sees the file",
	"blank-to-unicode-only":                   "validators differ in what is blank beyond ASCII",
	"customer-outside-mandate-request":        inExpression,
	"date-of-unknown-form":                    inExpression,
	"email-is-a-list":                         inExpression,
	"example-that-differs":                    inExample,
	"example-that-fails":                      inExample,
	"example-that-is-not-included":            inExample,
	"example-with-misspelt-field":             inExample,
	"expression-too-long":                     inExpression,
	"expression-with-too-many-parts":          inExpression,
	"external-data-repeats-the-key":           "a schema cannot compare two keys",
	"hash-begins-a-comment":                   inExpression,
	"hash-in-a-text-begins-a-comment":         inExpression,
	"include-is-a-text":                       inExpression,
	"key-is-a-flag":                           inExpression,
	"misspelt-field":                          inExpression,
	"misspelt-field-in-folded-lines":          inExpression,
	"misspelt-field-in-quotes":                inExpression,
	"misspelt-field-inside-a-long-expression": inExpression,
	"number-of-a-list":                        inExpression,
	"other-source":                            "which sources exist is known to the connection",
	"own-what-is-not-mapped":                  "a schema cannot compare two keys",
	"people-expression-is-a-text":             inExpression,
	"people-expression-of-records":            inExpression,
	"people-expression-with-computed-key":     inExpression,
	"people-expression-with-misspelt-key":     inExpression,
	"person-as-an-address":                    inExpression,
	"person-without-a-list":                   inExpression,
	"phone-of-unknown-region":                 inExpression,
	"request-is-a-text":                       inExpression,
	"too-many-expressions":                    "a schema cannot count across blocks",
	"two-expressions-wrong":                   inExpression,
	"unknown-region":                          "UK has the form of a region",
}

const (
	inExpression = "an expression is a text to a schema"
	inExample    = "a schema applies no mapping"
)

func TestTheSchemaRefusesWrongFilesWhereASchemaCan(t *testing.T) {
	t.Parallel()
	schema := compiledSchema(t)
	files, err := filepath.Glob("testdata/wrong/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		why, beyond := beyondSchema[name]
		var content any
		if err = yaml.Unmarshal(data, &content); err == nil { // what is no YAML is refused before
			err = schema.Validate(content)
		}
		switch {
		case err != nil && beyond:
			t.Errorf("%s is refused, though the list says: %s", name, why)
		case err == nil && !beyond:
			t.Errorf("%s is accepted, and nothing says why", name)
		case err != nil:
			refused++
		}
	}
	if refused+len(beyondSchema) != len(files) {
		t.Errorf("%d files are refused and %d listed, of %d", refused, len(beyondSchema), len(files))
	}
	t.Logf("the schema refuses %d of %d wrong files", refused, len(files))
}

func TestTheSchemaAcceptsTheReadmesFile(t *testing.T) {
	t.Parallel()
	var content any
	if err := yaml.Unmarshal([]byte(wholeFile(t)), &content); err != nil {
		t.Fatal(err)
	}
	if err := compiledSchema(t).Validate(content); err != nil {
		t.Error(err)
	}
}

// compiledSchema is the published schema, read by a validator of its own.
func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mapping.json", tree); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("mapping.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
