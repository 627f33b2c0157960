package reconcile

import (
	"testing"

	"payersync/connector"
)

// covers F04, F11
func TestDriftIsAnythingOfOursThatIsGone(t *testing.T) {
	t.Parallel()
	applied := connector.Customer{
		Name:         "Northwind",
		People:       []connector.Person{{Name: "Ann", Email: "ann@northwind.example", Phone: "1", Primary: "true"}},
		Addresses:    []connector.Address{{Line1: "1 Quay St", City: "Leeds", PostCode: "LS1 4AP", Country: "GB"}},
		ExternalData: map[string]string{"no": "C1", "tier": "gold"},
	}
	same := func() connector.RemoteCustomer {
		return connector.RemoteCustomer{
			Name: "Northwind", Emails: []string{"other@x.example", "ann@northwind.example"}, Phones: []string{"1"},
			People:       []connector.Person{{Email: "ANN@northwind.example", Primary: "true", Communication: "false"}},
			Addresses:    []connector.Address{{Line1: "1 Quay St", City: "Leeds", PostCode: "LS1 4AP"}},
			ExternalData: map[string]string{"no": "C1", "tier": "gold", "foreign": "x"},
		}
	}
	for _, tt := range []struct {
		name string
		edit func(*connector.RemoteCustomer)
		want bool
	}{
		{"nothing", func(*connector.RemoteCustomer) {}, false},
		{"pairs that a list leaves out", func(c *connector.RemoteCustomer) { c.ExternalData = nil }, false},
		{"the name", func(c *connector.RemoteCustomer) { c.Name = "Southwind" }, true},
		{"an e-mail address", func(c *connector.RemoteCustomer) { c.Emails = c.Emails[:1] }, true},
		{"a phone number", func(c *connector.RemoteCustomer) { c.Phones = nil }, true},
		{"a flag that is not ours", func(c *connector.RemoteCustomer) { c.People[0].Communication = "true" }, false},
		{"a flag that is not shown", func(c *connector.RemoteCustomer) { c.People[0].Primary = "" }, false},
		{"a flag of ours", func(c *connector.RemoteCustomer) { c.People[0].Primary = "false" }, true},
		{"a post code", func(c *connector.RemoteCustomer) { c.Addresses[0].PostCode = "LS2" }, true},
		{"the address", func(c *connector.RemoteCustomer) { c.Addresses = nil }, true},
		{"a pair", func(c *connector.RemoteCustomer) { delete(c.ExternalData, "tier") }, true},
	} {
		c := same()
		tt.edit(&c)
		if got := !holds(&applied, c); got != tt.want {
			t.Errorf("%s: drifted is %t, want %t", tt.name, got, tt.want)
		}
	}
}
