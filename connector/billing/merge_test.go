package billing_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/billing"
)

// offline returns a client for what needs no service.
func offline(t *testing.T, turn func(d *billing.Dialect)) *billing.Client {
	t.Helper()
	cfg := config(answers(500, "", ""))
	if turn != nil {
		turn(&cfg.Dialect)
	}
	return newClient(t, cfg)
}

func person(name, email, phone string) connector.Person {
	return connector.Person{Name: name, Email: email, Phone: phone}
}

// covers F10, F51, F55, S5, S6, G7
func TestMergeChangesWhatIsOursAndNothingElse(t *testing.T) {
	t.Parallel()
	key := map[string]string{"k": "1"}
	ann, bob := person("Ann Lee", "ann@x.example", "1"), person("Bob Ray", "bob@x.example", "2")
	tests := []struct {
		name    string
		fetched string
		last    *connector.Customer
		want    connector.Customer
		own     []string // nil for everything
		body    string   // "" for no change
		turn    func(d *billing.Dialect)
	}{
		{name: "nothing differs",
			fetched: `{"id":"c1", "name": "A", "people":[ {"name":"Ann Lee","email":"ann@x.example","phone":"1"} ],"externalData":{"k":"1"}}`,
			want:    connector.Customer{Name: "A", People: []connector.Person{ann}, ExternalData: key}},
		{name: "foreign members keep their bytes and places",
			fetched: `{"big": 12345678901234567890, "id":"c1","name":"A","x":{"b" : [1.50,null],"a":"\u0041 & <b>"},"externalData":{"k":"1","other" : 7}}`,
			want:    connector.Customer{Name: "B", ExternalData: key},
			body:    `{"big":12345678901234567890,"id":"c1","name":"B","x":{"b" : [1.50,null],"a":"\u0041 & <b>"},"externalData":{"k":"1","other" : 7}}`},
		{name: "read-only members are left out",
			fetched: `{"id":"c1","name":"A","directDebitMandate":{"id":"m"},"timezone":"UTC","externalData":{"k":"1"}}`,
			want:    connector.Customer{Name: "B", ExternalData: key},
			body:    `{"id":"c1","name":"B","externalData":{"k":"1"}}`},
		{name: "id in path",
			fetched: `{"id":"c1","name":"A","externalData":{"k":"1"}}`, want: connector.Customer{Name: "B", ExternalData: key},
			body: `{"name":"B","externalData":{"k":"1"}}`, turn: func(d *billing.Dialect) { d.Update = "path_id" }},
		{name: "a field that is not owned stays",
			fetched: `{"id":"c1","name":"A","people":[],"externalData":{"k":"1"}}`, own: []string{"addresses"},
			want: connector.Customer{Name: "B", People: []connector.Person{ann}, ExternalData: key}},
		{name: "the name is never blanked",
			fetched: `{"id":"c1","name":"A","externalData":{"k":"1"}}`, last: &connector.Customer{Name: "A"},
			want: connector.Customer{ExternalData: key}},
		{name: "our person in place, theirs untouched",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Zoe"},{"id":7,"email":"ANN@x.example","name":"Ann","isPrimaryContact":true}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{Name: "A", People: []connector.Person{person("Ann", "ann@x.example", "")}},
			want:    connector.Customer{Name: "A", People: []connector.Person{ann}, ExternalData: key},
			body:    `{"id":"c1","name":"A","people":[{"name":"Zoe"},{"id":7,"email":"ANN@x.example","name":"Ann Lee","isPrimaryContact":true,"phone":"1"}],"externalData":{"k":"1"}}`},
		{name: "the service's form of what was sent stays, a new value is sent",
			fetched: `{"id":"c1","name":"NORTH WIND","people":[{"email":"ann@x.example","name":"Ann Lee","phone":"+4930123456"}],"externalData":{"k":"1"}}`,
			last: &connector.Customer{Name: "North Wind",
				People: []connector.Person{person("Ann Lee", "ann@x.example", "+49 30 123456")}},
			want: connector.Customer{Name: "North Wind",
				People: []connector.Person{person("Ann Mary Lee", "ann@x.example", "+49 30 123456")}, ExternalData: key},
			body: `{"id":"c1","name":"NORTH WIND","people":[{"email":"ann@x.example","name":"Ann Mary Lee","phone":"+4930123456"}],"externalData":{"k":"1"}}`},
		{name: "another form of a value that was not sent before is sent",
			fetched: `{"id":"c1","name":"NORTH WIND","externalData":{"k":"1"}}`,
			last:    &connector.Customer{Name: "NORTH WIND"},
			want:    connector.Customer{Name: "North Wind", ExternalData: key},
			body:    `{"id":"c1","name":"North Wind","externalData":{"k":"1"}}`},
		{name: "the element's own spelling",
			fetched: `{"id":"c1","name":"A","people":[{"firstName":"Ann","lastName":"Old","email":"ann@x.example"}],"externalData":{"k":"1"}}`,
			want:    connector.Customer{Name: "A", People: []connector.Person{ann}, ExternalData: key},
			body:    `{"id":"c1","name":"A","people":[{"firstName":"Ann","lastName":"Lee","email":"ann@x.example","phoneNo":"1"}],"externalData":{"k":"1"}}`},
		{name: "both spellings at once are kept alike",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Ann Old","lastName":"Old","email":"ann@x.example","phoneNo":"1"}],"externalData":{"k":"1"}}`,
			want:    connector.Customer{Name: "A", People: []connector.Person{ann}, ExternalData: key},
			body:    `{"id":"c1","name":"A","people":[{"name":"Ann Lee","lastName":"Lee","email":"ann@x.example","phoneNo":"1","firstName":"Ann"}],"externalData":{"k":"1"}}`},
		{name: "a new person in the dialect's spelling",
			fetched: `{"id":"c1","name":"A","people":null,"externalData":{"k":"1"}}`,
			want: connector.Customer{Name: "A", People: []connector.Person{person("Ann Mary Lee", "ann@x.example", "")},
				ExternalData: key},
			body: `{"id":"c1","name":"A","people":[{"firstName":"Ann Mary","lastName":"Lee","email":"ann@x.example"}],"externalData":{"k":"1"}}`,
			turn: func(d *billing.Dialect) { d.PersonFields = "long" }},
		{name: "our person is removed, theirs stays",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Ann Lee","email":"ann@x.example"},{"name":"Bob Ray","email":"bob@x.example"}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{People: []connector.Person{ann}},
			want:    connector.Customer{Name: "A", ExternalData: key},
			body:    `{"id":"c1","name":"A","people":[{"name":"Bob Ray","email":"bob@x.example"}],"externalData":{"k":"1"}}`},
		{name: "once removed, nobody else is taken for them",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Bob Ray","email":"bob@x.example"}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{People: []connector.Person{ann}},
			want:    connector.Customer{Name: "A", ExternalData: key}},
		{name: "of two who share an address, the one with our name is removed",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Bob Ray","email":"ann@x.example"},{"name":"Ann Lee","email":"ann@x.example"}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{People: []connector.Person{ann}},
			want:    connector.Customer{Name: "A", ExternalData: key},
			body:    `{"id":"c1","name":"A","people":[{"name":"Bob Ray","email":"ann@x.example"}],"externalData":{"k":"1"}}`},
		{name: "one who shares the address and has another name stays",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Bob","email":"ann@x.example"}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{People: []connector.Person{ann}},
			want:    connector.Customer{Name: "A", ExternalData: key}},
		{name: "without an address, only one who looks as we wrote them is removed",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Ann","phone":"1"},{"name":"Bob","phone":"9"}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{People: []connector.Person{person("Ann", "", "1"), person("Bob", "", "2")}},
			want:    connector.Customer{Name: "A", ExternalData: key},
			body:    `{"id":"c1","name":"A","people":[{"name":"Bob","phone":"9"}],"externalData":{"k":"1"}}`},
		{name: "a changed address moves the person, not the contact",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Ann Lee","email":"ann@x.example","vip":1}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{People: []connector.Person{ann}},
			want: connector.Customer{Name: "A", People: []connector.Person{person("Ann Lee", "lee@x.example", "1")},
				ExternalData: key},
			body: `{"id":"c1","name":"A","people":[{"name":"Ann Lee","email":"lee@x.example","vip":1,"phone":"1"}],"externalData":{"k":"1"}}`},
		{name: "by place, when somebody changed the address of ours",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Ann Lee","email":"typo@x.example"}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{People: []connector.Person{ann}},
			want: connector.Customer{Name: "A", People: []connector.Person{person("Ann Lee", "lee@x.example", "")},
				ExternalData: key},
			body: `{"id":"c1","name":"A","people":[{"name":"Ann Lee","email":"lee@x.example"}],"externalData":{"k":"1"}}`},
		{name: "two swap places",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Ann Lee","email":"ann@x.example","phone":"1"},{"name":"Bob Ray","email":"bob@x.example","phone":"2"}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{People: []connector.Person{ann, bob}},
			want:    connector.Customer{Name: "A", People: []connector.Person{bob, ann}, ExternalData: key}},
		{name: "a value we wrote is removed when it is blank now",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Ann Lee","email":"ann@x.example","phone":"1"}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{People: []connector.Person{ann}},
			want: connector.Customer{Name: "A", People: []connector.Person{person("Ann Lee", "ann@x.example", "")},
				ExternalData: key},
			body: `{"id":"c1","name":"A","people":[{"name":"Ann Lee","email":"ann@x.example"}],"externalData":{"k":"1"}}`},
		{name: "a value we never wrote is not",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Ann Lee","email":"ann@x.example","phone":"1"}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{People: []connector.Person{person("Ann Lee", "ann@x.example", "")}},
			want: connector.Customer{Name: "A", People: []connector.Person{person("Ann Lee", "ann@x.example", "")},
				ExternalData: key}},
		{name: "nor one found at adoption",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Ann","email":"ann@x.example","phone":"9"}],"externalData":{"k":"1"}}`,
			want: connector.Customer{Name: "A", People: []connector.Person{person("", "ann@x.example", "")},
				ExternalData: key}},
		{name: "a foreign address takes ours",
			fetched: `{"id":"c1","name":"A","addresses":[{"id":"a7","addressLine1":"Old St","country":"UK","addressLine2":"Flat 1"}],"externalData":{"k":"1"}}`,
			want: connector.Customer{Name: "A",
				Addresses: []connector.Address{{Line1: "High St", City: "Leeds", PostCode: "LS1"}}, ExternalData: key},
			body: `{"id":"c1","name":"A","addresses":[{"id":"a7","addressLine1":"High St","country":"UK","addressLine2":"Flat 1","city":"Leeds","postalCode":"LS1"}],"externalData":{"k":"1"}}`},
		{name: "our address is removed",
			fetched: `{"id":"c1","name":"A","addresses":[{"line1":"High St"}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{Addresses: []connector.Address{{Line1: "High St"}}},
			want:    connector.Customer{Name: "A", ExternalData: key},
			body:    `{"id":"c1","name":"A","addresses":[],"externalData":{"k":"1"}}`},
		{name: "another address is not",
			fetched: `{"id":"c1","name":"A","addresses":[{"line1":"Low St"}],"externalData":{"k":"1"}}`,
			last:    &connector.Customer{Addresses: []connector.Address{{Line1: "High St"}}},
			want:    connector.Customer{Name: "A", ExternalData: key}},
		{name: "pairs in a list",
			fetched: `{"id":"c1","name":"A","externalData":[{"key":"other","value":"x"},{"key":"k","value":"0","by":"us"}]}`,
			want:    connector.Customer{Name: "A", ExternalData: map[string]string{"k": "1", "t": "2"}},
			body:    `{"id":"c1","name":"A","externalData":[{"key":"other","value":"x"},{"key":"k","value":"1","by":"us"},{"key":"t","value":"2"}]}`},
		{name: "connectors, spelt as the service likes",
			fetched: `{"id":"c1","name":"A","externalData":[{"connectorType":"Xero","id":"0","name":"Acme"},{"connectorType":"QuickBooks","id":"q"}]}`,
			want:    connector.Customer{Name: "A", ExternalData: map[string]string{"XERO": "1"}},
			body:    `{"id":"c1","name":"A","externalData":[{"connectorType":"Xero","id":"1","name":"Acme"},{"connectorType":"QuickBooks","id":"q"}]}`},
		{name: "one connector, which is another's",
			fetched: `{"id":"c1","name":"A","externalData":{"connectorType":"QuickBooks","id":"q"}}`,
			want:    connector.Customer{Name: "A", ExternalData: map[string]string{"XERO": "1"}},
			body:    `{"id":"c1","name":"A","externalData":[{"connectorType":"QuickBooks","id":"q"},{"connectorType":"XERO","id":"1"}]}`},
		{name: "a pair of ours that is no longer wanted",
			fetched: `{"id":"c1","name":"A","externalData":{"k":"1","old":"x","theirs":null}}`,
			last:    &connector.Customer{ExternalData: map[string]string{"k": "1", "old": "x"}},
			want:    connector.Customer{Name: "A", ExternalData: key},
			body:    `{"id":"c1","name":"A","externalData":{"k":"1","theirs":null}}`},
		{name: "no externalData yet",
			fetched: `{"id":"c1","name":"A","externalData":null}`, want: connector.Customer{Name: "A", ExternalData: key},
			body: `{"id":"c1","name":"A","externalData":[{"key":"k","value":"1"}]}`,
			turn: func(d *billing.Dialect) { d.ExternalData = "list" }},
		{name: "read-only members of elements",
			fetched: `{"id":"c1","name":"A","people":[{"email":"z@x.example","validForEmailCommunication":true}],"externalData":{"XERO":"1"},"lastUpdatedTime":"x"}`,
			want:    connector.Customer{Name: "B", ExternalData: map[string]string{"XERO": "1"}},
			body:    `{"id":"c1","name":"B","people":[{"email":"z@x.example"}],"externalData":{"XERO":"1"}}`,
			turn: func(d *billing.Dialect) {
				d.ReadOnly = billing.Adfin().ReadOnly
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			own := tt.own
			if own == nil {
				own = everything
			}
			client := offline(t, tt.turn)
			body, changed, err := client.MergeCustomer(connector.RemoteCustomer{ID: "c1", Raw: json.RawMessage(tt.fetched)},
				tt.last, tt.want, own)
			if err != nil || changed != (tt.body != "") {
				t.Fatalf("changed %v, error %v", changed, err)
			}
			if diff := cmp.Diff(tt.body, string(body)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if !changed {
				return
			}
			if again, changed, err := client.MergeCustomer(connector.RemoteCustomer{ID: "c1", Raw: body}, tt.last, tt.want,
				own); changed || err != nil {
				t.Errorf("merged once more it still differs: %s, %v", again, err)
			}
		})
	}
}

// covers F90
func TestMergeRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	client := offline(t, nil)
	for _, raw := range []string{``, `[]`, `{"id":"c1","ID":"c2"}`, `{"id":"c1","people":{"name":"x"}}`,
		`{"id":"c1","externalData":"x"}`} {
		_, _, err := client.MergeCustomer(connector.RemoteCustomer{ID: "c1", Raw: json.RawMessage(raw)}, nil, northwind(),
			everything)
		if err == nil || !strings.HasPrefix(err.Error(), "merge customer c1: ") {
			t.Errorf("%s: error %v", raw, err)
		}
	}
	_, _, err := client.MergeCustomer(connector.RemoteCustomer{ID: "c1", Raw: json.RawMessage(`{}`)}, nil, northwind(),
		[]string{"phone"})
	if err == nil || !strings.Contains(err.Error(), `"phone"`) {
		t.Errorf("unknown field in own: error %v", err)
	}
}

// covers F11
func TestForeignChangesNamesWhatSomebodyElseChanged(t *testing.T) {
	t.Parallel()
	const before = `{"id":"c1","name":"A","at":"2026-11-20T09:00:00Z","rev":7,"n":1.0,"x":{"y":[1,2]},"timezone":"UTC","people":[{"name":"Zoe","email":"zoe@x.example"},{"name":"Ann","email":"ann@x.example","vip":true}],` +
		`"addresses":[{"line1":"Low St","id":"a1"}],"externalData":{"k":"1","theirs":"t"}}`
	last := &connector.Customer{Name: "A", People: []connector.Person{person("Ann", "ann@x.example", "")},
		ExternalData: map[string]string{"k": "1"}}
	want := connector.Customer{
		Name: "B", People: []connector.Person{person("Ann", "ann@x.example", "5"), person("New", "new@x.example", "")},
		Addresses: []connector.Address{{Line1: "High St"}}, ExternalData: map[string]string{"k": "1"},
	}
	const after = `{"id":"c1","name":"B","at":"2026-11-20T09:00:00Z","rev":7,"n":1.0,"x":{"y":[1,2]},"timezone":"CET","people":[{"email":"zoe@x.example","name":"Zoe"},{"name":"Ann","email":"ann@x.example","vip":true,"phone":"5"},{"id":9,"firstName":"New","email":"new@x.example"}],` +
		`"addresses":[{"line1":"High St","id":"a1"}],"externalData":[{"key":"k","value":"1"},{"key":"theirs","value":"t"}]}`
	tests := []struct {
		name, from, to string
		want           []string
	}{
		{"only ours", ``, ``, nil},
		{"a number spelt otherwise", `"n":1.0`, `"n":1`, []string{"n"}},
		{"a time that moved on", `"at":"2026-11-20T09:00:00Z","rev":7`, `"at":"2026-11-20T09:00:05Z","rev":7`, nil},
		{"a count of updates", `"rev":7`, `"rev":8`, nil},
		{"a time that went back", `"at":"2026-11-20T09:00:00Z"`, `"at":"2026-11-19T09:00:00Z"`, []string{"at"}},
		{"deep in a list", `[1,2]`, `[1,4]`, []string{"x.y[1]"}},
		{"a longer list", `[1,2]`, `[1,2,3]`, []string{"x.y[2]"}},
		{"a member that is gone", `"n":1.0,`, ``, []string{"n"}},
		{"a member that is new", `"n":1.0`, `"n":1.0,"new":null`, []string{"new"}},
		{"their person", `"name":"Zoe"`, `"name":"Zoë"`, []string{"people[0]"}},
		{"their person gone", `{"email":"zoe@x.example","name":"Zoe"},`, ``, []string{"people[0]"}},
		{"one more person", `"email":"new@x.example"}`, `"email":"new@x.example"},{"name":"Eve"}`, []string{"people[3]"}},
		{"their member of our person", `"vip":true`, `"vip":false`, []string{"people[1].vip"}},
		{"our own member", `"phone":"5"`, `"phone":"6"`, nil},
		{"their member of our address", `"id":"a1"`, `"id":"a2"`, []string{"addresses[0].id"}},
		{"their pair", `"value":"t"`, `"value":"u"`, []string{"externalData.theirs"}},
		{"our pair", `"value":"1"`, `"value":"2"`, nil},
		{"another customer", `"id":"c1"`, `"id":"c2"`, []string{"id"}},
	}
	client := offline(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			changed := strings.Replace(after, tt.from, tt.to, 1)
			got, err := client.ForeignChanges([]byte(before), []byte(changed), last, want, everything)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForeignChangesComparesListsThatAreNotOurs(t *testing.T) {
	t.Parallel()
	got, err := offline(t, nil).ForeignChanges(
		[]byte(`{"id":"c1","name":"A","people":[{"name":"Ann"}]}`),
		[]byte(`{"id":"c1","name":"B","people":[{"name":"Eve"}]}`),
		nil, connector.Customer{Name: "A"}, []string{"addresses"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"name", "people[0].name"}, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

// covers F07
func TestCreateBodyIsTheSameEveryTimeAndHoldsTheKey(t *testing.T) {
	t.Parallel()
	want := connector.Customer{
		Name: "A & <B>", People: []connector.Person{person("Ann Mary Lee", "ann@x.example", ""), {},
			{FirstName: "Bo", LastName: "Ek", Phone: "3"}, {Name: "Cher"}},
		Addresses:    []connector.Address{{Line1: "High St", PostCode: "LS1", Country: "UK"}},
		ExternalData: map[string]string{"XERO": "1"},
	}
	two := map[string]string{"z": "26", "a": "1"}
	tests := []struct {
		name  string
		turn  func(d *billing.Dialect)
		pairs map[string]string
		body  string
	}{
		{"short", nil, nil, `{"name":"A & <B>","people":[{"name":"Ann Mary Lee","email":"ann@x.example"},{"name":"Bo Ek","phone":"3"},{"name":"Cher"}],` +
			`"addresses":[{"line1":"High St","postCode":"LS1"}],"externalData":{"XERO":"1"}}`},
		{"long", func(d *billing.Dialect) { *d = billing.Adfin(); d.APIAuth = "client_credentials" }, nil,
			`{"name":"A & <B>","people":[{"firstName":"Ann Mary","lastName":"Lee","email":"ann@x.example"},{"firstName":"Bo","lastName":"Ek","phoneNo":"3"},{"firstName":"Cher"}],` +
				`"addresses":[{"addressLine1":"High St","postalCode":"LS1","country":"UK"}],"externalData":{"connectorType":"XERO","id":"1"}}`},
		{"several pairs", nil, two, `"externalData":{"a":"1","z":"26"}}`},
		{"several pairs in a list", func(d *billing.Dialect) { d.ExternalData = "list" }, two,
			`"externalData":[{"key":"a","value":"1"},{"key":"z","value":"26"}]}`},
		{"several connectors", func(d *billing.Dialect) { d.ExternalData = "object" }, two,
			`"externalData":[{"connectorType":"a","id":"1"},{"connectorType":"z","id":"26"}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client, customer := offline(t, tt.turn), want
			if tt.pairs != nil {
				customer.ExternalData = tt.pairs
			}
			for range 20 {
				body, err := client.CreateBody(customer)
				if err != nil || !strings.HasSuffix(string(body), tt.body) {
					t.Fatalf("body, %v\n got %s\nwant %s", err, body, tt.body)
				}
			}
		})
	}
	client := offline(t, func(d *billing.Dialect) { d.ExternalData = "object" })
	for _, pairs := range []map[string]string{nil, {"Xero": "1"}} {
		if body, err := client.CreateBody(connector.Customer{Name: "A", ExternalData: pairs}); err == nil {
			t.Errorf("pairs %v gave %s", pairs, body)
		}
	}
}

// A revision counted by the service at every update is no edit; any other number one higher may be.
func TestANumberThatGrewByOneIsNoEditOnlyWhereItIsARevision(t *testing.T) {
	t.Parallel()
	for member, edited := range map[string]bool{
		"version": false, "revision": false, "lockVersion": false, "row_version": false, "etag": false, "updates": false,
		"rev2":       false,
		"creditDays": true, "employees": true, "level": true, "overview": true, "reviewLevel": true, "conversion": true,
	} {
		for _, shape := range []string{`{"name":"A","%s":%d}`, `{"name":"A","details":{"%s":%d}}`,
			`{"name":"A","list":[{"%s":%d}]}`} {
			paths, err := offline(t, nil).ForeignChanges(fmt.Appendf(nil, shape, member, 4), fmt.Appendf(nil, shape, member, 5),
				nil, connector.Customer{Name: "A"}, []string{"name"})
			if err != nil || len(paths) > 0 != edited {
				t.Errorf("%s from 4 to 5 in %s: changed by others %v, want %t (%v)", member, shape, paths, edited, err)
			}
			if paths, _ := offline(t, nil).ForeignChanges(fmt.Appendf(nil, shape, member, 4), fmt.Appendf(nil, shape, member, 7),
				nil, connector.Customer{Name: "A"}, []string{"name"}); len(paths) == 0 {
				t.Errorf("%s from 4 to 7 in %s is not told", member, shape)
			}
		}
	}
}
