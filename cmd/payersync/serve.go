package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/metrics"
	"payersync/connector/pages"
	"payersync/connector/server"
	"payersync/connector/worker"
	"payersync/state"
)

const (
	scheduleJitter = 10 * time.Second // spreads the jobs of many installations over the minute
)

func (a *app) serveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the schedules and the webhook endpoint until stopped",
		Long: `Runs the connections and the sweep by their schedules, receives webhooks and processes
them. It makes up once for schedules that it missed. One process at a time serves a
ledger's file; commands may run beside it. SIGTERM lets requests in flight finish, 20
s at most.

A changed mapping applies from the next run on. A changed configuration or secret
applies from the next run on, within some seconds, or at once after SIGHUP (kill
-HUP). Active runs finish with the old one. If the new version has a mistake, the
version before stays in force, and status shows the mistake. status also shows changes
that need a restart, for example of addresses.

With the configuration of a node (ledger.postgres) it works for all accounts of the
database, beside any number of other nodes: the database distributes the jobs. Under
systemd it reports its start and that it is alive (Type=notify or notify-reload,
WatchdogSec=). The log goes to standard error.

Health: GET /healthz (alive) and /readyz (the ledger is writable), at server.health,
or else beside the webhook endpoint. Pages for people: at server.admin, off by
default; payersync pages link prints a sign-in link. If other machines reach the
pages, they need TLS, and users or pages.oidc. Metrics for Prometheus: GET /metrics at
server.metrics, off by default; they contain no personal data and ask for no password.`,
		Example: "  payersync serve --config /etc/payersync/payersync.yaml",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runServe(cmd.Context()) },
	}
}

func (a *app) runServe(ctx context.Context) error {
	err := a.openAndServe(ctx)
	if errors.Is(err, context.Canceled) {
		return nil // told to stop before it had begun is stopped in order, too
	}
	return err
}

func (a *app) openAndServe(ctx context.Context) error {
	if config.IsNode(a.config) {
		node, err := config.LoadNode(a.config, a.getenv)
		if err != nil {
			return usage.Mistake{Err: err}
		}
		return a.serveFleet(ctx, node)
	}
	asked := make(chan os.Signal, 1) // from the first moment on: unheard it would end the process
	signal.Notify(asked, syscall.SIGHUP)
	defer signal.Stop(asked)
	cfg, err := a.load()
	if err != nil {
		return err
	}
	counted := metrics.New(version, commit())
	s, err := session.Open(ctx, cfg, state.Options{Now: a.now, Committing: counted.Committing})
	if err != nil {
		return err
	}
	s.Metrics = counted
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
	return errors.Join(a.serve(ctx, s, asked), alone.Release())
}

// runner decides when jobs run, and does what people ask for: the worker of a ledger's file, or what
// an account has of the queue of many nodes.
type runner interface {
	Run(ctx context.Context) error
	Replace(ctx context.Context, jobs []worker.Job) error
	Now(name string, run func(context.Context) error) error
	Nudge()
	Alive() bool
}

// service is payersync serve at work for one ledger: the parts that stay until it ends.
type service struct {
	*app
	log        *logrus.Logger
	worker     runner
	deliveries *deliveryLog
	refusals   server.Refusals
	manager    *manager
	alarms     *alarms
	behind     *behindPages
	inForce    atomic.Pointer[installation]
}

// installation is built by serve from one configuration. It never changes: another configuration makes
// another.
type installation struct {
	*session.Session
	endpoint *server.Server
	pages    *pages.Pages // nil without pages
	public   atomic.Bool  // a user exists; for pages on a node
}

func (a *app) serve(ctx context.Context, s *session.Session, asked <-chan os.Signal) error {
	svc, err := a.newService(ctx, s, newDeliveryLog(s.Log), func(svc *service) (runner, error) { return svc.newWorker() })
	if err != nil {
		return err
	}
	defer svc.behind.close()
	listeners, err := svc.listen(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- listeners.serve(ctx, svc.deliveries)
		stop() // without its endpoint serve ends, rather than run half
	}()
	svc.log.WithField("connections", len(s.Config.Connections)).Info("payersync serves")
	following := svc.follow(ctx)
	following.Go(func() { svc.newReloader(s.Config).run(ctx, asked) })
	go svc.attend(ctx, s.Ledger) // in a goroutine: a hanging ledger must not keep serve from ending
	context.AfterFunc(ctx, svc.manager.stopping)
	worked := whenSound(ctx, s, svc.worker.Run)
	stop()
	following.Wait()
	err = errors.Join(worked, <-served)
	svc.counted()
	svc.log.Info("payersync stops")
	return err
}

// newService makes what serves a ledger as a session's configuration says; its jobs run by what by makes.
// When it fails nothing is left open but the session.
func (a *app) newService(ctx context.Context, s *session.Session, deliveries *deliveryLog,
	by func(*service) (runner, error)) (*service, error) {
	svc := &service{app: a, log: s.Log, deliveries: deliveries, manager: &manager{log: s.Log}}
	svc.alarms = newAlarms(svc)
	svc.behind = newBehindPages(s.Ledger, func() *session.Session { return svc.inForce.Load().Session },
		func() runner { return svc.worker })
	first, err := svc.install(ctx, s)
	if err == nil {
		svc.inForce.Store(first)
		svc.worker, err = by(svc)
	}
	if err != nil {
		svc.behind.close()
		return nil, err
	}
	return svc, nil
}

// follow does until ctx ends what goes on beside jobs and requests.
func (svc *service) follow(ctx context.Context) *sync.WaitGroup {
	following, ledger := new(sync.WaitGroup), svc.inForce.Load().Ledger
	following.Go(func() { svc.alarms.run(ctx) })
	following.Go(func() { svc.refusals.Run(ctx, ledger, svc.uncounted) })
	return following
}

// counted gives the ledger the last counts of refused requests.
func (svc *service) counted() {
	if err := svc.refusals.Close(svc.inForce.Load().Ledger); err != nil {
		svc.uncounted(err)
	}
}

// uncounted logs that the ledger lacks counts of refused requests. Nothing else depends on them.
func (svc *service) uncounted(why error) {
	svc.log.WithError(forLog(why)).Warn("the ledger did not take how many webhook requests were refused; they stay counted in memory while payersync serves")
}

// whenSound runs work after the whole ledger was found sound: until then the endpoint keeps deliveries, and
// no request leaves. If the file is as it was left, the check goes on beside the work, and damage ends the
// work.
func whenSound(ctx context.Context, s *session.Session, work func(context.Context) error) error {
	err := s.Ledger.WaitForIntegrity(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		s.Log.Debug("nothing is known against the ledger")
		if err = untilDamaged(ctx, s, work); !isDamage(err) {
			return err
		}
	}
	s.Log.WithError(err).Error("the ledger is not written to, and payersync stops")
	return err
}

func isDamage(err error) bool {
	var damaged *state.OpenError
	return errors.As(err, &damaged)
}

// untilDamaged runs work until it ends by itself, or the look through the ledger finds damage.
func untilDamaged(ctx context.Context, s *session.Session, work func(context.Context) error) error {
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if err := s.Ledger.WaitForFullCheck(working); isDamage(err) {
			stop(err)
		}
	}()
	err := work(working)
	if ctx.Err() == nil && working.Err() != nil {
		return errors.Join(err, context.Cause(working))
	}
	return err
}

// install makes an installation of a session.
func (svc *service) install(ctx context.Context, s *session.Session) (*installation, error) {
	if s.Config.Billing.Webhook == nil || s.Config.Server.Webhooks == "" {
		s.Log.Warn("no webhook endpoint is configured: changes are found by the sweep alone")
	}
	made := &installation{Session: s}
	var err error
	if made.endpoint, err = svc.endpoint(ctx, s); err != nil || s.Config.Server.Admin == "" {
		return made, err
	}
	if why := s.Config.NoPages(); why != "" {
		s.Log.Warn("the pages of the account are not shown on this node: " + why)
		return made, nil
	}
	if err := mayBePublic(ctx, s); err != nil {
		if s.Config.Node == nil {
			return nil, err
		}
		s.Log.WithError(forLog(err)).Warn("the pages of the account are not shown on this node yet; webhooks and jobs go on")
	}
	made.pages, err = svc.pagesOf(s, svc.behind, func(c *pages.Config) {
		c.Hosts, c.Secure, c.Network, c.Provider = []string{s.Config.Server.AdminHost()}, s.Config.Server.AdminSecure(),
			network(s.Config.Server), providerOf(s)
	})
	return made, err
}

func (svc *service) newWorker() (runner, error) {
	w, err := worker.New(worker.Config{
		Jobs:     svc.jobs(svc.inForce.Load().Session),
		Drain:    func(ctx context.Context) error { return drainInbox(ctx, svc.inForce.Load().Session) },
		DrainDue: func(ctx context.Context) (time.Time, error) { return svc.inForce.Load().Ledger.NextDelivery(ctx) },
		Jitter:   scheduleJitter, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		Now: svc.now, Report: func(e worker.JobEvent) { reportJob(svc.inForce.Load().Session, e); svc.alarms.noteJob(e) },
	})
	if err != nil {
		return nil, usage.Mistake{Err: err}
	}
	return w, nil
}
