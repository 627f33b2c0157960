package mapping

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"payersync/connector"
)

const explained = `version: 1
source: xero
key: {id: ContactID}
include: IsCustomer
customer:
  name: trim(Name)
  people:
    - {email: lower(EmailAddress), name: 'IsCustomer ? coalesce(FirstName, field("phone")) : "nobody"'}
  addresses: '[{city: Org.Vat}]'
externalData: {tenant: tenant}
mandate: {request: 'customer.people[0].email != ""'}
`

func TestExplainTellsWhatEveryRuleReadAndGave(t *testing.T) {
	t.Parallel()
	m := load(t, explained)
	r := record(t, `{"ContactID": 17, "IsCustomer": true, "Name": " A & B ", "Org": {"Vat": null, "More": 1}, "phone": "0113"}`)
	got := m.Explain(r)
	customer := `{"name":"A & B","people":[{"name":"0113"}],"externalData":{"id":"17","tenant":"tenant-1"}}`
	want := []Rule{
		{Path: "include", Line: 4, Text: "IsCustomer", Inputs: []Input{{"IsCustomer", "true"}}, Value: "true"},
		{Path: "key.id", Line: 3, Text: "ContactID", Inputs: []Input{{"ContactID", "17"}}, Value: "17"},
		{Path: "customer.name", Line: 6, Text: "trim(Name)", Inputs: []Input{{"Name", " A & B "}}, Value: "A & B"},
		{Path: "customer.people[0].name", Line: 8, Text: `IsCustomer ? coalesce(FirstName, field("phone")) : "nobody"`,
			Inputs: []Input{{"IsCustomer", "true"}, {"FirstName", ""}, {"phone", "0113"}}, Value: "0113"},
		{Path: "customer.people[0].email", Line: 8, Text: "lower(EmailAddress)", Inputs: []Input{{"EmailAddress", ""}},
			Blank: true},
		{Path: "customer.addresses", Line: 9, Text: "[{city: Org.Vat}]", Inputs: []Input{{"Org", `{"Vat": null, "More": 1}`}},
			Value: `[{"city":""}]`, Blank: true},
		{Path: "externalData.tenant", Line: 10, Text: "tenant", Inputs: []Input{{"tenant", "tenant-1"}}, Value: "tenant-1"},
		{Path: "mandate.request", Line: 11, Text: `customer.people[0].email != ""`, Inputs: []Input{{"customer", customer}},
			Value: "false", Blank: true},
	}
	if diff := cmp.Diff(want, got.Rules); diff != "" {
		t.Errorf("Explain differs (-want +got):\n%s", diff)
	}
	applied, err := m.Apply(r)
	if diff := cmp.Diff(Explanation{Result: applied, Err: err}, got,
		cmpopts.IgnoreFields(Explanation{}, "Rules")); diff != "" {
		t.Errorf("Explain and Apply differ (-Apply +Explain):\n%s", diff)
	}
}

func TestExplainMarksWhereARecordFailedAndWhatDidNotRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, data, failed, err string
		ran                     int
	}{
		{"no payer", `{"IsCustomer": false}`, "", "", 1},
		{"blank key", `{"IsCustomer": true, "Name": "N"}`, "key.id", "The key id is blank (mapping line 3).", 2},
		{"text for a list", `{"Org": "x"}`, "", "", 0},
		{"no object", `[1]`, "", "", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := load(t, explained).Explain(record(t, test.data))
			for i, r := range got.Rules {
				if r.Skipped != (i >= test.ran) {
					t.Errorf("%s: Skipped = %v", r.Path, r.Skipped)
				}
				if want := map[bool]string{true: test.err}[r.Path == test.failed]; r.Err != want {
					t.Errorf("%s: Err = %q, want %q", r.Path, r.Err, want)
				}
			}
		})
	}
}

func TestExplainMarksARuleThatDoesNotWork(t *testing.T) {
	t.Parallel()
	got := load(t, named("{a: IsCustomer}.a")).Explain(record(t, `{"ContactID": "c1"}`))
	want := Rule{Path: "customer.name", Line: 5, Text: "{a: IsCustomer}.a", Inputs: []Input{{"IsCustomer", ""}},
		Err: "The mapping's customer.name (line 5) does not work for this record: it does not give a text."}
	if diff := cmp.Diff(want, got.Rules[1]); diff != "" || got.Err == nil {
		t.Errorf("Explain = %v, differs (-want +got):\n%s", got.Err, diff)
	}
}

func TestExplainNamesAFieldThatIsCalledLikeAVariable(t *testing.T) {
	t.Parallel()
	src := xero()
	src.Fields = append(src.Fields, connector.Field{Name: "tenant", Type: connector.TypeText})
	m, err := Load("mapping.yaml", []byte(named(`field("tenant") + tenant`)), src)
	if err != nil {
		t.Fatal(err)
	}
	got := m.Explain(record(t, `{"ContactID": "c1", "tenant": "the field"}`)).Rules[1].Inputs
	if diff := cmp.Diff([]Input{{"tenant", "the field"}, {"tenant", "tenant-1"}}, got); diff != "" {
		t.Errorf("Inputs differ (-want +got):\n%s", diff)
	}
}

func TestReservedNamesAreThoseThatMustBeWrittenWithField(t *testing.T) {
	t.Parallel()
	names := []string{"Name", "phone", "country", "len", "map", "Straße", "_x", "tenant", "customer", "in", "not", "let",
		"true", "nil", "Post Code", "*Name", "2nd", "a.b", ""}
	src := connector.SourceInfo{Kind: "xero", Fields: append(textFields("ContactID"), textFields(names...)...)}
	for i, name := range names {
		if got := Reserved(name); got != (i > 6) {
			t.Errorf("Reserved(%q) = %v", name, got)
			continue
		}
		if name == "" {
			continue
		}
		expression := map[bool]string{false: name, true: fmt.Sprintf("field(%q)", name)}[Reserved(name)]
		m, err := Load("mapping.yaml", []byte(named(expression)), src)
		if err != nil {
			t.Errorf("Load of %s: %v", expression, err)
			continue
		}
		data, _ := json.Marshal(map[string]string{"ContactID": "c1", name: "value of " + name})
		if got, err := m.Apply(connector.Record{Data: data}); err != nil || got.Customer.Name != "value of "+name {
			t.Errorf("%s gives %q, %v", expression, got.Customer.Name, err)
		}
	}
}
