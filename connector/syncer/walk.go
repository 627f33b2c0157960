package syncer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"payersync/connector"
	"payersync/state"
)

// walk describes which changes a pass handles and how.
type walk struct {
	stage   string // for progress
	lane    string
	pending bool // approved planned ones; otherwise those without an answer
	grouped bool // requests are frozen by the group
	do      func(context.Context, state.Change) error
}

// walk passes each selected change to do, several at a time. It stops at the first error about the service as a whole,
// or when ctx ends: no new request is sent, and requests in flight are finished. If the service stops answering, a walk
// over planned changes returns an error. A walk over unanswered changes just ends.
func (r *run) walk(ctx context.Context, how walk) error {
	count := r.Ledger.UnansweredCount
	if how.pending {
		count = r.Ledger.ReleasedCount
	}
	total, err := count(ctx, r.conn.Name, how.lane)
	if err != nil || total == 0 {
		return err
	}
	inFlight, release := withGrace(ctx, r.Settings.Grace)
	defer release()
	sending, last := context.WithCancel(ctx)
	defer last()
	inFlight = connector.WithDrain(inFlight, sending)
	if how.pending && r.opts.Only != "" {
		total = 0 // how many of these are the record's is not counted
	}
	w := &walker{run: r, walk: how, total: total, sending: sending, last: last}
	w.creates = keepAnswers(func(group []state.CreateAnswer) { w.saveCreates(ctx, group) })
	w.links = keepAnswers(func(group []state.LinkAnswer) { w.saveLinks(ctx, group) })
	var group errgroup.Group
	group.SetLimit(r.Settings.Workers)
	start := func(do work) {
		group.Go(func() error {
			if err := connector.Guard(func() error { return do(inFlight) }); !errors.Is(err, errKept) {
				w.finish(err)
			}
			return nil
		})
	}
	if how.grouped {
		err = w.dispatchGroups(ctx, start)
	} else {
		err = w.dispatch(ctx, start)
	}
	_ = group.Wait() // workers report to the walker
	w.creates.close()
	w.links.close()
	return errors.Join(err, w.stop)
}

// withGrace returns a context with an end delayed by grace after the end of ctx. Requests in flight can still be
// answered.
func withGrace(ctx context.Context, grace time.Duration) (context.Context, func()) {
	inFlight, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(inFlight, func() { timer.Stop() })
	})
	return inFlight, func() {
		stop()
		cancel(nil)
	}
}

// walker hands out changes and remembers why to stop.
type walker struct {
	*run
	walk
	total   int
	sending context.Context // ended when nothing more leaves, nor is handed out
	last    func()          // ends it
	creates *answers[state.CreateAnswer]
	links   *answers[state.LinkAnswer]
	mu      sync.Mutex
	done    int
	silent  int // calls without an answer since the last one with
	alike   []refusal
	stop    error // why the run cannot go on
}

// work carries out one change.
type work func(context.Context) error

func (w *walker) dispatch(ctx context.Context, start func(work)) error {
	for after := int64(0); ; {
		changes, err := w.page(ctx, after)
		if err != nil || len(changes) == 0 {
			return err
		}
		for _, c := range changes {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if w.sending.Err() != nil {
				return nil
			}
			if !w.leavesOut(c) {
				start(func(ctx context.Context) error { return w.do(ctx, c) })
			}
		}
		if !w.pending {
			return nil
		}
		after = changes[len(changes)-1].ID
	}
}

// leavesOut reports whether a change waits for the next run, because this one is for another record alone.
func (w *walker) leavesOut(c state.Change) bool {
	return w.pending && w.opts.Only != "" && c.Payer.SourceID != w.opts.Only
}

// page returns the next changes after change id after. Unanswered changes come in one page: they are ordered by their
// last attempt, so an id cannot page through them.
func (w *walker) page(ctx context.Context, after int64) ([]state.Change, error) {
	if w.pending {
		return w.Ledger.Released(ctx, w.conn.Name, w.lane, after, applyPage)
	}
	return w.Ledger.Changes(ctx, w.conn.Name, w.lane, false, after, resumeMost)
}

// finished returns how many changes the workers have finished.
func (w *walker) finished() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done
}

// finish takes a worker's result. A record's own fate is in the ledger by then; only problems of all records
// come here as an error.
func (w *walker) finish(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done++
	w.progress(w.stage, w.done, w.total)
	var refused refusal
	switch fault := connector.FaultOf(err); {
	case err == nil, errors.Is(err, state.ErrNotOpen): // a person has said otherwise meanwhile
		w.silent, w.alike = 0, nil
	case errors.As(err, &refused):
		w.silent = 0
		w.count(refused)
	case errors.Is(err, connector.ErrWrongWay) && w.stop == nil:
		w.last()
		w.stop = err
	case fault == connector.FaultUnavailable && w.sending.Err() != nil: // it never left
	case errors.Is(err, errLate): // our own delay says nothing of the service
	case fault == connector.FaultUnknown, fault == connector.FaultUnavailable:
		if w.silent++; w.silent < maxSilence || w.sending.Err() != nil {
			return
		}
		w.last()
		if w.pending {
			w.stop = fmt.Errorf("gave up after %d calls without an answer: %w", w.silent, err)
		}
	case w.stop == nil:
		w.last()
		w.stop = err
	}
}

// refusal is a request refused with a status unrelated to its content: payment required, conflict, locked. Its record
// already counts as rejected.
type refusal struct {
	status   int
	sourceID string
	err      error
}

func (r refusal) Error() string { return r.err.Error() }

// refusedAlike returns a refusal for the walk to count, or nil if the error is about the record itself.
func refusedAlike(c state.Change, err error) error {
	var remote *connector.RemoteError
	if !errors.As(err, &remote) {
		return nil
	}
	switch remote.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return nil
	}
	return refusal{remote.Status, c.Payer.SourceID, err}
}

// RefusedError means the service refused several requests in a row with the same status, so no single record is the
// cause. The next run tries these records again.
type RefusedError struct {
	Status int // HTTP status
	Err    error
}

// Error says what was refused and what to do.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the billing service refused %d requests in a row alike (HTTP %d), so no more are sent; the next run tries them again: ask the billing service if it stays", maxAlike, e.Status)
}

// Unwrap returns the last refusal.
func (e *RefusedError) Unwrap() error { return e.Err }

// count counts refusals in a row, and stops the walk when they are alike: then
// their records are planned again.
func (w *walker) count(r refusal) {
	if len(w.alike) > 0 && w.alike[0].status != r.status {
		w.alike = nil
	}
	w.alike = append(w.alike, r)
	if len(w.alike) < maxAlike {
		return
	}
	w.last()
	err := w.Ledger.Do(context.Background(), func(tx *state.Tx) error {
		for _, one := range w.alike {
			if _, err := tx.RetryRecord(w.conn.Name, one.sourceID); err != nil {
				return err
			}
			tx.Touch(state.Payer{Connection: w.conn.Name, SourceID: one.sourceID}) // the run tells it once, for all of them
		}
		return nil
	})
	w.stop = errors.Join(&RefusedError{Status: r.status, Err: r.err}, err)
}
