package billing

import (
	"slices"
	"testing"

	"payersync/connector"
)

func TestTheShortSpellingCarriesNoCountry(t *testing.T) {
	t.Parallel()
	want := connector.Customer{
		Name: "Mill Lane Bakery", People: []connector.Person{{FirstName: "Ann", LastName: "Mills", Email: "ann@example.org"}},
		Addresses:    []connector.Address{{Line1: "1 Mill Lane", Country: "GB"}},
		ExternalData: map[string]string{"accountNumber": "A1"},
	}
	long := Standard()
	long.AddressFields = "long"
	if got := Standard().NotCarried(want); !slices.Equal(got, []string{"addresses[0].country"}) {
		t.Errorf("the short spelling does not carry %q", got)
	}
	if got := long.NotCarried(want); got != nil {
		t.Errorf("the long spelling does not carry %q", got)
	}
	if want.Addresses[0].Country != "GB" {
		t.Error("looking changed the customer")
	}
	want.Addresses[0].Line1 = ""
	for _, tt := range []struct {
		dialect Dialect
		body    string
	}{
		{Standard(), `{"name":"Mill Lane Bakery","people":[{"name":"Ann Mills","email":"ann@example.org"}],"externalData":{"accountNumber":"A1"}}`},
		{long, `{"name":"Mill Lane Bakery","people":[{"name":"Ann Mills","email":"ann@example.org"}],"addresses":[{"country":"GB"}],"externalData":{"accountNumber":"A1"}}`},
	} {
		c := Client{dialect: tt.dialect}
		if got, err := c.CreateBody(want); err != nil || string(got) != tt.body {
			t.Errorf("a country alone in the %s spelling is sent as %s (%v), want %s", tt.dialect.AddressFields, got, err,
				tt.body)
		}
	}
}
