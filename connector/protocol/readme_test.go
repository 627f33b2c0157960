package protocol

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"payersync/connector"
)

var update = flag.Bool("update", false, "write the golden files anew")

var readme sync.Mutex

// printed keeps one section of README.md equal to what a test has found.
func printed(t *testing.T, section, want string) {
	t.Helper()
	readme.Lock()
	defer readme.Unlock()
	const file = "README.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- begin "+section+" -->\n", "<!-- end "+section+" -->"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, whole := strings.Cut(rest, end)
	if !found || !whole {
		t.Fatalf("%s has no section %q", file, section)
	}
	if now := before + begin + "\n" + want + "\n" + end + after; now != string(text) {
		if !*update {
			t.Fatalf("the section %q of %s is out of date; run: go test ./connector/protocol -update", section, file)
		}
		if err := os.WriteFile(file, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestREADMEHoldsTheTables(t *testing.T) {
	t.Parallel()
	printed(t, "tables", Table())
}

// arrowStates are walked through in each world to draw the arrows. Ten times as many
// find no other arrow, only more that moves along some.
const arrowStates = 20_000

// TestREADMEDrawsTheArrowsThatAreWalked keeps the drawing of the link states equal
// to what the small worlds do.
func TestREADMEDrawsTheArrowsThatAreWalked(t *testing.T) {
	t.Parallel()
	if scale > 1 {
		t.Skip("the race detector finds nothing in a package without goroutines, and this is compared without it")
	}
	arrows := map[[2]connector.LinkState]map[string]bool{}
	for _, w := range worlds(none) {
		w.watch = func(before, after *state, m move) {
			for rec := range byte(2) {
				if before.elsewhere(rec) || after.elsewhere(rec) {
					continue
				}
				from, to := Decide(*w.gather(before, rec)).Link, Decide(*w.gather(after, rec)).Link
				if from == to {
					continue
				}
				arrow := [2]connector.LinkState{from, to}
				if arrows[arrow] == nil {
					arrows[arrow] = map[string]bool{}
				}
				arrows[arrow][m.cause(rec)] = true
			}
		}
		if f := w.search(arrowStates, false); f.law != "" {
			t.Fatalf("world %s: %s:%s", w.name, f.law, retell(f.story))
		}
	}
	states := []connector.LinkState{connector.LinkNew, connector.LinkHeld, connector.LinkCreating, connector.LinkLinked,
		connector.LinkConflict, connector.LinkMissing}
	var b strings.Builder
	b.WriteString("| from | to | by |\n|---|---|---|\n")
	for _, from := range states {
		for _, to := range states {
			if causes := arrows[[2]connector.LinkState{from, to}]; causes != nil {
				fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", from, to, strings.Join(slices.Sorted(maps.Keys(causes)), ", "))
			}
		}
	}
	printed(t, "arrows", b.String())
}

var causes = map[Do]string{
	ReadList: "a list", ReadCustomer: "a read", Create: "a create is sent", Replay: "a create is sent again",
	Adopt:  "it is linked",
	Update: "a read", AskLink: "a read", // which come first
	Unlink: "it is released",
}

// cause says in a word what moved the link of a record.
func (m move) cause(rec byte) string {
	switch m.kind {
	case acts:
		if m.a != rec {
			return "the other payer"
		}
		return causes[m.do]
	case answered:
		return "an answer"
	case refuses:
		return "a refusal"
	case timeOver, settles, doubtIsOver:
		return "time"
	case listed, listedShort:
		return "a list"
	case read, readLagging, readEnds:
		return "a read"
	case recordMoves:
		return "a record"
	case restored:
		return "a restore"
	}
	return m.String()
}
