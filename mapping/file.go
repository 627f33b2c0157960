package mapping

import (
	generate "github.com/invopop/jsonschema"
	yaml "go.yaml.in/yaml/v4"

	"payersync/connector"
	"payersync/mapping/strict"
)

// mappingFile is a mapping file as it is written.
type mappingFile struct {
	Version      int           `yaml:"version" jsonschema:"required,enum=1,example=1" jsonschema_description:"The version of this format: 1."`
	Source       string        `yaml:"source" jsonschema:"required,example=csv" jsonschema_description:"The kind of accounting source this mapping is written for, for example csv or xero."`
	Region       string        `yaml:"region" jsonschema:"title=the two large letters of a country such as GB,pattern=^[A-Z][A-Z]$" jsonschema_description:"The country whose phone numbers are written without a country code, for example GB."`
	Key          keyFile       `yaml:"key" jsonschema:"required" jsonschema_description:"One pair: the name of the externalData entry that identifies a payer, and the expression of its value."`
	Scope        *formula      `yaml:"scope" jsonschema_description:"The organisation whose records these are, where keys are unique within one only; it is written beside the key. Usually tenant."`
	Include      *formula      `yaml:"include" jsonschema_extras:"x-also=filter,x-also=where,x-also=if" jsonschema_description:"True for records that are payers. Without it every record is one."`
	Customer     customerFile  `yaml:"customer" jsonschema:"required" jsonschema_description:"What a customer looks like in the billing service."`
	ExternalData pairsFile     `yaml:"externalData" jsonschema_description:"Further externalData entries; blank ones are left out."`
	Mandate      mandateFile   `yaml:"mandate" jsonschema_description:"Which payers are asked for a direct debit mandate."`
	Own          []string      `yaml:"own" jsonschema:"uniqueItems=true,enum=name,enum=people,enum=addresses" jsonschema_description:"Which parts of a customer this mapping owns in the billing service. Without it: all parts that it maps."`
	Examples     []exampleFile `yaml:"examples" jsonschema_description:"Records, and what must become of them."`
}

// pairsFile are named expressions.
type pairsFile map[string]formula

// JSONSchema describes the pairs to editors.
func (pairsFile) JSONSchema() *generate.Schema {
	return &generate.Schema{
		Type:                 "object",
		PatternProperties:    map[string]*generate.Schema{strict.NotBlank: formula("").JSONSchema()},
		AdditionalProperties: generate.FalseSchema,
	}
}

// keyFile is one pair.
type keyFile map[string]formula

// JSONSchema describes the pair to editors.
func (keyFile) JSONSchema() *generate.Schema {
	out := pairsFile{}.JSONSchema()
	out.MinProperties, out.MaxProperties = new(uint64(1)), new(uint64(1))
	out.Examples = []any{"{customerNo: Number}"}
	out.Title = "exactly one pair, the name of the externalData entry and an expression, as in key: {xeroContactId: ContactID}"
	return out
}

type customerFile struct {
	Name      formula                        `yaml:"name" jsonschema:"required,example=trim(Name)" jsonschema_extras:"x-also=displayName" jsonschema_description:"The customer's name."`
	People    elements[personFile[formula]]  `yaml:"people" jsonschema_extras:"x-also=contacts,x-also=contact,x-also=persons,x-also=person" jsonschema_description:"The customer's contacts: a list, or one expression that gives a list."`
	Addresses elements[addressFile[formula]] `yaml:"addresses" jsonschema_description:"The customer's address: a list of one, or one expression that gives a list."`
}

// personFile and addressFile are elements, made of expressions or of an example's expected texts.
type personFile[T any] struct {
	Name      *T `yaml:"name"`
	FirstName *T `yaml:"firstName" jsonschema_extras:"x-also=forename,x-also=givenName,x-also=vorname,x-also=prenom"`
	LastName  *T `yaml:"lastName" jsonschema_extras:"x-also=surname,x-also=familyName,x-also=nachname,x-also=nom"`
	Email     *T `yaml:"email" jsonschema_extras:"x-also=mail,x-also=emailAddress,x-also=email_address"`
	Phone     *T `yaml:"phone" jsonschema_extras:"x-also=telephone,x-also=tel,x-also=mobile,x-also=telefon,x-also=phoneNumber"`

	Primary       *T `yaml:"primary" jsonschema_extras:"x-also=isPrimary,x-also=isPrimaryContact,x-also=primaryContact" jsonschema_description:"True for the customer's primary contact."`
	Communication *T `yaml:"communication" jsonschema_extras:"x-also=isIncludedInCommunications,x-also=includedInCommunications,x-also=communications" jsonschema_description:"True for a contact that the billing service is to write to."`
}

type addressFile[T any] struct {
	Line1    *T `yaml:"line1" jsonschema_extras:"x-also=street,x-also=address,x-also=address1,x-also=addressLine1,x-also=line,x-also=strasse,x-also=straße,x-also=rue"`
	City     *T `yaml:"city" jsonschema_extras:"x-also=town,x-also=place,x-also=ort,x-also=stadt,x-also=ville"`
	PostCode *T `yaml:"postCode" jsonschema_extras:"x-also=zip,x-also=zipCode,x-also=postalCode,x-also=plz"`
	Country  *T `yaml:"country" jsonschema_extras:"x-also=land,x-also=pays,x-also=countryCode"`
}

// The names of an element's fields, in the order they are shown.
var (
	personNames  = []string{"name", "firstName", "lastName", "email", "phone", flagPrimary, flagCommunication}
	addressNames = []string{"line1", "city", "postCode", "country"}
)

// The boolean fields of an element.
const (
	flagPrimary       = "primary"
	flagCommunication = "communication"
)

// isFlag reports whether a field of an element is true or false; all others are texts.
func isFlag(name string) bool { return name == flagPrimary || name == flagCommunication }

func (p personFile[T]) fields() map[string]*T {
	return map[string]*T{
		"name": p.Name, "firstName": p.FirstName, "lastName": p.LastName, "email": p.Email, "phone": p.Phone,
		flagPrimary: p.Primary, flagCommunication: p.Communication,
	}
}

func (a addressFile[T]) fields() map[string]*T {
	return map[string]*T{"line1": a.Line1, "city": a.City, "postCode": a.PostCode, "country": a.Country}
}

type mandateFile struct {
	Request  *formula `yaml:"request" jsonschema_description:"True for payers that are to be asked for a mandate. The finished customer is known here as customer. Without it nobody is asked."`
	To       *formula `yaml:"to" jsonschema_description:"The e-mail address that letters about the mandate go to: one of those of the customer's people. Blank where nobody is written to. Without it the first of them."`
	Language *formula `yaml:"language" jsonschema_description:"The language in which the payer is written to, as a code: en, de-AT. Blank where it is not known."`
}

type exampleFile struct {
	Given map[string]any `yaml:"given" jsonschema:"required" jsonschema_extras:"x-also=record,x-also=input,x-also=when" jsonschema_description:"A record: its fields and their values. Fields left out are blank."`
	Want  wantFile       `yaml:"want" jsonschema:"required" jsonschema_extras:"x-also=expect,x-also=expected,x-also=then,x-also=result" jsonschema_description:"What must become of it. Only what is named here is compared."`
}

type wantFile struct {
	Include      *bool                  `yaml:"include"`
	Name         *string                `yaml:"name"`
	People       *[]personFile[wanted]  `yaml:"people"`
	Addresses    *[]addressFile[wanted] `yaml:"addresses"`
	ExternalData map[string]wanted      `yaml:"externalData"`
	Request      *bool                  `yaml:"request"`
	To           *string                `yaml:"to"`
	Language     *string                `yaml:"language"`
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
	return &generate.Schema{Title: "an expression, as in trim(Name)",
		OneOf: []*generate.Schema{written(), {Type: "boolean"}, {Type: "number"}}}
}

// wanted is an expected text in an example, unchanged.
type wanted string

// UnmarshalYAML keeps the text of the value.
func (w *wanted) UnmarshalYAML(node *yaml.Node) error {
	*w = wanted(node.Value)
	return nil
}

// JSONSchema describes a wanted text to editors.
func (wanted) JSONSchema() *generate.Schema {
	return &generate.Schema{Title: "a text",
		OneOf: []*generate.Schema{{Type: "string"}, {Type: "boolean"}, {Type: "number"}}}
}

// written is the schema of an expression given as text.
func written() *generate.Schema {
	return &generate.Schema{Type: "string", Pattern: strict.NotBlank, Title: "a field, a text in quotes or an expression"}
}

// elements are a list of blocks, or one expression for such a list.
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
	if any(*new(T)) == (personFile[formula]{}) {
		list.Items.Title = "a block of keys, as in email: …"
	}
	if any(*new(T)) == (addressFile[formula]{}) {
		list.MaxItems = new(uint64(connector.MaxAddresses))
		list.Title = "one element, as the billing service takes one address"
	}
	return &generate.Schema{Title: "a list, whose elements stand on lines that begin with -, or one expression",
		OneOf: []*generate.Schema{list, written()}}
}
