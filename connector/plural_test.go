package connector

import "testing"

func TestNumbersAgreeWithWhatTheyCount(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"1 customer": Plural(1, "customer"), "0 customers": Plural(0, "customer"), "2 customers": Plural(2, "customer"),
		"1 address": Plural(1, "address"), "3 addresses": Plural(3, "address"), "2 parties": Plural(2, "party"),
		"2 matches": Plural(2, "match"), "1 party": Plural(1, "party"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
