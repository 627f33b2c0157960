package config

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	generate "github.com/invopop/jsonschema"
	yaml "go.yaml.in/yaml/v4"
	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/csvfile"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/accounting/quickbooks"
	"payersync/connector/accounting/sqltable"
	"payersync/connector/accounting/tryton"
	"payersync/connector/accounting/xero"
	"payersync/connector/credentials"
	"payersync/connector/transport"
	"payersync/mapping/strict"
)

// The kinds of sources, as connections[].source.kind names them.
const (
	KindCSV        = "csv"
	KindXero       = "xero"
	KindQuickBooks = "quickbooks"
	KindTryton     = "tryton"
	KindSQL        = "sql"
)

// defaultFullEvery is how old the last reading of everything may be.
const usualFullEvery = Duration(7 * 24 * time.Hour)

// Source is connections[].source: one kind of source, with the keys of that kind only.
type Source struct {
	SourceKeys
	CSV        csvfile.Config
	Xero       xero.Config
	QuickBooks quickbooks.Config
	Tryton     tryton.Config
	SQL        sqltable.Config
	HTTP       Profiled
}

// SourceKeys are the keys shared by several kinds.
type SourceKeys struct {
	Kind         string   `yaml:"kind"`
	FullEvery    Duration `yaml:"full_every"`
	ClientID     Secret   `yaml:"client_id"`
	ClientSecret Secret   `yaml:"client_secret"`
	APIKey       Secret   `yaml:"api_key"`
	APISecret    Secret   `yaml:"api_secret"`
	AuthorizeURL string   `yaml:"authorize_url"`
	TokenURL     string   `yaml:"token_url"`
}

// sourceKind lists the keys of a kind of source besides its own.
type sourceKind struct {
	name  string
	own   any  // its Config, for its schema
	oauth bool // its app's credentials and the vendor's addresses
	full  bool // full_every: it is read incrementally

	profile *profileHead // of a kind with a shipped profile
}

// kindsOfSources are in the order of their names in messages.
func kindsOfSources() []sourceKind { return append(slices.Clone(builtInSources), profiledKinds()...) }

var builtInSources = []sourceKind{
	{name: KindCSV, own: csvfile.Config{}},
	{name: KindXero, own: xero.Config{}, oauth: true, full: true},
	{name: KindQuickBooks, own: quickbooks.Config{}, oauth: true, full: true},
	{name: KindTryton, own: tryton.Config{}, full: true},
	{name: KindSQL, own: sqltable.Config{}, full: true},
}

// UnmarshalYAML reads the shared keys, and those of the named kind.
func (s *Source) UnmarshalYAML(node *yaml.Node) error {
	s.FullEvery = usualFullEvery
	if err := node.Decode(&s.SourceKeys); err != nil {
		return err
	}
	own := map[string]any{KindCSV: &s.CSV, KindXero: &s.Xero, KindQuickBooks: &s.QuickBooks, KindTryton: &s.Tryton,
		KindSQL: &s.SQL}
	if into, ok := own[s.Kind]; ok {
		return node.Decode(into)
	}
	if _, shipped := profileHeads()[s.Kind]; shipped || s.Kind == KindHTTP {
		return node.Decode(&s.HTTP)
	}
	return nil // the schema checks the kind
}

// JSONSchema describes each kind with its own keys.
func (Source) JSONSchema() *generate.Schema {
	var names []any
	s := &generate.Schema{Type: "object", Required: []string{"kind"}, Properties: generate.NewProperties()}
	for _, k := range kindsOfSources() {
		names = append(names, k.name)
		chosen := generate.NewProperties()
		chosen.Set("kind", &generate.Schema{Const: k.name})
		s.AllOf = append(s.AllOf, &generate.Schema{
			If:   &generate.Schema{Properties: chosen, Required: []string{"kind"}},
			Then: k.schema(),
		})
	}
	s.Properties.Set("kind", &generate.Schema{Type: "string", Enum: names, Description: "The kind of accounting system."})
	for _, key := range []string{"client_id", "client_secret", "password", "api_key", "api_secret"} {
		s.Properties.Set(key, Secret{}.JSONSchema())
	}
	return s
}

func (k sourceKind) schema() *generate.Schema {
	s := strict.Reflector().Reflect(k.own)
	s.Version = ""
	set := func(key, description string, property *generate.Schema) {
		property.Description = description
		s.Properties.Set(key, property)
	}
	set("kind", "The kind of accounting system.", &generate.Schema{Type: "string"})
	if password, ok := s.Properties.Get("password"); ok {
		set("password", password.Description, Secret{}.JSONSchema())
	}
	if k.full {
		set("full_every", "How old the last reading of everything may be. Default 168h, a week.", Duration(0).JSONSchema())
	}
	if k.oauth {
		set("client_id", "env:NAME, file:PATH or the id itself, of your app at the vendor.", Secret{}.JSONSchema())
		set("client_secret", "env:NAME or file:PATH.", Secret{}.JSONSchema())
		set("authorize_url", "The vendor's consent page, where it is not the usual one.", &generate.Schema{Type: "string"})
		set("token_url", "The vendor's token endpoint, where it is not the usual one.", &generate.Schema{Type: "string"})
		s.Required = append(s.Required, "client_id", "client_secret")
	}
	k.addSettings(s)
	return s
}

// source checks one connection's source.
func (c *check) source(at strict.Path, s *Source) {
	c.resolve(at.Key("client_id"), &s.ClientID)
	c.resolve(at.Key("client_secret"), &s.ClientSecret)
	c.resolve(at.Key("api_key"), &s.APIKey)
	c.resolve(at.Key("api_secret"), &s.APISecret)
	c.ownProfile(at, s)
	if s.Kind == KindHTTP && s.HTTP.Loaded == nil {
		return // told already
	}
	for _, password := range []*connector.Secret{&s.Tryton.Password, &s.SQL.Password} {
		if ref := (Secret{*password}); !ref.IsZero() {
			c.resolve(at.Key("password"), &ref)
			*password = ref.Secret
		}
	}
	for key, path := range map[string]*string{"query_file": &s.SQL.QueryFile, "ca_file": &s.SQL.CAFile} {
		if *path != "" && c.ownFile(at.Key(key), *path) {
			*path = c.path(*path)
		}
	}
	for path, within := range map[*string]*connector.Within{&s.CSV.Path: &s.CSV.Within, &s.SQL.Path: &s.SQL.Within} {
		if *path != "" {
			*within = c.dataFile(at.Key("path"), path)
		}
	}
	s.SQL.Reach = c.config.Reach()
	if host := s.SQL.Host; c.config.Node != nil && (strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@")) {
		c.report(at.Key("host"), "%s of account %s is a socket of this machine, and would connect as the node itself; name the server and its port", at.Key("host"), c.config.AccountName)
	}
	for _, a := range []struct{ key, address string }{{"authorize_url", s.AuthorizeURL}, {"token_url", s.TokenURL}} {
		if a.address != "" {
			c.url(at.Key(a.key), a.address)
		}
	}
	if isLinkLocal(s.SQL.Host) {
		c.report(at.Key("host"), linkLocal, at.Key("host"))
	}
	for key, address := range map[string]string{"url": s.Tryton.URL + s.HTTP.Settings["url"], "base_url": s.HTTP.BaseURL} {
		if u, err := url.Parse(address); err == nil && isLinkLocal(u.Hostname()) {
			c.report(at.Key(key), linkLocal, at.Key(key))
		}
	}
	if err := s.check(); err != nil {
		_, what, _ := strings.Cut(err.Error(), ": ")
		c.report(at, "%s", what)
	}
}

// check reports the source's own errors about its keys.
func (s *Source) check() error {
	blank := *s
	blank.QuickBooks.Company = cmp.Or(s.QuickBooks.Company, "0") // connecting tells it
	_, err := blank.Open(SourceDeps{HTTP: transport.New(transport.Options{})})
	return err
}

// secrets returns the secrets of the source, for masking.
func (s *Source) secrets() []connector.Secret {
	return []connector.Secret{s.ClientID.Secret, s.ClientSecret.Secret, s.APIKey.Secret, s.APISecret.Secret,
		s.Tryton.Password, s.SQL.Password}
}

// Consents reports whether a person's consent is needed to read the source.
func (s *Source) Consents() bool {
	if p := s.ProfileOf(); p != nil {
		return p.Auth() == httpsource.AuthCode
	}
	return s.Kind == KindQuickBooks || s.Kind == KindXero && !s.Xero.CustomConnection
}

// ByApp reports whether the app's own credentials give the access tokens.
func (s *Source) ByApp() bool {
	if p := s.ProfileOf(); p != nil {
		return p.Auth() == httpsource.AuthClient
	}
	return s.Kind == KindXero && s.Xero.CustomConnection
}

// OnServer reports whether the columns of the source are known to a database
// server only.
func (s *Source) OnServer() bool { return s.Kind == KindSQL && s.SQL.Driver != "sqlite" }

// SourceDeps are the dependencies of sources.
type SourceDeps struct {
	HTTP    *transport.Client
	Token   oauth2.TokenSource
	Limiter accounting.Limiter
	Proof   accounting.Proof // of the source's organisation; nil to ask each time
	Now     func() time.Time
}

// Open opens the source; it sends nothing. The error names the wrong key.
func (s *Source) Open(d SourceDeps) (accounting.Source, error) {
	switch s.Kind {
	case KindXero:
		return xero.New(s.Xero, xero.Deps{HTTP: d.HTTP, Token: d.Token, Limiter: d.Limiter, Proof: d.Proof, Now: d.Now})
	case KindQuickBooks:
		return quickbooks.New(s.QuickBooks,
			quickbooks.Deps{HTTP: d.HTTP, Token: d.Token, Limiter: d.Limiter, Proof: d.Proof, Now: d.Now})
	case KindTryton:
		return tryton.New(s.Tryton, tryton.Deps{HTTP: d.HTTP, Limiter: d.Limiter, Now: d.Now})
	case KindSQL:
		return sqltable.New(s.SQL)
	}
	if p := s.ProfileOf(); p != nil {
		return httpsource.New(p, s.settings(), d.ofProfile())
	}
	return csvfile.New(s.CSV)
}

func (d SourceDeps) ofProfile() httpsource.Dependencies {
	return httpsource.Dependencies{HTTP: d.HTTP, Token: d.Token, Limiter: d.Limiter, Proof: d.Proof, Now: d.Now}
}

// Limits is the request budget of the source's organisation.
func (s *Source) Limits() connector.Limits {
	switch s.Kind {
	case KindXero:
		return s.Xero.Limits()
	case KindQuickBooks:
		return s.QuickBooks.Limits()
	}
	if p := s.ProfileOf(); p != nil {
		return p.Limits()
	}
	return connector.Limits{}
}

// Tenant returns a pointer to the configured organisation.
func (s *Source) Tenant() *string {
	if s.Kind == KindQuickBooks {
		return &s.QuickBooks.Company
	}
	if s.ProfileOf() != nil {
		return &s.HTTP.Tenant
	}
	return &s.Xero.Tenant
}

// Provider is the source's authorisation server with our application at it.
func (s *Source) Provider() credentials.Provider {
	p := credentials.Provider{OAuth: oauth2.Config{ClientID: s.ClientID.Expose(), ClientSecret: s.ClientSecret.Expose()}}
	switch s.Kind {
	case KindXero:
		p.OAuth.Endpoint, p.OAuth.Scopes, p.Grace, p.IdleLife = xero.Endpoint(), s.Xero.Scopes(), xero.Grace, xero.IdleLife
	case KindQuickBooks:
		p.OAuth.Endpoint, p.OAuth.Scopes, p.IdleLife = quickbooks.Endpoint(), quickbooks.Scopes(), quickbooks.IdleLife
	default:
		consent := s.consent()
		p.OAuth.Endpoint, p.OAuth.Scopes, p.Params, p.Grace, p.IdleLife = consent.Endpoint, consent.Scopes, consent.Params,
			consent.Grace, consent.Idle
	}
	p.OAuth.Endpoint.AuthURL = cmp.Or(s.AuthorizeURL, p.OAuth.Endpoint.AuthURL)
	p.OAuth.Endpoint.TokenURL = cmp.Or(s.TokenURL, p.OAuth.Endpoint.TokenURL)
	return p
}
