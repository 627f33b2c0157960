package mapping

import (
	"testing"

	"payersync/connector"
)

func TestFillerWordsAreNoValues(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"NULL": "", " NULL ": "", "#N/A": "", "None": "", "*None": "", `\N`: "", "(null)": "", "nan": "", "#WERT!": "",
		"------": "", `=""`: "", `="NULL"`: "",
		`="01067"`: "01067", `="say ""hi"""`: `say "hi"`, "'01067": "01067", "'+49 351 47110": "+49 351 47110", "'-5": "-5",
		"Null": "Null", "Nan": "Nan", "'s-Hertogenbosch": "'s-Hertogenbosch", "'90s Records": "'90s Records",
		"None Such Ltd": "None Such Ltd", " Ann ": " Ann ", "-": "-", "": "", `="a"&"b"`: `="a"&"b"`,
	} {
		if got := Value(cell); got != want {
			t.Errorf("Value(%q) = %q, want %q", cell, got, want)
		}
	}
}

// covers F281
func TestAFillerWordIsBlankInEveryFieldAndHoldsACustomerWithoutAName(t *testing.T) {
	t.Parallel()
	m, err := Load("m.yaml", []byte(`version: 1
source: csv
key: {n: trim(No)}
scope: tenant
customer:
  name: coalesce(trim(Company), join([First, Last], " "))
  people: [{name: 'join([First, Last], " ")', email: firstEmail(Email), phone: phone(Phone)}]
  addresses: [{line1: Street, city: City, postCode: Zip}]
`), connector.SourceInfo{Kind: "csv", Organisation: "org",
		Fields: textFields("No", "Company", "First", "Last", "Email", "Phone", "Street", "City", "Zip")})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		data string
		want connector.Customer
	}{
		"null": {`{"No":"1","Company":"NULL","First":"Bob","Last":"Moss","Email":"NULL","Phone":"NULL","Street":"NULL","City":"NULL","Zip":"NULL"}`, connector.Customer{Name: "Bob Moss", People: []connector.Person{{Name: "Bob Moss"}}}},
		"guarded": {`{"No":"'7","Company":"=\"A Ltd\"","First":"#N/A","Last":"None","Zip":"'01067"}`,
			connector.Customer{Name: "A Ltd", Addresses: []connector.Address{{PostCode: "01067"}}}},
		"nobody": {`{"No":"1","Company":"#NAME?","First":"nan","Last":"NULL"}`, connector.Customer{}},
		"lines": {`{"No":"1","Company":"A Ltd","Street":"Unit 4\r\n1 Quay St","Phone":"+44 113 496 0105\n+44 7700 900105"}`,
			connector.Customer{Name: "A Ltd", People: []connector.Person{{Phone: "+441134960105"}},
				Addresses: []connector.Address{{Line1: "Unit 4, 1 Quay St"}}}},
		"not a one": {`{"No":"1","Company":"A Ltd","Phone":"call Bob\nor Ann"}`,
			connector.Customer{Name: "A Ltd", People: []connector.Person{{Phone: "call Bob, or Ann"}}}},
		"edges": {`{"No":"1","Company":"A Ltd","Email":"\ufeff“a@a.example”"}`,
			connector.Customer{Name: "A Ltd", People: []connector.Person{{Email: "a@a.example"}}}},
		"two names": {`{"No":"1","Company":"A Ltd\nt/a B\u2029","Email":"MAILTO:a@a.example."}`,
			connector.Customer{Name: "A Ltd, t/a B", People: []connector.Person{{Email: "a@a.example"}}}},
		"Mr Null": {`{"No":"1","First":"Ann","Last":"Null"}`,
			connector.Customer{Name: "Ann Null", People: []connector.Person{{Name: "Ann Null"}}}},
		"two labels": {`{"No":"1","Company":"A Ltd","Phone":"Phone:+44 113 496 0105 Mobile: +44 7700 900105"}`,
			connector.Customer{Name: "A Ltd", People: []connector.Person{{Phone: "+441134960105"}}}},
	} {
		got, err := m.Apply(record(t, tt.data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got.Customer.ExternalData = nil
		if d := connector.Diff(tt.want, got.Customer); len(d) > 0 {
			t.Errorf("%s: %+v", name, d)
		}
		if held := got.Customer.Problems(); (len(held) > 0) != (tt.want.Name == "") {
			t.Errorf("%s: problems %v", name, held)
		}
	}
	if _, err := m.Apply(record(t, `{"No":"NULL","Company":"A Ltd"}`)); err == nil {
		t.Error("a filler word is a key")
	}
}
