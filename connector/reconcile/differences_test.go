package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

func TestWhatACustomerHoldsOtherwiseThanWasSentIsFound(t *testing.T) {
	t.Parallel()
	sent := func() connector.Customer {
		return connector.Customer{
			Name: "Harbour Bakery", ExternalData: map[string]string{"acct": "A1"},
			People:    []connector.Person{{Name: "Ada Lovelace", Email: "ada@bakery.example", Phone: "01632 960101"}},
			Addresses: []connector.Address{{Line1: "1 High Street", City: "Leeds", PostCode: "LS1 1AA", Country: "GB"}},
		}
	}
	for name, tt := range map[string]struct {
		change func(*connector.RemoteCustomer)
		want   []connector.FieldChange
	}{
		"nothing": {func(*connector.RemoteCustomer) {}, nil},
		"another form": {func(c *connector.RemoteCustomer) {
			c.Name, c.Emails[0], c.Phones[0], c.Addresses[0].Line1 = "HARBOUR  BAKERY", "Ada@Bakery.example", "01632960101",
				"1 HIGH STREET"
		}, nil},
		"a list without externalData": {func(c *connector.RemoteCustomer) { c.ExternalData = nil }, nil},
		"no country": {func(c *connector.RemoteCustomer) { c.Addresses[0].Country = "" },
			[]connector.FieldChange{{Path: "addresses[0].country", From: "GB"}}},
		"another telephone number": {func(c *connector.RemoteCustomer) { c.Phones[0] = "0113 4960000" },
			[]connector.FieldChange{{Path: "people[0].phone", From: "01632 960101", To: "0113 4960000"}}},
		"no contact": {func(c *connector.RemoteCustomer) { c.Emails, c.Phones = nil, nil },
			[]connector.FieldChange{{Path: "people[0].email", From: "ada@bakery.example"},
				{Path: "people[0].phone", From: "01632 960101"}}},
		"another name, and a street": {func(c *connector.RemoteCustomer) {
			c.Name, c.Addresses[0].Line1 = "Harbour Cakes",
				"2 Low Street"
		},
			[]connector.FieldChange{{Path: "addresses[0].line1", From: "1 High Street", To: "2 Low Street"},
				{Path: "name", From: "Harbour Bakery", To: "Harbour Cakes"}}},
		"another number": {func(c *connector.RemoteCustomer) { c.ExternalData["acct"] = "A2" },
			[]connector.FieldChange{{Path: "externalData.acct", From: "A1", To: "A2"}}},
		"one address more, before ours": {func(c *connector.RemoteCustomer) {
			c.Addresses = append([]connector.Address{{Line1: "9 Mill Lane", City: "York"}}, c.Addresses...)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sent()
			c := connector.RemoteCustomer{
				ID: "b1", Name: s.Name, Emails: []string{s.People[0].Email}, Phones: []string{s.People[0].Phone},
				Addresses: []connector.Address{s.Addresses[0]}, ExternalData: map[string]string{"acct": "A1", "other": "x"},
			}
			tt.change(&c)
			if diff := cmp.Diff(tt.want, differences(&s, c)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(sent(), s); diff != "" {
				t.Errorf("what was sent has changed:\n%s", diff)
			}
		})
	}
}

func BenchmarkDifferences(b *testing.B) {
	s := connector.Customer{
		Name: "Harbour Bakery", ExternalData: map[string]string{"acct": "A1"},
		People:    []connector.Person{{Name: "Ada Lovelace", Email: "ada@bakery.example", Phone: "01632 960101"}},
		Addresses: []connector.Address{{Line1: "1 High Street", City: "Leeds", PostCode: "LS1 1AA", Country: "GB"}},
	}
	c := connector.RemoteCustomer{
		ID: "b1", Name: s.Name, Emails: []string{s.People[0].Email}, Phones: []string{s.People[0].Phone},
		Addresses: []connector.Address{s.Addresses[0]}, ExternalData: map[string]string{"acct": "A1"},
	}
	for b.Loop() {
		differences(&s, c)
	}
}
