// Package worker decides what runs when: cron schedules for the jobs, and a
// nudge from the webhook endpoint for the drain of its inbox. The steps it calls
// know nothing of clocks, and nothing is safe only because of the worker: two
// runs of a connection at once are refused by the ledger.
//
//	tick ─┬─ idle ────▶ run ─┬─ done, failed, panicked ─▶ idle
//	      │              ▲   └─ throttled ─▶ parked ─┐
//	      │              └──── the named time comes ─┘
//	      ├─ running ─▶ skipped
//	      └─ parked ──▶ skipped
//
// A job whose time passed while the process was down, however often, runs once
// at the start. Schedules are kept in memory only; what was missed is judged by
// what the ledger says was finished last. What a job does, and how an error of
// it is shown, is left to whoever configures it.
package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"

	"payersync/connector"
)

// The triggers a job is run with, as the ledger's runs name them.
const (
	TriggerSchedule = "schedule" // its time came, or a parked job's wait is over
	TriggerCatchUp  = "catch_up" // its time passed while the process was down
)

// DrainName is the name under which the drain is reported. No job may have it.
const DrainName = "drain"

const (
	defaultDrainEvery = 30 * time.Second
	clockEvery        = 30 * time.Second // how late a job can be after the clock was set or the machine slept
	minPark           = time.Minute      // a remote that names the next second is not asked every second
	maxPark           = 24 * time.Hour   // no quota we know of is longer; a later time is taken for a mistake
)

// Job is something that runs on a schedule.
type Job struct {
	Name     string // for reports; unique
	Schedule string // see ParseSchedule

	// Last returns when the job last finished, the zero time for never. A job
	// that is overdue by it when the worker starts runs once at once. Nil means
	// that the job is never caught up.
	Last func(ctx context.Context) (time.Time, error)

	// Run does the work once and returns when it is done, soon after ctx ends. An
	// error that carries a connector.RetryAt in the future parks the job.
	Run func(ctx context.Context, trigger string) error
}

// Config says what a worker runs.
type Config struct {
	Jobs       []Job
	Drain      func(ctx context.Context) error // reflects the inbox; one call at a time
	DrainEvery time.Duration                   // the longest time between two drains, for deliveries that wait; default 30 s

	// Jitter is the bound of the delay that each job's ticks get, so that many
	// installations, and the jobs of one, do not all start on the minute. A job's
	// delay is drawn from Rand once, so that its intervals stay exact. Zero means
	// no delay.
	Jitter time.Duration
	Rand   *rand.Rand

	Now    func() time.Time // judges what is overdue and when a parked job goes on; nil means the system's clock
	Report func(Event)      // is told of every outcome, by several goroutines at once; nil for nobody
}

// Outcome says that a job begins, or how one tick of it ended.
type Outcome string

// The outcomes.
const (
	Begun       Outcome = "begun"
	Done        Outcome = "done"
	Failed      Outcome = "failed"
	Panicked    Outcome = "panicked"    // the job goes on at its next tick
	Interrupted Outcome = "interrupted" // the worker was told to stop and the job with it
	Parked      Outcome = "parked"      // throttled: it is not started again before Event.Until
	Skipped     Outcome = "skipped"     // the run before is not over yet, or still parked
)

// Event is what the worker reports of a job.
type Event struct {
	Job     string
	Outcome Outcome
	Trigger string        // TriggerSchedule or TriggerCatchUp; "" when nothing was started
	Took    time.Duration // how long the run took; 0 when nothing was started
	Until   time.Time     // when a parked job goes on; zero for any other
	Err     error         // why it did not end in Done; *PanicError after a panic
}

// Worker runs jobs by their schedules and drains the inbox when it is nudged.
type Worker struct {
	cfg    Config
	jobs   []*job
	drain  *job
	nudges chan struct{}
}

// job is a Job with what the worker knows of it.
type job struct {
	Job
	schedule cron.Schedule
	delay    time.Duration
	missed   bool // its time passed while the process was down; used by one goroutine at a time
	catchUp  atomic.Bool
	parked   atomic.Pointer[time.Time]
}

// New returns a worker that is not running yet. Its error lists every job that
// cannot be used, and why.
func New(cfg Config) (*Worker, error) {
	if cfg.DrainEvery <= 0 {
		cfg.DrainEvery = defaultDrainEvery
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Report == nil {
		cfg.Report = func(Event) {}
	}
	w := &Worker{cfg: cfg, nudges: make(chan struct{}, 1)}
	problems := []error{w.checkConfig()}
	names := map[string]bool{DrainName: true}
	for _, j := range cfg.Jobs {
		if names[j.Name] {
			problems = append(problems, fmt.Errorf("the job %q is given twice, or has a name that is taken", j.Name))
		}
		names[j.Name] = true
		problems = append(problems, w.add(j))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	w.drain = &job{Job: Job{Name: DrainName, Run: func(ctx context.Context, _ string) error { return cfg.Drain(ctx) }}}
	return w, nil
}

func (w *Worker) checkConfig() error {
	if w.cfg.Drain == nil {
		return errors.New("the worker has no drain; without one no delivery would ever be reflected")
	}
	if w.cfg.Jitter > 0 && w.cfg.Rand == nil {
		return errors.New("the worker's jitter needs a source of randomness")
	}
	return nil
}

func (w *Worker) add(j Job) error {
	if j.Name == "" || j.Run == nil {
		return fmt.Errorf("the job %q needs a name and something to run", j.Name)
	}
	schedule, err := ParseSchedule(j.Schedule)
	if err != nil {
		return fmt.Errorf("the job %s: %w", j.Name, err)
	}
	added := &job{Job: j, schedule: schedule}
	if w.cfg.Jitter > 0 && w.cfg.Rand != nil {
		added.delay = time.Duration(w.cfg.Rand.Int64N(int64(w.cfg.Jitter)))
	}
	w.jobs = append(w.jobs, added)
	return nil
}

// Nudge asks for a drain soon. It never blocks: nudges that come before the
// drain has begun count as one, and one that comes during a drain is followed by
// another. It may be called at any time, also before Run.
func (w *Worker) Nudge() {
	select {
	case w.nudges <- struct{}{}:
	default:
	}
}

// Run runs the jobs and the drain until ctx ends; that ends the context of every
// job too. It returns when all of them have returned. Its error is nil unless it
// cannot be learnt when a job last ran; nothing was started then. One worker is
// run once at a time.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.findMissed(ctx); err != nil {
		return err
	}
	clock := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger))
	for _, j := range w.jobs {
		clock.Schedule(j, w.task(ctx, j))
	}
	clock.Start()
	var draining sync.WaitGroup
	draining.Go(func() { w.keepDraining(ctx) })
	keepTime(ctx, clock)
	<-clock.Stop().Done()
	draining.Wait()
	return nil
}

// findMissed notes the jobs whose time has come since they last finished. One
// that never finished counts: a nightly job on a machine that sleeps at night
// would otherwise never begin.
func (w *Worker) findMissed(ctx context.Context) error {
	for _, j := range w.jobs {
		if j.Last == nil {
			continue
		}
		last, err := j.Last(ctx)
		if err != nil {
			return fmt.Errorf("learn when %s last ran: %w", j.Name, err)
		}
		j.missed = last.IsZero() || !j.schedule.Next(last).After(w.cfg.Now())
	}
	return nil
}

// keepTime makes cron look at the wall clock again from time to time until ctx
// ends. Cron sleeps by the monotonic clock, which stands still while the machine
// does and does not notice the wall clock being set; jobs would be late by as
// much (fault F72). Removing an entry that does not exist is how cron is woken.
func keepTime(ctx context.Context, clock *cron.Cron) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			clock.Remove(0)
		}
	}
}

// keepDraining drains at the start, after every nudge, and every DrainEvery for
// deliveries whose time comes by itself, until ctx ends.
func (w *Worker) keepDraining(ctx context.Context) {
	task := w.task(ctx, w.drain)
	tick := time.NewTicker(w.cfg.DrainEvery)
	defer tick.Stop()
	for {
		task.Run()
		select {
		case <-ctx.Done():
			return
		case <-w.nudges:
		case <-tick.C:
		}
	}
}

// task returns the job as cron runs it. Recover stands inside SkipIfStillRunning:
// the other way round a panic would leave the job marked as running for ever.
func (w *Worker) task(ctx context.Context, j *job) cron.Job {
	log := cronLog{j, w.cfg.Report}
	return cron.NewChain(cron.SkipIfStillRunning(log), cron.Recover(log)).
		Then(cron.FuncJob(func() { w.work(ctx, j) }))
}

// work runs the job, and again after each time it is parked. While it waits the
// job counts as running, so that its ticks are skipped.
func (w *Worker) work(ctx context.Context, j *job) {
	trigger := j.trigger()
	for ctx.Err() == nil {
		w.cfg.Report(Event{Job: j.Name, Outcome: Begun, Trigger: trigger})
		e := w.once(ctx, j, trigger)
		w.cfg.Report(e)
		if e.Outcome != Parked || !w.wait(ctx, j, e.Until) {
			return
		}
	}
}

func (w *Worker) once(ctx context.Context, j *job, trigger string) Event {
	started := w.cfg.Now()
	err := j.Run(ctx, trigger)
	now := w.cfg.Now()
	e := Event{Job: j.Name, Outcome: Done, Trigger: trigger, Took: now.Sub(started), Err: err}
	at := connector.RetryAt(err)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		e.Outcome = Interrupted
	case at.After(now):
		e.Outcome, e.Until = Parked, now.Add(min(max(at.Sub(now), minPark), maxPark))
	default:
		e.Outcome = Failed
	}
	return e
}

// wait parks the job and reports whether its time has come; false when ctx ended
// before.
func (w *Worker) wait(ctx context.Context, j *job, until time.Time) bool {
	j.parked.Store(&until)
	defer j.parked.Store(nil)
	timer := time.NewTimer(until.Sub(w.cfg.Now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Next returns when cron is to start the job after t: at once when it was
// missed, else by its schedule and its delay.
func (j *job) Next(t time.Time) time.Time {
	if j.missed {
		j.missed = false
		j.catchUp.Store(true)
		return t
	}
	return j.schedule.Next(t.Add(-j.delay)).Add(j.delay)
}

func (j *job) trigger() string {
	if j.catchUp.Swap(false) {
		return TriggerCatchUp
	}
	return TriggerSchedule
}
