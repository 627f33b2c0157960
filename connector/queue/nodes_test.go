package queue

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// nodes returns the nodes that the database knows.
func (s *scene) nodes() []Node {
	s.Helper()
	found, err := Nodes(s.Context(), s.pool)
	if err != nil {
		s.Fatal(err)
	}
	return found
}

// named returns a configuration of a node that says this of itself.
func (s *scene) named(p Presence) Config {
	cfg := s.config()
	cfg.Presence = func() Presence { return p }
	cfg.pace.seen = 20 * time.Millisecond
	return cfg
}

func TestNodesSeeEachOtherAndWhoLeads(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var opened atomic.Int64
	cfg := s.config()
	cfg.pace.seen = 20 * time.Millisecond
	cfg.pace.now = func() time.Time { return time.Now().Add(90 * time.Second) }
	cfg.Presence = func() Presence {
		return Presence{Name: "alpha", Version: "1.2", Addresses: []string{"127.0.0.1:8080"}, Accounts: int(opened.Load()),
			Unopened: []int64{7, 9}, Runs: 3, Pages: "https"}
	}
	q, stop := s.node(cfg)
	s.node(s.named(Presence{Name: "beta"}))
	opened.Store(5)
	var seen []Node
	s.until("both are seen, and one leads", func() bool {
		seen = s.nodes()
		return len(seen) == 2 && seen[0].Accounts == 5 && slices.ContainsFunc(seen, func(n Node) bool { return n.Leads })
	})
	if diff := cmp.Diff(Presence{"alpha", "1.2", []string{"127.0.0.1:8080"}, 5, []int64{7, 9}, 3, "https"},
		seen[0].Presence); diff != "" {
		t.Errorf("alpha says (-want +got):\n%s", diff)
	}
	if a := seen[0]; !a.PagesKnown || a.ClockAhead < 89*time.Second || a.ClockAhead > 91*time.Second ||
		seen[1].ClockAhead.Abs() > time.Second {
		t.Errorf("alpha's clock is %v ahead, beta's %v", a.ClockAhead, seen[1].ClockAhead)
	}
	if mine, err := q.Nodes(t.Context()); err != nil || len(mine) != 2 || mine[0].ID == mine[1].ID || seen[0].Leads &&
		seen[1].Leads {
		t.Errorf("a node sees %+v, %v", mine, err)
	}
	if n := seen[1]; n.State() != AtWork || n.StartedAt.After(n.SeenAt) || n.Silent < 0 || len(n.Unopened) != 0 {
		t.Errorf("beta is %+v", n)
	}
	stop()
	if left := s.nodes(); len(left) != 1 || left[0].Name != "beta" {
		t.Errorf("after alpha has stopped there are %+v", left)
	}
}

func TestANodeThatStopsIsSeenToDoSoWhileItsJobsEnd(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	cfg := s.named(Presence{Name: "alpha"})
	cfg.StopWithin = time.Minute
	begun, end := make(chan struct{}), make(chan struct{})
	cfg.Work = func(context.Context, Job, string) error { close(begun); <-end; return nil }
	s.every(1, Schedule{Job: "sync", Cron: daily})
	_, stop := s.node(cfg)
	<-begun
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	s.until("it is seen to stop", func() bool { seen := s.nodes(); return len(seen) == 1 && seen[0].State() == Stopping })
	close(end)
	<-stopped
	if left := s.nodes(); len(left) > 0 {
		t.Errorf("it has stopped, and there are %+v", left)
	}
}

func TestALostNodeIsSeenForAWhileUnlessOneOfItsNameIsBack(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	lost := func(id, name, silent string) {
		s.exec(`INSERT INTO river.nodes (node_id, name, version, addresses, accounts, unopened, runs, stopping, started_at, seen_at)
			VALUES ($1, $2, '1', '{}', 1, '{}', 0, false, now() - '3 days'::interval, now() - $3::interval)`, id, name, silent)
	}
	lost("a", "alpha", "14 minutes")
	lost("b", "beta", "14 minutes")
	lost("c", "gamma", "25 hours")
	lost("d", "alpha", "5 seconds") // another of the same machine
	for _, n := range s.nodes() {
		if lost := n.State() == Lost; lost != (n.ID != "d") {
			t.Errorf("lost: %t, %+v", lost, n)
		}
	}
	s.node(s.named(Presence{Name: "alpha"}))
	s.until("those that came back or are long gone are forgotten", func() bool {
		var ids []string
		for _, n := range s.nodes() {
			ids = append(ids, n.ID)
		}
		return len(ids) == 3 && slices.Contains(ids, "b") && slices.Contains(ids, "d")
	})
	i := slices.IndexFunc(s.nodes(), func(n Node) bool { return n.ID == "b" })
	if n := s.nodes()[i]; n.State() != Lost || n.Silent.Round(time.Minute) != 14*time.Minute || n.Leads {
		t.Errorf("the lost one is %+v", n)
	}
	for name, want := range map[string]int{"beta": 1, "alpha": 0, "nobody": 0} {
		if n, err := Forget(t.Context(), s.pool, name); n != want || err != nil {
			t.Errorf("of %s %d were forgotten, %v, want %d", name, n, err, want)
		}
	}
	if left := s.nodes(); len(left) != 2 {
		t.Errorf("there are %+v", left)
	}
}

func TestANodeThatCannotBeSeenWorksAllTheSame(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.exec("DROP TABLE river.nodes")
	s.every(1, Schedule{Job: "sync", Cron: daily})
	_, stop := s.node(s.named(Presence{Name: "alpha"}))
	s.until("its job is done", func() bool { return s.noted("1 sync done schedule") == 1 })
	stop()
	if seen := s.nodes(); seen != nil {
		t.Errorf("without a table there are %+v", seen)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	said := 0
	for _, text := range s.logged { // River says more, when it is stopped
		if strings.HasPrefix(text, "other nodes and people do not see") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("it was logged %d times: %q", said, s.logged)
	}
}
