// Package heap makes the garbage collector rest while the heap is small. By default, a heap of 10 MiB may grow by
// another 10 MiB before the next collection. A run with many requests then collects many times a second, and spends a
// tenth of its processor time on it. The package knows nothing of the contents of the heap.
package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// room is how much any heap may grow between two collections. A live heap above it follows the default of Go, so a
// large run needs no more memory than before.
const room = 48 << 20

// The least and the most growth, in percent of the live heap. The least is Go's default.
const least, most = 100, 500

var pace = sync.OnceFunc(func() {
	debug.SetGCPercent(most)
	again(most)
})

// Pace sets the growth of the heap by its size from now on. It does so after each collection. Later calls change
// nothing.
func Pace() { pace() }

// again sets the growth anew after the next collection. It notices the collection by an object without a holder. now is
// the last growth. A change stops the program for a moment, so again ignores a difference of a quarter or less.
func again(now int) {
	gone := &struct{ _ [16]byte }{}
	runtime.AddCleanup(gone, func(now int) {
		next := growth(live())
		if differs := next - now; differs > now/4 || -differs > now/4 || next == least && now != least {
			debug.SetGCPercent(next)
			now = next
		}
		again(now)
	}, now)
}

// growth returns the growth in percent for a heap with so many live bytes.
func growth(live uint64) int {
	if live == 0 {
		return most
	}
	return int(min(max(room*100/live, least), most))
}

// live returns the bytes in use at the last collection.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
