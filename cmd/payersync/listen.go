package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/connector"
	"payersync/connector/server"
)

// listen opens the listeners of the webhook endpoint and the health pages. Without a webhook section there
// are only the latter. The installation in force at its arrival answers each request.
func (svc *service) listen(ctx context.Context) (*listeners, error) {
	return openListeners(ctx, svc.inForce.Load().Config.Server, svc.log, svc.deliveries, answers{
		webhooks: func(w http.ResponseWriter, r *http.Request) { svc.inForce.Load().endpoint.Handler().ServeHTTP(w, r) },
		health: func(w http.ResponseWriter, r *http.Request) {
			svc.inForce.Load().endpoint.HealthHandler().ServeHTTP(w, r)
		},
		metrics: svc.metricsHandler(),
		admin:   svc.adminHandler(),
	})
}

// answers are the handlers of the listeners.
type answers struct{ webhooks, health, metrics, admin http.HandlerFunc }

// openListeners opens the configured listeners, all or none.
func openListeners(ctx context.Context, c config.Server, to *logrus.Logger, deliveries *deliveryLog,
	by answers) (*listeners, error) {
	opened := &listeners{
		log: to, arrive: time.Duration(c.Limits.ReadTimeout),
		share:    server.Connections{Most: c.Limits.Connections, Proxies: slices.Concat(c.Proxies(), c.TrustedFronts())},
		errorLog: log.New(deliveries, "", 0),
	}
	var secure *tls.Config // of the pages; nil for none
	if c.Admin != "" && c.AdminTLS != nil {
		certificate, err := newCertificate(c.AdminTLS)
		if err != nil {
			return nil, err
		}
		secure = certificate.config()
	}
	warnOfMetrics(to, c.Metrics)
	if err := errors.Join(
		opened.open(ctx, "webhooks", c.Webhooks, by.webhooks, nil),
		opened.open(ctx, "health", c.Health, by.health, nil),
		opened.open(ctx, "metrics", c.Metrics, by.metrics, nil),
		opened.open(ctx, "admin", c.Admin, by.admin, secure),
	); err != nil {
		return nil, errors.Join(err, opened.close())
	}
	return opened, nil
}

// listeners are the listening addresses of serve.
type listeners struct {
	all      []listener
	log      *logrus.Logger
	arrive   time.Duration
	share    server.Connections
	errorLog *log.Logger
}

type listener struct {
	net.Listener
	key    string // of the configuration
	server *http.Server
}

// addresses returns the addresses, each after its purpose.
func (l *listeners) addresses() (out []string) {
	return connector.Map(l.all, func(one listener) string { return one.key + " " + one.Addr().String() })
}

// open opens the listener of a key of the configuration, unless its address is blank; over TLS with secure.
func (l *listeners) open(ctx context.Context, key, address string, h http.HandlerFunc, secure *tls.Config) error {
	if address == "" {
		return nil
	}
	opened, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("cannot listen for %s: %w; choose another address in server.%[1]s", key, err)
	}
	srv := server.NewHTTPServer(h)
	srv.TLSConfig = secure
	server.ArriveWithin(srv, l.arrive)
	srv.ErrorLog = l.errorLog
	l.all = append(l.all, listener{opened, key, srv})
	l.log.WithFields(logrus.Fields{"for": key, "address": opened.Addr().String()}).Info("payersync listens")
	return nil
}

// serve answers on the listeners until ctx ends.
func (l *listeners) serve(ctx context.Context, deliveries *deliveryLog) error {
	defer deliveries.flush()
	serving, ctx := errgroup.WithContext(ctx)
	serving.Go(func() error { deliveries.run(ctx); return nil })
	for _, one := range l.all {
		serving.Go(func() error { return l.share.Serve(ctx, one.Listener, one.server) })
	}
	return serving.Wait()
}

func (l *listeners) close() (err error) {
	for _, one := range l.all {
		err = errors.Join(err, one.Close())
	}
	return err
}

// endpoint returns the handler of a configuration.
func (svc *service) endpoint(ctx context.Context, s *session.Session) (_ *server.Server, err error) {
	c := s.Config.Server
	cfg := server.Config{
		Ledger: s.Ledger, Nudge: func() { svc.worker.Nudge() }, Now: svc.now, Report: func(e server.Event) {
			s.Metrics.Webhook(e.Outcome)
			svc.refusals.Count(e.Outcome, svc.now())
			svc.deliveries.report(e)
		},
		StopPath: s.Config.StopPath(), StopReport: svc.deliveries.reportStop,
		Jobs: func(ctx context.Context) ([]server.JobTimes, error) {
			rows, err := svc.jobRows(ctx, s)
			return publicJobs(rows), err
		},
		MaxBody: c.Limits.MaxBody, Refused: c.Limits.RefusedPerClient, TrustedProxies: c.Proxies(),
		HealthApart: c.Health != "", Expected: svc.expected(s),
	}
	if hook := s.Config.Billing.Webhook; hook != nil {
		cfg.Renew = func(ctx context.Context) (server.Keys, error) { return heldAgainst(ctx, s.Ledger, hook) }
		if cfg.Keys, err = cfg.Renew(ctx); err != nil {
			return nil, err
		}
		cfg.Events, cfg.Path = hook.EventPaths, hook.EndpointPath()
	}
	return server.New(cfg)
}
