package office_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"payersync/connector"
	"payersync/connector/office"
	"payersync/state"
)

// BenchmarkSearch looks for a name among 100,000: in the names that are kept in memory, and,
// as a baseline, in labels that are opened for every search.
func BenchmarkSearch(b *testing.B) {
	const records, page = 100_000, 500
	w := newWorld(b)
	for from := 0; from < records; from += page {
		some := map[string]*connector.Label{}
		for n := from; n < from+page; n++ {
			some[fmt.Sprintf("c-%06d", n)] = &connector.Label{Number: fmt.Sprintf("A%06d", n), Name: fmt.Sprintf("Customer %d Limited", n), Email: fmt.Sprintf("accounts%d@example.com", n)}
		}
		w.read("acme", some)
	}
	rare := office.Query{Text: "limited 99998"}
	often := office.Query{Text: "limited", RecordFilter: state.RecordFilter{Limit: 50}}
	search := func(b *testing.B, lists *office.Lists, q office.Query) {
		if p, err := lists.Page(context.Background(), q); err != nil || len(p.Rows) == 0 {
			b.Fatalf("%d rows, %v", len(p.Rows), err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	search(b, w.lists, rare)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.Run("in memory", func(b *testing.B) {
		for b.Loop() {
			search(b, w.lists, rare)
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	})
	b.Run("in memory, everybody", func(b *testing.B) {
		for b.Loop() {
			search(b, w.lists, often)
		}
	})
	b.Run("opened each time", func(b *testing.B) {
		for b.Loop() {
			search(b, &office.Lists{Ledger: w.ledger}, rare)
		}
	})
	b.Run("everybody by name", func(b *testing.B) {
		for b.Loop() {
			search(b, w.lists, office.Query{RecordFilter: state.RecordFilter{Sort: office.ByName, Limit: 50}})
		}
	})
}
