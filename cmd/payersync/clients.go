package main

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

	"payersync/connector/accounting"
	"payersync/connector/billing"
	"payersync/connector/credentials"
	"payersync/connector/transport"
	"payersync/state"

	"payersync/cmd/payersync/internal/usage"
)

// tokenPatience is the longest Retry-After of a token endpoint that is slept.
const tokenPatience = 20 * time.Second

// openSource opens a connection's source as the configuration, and the consent for it,
// say. It sends nothing.
func (s *session) openSource(ctx context.Context, c connectionConfig) (accounting.Source, error) {
	config := c.Source // a copy: the consent completes it
	d := sourceDeps{http: s.clients.source(c.Name), now: s.ledger.Now}
	switch {
	case config.consents():
		if err := s.pinTenant(ctx, c.Name, config.tenant()); err != nil {
			return nil, err
		}
		d.token = s.clients.consent(c.Name, config.provider())
	case config.Kind == kindXero:
		d.token = s.clients.app(c.Name, config.provider())
	}
	d.limiter = s.budget(c, *config.tenant())
	if err := s.remindTenant(ctx, c.Name, config.tenant()); err != nil {
		return nil, err
	}
	source, err := config.open(d)
	if err != nil {
		return nil, usage.Error{Err: err}
	}
	return source, nil
}

// budget is the request budget of an organisation, shared by every connection
// that reads it; of the connection alone where no organisation is known.
func (s *session) budget(c connectionConfig, tenant string) *accounting.Budget {
	return accounting.NewBudget(s.ledger, c.Source.Kind+" "+cmp.Or(tenant, c.Name), c.Source.limits(), s.ledger.Now)
}

// pinTenant takes the organisation from the consent, and refuses a configuration
// that names another (fault F28).
func (s *session) pinTenant(ctx context.Context, name string, tenant *string) error {
	t, err := s.ledger.Token(ctx, name)
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

// remindTenant takes the organisation that the connection's runs were pinned to,
// where neither a consent nor the configuration names it: so the source asks for
// that one alone, and is known by it while it lets nobody in (faults F28 and F29).
func (s *session) remindTenant(ctx context.Context, name string, tenant *string) error {
	if *tenant != "" {
		return nil
	}
	info, err := s.ledger.SourceInfo(ctx, name)
	*tenant = info.Tenant
	return err
}

// clients are the ways to the accounting systems and the consents of a session,
// one for each connection, so that its runs share limits and tokens.
type clients struct {
	ledger *state.Ledger
	log    *logrus.Logger // nil for silence

	mu       sync.Mutex
	http     map[string]*transport.Client
	consents map[string]*credentials.Source
	apps     map[string]*credentials.App
}

func newClients(ledger *state.Ledger) *clients {
	return &clients{ledger: ledger, http: map[string]*transport.Client{}, consents: map[string]*credentials.Source{}, apps: map[string]*credentials.App{}}
}

// source returns the client that a connection's accounting system is spoken to
// with. A Retry-After beyond patience parks the source instead.
func (c *clients) source(name string) *transport.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client(name, transport.Options{})
}

// tokenClient returns the client of a connection's token endpoint. It repeats
// nothing that may have used a refresh token up, and waits for nothing long: the
// ledger keeps when the next try is due.
func (c *clients) tokenClient(name string) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens(name)
}

func (c *clients) tokens(name string) *http.Client {
	return c.client(name+" tokens", transport.Options{MaxRetryAfter: tokenPatience, MaxInFlight: 1}).HTTPClient(transport.IfNoEffect)
}

func (c *clients) client(key string, o transport.Options) *transport.Client {
	if c.http[key] == nil {
		o.Now = c.ledger.Now
		if c.log != nil {
			o.Logger = logrus.NewEntry(c.log)
		}
		c.http[key] = transport.New(o)
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

// billingProvider is the billing service's authorisation server with our
// application at it.
func (s *session) billingProvider() credentials.Provider {
	b := s.cfg.Billing
	style := oauth2.AuthStyleInParams
	if b.Dialect.TokenAuth == "basic" {
		style = oauth2.AuthStyleInHeader
	}
	return credentials.Provider{
		OAuth: oauth2.Config{
			ClientID: b.ClientID.Expose(), ClientSecret: b.ClientSecret.Expose(), Scopes: b.Scopes,
			Endpoint: oauth2.Endpoint{AuthURL: b.AuthorizeURL, TokenURL: billing.TokenURL(b.BaseURL, b.AuthURL), AuthStyle: style},
		},
		HTTP: s.clients.tokenClient(billingConsent),
	}
}

// billingTokens are the tokens that a person's consent gave for the billing
// service; nil where none is needed.
func (s *session) billingTokens() oauth2.TokenSource {
	if s.cfg.Billing.Dialect.APIAuth != authorizationCode {
		return nil
	}
	return s.clients.consent(billingConsent, s.billingProvider())
}

// consents are the consents that the configuration relies on.
func (s *session) consents() []*credentials.Source {
	var out []*credentials.Source
	for _, c := range s.cfg.Connections {
		if c.Source.consents() {
			out = append(out, s.clients.consent(c.Name, c.Source.provider()))
		}
	}
	if s.cfg.Billing.Dialect.APIAuth == authorizationCode {
		out = append(out, s.clients.consent(billingConsent, s.billingProvider()))
	}
	return out
}

// consentRows are the consents that the configuration relies on, as people see
// them. One of a connection that is no longer configured needs nobody.
func (s *session) consentRows(ctx context.Context) ([]state.ConsentRow, error) {
	rows, err := s.ledger.Consents(ctx)
	return slices.DeleteFunc(rows, func(r state.ConsentRow) bool { return !s.cfg.reliesOn(r.Connection) }), err
}
