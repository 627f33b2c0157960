package mapping

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/language/display"
	"pgregory.net/rapid"

	"payersync/connector"
	"payersync/mapping/strict"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func textFields(names ...string) []connector.Field {
	out := make([]connector.Field, len(names))
	for i, name := range names {
		out[i] = connector.Field{Name: name, Type: connector.TypeText}
	}
	return out
}

// xero is a source with every type of field.
func xero() connector.SourceInfo {
	fields := textFields("ContactID", "Name", "FirstName", "LastName", "EmailAddress", "ContactStatus", "DefaultCurrency", "Post Code", "phone")
	fields = append(fields,
		connector.Field{Name: "IsCustomer", Type: connector.TypeFlag},
		connector.Field{Name: "Balance", Type: connector.TypeNumber},
		connector.Field{Name: "Tags", Type: connector.TypeList},
		connector.Field{Name: "Org", Type: connector.TypeObject, Fields: textFields("Vat")},
		connector.Field{Name: "Phones", Type: connector.TypeList, Fields: textFields("PhoneType", "PhoneNumber", "PhoneAreaCode", "PhoneCountryCode")},
		connector.Field{Name: "Addresses", Type: connector.TypeList, Fields: textFields("AddressType", "AddressLine1", "City", "PostalCode")},
	)
	return connector.SourceInfo{Kind: "xero", Tenant: "tenant-1", TenantName: "Acme", Fields: fields}
}

func load(t testing.TB, yaml string) *Mapping {
	t.Helper()
	m, err := Load("mapping.yaml", []byte(yaml), xero())
	if err != nil {
		t.Fatalf("Load:\n%v", err)
	}
	return m
}

// named is a mapping with the given expression for the customer's name.
func named(expression string) string {
	quoted, _ := json.Marshal(expression)
	return fmt.Sprintf("version: 1\nsource: xero\nkey: {id: ContactID}\ncustomer:\n  name: %s\n", quoted)
}

func record(t testing.TB, data string) connector.Record {
	t.Helper()
	if !json.Valid([]byte(data)) {
		t.Fatalf("the test's record is no JSON: %s", data)
	}
	return connector.Record{SourceID: "c1", State: connector.RecordActive, Data: json.RawMessage(data)}
}

func wholeFile(t testing.TB) string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "## A whole file\n\n```yaml\n")
	yaml, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("README.md has no whole file")
	}
	return yaml
}

func TestTheReadmesMappingMapsAContact(t *testing.T) {
	t.Parallel()
	m := load(t, wholeFile(t))
	got, err := m.Apply(record(t, `{"ContactID": "c1", "Name": " Northwind ", "IsCustomer": true, "ContactStatus": "ACTIVE",
		"FirstName": "Ann", "LastName": "Baker", "EmailAddress": "Accounts@Northwind.example; b@northwind.example", "DefaultCurrency": "GBP",
		"Phones": [{"PhoneType": "DEFAULT", "PhoneNumber": "496 0123", "PhoneAreaCode": "0113"}],
		"Addresses": [{"AddressType": "STREET"}, {"AddressType": "POBOX", "AddressLine1": "1 High Street", "City": "Leeds", "PostalCode": "LS1 1AA"}],
		"Unknown": {"deep": [1, 2]}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Result{
		Included: true,
		Key:      connector.Key{Name: "xeroContactId", Value: "c1"},
		Customer: connector.Customer{
			Name:         "Northwind",
			People:       []connector.Person{{Name: "Ann Baker", Email: "accounts@northwind.example", Phone: "0113 496 0123"}},
			Addresses:    []connector.Address{{Line1: "1 High Street", City: "Leeds", PostCode: "LS1 1AA"}},
			ExternalData: map[string]string{"xeroContactId": "c1", "xeroTenantId": "tenant-1"},
		},
		RequestMandate: true, To: "accounts@northwind.example",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Apply differs (-want +got):\n%s", diff)
	}
	if err := m.CheckExamples(); err != nil {
		t.Errorf("CheckExamples: %v", err)
	}
}

func TestBlankRecordBecomesACustomerOfBlanksOnly(t *testing.T) {
	t.Parallel()
	m := load(t, strings.Replace(wholeFile(t), "include: IsCustomer", "include: not IsCustomer || IsCustomer", 1))
	got, err := m.Apply(record(t, `{"ContactID": "c1", "Name": null, "Phones": null, "ContactStatus": "ACTIVE"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Result{
		Included: true,
		Key:      connector.Key{Name: "xeroContactId", Value: "c1"},
		Customer: connector.Customer{ExternalData: map[string]string{"xeroContactId": "c1", "xeroTenantId": "tenant-1"}},
		Unasked:  Unasked{Why: connector.UnaskedNoEmail, Line: 17},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Apply differs (-want +got):\n%s", diff)
	}
}

func TestRecordsThatAreNotIncludedNeedNoKey(t *testing.T) {
	t.Parallel()
	got, err := load(t, wholeFile(t)).Apply(record(t, `{"Name": "Supplier Ltd", "IsCustomer": false}`))
	if diff := cmp.Diff(Result{}, got); err != nil || diff != "" {
		t.Errorf("Apply = %v, differs (-want +got):\n%s", err, diff)
	}
}

// covers F54
func TestRecordsThatCannotBeMappedSayWhyWithoutTheirValues(t *testing.T) {
	t.Parallel()
	const secret = "Jane Roe"
	tests := []struct {
		name, expression, data string
		want                   RecordError
	}{
		{"blank key", `Name`, `{"ContactID": " \t", "Name": "Jane Roe"}`,
			RecordError{connector.ReasonKeyBlank, 3, "The key id is blank (mapping line 3)."}},
		{"missing key", `Name`, `{"Name": "Jane Roe"}`,
			RecordError{connector.ReasonKeyBlank, 3, "The key id is blank (mapping line 3)."}},
		{"endless key", `Name`, `{"ContactID": "` + strings.Repeat("Jane Roe", 64) + `", "Name": "N"}`, // 512 bytes, and its name
			RecordError{connector.ReasonMappingFailed, 3, "The key id is longer than 512 bytes (mapping line 3)."}},
		{"list for a text", `Name`, `{"ContactID": "c1", "Name": ["Jane Roe"]}`,
			RecordError{connector.ReasonMappingFailed, 0, "The field Name holds a list where a text is declared."}},
		{"text for a list", `join(Tags, " ")`, `{"ContactID": "c1", "Tags": "Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 0, "The field Tags holds a text where a list is declared."}},
		{"text inside an object", `Org.Vat`, `{"ContactID": "c1", "Org": {"Vat": {"Jane Roe": 1}}}`,
			RecordError{connector.ReasonMappingFailed, 0, "The field Org holds a block of fields where a text is declared (in Vat)."}},
		{"text for a number", `Balance > 1 ? "a" : "b"`, `{"ContactID": "c1", "Balance": "Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 0, "The field Balance holds a text where a number is declared."}},
		{"text for a flag", `IsCustomer ? "a" : "b"`, `{"ContactID": "c1", "IsCustomer": "Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 0, "The field IsCustomer holds a text where true or false is declared."}},
		{"endless text", `Name`, `{"ContactID": "c1", "Name": "` + strings.Repeat("Jane Roe", 5000) + `"}`,
			RecordError{connector.ReasonMappingFailed, 0, "The field Name holds a text that is longer than 32768 bytes, or broken."}},
		{"long list", `join(Tags, " ")`, `{"ContactID": "c1", "Tags": [` + strings.Repeat(`"Jane Roe",`, 2000) + `""]}`,
			RecordError{connector.ReasonMappingFailed, 0, "The field Tags holds a list of more than 1000 elements."}},
		{"other than declared by the expression", `{a: IsCustomer}.a`, `{"ContactID": "c1", "Name": "Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 5, "The mapping's customer.name (line 5) does not work for this record: it does not give a text."}},
		{"wrong inside a function", `trim({a: Balance}.a)`, `{"ContactID": "c1", "Balance": 1}`,
			RecordError{connector.ReasonMappingFailed, 5, "The mapping's customer.name (line 5) does not work for this record: a text is needed where there is something else."}},
		{"no date", `date(Name, "DD/MM/YYYY")`, `{"ContactID": "c1", "Name": "31/02/2024 Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 5, "The mapping's customer.name (line 5) does not work for this record: a text is no date of the form DD/MM/YYYY."}},
		{"no number", `number(Name) > 1 ? "a" : "b"`, `{"ContactID": "c1", "Name": "1,23 Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 5, "The mapping's customer.name (line 5) does not work for this record: a text is no number."}},
		{"division by nothing", `5 % len(Tags) == 1 ? "a" : "b"`, `{"ContactID": "c1", "Name": "Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 5, "The mapping's customer.name (line 5) does not work for this record: a number is divided by 0."}},
		{"growing text", `replace(Name, "J", Name)`, `{"ContactID": "c1", "Name": "` + strings.Repeat("J", 3000) + ` Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 5, "The mapping's customer.name (line 5) does not work for this record: a text grows beyond 32768 bytes."}},
		{"array for a record", `Name`, `["Jane Roe"]`,
			RecordError{connector.ReasonRecordUnreadable, 0, "The record is not one JSON object."}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, named(test.expression)).Apply(record(t, test.data))
			var got *RecordError
			if !errors.As(err, &got) {
				t.Fatalf("Apply = %v, want a *RecordError", err)
			}
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Errorf("Apply differs (-want +got):\n%s", diff)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows a personal value: %v", err)
			}
		})
	}
}

func TestAProblemOfTheSourceIsPassedOn(t *testing.T) {
	t.Parallel()
	_, err := load(t, named("Name")).Apply(connector.Record{Problem: "Row 4 has too many columns.", Data: []byte(`{}`)})
	want := &RecordError{Reason: connector.ReasonRecordUnreadable, Detail: "Row 4 has too many columns."}
	var got *RecordError
	if !errors.As(err, &got) || *got != *want {
		t.Errorf("Apply = %v, want %v", err, want)
	}
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	const data = `{"ContactID": "c1", "Name": "Nørth", "FirstName": 12345678901234567890, "LastName": true, "Post Code": "LS1", "phone": "x", "Balance": 2.5,
		"Tags": ["a", null, 7], "Org": {"Vat": "GB1"}, "Phones": [{"PhoneType": "default", "PhoneNumber": ""}, {"PhoneType": "DEFAULT", "PhoneNumber": "1"}]}`
	tests := []struct{ expression, want string }{
		{`Name`, "Nørth"},
		{`FirstName`, "12345678901234567890"},
		{`LastName`, "true"},
		{`field("Post Code") + "!"`, "LS1!"},
		{`field("phone")`, "x"},
		{`Org.Vat`, "GB1"},
		{`Phones[1].PhoneNumber`, "1"},
		{`Phones[-1].PhoneNumber`, "1"},
		{`Phones[9].PhoneNumber`, ""},
		{`filter(Phones, .PhoneNumber == "9")[0].PhoneNumber`, ""},
		{`Addresses[0].City`, ""},
		{`address(Addresses, "POBOX").City`, ""},
		{`phone(Phones, "DEFAULT")`, "1"},
		{`phone(Phones, "FAX")`, ""},
		{`join(Tags, "-")`, "a-7"},
		{`join(map(Phones, .PhoneNumber), "-")`, "1"},
		{`join(filter(Tags, # != "a"), "-")`, "7"},
		{`Tags[2]`, "7"},
		{`Balance + 1 > 3 ? "more" : "less"`, "more"},
		{`len(Tags) + 1 == 4 ? "four" : "other"`, "four"},
		{`any(Phones, .PhoneNumber == "1") && count(Phones, .PhoneNumber != "") == 1 ? "yes" : "no"`, "yes"},
		{`let n = Name; n + n`, "NørthNørth"},
		{`Name | upper() | truncate(2)`, "NØ"},
		{`Name matches "^N.r" ? "yes" : "no"`, "yes"},
		{`Name not contains "ø" ? "no" : "yes"`, "yes"},
		{`IsCustomer ? Name : nil`, ""},
		{`{a: Name}.a`, "Nørth"},
		{`Name[0:2] + Name[-2:]`, "Nøth"},
		{`{a: Name}.a[1:]`, "ørth"},
		{`join(Tags[1:9], "-")`, "7"},
		{`tenant`, "tenant-1"},
		{`title("o'brien's bakery (north)")`, "O'Brien's Bakery (North)"},
		{`title("JOHN'S CAFÉ")`, "John's Café"},
		{`firstEmail("Ann <ann@a.example>")`, "ann@a.example"},
		{`firstEmail(" bob@@a ")`, "bob@@a"},
		{`firstEmail("mailto:a@b.example, c@d.example")`, "a@b.example"},
		{`postcode(" 12345 Berlin ")`, "12345 Berlin"},
		{`postcode("ec1a1bb")`, "EC1A 1BB"},
		{`split(Name, "")[0]`, "Nørth"},
		{`replace(Name, "", "x")`, "Nørth"},
		{`truncate(Name, 99)`, "Nørth"},
		{`coalesce("", "  ", Name)`, "Nørth"},
		{`coalesce()`, ""},
		{`lower(phone)`, "x"},
		{`join(emails(" a@b.example; A@B.example, <c@d.example> (Carl) "), " ")`, "a@b.example c@d.example"},
		{`join(emails("a@b.example or bob@@a"), " ")`, "a@b.example bob@@a"},
		{`join(emails(" ask Bob "), "/")`, "ask Bob"},
		{`join(emails("  "), "/")`, ""},
		{`country(" united kingdom ")`, "GB"},
		{`country("UK")`, "GB"},
		{`country("Scotland")`, "GB"},
		{`country("deu")`, "DE"},
		{`country("Österreich") + country("osterreich")`, "ATAT"},
		{`country("The Netherlands")`, "NL"},
		{`country("U.S.A.")`, "US"},
		{`country("Bosnia and Herzegovina")`, "BA"},
		{`country("Saint Lucia")`, "LC"},
		{`country(" Narnia ")`, "Narnia"},
		{`country("")`, ""},
		{`country("East Germany") + country("SU") + country("EU") + country("ZZ")`, "East GermanySUEUZZ"},
		{`phone("0113 496 0123", "GB")`, "+441134960123"},
		{`phone("+44 (0)113 496 0123")`, "+441134960123"},
		{`phone("0113 496 0123")`, "0113 496 0123"},
		{`phone("0044 113 496 0123", "GB")`, "+441134960123"},
		{`phone(" 496 0123 ", "GB")`, "496 0123"},
		{`phone("0113 496 0123 ext 5", "GB")`, "0113 496 0123 ext 5"},
		{`phone("0113 496 0123 / 07911 123456", "GB")`, "0113 496 0123 / 07911 123456"},
		{`phone("ask Bob 0113 496 0123", "GB")`, "ask Bob 0113 496 0123"},
		{`phone("030 901820", country("Deutschland"))`, "+4930901820"},
		{`phone("030 901820", country("Narnia"))`, "030 901820"},
		{`phone("", "GB")`, ""},
		{`date("2024-02-29")`, "2024-02-29"},
		{`date("2024-02-29T23:59:59Z")`, "2024-02-29"},
		{`date(" 3/4/2024 0:00 ", "D/M/YYYY")`, "2024-04-03"},
		{`date("03.04.2024", "dd.mm.yyyy")`, "2024-04-03"},
		{`date("Apr 3, 2024", "MMM D, YYYY")`, "2024-04-03"},
		{`date("3 april 2024 10:15 PM", "D MMMM YYYY")`, "2024-04-03"},
		{`date("  ")`, ""},
		{`date("31/12/2023", "DD/MM/YYYY") < "2024-01-01" ? "before" : "after"`, "before"},
		{`number("£1,234.50") == 1234.5 ? "yes" : "no"`, "yes"},
		{`number("1.234,50 €", ",") == 1234.5 ? "yes" : "no"`, "yes"},
		{`number("(12.00)") + number("-3") + number("- 4") + number("1'000") == 981 ? "yes" : "no"`, "yes"},
		{`number("") + number(FirstName) > 1 ? "yes" : "no"`, "yes"},
		{`person(Name, "a@b.example", "1")["email"]`, "a@b.example"},
	}
	for _, test := range tests {
		t.Run(test.expression, func(t *testing.T) {
			t.Parallel()
			got, err := load(t, named(test.expression)).Apply(record(t, data))
			if err != nil || got.Customer.Name != test.want {
				t.Errorf("gives %q, %v; want %q", got.Customer.Name, err, test.want)
			}
		})
	}
}

func TestPeopleAndAddressesMayBeOneExpression(t *testing.T) {
	t.Parallel()
	m := load(t, `version: 1
source: xero
key: {id: ContactID}
customer:
  name: Name
  people: 'map(Phones, ({name: Name, phone: .PhoneNumber}))'
  addresses: >-
    [{line1: field("Post Code"), country: nil},
     {line1: FirstName, city: LastName}]
mandate: {request: 'len(customer.addresses) == 1 && customer.addresses[0].line1 startsWith "1" && customer.externalData.id == "c1" && customer.externalData["none"] == ""'}
`)
	got, err := m.Apply(record(t, `{"ContactID": "c1", "Name": "N", "Phones": [{"PhoneNumber": "1"}, {"PhoneNumber": "2"}], "FirstName": "1 Road", "LastName": "Leeds"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Result{Included: true, Key: connector.Key{Name: "id", Value: "c1"}, RequestMandate: true, Customer: connector.Customer{
		Name:         "N",
		People:       []connector.Person{{Name: "N", Phone: "1"}, {Name: "N", Phone: "2"}},
		Addresses:    []connector.Address{{Line1: "1 Road", City: "Leeds"}},
		ExternalData: map[string]string{"id": "c1"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Apply differs (-want +got):\n%s", diff)
	}
	got, err = m.Apply(record(t, `{"ContactID": "c1", "Name": "N", "Post Code": "LS1", "LastName": "Leeds"}`))
	if err != nil || len(got.Customer.Addresses) != 2 || got.RequestMandate {
		t.Errorf("two addresses give %+v, %v; want both, and no request", got, err)
	}
}

// A flag is true or false of a contact that somebody is, in either form of the list.
func TestContactsMayHaveFlags(t *testing.T) {
	t.Parallel()
	for _, people := range []string{
		"\n    - {name: Name, primary: true, communication: 'LastName == \"yes\"'}\n    - {name: FirstName, primary: true}",
		`'[{name: Name, primary: Name != "", communication: LastName == "yes"}, {name: FirstName, primary: true}]'`,
	} {
		m := load(t, "version: 1\nsource: xero\nkey: {id: ContactID}\ncustomer:\n  name: Name\n  people: "+people+"\n")
		got, err := m.Apply(record(t, `{"ContactID": "c1", "Name": "N", "LastName": "yes"}`))
		if err != nil {
			t.Fatal(err)
		}
		want := []connector.Person{{Name: "N", Primary: "true", Communication: "true"}}
		if diff := cmp.Diff(want, got.Customer.People); diff != "" {
			t.Errorf("%s: people differ (-want +got):\n%s", people, diff)
		}
		err = m.CheckFlags(map[string]string{"primary": "the.setting"})
		if err == nil || !strings.Contains(err.Error(), "what the billing service calls primary is not known: give its name in the.setting") {
			t.Errorf("a flag without a name: %v", err)
		}
		if err := m.CheckFlags(nil); err != nil {
			t.Errorf("with all names: %v", err)
		}
	}
	plain := load(t, "version: 1\nsource: xero\nkey: {id: ContactID}\ncustomer: {name: Name}\n")
	if err := plain.CheckFlags(map[string]string{"primary": "s", "communication": "s"}); err != nil {
		t.Errorf("a mapping without flags: %v", err)
	}
}

// The rule chooses among the people, and brings in nobody else.
func TestLettersGoToOneOfThePeople(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nsource: xero\nkey: {id: ContactID}\ncustomer:\n  name: Name\n  people: [{email: EmailAddress}, {name: FirstName, email: LastName}]\n"
	whole := record(t, `{"ContactID": "c1", "Name": "N", "EmailAddress": "a@example.com", "FirstName": "B", "LastName": "b@example.com"}`)
	for rule, want := range map[string]string{
		"": "a@example.com", "mandate: {to: LastName}\n": "b@example.com", "mandate: {to: upper(LastName)}\n": "b@example.com", "mandate: {to: '\"\"'}\n": "",
	} {
		got, err := load(t, file+rule).Apply(whole)
		if err != nil || got.To != want {
			t.Errorf("by %q letters go to %q, %v; want %q", rule, got.To, err, want)
		}
	}
	_, err := load(t, file+"mandate: {to: '\"c@\" + Name'}\n").Apply(whole)
	if err == nil || !strings.Contains(err.Error(), "mandate.to (line 7)") || !strings.Contains(err.Error(), "it gives an address that is none of the customer's people") || strings.Contains(err.Error(), "c@") {
		t.Errorf("an address of nobody's is told as %v", err)
	}
}

func TestAnElementThatIsNotABlockIsReported(t *testing.T) {
	t.Parallel()
	m := load(t, "version: 1\nsource: xero\nkey: {id: ContactID}\ncustomer:\n  name: Name\n  people: '[{name: Name}, IsCustomer ? {name: Name} : Name]'\n")
	_, err := m.Apply(record(t, `{"ContactID": "c1", "Name": "N"}`))
	want := RecordError{connector.ReasonMappingFailed, 6, "The mapping's customer.people (line 6) does not work for this record: an element is not written as a { } block."}
	var got *RecordError
	if !errors.As(err, &got) || *got != want {
		t.Errorf("Apply = %v, want %v", err, want)
	}
}

func TestThePersonFunctionMakesAContact(t *testing.T) {
	t.Parallel()
	m := load(t, "version: 1\nsource: xero\nregion: GB\nkey: {id: ContactID}\ncustomer:\n  name: Name\n  people: 'map(emails(EmailAddress), person(Name, lower(#), phone(Phones, \"DEFAULT\")))'\n")
	got, err := m.Apply(record(t, `{"ContactID": "c1", "Name": "N", "EmailAddress": "A@b.example, c@d.example", "Phones": [{"PhoneType": "DEFAULT", "PhoneAreaCode": "0113", "PhoneNumber": "496 0123"}]}`))
	want := []connector.Person{{Name: "N", Email: "a@b.example", Phone: "+441134960123"}, {Name: "N", Email: "c@d.example", Phone: "+441134960123"}}
	if diff := cmp.Diff(want, got.Customer.People); err != nil || diff != "" {
		t.Errorf("Apply = %v, differs (-want +got):\n%s", err, diff)
	}
}

func TestPhonePutsTheNumbersPartsTogether(t *testing.T) {
	t.Parallel()
	tests := []struct{ country, area, number, region, want string }{
		{"44", "113", "496 0123", "", "+441134960123"},
		{"+44", "0113", "496 0123", "", "+441134960123"},
		{"0044", "(0113)", "496-0123", "DE", "+441134960123"},
		{"", "0113", "4960123", "GB", "+441134960123"},
		{"", "0113", "4960123", "", "0113 4960123"},
		{"44", "113", "+44 113 496 0123", "", "+441134960123"},
		{"UK", "0113", "4960123", "GB", "+UK 0113 4960123"},
		{"", "", " 0123 ", "GB", "0123"},
		{"44", "113", " ", "GB", ""},
	}
	for _, test := range tests {
		data, _ := json.Marshal(map[string]any{"ContactID": "c1", "Phones": []map[string]string{
			{"PhoneType": "DEFAULT", "PhoneCountryCode": test.country, "PhoneAreaCode": test.area, "PhoneNumber": test.number}}})
		yaml := named(`phone(Phones, "DEFAULT")`)
		if test.region != "" {
			yaml += "region: " + test.region + "\n"
		}
		if got, err := load(t, yaml).Apply(connector.Record{Data: data}); err != nil || got.Customer.Name != test.want {
			t.Errorf("%+v gives %q, %v", test, got.Customer.Name, err)
		}
	}
}

func TestEveryCountryIsKnownByItsCodesAndName(t *testing.T) {
	t.Parallel()
	all := isoRegions()
	if len(all) != 250 { // the 249 of ISO 3166-1, and Kosovo
		t.Errorf("%d countries are known, want 250", len(all))
	}
	for _, r := range all {
		for _, name := range []string{r.String(), r.ISO3(), strings.ToLower(r.String()), display.English.Regions().Name(r), ownName(r)} {
			if got := country(name); name != "" && got != r.String() {
				t.Errorf("country(%q) = %q, want %s", name, got, r)
			}
		}
	}
	for name, code := range otherCountryNames {
		if got := country(name); got != code {
			t.Errorf("country(%q) = %q, want %s", name, got, code)
		}
	}
}

// covers F48
func TestKeysKeepTheirExactBytes(t *testing.T) {
	t.Parallel()
	m := load(t, named("Name"))
	for _, key := range []string{"A1", "a1", " A1", "A1 ", "Å", "Å", "0012"} {
		data, _ := json.Marshal(map[string]string{"ContactID": key})
		got, err := m.Apply(connector.Record{Data: data})
		if err != nil || got.Key.Value != key || got.Customer.ExternalData["id"] != key {
			t.Errorf("the key %q becomes %q and %q, %v", key, got.Key.Value, got.Customer.ExternalData["id"], err)
		}
	}
}

func TestTheMappingOwnsWhatItMaps(t *testing.T) {
	t.Parallel()
	base := "version: 1\nsource: xero\nkey: {id: ContactID}\ncustomer:\n  name: Name\n"
	tests := []struct {
		yaml string
		want []string
	}{
		{base, []string{"name"}},
		{base + "  people: [{name: Name}]\n", []string{"name", "people"}},
		{base + "  addresses: []\n", []string{"name", "addresses"}},
		{base + "  people: [{name: Name}]\nown: [people]\n", []string{"people"}},
		{base + "own: []\n", nil},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, load(t, test.yaml).Own()); diff != "" {
			t.Errorf("Own of\n%sdiffers (-want +got):\n%s", test.yaml, diff)
		}
	}
}

func TestTheVersionIsTheHashOfTheBytes(t *testing.T) {
	t.Parallel()
	a, b := load(t, named("Name")), load(t, named("Name")+"# a word more\n")
	if a.Version() == b.Version() || len(a.Version()) != 64 {
		t.Errorf("versions %s and %s", a.Version(), b.Version())
	}
	if got := string(b.Text()); got != named("Name")+"# a word more\n" {
		t.Errorf("Text = %q", got)
	}
}

// covers F75
func TestWrongMappingsAreExplained(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/wrong/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no wrong files found: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m, err := Load("mapping.yaml", data, xero())
			if err == nil {
				err = m.CheckExamples()
			}
			var wrong *strict.Error
			if !errors.As(err, &wrong) {
				t.Fatalf("Load = %v, want a *strict.Error", err)
			}
			checkGolden(t, strings.TrimSuffix(file, ".yaml")+".golden", wrong.Error()+"\n")
		})
	}
}

func TestWrongExpressionsAreExplained(t *testing.T) {
	t.Parallel()
	input, err := os.ReadFile("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for expression := range strings.Lines(string(input)) {
		yaml := "version: 1\nsource: xero\nkey: {id: ContactID}\ncustomer:\n  name: >-\n    " + expression
		_, err := Load("m.yaml", []byte(yaml), xero())
		var wrong *strict.Error
		if !errors.As(err, &wrong) {
			t.Errorf("Load of %s = %v, want a *strict.Error", expression, err)
			continue
		}
		fmt.Fprintf(&got, "%s\n\n", wrong)
	}
	if leak := regexp.MustCompile(`interface|struct|float64|\bbool\b|\[\]string|reflect|goroutine`).FindString(got.String()); leak != "" {
		t.Errorf("a message names the Go type %q", leak)
	}
	checkGolden(t, "testdata/expressions.golden", got.String())
}

func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, diff)
	}
}

// readmeRow is a row of three cells, the last two in code.
var readmeRow = regexp.MustCompile("(?m)^\\| (`.*) \\| `(.*)` \\| `(.*)` \\|$")

func TestTheReadmesExamplesAreTrue(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```json\n")
	data, tables, _ := strings.Cut(rest, "```")
	src := readmeSource()
	shown := map[string]bool{}
	for _, row := range readmeRow.FindAllStringSubmatch(tables, -1) {
		name, _, _ := strings.Cut(strings.TrimPrefix(row[1], "`"), "(")
		shown[name] = true
		m, err := Load("README.md", []byte(strings.Replace(named(row[2]), "ContactID", "Name", 1)), src)
		if err != nil {
			t.Errorf("%s: %v", row[2], err)
			continue
		}
		got, err := m.Apply(record(t, data))
		if err != nil || got.Customer.Name != row[3] {
			t.Errorf("%s gives %q, %v; README.md says %q", row[2], got.Customer.Name, err, row[3])
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(functions)), []string{"filter", "map", "any", "count", "len", "field"}) {
		if !shown[name] {
			t.Errorf("README.md has no example for %s", name)
		}
	}
	if operators := 10; len(readmeRow.FindAllString(tables, -1)) < operators+len(functions) {
		t.Error("README.md has rows without an example")
	}
}

// readmeSource is the source of the record in README.md.
func readmeSource() connector.SourceInfo {
	fields := textFields("Name", "First", "Last", "Email", "Tel", "Zip", "Land", "Since", "Limit", "Note")
	fields = append(fields,
		connector.Field{Name: "IsCustomer", Type: connector.TypeFlag},
		connector.Field{Name: "Tags", Type: connector.TypeList},
		connector.Field{Name: "Org", Type: connector.TypeObject, Fields: textFields("Vat")},
		connector.Field{Name: "Phones", Type: connector.TypeList, Fields: textFields("PhoneType", "PhoneCountryCode", "PhoneAreaCode", "PhoneNumber")},
		connector.Field{Name: "Addresses", Type: connector.TypeList, Fields: textFields("AddressType", "City")})
	return connector.SourceInfo{Kind: "xero", Fields: fields}
}

func TestTheReadmesFilesLoad(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	src := connector.SourceInfo{Kind: "csv", Fields: textFields("AccountNumber", "Name", "Email", "Address", "City", "Post Code", "Second Address", "Second City")}
	files := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		yaml := block[1]
		switch {
		case strings.HasPrefix(yaml, "customer:"):
			yaml = "version: 1\nsource: csv\nkey: {id: Name}\n" + strings.Replace(yaml, "customer:\n", "customer:\n  name: Name\n", 1)
		case !strings.Contains(yaml, "source: csv"):
			continue // the whole file has a test of its own, and single lines are no file
		}
		files++
		if _, err := Load("README.md", []byte(yaml), src); err != nil {
			t.Errorf("Load:\n%v", err)
		}
	}
	if files != 2 {
		t.Errorf("README.md has %d files, want 2", files)
	}
}

func TestApplyIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	m := load(t, wholeFile(t))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				key := fmt.Sprintf("c%d-%d", i, j)
				got, err := m.Apply(connector.Record{Data: []byte(`{"ContactID": "` + key + `", "Name": "` + key + `", "IsCustomer": true, "ContactStatus": "ACTIVE"}`)})
				if err != nil || got.Key.Value != key || got.Customer.Name != key {
					t.Errorf("record %s becomes %+v, %v", key, got, err)
				}
			}
		})
	}
	wg.Wait()
}

// covers F73
func TestAppliesTheSameRecordAlwaysAlike(t *testing.T) {
	t.Parallel()
	m := load(t, wholeFile(t))
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Just[any](nil), rapid.String().AsAny(), rapid.Int().AsAny(), rapid.Bool().AsAny(), rapid.SliceOfN(rapid.String(), 0, 3).AsAny(), rapid.MapOfN(rapid.String(), rapid.String(), 0, 2).AsAny())
		names := []string{"ContactID", "Name", "FirstName", "EmailAddress", "IsCustomer", "ContactStatus", "Phones", "Addresses", "DefaultCurrency"}
		data, err := json.Marshal(rapid.MapOf(rapid.SampledFrom(names), value).Draw(t, "record"))
		if err != nil {
			t.Fatal(err)
		}
		first, err1 := m.Apply(connector.Record{Data: data})
		second, err2 := m.Apply(connector.Record{Data: data})
		if diff := cmp.Diff(first, second); diff != "" || fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Fatalf("two results differ: %s %v %v", diff, err1, err2)
		}
		var unmapped *RecordError
		if err1 != nil && !errors.As(err1, &unmapped) {
			t.Fatalf("Apply = %T, want a *RecordError", err1)
		}
		if err1 == nil && first.Included && strings.TrimSpace(first.Key.Value) == "" {
			t.Fatalf("an included record has the blank key %q", first.Key.Value)
		}
	})
}
