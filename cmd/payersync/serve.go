package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/server"
	"payersync/connector/syncer"
	"payersync/connector/worker"
	"payersync/mapping"
	"payersync/mapping/strict"
	"payersync/state"

	"payersync/cmd/payersync/internal/usage"
)

const (
	scheduleJitter = 10 * time.Second // spreads the jobs of many installations over the minute
	drainEvery     = time.Second      // how late deliveries are that wait although they may be news
)

func (a *app) serveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the schedules and the webhook endpoint until stopped",
		Long: `Runs each connection's sync and the sweep by their schedules, takes webhooks in, and
reflects them. A schedule that was missed while it was down is made up for once.
An edited mapping is used from the next run on; one with a mistake is not used at
all: the version before stays in force, and status shows the mistake.
A ledger is served by one process at a time; commands may run beside it.
SIGTERM lets requests in flight finish, 20 s at most. The log goes to standard error.
Health: GET /healthz (alive) and /readyz (the ledger can be written to), at
server.health if that is set, else beside the webhook endpoint.`,
		Example: "  payersync serve --config /etc/payersync/payersync.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := a.openAndServe(cmd.Context())
			if errors.Is(err, context.Canceled) {
				return nil // told to stop before it had begun is stopped in order, too
			}
			return err
		},
	}
}

func (a *app) openAndServe(ctx context.Context) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	s, err := a.openSession(ctx, cfg, state.Options{})
	if err != nil {
		return err
	}
	if err := s.openBilling(ctx, a, s.cfg.Log); err != nil {
		return err
	}
	defer s.close()
	if found := s.foundText(); found != "" {
		s.log.Warn(found)
	}
	alone, err := s.ledger.TryServe()
	if err != nil {
		return err
	}
	if alone == nil {
		return fmt.Errorf("cannot serve: another payersync serve works on the ledger %s; stop it first, or give this one a ledger of its own", s.cfg.Ledger.Path)
	}
	return errors.Join(a.serve(ctx, s), alone.Release())
}

func (a *app) serve(ctx context.Context, s *session) error {
	w, err := worker.New(worker.Config{
		Jobs: a.jobs(s), Drain: s.drain, DrainEvery: drainEvery, Jitter: scheduleJitter, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		Now: a.now, Report: s.reportJob,
	})
	if err != nil {
		return usage.Error{Err: err}
	}
	serveWebhooks, err := a.webhookServer(ctx, s, w.Nudge)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- serveWebhooks(ctx)
		stop() // without its endpoint serve ends, rather than run half
	}()
	if idle := s.cfg.idle(); len(idle) > 0 {
		s.log.WithField("settings", strings.Join(idle, ", ")).Warn("these settings have no effect in this version")
	}
	s.log.WithField("connections", len(s.cfg.Connections)).Info("payersync serves")
	worked := w.Run(ctx)
	stop()
	err = errors.Join(worked, <-served)
	s.log.Info("payersync stops")
	return err
}

// jobs returns what the schedules run: each connection's sync, and the sweep.
func (a *app) jobs(s *session) []worker.Job {
	jobs := []worker.Job{{
		Name: "sweep", Schedule: s.cfg.Schedules.Sweep, Last: s.ledger.LastPass,
		Run: func(ctx context.Context, _ string) error { return s.sweep(ctx) },
	}, {
		Name: "keep-alive", Schedule: s.cfg.Schedules.KeepAlive,
		// At every start, too, or it would never come on a machine that is off at
		// that hour. It asks for nothing that is not due.
		Last: func(context.Context) (time.Time, error) { return time.Time{}, nil },
		Run:  func(ctx context.Context, _ string) error { return s.keepAlive(ctx) },
	}}
	for _, c := range s.cfg.Connections {
		if c.Schedule == "" {
			continue
		}
		jobs = append(jobs, worker.Job{
			Name: "sync " + c.Name, Schedule: c.Schedule,
			Last: func(ctx context.Context) (time.Time, error) { return s.ledger.LastFinished(ctx, c.Name) },
			Run:  func(ctx context.Context, trigger string) error { return s.sync(ctx, c, trigger) },
		})
	}
	return jobs
}

// keepAliveAfter is how long a consent may go unused before it is renewed for its
// own sake (fault F29).
const keepAliveAfter = 7 * 24 * time.Hour

// keepAlive renews the consents that nobody used for a while, of connections that
// no schedule reads too. One that fails keeps no other from its turn.
func (s *session) keepAlive(ctx context.Context) error {
	var problems []error
	for _, source := range s.consents() {
		problems = append(problems, source.KeepAlive(ctx, keepAliveAfter))
	}
	return errors.Join(problems...)
}

// sync makes one scheduled run and logs how it ended, once.
func (s *session) sync(ctx context.Context, c connectionConfig, trigger string) error {
	conn, err := s.connectionInForce(ctx, c)
	if err != nil {
		return err
	}
	res, err := s.syncer.Run(ctx, conn, syncer.Options{Kind: connector.RunSync, Trigger: trigger, Actor: "schedule", Holder: holder()})
	if err != nil {
		return err
	}
	var stands *syncer.Standstill
	level := logrus.InfoLevel
	if codeOf(res) != exitDone && !errors.As(res.Err, &stands) { // a standstill is told below
		level = logrus.WarnLevel
	}
	s.log.WithFields(logrus.Fields{
		"run": res.RunID, "connection": res.Connection, "outcome": res.Outcome, "pulled": res.Counts.Pulled, "created": res.Counts.Created,
		"adopted": res.Counts.Adopted, "updated": res.Counts.Updated, "links": res.Counts.LinksRequested,
		"held": res.Counts.Held, "failed": res.Counts.Failed, "waiting": res.Counts.Waiting, "attention": res.Attention,
		"pages": res.Proof.Pages, "passes": res.Proof.Passes,
	}).Log(level, "run ended")
	if res.Note != "" {
		s.log.WithFields(logrus.Fields{"run": res.RunID, "connection": res.Connection}).Warn(res.Note)
	}
	if stands != nil { // it waits for a person, and the next run looks again
		s.log.WithFields(logrus.Fields{"run": res.RunID, "connection": res.Connection, "plan": stands.Plan.ID, "missing": stands.Plan.Missing, "lost": stands.Plan.Lost}).Warn(stands.Error())
		return nil
	}
	return res.Err
}

// connectionInForce opens a connection for a run that nobody watches. A mapping
// file that is not right never replaces a good one: the version of the last run
// stays in force, and what is wrong stands in the status until it is mended.
func (s *session) connectionInForce(ctx context.Context, c connectionConfig) (syncer.Connection, error) {
	conn, err := s.source(ctx, c)
	if err != nil {
		return conn, err
	}
	m, wrong := mappingForRun(c.Mapping, conn.Info)
	if wrong != nil {
		m, err = s.lastGood(ctx, c, conn.Info)
		if errors.Is(err, state.ErrNoMapping) {
			return conn, forLog(wrong)
		}
		if err != nil {
			return conn, errors.Join(forLog(wrong), err)
		}
	}
	conn.Mapping = m
	return conn, s.tellOfMapping(ctx, c, m, wrong)
}

// lastGood loads the version that the connection's last run was bound to.
func (s *session) lastGood(ctx context.Context, c connectionConfig, info connector.SourceInfo) (*mapping.Mapping, error) {
	v, err := s.ledger.MappingInForce(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	return mapping.Load("version "+v.Hash[:shortHash], []byte(v.Text), info)
}

// tellOfMapping keeps what is wrong with a mapping file for the status, and logs
// it when it is news.
func (s *session) tellOfMapping(ctx context.Context, c connectionConfig, inForce *mapping.Mapping, wrong error) error {
	problem := ""
	if wrong != nil {
		problem = wrong.Error()
	}
	news, err := s.setMappingProblem(ctx, c, problem)
	if err != nil || !news {
		return err
	}
	entry := s.log.WithFields(logrus.Fields{"connection": c.Name, "mapping": inForce.Version()[:shortHash]})
	if wrong != nil {
		entry.WithError(forLog(wrong)).Error("the mapping file is not right; the version before stays in force")
		return nil
	}
	entry.Info("the mapping file is right again")
	return nil
}

// forLog returns what is wrong with a mapping file without the file's lines: an
// example in it may be somebody's record.
func forLog(wrong error) error {
	var mistakes *strict.Error
	if errors.As(wrong, &mistakes) {
		return mistakes.WithoutLines()
	}
	return wrong
}

func (s *session) setMappingProblem(ctx context.Context, c connectionConfig, problem string) (news bool, err error) {
	err = s.ledger.Do(ctx, func(tx *state.Tx) error {
		news, err = tx.SetMappingProblem(c.Name, problem)
		return err
	})
	return news, err
}

func (s *session) sweep(ctx context.Context) error {
	res, err := s.reconciler.Sweep(ctx)
	if err != nil {
		return err
	}
	level := logrus.InfoLevel
	if res.Missing+res.Unlisted+res.Doubled > 0 {
		level = logrus.WarnLevel
	}
	s.log.WithFields(logrus.Fields{
		"customers": res.Customers, "repaired": res.Repaired, "drifted": res.Drifted, "missing": res.Missing, "unlisted": res.Unlisted, "doubled": res.Doubled,
	}).Log(level, "sweep ended")
	silence, err := s.silence(ctx)
	for _, text := range silenceTexts(silence) {
		s.log.Warn(text)
	}
	return errors.Join(err, s.tellOfSubscription(ctx))
}

// tellOfSubscription looks at the webhook subscription and logs what is the matter
// with it at every sweep, because nothing else would, and once that it is right
// again.
func (s *session) tellOfSubscription(ctx context.Context) error {
	f, news, err := s.followSubscription(ctx)
	switch {
	case f.Problem != "":
		s.log.WithField("problem", f.Problem).Warn(f.Detail)
	case news:
		s.log.Info("the webhook subscription is right again")
	}
	if err != nil { // the sweep itself was made
		s.log.WithError(err).Warn("nothing is known of the webhook subscription")
	}
	return ctx.Err()
}

func (s *session) drain(ctx context.Context) error {
	res, err := s.reconciler.Drain(ctx)
	if res.Reflected+res.Superseded+res.Parked+res.Ignored > 0 {
		s.log.WithFields(logrus.Fields{
			"reflected": res.Reflected, "superseded": res.Superseded, "parked": res.Parked, "ignored": res.Ignored, "moved": res.Moved,
		}).Info("inbox drained")
	}
	return err
}

// reportJob logs what became of a job where the job itself could not.
func (s *session) reportJob(e worker.Event) {
	entry := s.log.WithFields(logrus.Fields{"job": e.Job, "outcome": e.Outcome})
	if e.Trigger != "" {
		entry = entry.WithField("trigger", e.Trigger)
	}
	if e.Err != nil {
		entry = entry.WithError(e.Err)
	}
	switch {
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

// webhookServer returns what serves the webhook endpoint and the health pages
// until its context ends. Without a webhook section there are only the latter.
func (a *app) webhookServer(ctx context.Context, s *session, nudge func()) (func(context.Context) error, error) {
	c := s.cfg.Server
	if s.cfg.Billing.Webhook == nil || c.Webhooks == "" {
		s.log.Warn("no webhook endpoint is configured: changes are found by the sweep alone")
	}
	deliveries := newDeliveryLog(s.log)
	endpoint, err := a.endpoint(s, nudge, deliveries)
	if err != nil {
		return nil, err
	}
	opened := listeners{share: server.Connections{Most: c.Limits.Connections, Proxies: c.proxies()}, errorLog: log.New(deliveries, "", 0)}
	if err := errors.Join(
		opened.open(ctx, s.log, "webhooks", c.Webhooks, endpoint.Handler()),
		opened.open(ctx, s.log, "health", c.Health, endpoint.HealthHandler()),
	); err != nil {
		return nil, errors.Join(err, opened.close())
	}
	return func(ctx context.Context) error {
		defer deliveries.flush()
		serving, ctx := errgroup.WithContext(ctx)
		serving.Go(func() error { deliveries.run(ctx); return nil })
		for _, l := range opened.all {
			serving.Go(func() error { return opened.share.Serve(ctx, l.Listener, l.server) })
		}
		return serving.Wait()
	}, nil
}

// listeners are the addresses that serve answers on.
type listeners struct {
	all      []listener
	share    server.Connections
	errorLog *log.Logger
}

type listener struct {
	net.Listener
	server *http.Server
}

// open opens the listener of a key of the configuration, unless its address is
// blank.
func (l *listeners) open(ctx context.Context, log *logrus.Logger, key, address string, h http.Handler) error {
	if address == "" {
		return nil
	}
	opened, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("cannot listen for %s: %w; choose another address in server.%[1]s", key, err)
	}
	srv := server.NewHTTPServer(h)
	srv.ErrorLog = l.errorLog
	l.all = append(l.all, listener{opened, srv})
	log.WithFields(logrus.Fields{"for": key, "address": opened.Addr().String()}).Info("payersync listens")
	return nil
}

func (l *listeners) close() (err error) {
	for _, one := range l.all {
		err = errors.Join(err, one.Close())
	}
	return err
}

func (a *app) endpoint(s *session, nudge func(), deliveries *deliveryLog) (*server.Server, error) {
	c := s.cfg.Server
	cfg := server.Config{
		Ledger: s.ledger, Nudge: nudge, Now: a.now, Report: deliveries.report,
		Refused: c.Limits.RefusedPerClient, TrustedProxies: c.proxies(), HealthApart: c.Health != "",
	}
	if hook := s.cfg.Billing.Webhook; hook != nil {
		verifier, err := billing.NewVerifier(hook.Signature.Signature)
		if err != nil {
			return nil, usage.Error{Err: err}
		}
		public, err := url.Parse(hook.PublicURL)
		if err != nil {
			return nil, usage.Errorf("billing.webhook.public_url: %w", err)
		}
		cfg.Verifier, cfg.Events, cfg.Path = verifier, hook.EventPaths, public.Path
	}
	return server.New(cfg)
}
