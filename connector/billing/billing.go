package billing

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/transport"
)

// Config holds the billing service's address, the credentials and the dialect.
type Config struct {
	BaseURL      string             // the service's address with its path prefix; https, or http on loopback
	AuthURL      string             // the token endpoint: a path below BaseURL, or an address; "" for /oauth2/token
	ClientID     string             // the app; webhooks always use its client credentials, regardless of Dialect.APIAuth
	ClientSecret connector.Secret   // needed for client credentials
	APIToken     connector.Secret   // the bearer of api_auth: static
	Tokens       oauth2.TokenSource // the tokens of api_auth: authorization_code; it renews them by itself
	RedirectURL  string             // where a payer returns after signing; "" to leave it to the service
	Events       []string           // the subscribed types; a probe compares the names with the service's
	Dialect      Dialect            // how the open points of the interface are settled
	HTTP         *transport.Client  // how requests are sent
	Now          func() time.Time   // the clock for token lives and Retry-After; nil for time.Now
}

const defaultAuthPath = "/oauth2/token"

// Client speaks to one billing service. It is safe for concurrent use.
type Client struct {
	config   Config
	base     string // without a trailing slash
	clientID string
	redirect string
	dialect  Dialect
	http     *transport.Client
	now      func() time.Time
	secrets  []connector.Secret // never shown, even if another system sends them back
	api      bearer             // for customers and mandates
	webhooks bearer             // for the subscription

	firstPage  atomic.Int32 // the result of probing: one of the page bases
	linkMethod atomic.Value // the method found by mandate_link: auto, a string
}

// New returns a client. It sends nothing. It reports all invalid values at once, by their configuration keys.
func New(cfg Config) (*Client, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	base := strings.TrimRight(cfg.BaseURL, "/")
	if err := errors.Join(cfg.validate(base), cfg.Dialect.Validate()); err != nil {
		return nil, fmt.Errorf("the billing client cannot be set up: %w", err)
	}
	own := newClientCredentials(cfg, TokenURL(base, cfg.AuthURL))
	return &Client{
		config:   cfg,
		base:     base,
		clientID: cfg.ClientID,
		redirect: cfg.RedirectURL,
		dialect:  cfg.Dialect,
		http:     cfg.HTTP,
		now:      cfg.Now,
		secrets:  []connector.Secret{cfg.ClientSecret, cfg.APIToken},
		api:      cfg.apiBearer(own),
		webhooks: own,
	}, nil
}

// TokenURL returns the token endpoint's address: auth itself, or a path below
// base, the service's address; "" is the path /oauth2/token.
func TokenURL(base, auth string) string {
	base = strings.TrimRight(base, "/")
	switch {
	case auth == "":
		return base + defaultAuthPath
	case strings.Contains(auth, "://"):
		return auth
	}
	return base + "/" + strings.TrimLeft(auth, "/")
}

func (cfg Config) apiBearer(own bearer) bearer {
	switch cfg.Dialect.APIAuth {
	case "static":
		return static{cfg.APIToken}
	case "authorization_code":
		return granted{cfg.Tokens}
	}
	return own
}

func (cfg Config) validate(base string) error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if why := badAddress(base); why != "" {
		add("billing.base_url: %s; give the service's address with its path prefix", why)
	}
	if auth := TokenURL(base, cfg.AuthURL); badAddress(base) == "" && badAddress(auth) != "" {
		add("billing.auth_url: %s; give a path below base_url, for example %s", badAddress(auth), defaultAuthPath)
	}
	if cfg.RedirectURL != "" && badRedirect(cfg.RedirectURL) != "" {
		add("billing.redirect_url: %s; give the page that payers return to after signing", badRedirect(cfg.RedirectURL))
	}
	if cfg.HTTP == nil {
		add("the billing client was given no way to send requests; set Config.HTTP")
	}
	return errors.Join(append(problems, cfg.validateAuth())...)
}

func (cfg Config) validateAuth() error {
	switch {
	case cfg.Dialect.APIAuth == "static" && cfg.APIToken.IsZero():
		return errors.New("billing.api_token: dialect.api_auth is static and there is no token; give the token, or use client_credentials")
	case cfg.Dialect.APIAuth == "authorization_code" && cfg.Tokens == nil:
		return connector.Advise(errors.New("billing: dialect.api_auth is authorization_code and nobody has given consent yet. Use client_credentials, or give it"), connector.Step{Do: connector.DoConnect, Connection: "billing"})
	case cfg.Dialect.APIAuth == "client_credentials" && (cfg.ClientID == "" || cfg.ClientSecret.IsZero()):
		return errors.New("billing.client_id and billing.client_secret: dialect.api_auth is client_credentials and needs both; ask the provider's integration manager for them")
	}
	return nil
}

// badAddress returns why text cannot be the address of a service.
func badAddress(text string) string {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "it is missing"
	case err != nil || u.Host == "":
		return "it is not an address"
	case u.User != nil:
		return "it holds credentials"
	case u.RawQuery != "" || u.Fragment != "":
		return "it has a query or fragment"
	case u.Scheme != "https" && !(u.Scheme == "http" && connector.IsLoopback(u.Hostname())):
		return "it must begin with https://"
	}
	return ""
}

// badRedirect is badAddress for a page; a query is allowed.
func badRedirect(text string) string {
	address, _, _ := strings.Cut(text, "?")
	return badAddress(address)
}

// CreateBody renders a customer for creation, in the dialect's spelling. The same customer gives the same bytes. The
// body always contains the key, so the bodies of two payers differ even if all else is equal (fault F07).
func (c *Client) CreateBody(want connector.Customer) (json.RawMessage, error) {
	if len(want.ExternalData) == 0 {
		return nil, errors.New("render customer: it has no externalData pair to be found by")
	}
	pairs, err := c.dialect.writePairs(want.ExternalData)
	if err != nil {
		return nil, fmt.Errorf("render customer: %w", err)
	}
	var o object
	o.set("name", quote(want.Name))
	if people := writeParts(c.dialect.peopleParts(want.People), c.dialect.PersonFields == "long"); people != nil {
		o.set("people", people)
	}
	if addresses := writeParts(addressParts(want.Addresses), c.dialect.AddressFields == "long"); addresses != nil {
		o.set("addresses", addresses)
	}
	o.set("externalData", pairs)
	return o.bytes(), nil
}

func writeParts(parts []part, long bool) json.RawMessage {
	var list []json.RawMessage
	for _, part := range parts {
		if !blank(part.spelt(long)) { // a country alone is none in the spelling without
			list = append(list, part.write(long))
		}
	}
	if list == nil {
		return nil
	}
	return joinArray(list)
}
