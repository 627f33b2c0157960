package main

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/reconcile"
	"payersync/connector/syncer"
	"payersync/connector/transport"
	"payersync/state"

	"payersync/cmd/payersync/internal/usage"
)

// session is everything a command works with, open.
type session struct {
	cfg        *config
	log        *logrus.Logger
	ledger     *state.Ledger
	clients    *clients
	http       *transport.Client // nil where only the ledger is open, as are those below
	billing    *billing.Client
	reconciler *reconcile.Reconciler
	syncer     *syncer.Syncer
}

// load reads the configuration that --config names, and every secret of it.
func (a *app) load() (*config, error) { return a.loadWith(a.getenv) }

// loadLocal reads the configuration for what stays on this machine: nobody looks at its
// secrets, so none has to be there.
func (a *app) loadLocal() (*config, error) { return a.loadWith(nil) }

func (a *app) loadWith(getenv func(string) (string, bool)) (*config, error) {
	cfg, err := loadConfig(a.config, getenv)
	if err != nil {
		return nil, usage.Error{Err: err}
	}
	return cfg, nil
}

// openLedger opens the ledger and nothing else, for what asks no other system.
func (a *app) openLedger(ctx context.Context) (*session, error) {
	cfg, err := a.loadLocal()
	if err != nil {
		return nil, err
	}
	return a.tellFound(a.openSession(ctx, cfg, state.Options{}))
}

// openReport is openLedger for what shows nothing that is sealed: it needs no key either.
func (a *app) openReport(ctx context.Context) (*session, error) {
	cfg, err := a.loadLocal()
	if err != nil {
		return nil, err
	}
	return a.tellFound(a.openSession(ctx, cfg, state.Options{Keyless: true}))
}

// tellFound tells what was found about a ledger that was opened.
func (a *app) tellFound(s *session, err error) (*session, error) {
	if err == nil && s.foundText() != "" {
		a.say("Warning: %s", s.foundText())
	}
	return s, err
}

// openSession opens the ledger of a configuration and nothing else.
func (a *app) openSession(ctx context.Context, cfg *config, o state.Options) (*session, error) {
	o.Path, o.KeyFile, o.Now = cfg.Ledger.Path, cfg.Ledger.KeyFile, a.now
	ledger, err := state.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &session{cfg: cfg, ledger: ledger, clients: newClients(ledger)}, nil
}

// open opens the ledger and the way to the billing service, with a log for a
// person who watches: warnings, or with --verbose everything.
func (a *app) open(ctx context.Context) (*session, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	return a.openWhole(ctx, cfg)
}

// openWhole is open for a configuration that was read.
func (a *app) openWhole(ctx context.Context, cfg *config) (*session, error) {
	s, err := a.tellFound(a.openSession(ctx, cfg, state.Options{}))
	if err != nil {
		return nil, err
	}
	how := logConfig{Level: "warning", Format: "text"}
	if a.verbose {
		how.Level = "debug"
	}
	return s, s.openBilling(ctx, a, how)
}

// openBilling opens the way to the billing service, unless the ledger belongs to
// another one: what it holds must be neither sent there nor judged by what is
// there (fault F77). When that fails it closes the session.
func (s *session) openBilling(ctx context.Context, a *app, how logConfig) (err error) {
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err = s.ledger.CheckEnvironment(ctx, s.cfg.fingerprint()); err != nil {
		return err
	}
	if s.log, err = newLog(a.errOut, how.Level, how.Format, s.cfg.secrets()); err != nil {
		return err
	}
	s.clients.log = s.log
	b := s.cfg.Billing
	s.http = transport.New(transport.Options{
		RatePerSecond: b.RatePerSecond, MaxInFlight: b.MaxInFlight, Now: a.now, Logger: logrus.NewEntry(s.log),
	})
	if s.billing, err = billing.New(billing.Config{
		BaseURL: b.BaseURL, AuthURL: b.AuthURL, ClientID: b.ClientID.Expose(), ClientSecret: b.ClientSecret.Secret, APIToken: b.APIToken.Secret,
		RedirectURL: b.RedirectURL, Dialect: b.Dialect.Dialect, Tokens: s.billingTokens(), HTTP: s.http, Now: a.now,
	}); err != nil {
		return usage.Error{Err: err}
	}
	s.reconciler = &reconcile.Reconciler{
		Ledger: s.ledger, Billing: s.billing,
		Lookup: s.cfg.lookup(),
	}
	s.syncer = &syncer.Syncer{Ledger: s.ledger, Billing: s.billing, Reconciler: s.reconciler, Settings: s.cfg.settings()}
	return nil
}

func (s *session) close() {
	if s.http != nil {
		s.http.Close()
	}
	s.clients.close()
	// Every write was answered before; there is nothing left that could be lost.
	_ = s.ledger.Close()
}

// connection opens a connection's source and mapping for a run. Both are read anew for
// every run, and a run keeps what it began with.
func (s *session) connection(ctx context.Context, c connectionConfig) (syncer.Connection, error) {
	conn, err := s.source(ctx, c)
	if err != nil {
		return conn, err
	}
	conn.Mapping, err = mappingForRun(c.Mapping, conn.Info)
	return conn, err
}

// source opens a connection without its mapping.
func (s *session) source(ctx context.Context, c connectionConfig) (syncer.Connection, error) {
	source, err := s.openSource(ctx, c)
	if err != nil {
		return syncer.Connection{}, err
	}
	info, err := source.Describe(ctx)
	info.Organisation = c.Organisation
	if info.Tenant != "" && (closed(err) || connector.FaultOf(err) == connector.FaultUnavailable) {
		err = nil // a run meets the same trouble when it reads, and still finishes what an earlier one began
	}
	return syncer.Connection{
		Name: c.Name, Source: source, Info: info, Fingerprint: s.cfg.fingerprint(), FullEvery: time.Duration(c.Source.FullEvery),
	}, err
}

// closed reports whether a source lets nobody in, for a while or for good.
func closed(err error) bool {
	met, _ := syncer.SourceState(err)
	return met != ""
}
