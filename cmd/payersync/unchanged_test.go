package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"payersync/connector/sandbox"
)

var unchanged = flag.Int("unchanged", 2000,
	"how many rows BenchmarkSyncUnchanged has; the figures of the README are those of 1000000")

// BenchmarkSyncUnchanged runs whole processes of payersync sync over a CSV file with only linked, unchanged
// rows. The first kind has the same bytes as before. The second has the same rows in a new export, so each is
// read and looked up.
//
//	go test -run '^$' -bench SyncUnchanged -benchtime 3x -timeout 0 ./cmd/payersync -unchanged 1000000
func BenchmarkSyncUnchanged(b *testing.B) {
	w := newWorld(b, people(*unchanged), func(o *sandbox.Options) { o.DiscardRequests = true })
	w.edit("payersync.yaml", "max_creates: 20", fmt.Sprintf("max_creates: %d", *unchanged))
	w.edit("payersync.yaml", "level: debug", "level: warn")
	// no signing links: theirs is another benchmark
	w.edit("mapping.yaml", "mandate:\n  request: any(customer.people, .email != \"\")\n", "")
	w.expect(exitDone, "sync")
	w.expect(exitDone, "sync")
	whole, err := os.ReadFile(w.path("customers.csv"))
	if err != nil {
		b.Fatal(err)
	}
	before := w.box.Writes()
	for _, kind := range []struct {
		name string
		more string // that an export has behind the one before
	}{{"same bytes", ""}, {"exported anew", "\n"}} {
		b.Run(kind.name, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				whole = append(whole, kind.more...)
				w.write("customers.csv", string(whole))
				sync := w.process("sync").cmd
				b.StartTimer()
				out, err := sync.CombinedOutput()
				if err != nil || !strings.Contains(string(out), fmt.Sprintf("%d unchanged", *unchanged)) {
					b.Fatalf("%v, want %d unchanged: %s", err, *unchanged, out)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/run")
		})
	}
	if n := w.box.Writes() - before; n != 0 {
		b.Errorf("%d writes were sent for customers that are unchanged", n)
	}
}
