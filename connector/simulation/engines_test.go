package simulation

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"payersync/state/statetest"
)

var both = flag.Int("both", 8, "how many seeds to play on both engines")

// A story is the same to the millisecond whatever keeps the ledger: each request and answer, each commit
// at which a process dies, each count of a run, and what people are told in the end.
func TestBothEnginesTellTheSameStories(t *testing.T) {
	if !statetest.OnPostgres() {
		t.Skip("on PostgreSQL only: run with -engine postgres")
	}
	defer func(before bool) { asFile = before }(asFile)
	asFile = true
	onFile, onServer := newTally(), newTally()
	farm(t, *from, *both, "sqlite", onFile)
	farm(t, *from, *both, engine(), onServer)
	if onFile.Worlds != *both || onServer.Worlds != *both {
		t.Fatalf("of %d seeds %d were played on a file, %d on a server", *both, onFile.Worlds, onServer.Worlds)
	}
	for _, seed := range slices.Sorted(maps.Keys(onFile.Stories)) {
		if file, server := onFile.Stories[seed], onServer.Stories[seed]; file != server {
			t.Errorf("seed %d: on a file %s; on a server %s; again: go test ./connector/simulation -run TestSimulation -as-file -seed %d -v -engine sqlite, and postgres", seed, file, server, seed)
		}
	}
	for what, n := range onFile.Counts {
		if got := onServer.Counts[what]; got != n {
			t.Errorf("%s: %d times on a file, %d times on a server", what, n, got)
		}
	}
	t.Logf("%d seeds", *both)
}
