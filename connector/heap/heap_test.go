package heap

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

func TestASmallHeapMayGrowFartherThanALargeOne(t *testing.T) {
	for live, want := range map[uint64]int{
		0:         500,
		1 << 20:   500,
		16 << 20:  300,
		32 << 20:  150,
		48 << 20:  100,
		900 << 20: 100,
	} {
		if got := growth(live); got != want {
			t.Errorf("A heap with %d live bytes may grow by %d percent, and not by %d.", live, got, want)
		}
	}
}

func TestTheGrowthFollowsTheHeap(t *testing.T) {
	Pace()
	await(t, func(percent uint64) bool { return percent > 200 })
	func() {
		large := make([]byte, 2*room)
		await(t, func(percent uint64) bool { return percent == least })
		runtime.KeepAlive(large)
	}()
	await(t, func(percent uint64) bool { return percent > 200 })
}

// await collects until the growth is as it should be.
func await(t *testing.T, fits func(percent uint64) bool) {
	t.Helper()
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for range 1000 {
		runtime.GC()
		if metrics.Read(sample); fits(sample[0].Value.Uint64()) {
			return
		}
		runtime.Gosched()
	}
	t.Fatalf("After 1000 collections, the heap may still grow by %d percent.", sample[0].Value.Uint64())
}
