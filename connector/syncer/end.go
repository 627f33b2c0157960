package syncer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/reconcile"
	"payersync/state"
)

// ended returns the outcome of a run not stopped by an error.
func (r *run) ended() connector.RunOutcome {
	if r.undecided {
		return connector.RunIncomplete
	}
	return connector.RunComplete
}

func (r *run) close(ctx context.Context, outcome connector.RunOutcome, err error) (Result, error) {
	res := Result{RunID: r.id, Connection: r.conn.Name, Kind: r.opts.Kind, Plan: r.plan, Proof: r.proof, Note: r.note,
		Err: err, RetryAt: retryAt(err)}
	problem := r.note
	if err != nil {
		outcome, problem = outcomeOf(err), connector.ProblemOf(err)
		res.Problem = problem
	}
	closeErr := r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) (closing error) {
		if closing = errors.Join(r.noteSource(tx), r.noteReading(tx), r.saveEmptyPlan(tx)); closing != nil {
			return closing
		}
		fresh := 0
		if res.Attention, fresh, closing = tx.Findings(r.conn.Name, r.started); closing != nil {
			return closing
		}
		before, closing := tx.RunBefore(r.id)
		if closing != nil {
			return closing
		}
		res.Counts, res.Outcome, closing = tx.CloseRun(r.id, r.conn.Name, outcome, problem, r.met)
		res.News = r.isNews(res, problem, fresh, before)
		if res.Outcome == connector.RunIncomplete {
			res.Reason = state.WhyIncomplete(problem, "")
		}
		if closing != nil || err != nil || res.Outcome != connector.RunIncomplete {
			return closing
		}
		res.RetryAt = r.waits
		if res.Left, closing = tx.WhyUndone(r.conn.Name); closing != nil {
			return closing
		}
		res.Reason = state.WhyIncomplete(problem, res.Left)
		return tx.NoteUndone(r.id, res.Left, res.RetryAt)
	})
	if closeErr != nil {
		return res, fmt.Errorf("close run %d: %w", r.id, errors.Join(err, closeErr))
	}
	return res, nil
}

// isNews reports whether a run has more to report than the run before it.
func (r *run) isNews(res Result, problem string, fresh int, before state.RunBefore) bool {
	switch {
	case res.Outcome == connector.RunComplete && problem == "" && res.Attention+res.Counts.Held+res.Counts.Failed == 0 &&
		!res.AwaitsApproval():
		return false
	case fresh > 0, before.Outcome != res.Outcome, before.Problem != problem, res.Counts.Waiting > before.Waiting:
		return true
	}
	return res.AwaitsApproval() && !r.plan.Known
}

// retryAt returns the time for the next try after a run's error; zero if the error names none.
func retryAt(err error) time.Time {
	var quarantine *reconcile.QuarantineError
	if errors.As(err, &quarantine) {
		return quarantine.Until
	}
	return connector.RetryAt(err)
}

// noteSource notes how the run met its source.
func (r *run) noteSource(tx *state.Tx) error {
	met, until := SourceState(r.unread)
	if r.proof.Passes > 0 {
		met = state.SourceActive
	}
	if met == "" {
		return nil
	}
	return tx.SetSourceState(r.conn.Name, met, until)
}

// SourceState returns the state of the source according to a read error: parked until a time, disconnected, or "" if
// unknown. A closed source allows no other conclusion (faults F13 and F29).
func SourceState(err error) (met string, until time.Time) {
	var parked *accounting.Parked
	var disconnected *accounting.Disconnected
	switch {
	case errors.As(err, &parked):
		return state.SourceParked, parked.Until
	case errors.As(err, &disconnected), connector.FaultOf(err) == connector.FaultUnauthorized:
		return state.SourceDisconnected, time.Time{}
	}
	return "", time.Time{}
}

// outcomeOf classifies the error at the end of a run: incomplete if a later run can continue by itself, otherwise
// failed.
func outcomeOf(err error) connector.RunOutcome {
	var quarantine *reconcile.QuarantineError
	var short *reconcile.ShortListError
	var refused *RefusedError
	var stands *Standstill
	var edited *EditedProfile
	var unproven *UnprovenError
	switch {
	case errors.As(err, &refused):
		return connector.RunIncomplete
	case errors.As(err, &unproven) && len(unproven.Lost) == 0:
		return connector.RunIncomplete
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, reconcile.ErrListChanges), errors.As(err, &quarantine), errors.As(err, &short),
		errors.As(err, &stands), errors.As(err, &edited):
		return connector.RunIncomplete
	}
	switch connector.FaultOf(err) {
	case connector.FaultThrottled, connector.FaultUnavailable, connector.FaultUnknown:
		return connector.RunIncomplete
	}
	return connector.RunFailed
}
