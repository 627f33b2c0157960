package match

import (
	"fmt"
	"testing"
)

// sized returns so many records and customers of a population.
func sized(n int) ([]Record, []Customer) {
	p := populate(99, n, families)
	return p.records[:n], p.customers[:n]
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{500, 5_000} {
		b.Run(fmt.Sprintf("%d records and %[1]d customers", n), func(b *testing.B) {
			records, customers := sized(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Find(b.Context(), listed(records), listed(customers), Settings{Region: "DE"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
