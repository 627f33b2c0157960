// Package queue schedules jobs on many nodes with one PostgreSQL database, like package worker does for one process.
// Every node works on the jobs of all accounts. Tables hold the waiting work: River's keep each job until it has ended,
// and another keeps the schedules, so no work is lost with a node.
//
//	schedules ── tick ──▶ waits ──▶ at work ─┬─ done, failed, panicked ─▶ gone, until its time comes again
//	delivery ── nudge ──▶   ▲                ├─ ErrMore, interrupted ─┐
//	                        ├────────────────│────────────────────────┘
//	                        │                └─ throttled ─▶ parked ─┐
//	                        └──────── the named time comes ──────────┘
//
// A job is at work, waiting or parked only once across all nodes; further triggers are skipped. A job may take any
// time. After a slice it continues behind the others, so no account blocks another. Its node renews its hold regularly;
// otherwise another node starts it again. A failed job is retried at its next tick, as in package worker. A drain is
// retried automatically, because it may have no other trigger.
//
// A job is done at least once. A node silent for a minute is lost, and the others continue its jobs. It may only have
// been paused: it sends no more requests for them and its late answers do not count, but it may still be working. So no
// safety may rely on the queue. The ledger refuses two simultaneous runs of a connection.
package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"payersync/connector"
	"payersync/connector/worker"
)

// ErrMore is returned by work to continue after all other waiting work, on this node or another.
var ErrMore = errors.New("there is more to do")

// Job identifies a job in an account's schedules.
type Job struct {
	Account int64
	Name    string
}

// Config holds the work of the nodes, and the settings of one.
type Config struct {
	// Pool connects to the database. The running queue holds one connection. It uses the others for single statements
	// and short transactions, not during a job.
	Pool *pgxpool.Pool

	// Work runs a job to its end, for any time, and returns soon after ctx ends. Each job has one call at a time across
	// all nodes. It returns ErrMore to let any node start it again. An error with a connector.RetryAt in the future
	// parks the job.
	Work func(ctx context.Context, job Job, trigger string) error

	// Drain reflects the deliveries of an account within SliceTime, and returns soon after ctx ends. Each account has
	// one call at a time. It returns ErrMore to continue after all other waiting work. A removed account has no
	// deliveries.
	Drain func(ctx context.Context, account int64) error

	// Open reports whether an account has deliveries due for Drain. It runs in the transaction at the end of a drain
	// and must see the commits of others: it reads through tx.
	Open func(ctx context.Context, tx pgx.Tx, account int64) (bool, error)

	// Due returns the accounts with deliveries due for Drain: those with an elapsed time, and those with a nudge lost
	// with a node.
	Due func(ctx context.Context) ([]int64, error)

	Workers Workers
	Slice   time.Duration // a job's share of time while others wait; default a minute, at most SliceTime
	// how long jobs may go on when the queue is told to stop, before their context ends; default 20 s
	StopWithin time.Duration

	// Now is the database's clock, used by all nodes and for the times in errors; nil for the node's own.
	Now func() time.Time

	Presence func() Presence // the node's own entry; nil for one without a name

	Report func(account int64, e worker.JobEvent) // is told of every outcome, by several goroutines at once; nil for nobody
	// receives the queue's failures, without the contents of its jobs; may be nil
	Log func(text string)

	pace pace // shorter times for tests; zero for the product's
}

// Workers are how many jobs a node works on at once: none waits behind those of another kind.
type Workers struct {
	Hooks int // drains; default 16
	Runs  int // jobs that read and send; default 32
	Care  int // sweeps and other jobs; default 4. Continued ones may be careRoom times as many
}

// SliceTime is how long a drain may be at work, or a worker may stay with a job.
const SliceTime = 5 * time.Minute

const (
	sliceOf  = time.Minute
	careRoom = 8 // a sweep waits for the service most of its time

	tickEvery   = 10 * time.Second
	tickTime    = time.Minute
	rescueAfter = 6 * time.Minute  // longer than a slice: a job hanging that long on a living node begins anew
	drainAgain  = 10 * time.Second // after a failed drain
	keep        = time.Hour        // of finished jobs: their results are stored elsewhere
	stopWithin  = 20 * time.Second
	deadAfter   = 90 * time.Second
	attempts    = 5 // lost nodes of one job before it waits for its next time; nothing else counts
)

// pace is how often the database is asked, and the node's clock.
type pace struct {
	now                                          func() time.Time
	tick, fetch, poll, rescue, slice, drainAgain time.Duration
	seen, gone, hold, look                       time.Duration
	inTest                                       bool
}

// The queues of River. The tick has a separate one, so no job delays it.
const (
	hooks = "hooks"
	runs  = "runs"
	care  = "care"
	ticks = "ticks"
)

// Queue is one node's part of the queue.
type Queue struct {
	cfg    Config
	client *river.Client[pgx.Tx]
	clock  riverClock
	heard  atomic.Pointer[time.Time]       // when the database last answered; nil while it does not run
	lease  atomic.Pointer[connector.Lease] // the time within which others do not consider the node lost

	places   map[string]chan struct{} // by queues of River: a slot for each running job of this node
	life     context.Context          // of those
	underWay sync.WaitGroup           // and they
	holds    atomic.Int64             // of this node so far
}

// New returns a queue not running yet. It can set schedules and receive nudges, even in a process without Run. Call
// Migrate first.
func New(cfg Config) (*Queue, error) {
	if cfg.Pool == nil || cfg.Work == nil || cfg.Drain == nil || cfg.Open == nil || cfg.Due == nil {
		return nil, errors.New("the queue needs a database, work, a drain, and ways to learn of deliveries; without one of them something would never be done")
	}
	cfg.defaults()
	q := &Queue{
		cfg: cfg, clock: riverClock{cfg.pace.now, cfg.Now().Sub(cfg.pace.now())},
		places: map[string]chan struct{}{runs: make(chan struct{}, cfg.Workers.Runs),
			care: make(chan struct{}, cfg.Workers.Care*careRoom)},
	}
	client, err := river.NewClient(riverpgxv5.New(cfg.Pool), q.river())
	if err != nil {
		return nil, fmt.Errorf("prepare the queue: %w", err)
	}
	q.client = client
	return q, nil
}

func (c *Config) defaults() {
	orDefault(&c.Workers.Hooks, 16)
	orDefault(&c.Workers.Runs, 32)
	orDefault(&c.Workers.Care, 4)
	orDefault(&c.Slice, sliceOf)
	orDefault(&c.StopWithin, stopWithin)
	orDefault(&c.pace.tick, tickEvery)
	orDefault(&c.pace.fetch, river.FetchCooldownDefault)
	orDefault(&c.pace.poll, river.FetchPollIntervalDefault)
	orDefault(&c.pace.rescue, rescueAfter)
	orDefault(&c.pace.slice, SliceTime)
	orDefault(&c.pace.drainAgain, drainAgain)
	orDefault(&c.pace.seen, seenEvery)
	orDefault(&c.pace.gone, goneAfter)
	orDefault(&c.pace.hold, holdFor)
	orDefault(&c.pace.look, lookEvery)
	if c.pace.now == nil {
		c.pace.now = time.Now
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Presence == nil {
		c.Presence = func() Presence { return Presence{} }
	}
	if c.Report == nil {
		c.Report = func(int64, worker.JobEvent) {}
	}
	if c.Log == nil {
		c.Log = func(string) {}
	}
}

func orDefault[T int | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// river returns how River is set up.
func (q *Queue) river() *river.Config {
	most := func(n int) river.QueueConfig { return river.QueueConfig{MaxWorkers: n} }
	return &river.Config{
		Schema: schema,
		Queues: map[string]river.QueueConfig{hooks: most(q.cfg.Workers.Hooks), runs: most(q.cfg.Workers.Runs),
			care: most(q.cfg.Workers.Care), ticks: most(1)},
		Workers: q.workers(),
		PeriodicJobs: []*river.PeriodicJob{river.NewPeriodicJob(river.PeriodicInterval(q.cfg.pace.tick),
			func() (river.JobArgs, *river.InsertOpts) { return tickArgs{}, nil },
			&river.PeriodicJobOpts{ID: "tick", RunOnStart: true})},
		FetchCooldown:               q.cfg.pace.fetch,
		FetchPollInterval:           q.cfg.pace.poll,
		FetchOnlyKnownKinds:         true, // those of a newer release are left to its nodes
		JobTimeout:                  q.cfg.pace.slice,
		MaxAttempts:                 attempts,
		CompletedJobRetentionPeriod: keep,
		RescueStuckJobsAfter:        max(q.cfg.pace.slice, q.cfg.pace.rescue-q.clock.behind),
		SoftStopTimeout:             q.cfg.StopWithin,
		Logger:                      riverLogger(q.cfg.Log),
		Plugins:                     []rivertype.Plugin{river.HookMetricEmitFunc(q.noteAnswer)},
		ReindexerIndexNames:         []string{}, // only an owner of the tables could
		TestOnly:                    q.cfg.pace.inTest,
		Test:                        river.TestConfig{Time: q.clock},
	}
}

// riverClock is the clock for River on this node: it follows the node's clock, corrected by the database's when the
// queue was made. Other nodes compare River's times with theirs, and the leader with its own. River uses another clock
// only when it looks for jobs of lost nodes: a fast node would take jobs in progress for lost.
type riverClock struct {
	node   func() time.Time
	behind time.Duration // of the node; below 0 if fast
}

// Now returns the time. Spans between two are true though the node's clock is set.
func (c riverClock) Now() time.Time { return c.node().Add(c.behind) }

// NowOrNil returns nil, so statements use the database's own time.
func (c riverClock) NowOrNil() *time.Time { return nil }

// noteAnswer is called whenever the database was asked for jobs and answered.
func (q *Queue) noteAnswer(context.Context, *rivertype.HookMetricEmitParams) {
	now := time.Now()
	q.heard.Store(&now)
}

// Nudge requests a drain of an account soon. The delivery must be committed. Nudges before the drain's start count as
// one; a nudge during a drain causes another. Config.Due makes up for lost nudges.
func (q *Queue) Nudge(ctx context.Context, account int64) error {
	if _, err := q.client.Insert(ctx, drainArgs{account}, nil); err != nil {
		return fmt.Errorf("ask for a drain: %w", err)
	}
	return nil
}

// Run works on jobs until ctx ends. Then it takes no more, and gives jobs in progress Config.StopWithin. It ends the
// context of the rest, continued by other nodes, and returns once all have returned. Its error is nil unless it could
// not begin. Run a queue once at a time.
func (q *Queue) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	q.life = life
	defer context.AfterFunc(ctx, func() { time.AfterFunc(q.cfg.StopWithin, end) })()
	q.lease.Store(connector.NewLease(q.cfg.pace.gone, connector.OfThisMachine()))
	v := &visible{Queue: q, began: time.Now()}
	v.seen(ctx) // before any job: jobs need the lease of a known node
	if err := q.client.Start(ctx); err != nil {
		v.removeRow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("begin to work on the queue: %w", err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-q.client.Stopped()
		q.underWay.Wait()
	}()
	v.beSeen(ctx, stopped)
	q.heard.Store(nil)
	return nil
}

// Runs returns the number of this node's running jobs that read and send.
func (q *Queue) Runs() int { return len(q.places[runs]) }

// Alive reports whether the queue runs and the database lately answered when it was asked for
// jobs.
func (q *Queue) Alive() bool {
	last := q.heard.Load()
	return last != nil && time.Since(*last) < deadAfter
}
