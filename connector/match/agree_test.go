package match

import (
	"slices"
	"testing"

	"payersync/connector"
)

func TestWhatSpeaksAgainstACustomerWithTheKey(t *testing.T) {
	t.Parallel()
	type side struct{ name, email, phone, postcode string }
	for _, c := range []struct {
		what         string
		record, have side
		against      []string
	}{
		{"nothing is shown", side{"Neukunde AG", "a@neukunde.ch", "", "3011"}, side{}, nil},
		{"the same", side{"Neukunde AG", "a@neukunde.ch", "", "3011"}, side{"Neukunde AG", "a@neukunde.ch", "", "3011"}, nil},
		{"another company", side{"Neukunde AG", "a@neukunde.ch", "", "3011"},
			side{"Totally Different Ltd", "b@different.no", "", "0150"}, []string{"name", "e-mail address", "postcode"}},
		{"another company, of which only the name is shown", side{"Neukunde AG", "a@neukunde.ch", "", "3011"},
			side{"Totally Different Ltd", "", "", ""}, []string{"name"}},
		{"no name, another address", side{"Neukunde AG", "a@neukunde.ch", "", "3011"}, side{"", "b@different.no", "", ""},
			[]string{"e-mail address"}},
		{"no name, the postcode alone", side{"Neukunde AG", "", "", "3011"}, side{"", "", "", "CH-3011"}, nil},
		{"a name but for case, marks and legal form", side{"Müller & Söhne GmbH", "", "", ""},
			side{"MUELLER UND SOEHNE", "", "", ""}, nil},
		{"a name in another order, all else changed", side{"Anna Berg", "anna@new.no", "+47 22 33 44 55", "0150"},
			side{"Berg, Anna", "anna@old.no", "+47 99 88 77 66", "5003"}, nil},
		{"renamed, with the e-mail address", side{"Northern Light AS", "post@light.no", "", "0150"},
			side{"Old Lamps AS", "POST@light.no", "", "5003"}, nil},
		{"renamed, with the phone", side{"Northern Light AS", "", "+47 22 33 44 55", ""},
			side{"Old Lamps AS", "", "0047 22334455", ""}, nil},
		{"a typo, in one postcode", side{"Petersen Transport", "", "", "LS1 4AP"},
			side{"Peterson Transport", "", "", "ls14ap"}, nil},
		{"a typo alone", side{"Petersen Transport", "", "", ""}, side{"Peterson Transport", "", "", ""}, []string{"name"}},
		{"a neighbour", side{"Petersen Transport", "", "", "LS1 4AP"}, side{"Quay Bakery", "", "", "LS1 4AP"},
			[]string{"name"}},
		{"another house of the same owner", side{"Harbour House 1", "", "", "LS1 4AP"},
			side{"Harbour House 2", "", "", "LS1 4AP"}, []string{"name"}},
		{"father and son in one house", side{"Karl Huber jun.", "", "", "80331"}, side{"Karl Huber sen.", "", "", "80331"},
			[]string{"name"}},
		{"another branch's phone", side{"Petersen Transport", "", "+44 113 496 0000", ""},
			side{"Quay Bakery", "", "+44 113 496 0001", ""}, []string{"name", "phone"}},
	} {
		want := connector.Customer{Name: c.record.name,
			People:    []connector.Person{{Name: c.record.name, Email: c.record.email, Phone: c.record.phone}},
			Addresses: []connector.Address{{PostCode: c.record.postcode}}}
		have := connector.RemoteCustomer{ID: "c1", Name: c.have.name,
			Addresses: []connector.Address{{PostCode: c.have.postcode}}}
		if c.have.email != "" {
			have.Emails = []string{c.have.email}
		}
		if c.have.phone != "" {
			have.Phones = []string{c.have.phone}
		}
		if got := Against(want, have); !slices.Equal(got, c.against) {
			t.Errorf("%s: %q speak against it, want %q", c.what, got, c.against)
		}
	}
}

func TestTheRecordsContactMayStandForItsCustomer(t *testing.T) {
	t.Parallel()
	want := connector.Customer{Name: "Berg Consulting AS",
		People: []connector.Person{{FirstName: "Anna", LastName: "Lund"}}, Addresses: []connector.Address{{PostCode: "0150"}}}
	have := connector.RemoteCustomer{Name: "Anna Lund", Addresses: []connector.Address{{PostCode: "0150"}}}
	if got := Against(want, have); got != nil {
		t.Errorf("%q speak against it", got)
	}
	have.Addresses[0].PostCode = "5003"
	if got := Against(want, have); !slices.Equal(got, []string{"name", "postcode"}) {
		t.Errorf("%q speak against it", got)
	}
}
