package pages_test

import (
	"flag"
	"net/http"
	"slices"
	"testing"
	"time"

	"payersync/connector/pages"
)

var benchMatches = flag.Int("bench-matches", 500, "how many wait in BenchmarkMatches; the pages are meant for 5000")

// BenchmarkMatches answers the list of matches and one pair, and tells the time in which 19 of 20
// answers are made.
func BenchmarkMatches(b *testing.B) {
	h := newHouse(b)
	h.alike(*benchMatches)
	cookie := cookieOf(b, h.ledger, h.pages, pages.Operator, nil)
	for _, path := range []string{"/matches", "/matches/likely", "/matches/quickstart/M000"} {
		b.Run("GET "+path, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if w := (request{method: http.MethodGet, path: path, cookie: cookie}).to(b, h.pages); w.Code != http.StatusOK {
					b.Fatalf("it was answered %d", w.Code)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*19/20].Microseconds())/1000, "p95-ms")
		})
	}
}
