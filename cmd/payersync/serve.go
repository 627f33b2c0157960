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

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/server"
	"payersync/connector/syncer"
	"payersync/connector/worker"
	"payersync/mapping"
	"payersync/mapping/strict"
	"payersync/state"
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
	s, err := session.Open(ctx, cfg, state.Options{Now: a.now})
	if err != nil {
		return err
	}
	if err := s.OpenBilling(ctx, a.ErrOut, s.Config.Log, true); err != nil {
		return err
	}
	defer s.Close()
	if found := s.FoundText(); found != "" {
		s.Log.Warn(found)
	}
	alone, err := s.Ledger.TryServe()
	if err != nil {
		return err
	}
	if alone == nil {
		return fmt.Errorf("cannot serve: another payersync serve works on the ledger %s; stop it first, or give this one a ledger of its own", s.Config.Ledger.Path)
	}
	return errors.Join(a.serve(ctx, s), alone.Release())
}

func (a *app) serve(ctx context.Context, s *session.Session) error {
	w, err := worker.New(worker.Config{
		Jobs: a.jobs(s), Drain: func(ctx context.Context) error { return drainInbox(ctx, s) }, DrainEvery: drainEvery, Jitter: scheduleJitter, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		Now: a.now, Report: func(e worker.Event) { reportJob(s, e) },
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
	if idle := s.Config.Idle(); len(idle) > 0 {
		s.Log.WithField("settings", strings.Join(idle, ", ")).Warn("these settings have no effect in this version")
	}
	s.Log.WithField("connections", len(s.Config.Connections)).Info("payersync serves")
	worked := w.Run(ctx)
	stop()
	err = errors.Join(worked, <-served)
	s.Log.Info("payersync stops")
	return err
}

// sync makes one scheduled run and logs how it ended, once.
func syncNow(ctx context.Context, s *session.Session, c config.Connection, trigger string) error {
	conn, err := connectionInForce(ctx, s, c)
	if err != nil {
		return err
	}
	res, err := s.Syncer.Run(ctx, conn, syncer.Options{Kind: connector.RunSync, Trigger: trigger, Actor: "schedule", Holder: holder(), Decided: decisionsTo(s.Log)})
	if err != nil {
		return err
	}
	var stands *syncer.Standstill
	level := logrus.InfoLevel
	if codeOf(res) != exitDone && !errors.As(res.Err, &stands) { // a standstill is told below
		level = logrus.WarnLevel
	}
	s.Log.WithFields(logrus.Fields{
		"run": res.RunID, "connection": res.Connection, "outcome": res.Outcome, "pulled": res.Counts.Pulled, "created": res.Counts.Created,
		"adopted": res.Counts.Adopted, "updated": res.Counts.Updated, "links": res.Counts.LinksRequested,
		"held": res.Counts.Held, "failed": res.Counts.Failed, "waiting": res.Counts.Waiting, "attention": res.Attention,
		"pages": res.Proof.Pages, "passes": res.Proof.Passes,
	}).Log(level, "run ended")
	if res.Note != "" {
		s.Log.WithFields(logrus.Fields{"run": res.RunID, "connection": res.Connection}).Warn(res.Note)
	}
	if stands != nil { // it waits for a person, and the next run looks again
		s.Log.WithFields(logrus.Fields{"run": res.RunID, "connection": res.Connection, "plan": stands.Plan.ID, "missing": stands.Plan.Missing, "lost": stands.Plan.Lost}).Warn(stands.Error())
		return nil
	}
	return res.Err
}

// connectionInForce opens a connection for a run that nobody watches. A mapping
// file that is not right never replaces a good one: the version of the last run
// stays in force, and what is wrong stands in the status until it is mended.
func connectionInForce(ctx context.Context, s *session.Session, c config.Connection) (syncer.Connection, error) {
	conn, err := s.Source(ctx, c)
	if err != nil {
		return conn, err
	}
	m, wrong := session.MappingForRun(c.Mapping, conn.Info)
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
	return conn, tellOfMapping(ctx, s, c, m, wrong)
}

// lastGood loads the version that the connection's last run was bound to.
func lastGood(ctx context.Context, s *session.Session, c config.Connection, info connector.SourceInfo) (*mapping.Mapping, error) {
	v, err := s.Ledger.MappingInForce(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	return mapping.Load("version "+v.Hash[:shortHash], []byte(v.Text), info)
}

// tellOfMapping keeps what is wrong with a mapping file for the status, and logs
// it when it is news.
func tellOfMapping(ctx context.Context, s *session.Session, c config.Connection, inForce *mapping.Mapping, wrong error) error {
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

// forLog returns what is wrong with a mapping file without the file's lines: an
// example in it may be somebody's record.
func forLog(wrong error) error {
	var mistakes *strict.Error
	if errors.As(wrong, &mistakes) {
		return mistakes.WithoutLines()
	}
	return wrong
}

func setMappingProblem(ctx context.Context, s *session.Session, c config.Connection, problem string) (news bool, err error) {
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
	level := logrus.InfoLevel
	if res.Missing+res.Unlisted+res.Doubled > 0 {
		level = logrus.WarnLevel
	}
	s.Log.WithFields(logrus.Fields{
		"customers": res.Customers, "repaired": res.Repaired, "drifted": res.Drifted, "missing": res.Missing, "unlisted": res.Unlisted, "doubled": res.Doubled,
	}).Log(level, "sweep ended")
	silence, err := silence(ctx, s)
	for _, text := range silenceTexts(silence) {
		s.Log.Warn(text)
	}
	return errors.Join(err, tellOfSubscription(ctx, s))
}

// tellOfSubscription looks at the webhook subscription and logs what is the matter
// with it at every sweep, because nothing else would, and once that it is right
// again.
func tellOfSubscription(ctx context.Context, s *session.Session) error {
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
			"reflected": res.Reflected, "superseded": res.Superseded, "parked": res.Parked, "ignored": res.Ignored, "moved": res.Moved,
		}).Info("inbox drained")
	}
	return err
}

// webhookServer returns what serves the webhook endpoint and the health pages
// until its context ends. Without a webhook section there are only the latter.
func (a *app) webhookServer(ctx context.Context, s *session.Session, nudge func()) (func(context.Context) error, error) {
	c := s.Config.Server
	if s.Config.Billing.Webhook == nil || c.Webhooks == "" {
		s.Log.Warn("no webhook endpoint is configured: changes are found by the sweep alone")
	}
	deliveries := newDeliveryLog(s.Log)
	endpoint, err := a.endpoint(s, nudge, deliveries)
	if err != nil {
		return nil, err
	}
	opened := listeners{share: server.Connections{Most: c.Limits.Connections, Proxies: c.Proxies()}, errorLog: log.New(deliveries, "", 0)}
	if err := errors.Join(
		opened.open(ctx, s.Log, "webhooks", c.Webhooks, endpoint.Handler()),
		opened.open(ctx, s.Log, "health", c.Health, endpoint.HealthHandler()),
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

func (a *app) endpoint(s *session.Session, nudge func(), deliveries *deliveryLog) (*server.Server, error) {
	c := s.Config.Server
	cfg := server.Config{
		Ledger: s.Ledger, Nudge: nudge, Now: a.now, Report: deliveries.report,
		Refused: c.Limits.RefusedPerClient, TrustedProxies: c.Proxies(), HealthApart: c.Health != "",
	}
	if hook := s.Config.Billing.Webhook; hook != nil {
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
