package queue

import (
	"bufio"
	"context"
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

	"payersync/connector/worker"
)

var lost = flag.Bool("lost", false, "kill a node with its work, which takes half a minute to be made up for")

// childOf names the database that a copy of the test binary works on, until it is killed.
const childOf = "PAYERSYNC_QUEUE_DATABASE"

// A lost node was the leader, and at work on a job, on a drain and on a tick, when it was killed: it has no place for
// another tick, so that the next is the other node's. Times of this test are River's own, but for those after which a
// job is taken for lost.
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
	cfg.pace = pace{slice: lostAfter, rescue: lostAfter, drainAgain: drainAgain, hold: lostAfter}
	var ticks atomic.Int64
	cfg.Due = func(context.Context) ([]int64, error) { ticks.Add(1); return nil, nil }
	s.node(cfg)
	s.within(time.Minute, "the other node does ticks, too", func() bool { return ticks.Load() > 0 })
	s.every(3, Schedule{Job: "sync", Cron: daily})
	node.kill()
	killed := time.Now()
	last := ask[int64](s, "SELECT coalesce(max(id), 0) FROM river.river_job WHERE kind = 'tick'")
	s.within(30*time.Second, "the next tick comes", func() bool { return ask[int64](s, "SELECT max(id) FROM river.river_job WHERE kind = 'tick'") > last })
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

// lostAfter is when a job of that test is taken for lost.
const lostAfter = 5 * time.Second

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
		Report: func(_ int64, e worker.Event) { fmt.Println(e.Job) },
		Slice:  time.Second,
		pace:   pace{slice: lostAfter, rescue: time.Hour, hold: lostAfter}, // it is not the one that takes its jobs for lost
	})
	if err != nil {
		panic(err)
	}
	if err := q.Run(ctx); err != nil {
		panic(err)
	}
}
