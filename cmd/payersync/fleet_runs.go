package main

import (
	"context"
	"sync/atomic"
	"time"

	"payersync/connector"
	"payersync/connector/queue"
	"payersync/connector/worker"
	"payersync/state"
)

// lookForRun is how often a node looks whether another's run of a connection is over.
const lookForRun = 2 * time.Second

// nodeRun is a run that this node makes. It goes on while the job that began it stands in line again: what
// holds the connection is the run's lease, and not the job.
type nodeRun struct {
	cancel context.CancelFunc
	told   atomic.Bool // to stop
	ended  chan struct{}
	err    error // to be read once it has ended
}

// stop lets the run end early; the next of its connection goes on.
func (r *nodeRun) stop() {
	r.told.Store(true)
	r.cancel()
}

// slice lets a run of a connection go on for a while. Whichever node the job comes to next finds the run by its
// lease: while that lives it is waited for, and when it was lost with its node a run begins that goes on where
// it stopped.
func (j *accountJobs) slice(ctx context.Context, connection string, job worker.Job, trigger string) error {
	over := time.NewTimer(j.slices)
	defer over.Stop()
	r := j.ofNode(job.Name)
	if r == nil {
		done, err := j.others(ctx, connection, over.C)
		if err != nil || done {
			return err
		}
		select {
		case j.places <- struct{}{}:
			r = j.begin(job, trigger)
		case <-over.C:
			return queue.ErrMore
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-r.ended:
		if j.life.Err() != nil || r.told.Load() { // the node stops or the account is paused, and others go on, or nobody
			return queue.ErrMore
		}
		return r.err
	case <-over.C:
		return queue.ErrMore
	case <-ctx.Done(): // the node stops
		r.stop()
		<-r.ended
		return ctx.Err()
	}
}

// others waits while another process has a run of the connection. done says that it went to its end.
func (j *accountJobs) others(ctx context.Context, connection string, over <-chan time.Time) (done bool, err error) {
	for waited := false; ; waited = true {
		var holds bool
		var last connector.RunOutcome
		if err := j.ledger.Do(ctx, func(tx *state.Tx) (err error) {
			last, holds, err = tx.LastRun(connection)
			return err
		}); err != nil {
			return false, err
		}
		if !holds {
			return waited && (last == connector.RunComplete || last == connector.RunAwaitingApproval), nil
		}
		select {
		case <-time.After(lookForRun):
		case <-over:
			return false, queue.ErrMore
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

func (j *accountJobs) ofNode(name string) *nodeRun {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.runs[name]
}

// begin begins a run on this node, for which a place was taken.
func (j *accountJobs) begin(job worker.Job, trigger string) *nodeRun {
	ctx, cancel := context.WithCancel(j.life)
	r := &nodeRun{cancel: cancel, ended: make(chan struct{})}
	j.mu.Lock()
	if j.runs[job.Name] = r; j.paused { // since this job was taken
		r.stop()
	}
	j.mu.Unlock()
	j.going.Go(func() {
		defer cancel()
		r.err = connector.Guard(func() error { return job.Run(ctx, trigger) })
		j.mu.Lock()
		delete(j.runs, job.Name)
		j.mu.Unlock()
		close(r.ended)
		<-j.places
	})
	return r
}
