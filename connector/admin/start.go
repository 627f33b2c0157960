package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"payersync/connector/syncer"
	"payersync/state"
)

// Starter starts runs on a person's request, and tracks their progress. It outlives a configuration.
type Starter struct {
	Ledger *state.Ledger

	// Go runs work for a connection in the background of this process, never beside another run of it by this process,
	// and ends it with the process. Its error is the reason against starting.
	Go func(connection string, work func(context.Context) error) error
	// Queue requests a run from the nodes that share the ledger. It reports false where this process must make the run;
	// nil for always.
	Queue func(ctx context.Context, connection, by string) (bool, error)
	// Requests returns the requested runs that have not ended, in the queue of those nodes; nil for none.
	Requests func(ctx context.Context) ([]RunRequest, error)
	// Run makes one run as payersync sync does, for by, with these callbacks.
	Run func(ctx context.Context, connection, by string, opened func(run int64), progress func(syncer.Progress)) error

	mu      sync.Mutex
	working map[int64]syncer.Progress
}

// RunAtWork means a run of the connection is in progress, here or in another process.
type RunAtWork struct {
	Connection string
	Run        int64 // 0 for one without a number yet
}

// Error names the run in progress.
func (e *RunAtWork) Error() string {
	if e.Run == 0 {
		return fmt.Sprintf("a run of %s is about to begin, or waits because the accounting system or the billing service asked for it", e.Connection)
	}
	return fmt.Sprintf("run %d of %s is at work", e.Run, e.Connection)
}

// RunRequest is a person's request for a run. One of the nodes that share the ledger makes it.
type RunRequest struct {
	Connection, By string
	At             time.Time
}

// Waiting returns the requested runs that no node has begun.
func (s *Starter) Waiting(ctx context.Context) (out []RunRequest, err error) {
	if s == nil || s.Requests == nil {
		return nil, nil
	}
	asked, err := s.Requests(ctx)
	for _, r := range asked {
		open, err := s.Ledger.OpenRun(ctx, r.Connection)
		if err != nil {
			return nil, err
		}
		if open == 0 {
			out = append(out, r)
		}
	}
	return out, err
}

// openFor is how long a person waits for the number of the run.
const openFor = 10 * time.Second

// Now starts a run of a connection on a person's request, and returns its number once known; 0 if this takes long. It
// fails with *RunAtWork, or with the error from opening the run. The request is in the audit log before any other
// action.
func (s *Starter) Now(ctx context.Context, connection, by string) (run int64, err error) {
	defer func() { err = s.atWork(ctx, connection, err) }()
	if err := s.Ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: by, Action: "start run", Subject: connection})
	}); err != nil {
		return 0, err
	}
	if s.Queue != nil {
		if queued, err := s.Queue(ctx, connection, by); queued || err != nil {
			return s.begun(ctx, connection), err
		}
	}
	opened, ended := make(chan int64, 1), make(chan error, 1)
	if err := s.Go(connection, func(ctx context.Context) (err error) {
		number := int64(0)
		defer func() {
			s.forget(number)
			ended <- err
		}()
		return s.Run(ctx, connection, by,
			func(run int64) { number = run; opened <- run },
			func(p syncer.Progress) { s.note(number, p) })
	}); err != nil {
		return 0, err
	}
	patience := time.NewTimer(openFor)
	defer patience.Stop()
	select {
	case run = <-opened:
	case err = <-ended:
	case <-patience.C:
	case <-ctx.Done():
	}
	if run == 0 {
		select {
		case run = <-opened: // it was over before anybody looked, and tells itself how it went
			err = nil
		default:
		}
	}
	return run, err
}

// queueFor is how long a person waits for a node to begin the run.
const queueFor = 3 * time.Second

// begun waits for a node to begin a run, and returns its number; 0 if this takes long.
func (s *Starter) begun(ctx context.Context, connection string) int64 {
	for late := time.Now().Add(queueFor); ctx.Err() == nil && time.Now().Before(late); time.Sleep(100 * time.Millisecond) {
		if run, err := s.Ledger.OpenRun(ctx, connection); err == nil && run != 0 {
			return run
		}
	}
	return 0
}

// atWork converts the error of a connection in use into a RunAtWork with the run's number, and returns other errors
// unchanged. The connection's lock decides, because the lease of a killed process lasts a while longer.
func (s *Starter) atWork(ctx context.Context, connection string, err error) error {
	var open *state.ErrRunOpen
	var at *RunAtWork
	switch {
	case errors.As(err, &open):
		at = &RunAtWork{connection, open.RunID}
	case !errors.As(err, &at):
		return err
	}
	if at.Run == 0 {
		if at.Run, err = s.Ledger.OpenRun(ctx, connection); err != nil {
			return err
		}
	}
	return at
}

// Progress returns the progress of a run started by this Starter; false for other runs and finished ones.
func (s *Starter) Progress(run int64) (syncer.Progress, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.working[run]
	return p, ok
}

func (s *Starter) note(run int64, p syncer.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working == nil {
		s.working = map[int64]syncer.Progress{}
	}
	s.working[run] = p
}

func (s *Starter) forget(run int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.working, run)
}
