package simulation

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/state/statetest"
)

var both = flag.Int("both", 8, "how many seeds to play on both engines")

// A story is the same to the millisecond whatever keeps the ledger: each request and answer, each commit
// at which a process dies, each count of a run, and what people are told in the end.
func TestBothEnginesTellTheSameStories(t *testing.T) {
	if !statetest.OnPostgres() {
		t.Skip("on PostgreSQL only: run with -engine postgres")
	}
	onFile, onServer := newTally(), newTally()
	farm(t, *from, *both, onFile, "-shrink=false", "-engine", "sqlite")
	farm(t, *from, *both, onServer, "-shrink=false", "-engine", "postgres", "-as-file")
	if onFile.Worlds != *both || onServer.Worlds != *both {
		t.Fatalf("of %d seeds %d were played on a file, %d on a server", *both, onFile.Worlds, onServer.Worlds)
	}
	for _, seed := range slices.Sorted(maps.Keys(onFile.Stories)) {
		if file, server := onFile.Stories[seed], onServer.Stories[seed]; file != server {
			t.Errorf("seed %d: on a file %s; on a server %s; again: go test ./connector/simulation -run TestSimulation -as-file -seed %d -v -engine sqlite, and postgres", seed, file, server, seed)
		}
	}
	if diff := cmp.Diff(onFile.Counts, onServer.Counts); diff != "" {
		t.Errorf("what was reached how often on a file (-) and on a server (+):\n%s", diff)
	}
	t.Logf("%d seeds", *both)
}
