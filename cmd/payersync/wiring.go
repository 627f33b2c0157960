package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/reconcile"
	"payersync/connector/syncer"
	"payersync/connector/transport"
	"payersync/mapping"
	"payersync/mapping/strict"
	"payersync/state"
)

// What an operator cannot set, because a wrong value would be unsafe or only slow.
const (
	probeAfter = 15 * time.Minute // age of the last list from which a create searches once more
	overlap    = 5 * time.Minute  // how far a reading position is set back (accounting/README.md#the-position-is-the-start-of-the-run)
	grace      = 20 * time.Second // how long requests in flight may finish after an interruption
	perSlot    = 8                // changes worked on for each request in flight: the others wait for the ledger
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
		return nil, usageError{err}
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
		return usageError{err}
	}
	s.reconciler = &reconcile.Reconciler{
		Ledger: s.ledger, Billing: s.billing,
		Lookup: s.cfg.lookup(),
	}
	s.syncer = &syncer.Syncer{Ledger: s.ledger, Billing: s.billing, Reconciler: s.reconciler, Settings: s.cfg.settings()}
	return nil
}

// lookup returns how far the index of the service's customers is believed.
func (c *config) lookup() reconcile.Lookup {
	return reconcile.Lookup{
		MaxAge: time.Duration(c.Lookup.MaxAge), Quarantine: time.Duration(c.Lookup.Quarantine),
		MaxMissing: func(linked int) int {
			return max(syncer.Limit(c.Guards.MaxMissing).Of(linked), c.Guards.MaxChangesFloor)
		},
	}
}

// settings returns what every run follows.
func (c *config) settings() syncer.Settings {
	g := c.Guards
	return syncer.Settings{
		Workers: perSlot * c.Billing.MaxInFlight, Adopt: syncer.Adoption(c.Adoption),
		SameMandate: c.Billing.Dialect.LinkWhenCreated == "same",
		ProbeAfter:  probeAfter, Overlap: overlap, Grace: grace,
		Guards: syncer.Guards{
			MaxChanges: syncer.Limit(g.MaxChanges), MaxChangesFloor: g.MaxChangesFloor,
			MaxCreates: g.MaxCreates, MaxBlanks: g.MaxBlanks, MaxIdentity: syncer.Limit(g.MaxIdentity),
			MaxMissing: syncer.Limit(g.MaxMissing), MaxHolds: syncer.Limit(g.MaxHolds), HoldOnlyAbove: g.HoldOnlyAbove,
		},
	}
}

// secrets returns every secret of the configuration, for masking.
func (c *config) secrets() []connector.Secret {
	out := []connector.Secret{c.Billing.ClientSecret.Secret, c.Billing.APIToken.Secret}
	if c.Billing.Webhook != nil {
		out = append(out, c.Billing.Webhook.Signature.Secrets...)
	}
	for i := range c.Connections {
		out = append(out, c.Connections[i].Source.secrets()...)
	}
	return out
}

// fingerprint identifies the billing environment, so that a ledger of one is
// never used with another (fault F77).
func (c *config) fingerprint() string {
	host := c.Billing.BaseURL
	if u, err := url.Parse(host); err == nil {
		host = u.Host
	}
	sum := sha256.Sum256([]byte(c.Billing.ClientID.Expose()))
	return host + " client " + hex.EncodeToString(sum[:4])
}

func (s *session) close() {
	if s.http != nil {
		s.http.Close()
	}
	s.clients.close()
	// Every write was answered before; there is nothing left that could be lost.
	_ = s.ledger.Close()
}

// configured returns the connections with these names, all of them without names.
func (c *config) configured(names []string) ([]connectionConfig, error) {
	if len(names) == 0 {
		return c.Connections, nil
	}
	var known []string
	for _, conn := range c.Connections {
		known = append(known, conn.Name)
	}
	var out []connectionConfig
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, usagef("there is no connection %q; the configuration has %s", name, strings.Join(known, ", "))
		}
		out = append(out, c.Connections[i])
	}
	return out, nil
}

// has refuses the name of a connection that is not configured; a blank one means
// all of them.
func (c *config) has(connection string) error {
	if connection == "" {
		return nil
	}
	_, err := c.configured([]string{connection})
	return err
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

// maxMapping is the size of mapping file that is read; the loader refuses it.
const maxMapping = 2 << 20

func loadMapping(path string, info connector.SourceInfo) (*mapping.Mapping, error) {
	data, err := readMapping(path)
	if err != nil {
		return nil, err
	}
	return mapping.Load(path, data, info)
}

// mappingForRun loads a mapping that a run may go by: its examples hold. How they differ is
// left to mapping check, because they may be somebody's records, and this may be logged.
func mappingForRun(path string, info connector.SourceInfo) (*mapping.Mapping, error) {
	m, err := loadMapping(path, info)
	if err != nil {
		return nil, err
	}
	var differ *strict.Error
	if err := m.CheckExamples(); errors.As(err, &differ) {
		first := differ.Problems[0]
		first.Message, first.Source = fmt.Sprintf("what becomes of its examples differs from what they want, in %s; "+
			"payersync mapping check shows them: mend the mapping or the examples", plural(len(differ.Problems), "place")), ""
		return nil, strict.NewError([]strict.Problem{first})
	} else if err != nil {
		return nil, err
	}
	return m, nil
}

func readMapping(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the configuration names it; it is only read
	if err != nil {
		return nil, usagef("the mapping cannot be read: %w; name the file in connections[].mapping", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxMapping))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read the mapping %s: %w", path, err)
	}
	return data, nil
}
