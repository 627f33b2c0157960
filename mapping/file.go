package mapping

import (
	generate "github.com/invopop/jsonschema"
	yaml "go.yaml.in/yaml/v4"

	"payersync/mapping/strict"
)

// mappingFile is a mapping file as it is written.
type mappingFile struct {
	Version      int                `yaml:"version" jsonschema:"required,enum=1" jsonschema_description:"The version of this format: 1."`
	Source       string             `yaml:"source" jsonschema:"required" jsonschema_description:"The kind of accounting source this mapping is written for, for example csv or xero."`
	Key          map[string]formula `yaml:"key" jsonschema:"required" jsonschema_description:"One pair: the name of the externalData entry that identifies a payer, and the expression of its value."`
	Include      *formula           `yaml:"include" jsonschema_description:"True for records that are payers. Without it every record is one."`
	Customer     customerFile       `yaml:"customer" jsonschema:"required" jsonschema_description:"What a customer looks like in the billing service."`
	ExternalData map[string]formula `yaml:"externalData" jsonschema_description:"Further externalData entries; blank ones are left out."`
	Mandate      mandateFile        `yaml:"mandate" jsonschema_description:"Which payers are asked for a direct debit mandate."`
	Own          []string           `yaml:"own" jsonschema:"enum=name,enum=people,enum=addresses" jsonschema_description:"Which parts of a customer this mapping owns in the billing service. Without it: all parts that it maps."`
	Examples     []exampleFile      `yaml:"examples" jsonschema_description:"Records, and what must become of them."`
}

type customerFile struct {
	Name      formula               `yaml:"name" jsonschema:"required" jsonschema_description:"The customer's name."`
	People    elements[personFile]  `yaml:"people" jsonschema_description:"The customer's contacts: a list, or one expression that gives a list."`
	Addresses elements[addressFile] `yaml:"addresses" jsonschema_description:"The customer's address: a list of one, or one expression that gives a list."`
}

type personFile struct {
	Name      *formula `yaml:"name"`
	FirstName *formula `yaml:"firstName"`
	LastName  *formula `yaml:"lastName"`
	Email     *formula `yaml:"email"`
	Phone     *formula `yaml:"phone"`
}

type addressFile struct {
	Line1    *formula `yaml:"line1"`
	City     *formula `yaml:"city"`
	PostCode *formula `yaml:"postCode"`
	Country  *formula `yaml:"country"`
}

// The names of an element's fields, in the order they are shown.
var (
	personNames  = []string{"name", "firstName", "lastName", "email", "phone"}
	addressNames = []string{"line1", "city", "postCode", "country"}
)

func (p personFile) formulas() map[string]*formula {
	return map[string]*formula{"name": p.Name, "firstName": p.FirstName, "lastName": p.LastName, "email": p.Email, "phone": p.Phone}
}

func (a addressFile) formulas() map[string]*formula {
	return map[string]*formula{"line1": a.Line1, "city": a.City, "postCode": a.PostCode, "country": a.Country}
}

type mandateFile struct {
	Request *formula `yaml:"request" jsonschema_description:"True for payers that are to be asked for a mandate. The finished customer is known here as customer. Without it nobody is asked."`
}

type exampleFile struct {
	Given map[string]any `yaml:"given" jsonschema:"required" jsonschema_description:"A record: its fields and their values. Fields left out are blank."`
	Want  wantFile       `yaml:"want" jsonschema:"required" jsonschema_description:"What must become of it. Only what is named here is compared."`
}

type wantFile struct {
	Include      *bool              `yaml:"include"`
	Name         *string            `yaml:"name"`
	People       *[]personFile      `yaml:"people"`
	Addresses    *[]addressFile     `yaml:"addresses"`
	ExternalData map[string]formula `yaml:"externalData"`
	Request      *bool              `yaml:"request"`
}

// formula is an expression as it is written. YAML may read it as a number or as
// true or false; its text is what counts.
type formula string

// UnmarshalYAML keeps the text of the value.
func (f *formula) UnmarshalYAML(node *yaml.Node) error {
	*f = formula(node.Value)
	return nil
}

// JSONSchema describes a formula to editors.
func (formula) JSONSchema() *generate.Schema {
	return &generate.Schema{Title: "an expression", OneOf: []*generate.Schema{{Type: "string"}, {Type: "boolean"}, {Type: "number"}}}
}

// elements are a list of blocks, or one expression that gives such a list.
type elements[T any] struct {
	given      bool
	list       []T
	expression formula
}

// UnmarshalYAML takes either form.
func (e *elements[T]) UnmarshalYAML(node *yaml.Node) error {
	e.given = true
	if node.Kind == yaml.SequenceNode {
		return node.Decode(&e.list)
	}
	return node.Decode(&e.expression)
}

// JSONSchema describes both forms to editors.
func (elements[T]) JSONSchema() *generate.Schema {
	list := strict.Reflector().Reflect([]T{})
	list.Version = ""
	return &generate.Schema{Title: "a list, or one expression", OneOf: []*generate.Schema{list, {Type: "string"}}}
}
