package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"payersync/connector/health"
	"payersync/state"
)

// readyFor is how long an answer about readiness is reused: asking commits to the ledger, and the page is
// open to strangers.
const readyFor = time.Second

// lookWait is how long an answer about readiness waits for the ledger.
const lookWait = 5 * time.Second

// readiness is the answer of ReadyPath. It names no connection: the listener may be public.
type readiness struct {
	State    string   `json:"state"`            // ok, degraded, checking or failing
	Reason   string   `json:"reason,omitempty"` // why it is failing, in plain words
	Degraded []string `json:"degraded"`
	// since the last complete reading of the service began; null for never
	SweepAge *int64 `json:"sweep_age_seconds"`
	// since the last run of the longest waiting connection; null if one never finished
	RunAge      *int64     `json:"run_age_seconds"`
	DeliveryAge *int64     `json:"delivery_age_seconds"` // since the last delivery was accepted; null for never
	Jobs        []JobTimes `json:"jobs"`
}

// JobTimes holds the last and next time of a scheduled job.
type JobTimes struct {
	Name    string    `json:"name"` // of the job, without a connection
	EndedAt time.Time `json:"ended_at,omitzero"`
	DoneAt  time.Time `json:"done_at,omitzero"` // when it last ended well
	Outcome string    `json:"outcome"`          // of its last end; "" while it never ended
	NextAt  time.Time `json:"next_at"`
}

// The states in which no delivery is accepted.
const (
	failed   = "failing"
	checking = "checking" // the ledger is still checked after the start, and deliveries wait for that
)

// The conditions of degraded readiness: the endpoint works, but somebody should look.
const (
	sweepNever   = "sweep_never"
	sweepOverdue = "sweep_overdue"
	runFailed    = "run_failed"
	mappingWrong = "mapping_wrong" // a mapping file has a mistake; the version before is in force
	configWrong  = "config_wrong"  // the configuration has a mistake; the one before is in force

	standstill = "standstill" // a run met far less than is known, and sends nothing before a person looks

	subscriptionChanged = "subscription_changed" // the last sweep found it replaced, disabled or deleted
)

// serveReady answers 200 while the ledger can be committed to, else 503, and says
// how fresh the ledger is.
func (s *Server) serveReady(w http.ResponseWriter) {
	ready := s.readiness()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if ready.State == failed || ready.State == checking {
		w.WriteHeader(statuses[NotReady])
	}
	_ = json.NewEncoder(w).Encode(ready) // a gone caller needs no error
}

// readiness returns the state of the ledger. Concurrent callers share one check and wait lookWait at most: a
// probe that times out learns nothing.
func (s *Server) readiness() readiness {
	if known, _ := s.cfg.Ledger.IntegrityKnown(); !known {
		return unready(checking, "the ledger is looked through before anything is written to it")
	}
	found := s.looking.DoChan("", func() (any, error) { return s.look(), nil })
	late := time.NewTimer(lookWait)
	defer late.Stop()
	select {
	case found := <-found:
		return found.Val.(readiness)
	case <-late.C:
		return unready(failed, fmt.Sprintf("the ledger has taken no write for %s: another process may keep it locked, or its disk or database does not answer", lookWait))
	}
}

func unready(state, reason string) readiness {
	return readiness{State: state, Reason: reason, Degraded: []string{}, Jobs: []JobTimes{}}
}

// look looks at the ledger, at most once per readyFor. It is over when the ledger has answered,
// and one at a time is under way.
func (s *Server) look() readiness {
	now := s.cfg.Now()
	if age := now.Sub(s.looked); !s.looked.IsZero() && age >= 0 && age < readyFor {
		return s.ready
	}
	ready, err := s.inspect(context.Background(), now)
	if err != nil {
		ready = unready(failed, failing(err))
		s.cfg.Report(Event{Outcome: NotReady, Err: err})
	}
	s.ready, s.looked = ready, s.cfg.Now()
	return ready
}

// failing says in plain words, and with no path, why the ledger takes nothing in.
func failing(err error) string {
	var refused *state.OpenError
	switch {
	case errors.Is(err, state.ErrMoved):
		return "the ledger's file was moved, replaced or deleted while payersync ran"
	case errors.As(err, &refused):
		return "the ledger is damaged, or could not be looked through: nothing is written to it; the log says more"
	}
	return "the ledger cannot be written to: its disk may be full or failing; the log says more"
}

func (s *Server) inspect(ctx context.Context, now time.Time) (readiness, error) {
	ready := readiness{State: "ok", Degraded: []string{}, Jobs: []JobTimes{}}
	if err := s.cfg.Ledger.Ping(ctx); err != nil {
		return ready, fmt.Errorf("commit to the ledger: %w", err)
	}
	for _, look := range []func(context.Context, time.Time, *readiness) error{s.inspectSweep, s.inspectRuns,
		s.inspectInbox, s.inspectConditions, s.inspectJobs} {
		if err := look(ctx, now, &ready); err != nil {
			return ready, err
		}
	}
	if len(ready.Degraded) > 0 {
		ready.State = "degraded"
	}
	return ready, nil
}

// shown maps the conditions of degraded readiness to their names in the answer.
var shown = []struct {
	code     health.Code
	subject  string // "" for any
	degraded string
}{
	{health.JobOverdue, "sweep", sweepOverdue},
	{health.RunFailed, "", runFailed},
	{health.MappingWrong, "", mappingWrong},
	{health.ConfigWrong, "", configWrong},
	{health.Standstill, "", standstill},
	{health.SubscriptionChanged, "", subscriptionChanged},
}

func (s *Server) inspectConditions(ctx context.Context, _ time.Time, ready *readiness) error {
	var codes []health.Code
	for _, d := range shown {
		codes = append(codes, d.code)
	}
	found, err := health.Present(ctx, s.cfg.Ledger, s.cfg.Expected, codes...)
	for _, d := range shown {
		holds := slices.ContainsFunc(found, func(c health.Condition) bool {
			return c.Code == d.code && (d.subject == "" || c.Subject == d.subject)
		})
		if never := slices.Contains(ready.Degraded, sweepNever); holds && !(never && d.degraded == sweepOverdue) {
			ready.Degraded = append(ready.Degraded, d.degraded)
		}
	}
	return err
}

func (s *Server) inspectSweep(ctx context.Context, now time.Time, ready *readiness) error {
	last, err := s.cfg.Ledger.LastPass(ctx)
	if err == nil && last.IsZero() {
		ready.Degraded = append(ready.Degraded, sweepNever)
	}
	ready.SweepAge = age(now, last)
	return err
}

// inspectRuns finds the connection with the longest wait for a run.
func (s *Server) inspectRuns(ctx context.Context, now time.Time, ready *readiness) error {
	runs, err := s.cfg.Ledger.LatestRuns(ctx)
	if err != nil {
		return err
	}
	for i, run := range runs {
		last, err := s.cfg.Ledger.LastFinished(ctx, run.Connection)
		if err != nil {
			return err
		}
		if a := age(now, last); i == 0 || a == nil || ready.RunAge != nil && *a > *ready.RunAge {
			ready.RunAge = a
		}
	}
	return nil
}

func (s *Server) inspectJobs(ctx context.Context, _ time.Time, ready *readiness) error {
	jobs, err := s.cfg.Jobs(ctx)
	if err == nil {
		ready.Jobs = append(ready.Jobs, jobs...)
	}
	return err
}

func (s *Server) inspectInbox(ctx context.Context, now time.Time, ready *readiness) error {
	newest, err := s.cfg.Ledger.Inbox(ctx, state.Filter{Limit: 1})
	if err != nil || len(newest) == 0 {
		return err
	}
	at, err := time.Parse(time.RFC3339, newest[0].ReceivedAt)
	ready.DeliveryAge = age(now, at)
	return err
}

// age returns the whole seconds from then to now; nil when then is zero.
func age(now, then time.Time) *int64 {
	if then.IsZero() {
		return nil
	}
	seconds := int64(now.Sub(then) / time.Second)
	return &seconds
}
