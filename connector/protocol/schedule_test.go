package protocol

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payersync/internal/longtest"
)

var most = longtest.Int("protocol.states", 300_000/scale, 3_300_000/scale,
	"how many states of the small worlds to walk through in all")

// begin is a world in which the first record is included, and the index believed.
func begin() state { return state{records: [2]byte{1, claimsNone}, book: ledger{lists: 2}} }

// beginUnread is the same, before any list.
func beginUnread() state { return state{records: [2]byte{1, claimsNone}} }

// beginLinked is a world in which the first record has its customer.
func beginLinked() state {
	s := begin()
	s.customers[0] = customer{maker: our, holds: 1, flags: live | carries}
	s.book.index, s.book.listed = 1, 1
	s.book.payers[0] = payer{link: 1, confirmed: 1, shows: Ours, holds: 1, flags: readSince}
	return s
}

// worlds are walked through, each with its share of the states.
func worlds(weak weakness) []*world {
	return []*world{
		{name: "customers", share: 29, start: begin(), strangers: true, edits: true, leaves: true, weak: weak},
		{name: "updates", share: 9, start: beginLinked(), strangers: true, edits: true, slow: true, refuses: true,
			weak: weak},
		{name: "reads", share: 4, size: 112_830, start: beginLinked(), edits: true, leaves: true, slow: true, lags: true,
			weak: weak},
		{name: "lists", share: 14, size: 3_761_052, start: beginUnread(), edits: true, leaves: true, lists: true, slow: true,
			weak: weak},
		{name: "keys", share: 9, start: begin(), strangers: true, leaves: true, rekeys: true, refuses: true, weak: weak},
		{name: "restores", share: 14, start: begin(), edits: true, leaves: true, restores: true, weak: weak},
		{name: "mandates", share: 9, start: beginLinked(), strangers: true, leaves: true, mandates: true, restores: true,
			weak: weak},
		{name: "unlinks", share: 9, start: beginLinked(), strangers: true, edits: true, unlinks: true, weak: weak},
		{name: "links", share: 3, size: 31_300, start: beginLinked(), leaves: true, mandates: true, restores: true,
			slow: true, again: AgainSame, weak: weak},
	}
}

// shares returns the number of states to visit in each world. The unused share of small worlds goes to those
// of unknown size.
func shares(worlds []*world, most int) []int {
	left, open := 0, 0
	for _, w := range worlds {
		if w.size == 0 {
			open += w.share
		} else {
			left += max(0, most*w.share/100-w.size)
		}
	}
	out := make([]int, len(worlds))
	for i, w := range worlds {
		out[i] = most * w.share / 100
		if w.size == 0 {
			out[i] += (left*w.share + open - 1) / open // rounded up: in all not fewer than asked for
		}
	}
	return out
}

// TestEverySchedule visits, with its default number of states, every schedule of up to nine moves among
// customers and of seven to thirteen elsewhere. It visits the worlds of reads and links completely.
func TestEverySchedule(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var states atomic.Int64
	t.Cleanup(func() {
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		t.Logf("%d states in all, %.1f s, %.1f GiB of memory", states.Load(), time.Since(began).Seconds(),
			float64(memory.Sys)/(1<<30))
	})
	all := worlds(none)
	for i, share := range shares(all, most()) {
		w := all[i]
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			f := w.search(share, true)
			t.Log(f)
			states.Add(int64(f.states))
			if f.whole && f.states != w.size {
				t.Errorf("the world has %d states, and %d are written down as its size", f.states, w.size)
			}
			if f.law != "" {
				t.Errorf("%s:%s", f.law, retell(f.story))
			}
		})
	}
}

// TestNoStateIsTakenForAnother holds what a search keeps of a world, walked through
// whole, against a set of its states as they are.
func TestNoStateIsTakenForAnother(t *testing.T) {
	t.Parallel()
	all := worlds(none)
	w := all[len(all)-1]
	seen := map[state]bool{w.start: true}
	w.watch = func(_, after *state, _ move) { seen[*after] = true }
	f := w.search(1_000_000, false)
	if !f.whole || f.states != len(seen) {
		t.Errorf("of the world of %s the search knows %s; moves lead to %d", w.name, f, len(seen))
	}
}

// weaker are protocols that look right. Each is caught in one of the worlds.
var weaker = []weakness{
	closeOnFound, closeOnDoubled, closeOnLeave, forgetAfterOne, timeAlone, rebuild, oneList, noLook, noEpoch, clockOrder,
	replayLeft, askAgain, noLookBeforeLink, linkOver, lagIsGone, answerIsShown, othersForgotten, linksForgotten,
	unlinkAtOnce,
}

func TestEveryWeakerProtocolIsCaught(t *testing.T) {
	longtest.Story(t, longtest.Computing)
	t.Parallel()
	if scale > 1 {
		t.Skip("the race detector finds nothing in a package without goroutines, and this is searched without it")
	}
	caught := make([]string, len(weaker))
	t.Run("rules", func(t *testing.T) {
		for i, weak := range weaker {
			t.Run(string(weak), func(t *testing.T) {
				t.Parallel()
				caught[i] = catch(t, weak)
			})
		}
	})
	printed(t, "weaker", "| weaker rule | caught at depth | in the world of | because |\n|---|---|---|---|\n"+strings.Join(caught, ""))
}

// catch searches the worlds until one shows what a weaker rule does wrong, first
// where it is near.
func catch(t *testing.T, weak weakness) string {
	for _, most := range []int{20_000, 500_000} {
		for _, w := range worlds(weak) {
			if f := w.search(most, true); f.law != "" {
				t.Logf("caught at depth %d of world %s, after %d states, %.2f s: %s:%s", f.depth, w.name, f.states,
					f.took.Seconds(), f.law, retell(f.story))
				return fmt.Sprintf("| %s | %d | %s | %s |\n", weak, f.depth, w.name, f.law)
			}
		}
	}
	t.Errorf("nothing that it does wrong was seen")
	return ""
}
