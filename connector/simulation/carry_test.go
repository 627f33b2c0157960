package simulation

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"payersync/state/statetest"
)

var journeys = flag.Int("journeys", 2, "how many seeds to play with ledgers that are carried from engine to engine")

// Whoever has a ledger carried while everything is stopped, and goes on there, has the story of who stopped everything
// and started it again, to the millisecond: nothing is sent a second time, nothing waits, and what was sealed opens.
//
// covers F188
func TestAStoryGoesOnWhereItsLedgerWasCarried(t *testing.T) {
	if !statetest.OnPostgres() {
		t.Skip("half of the way is on PostgreSQL: run with -engine postgres")
	}
	played := func(arguments ...string) *tally {
		sum := newTally()
		farm(t, *from, *journeys, sum, append(arguments, "-stops", "3")...)
		if sum.Worlds != *journeys {
			t.Fatalf("of %d seeds %d were played with %q", *journeys, sum.Worlds, arguments)
		}
		return sum
	}
	inOnePlace := []string{"-shrink=false", "-engine", "sqlite", "-as-file", "-carry=false"}
	stays := played(inOnePlace...)
	for _, begins := range []string{"sqlite", "postgres"} {
		carried := played("-shrink=false", "-engine", begins, "-as-file")
		carried.tellJourneys(t, begins)
		for _, seed := range slices.Sorted(maps.Keys(stays.Stories)) {
			if story := carried.Stories[seed]; story != stays.Stories[seed] &&
				!toldAgain(t, seed, story, append(inOnePlace, "-stops", "3")...) {
				t.Errorf("seed %d on %s: in one place %s; carried %s", seed, begins, stays.Stories[seed], story)
			}
		}
	}
	played("-engine", "postgres").tellJourneys(t,
		"a server that ends sessions, where leases alone tell which runs are dead")
}

// tellJourneys reports the moves of ledgers in worlds with this beginning; there must be some in both
// directions.
func (t *tally) tellJourneys(test *testing.T, begins string) {
	test.Helper()
	for _, what := range rareCarried {
		test.Logf("began on %s: %d × %s", begins, t.Counts[what], what)
	}
	for _, way := range []string{toFile, toServer} {
		if t.Counts[way] == 0 {
			test.Errorf("no seed of %d that began on %s reached %q", t.Worlds, begins, way)
		}
	}
}
