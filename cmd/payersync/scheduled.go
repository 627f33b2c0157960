package main

import (
	"context"
	"errors"

	"github.com/sirupsen/logrus"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/connector"
	"payersync/connector/health"
	"payersync/connector/syncer"
	"payersync/connector/worker"
	"payersync/mapping"
	"payersync/mapping/strict"
	"payersync/state"
)

// syncNow makes one run of a job, by its schedule or for a person, and logs how it ended, once.
func syncNow(ctx context.Context, s *session.Session, c config.Connection, trigger string) error {
	if by := worker.Person(ctx); by != "" {
		return syncFor(ctx, s, c, by, nil, nil)
	}
	moved, err := s.Ledger.MovedTo(ctx, c.Name)
	if err != nil {
		return err
	}
	if moved != nil {
		s.Log.WithFields(logrus.Fields{"connection": c.Name,
			"moved_to": moved.New}).Info("the connection moved, so it has no runs; remove it from the configuration")
		return nil
	}
	conn, err := connectionInForce(ctx, s, c)
	if err != nil {
		return err
	}
	return runLogged(ctx, s, conn, syncer.RunOptions{Trigger: trigger, Actor: "schedule", Holder: holder()})
}

// syncFor makes one run at a person's request on the pages: like payersync sync, with the mapping in its
// file, and nobody to approve a plan above the limits. It logs the run's end, once.
func syncFor(ctx context.Context, s *session.Session, c config.Connection, by string, opened func(int64),
	progress func(syncer.Progress)) error {
	conn, err := s.Connection(ctx, c)
	if err != nil {
		return forLog(err)
	}
	if _, err := setMappingProblem(ctx, s, c, ""); err != nil {
		return err
	}
	return runLogged(ctx, s, conn,
		syncer.RunOptions{Trigger: worker.TriggerManual, Actor: by, Holder: holder() + " for " + by, Opened: opened,
			Progress: progress})
}

// runLogged makes one sending run, and logs its end.
func runLogged(ctx context.Context, s *session.Session, conn syncer.Connection, o syncer.RunOptions) error {
	failures := failureLog{log: s.Log}
	o.Kind, o.Decided, o.Failed = connector.RunSync, decisionsTo(s.Log), failures.failed
	res, err := s.Syncer.Run(ctx, conn, o)
	failures.close(res.RunID)
	if err != nil {
		return err
	}
	var stands *syncer.Standstill
	var edited *syncer.EditedProfile
	level := logrus.InfoLevel
	if code := codeOf(res); code != exitDone && !errors.As(res.Err, &stands) && !errors.As(res.Err, &edited) &&
		(res.News || res.Outcome != connector.RunComplete) { // a standstill is told below, and a finding once
		level = logrus.WarnLevel
	}
	ended := logrus.Fields{
		"run": res.RunID, "connection": res.Connection, "outcome": res.Outcome, "pulled": res.Counts.Pulled,
		"created": res.Counts.Created,
		"adopted": res.Counts.Adopted, "updated": res.Counts.Updated, "links": res.Counts.LinksRequested,
		"held": res.Counts.Held, "failed": res.Counts.Failed, "waiting": res.Counts.Waiting, "attention": res.Attention,
		"pages": res.Proof.Pages, "passes": res.Proof.Passes, "own_echoes": res.Counts.OwnEchoes,
	}
	if res.Reason != "" {
		ended["reason"] = res.Reason
	}
	s.Log.WithFields(ended).Log(level, "run ended")
	if res.Note != "" && res.Reason == "" { // else the line above says it
		s.Log.WithFields(logrus.Fields{"run": res.RunID, "connection": res.Connection}).Warn(res.Note)
	}
	if stands != nil { // it waits for a person, and the next run looks again
		s.Log.WithFields(logrus.Fields{"run": res.RunID, "connection": res.Connection, "plan": stands.Plan.ID,
			"missing": stands.Plan.Missing, "lost": stands.Plan.Lost}).Warn(stands.Error())
		return nil
	}
	if edited != nil { // likewise
		s.Log.WithFields(logrus.Fields{"run": res.RunID, "connection": res.Connection}).Warn(edited.Error())
		return nil
	}
	return res.Err
}

// connectionInForce opens a connection for an unattended run. An invalid mapping file never replaces a good
// one: the version of the last run stays in force, and the status shows the mistake until it is corrected.
func connectionInForce(ctx context.Context, s *session.Session, c config.Connection) (syncer.Connection, error) {
	conn, err := s.Source(ctx, c)
	if err != nil {
		return conn, err
	}
	m, wrong := session.MappingForRun(c.Mapping, conn.Info, s.Config.Billing.Dialect.Dialect)
	if wrong != nil {
		m, err = lastGood(ctx, s, c, conn.Info)
		if errors.Is(err, state.ErrNoMapping) {
			return conn, forLog(wrong)
		}
		if err != nil {
			return conn, errors.Join(forLog(wrong), err)
		}
	}
	conn.Mapping = m
	return conn, logMapping(ctx, s, c, m, wrong)
}

// lastGood loads the version of the connection's last run.
func lastGood(ctx context.Context, s *session.Session, c config.Connection,
	info connector.SourceInfo) (*mapping.Mapping, error) {
	v, err := s.Ledger.MappingInForce(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	return session.ParseMapping("version "+v.Hash[:shortHash], []byte(v.Text), info, s.Config.Billing.Dialect.Dialect)
}

// logMapping stores the mistake of a mapping file for the status, and logs it when it is news.
func logMapping(ctx context.Context, s *session.Session, c config.Connection, inForce *mapping.Mapping,
	wrong error) error {
	problem := ""
	if wrong != nil {
		problem = wrong.Error()
	}
	news, err := setMappingProblem(ctx, s, c, problem)
	if err != nil || !news {
		return err
	}
	entry := s.Log.WithFields(logrus.Fields{"connection": c.Name, "mapping": inForce.Version()[:shortHash]})
	if wrong != nil {
		entry.WithError(forLog(wrong)).Error("the mapping file is not right; the version before stays in force")
		return nil
	}
	entry.Info("the mapping file is right again")
	return nil
}

// forLog returns the mistake of a mapping file without the file's lines: an example in it may be somebody's
// record.
func forLog(wrong error) error {
	var mistakes *strict.Error
	if errors.As(wrong, &mistakes) {
		return mistakes.WithoutLines()
	}
	return wrong
}

func setMappingProblem(ctx context.Context, s *session.Session, c config.Connection, problem string) (news bool,
	err error) {
	err = s.Ledger.Do(ctx, func(tx *state.Tx) error {
		news, err = tx.SetMappingProblem(c.Name, problem)
		return err
	})
	return news, err
}

func sweepNow(ctx context.Context, s *session.Session) error {
	res, err := s.Reconciler.Sweep(ctx)
	if err != nil {
		return err
	}
	s.Metrics.Swept(res)
	level := logrus.InfoLevel
	if res.Missing+res.Unlisted+res.Doubled > 0 {
		level = logrus.WarnLevel
	}
	s.Log.WithFields(logrus.Fields{
		"customers": res.Customers, "repaired": res.Repaired, "drifted": res.Drifted, "missing": res.Missing,
		"unlisted": res.Unlisted, "doubled": res.Doubled,
	}).Log(level, "sweep ended")
	silent, err := health.Present(ctx, s.Ledger, health.Expected{Webhooks: s.Config.Billing.Webhook != nil},
		health.WebhooksSilent)
	for _, c := range silent {
		s.Log.Warn(c.Text())
	}
	return errors.Join(err, logSubscription(ctx, s))
}

// logSubscription checks the webhook subscription. It logs a problem at every sweep, because nothing else
// would, and the recovery once.
func logSubscription(ctx context.Context, s *session.Session) error {
	f, news, err := followSubscription(ctx, s)
	switch {
	case f.Problem != "":
		s.Log.WithField("problem", f.Problem).Warn(f.Detail)
	case news:
		s.Log.Info("the webhook subscription is right again")
	}
	if err != nil { // the sweep itself was made
		s.Log.WithError(err).Warn("nothing is known of the webhook subscription")
	}
	return ctx.Err()
}

func drainInbox(ctx context.Context, s *session.Session) error {
	res, err := s.Reconciler.Drain(ctx)
	if res.Reflected+res.Superseded+res.Parked+res.Ignored > 0 {
		s.Log.WithFields(logrus.Fields{
			"reflected": res.Reflected, "superseded": res.Superseded, "parked": res.Parked, "ignored": res.Ignored,
			"moved": res.Moved,
		}).Info("inbox drained")
	}
	return err
}
