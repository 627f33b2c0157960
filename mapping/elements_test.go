package mapping

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/language/display"

	"payersync/connector"
)

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
	got, err := m.Apply(record(t,
		`{"ContactID": "c1", "Name": "N", "Phones": [{"PhoneNumber": "1"}, {"PhoneNumber": "2"}], "FirstName": "1 Road", "LastName": "Leeds"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Result{Included: true, Key: connector.Key{Name: "id", Value: "c1"}, RequestMandate: true,
		Customer: connector.Customer{
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
		if err == nil || !strings.Contains(err.Error(),
			"what the billing service calls primary is not known: give its name in the.setting") {
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
		"": "a@example.com", "mandate: {to: LastName}\n": "b@example.com",
		"mandate: {to: upper(LastName)}\n": "b@example.com", "mandate: {to: '\"\"'}\n": "",
	} {
		got, err := load(t, file+rule).Apply(whole)
		if err != nil || got.To != want {
			t.Errorf("by %q letters go to %q, %v; want %q", rule, got.To, err, want)
		}
	}
	_, err := load(t, file+"mandate: {to: '\"c@\" + Name'}\n").Apply(whole)
	if err == nil || !strings.Contains(err.Error(), "mandate.to (line 7)") ||
		!strings.Contains(err.Error(), "it gives an address that is none of the customer's people") ||
		strings.Contains(err.Error(), "c@") {
		t.Errorf("an address of nobody's is told as %v", err)
	}
}

func TestAnElementThatIsNotABlockIsReported(t *testing.T) {
	t.Parallel()
	m := load(t, "version: 1\nsource: xero\nkey: {id: ContactID}\ncustomer:\n  name: Name\n  people: '[{name: Name}, IsCustomer ? {name: Name} : Name]'\n")
	_, err := m.Apply(record(t, `{"ContactID": "c1", "Name": "N"}`))
	want := RecordError{connector.ReasonMappingFailed, 6,
		"The mapping's customer.people (line 6) does not work for this record: an element is not written as a { } block."}
	var got *RecordError
	if !errors.As(err, &got) || *got != want {
		t.Errorf("Apply = %v, want %v", err, want)
	}
}

func TestThePersonFunctionMakesAContact(t *testing.T) {
	t.Parallel()
	m := load(t, "version: 1\nsource: xero\nregion: GB\nkey: {id: ContactID}\ncustomer:\n  name: Name\n  people: 'map(emails(EmailAddress), person(Name, lower(#), phone(Phones, \"DEFAULT\")))'\n")
	got, err := m.Apply(record(t,
		`{"ContactID": "c1", "Name": "N", "EmailAddress": "A@b.example, c@d.example", "Phones": [{"PhoneType": "DEFAULT", "PhoneAreaCode": "0113", "PhoneNumber": "496 0123"}]}`))
	want := []connector.Person{{Name: "N", Email: "a@b.example", Phone: "+441134960123"},
		{Name: "N", Email: "c@d.example", Phone: "+441134960123"}}
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
		for _, name := range []string{r.String(), r.ISO3(), strings.ToLower(r.String()), display.English.Regions().Name(r),
			ownName(r)} {
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
