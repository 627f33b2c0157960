package session

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/oauth2"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/accounting"
	"payersync/connector/billing"
	"payersync/connector/credentials"
	"payersync/connector/metrics"
	"payersync/connector/transport"
	"payersync/connector/writeback"
	"payersync/state"
)

// tokenPatience is the longest Retry-After of a token endpoint to sleep for.
const tokenPatience = 20 * time.Second

// OpenSource opens a connection's source as the configuration, and the consent for it,
// say. It sends nothing.
func (s *Session) OpenSource(ctx context.Context, c config.Connection) (accounting.Source, error) {
	from := c.Source // a copy: the consent completes it
	d, err := s.deps(ctx, c, &from)
	if err != nil {
		return nil, err
	}
	source, err := from.Open(d)
	if err != nil {
		return nil, usage.Mistake{Err: err}
	}
	return source, nil
}

// OpenWriter opens the write-back of a connection's statuses; its Writer is nil for a connection without one.
// It sends nothing.
func (s *Session) OpenWriter(ctx context.Context, c config.Connection) (writeback.Target, error) {
	out := writeback.Target{Name: c.Name}
	if c.Writeback == nil {
		return out, nil
	}
	d := config.SourceDeps{HTTP: s.clients.source(c.Name), Now: s.Ledger.Now}
	if c.Writeback.Webhook != nil {
		d.HTTP = s.clients.writeback(c.Name)
	} else {
		var err error
		if d, err = s.deps(ctx, c, &c.Source); err != nil { // of this copy of the connection
			return out, err
		}
	}
	var err error
	if out.Writer, err = c.OpenWriter(d); err != nil {
		return out, usage.Errorf("the connection %s cannot write back: %w; look at its key writeback", c.Name, err)
	}
	return out, nil
}

// deps returns a source's dependencies, and completes from by its consent.
func (s *Session) deps(ctx context.Context, c config.Connection, from *config.Source) (config.SourceDeps, error) {
	d := config.SourceDeps{HTTP: s.clients.source(c.Name), Now: s.Ledger.Now}
	switch {
	case from.Consents():
		if err := s.pinTenant(ctx, c.Name, from.Tenant()); err != nil {
			return d, err
		}
		d.Token = s.clients.consent(c.Name, from.Provider())
	case from.ByApp():
		d.Token = s.clients.app(c.Name, from.Provider())
	}
	d.Limiter = s.Budget(c, *from.Tenant())
	d.Proof = NewProof(s.Ledger, c.Name,
		s.Ledger.LetterHash("credentials of "+from.Kind, from.ClientID.Expose(), from.ClientSecret.Expose(),
			from.APIKey.Expose(), from.APISecret.Expose(), from.AuthorizeURL, from.TokenURL))
	return d, s.remindTenant(ctx, c.Name, from.Tenant())
}

// SourceClient returns the client for a connection's accounting system.
func (s *Session) SourceClient(name string) *transport.Client { return s.clients.source(name) }

// TokenClient returns the client of a connection's token endpoint.
func (s *Session) TokenClient(name string) *http.Client { return s.clients.tokenClient(name) }

// Budget is the request budget of an organisation, shared by all its connections; of the connection alone if
// the organisation is unknown.
func (s *Session) Budget(c config.Connection, tenant string) *accounting.Budget {
	return accounting.NewBudget(s.Ledger, budgetScope(c, tenant), c.Source.Limits(), s.Ledger.Now)
}

func budgetScope(c config.Connection, tenant string) string {
	return c.Source.Kind + " " + cmp.Or(tenant, c.Name)
}

// BudgetLeft returns a connection's remaining requests by its source's limits. If a consent named an
// organisation, the connection's runs are pinned to it.
func (s *Session) BudgetLeft(ctx context.Context, c config.Connection) (state.Left, error) {
	tenant := *c.Source.Tenant()
	if c.Source.Consents() {
		info, err := s.Ledger.SourceInfo(ctx, c.Name)
		if err != nil {
			return state.Left{}, err
		}
		tenant = cmp.Or(info.Tenant, tenant)
	}
	return s.Ledger.BudgetLeft(ctx, budgetScope(c, tenant), c.Source.Limits())
}

// pinTenant takes the organisation from the consent, and refuses a configuration with another one (fault
// F28).
func (s *Session) pinTenant(ctx context.Context, name string, tenant *string) error {
	t, err := s.Ledger.Token(ctx, name)
	switch {
	case errors.Is(err, state.ErrNoToken):
		return &credentials.ReconnectError{Connection: name, Why: "nobody has given consent yet"}
	case err != nil:
		return err
	case *tenant != "" && !strings.EqualFold(*tenant, t.Tenant):
		return usage.Errorf("the connection %s names the organisation %q, but the consent is for %q (%s); correct the configuration, or run payersync connect %[1]s again",
			name, *tenant, t.Tenant, t.TenantName)
	}
	*tenant = t.Tenant
	return nil
}

// remindTenant uses the organisation of the connection's earlier runs if neither a consent nor the
// configuration names one. So the source requests it alone, and is known by it even while it refuses access
// (faults F28 and F29).
func (s *Session) remindTenant(ctx context.Context, name string, tenant *string) error {
	if *tenant != "" {
		return nil
	}
	info, err := s.Ledger.SourceInfo(ctx, name)
	*tenant = info.Tenant
	return err
}

// clients are a session's clients of accounting systems and consents, one for each connection, so its runs
// share limits and tokens.
type clients struct {
	ledger  *state.Ledger
	config  *config.Config
	log     *logrus.Logger   // nil for silence
	metrics *metrics.Metrics // nil for no metrics

	mu       sync.Mutex
	http     map[string]*transport.Client
	consents map[string]*credentials.Source
	apps     map[string]*credentials.App
}

func newClients(ledger *state.Ledger, cfg *config.Config) *clients {
	return &clients{ledger: ledger, config: cfg, http: map[string]*transport.Client{},
		consents: map[string]*credentials.Source{}, apps: map[string]*credentials.App{}}
}

// source returns the client for a connection's accounting system. A Retry-After beyond patience parks the
// source instead.
func (c *clients) source(name string) *transport.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := transport.Options{Observe: c.metrics.Requests(metrics.Source, name, "")}
	if of, err := c.config.One(name); err == nil {
		o.Reach.PublicOnly = of.Source.PublicOnly()
	}
	return c.client(name, o)
}

// writeback returns the client for sending a connection's statuses to another system.
func (c *clients) writeback(name string) *transport.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client(name+" writeback", transport.Options{Retries: -1})
}

// tokenClient returns the client of a connection's token endpoint. It repeats no request that may have used a
// refresh token, and never waits long: the ledger stores the time of the next try.
func (c *clients) tokenClient(name string) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens(name)
}

func (c *clients) tokens(name string) *http.Client {
	observe := c.metrics.Requests(metrics.Source, name, billing.TokenOperation)
	if name == config.BillingConsent {
		observe = c.metrics.Requests(metrics.Billing, "", billing.TokenOperation)
	}
	return c.client(name+" tokens",
		transport.Options{MaxRetryAfter: tokenPatience, MaxInFlight: 1, Observe: observe}).HTTPClient(transport.IfNoEffect)
}

func (c *clients) client(key string, o transport.Options) *transport.Client {
	if c.http[key] == nil {
		o.Now = c.ledger.Now
		if c.log != nil {
			o.Logger = logrus.NewEntry(c.log)
		}
		c.http[key] = c.config.Client(o)
	}
	return c.http[key]
}

func (c *clients) consent(name string, p credentials.Provider) *credentials.Source {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.consents[name] == nil {
		p.HTTP = c.tokens(name)
		c.consents[name] = credentials.New(c.ledger, name, p)
	}
	return c.consents[name]
}

func (c *clients) app(name string, p credentials.Provider) *credentials.App {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apps[name] == nil {
		p.HTTP = c.tokens(name)
		c.apps[name] = credentials.NewApp(p, c.ledger.Now)
	}
	return c.apps[name]
}

func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.http {
		client.Close()
	}
}

// BillingProvider is the billing service's authorisation server with our
// application at it.
func (s *Session) BillingProvider() credentials.Provider {
	b := s.Config.Billing
	style := oauth2.AuthStyleInParams
	if b.Dialect.TokenAuth == "basic" {
		style = oauth2.AuthStyleInHeader
	}
	return credentials.Provider{
		OAuth: oauth2.Config{
			ClientID: b.ClientID.Expose(), ClientSecret: b.ClientSecret.Expose(), Scopes: b.Scopes,
			Endpoint: oauth2.Endpoint{AuthURL: b.AuthorizeURL, TokenURL: billing.TokenURL(b.BaseURL, b.AuthURL),
				AuthStyle: style},
		},
		HTTP: s.clients.tokenClient(config.BillingConsent),
	}
}

// billingTokens are the billing service's tokens from a person's consent; nil if none is needed.
func (s *Session) billingTokens() oauth2.TokenSource {
	if s.Config.Billing.Dialect.APIAuth != config.AuthorizationCode {
		return nil
	}
	return s.clients.consent(config.BillingConsent, s.BillingProvider())
}

// Consents returns the consents required by the configuration.
func (s *Session) Consents() []*credentials.Source {
	var out []*credentials.Source
	for _, c := range s.Config.Connections {
		if c.Source.Consents() {
			out = append(out, s.clients.consent(c.Name, c.Source.Provider()))
		}
	}
	if s.Config.Billing.Dialect.APIAuth == config.AuthorizationCode {
		out = append(out, s.clients.consent(config.BillingConsent, s.BillingProvider()))
	}
	return out
}

// ConsentRows returns the consents required by the configuration, for display. Those of removed connections
// are not among them.
func (s *Session) ConsentRows(ctx context.Context) ([]state.ConsentRow, error) {
	rows, err := s.Ledger.Consents(ctx)
	return slices.DeleteFunc(rows, func(r state.ConsentRow) bool { return !s.Config.ReliesOn(r.Connection) }), err
}
