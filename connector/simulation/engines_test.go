package simulation

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"payersync/state/statetest"
)

var both = flag.Int("both", 8, "how many seeds to play on both engines")

// A story is the same to the millisecond on both engines: each request and answer, each commit at which a
// process dies, each count of a run, and the findings at the end.
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
		file, server := onFile.Stories[seed], onServer.Stories[seed]
		if file != server && !toldAgain(t, seed, server, "-shrink=false", "-engine", "sqlite") &&
			!toldAgain(t, seed, file, "-shrink=false", "-engine", "postgres", "-as-file") {
			t.Errorf("seed %d: on a file %s; on a server %s; again: go test ./connector/simulation -run TestSimulation -as-file -seed %d -v -engine sqlite, and postgres", seed, file, server, seed)
		}
	}
	t.Logf("%d seeds", *both)
}

// toldAgain reports whether a seed also has a story with these arguments. One in some hundreds has several,
// because concurrent pages of a list, and answers that are stored together, do not always have one order.
func toldAgain(t *testing.T, seed uint64, story string, arguments ...string) bool {
	t.Helper()
	for range 30 {
		again := newTally()
		farm(t, seed, 1, again, arguments...)
		if again.Stories[seed] == story {
			t.Logf("seed %d has several stories", seed)
			return true
		}
	}
	return false
}
