// Package session opens the resources of commands by a configuration: the ledger, the client of the billing
// service, the accounting sources with their consents, the mapping files, and the log. Commands decide on
// their use.
package session

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/oauth2"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/metrics"
	"payersync/connector/reconcile"
	"payersync/connector/syncer"
	"payersync/connector/transport"
	"payersync/state"
)

// Session is everything a command works with, open.
type Session struct {
	Config     *config.Config
	Log        *logrus.Logger
	Ledger     *state.Ledger
	Metrics    *metrics.Metrics // counts requests from OpenBilling on; nil for no metrics
	clients    *clients
	HTTP       *transport.Client // nil if only the ledger is open, like the fields below
	Billing    *billing.Client
	Reconciler *reconcile.Reconciler
	Syncer     *syncer.Syncer
	now        func() time.Time
	mask       *mask // of Log
}

// Open opens the ledger of a configuration and nothing else: a file, or what o.Server keeps of
// the account.
func Open(ctx context.Context, cfg *config.Config, o state.Options) (*Session, error) {
	switch {
	case cfg.Node != nil && o.Server == nil:
		return nil, fmt.Errorf("open the ledger of account %s: there is no way to the database", cfg.AccountName)
	case cfg.Node != nil:
		o.Account, o.Now = cfg.AccountName, o.Server.Now
	default:
		o.Path, o.KeyFile = cfg.Ledger.Path, cfg.Ledger.KeyFile
	}
	ledger, err := state.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Session{Config: cfg, Ledger: ledger, clients: newClients(ledger, cfg), now: o.Now}, nil
}

// OpenBilling opens the client of the billing service, unless the ledger belongs to another account. With
// note it updates the ledger's facts about its account. On failure it closes the session.
func (s *Session) OpenBilling(ctx context.Context, log io.Writer, how config.Log, note bool) error {
	if err := s.OpenAnyBilling(log, how); err != nil {
		return err
	}
	err := s.settleAccount(ctx)
	if err == nil && note {
		err = s.noteAccount(ctx)
	}
	if err != nil {
		s.Close()
	}
	return err
}

// OpenAnyBilling is OpenBilling for what has to do with the account itself, whichever
// the ledger belongs to.
func (s *Session) OpenAnyBilling(log io.Writer, how config.Log) (err error) {
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.Log, s.mask, err = newLog(log, how.Level, how.Format, s.Config.Secrets()); err != nil {
		return err
	}
	if s.Config.AccountName != "" {
		s.Log.AddHook(ofAccount(s.Config.AccountName))
	}
	return s.openWays(nil)
}

// openWays opens the clients of the billing service and the accounting systems. It keeps the request limiter
// of before if both configurations have the same limits.
func (s *Session) openWays(before *Session) (err error) {
	s.clients.log, s.clients.metrics = s.Log, s.Metrics
	b := s.Config.Billing
	if before != nil && before.Config.Billing.BaseURL == b.BaseURL &&
		before.Config.Billing.RatePerSecond == b.RatePerSecond && before.Config.Billing.MaxInFlight == b.MaxInFlight &&
		before.Config.Billing.Timeout == b.Timeout && before.Config.HTTP == s.Config.HTTP {
		s.HTTP = before.HTTP
	} else {
		var shared func(context.Context) error
		if s.Ledger.AccountID() != 0 { // other nodes send, too
			shared = newSharedPace(s.Ledger, b.RatePerSecond).wait
		}
		s.HTTP = s.Config.Client(transport.Options{
			RatePerSecond: b.RatePerSecond, Shared: shared, MaxInFlight: b.MaxInFlight, Timeout: time.Duration(b.Timeout),
			Now: s.now, Logger: logrus.NewEntry(s.Log),
			Observe: s.Metrics.Requests(metrics.Billing, "", ""),
		})
	}
	if s.Billing, err = s.newBilling(s.billingTokens()); err != nil {
		return err
	}
	s.Reconciler = &reconcile.Reconciler{
		Ledger: s.Ledger, Billing: billing.Watcher{Client: s.Billing},
		Lookup: s.Config.LookupLimits(), Reflected: s.Metrics.Reflected,
	}
	s.Syncer = &syncer.Syncer{Ledger: s.Ledger, Billing: s.Billing, Reconciler: s.Reconciler, Account: s.Config.Account(),
		Settings: s.Config.RunSettings()}
	return nil
}

// Reopen returns a session of another configuration on the same ledger and log. Requests of s go on, so it
// must be the same billing account, as far as the ledger knows. Only one of the two may be closed.
func (s *Session) Reopen(ctx context.Context, cfg *config.Config) (*Session, error) {
	again := &Session{Config: cfg, Log: s.Log, Ledger: s.Ledger, Metrics: s.Metrics, clients: newClients(s.Ledger, cfg),
		now: s.now, mask: s.mask}
	again.mask.add(cfg.Secrets())
	err := again.openWays(s)
	if err == nil {
		err = again.sameAccountAs(ctx, s)
	}
	if err == nil {
		err = again.noteAccount(ctx)
	}
	return again, err
}

// SetLog makes the log speak as the configuration says.
func (s *Session) SetLog() error { return setLog(s.Log, s.Config.Log.Level, s.Config.Log.Format) }

// newBilling returns a client of the billing service; tokens come from a consent.
func (s *Session) newBilling(tokens oauth2.TokenSource) (*billing.Client, error) {
	b, events := s.Config.Billing, []string(nil)
	if b.Webhook != nil {
		events = b.Webhook.Events
	}
	client, err := billing.New(billing.Config{
		BaseURL: b.BaseURL, AuthURL: b.AuthURL, ClientID: b.ClientID.Expose(), ClientSecret: b.ClientSecret.Secret,
		APIToken:    b.APIToken.Secret,
		RedirectURL: b.RedirectURL, Events: events, Dialect: b.Dialect.Dialect, Tokens: tokens, HTTP: s.HTTP, Now: s.now,
	})
	if err != nil {
		return nil, usage.Mistake{Err: err}
	}
	return client, nil
}

// Close closes everything opened.
func (s *Session) Close() {
	if s.HTTP != nil {
		s.HTTP.Close()
	}
	s.clients.close()
	// Every write was answered before; nothing can be lost.
	_ = s.Ledger.Close()
}

// Connection opens a connection's source and mapping for a run. Both are read anew for
// every run, and a run keeps what it began with.
func (s *Session) Connection(ctx context.Context, c config.Connection) (syncer.Connection, error) {
	conn, err := s.Source(ctx, c)
	if err != nil {
		return conn, err
	}
	conn.Mapping, err = MappingForRun(c.Mapping, conn.Info, s.Config.Billing.Dialect.Dialect)
	return conn, err
}

// Source opens a connection without its mapping.
func (s *Session) Source(ctx context.Context, c config.Connection) (syncer.Connection, error) {
	source, err := s.OpenSource(ctx, c)
	if err != nil {
		return syncer.Connection{}, err
	}
	info, err := source.Describe(ctx)
	info.Organisation, info.Written = c.Organisation, c.Written()
	if info.Tenant != "" && (closed(err) || connector.FaultOf(err) == connector.FaultUnavailable) {
		err = nil // a run meets the same error in its reading, and still finishes an earlier run's work
	}
	conn := syncer.Connection{
		Name: c.Name, Source: source, Info: info, FullEvery: time.Duration(c.Source.FullEvery),
		TwoWay: syncer.TwoWay(c.TwoWay), Native: c.Native(),
	}
	if p := c.Source.ProfileOf(); p != nil {
		conn.Profile = p
	}
	return conn, err
}

// closed reports whether a source lets nobody in, for a while or for good.
func closed(err error) bool {
	met, _ := syncer.SourceState(err)
	return met != ""
}
