package mapping

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCoverageCountsWhatFiredAndNamesWhatNeverDid(t *testing.T) {
	t.Parallel()
	c := load(t, explained).NewCoverage()
	for _, data := range []string{
		`{"ContactID": "1", "IsCustomer": true, "Name": "A", "FirstName": "Ann", "Org": {"Vat": "x"}}`,
		`{"ContactID": "2", "IsCustomer": true, "Name": "B"}`,
		`{"ContactID": "3", "IsCustomer": true}`,
		`{"ContactID": "", "IsCustomer": true}`,
		`{"ContactID": "5"}`,
		`{"Org": "x"}`,
	} {
		c.Add(record(t, data))
	}
	want := CoverageReport{
		Records: 6, Included: 3, Failed: 2,
		Rules: []RuleCoverage{
			{Path: "include", Line: 4, Fired: 4, Blank: 1},
			{Path: "key.id", Line: 3, Fired: 3, Blank: 1},
			{Path: "customer.name", Line: 6, Fired: 2, Blank: 1},
			{Path: "customer.people[0].name", Line: 8, Fired: 1, Blank: 2},
			{Path: "customer.people[0].name", Line: 8, Part: "FirstName", Fired: 1},
			{Path: "customer.people[0].name", Line: 8, Part: `field("phone")`},
			{Path: "customer.people[0].name", Line: 8, Part: `coalesce(FirstName, field("phone"))`, Fired: 3},
			{Path: "customer.people[0].name", Line: 8, Part: `"nobody"`},
			{Path: "customer.people[0].email", Line: 8, Blank: 3},
			{Path: "customer.addresses", Line: 9, Fired: 1, Blank: 2},
			{Path: "externalData.tenant", Line: 10, Fired: 3},
			{Path: "mandate.request", Line: 11, Blank: 3},
		},
		NeverFired: []string{
			`customer.people[0].name (line 8), the part field("phone")`,
			`customer.people[0].name (line 8), the part "nobody"`,
			"customer.people[0].email (line 8)",
			"mandate.request (line 11)",
		},
		UnusedFields: []string{"LastName", "ContactStatus", "DefaultCurrency", "Post Code", "Balance", "Tags", "Phones",
			"Addresses"},
	}
	if diff := cmp.Diff(want, c.Report()); diff != "" {
		t.Errorf("Report differs (-want +got):\n%s", diff)
	}
}

func TestCoverageOfPartsInsideListsAndBlocks(t *testing.T) {
	t.Parallel()
	c := load(t, named(`join(map(Tags, # == "a" ? "first" : (# == "b" ? "second" : "other")), "")`)).NewCoverage()
	c.Add(record(t, `{"ContactID": "1", "Tags": ["a", "a", "b"]}`))
	got := map[string]int{}
	for _, r := range c.Report().Rules {
		if r.Part != "" {
			got[r.Part] = r.Fired
		}
	}
	want := map[string]int{`"first"`: 2, `# == "b" ? "second" : "other"`: 1, `"second"`: 1, `"other"`: 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts differ (-want +got):\n%s", diff)
	}
}

func TestAReportIsNotChangedByWhatIsAddedLater(t *testing.T) {
	t.Parallel()
	c := load(t, named("Name")).NewCoverage()
	before := c.Report()
	c.Add(record(t, `{"ContactID": "1", "Name": "A"}`))
	if before.Records != 0 || before.Rules[0].Fired != 0 {
		t.Errorf("the report changed: %+v", before)
	}
}

// BenchmarkExplainAndCoverage measures what watching adds to Apply.
func BenchmarkExplainAndCoverage(b *testing.B) {
	m := load(b, wholeFile(b))
	r := record(b, benchData)
	b.Run("explain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if x := m.Explain(r); x.Err != nil || !x.Result.RequestMandate {
				b.Fatal(x.Err)
			}
		}
	})
	b.Run("coverage", func(b *testing.B) {
		b.ReportAllocs()
		c := m.NewCoverage()
		for b.Loop() {
			c.Add(r)
		}
		if got := c.Report(); got.Included != got.Records {
			b.Fatalf("%+v", got)
		}
	})
}
