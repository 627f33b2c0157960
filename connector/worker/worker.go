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
// what the ledger says was finished last. The jobs can be replaced while the worker
// runs: what is at work finishes as it began, and a job is never at work twice. What
// a job does, and how an error of it is shown, is left to whoever configures it.
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
	TriggerManual   = "manual"   // a person asked for it
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
	Trigger string        // one of the triggers; "" when nothing was started
	Took    time.Duration // how long the run took; 0 when nothing was started
	Until   time.Time     // when a parked job goes on; zero for any other
	Err     error         // why it did not end in Done; *connector.PanicError after a panic
}

// Worker runs jobs by their schedules and drains the inbox when it is nudged.
type Worker struct {
	cfg    Config
	drain  *job
	nudges chan struct{}
	beat   atomic.Pointer[time.Time] // when the clock last answered; nil while it does not run

	mu    sync.Mutex
	jobs  map[string]*job // every one there ever was, so that one that comes back is not at work twice
	ctx   context.Context // of Run; nil while it does not run
	clock *cron.Cron
	asked sync.WaitGroup // what people have asked for and is at work
}

// job is what the worker knows under the name of a Job.
type job struct {
	name    string
	delay   time.Duration
	catchUp atomic.Bool
	parked  atomic.Pointer[time.Time]
	busy    sync.Mutex           // held while it is at work or parked
	work    atomic.Pointer[work] // what it is now

	// These are the worker's to lock.
	task  cron.Job // nil until the worker runs
	entry cron.EntryID
	kept  context.Context // ends when the job is one of the worker's no more
	drop  context.CancelFunc
}

// work is a Job with its schedule, as it was given at a time.
type work struct {
	Job
	schedule cron.Schedule
}

// times are when cron is to start a job.
type times struct {
	*job
	schedule cron.Schedule
	missed   bool // its time passed while nobody looked; used by one goroutine at a time
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
	w := &Worker{cfg: cfg, nudges: make(chan struct{}, 1), jobs: map[string]*job{}}
	works, err := parseJobs(cfg.Jobs)
	if err := errors.Join(w.checkConfig(), err); err != nil {
		return nil, err
	}
	for _, wk := range works {
		w.job(wk.Name).give(wk)
	}
	w.drain = &job{name: DrainName}
	w.drain.give(work{Job: Job{Run: func(ctx context.Context, _ string) error { return cfg.Drain(ctx) }}})
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

// parseJobs reads the schedules. Its error lists every job that cannot be used.
func parseJobs(jobs []Job) (works []work, err error) {
	var problems []error
	names := map[string]bool{DrainName: true}
	for _, j := range jobs {
		if names[j.Name] {
			problems = append(problems, fmt.Errorf("the job %q is given twice, or has a name that is taken", j.Name))
		}
		names[j.Name] = true
		if j.Name == "" || j.Run == nil {
			problems = append(problems, fmt.Errorf("the job %q needs a name and something to run", j.Name))
			continue
		}
		schedule, err := ParseSchedule(j.Schedule)
		if err != nil {
			problems = append(problems, fmt.Errorf("the job %s: %w", j.Name, err))
		}
		works = append(works, work{j, schedule})
	}
	return works, errors.Join(problems...)
}

// job returns the job of a name, which may be new.
func (w *Worker) job(name string) *job {
	if w.jobs[name] == nil {
		w.jobs[name] = &job{name: name}
		if w.cfg.Jitter > 0 {
			w.jobs[name].delay = time.Duration(w.cfg.Rand.Int64N(int64(w.cfg.Jitter)))
		}
	}
	return w.jobs[name]
}

// give says what the job is from now on.
func (j *job) give(wk work) {
	j.work.Store(&wk)
	if j.drop == nil {
		j.kept, j.drop = context.WithCancel(context.Background())
	}
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

// ErrBusy means that a job is at work, or parked, and is not started a second time.
var ErrBusy = errors.New("it is at work already, or waits because the remote system asked for it")

// ErrStopped means that the worker does not run.
var ErrStopped = errors.New("no job is started any more, or none yet")

// Now starts something under the name of a job because a person asked for it, and returns at
// once. There may be no job of that name; where there is one, its ticks are skipped meanwhile.
// It ends with the context of Run, and is reported as a tick is, but for a throttled one, which
// is not parked: the person sees it, and asks again. It fails with ErrBusy or ErrStopped.
func (w *Worker) Now(name string, run func(context.Context) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil || w.ctx.Err() != nil {
		return ErrStopped
	}
	j := w.job(name)
	if !j.busy.TryLock() {
		return ErrBusy
	}
	ctx := w.ctx
	once := cron.Recover(cronLog{j, w.cfg.Report})(cron.FuncJob(func() {
		w.cfg.Report(Event{Job: name, Outcome: Begun, Trigger: TriggerManual})
		e := w.once(ctx, name, TriggerManual, func(ctx context.Context, _ string) error { return run(ctx) })
		if e.Outcome == Parked {
			e.Outcome, e.Until = Failed, time.Time{}
		}
		w.cfg.Report(e)
	}))
	w.asked.Go(func() {
		defer j.busy.Unlock()
		once.Run()
	})
	return nil
}

// Run runs the jobs and the drain until ctx ends; that ends the context of every
// job too. It returns when all of them have returned. Its error is nil unless it
// cannot be learnt when a job last ran; nothing was started then. One worker is
// run once at a time.
func (w *Worker) Run(ctx context.Context) error {
	clock, err := w.begin(ctx)
	if err != nil {
		return err
	}
	clock.Start()
	var draining sync.WaitGroup
	draining.Go(func() { w.keepDraining(ctx) })
	w.keepTime(ctx, clock)
	<-clock.Stop().Done()
	draining.Wait()
	w.mu.Lock()
	w.ctx, w.clock = nil, nil
	w.mu.Unlock()
	w.asked.Wait()
	return nil
}

// begin puts every job on a new clock.
func (w *Worker) begin(ctx context.Context) (*cron.Cron, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []times
	for _, j := range w.jobs {
		if j.drop == nil {
			continue
		}
		t, err := w.due(ctx, j, *j.work.Load())
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	w.ctx, w.clock = ctx, cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger))
	for _, t := range all {
		t.task = w.task(ctx, t.job)
		t.entry = w.clock.Schedule(&t, t.task)
	}
	return w.clock, nil
}

// Replace makes these the worker's jobs. One that is at work finishes as it began; what it
// is under the same name now comes after it, by its own schedule. One that is new and
// overdue runs at once, and one that is no longer there is not started again. When its error
// is not nil nothing was replaced: it lists the jobs that cannot be used, or says that it
// cannot be learnt when one last ran.
func (w *Worker) Replace(ctx context.Context, jobs []Job) error {
	works, err := parseJobs(jobs)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var changed []times
	kept := map[string]bool{}
	for _, wk := range works {
		j := w.job(wk.Name)
		kept[wk.Name] = true
		switch {
		case j.drop == nil:
			t, err := w.due(ctx, j, wk)
			if err != nil {
				return err
			}
			changed = append(changed, t)
		case j.work.Load().Schedule != wk.Schedule:
			changed = append(changed, times{job: j, schedule: wk.schedule})
		}
	}
	for name, j := range w.jobs {
		if !kept[name] && j.drop != nil {
			w.unschedule(j)
			j.drop()
			j.kept, j.drop = nil, nil
		}
	}
	for _, wk := range works {
		w.jobs[wk.Name].give(wk)
	}
	for _, t := range changed {
		w.unschedule(t.job)
		w.reschedule(t)
	}
	return nil
}

func (w *Worker) unschedule(j *job) {
	if w.clock != nil {
		w.clock.Remove(j.entry)
	}
}

func (w *Worker) reschedule(t times) {
	if w.clock == nil {
		return // Run does it
	}
	if t.task == nil {
		t.task = w.task(w.ctx, t.job)
	}
	t.entry = w.clock.Schedule(&t, t.task)
}

// due returns when a job is to start that the worker did not have before. Its time may have
// come since it last finished. One that never finished counts: a nightly job on a machine
// that sleeps at night would otherwise never begin.
func (w *Worker) due(ctx context.Context, j *job, wk work) (times, error) {
	t := times{job: j, schedule: wk.schedule}
	if wk.Last == nil {
		return t, nil
	}
	last, err := wk.Last(ctx)
	if err != nil {
		return t, fmt.Errorf("learn when %s last ran: %w", j.name, err)
	}
	t.missed = last.IsZero() || !wk.schedule.Next(last).After(w.cfg.Now())
	return t, nil
}

// Alive reports whether the worker runs and looks at its schedules.
func (w *Worker) Alive() bool {
	last := w.beat.Load()
	return last != nil && w.cfg.Now().Sub(*last) < 3*clockEvery
}

// keepTime makes cron look at the wall clock again from time to time until ctx
// ends. Cron sleeps by the monotonic clock, which stands still while the machine
// does and does not notice the wall clock being set; jobs would be late by as
// much (fault F72). Removing an entry that does not exist is how cron is woken.
func (w *Worker) keepTime(ctx context.Context, clock *cron.Cron) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	defer w.beat.Store(nil)
	for {
		clock.Remove(0)
		now := w.cfg.Now()
		w.beat.Store(&now)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
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

// task returns the job as cron runs it. The panic is caught inside: the other way round it
// would leave the job marked as running for ever.
func (w *Worker) task(ctx context.Context, j *job) cron.Job {
	log := cronLog{j, w.cfg.Report}
	once := cron.Recover(log)(cron.FuncJob(func() { w.work(ctx, j) }))
	return cron.FuncJob(func() {
		if !j.busy.TryLock() {
			log.skipped()
			return
		}
		defer j.busy.Unlock()
		once.Run()
	})
}

// work runs the job, and again after each time it is parked. While it waits the
// job counts as running, so that its ticks are skipped.
func (w *Worker) work(ctx context.Context, j *job) {
	trigger := j.trigger()
	for ctx.Err() == nil {
		kept := w.keptOf(j)
		if kept == nil {
			return
		}
		w.cfg.Report(Event{Job: j.name, Outcome: Begun, Trigger: trigger})
		e := w.once(ctx, j.name, trigger, j.work.Load().Run)
		w.cfg.Report(e)
		if e.Outcome != Parked || !w.wait(ctx, kept, j, e.Until) {
			return
		}
	}
}

// keptOf returns a context that ends when the job is one of the worker's no more; nil when
// it is none already.
func (w *Worker) keptOf(j *job) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return j.kept
}

func (w *Worker) once(ctx context.Context, name, trigger string, run func(context.Context, string) error) Event {
	started := w.cfg.Now()
	err := run(ctx, trigger)
	now := w.cfg.Now()
	e := Event{Job: name, Trigger: trigger, Took: now.Sub(started), Err: err}
	e.Outcome, e.Until = OutcomeOf(ctx, err, now)
	return e
}

// OutcomeOf returns how a run ended that returned err at a time, and, of one that is parked, when
// it goes on. One that ctx was cancelled under was interrupted; one that ran out of its time failed.
func OutcomeOf(ctx context.Context, err error, now time.Time) (Outcome, time.Time) {
	at := connector.RetryAt(err)
	switch {
	case err == nil:
		return Done, time.Time{}
	case errors.Is(ctx.Err(), context.Canceled):
		return Interrupted, time.Time{}
	case at.After(now):
		return Parked, now.Add(min(max(at.Sub(now), minPark), maxPark))
	}
	return Failed, time.Time{}
}

// wait parks the job and reports whether its time has come; false when ctx or kept ended
// before.
func (w *Worker) wait(ctx, kept context.Context, j *job, until time.Time) bool {
	j.parked.Store(&until)
	defer j.parked.Store(nil)
	timer := time.NewTimer(until.Sub(w.cfg.Now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-kept.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Next returns when cron is to start the job after t: at once when it was
// missed, else by its schedule and its delay.
func (at *times) Next(t time.Time) time.Time {
	if at.missed {
		at.missed = false
		at.catchUp.Store(true)
		return t
	}
	return at.schedule.Next(t.Add(-at.delay)).Add(at.delay)
}

func (j *job) trigger() string {
	if j.catchUp.Swap(false) {
		return TriggerCatchUp
	}
	return TriggerSchedule
}
