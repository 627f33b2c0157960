package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/connector/worker"
	"payersync/state"
)

// The outcomes of jobs counting as executed, as stored in the ledger.
var happened = []string{string(worker.Done), string(worker.Failed), string(worker.Panicked)}

// The permitted delay of a job before a report.
const (
	leastGrace = 10 * time.Minute
	mostGrace  = 2 * time.Hour
	atWorkFor  = 6 * time.Hour // the limit of a running job; a first full reading is slow
)

// runs finds interrupted runs. A run in progress changes nothing yet.
func (l *look) runs(ctx context.Context) error {
	rows, err := l.ledger.RunEnds(ctx)
	if err != nil {
		return err
	}
	waiting, err := l.ledger.WaitingPlans(ctx)
	if err != nil {
		return err
	}
	rejected, err := l.ledger.RejectedPlans(ctx)
	if err != nil {
		return err
	}
	edited, err := l.ledger.EditedProfiles(ctx)
	for _, r := range rows {
		if r.Outcome != connector.RunFailed && (r.Outcome != connector.RunIncomplete || r.Problem == "") ||
			!l.Has(r.Connection) || explained(r, waiting, rejected, edited) {
			continue
		}
		c := Condition{Code: RunFailed, Subject: r.Connection, Connection: r.Connection, Since: r.Since, Urgent: true,
			Sentence: fmt.Sprintf("The last run of %s did not finish: %s.", r.Connection, strings.TrimSuffix(r.Problem, ".")),
			Next:     "No change is lost. Correct the cause: the next run then continues.",
			Steps:    []connector.Step{{Do: connector.DoListRuns}}}
		if r.Outcome == connector.RunIncomplete {
			c.Next = "No change is lost: the next run continues. If this happens again, correct the cause."
			c.Code, c.Urgent = RunIncomplete, l.now.Sub(r.Since) > restartable
		}
		l.add(c)
	}
	return err
}

// explained reports whether another condition covers the cause of a failed run, with its next step.
func explained(r state.RunEnd, waiting, rejected []state.Plan, edited []state.EditedProfile) bool {
	return slices.ContainsFunc(waiting,
		func(p state.Plan) bool { return p.Connection == r.Connection && p.Standstill() }) ||
		slices.ContainsFunc(rejected,
			func(p state.Plan) bool { return p.Connection == r.Connection && r.Problem == syncer.Rejected(p) }) ||
		r.Outcome == connector.RunIncomplete &&
			slices.ContainsFunc(edited, func(e state.EditedProfile) bool { return e.Connection == r.Connection })
}

// jobs finds the jobs of serve with a failure, or not executed when due.
func (l *look) jobs(ctx context.Context) error {
	rows, err := l.ledger.Jobs(ctx)
	if err != nil {
		return err
	}
	began, err := l.ledger.Began(ctx)
	if err != nil {
		return err
	}
	for _, j := range l.Jobs {
		row, from := state.JobRow{Name: j.Name}, l.From
		if i := slices.IndexFunc(rows, func(row state.JobRow) bool { return row.Name == j.Name }); i >= 0 {
			row = rows[i]
		}
		if j.Name == sweep && (from.IsZero() || len(rows) == 0) {
			from = began
		}
		if err := l.job(ctx, j, row, from); err != nil {
			return err
		}
	}
	return nil
}

// sweep is the job required everywhere, even if a timer runs the commands without serve.
const sweep = "sweep"

// job looks at one job; from is since when it is expected, if it never happened.
func (l *look) job(ctx context.Context, j worker.Job, row state.JobRow, from time.Time) error {
	connection, isSync := strings.CutPrefix(j.Name, "sync ")
	if !isSync {
		connection = ""
	}
	told := slices.ContainsFunc(l.found, func(c Condition) bool { return c.Code == RunFailed && c.Subject == connection })
	if bad := row.Outcome == string(worker.Failed) || row.Outcome == string(worker.Panicked); bad && !(isSync && told) {
		last := "It has never succeeded."
		if !row.DoneAt.IsZero() {
			last = "It last succeeded on " + l.Time(row.DoneAt) + "."
		}
		l.add(Condition{Code: JobFailed, Subject: j.Name, Connection: connection, Since: row.DoneAt, Urgent: true,
			Sentence: fmt.Sprintf("The job %s failed: %s. %s", j.Name, strings.TrimSuffix(row.Problem, "."), last),
			Next:     "payersync runs it again as scheduled. The check tests everything that it needs.",
			Steps:    []connector.Step{{Do: connector.DoCheck}}})
	}
	last, err := lastOf(ctx, j, row)
	if err != nil {
		return err
	}
	due, late, err := dueAfter(j.Schedule, last, from)
	if err != nil || late.IsZero() || !l.now.After(late) || row.ParkedUntil.After(l.now) {
		return err
	}
	c := Condition{Code: JobOverdue, Subject: j.Name, Connection: connection, Since: due, Urgent: true,
		Next: "Check that the service is running, and read its log.", Steps: []connector.Step{{Do: connector.DoServe}}}
	switch atWork := row.BegunAt.After(row.EndedAt); {
	case atWork && l.now.Sub(row.BegunAt) <= atWorkFor:
		return nil
	case atWork:
		c.Sentence = fmt.Sprintf("The job %s began on %s and has not ended.", j.Name, l.Time(row.BegunAt))
	case last.IsZero():
		c.Sentence = fmt.Sprintf("The job %s has never run. It was due on %s.", j.Name, l.Time(due))
	default:
		c.Sentence = fmt.Sprintf("The job %s did not run when it was due on %s. It last ran on %s.", j.Name, l.Time(due),
			l.Time(last))
	}
	l.add(c)
	return nil
}

// lastOf returns when a job last happened, whether by serve or by a command.
func lastOf(ctx context.Context, j worker.Job, row state.JobRow) (last time.Time, err error) {
	if j.Last != nil {
		last, err = j.Last(ctx)
	}
	if slices.Contains(happened, row.Outcome) && row.EndedAt.After(last) {
		last = row.EndedAt
	}
	if row.DoneAt.After(last) {
		last = row.DoneAt
	}
	return last, err
}

// dueAfter returns the due time of a job after its last execution, and the time from which it is late; zero times if it
// is unknown since when the job is expected.
func dueAfter(spec string, last, from time.Time) (due, late time.Time, err error) {
	if last.IsZero() {
		last = from
	}
	if last.IsZero() {
		return due, late, nil
	}
	schedule, err := worker.ParseSchedule(spec)
	if err != nil {
		return due, late, err
	}
	due = schedule.Next(last)
	if due.IsZero() {
		return due, late, nil
	}
	return due, due.Add(min(max(schedule.Next(due).Sub(due), leastGrace), mostGrace)), nil
}
