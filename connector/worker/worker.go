// Package worker decides what runs when: cron schedules for the jobs, and a nudge from the webhook endpoint
// for the drain of its inbox. The steps it calls know nothing of clocks. Safety never depends on the worker:
// the ledger refuses two runs of a connection at once.
//
//	tick ─┬─ idle ────▶ run ─┬─ done, failed, panicked ─▶ idle
//	      │              ▲   └─ throttled ─▶ parked ─┐
//	      │              └──── the named time comes ─┘
//	      ├─ running ─▶ skipped
//	      └─ parked ──▶ skipped
//
// A job whose time passed while the process was down, however often, runs once at the start. Schedules are
// kept in memory only; the times of the last finished runs in the ledger show the missed ones. The jobs can
// be replaced while the worker runs: a running job finishes as it began, and a job never runs twice at once.
// The configuration of a job decides its work, and how its errors are shown.
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

// person is the key of a context's person.
type person struct{}

// WithPerson returns a context with the person who requested a job; "" for nobody.
func WithPerson(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, person{}, name)
}

// Person returns the person who requested the job of a context; "" for nobody.
func Person(ctx context.Context) string {
	name, _ := ctx.Value(person{}).(string)
	return name
}

// DrainPace is the shortest time between two drains without a nudge.
const DrainPace = time.Second

// DrainName is the drain's name in reports. No job may have it.
const DrainName = "drain"

const (
	defaultDrainEvery = 30 * time.Second
	clockEvery        = 30 * time.Second // how late a job can be after the clock was set or the machine slept
	minPark           = time.Minute      // so a remote with one-second pauses does not get a request every second
	maxPark           = 24 * time.Hour   // no quota we know of is longer; a later time is taken for a mistake
)

// Job is a scheduled task.
type Job struct {
	Name     string // for reports; unique
	Schedule string // see ParseSchedule

	// Last returns when the job last finished, the zero time for never. An overdue job runs once at once when
	// the worker starts. Nil means no missed run is caught up.
	Last func(ctx context.Context) (time.Time, error)

	// Run does the work once and returns when it is done, soon after ctx ends. An error with a
	// connector.RetryAt in the future parks the job.
	Run func(ctx context.Context, trigger string) error
}

// Config holds a worker's jobs.
type Config struct {
	Jobs  []Job
	Drain func(ctx context.Context) error // reflects the inbox; one call at a time
	// when the next waiting delivery is due; zero for none. Nil leaves it to DrainEvery
	DrainDue func(ctx context.Context) (time.Time, error)
	// the longest time between two drains, for waiting deliveries; default 30 s
	DrainEvery time.Duration

	// Jitter bounds the delay of each job's ticks, so many jobs and installations do not all start on the
	// minute. A job's delay is drawn from Rand once, so its intervals stay exact. Zero means no delay.
	Jitter time.Duration
	Rand   *rand.Rand

	Now    func() time.Time // the clock for overdue and parked jobs; nil means the system's
	Report func(JobEvent)   // is told of every outcome, by several goroutines at once; nil for nobody
}

// Outcome is the begin of a job, or the end of one tick of it.
type Outcome string

// The outcomes.
const (
	Begun       Outcome = "begun"
	Done        Outcome = "done"
	Failed      Outcome = "failed"
	Panicked    Outcome = "panicked"    // the job goes on at its next tick
	Interrupted Outcome = "interrupted" // the worker was told to stop and the job with it
	Parked      Outcome = "parked"      // throttled: it is not started again before JobEvent.Until
	Skipped     Outcome = "skipped"     // the run before is not over yet, or still parked
)

// JobEvent is the worker's report of a job.
type JobEvent struct {
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
	jobs  map[string]*job // every job ever seen, so a returning one never runs twice
	ctx   context.Context // of Run; nil while it does not run
	clock *cron.Cron
	asked sync.WaitGroup // running requests of people
}

// New returns a worker, not running yet. Its error lists every invalid job, with the reason.
func New(cfg Config) (*Worker, error) {
	if cfg.DrainEvery <= 0 {
		cfg.DrainEvery = defaultDrainEvery
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Report == nil {
		cfg.Report = func(JobEvent) {}
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

// parseJobs reads the schedules. Its error lists every invalid job.
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

// Nudge asks for a drain soon. It never blocks. Nudges before the drain begins count as one; a nudge during a
// drain starts another. It may be called at any time, also before Run.
func (w *Worker) Nudge() {
	select {
	case w.nudges <- struct{}{}:
	default:
	}
}

// ErrBusy means the job is running or parked, and is not started a second time.
var ErrBusy = errors.New("it is at work already, or waits because the remote system asked for it")

// ErrStopped means the worker does not run.
var ErrStopped = errors.New("no job is started any more, or none yet")

// Now starts a function under a job's name at a person's request, and returns at once. If there is a job of
// that name, its ticks are skipped meanwhile. The function ends with the context of Run, and is reported like
// a tick. A throttled one is not parked: the person sees it, and asks again. Now fails with ErrBusy or
// ErrStopped.
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
		w.cfg.Report(JobEvent{Job: name, Outcome: Begun, Trigger: TriggerManual})
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

// Run runs the jobs and the drain until ctx ends, which also ends the context of every job. It returns after
// all of them. Its error is nil unless the last time of a job cannot be read; nothing was started then. A
// worker supports one Run at a time.
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

// Replace replaces the worker's jobs. A running job finishes as it began, and then follows its new schedule.
// A new and overdue job runs at once; a removed one is not started again. On an error nothing was replaced:
// it lists the invalid jobs, or the last time of a job cannot be read.
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

// due returns the first start of a job new to the worker. It may be overdue since its last end. A job that
// never finished counts as overdue: a nightly job would otherwise never begin on a machine off at night.
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

// keepTime makes cron look at the wall clock again from time to time until ctx ends. Cron sleeps by the
// monotonic clock, which stops while the machine sleeps and ignores changes of the wall clock; jobs would be
// late by as much (fault F72). Removing an unknown entry wakes cron.
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

// keepDraining drains at the start, after every nudge, when the next delivery is due, and at least every DrainEvery,
// until ctx ends.
func (w *Worker) keepDraining(ctx context.Context) {
	task := w.task(ctx, w.drain)
	for {
		task.Run()
		wait := time.NewTimer(w.untilDrain(ctx))
		select {
		case <-ctx.Done():
		case <-w.nudges:
		case <-wait.C:
		}
		wait.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// untilDrain returns how long the drain rests without a nudge. Another process may add deliveries without one, so it
// never rests longer than DrainEvery.
func (w *Worker) untilDrain(ctx context.Context) time.Duration {
	if w.cfg.DrainDue == nil {
		return w.cfg.DrainEvery
	}
	due, err := w.cfg.DrainDue(ctx)
	if err != nil || due.IsZero() {
		return w.cfg.DrainEvery
	}
	return min(max(due.Sub(w.cfg.Now()), DrainPace), w.cfg.DrainEvery)
}

// keptOf returns a context that ends when the worker drops the job; nil if it already has.
func (w *Worker) keptOf(j *job) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return j.kept
}

func (w *Worker) once(ctx context.Context, name, trigger string, run func(context.Context, string) error) JobEvent {
	started := w.cfg.Now()
	err := run(ctx, trigger)
	now := w.cfg.Now()
	e := JobEvent{Job: name, Trigger: trigger, Took: now.Sub(started), Err: err}
	e.Outcome, e.Until = OutcomeOf(ctx, err, now)
	return e
}

// OutcomeOf returns the outcome of a run that returned err at a time, and the end of the pause of a parked
// one. It is interrupted if ctx was cancelled, and failed if it ran out of time.
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
