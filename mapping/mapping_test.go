package mapping

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"payersync/connector"
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
	fields := textFields("ContactID", "Name", "FirstName", "LastName", "EmailAddress", "ContactStatus", "DefaultCurrency",
		"Post Code", "phone")
	fields = append(fields,
		connector.Field{Name: "IsCustomer", Type: connector.TypeFlag},
		connector.Field{Name: "Balance", Type: connector.TypeNumber},
		connector.Field{Name: "Tags", Type: connector.TypeList},
		connector.Field{Name: "Org", Type: connector.TypeObject, Fields: textFields("Vat")},
		connector.Field{Name: "Phones", Type: connector.TypeList,
			Fields: textFields("PhoneType", "PhoneNumber", "PhoneAreaCode", "PhoneCountryCode")},
		connector.Field{Name: "Addresses", Type: connector.TypeList,
			Fields: textFields("AddressType", "AddressLine1", "City", "PostalCode")},
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
	got, err := m.Apply(record(t,
		`{"ContactID": "c1", "Name": " Northwind ", "IsCustomer": true, "ContactStatus": "ACTIVE",
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
		// 512 bytes, and its name
		{"endless key", `Name`, `{"ContactID": "` + strings.Repeat("Jane Roe", 64) + `", "Name": "N"}`,
			RecordError{connector.ReasonMappingFailed, 3, "The key id is longer than 512 bytes (mapping line 3)."}},
		{"list for a text", `Name`, `{"ContactID": "c1", "Name": ["Jane Roe"]}`,
			RecordError{connector.ReasonMappingFailed, 0, "The field Name holds a list where a text is declared."}},
		{"text for a list", `join(Tags, " ")`, `{"ContactID": "c1", "Tags": "Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 0, "The field Tags holds a text where a list is declared."}},
		{"text inside an object", `Org.Vat`, `{"ContactID": "c1", "Org": {"Vat": {"Jane Roe": 1}}}`,
			RecordError{connector.ReasonMappingFailed, 0,
				"The field Org holds a block of fields where a text is declared (in Vat)."}},
		{"text for a number", `Balance > 1 ? "a" : "b"`, `{"ContactID": "c1", "Balance": "Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 0, "The field Balance holds a text where a number is declared."}},
		{"text for a flag", `IsCustomer ? "a" : "b"`, `{"ContactID": "c1", "IsCustomer": "Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 0, "The field IsCustomer holds a text where true or false is declared."}},
		{"endless text", `Name`, `{"ContactID": "c1", "Name": "` + strings.Repeat("Jane Roe", 5000) + `"}`,
			RecordError{connector.ReasonMappingFailed, 0,
				"The field Name holds a text that is longer than 32768 bytes, or broken."}},
		{"long list", `join(Tags, " ")`, `{"ContactID": "c1", "Tags": [` + strings.Repeat(`"Jane Roe",`, 2000) + `""]}`,
			RecordError{connector.ReasonMappingFailed, 0, "The field Tags holds a list of more than 1000 elements."}},
		{"other than declared by the expression", `{a: IsCustomer}.a`, `{"ContactID": "c1", "Name": "Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 5,
				"The mapping's customer.name (line 5) does not work for this record: it does not give a text."}},
		{"wrong inside a function", `trim({a: Balance}.a)`, `{"ContactID": "c1", "Balance": 1}`,
			RecordError{connector.ReasonMappingFailed, 5,
				"The mapping's customer.name (line 5) does not work for this record: a text is needed where there is something else."}},
		{"no date", `date(Name, "DD/MM/YYYY")`, `{"ContactID": "c1", "Name": "31/02/2024 Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 5,
				"The mapping's customer.name (line 5) does not work for this record: a text is no date of the form DD/MM/YYYY."}},
		{"no number", `number(Name) > 1 ? "a" : "b"`, `{"ContactID": "c1", "Name": "1,23 Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 5,
				"The mapping's customer.name (line 5) does not work for this record: a text is no number."}},
		{"division by nothing", `5 % len(Tags) == 1 ? "a" : "b"`, `{"ContactID": "c1", "Name": "Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 5,
				"The mapping's customer.name (line 5) does not work for this record: a number is divided by 0."}},
		{"growing text", `replace(Name, "J", Name)`, `{"ContactID": "c1", "Name": "` + strings.Repeat("J", 3000) +
			` Jane Roe"}`,
			RecordError{connector.ReasonMappingFailed, 5,
				"The mapping's customer.name (line 5) does not work for this record: a text grows beyond 32768 bytes."}},
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
	for _, name := range slices.Concat(slices.Collect(maps.Keys(functions)),
		[]string{"filter", "map", "any", "count", "len", "field"}) {
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
		connector.Field{Name: "Phones", Type: connector.TypeList,
			Fields: textFields("PhoneType", "PhoneCountryCode", "PhoneAreaCode", "PhoneNumber")},
		connector.Field{Name: "Addresses", Type: connector.TypeList, Fields: textFields("AddressType", "City")})
	return connector.SourceInfo{Kind: "xero", Fields: fields}
}

func TestTheReadmesFilesLoad(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	src := connector.SourceInfo{Kind: "csv",
		Fields: textFields("AccountNumber", "Name", "Email", "Address", "City", "Post Code", "Second Address", "Second City")}
	files := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		yaml := block[1]
		switch {
		case strings.HasPrefix(yaml, "customer:"):
			yaml = "version: 1\nsource: csv\nkey: {id: Name}\n" +
				strings.Replace(yaml, "customer:\n", "customer:\n  name: Name\n", 1)
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
				got, err := m.Apply(connector.Record{Data: []byte(`{"ContactID": "` + key + `", "Name": "` + key +
					`", "IsCustomer": true, "ContactStatus": "ACTIVE"}`)})
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
		value := rapid.OneOf(rapid.Just[any](nil), rapid.String().AsAny(), rapid.Int().AsAny(), rapid.Bool().AsAny(),
			rapid.SliceOfN(rapid.String(), 0, 3).AsAny(), rapid.MapOfN(rapid.String(), rapid.String(), 0, 2).AsAny())
		names := []string{"ContactID", "Name", "FirstName", "EmailAddress", "IsCustomer", "ContactStatus", "Phones",
			"Addresses", "DefaultCurrency"}
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
