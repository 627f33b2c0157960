package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"payersync/cmd/payersync/internal/session"
	"payersync/connector"
	"payersync/connector/credentials"
	"payersync/connector/letters"
	"payersync/connector/server"
	"payersync/connector/worker"
	"payersync/state"
)

// jobs returns the scheduled jobs: each connection's sync, the sweep, and others.
func (a *app) jobs(s *session.Session) []worker.Job {
	jobs := []worker.Job{{
		Name: "sweep", Schedule: s.Config.Schedules.Sweep, Last: s.Ledger.LastPass,
		Run: func(ctx context.Context, _ string) error { return sweepNow(ctx, s) },
	}, {
		Name: "keep-alive", Schedule: s.Config.Schedules.KeepAlive,
		// It also runs at every start, or it would never run on a machine that is off at that hour. It
		// requests nothing before it is due.
		Last: func(context.Context) (time.Time, error) { return time.Time{}, nil },
		Run:  func(ctx context.Context, _ string) error { return keepAlive(ctx, s) },
	}}
	if schedule := s.Config.Schedules.Retention; schedule != "" {
		jobs = append(jobs, worker.Job{
			Name: retentionJob, Schedule: schedule,
			Last: func(ctx context.Context) (time.Time, error) { return lastDone(ctx, s, retentionJob) },
			Run:  func(ctx context.Context, _ string) error { return retainNow(ctx, s) },
		})
	}
	if schedule := s.Config.Schedules.Duplicates; schedule != "" {
		jobs = append(jobs, worker.Job{
			Name: duplicatesJob, Schedule: schedule,
			Last: func(ctx context.Context) (time.Time, error) { return lastDone(ctx, s, duplicatesJob) },
			Run:  func(ctx context.Context, _ string) error { return findDuplicatesNow(ctx, s) },
		})
	}
	if schedule := s.Config.Schedules.Writeback; schedule != "" && s.Config.WritesBack() {
		jobs = append(jobs, worker.Job{
			Name: writebackJob, Schedule: schedule,
			Last: func(ctx context.Context) (time.Time, error) { return lastDone(ctx, s, writebackJob) },
			Run:  func(ctx context.Context, _ string) error { return writeBackNow(ctx, s) },
		})
	}
	if s.Config.Backup.Folder != "" && s.Config.Schedules.Backup != "" {
		jobs = append(jobs, worker.Job{
			Name: backupJob, Schedule: s.Config.Schedules.Backup,
			Last: func(ctx context.Context) (time.Time, error) { return lastDone(ctx, s, backupJob) },
			Run:  func(ctx context.Context, _ string) error { return a.backupNow(ctx, s) },
		})
	}
	if s.Config.Letters.Sender == string(letters.SenderPayersync) {
		jobs = append(jobs, worker.Job{
			Name: lettersJob, Schedule: s.Config.Schedules.Letters,
			Run: func(ctx context.Context, _ string) error { return sendLetters(ctx, s) },
		})
	}
	for _, c := range s.Config.Connections {
		if c.Schedule == "" {
			continue
		}
		jobs = append(jobs, worker.Job{
			Name: syncJob(c.Name), Schedule: c.Schedule,
			Last: func(ctx context.Context) (time.Time, error) { return s.Ledger.NewestRunEnd(ctx, c.Name) },
			Run:  func(ctx context.Context, trigger string) error { return syncNow(ctx, s, c, trigger) },
		})
	}
	return jobs
}

// syncJob returns the name of a connection's job.
func syncJob(connection string) string { return "sync " + connection }

// ofSync returns the connection of a job, if it has one.
func ofSync(job string) (connection string, is bool) { return strings.CutPrefix(job, syncJob("")) }

// jobRow is a job with when it comes next, as the configuration says.
type jobRow struct {
	state.JobRow
	Schedule string    `json:"schedule"`
	NextAt   time.Time `json:"next_at"`
}

// noSchedule is the text for people if no process runs the schedules.
const noSchedule = "No schedule is running: start payersync serve."

// jobRows returns the last and next time of each job. A job parked by a remote system goes on after the
// pause. Rows of removed jobs are not among them.
func (a *app) jobRows(ctx context.Context, s *session.Session) ([]jobRow, error) {
	known, err := s.Ledger.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	now, out := a.now().UTC(), []jobRow{}
	for _, j := range a.jobs(s) {
		schedule, err := worker.ParseSchedule(j.Schedule)
		if err != nil {
			return nil, err
		}
		row := jobRow{state.JobRow{Name: j.Name}, j.Schedule, schedule.Next(now).UTC()}
		if i := slices.IndexFunc(known, func(k state.JobRow) bool { return k.Name == j.Name }); i >= 0 {
			row.JobRow = known[i]
		}
		if row.ParkedUntil.After(now) {
			row.NextAt = row.ParkedUntil
		}
		out = append(out, row)
	}
	return out, nil
}

// publicJobs returns jobs without names for everybody: those of connections as one. Its last time is that of
// the longest waiting one, and its next time that of the first.
func publicJobs(rows []jobRow) (out []server.JobTimes) {
	for _, r := range rows {
		name, _, _ := strings.Cut(r.Name, " ")
		job := server.JobTimes{Name: name, EndedAt: r.EndedAt, DoneAt: r.DoneAt, Outcome: r.Outcome, NextAt: r.NextAt}
		i := slices.IndexFunc(out, func(o server.JobTimes) bool { return o.Name == name })
		if i < 0 {
			out = append(out, job)
			continue
		}
		next := out[i].NextAt
		if job.DoneAt.Before(out[i].DoneAt) {
			out[i] = job
		}
		if out[i].NextAt = next; job.NextAt.Before(next) {
			out[i].NextAt = job.NextAt
		}
	}
	return out
}

// lastDone returns when a job last ended well, by serve or by hand.
func lastDone(ctx context.Context, s *session.Session, name string) (time.Time, error) {
	rows, err := s.Ledger.Jobs(ctx)
	for _, row := range rows {
		if row.Name == name {
			return row.DoneAt, err
		}
	}
	return time.Time{}, err
}

// keepAliveAfter is how long a consent may go unused before it is renewed for its
// own sake (fault F29).
const keepAliveAfter = 7 * 24 * time.Hour

// keepAlive renews the consents unused for a while, also of connections without a schedule. A failure stops
// no other.
func keepAlive(ctx context.Context, s *session.Session) error {
	problems := connector.Map(s.Consents(),
		func(source *credentials.Source) error { return source.KeepAlive(ctx, keepAliveAfter) })
	return errors.Join(problems...)
}

// retentionJob is the name of the job for deleting old data.
const retentionJob = "retention"

func retainNow(ctx context.Context, s *session.Session) error {
	done, err := s.Ledger.Retain(ctx, s.Config.Retention.Limits())
	if err == nil {
		s.Log.WithFields(logrus.Fields{"webhook_bodies": done.Bodies, "change_details": done.Details,
			"letter_texts": done.Letters, "letters": done.Sent}).Info("what is old is kept no longer")
	}
	return err
}

// duplicatesJob is the name of the job for finding two customers of one payer.
const duplicatesJob = "duplicates"

func findDuplicatesNow(ctx context.Context, s *session.Session) error {
	found, err := s.Syncer.FindDuplicates(ctx)
	if err != nil {
		return err
	}
	entry, level := s.Log.WithField("records", found.Records), logrus.InfoLevel
	if found.Records > 0 {
		level = logrus.WarnLevel
	}
	if found.Skipped {
		entry.Log(level, "no list of customers is believed yet, so nobody looked for two customers of one payer")
		return nil
	}
	entry.Log(level, "looked for two customers of one payer")
	return nil
}

// reportJob stores the begin and end of a job, and logs its outcome if the job itself could not.
func reportJob(s *session.Session, e worker.JobEvent) {
	if err := noteJob(s, e); err != nil {
		s.Log.WithField("job", e.Job).WithError(err).Error("the ledger does not show the job's outcome")
	}
	entry := s.Log.WithFields(logrus.Fields{"job": e.Job, "outcome": e.Outcome})
	if e.Trigger != "" {
		entry = entry.WithField("trigger", e.Trigger)
	}
	if e.Err != nil {
		entry = entry.WithError(e.Err)
	}
	var broken *connector.PanicError
	if errors.As(e.Err, &broken) {
		entry = entry.WithField("at", broken.Where())
	}
	switch {
	case e.Outcome == worker.Begun:
	case e.Job == worker.DrainName && e.Outcome == worker.Done: // it runs every second, and reports its own work
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

// noteTimeout limits the wait for the ledger at the end of a job, even after a stop of serve.
const noteTimeout = 15 * time.Second

// noteJob stores the begin and end of a job. The drain, once a second, leaves its traces in the inbox.
func noteJob(s *session.Session, e worker.JobEvent) error {
	if e.Job == worker.DrainName || e.Outcome == worker.Skipped {
		return nil
	}
	end := state.JobEnd{Outcome: string(e.Outcome), Until: e.Until, Problem: connector.ProblemOf(e.Err)}
	ctx, cancel := context.WithTimeout(context.Background(), noteTimeout)
	defer cancel()
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		if e.Outcome == worker.Begun {
			return tx.BeginJob(e.Job)
		}
		return tx.EndJob(e.Job, end)
	})
}
