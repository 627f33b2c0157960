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
	stays, inOnePlace := newTally(), []string{"-shrink=false", "-engine", "sqlite", "-stops", "3", "-as-file", "-carry=false"}
	farm(t, *from, *journeys, stays, inOnePlace...)
	for _, begins := range []string{"sqlite", "postgres"} {
		carried, inWeather := newTally(), newTally()
		farm(t, *from, *journeys, carried, "-shrink=false", "-engine", begins, "-stops", "3", "-as-file")
		if stays.Worlds != *journeys || carried.Worlds != *journeys {
			t.Fatalf("of %d seeds %d were played in one place, %d with journeys", *journeys, stays.Worlds, carried.Worlds)
		}
		for _, seed := range slices.Sorted(maps.Keys(stays.Stories)) {
			if story := carried.Stories[seed]; story != stays.Stories[seed] && !toldAgain(t, seed, story, inOnePlace...) {
				t.Errorf("seed %d on %s: in one place %s; carried %s", seed, begins, stays.Stories[seed], story)
			}
		}
		// and where the server ends sessions, and leases alone tell which runs are dead
		farm(t, *from, *journeys, inWeather, "-engine", begins, "-stops", "3")
		for _, sum := range []*tally{carried, inWeather} {
			for _, where := range []string{toFile, toServer} {
				if sum.Counts[where] == 0 {
					t.Errorf("no seed of %d that begin on %s reached %q", *journeys, begins, where)
				}
			}
			for _, what := range slices.Sorted(maps.Keys(sum.Counts)) {
				if isOfCarrying(what, 0) {
					t.Logf("began on %s: %d × %s", begins, sum.Counts[what], what)
				}
			}
		}
	}
}
