package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"
)

// job is the worker's state of a Job, by name.
type job struct {
	name    string
	delay   time.Duration
	catchUp atomic.Bool
	parked  atomic.Pointer[time.Time]
	busy    sync.Mutex           // held while it is at work or parked
	work    atomic.Pointer[work] // its present work

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

// job returns the job of a name, and creates it if it is new.
func (w *Worker) job(name string) *job {
	if w.jobs[name] == nil {
		w.jobs[name] = &job{name: name}
		if w.cfg.Jitter > 0 {
			w.jobs[name].delay = time.Duration(w.cfg.Rand.Int64N(int64(w.cfg.Jitter)))
		}
	}
	return w.jobs[name]
}

// give replaces the job's work from now on.
func (j *job) give(wk work) {
	j.work.Store(&wk)
	if j.drop == nil {
		j.kept, j.drop = context.WithCancel(context.Background())
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

// work runs the job, and again after each pause. A parked job counts as running, so its ticks are skipped.
func (w *Worker) work(ctx context.Context, j *job) {
	trigger := j.trigger()
	for ctx.Err() == nil {
		kept := w.keptOf(j)
		if kept == nil {
			return
		}
		w.cfg.Report(JobEvent{Job: j.name, Outcome: Begun, Trigger: trigger})
		e := w.once(ctx, j.name, trigger, j.work.Load().Run)
		w.cfg.Report(e)
		if e.Outcome != Parked || !w.wait(ctx, kept, j, e.Until) {
			return
		}
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
