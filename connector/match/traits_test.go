package match

import (
	"testing"

	"payersync/connector"

	"github.com/google/go-cmp/cmp"
)

func TestTraitsAreTheSameHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	of := func(name, email, phone, postcode string) Traits {
		return TraitsOf(connector.Customer{
			Name: name, People: []connector.Person{{Email: email, Phone: phone}},
			Addresses: []connector.Address{{PostCode: postcode, Country: "GB"}},
		})
	}
	a := of("Crumb & Crust Bakery Ltd.", "Ann@Example.com", "01632 960101", "ls1 4ap")
	if diff := cmp.Diff(a, of("CRUST and Crumb bakery, Limited", " ann@example.com", "+44 1632 960101",
		"LS14AP")); diff != "" {
		t.Errorf("one payer has two sets of traits (-one +other):\n%s", diff)
	}
	for _, other := range []string{"Crumb & Crust Bakery", "Crumb & Crust Bakery LLP", "Crumb & Crust Bakeries Ltd",
		"Crumb & Crust Bakery 2 Ltd", "Crumb & Crust Bakery Jr Ltd"} {
		if got := of(other, "", "", "").Name; got == a.Name {
			t.Errorf("%q counts as the same name: %q", other, got)
		}
	}
	if got := of("--", "x", "12", ""); got.Name != "" || got.Phones != nil || got.Postcodes != nil {
		t.Errorf("what says nothing is %+v", got)
	}
}
