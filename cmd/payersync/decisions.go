package main

import (
	"strings"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// decisionsTo returns a function to log why each record was planned as it was; nil if the log has no reader
// for it. It names fields, never values.
func decisionsTo(log *logrus.Logger) func(int64, state.Decision) {
	if !log.IsLevelEnabled(logrus.DebugLevel) {
		return nil
	}
	return func(run int64, d state.Decision) {
		fields := logrus.Fields{"run": run, "record": d.SourceID, "verdict": string(d.Verdict), "action": "none"}
		if c := d.Customer; c != nil {
			paths := connector.Map(c.Fields(), func(f connector.FieldChange) string { return f.Path })
			fields["action"], fields["fields"] = string(c.Action), strings.Join(paths, " ")
			if c.BillingID != "" {
				fields["customer"] = c.BillingID
			}
		}
		if d.Link {
			fields["link"] = "asked for"
		}
		for name, reason := range map[string]string{"reason": string(d.Reason), "also": string(d.Also),
			"mandate": string(d.OfMandate), "why": d.Reason.Sentence()} {
			if reason != "" {
				fields[name] = reason
			}
		}
		log.WithFields(fields).Debug("decided")
	}
}

// mostFailures is the number of failed records per run with a line of their own. More have one common cause,
// and the ledger has them all.
const mostFailures = 1000

// failureLog logs the failed changes of one run, by the records' ids and reasons.
type failureLog struct {
	log  *logrus.Logger
	seen atomic.Int64
}

func (l *failureLog) failed(f syncer.FailedChange) {
	if l.seen.Add(1) > mostFailures {
		return
	}
	l.log.WithFields(logrus.Fields{"run": f.Run, "record": f.SourceID, "action": string(f.Action),
		"reason": string(f.Reason)}).Warn("record failed: " + f.Reason.Sentence())
}

// close says how many had no line.
func (l *failureLog) close(run int64) {
	if more := l.seen.Load() - mostFailures; more > 0 {
		l.log.WithFields(logrus.Fields{"run": run,
			"count": more}).Warn("more records failed; payersync attention list shows all of them")
	}
}
