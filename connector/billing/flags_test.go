package billing_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/billing"
)

// A flag is ours where the mapping gives it and the dialect names it; any other keeps its bytes.
//
// covers F170
func TestFlagsOfContactsAreOursWhereTheyAreMapped(t *testing.T) {
	t.Parallel()
	named := func(d *billing.Dialect) {
		d.PersonPrimary, d.PersonComms = "isPrimaryContact", "isIncludedInCommunications"
	}
	key := map[string]string{"k": "1"}
	of := func(p connector.Person) connector.Customer {
		return connector.Customer{Name: "A", People: []connector.Person{p}, ExternalData: key}
	}
	ann := connector.Person{Name: "Ann", Email: "ann@x.example"}
	primary, quiet := ann, ann
	primary.Primary, quiet.Communication = "true", "false"
	const head, tail = `{"id":"c1","name":"A","people":[`, `],"externalData":{"k":"1"}}`
	for _, tt := range []struct {
		name, fetched string
		last, want    connector.Person
		turn          func(*billing.Dialect)
		body          string // the people of it; "" for no update
		diff          []connector.FieldChange
	}{
		{"unmapped flags stay", `{"name":"Ann","email":"ann@x.example","isPrimaryContact" : false,"isIncludedInCommunications":true}`, ann, ann, named, "", nil},
		{"a flag that nobody has named stays", `{"name":"Ann","email":"ann@x.example","isPrimaryContact":false}`, ann,
			primary, nil, "", nil},
		{"a mapped flag is written, beside one that is not ours",
			`{"name":"Ann","email":"ann@x.example","isPrimaryContact":false,"isIncludedInCommunications":true}`, ann, primary,
			named,
			`{"name":"Ann","email":"ann@x.example","isPrimaryContact":true,"isIncludedInCommunications":true}`,
			[]connector.FieldChange{{Path: "people[0].primary", From: "false", To: "true"}}},
		{"communication is turned off in sight", `{"name":"Ann","email":"ann@x.example","isIncludedInCommunications":true}`,
			ann, quiet, named,
			`{"name":"Ann","email":"ann@x.example","isIncludedInCommunications":false}`,
			[]connector.FieldChange{{Path: "people[0].communication", From: "true", To: "false"}}},
		{"what is as wanted is not sent", `{"name":"Ann","email":"ann@x.example","isPrimaryContact":true}`, ann, primary,
			named, "", nil},
		{"false may be left out by the service", `{"name":"Ann","email":"ann@x.example"}`, quiet, quiet, named, "", nil},
		{"a flag that is mapped no more stays as it is", `{"name":"Ann","email":"ann@x.example","isPrimaryContact":true}`,
			primary, ann, named, "", nil},
	} {
		c, last := offline(t, tt.turn), of(tt.last)
		fetched := connector.RemoteCustomer{ID: "c1", Raw: []byte(head + tt.fetched + tail)}
		body, changed, err := c.MergeCustomer(fetched, &last, of(tt.want), []string{"people"})
		want := ""
		if tt.body != "" {
			want = head + tt.body + tail
		}
		if err != nil || string(body) != want || changed != (want != "") {
			t.Errorf("%s: %s, %t, %v; want %s", tt.name, body, changed, err, want)
		}
		diff, err := c.MergeDiff(fetched, &last, of(tt.want), []string{"people"})
		if err != nil || cmp.Diff(tt.diff, diff) != "" {
			t.Errorf("%s: the plan shows %v, %v; want %v", tt.name, diff, err, tt.diff)
		}
		if tt.body == "" {
			continue
		}
		if missing, err := c.NotShown([]byte(head+tt.fetched+tail), of(tt.want), []string{"people"}); err != nil ||
			!cmp.Equal(missing, []string{tt.diff[0].Path}) {
			t.Errorf("%s: before the update %v, %v is not shown; want %s", tt.name, missing, err, tt.diff[0].Path)
		}
		if missing, err := c.NotShown(body, of(tt.want), []string{"people"}); err != nil || len(missing) > 0 {
			t.Errorf("%s: behind the update %v, %v is not shown", tt.name, missing, err)
		}
		if drift, err := c.Drift(fetched, &last, of(tt.want), []string{"people"}); err != nil ||
			cmp.Diff(tt.diff, drift) != "" {
			t.Errorf("%s: drift %v, %v; want %v", tt.name, drift, err, tt.diff)
		}
	}
}

// A customer has one primary contact: the service itself moves the flag, so that is no edit. Any other change
// is.
func TestThatThePrimaryContactMovesIsNobodysEdit(t *testing.T) {
	t.Parallel()
	c := offline(t, func(d *billing.Dialect) { d.PersonPrimary = "main" })
	want := connector.Customer{Name: "A",
		People: []connector.Person{{Name: "Ann", Email: "ann@x.example", Primary: "true"}}}
	const before = `{"people":[{"name":"Ann","email":"ann@x.example","main":false},{"name":"Zoe","email":"zoe@x.example","main":true}]}`
	for after, paths := range map[string][]string{
		`{"people":[{"name":"Ann","email":"ann@x.example","main":true},{"name":"Zoe","email":"zoe@x.example","main":false}]}`:   nil,
		`{"people":[{"name":"Ann","email":"ann@x.example","main":true},{"name":"Zoe","email":"zoe@x.example"}]}`:                nil,
		`{"people":[{"name":"Ann","email":"ann@x.example","main":true},{"name":"Zoe","email":"other@x.example","main":false}]}`: {"people[1]"},
	} {
		got, err := c.ForeignChanges([]byte(before), []byte(after), nil, want, []string{"people"})
		if err != nil || !slices.Equal(got, paths) {
			t.Errorf("%s: others changed %v, %v; want %v", after, got, err, paths)
		}
	}
}

func TestTheNamesOfFlagsAreMembersOfTheirOwn(t *testing.T) {
	t.Parallel()
	for name, turn := range map[string]func(*billing.Dialect){
		"another member of a person": func(d *billing.Dialect) { d.PersonPrimary = "email" },
		"give each its own name":     func(d *billing.Dialect) { d.PersonPrimary, d.PersonComms = "x", "x" },
		"is read-only":               func(d *billing.Dialect) { d.PersonComms, d.ReadOnly = "x", []string{"people.x"} },
		"is no name of a member":     func(d *billing.Dialect) { d.PersonComms = "people.x" },
	} {
		d := billing.Standard()
		turn(&d)
		if err := d.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %q, got %v", name, err)
		}
	}
	if unnamed := billing.Adfin().Unnamed(); len(unnamed) > 0 {
		t.Errorf("adfin leaves %v open", unnamed)
	}
}
