package syncer_test

import (
	"runtime"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
)

// BenchmarkPlanNew plans records that the ledger has never seen, as a first plan does: from the first page read to
// the plan that a person may approve. The service is empty.
//
//	go test -run '^$' -bench PlanNew -benchtime 1x ./connector/syncer -bench-rows 100000
func BenchmarkPlanNew(b *testing.B) {
	service := sandbox.New(sandbox.Options{Seed: 1, DiscardRequests: true})
	figures := map[string][]float64{}
	for b.Loop() {
		p := must[*plant](b)(newPlant(b.Context(), b.TempDir(), "http://localhost", service.RoundTripper(), *benchRows,
			maxInFlight))
		runtime.GC()
		began, before := time.Now(), usedSoFar(b)
		res := must[syncer.Result](b)(p.run(b.Context(), connector.RunPlan))
		took, after := time.Since(began), usedSoFar(b)
		if res.Plan.Creates != *benchRows {
			b.Fatalf("%+v, want %d creates", res.Plan, *benchRows)
		}
		if err := p.close(); err != nil {
			b.Fatal(err)
		}
		n := float64(*benchRows)
		for name, value := range map[string]float64{
			"us/record":        float64(took.Microseconds()) / n,
			"cpu_us/record":    float64((after.cpu - before.cpu).Microseconds()) / n,
			"written_B/record": float64(after.written-before.written) / n,
		} {
			figures[name] = append(figures[name], value)
		}
	}
	for name, values := range figures {
		b.ReportMetric(median(values), name)
	}
}
