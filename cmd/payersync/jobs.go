package main

import (
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"payersync/cmd/payersync/internal/session"
	"payersync/connector/worker"
	"payersync/state"
)

// jobs returns what the schedules run: each connection's sync, and the sweep.
func (a *app) jobs(s *session.Session) []worker.Job {
	jobs := []worker.Job{{
		Name: "sweep", Schedule: s.Config.Schedules.Sweep, Last: s.Ledger.LastPass,
		Run: func(ctx context.Context, _ string) error { return sweepNow(ctx, s) },
	}, {
		Name: "keep-alive", Schedule: s.Config.Schedules.KeepAlive,
		// At every start, too, or it would never come on a machine that is off at
		// that hour. It asks for nothing that is not due.
		Last: func(context.Context) (time.Time, error) { return time.Time{}, nil },
		Run:  func(ctx context.Context, _ string) error { return keepAlive(ctx, s) },
	}}
	for _, c := range s.Config.Connections {
		if c.Schedule == "" {
			continue
		}
		jobs = append(jobs, worker.Job{
			Name: "sync " + c.Name, Schedule: c.Schedule,
			Last: func(ctx context.Context) (time.Time, error) { return s.Ledger.LastFinished(ctx, c.Name) },
			Run:  func(ctx context.Context, trigger string) error { return syncNow(ctx, s, c, trigger) },
		})
	}
	return jobs
}

// keepAliveAfter is how long a consent may go unused before it is renewed for its
// own sake (fault F29).
const keepAliveAfter = 7 * 24 * time.Hour

// keepAlive renews the consents that nobody used for a while, of connections that
// no schedule reads too. One that fails keeps no other from its turn.
func keepAlive(ctx context.Context, s *session.Session) error {
	var problems []error
	for _, source := range s.Consents() {
		problems = append(problems, source.KeepAlive(ctx, keepAliveAfter))
	}
	return errors.Join(problems...)
}

// reportJob keeps when a job began and how it ended, and logs what became of it where
// the job itself could not.
func reportJob(s *session.Session, e worker.Event) {
	if err := noteJob(s, e); err != nil {
		s.Log.WithField("job", e.Job).WithError(err).Error("the ledger does not show what became of the job")
	}
	entry := s.Log.WithFields(logrus.Fields{"job": e.Job, "outcome": e.Outcome})
	if e.Trigger != "" {
		entry = entry.WithField("trigger", e.Trigger)
	}
	if e.Err != nil {
		entry = entry.WithError(e.Err)
	}
	switch {
	case e.Outcome == worker.Begun:
	case e.Job == worker.DrainName && e.Outcome == worker.Done: // it comes every second, and said itself what it did
	case e.Outcome == worker.Done || e.Outcome == worker.Interrupted:
		entry.Debug("job ended")
	case e.Outcome == worker.Parked:
		entry.WithField("until", e.Until).Warn("job waits: the remote system asked for it")
	case e.Outcome == worker.Skipped:
		entry.Info("job skipped: it is still running or waiting")
	default:
		entry.Error("job failed")
	}
}

// noteTimeout is how long the end of a job may wait for the ledger, which is written
// to after serve was told to stop, too.
const noteTimeout = 15 * time.Second

// noteJob keeps when a job began and how it ended. The drain, which comes every second,
// leaves its traces in the inbox.
func noteJob(s *session.Session, e worker.Event) error {
	if e.Job == worker.DrainName || e.Outcome == worker.Skipped {
		return nil
	}
	end := state.JobEnd{Outcome: string(e.Outcome), Until: e.Until}
	if e.Err != nil {
		end.Problem = e.Err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), noteTimeout)
	defer cancel()
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		if e.Outcome == worker.Begun {
			return tx.BeginJob(e.Job)
		}
		return tx.EndJob(e.Job, end)
	})
}
