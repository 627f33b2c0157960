package match

import (
	"testing"

	"payersync/connector"
)

func TestANumberOfTheExportSupportsAMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, other   string
		record, payer []string
		least, most   int
	}{
		{"Northwind Bakery", "Northwind Bakery Ltd", []string{"number 7"}, []string{"number 7"}, BulkLevel, 100},
		{"Northwind Bakery", "Northwind Bakery Ltd", nil, []string{"number 7"}, 0, BulkLevel - 1},
		{"Northwind Bakery", "Northwind Bakery Ltd", []string{"number 8"}, []string{"number 7"}, 0, BulkLevel - 1},
		{"Northwind Bakery", "Harbour Books", []string{"number 7"}, []string{"number 7"}, 1, BulkLevel - 1},
		{"Ann Baker", "Ann Baker", []string{"number 7"}, []string{"number 7"}, BulkLevel, 100},
	} {
		r := entryOfRecord(Record{ID: "r", Want: connector.Customer{Name: c.name}, Exported: c.record}, "")
		k := entryOfCustomer(Customer{RemoteCustomer: connector.RemoteCustomer{Name: c.other},
			Exported: c.payer}, "")
		v := newCounts().compare(nil, &r, &k)
		if got := v.score(); got < c.least || got > c.most {
			t.Errorf("%q and %q with %v and %v: %d, want %d to %d", c.name, c.other, c.record, c.payer, got, c.least, c.most)
		}
	}
}
