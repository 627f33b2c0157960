package mapping

import (
	"fmt"
	"strings"
	"testing"

	"payersync/connector"
)

// Records that cannot be sent still have a name.
func TestALabelAsksEachRuleOnItsOwn(t *testing.T) {
	t.Parallel()
	const standard = `version: 1
source: xero
key: {id: ContactID}
include: ContactStatus == "ACTIVE"
customer:
  name: trim(Name)
  people:
    - {name: FirstName, phone: 'phone(phone, "GB")'}
    - {email: lower(firstEmail(EmailAddress))}
  addresses:
    - {city: 'truncate(Name, len(Tags) - 1)'}
`
	whole := `{"ContactID": "A1", "Name": " Ada Ltd ", "EmailAddress": "none; ADA@Example.com", "ContactStatus": "ACTIVE"}`
	ada := connector.Label{Number: "A1", Name: "Ada Ltd", Email: "ada@example.com"}
	list := strings.Replace(standard, standard[strings.Index(standard, "  people:"):],
		`  people: 'map(emails(EmailAddress), ({name: FirstName, email: #}))'`+"\n", 1)
	for name, c := range map[string]struct {
		mapping string
		record  connector.Record
		want    connector.Label
	}{
		"a record that maps": {list, record(t, whole),
			connector.Label{Number: "A1", Name: "Ada Ltd", Email: "ADA@Example.com"}},
		"one that fails at an address": {standard, record(t, whole), ada},
		"one that is left out": {list, record(t, strings.Replace(whole, "ACTIVE", "ARCHIVED", 1)),
			connector.Label{Number: "A1", Name: "Ada Ltd", Email: "ADA@Example.com"}},
		"one without a key": {standard, record(t, strings.Replace(whole, "A1", "", 1)),
			connector.Label{Name: "Ada Ltd", Email: "ada@example.com"}},
		"one without a name": {standard, record(t, strings.Replace(whole, " Ada Ltd ", " ", 1)),
			connector.Label{Number: "A1", Email: "ada@example.com"}},
		"one without an address": {standard, record(t, `{"ContactID": "A1", "Name": "Ada"}`),
			connector.Label{Number: "A1", Name: "Ada"}},
		"one with a field of another form": {standard,
			record(t, strings.Replace(whole, "{", `{"Tags": 7, "Addresses": "none", `, 1)), ada},
		"one that its source calls unfit": {standard, func() connector.Record {
			r := record(t, whole)
			r.Problem = "Lines 2 and 3 have the same number."
			return r
		}(), ada},
		"one that is gone": {standard,
			func() connector.Record { r := record(t, whole); r.State = connector.RecordDeleted; return r }(), ada},
		"one whose name rule fails": {strings.Replace(standard, "trim(Name)", "truncate(Name, len(Tags) - 1)", 1),
			record(t, whole), connector.Label{Number: "A1", Email: "ada@example.com"}},
		"one that is no object": {standard, connector.Record{Data: []byte(`[1]`)}, connector.Label{}},
		"one that is nothing":   {standard, connector.Record{}, connector.Label{}},
		"one that is too large": {standard, record(t, fmt.Sprintf(`{"Name": %q}`, strings.Repeat("x", maxRecord))),
			connector.Label{}},
		"one with a language": {standard + "mandate: {language: 'Tags[0]'}\n",
			record(t, strings.Replace(whole, "{", `{"Tags": [" DE-at "], `, 1)),
			connector.Label{Number: "A1", Name: "Ada Ltd", Email: "ada@example.com", Language: "de-AT"}},
		"one with a person": {standard + "mandate: {to: EmailAddress}\n",
			record(t, strings.NewReplacer("none; ", "", "{", `{"FirstName": "Maureen", `).Replace(whole)),
			connector.Label{Number: "A1", Name: "Ada Ltd", Email: "ada@example.com"}},
		"one whose person has the address": {strings.Replace(standard, "{email: lower", "{name: FirstName, email: lower", 1),
			record(t, strings.Replace(whole, "{", `{"FirstName": "Maureen", `, 1)),
			connector.Label{Number: "A1", Name: "Ada Ltd", Email: "ada@example.com", Contact: "Maureen"}},
		"one whose person is called in two parts": {strings.Replace(standard, "{email: lower",
			"{firstName: FirstName, lastName: LastName, email: lower", 1),
			record(t, strings.Replace(whole, "{", `{"FirstName": "Maureen", "LastName": "Tideswell", `, 1)),
			connector.Label{Number: "A1", Name: "Ada Ltd", Email: "ada@example.com", Contact: "Maureen Tideswell"}},
		"one whose person is the customer": {strings.Replace(standard, "{email: lower", "{name: Name, email: lower", 1),
			record(t, whole), ada},
		"one whose letters go to the second": {strings.Replace(list, "emails(EmailAddress)",
			"emails(EmailAddress + \" \" + FirstName)", 1) + "mandate: {to: FirstName}\n",
			record(t, strings.Replace(whole, "{", `{"FirstName": "b@example.com", `, 1)),
			connector.Label{Number: "A1", Name: "Ada Ltd", Email: "b@example.com", Contact: "b@example.com"}},
		"one whose letters go to nobody": {standard + "mandate: {to: FirstName}\n", record(t, whole),
			connector.Label{Number: "A1", Name: "Ada Ltd"}},
		"one whose letters go to a stranger": {standard + "mandate: {to: '\"x@\" + Name'}\n", record(t, whole),
			connector.Label{Number: "A1", Name: "Ada Ltd"}},
		"one in no language": {standard + "mandate: {language: Name}\n", record(t, whole), ada},
		"a name of 64 KB": {standard, record(t, fmt.Sprintf(`{"ContactID": "A1", "Name": %q}`, strings.Repeat("ñ", 32<<10))),
			connector.Label{Number: "A1", Name: strings.Repeat("ñ", mostLabel)}},
	} {
		m, err := Load("mapping.yaml", []byte(c.mapping), xero())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := m.Label(c.record); got != c.want {
			t.Errorf("%s: %+.80v, want %+.80v", name, got, c.want)
		}
	}
}
