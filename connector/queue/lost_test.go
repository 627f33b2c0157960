package queue

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payersync/connector"
	"payersync/connector/worker"
)

var lost = flag.Bool("lost", false, "kill a node with its work, which takes half a minute to be made up for")

// childOf names the database that a copy of the test binary works on, until it is killed.
const childOf = "PAYERSYNC_QUEUE_DATABASE"

// A lost node was the leader, and busy with a job, a drain and a tick, when it was killed. It has no room for
// another tick, so the next goes to the other node. Times of this test are the product's, except for the time
// after which a node is lost.
//
// covers F185
func TestWhatALostNodeDidGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	if !*lost {
		t.Skip("it takes half a minute; -lost plays it")
	}
	s := newScene(t)
	s.every(1, Schedule{Job: "sync", Cron: daily})
	node := startChild(t, s)
	if err := s.deliver(t.Context(), s.queue(), 2); err != nil {
		t.Fatal(err)
	}
	node.reads("sync", "drain")
	leader := ask[string](s, "SELECT leader_id FROM river.river_leader")

	cfg := s.config()
	cfg.pace = pace{drainAgain: drainAgain, seen: time.Second, gone: lostAfter}
	var ticks atomic.Int64
	cfg.Due = func(context.Context) ([]int64, error) { ticks.Add(1); return nil, nil }
	s.node(cfg)
	s.within(time.Minute, "the other node does ticks, too", func() bool { return ticks.Load() > 0 })
	s.every(3, Schedule{Job: "sync", Cron: daily})
	node.kill()
	killed := time.Now()
	last := ask[int64](s, "SELECT coalesce(max(id), 0) FROM river.river_job WHERE kind = 'tick'")
	s.within(30*time.Second, "the next tick comes",
		func() bool { return ask[int64](s, "SELECT max(id) FROM river.river_job WHERE kind = 'tick'") > last })
	t.Logf("the next tick came after %s", time.Since(killed))
	if now := ask[string](s, "SELECT leader_id FROM river.river_leader"); now == leader {
		t.Errorf("%s still leads", now)
	}
	s.within(30*time.Second, "another account's job is done", func() bool { return s.noted("3 sync done schedule") == 1 })
	s.within(2*time.Minute, "the job and the drain are done elsewhere", func() bool {
		return s.noted("1 sync done schedule") == 1 && s.noted("2 drain done schedule") == 1 && s.over()
	})
	t.Logf("its work was done after %s", time.Since(killed))
	if lie := ask[int](s, "SELECT count(*) FROM deliveries WHERE open"); lie > 0 {
		t.Errorf("%d deliveries lie", lie)
	}
}

// lostAfter is when a node of that test is lost.
const lostAfter = 5 * time.Second

// A restored database has running jobs on unknown nodes.
func TestJobsOfUnknownNodesAreReturned(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.every(1, Schedule{Job: "sync", Cron: daily})
	if err := s.deliver(t.Context(), s.queue(), 2); err != nil {
		t.Fatal(err)
	}
	q := s.queue()
	if _, err := q.startDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.exec("UPDATE river.river_job SET state = 'running', attempt = 1, attempted_at = now() - '2 minutes'::interval, attempted_by = '{nobody}'")
	s.exec("INSERT INTO river.holds (account, job, job_id, holder) SELECT 1, 'sync', id, 'nobody 1' FROM river.river_job WHERE kind = 'slice'") // it has ended, which River does not know
	s.node(s.named(Presence{Name: "alpha"}))
	s.until("what was under way goes on", func() bool { return s.noted("2 drain done schedule") == 1 && s.over() })
	if n := s.noted("1 sync done schedule"); n != 0 {
		t.Errorf("a job that had ended was done %d times again", n)
	}
}

// A node stands still during a drain. Another goes on with it, and what the first answers when it wakes up does not
// end the other's.
//
// covers F185
func TestALateAnswerOfALostNodeDoesNotCount(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	begun, wake, fenced := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	slow := s.named(Presence{Name: "alpha"})
	slow.pace.seen, slow.pace.gone = time.Hour, time.Second
	slow.Drain = func(ctx context.Context, _ int64) error {
		close(begun)
		<-wake
		fenced <- connector.MayLeave(ctx)
		return nil
	}
	s.node(slow)
	if err := s.deliver(t.Context(), s.queue(), 1); err != nil {
		t.Fatal(err)
	}
	<-begun
	other, end := s.named(Presence{Name: "beta"}), make(chan struct{})
	other.pace.gone = time.Second
	var drains atomic.Int64
	drain := other.Drain
	other.Drain = func(ctx context.Context, account int64) error { drains.Add(1); <-end; return drain(ctx, account) }
	s.node(other)
	s.until("the other node goes on", func() bool { return drains.Load() == 1 })
	close(wake)
	if err := <-fenced; !errors.Is(err, errUnseen) {
		t.Errorf("the lost node may send: %v", err)
	}
	s.until("the lost node has answered", func() bool { return s.noted("1 drain done schedule") == 1 })
	if n := ask[int](s, "SELECT count(*) FROM river.river_job WHERE kind = 'drain' AND state = 'running'"); n != 1 {
		t.Errorf("%d drains are at work after the late answer, want that of the other node", n)
	}
	close(end)
	s.until("all is drained", func() bool { return s.over() })
	if lie := ask[int](s, "SELECT count(*) FROM deliveries WHERE open"); lie > 0 || drains.Load() != 1 {
		t.Errorf("%d deliveries lie after %d drains", lie, drains.Load())
	}
}

// After an outage of the database every node looks silent.
func TestANodeThatHasJustComeBackJudgesNobody(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	q := s.queue()
	q.cfg.Presence = func() Presence { return Presence{Name: "alpha"} }
	s.exec("INSERT INTO river.nodes (node_id, name, version, addresses, accounts, unopened, runs, stopping, started_at, seen_at) VALUES ('b', 'beta', '1', '{}', 1, '{}', 0, false, now(), now() - '3 minutes'::interval)")
	if err := s.deliver(t.Context(), q, 1); err != nil {
		t.Fatal(err)
	}
	s.exec("UPDATE river.river_job SET state = 'running', attempt = 1, attempted_at = now(), attempted_by = '{b}'")
	q.lease.Store(connector.NewLease(goneAfter, connector.OfThisMachine()))
	v := &visible{Queue: q, began: time.Now()}
	running := func() int { return ask[int](s, "SELECT count(*) FROM river.river_job WHERE state = 'running'") }
	for range steadyTimes {
		v.seen(t.Context())
	}
	if running() != 1 {
		t.Error("it gave the job of another away, which may be about to speak")
	}
	v.seen(t.Context())
	if running() != 0 {
		t.Error("it never judges")
	}
}

type process struct {
	*scene
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startChild(t testing.TB, s *scene) *process {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childOf+"="+s.dsn)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{scene: s, cmd: cmd, lines: bufio.NewScanner(output)}
	t.Cleanup(p.kill)
	return p
}

// reads waits until the process has said all of these.
func (p *process) reads(words ...string) {
	p.Helper()
	said := ""
	for p.lines.Scan() {
		said += p.lines.Text() + " "
		all := true
		for _, w := range words {
			all = all && strings.Contains(said, w)
		}
		if all {
			return
		}
	}
	p.Fatalf("the node said %q only", said)
}

// kill ends the process as a loss of power does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// child is a node whose work never ends. It says what it has begun.
func child(dsn string) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		panic(err)
	}
	forever := func() error { select {} }
	due := func(context.Context) ([]int64, error) { return nil, forever() }
	q, err := New(Config{
		Pool: pool, Work: func(context.Context, Job, string) error { return forever() },
		Drain:  func(context.Context, int64) error { return forever() },
		Open:   func(context.Context, pgx.Tx, int64) (bool, error) { return false, nil },
		Due:    due,
		Report: func(_ int64, e worker.JobEvent) { fmt.Println(e.Job) },
		Slice:  time.Second,
		pace:   pace{seen: time.Second, gone: lostAfter},
	})
	if err != nil {
		panic(err)
	}
	if err := q.Run(ctx); err != nil {
		panic(err)
	}
}
