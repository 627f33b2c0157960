package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"payersync/connector/alarm"
	"payersync/connector/health"
	"payersync/connector/outbox"
	"payersync/connector/worker"
)

const (
	alarmsEvery = time.Minute     // the time between checks for alarms
	alarmsAfter = 3 * time.Second // how soon after a job has ended; others end with it
)

// alarms sends alarms while serve runs.
type alarms struct {
	svc    *service
	ended  chan struct{}   // a job has ended
	of     *installation   // the teller's installation
	teller *alarm.Notifier // the same for all configurations: it remembers what no ledger could
	done   func()
	failed string // why the last look failed, as it was logged

	// since when jobs are run; zero for the time when a configuration came in force
	from  time.Time
	skip  func() bool                            // whether nothing can be news; nil for never
	begin func()                                 // called when a check begins; may be nil
	keep  func(ctx context.Context, l alarmLook) // is told of each look; nil for nobody
	mu    sync.Mutex                             // held during a look
	last  []health.Condition                     // the findings of the last check; nil before it
}

// alarmLook is the result of a look.
type alarmLook struct {
	began time.Time
	found []health.Condition
	next  time.Time // the next due time of waiting alarms; zero for none
}

func newAlarms(svc *service) *alarms {
	return &alarms{svc: svc, ended: make(chan struct{}, 1), done: func() {}}
}

// noteJob receives the outcome of every job.
func (t *alarms) noteJob(e worker.JobEvent) {
	if e.Job == worker.DrainName || e.Outcome == worker.Begun || e.Outcome == worker.Skipped {
		return
	}
	select {
	case t.ended <- struct{}{}:
	default:
	}
}

// run looks every minute, and soon after a job has ended, until ctx ends. The first look comes
// late enough for what was missed while serve was down to have begun.
func (t *alarms) run(ctx context.Context) {
	defer func() { t.done() }()
	tick := time.NewTicker(alarmsEvery)
	defer tick.Stop()
	var soon <-chan time.Time // while a job has ended since the last look
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.ended:
			if soon == nil {
				soon = time.After(alarmsAfter)
			}
			continue
		case <-soon:
		case <-tick.C:
			if soon == nil && t.skip != nil && t.skip() {
				continue
			}
		}
		soon = nil
		t.check(ctx)
	}
}

// check looks once, by the configuration in force.
func (t *alarms) check(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.svc.inForce.Load(); now != t.of {
		t.follow(now)
	}
	began := t.svc.now()
	if t.begin != nil {
		t.begin()
	}
	if t.last = nil; len(t.teller.Ways) > 0 {
		t.notify(ctx)
	}
	if t.keep != nil && ctx.Err() == nil {
		t.kept(ctx, began)
	}
}

// kept stores the findings of the look begun at that time. If another process sends the alarms, it looks
// first.
func (t *alarms) kept(ctx context.Context, began time.Time) {
	var err error
	if t.last == nil {
		_, err = t.teller.Look(ctx)
	}
	l := alarmLook{began: began, found: t.last}
	if err == nil && len(t.teller.Ways) > 0 {
		l.next, err = t.teller.NextLook(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			t.svc.log.WithError(err).Error("payersync cannot find out the state of the account")
		}
		return
	}
	t.keep(ctx, l)
}

// notify sends every way its new alarms.
func (t *alarms) notify(ctx context.Context) {
	err := t.teller.Notify(ctx)
	switch {
	case ctx.Err() != nil:
	case err == nil || errors.Is(err, outbox.ErrBusy):
		t.failed = ""
	case err.Error() != t.failed:
		t.failed = err.Error()
		t.svc.log.WithError(err).Error("not everybody could be told of alarms")
	}
}

// follow applies another configuration to the teller.
func (t *alarms) follow(now *installation) {
	next, done := t.svc.notifier(now.Config, now.Session)
	from := t.from
	if from.IsZero() {
		from = t.svc.now()
	}
	next.Look = func(ctx context.Context) (found []health.Condition, err error) {
		e := t.svc.expected(now.Session)
		e.From = from
		found, err = health.Present(ctx, now.Ledger, e)
		if err == nil {
			t.last = found
		}
		return found, err
	}
	next.Report = t.logged
	next.Remember(t.teller)
	t.done()
	t.teller, t.done, t.of = next, done, now
}

// logged logs the outcome of a message, once for each attempt.
func (t *alarms) logged(e alarm.MessageEvent) {
	entry := t.svc.log.WithFields(logrus.Fields{"way": e.Way, "message": e.Message, "begun": e.Begun, "over": e.Over})
	if e.Err != nil {
		entry.WithField("next", e.Next).WithError(e.Err).Warn("alarms could not be told")
		return
	}
	entry.Info("alarms told")
}
