package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"payersync/connector/admin"
	"payersync/connector/queue"
	"payersync/connector/worker"
	"payersync/state"
)

// nudgeWithin is the longest wait to store a nudge in the queue. After a failure, the next tick finds the
// delivery.
const nudgeWithin = 5 * time.Second

// errPaused says why nothing begins for an account.
var errPaused = errors.New("the account is paused, and nothing is read or sent for it meanwhile; payersync accounts pause --undo lets it go on")

// accountJobs are one account's jobs in the queue shared by all nodes. The rows of the queue hold the
// schedule; this node's configuration of the account decides on the work. It is safe for concurrent use.
type accountJobs struct {
	queue   *queue.Queue
	account int64
	ledger  *state.Ledger
	nudges  chan struct{} // full while a delivery waits without a nudge to the queue
	lost    func(error)   // called for a nudge the queue did not store

	life  context.Context // of the account on this node
	going sync.WaitGroup  // of its jobs here

	asked atomic.Int64 // the number of running requests of people

	// people does people's requests on this node: it has no jobs of its own.
	people *worker.Worker

	mu     sync.Mutex
	jobs   []worker.Job
	paused bool // none of them comes

	active context.Context // the context of the account's work until a pause; nil until jobs were set
	halt   context.CancelFunc
}

// Run does people's requests, and reports deliveries to the queue, until ctx ends. The account's jobs run
// with the queue.
func (j *accountJobs) Run(ctx context.Context) error {
	var nudging sync.WaitGroup
	nudging.Go(func() { j.keepNudging(ctx) })
	defer nudging.Wait()
	return j.people.Run(ctx)
}

// Now starts something at once, on this node, because a person asked for it.
func (j *accountJobs) Now(name string, run func(context.Context) error) error {
	j.mu.Lock()
	paused := j.paused
	j.mu.Unlock()
	if paused {
		return errPaused
	}
	j.asked.Add(1) // before anybody can look whether the account may be closed
	err := j.people.Now(name, func(ctx context.Context) error {
		defer j.asked.Add(-1)
		return j.untilPaused(ctx, run)
	})
	if err != nil {
		j.asked.Add(-1)
	}
	return err
}

// queueRun requests a run of a connection for a person, on the first node that is free. It reports false if the
// connection has no schedule: then this node makes the run.
func (j *accountJobs) queueRun(ctx context.Context, connection, by string) (bool, error) {
	j.mu.Lock()
	paused := j.paused
	j.mu.Unlock()
	if paused {
		return false, errPaused
	}
	open, err := j.ledger.OpenRun(ctx, connection)
	if err == nil && open != 0 {
		err = &admin.RunAtWork{Connection: connection, Run: open}
	}
	if err != nil {
		return false, err
	}
	news, err := j.queue.Start(ctx, j.account, syncJob(connection), by)
	switch {
	case errors.Is(err, queue.ErrNotScheduled):
		return false, nil
	case err == nil && !news:
		err = &admin.RunAtWork{Connection: connection}
	}
	return true, err
}

// requests returns the requested runs of the account that have not ended on any node.
func (j *accountJobs) requests(ctx context.Context) (out []admin.RunRequest, err error) {
	asked, err := j.queue.Requests(ctx, j.account)
	for _, r := range asked {
		if connection, isRun := ofSync(r.Job); isRun {
			out = append(out, admin.RunRequest{Connection: connection, By: r.By, At: r.At})
		}
	}
	return out, err
}

// untilPaused calls do, and ends it early with errPaused when the account is paused.
func (j *accountJobs) untilPaused(ctx context.Context, do func(context.Context) error) error {
	j.mu.Lock()
	active, paused := j.active, j.paused
	j.mu.Unlock()
	if paused {
		return errPaused
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(active, cancel)()
	err := do(ctx)
	if err != nil && active.Err() != nil && j.life.Err() == nil {
		return errPaused
	}
	return err
}

// Alive reports whether the queue is.
func (j *accountJobs) Alive() bool { return j.queue.Alive() }

// Nudge asks for a drain soon, on any node. It never blocks: nudges before the write to the queue count as
// one.
func (j *accountJobs) Nudge() {
	select {
	case j.nudges <- struct{}{}:
	default:
	}
}

func (j *accountJobs) keepNudging(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.nudges:
		}
		within, cancel := context.WithTimeout(ctx, nudgeWithin)
		err := j.queue.Nudge(within, j.account)
		cancel()
		if err != nil && ctx.Err() == nil {
			j.lost(err)
		}
	}
}

// Replace makes these the jobs of the account, for all nodes. Running jobs finish as they began.
func (j *accountJobs) Replace(ctx context.Context, jobs []worker.Job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.set(ctx, jobs, j.paused)
}

// Schedule runs the account's jobs by the schedules in the queue.
func (j *accountJobs) Schedule(jobs []worker.Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.put(jobs, j.paused)
}

// Reschedule gives the queue the schedules of the account's jobs again, as they are by now.
func (j *accountJobs) Reschedule(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.set(ctx, j.jobs, j.paused)
}

// Pause lets none of the account's jobs come, or all again.
func (j *accountJobs) Pause(ctx context.Context, paused bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.set(ctx, j.jobs, paused)
}

// set gives the queue the schedules of jobs. When it fails all is as before.
func (j *accountJobs) set(ctx context.Context, jobs []worker.Job, paused bool) error {
	var schedules []queue.Schedule
	for _, job := range jobs {
		if paused {
			break
		}
		_, isRun := ofSync(job.Name)
		s := queue.Schedule{Job: job.Name, Cron: job.Schedule, OnTime: job.Last == nil, Care: !isRun}
		if job.Last != nil {
			last, err := job.Last(ctx)
			if err != nil {
				return fmt.Errorf("learn when %s last ran: %w", job.Name, err)
			}
			s.Last = last
		}
		schedules = append(schedules, s)
	}
	if err := j.queue.Every(ctx, j.account, schedules); err != nil {
		return err
	}
	j.put(jobs, paused)
	return nil
}

// put informs running work.
func (j *accountJobs) put(jobs []worker.Job, paused bool) {
	j.jobs, j.paused = jobs, paused
	switch {
	case paused:
		if j.halt != nil {
			j.halt() // the next one continues there
		}
	case j.active == nil || j.active.Err() != nil:
		j.active, j.halt = context.WithCancel(j.life)
	}
}

// run does a job of the account, by the configuration in force here. If the account is paused or leaves this
// node meanwhile, it ends with queue.ErrMore: another node goes on with it, if any.
func (j *accountJobs) run(ctx context.Context, name, trigger string) error {
	job, err := j.begin(name)
	if err != nil {
		return err
	}
	defer j.going.Done()
	err = j.untilPaused(ctx, func(ctx context.Context) error {
		if connection, isRun := ofSync(name); isRun {
			if over, err := j.others(ctx, connection); over || err != nil {
				return err
			}
		}
		return job.Run(ctx, trigger)
	})
	if errors.Is(err, errPaused) || err != nil && j.life.Err() != nil {
		return queue.ErrMore
	}
	return err
}

// drain processes the account's deliveries until it is paused; a pause keeps them. If the account leaves this
// node meanwhile, it ends with queue.ErrMore, like a job.
func (j *accountJobs) drain(ctx context.Context, reflect func(context.Context) error) error {
	err := j.untilPaused(ctx, reflect)
	switch {
	case errors.Is(err, errPaused):
		return nil
	case err != nil && j.life.Err() != nil:
		return queue.ErrMore
	}
	return err
}

// begin returns a job that counts as running until j.going is done.
func (j *accountJobs) begin(name string) (worker.Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := slices.IndexFunc(j.jobs, func(job worker.Job) bool { return job.Name == name })
	switch {
	case j.life.Err() != nil:
		return worker.Job{}, queue.ErrMore
	case i < 0:
		return worker.Job{}, fmt.Errorf("the job %s is not in this node's configuration, which may differ from the one that scheduled it; the job is tried again at its next time", name)
	}
	j.going.Add(1)
	return j.jobs[i], nil
}

// close ends the running work by end, the end of the account on this node, and waits for it.
func (j *accountJobs) close(end func()) {
	j.mu.Lock() // nothing begins after it
	end()
	j.mu.Unlock()
	j.going.Wait()
}
