package match

import (
	"slices"
	"strings"
	"testing"

	"payersync/connector"
)

// card is somebody as both sides may know him.
type card struct {
	name, email, phone, line1, postcode, number string
}

func (c card) record(id string) Record {
	r := Record{ID: id, Want: connector.Customer{Name: c.name,
		Addresses: []connector.Address{{Line1: c.line1, PostCode: c.postcode}}}}
	r.Want.People = []connector.Person{{Name: c.name, Email: c.email, Phone: c.phone}}
	if c.number != "" {
		r.Numbers = []string{c.number}
	}
	return r
}

func (c card) customer(id string) Customer {
	k := Customer{RemoteCustomer: connector.RemoteCustomer{ID: id, Name: c.name, Emails: []string{c.email},
		Phones:    []string{c.phone},
		Addresses: []connector.Address{{Line1: c.line1, PostCode: c.postcode}}}}
	if c.number != "" {
		k.ExternalData = map[string]string{"vatNumber": c.number}
	}
	return k
}

// find is Find for cards; records are R1, R2 …, customers C1, C2 ….
func find(t *testing.T, records, customers []card, taken ...string) map[string]Suggestion {
	t.Helper()
	var rs []Record
	var ks []Customer
	for i, c := range records {
		rs = append(rs, c.record("R"+string(rune('1'+i))))
	}
	for i, c := range customers {
		k := c.customer("C" + string(rune('1'+i)))
		if slices.Contains(taken, k.ID) {
			k.Taken = "linked to record R9"
		}
		ks = append(ks, k)
	}
	found, err := Find(t.Context(), listed(rs), listed(ks), Settings{Region: "DE"})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Suggestion{}
	for _, s := range found {
		out[s.Record] = s
	}
	return out
}

// listed is a list of customers in pages of three.
func listed[T any](all []T) Pages[T] {
	return func(yield func([]T, error) bool) {
		for page := range slices.Chunk(all, 3) {
			if !yield(page, nil) {
				return
			}
		}
	}
}

func (p Pair) told() string {
	var out []string
	for _, r := range p.Reasons() {
		out = append(out, r.Text)
	}
	return strings.Join(out, "; ")
}

var (
	anna     = card{"Anna Müller", "anna@gmx.de", "030 1234567", "Hauptstraße 5", "10115", ""}
	nordwind = card{"Nordwind Bau GmbH", "info@nordwind.example", "040 7654321", "Hafen 1", "20095", "DE123456789"}
)

var dock = card{"Dock Repair Ltd", "desk@dock.example", "020 111111", "Quay 1", "LS1 4AP", ""}

// but returns a card with some of it otherwise.
func (c card) but(change func(*card)) card {
	change(&c)
	return c
}

func TestAPairIsScoredWithItsReasons(t *testing.T) {
	t.Parallel()
	tests := []struct {
		about string
		a, b  card
		score int
		told  string
	}{
		{"everything agrees", anna,
			anna.but(func(c *card) { c.name, c.phone, c.line1 = "Mueller, Anna", "+49 30 1234567", "Hauptstr. 5" }), 100,
			"same name in another order; same e-mail; same phone; same postcode and street"},
		{"a company", nordwind, nordwind.but(func(c *card) { c.name, c.email, c.phone = "NORDWIND BAU G.m.b.H.", "", "" }),
			100,
			"same name; same postcode and street; same company number"},
		{"a typo", anna, anna.but(func(c *card) { c.name = "Anne Müller" }), 75,
			"name equal but for a typo; same e-mail; same phone; same postcode and street"},
		{"no legal form", nordwind, nordwind.but(func(c *card) { c.name, c.number = "Nordwind Bau", "" }), 78, ""},
		{"no legal form, but the number", nordwind, nordwind.but(func(c *card) { c.name = "Nordwind Bau" }), 100, ""},
		{"another legal form", nordwind, nordwind.but(func(c *card) { c.name, c.number = "Nordwind Bau AG", "" }), 59, ""},
		{"another company number", nordwind, nordwind.but(func(c *card) { c.number = "DE987654321" }), 40, ""},
		{"moved", anna, anna.but(func(c *card) { c.line1, c.postcode = "Ring 9", "80331" }), 75, ""},
		{"another e-mail", anna, anna.but(func(c *card) { c.email = "a.mueller@web.de" }), 78,
			"same name; same phone; same postcode and street; different e-mail; neither e-mail nor company number agrees"},
		{"name and e-mail alone", anna, card{name: "Anna Müller", email: "ANNA@gmx.de"}, 80,
			"same name; same e-mail; no postcode to compare; no phone to compare"},
		{"couple", anna, anna.but(func(c *card) { c.name = "Peter Müller" }), 55, ""},
		{"junior", anna, anna.but(func(c *card) { c.name = "Anna Müller jun." }), 59, ""},
		{"an accountant's e-mail", anna, card{name: "Quayside Motors Ltd", email: "anna@gmx.de", postcode: "80331"}, 5, ""},
		{"houses", anna.but(func(c *card) { c.name = "WEG Lindenstraße 12" }),
			anna.but(func(c *card) { c.name = "WEG Lindenstraße 14" }), 50, ""},
		{"a letter more", dock, card{"Dock Repairs Ltd", "office@dockrepairs.example", "020 999999", "Quay 9", "YO1 7HY", ""},
			40,
			"company name equal but for one letter more; different e-mail; different phone; different postcode; neither e-mail nor company number agrees"},
		{"a letter more and nothing to compare", dock, card{name: "Dock Repairs Ltd"}, 40, ""},
		{"a letter more and all else agrees", dock, dock.but(func(c *card) { c.name = "Dock Repairs Limited" }), 75, ""},
		{"a family", anna.but(func(c *card) { c.name = "A. Müller" }), anna.but(func(c *card) { c.name = "A. Müller" }), 78,
			""},
	}
	for _, tt := range tests {
		got := find(t, []card{tt.a}, []card{tt.b})["R1"].Best
		if got == nil {
			t.Errorf("%s: nothing is proposed", tt.about)
			continue
		}
		if got.Score != tt.score || tt.told != "" && got.told() != tt.told {
			t.Errorf("%s: %d because %s; want %d because %s", tt.about, got.Score, got.told(), tt.score, tt.told)
		}
	}
}

func TestALetterMoreDoesNotMakeOneCompanyOfTwo(t *testing.T) {
	t.Parallel()
	for about, other := range map[string]card{
		"another letter":         {name: "Rock Repair Ltd", postcode: "YO1 7HY"},
		"another legal form":     {name: "Dock Repairs LLP", postcode: "YO1 7HY"},
		"no legal form":          {name: "Dock Repairs", postcode: "YO1 7HY"},
		"a letter more in two":   {name: "Docks Repairs Ltd", postcode: "YO1 7HY"},
		"another company number": {name: "Dock Repairs Ltd", number: "GB987654321"},
	} {
		if got := find(t, []card{dock.but(func(c *card) { c.number = "GB123456789" })}, []card{other}); len(got) != 0 {
			t.Errorf("%s: %+v", about, got)
		}
	}
	if got := find(t, []card{{name: "Docker Ltd"}}, []card{{name: "Dockers Ltd"}}); len(got) != 0 {
		t.Errorf("a name of one word: %+v", got)
	}
}

func TestTheRecordsContactIsKnown(t *testing.T) {
	t.Parallel()
	r := nordwind.record("R1")
	r.Want.People[0].Name, r.Want.People[0].FirstName, r.Want.People[0].LastName = "", "Anna", "Müller"
	k := nordwind.but(func(c *card) { c.name = "Müller, Anna" })
	found, err := Find(t.Context(), listed([]Record{r}), listed([]Customer{k.customer("C1")}), Settings{})
	if err != nil || len(found) != 1 || found[0].Best == nil {
		t.Fatalf("%+v, %v", found, err)
	}
	if got := found[0].Best; got.Score != nameContact.limit || got.Reasons()[0].Rule != "name_contact" {
		t.Errorf("%d because %s", got.Score, got.told())
	}
}

func TestWhoSharesSomethingIsCounted(t *testing.T) {
	t.Parallel()
	other := card{name: "Quayside Motors Ltd", email: anna.email, postcode: "80331"}
	third := card{name: "Fjord Fisk AS", email: anna.email, postcode: "5003"}
	for _, tt := range []struct {
		records, customers []card
		want               string
	}{
		{[]card{anna, other}, []card{anna}, "two records share this e-mail"},
		{[]card{anna}, []card{anna, other, third}, "three customers share this e-mail"},
		{[]card{anna, other}, []card{anna, third}, "two records and two customers share this e-mail"},
	} {
		got := find(t, tt.records, tt.customers)["R1"].Best
		if got.Customer != "C1" || !strings.Contains(got.told(), tt.want) {
			t.Errorf("%s because %s, want %s", got.Customer, got.told(), tt.want)
		}
	}
}

func TestNoLimitOfDoubtReachesTheBulkLevel(t *testing.T) {
	t.Parallel()
	for _, r := range rules {
		if r.limit >= BulkLevel || r.limit < 0 {
			t.Errorf("%s limits to %d", r.code, r.limit)
		}
		if r.points < 0 && r.limit == 0 && BulkLevel <= 100+r.points && r != &emailDiffers && r != &phoneDiffers {
			t.Errorf("%s speaks against a pair and does not keep it from the bulk level", r.code)
		}
	}
	seen := map[string]bool{}
	for _, r := range rules {
		if seen[r.code] || r.text == "" || r.when == "" {
			t.Errorf("rule %q is doubled or says nothing", r.code)
		}
		seen[r.code] = true
	}
}
