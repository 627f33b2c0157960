package session

import (
	"path/filepath"
	"testing"
	"time"

	"payersync/state"
	"payersync/state/statetest"
)

// Nodes that send for one account keep to its rate together: what one has taken, the other comes behind.
//
// covers F187
func TestNodesOfOneAccountShareItsRate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	var nodes []*sharedPace
	at := time.Now()
	for range 2 {
		l, err := state.Open(t.Context(),
			state.Options{Path: path, KeyFile: path + ".key", Now: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		nodes = append(nodes, newSharedPace(l, 20))
	}
	turn := func(node int) time.Time {
		at, err := nodes[node].turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	first, second := turn(0), turn(1)
	if apart := second.Sub(first); apart < time.Second {
		t.Errorf("the second node may send %v after the first, which took a second's worth", apart)
	}
	if next := turn(1); next.Sub(second) != 50*time.Millisecond {
		t.Errorf("two requests of a node are %v apart, want a twentieth of a second", next.Sub(second))
	}
}

// A slow sender keeps the rest of its second, and does not pay for unused turns.
func TestASenderThatIsSlowKeepsTheRestOfItsSecond(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	l, err := state.Open(t.Context(), state.Options{Path: path, KeyFile: path + ".key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := newSharedPace(l, 100_000)
	began := time.Now()
	for range 50 {
		at, err := p.turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if late := time.Until(at); late > 10*time.Millisecond {
			t.Fatalf("a request waits %v, %v after the first, although far fewer were sent than may be", late, time.Since(began))
		}
	}
}
