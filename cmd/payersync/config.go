package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	generate "github.com/invopop/jsonschema"
	yaml "go.yaml.in/yaml/v4"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/worker"
	"payersync/mapping/strict"
	"payersync/state/files"
)

// config is payersync.yaml (configs/payersync.example.yaml has every key), with defaults filled in,
// paths made absolute or relative to the working directory, and secrets resolved.
type config struct {
	Ledger      ledgerConfig       `yaml:"ledger" jsonschema_description:"The ledger: what was read, sent and observed."`
	Billing     billingConfig      `yaml:"billing" jsonschema:"required" jsonschema_description:"The billing service."`
	Connections []connectionConfig `yaml:"connections" jsonschema:"required,minItems=1" jsonschema_description:"The accounting sources, each with its mapping."`
	Adoption    string             `yaml:"adoption" jsonschema:"enum=propose,enum=exact" jsonschema_description:"Customers that look like a new payer: propose shows them to a person, exact goes by the key alone. Default propose."`
	Lookup      lookupConfig       `yaml:"lookup" jsonschema_description:"How far the list of the service's customers is trusted."`
	Guards      guardsConfig       `yaml:"guards" jsonschema_description:"Limits above which a plan waits for approval."`
	Schedules   schedulesConfig    `yaml:"schedules" jsonschema_description:"When serve does its chores, as cron schedules."`
	Server      serverConfig       `yaml:"server" jsonschema_description:"Addresses that serve listens on, as host:port. A blank one is off."`
	Log         logConfig          `yaml:"log" jsonschema_description:"The log on standard error."`
}

type ledgerConfig struct {
	Path    string `yaml:"path" jsonschema_description:"The SQLite file, on a local disk. Default payersync.db."`
	KeyFile string `yaml:"key_file" jsonschema_description:"The key that seals personal data. Default payersync.key."`
}

type billingConfig struct {
	Profile       string         `yaml:"profile" jsonschema:"enum=standard,enum=adfin,enum=sandbox" jsonschema_description:"Starting point of dialect. Default standard."`
	BaseURL       string         `yaml:"base_url" jsonschema:"required" jsonschema_description:"Where the service is, for example https://api.example.com/api."`
	AuthURL       string         `yaml:"auth_url" jsonschema_description:"The token endpoint, a path below base_url. Default /oauth2/token."`
	ClientID      secretRef      `yaml:"client_id" jsonschema_description:"env:NAME, file:PATH or the id itself."`
	ClientSecret  secretRef      `yaml:"client_secret" jsonschema_description:"env:NAME or file:PATH."`
	APIToken      secretRef      `yaml:"api_token" jsonschema_description:"env:NAME or file:PATH; for dialect.api_auth static."`
	AuthorizeURL  string         `yaml:"authorize_url" jsonschema_description:"The page where a person gives consent; for dialect.api_auth authorization_code."`
	Scopes        []string       `yaml:"scopes" jsonschema_description:"What the consent asks for; for dialect.api_auth authorization_code."`
	RedirectURL   string         `yaml:"redirect_url" jsonschema:"required" jsonschema_description:"The page that payers return to after signing."`
	RatePerSecond float64        `yaml:"rate_per_second" jsonschema:"exclusiveMinimum=0" jsonschema_description:"Requests per second. Default 5."`
	MaxInFlight   int            `yaml:"max_in_flight" jsonschema:"minimum=1,maximum=64" jsonschema_description:"Requests at a time. Default 8."`
	Webhook       *webhookConfig `yaml:"webhook" jsonschema_description:"The webhook endpoint. Without it the sweep alone finds changes."`
	Dialect       dialectConfig  `yaml:"dialect" jsonschema_description:"What the service's interface leaves open; overrides the profile one by one."`
}

type webhookConfig struct {
	PublicURL  string             `yaml:"public_url" jsonschema:"required" jsonschema_description:"The address that the service sends to; its path is the endpoint's."`
	Events     []string           `yaml:"events" jsonschema:"minItems=1" jsonschema_description:"Event types to subscribe to. Default dd-mandate and customer."`
	Signature  signatureConfig    `yaml:"signature" jsonschema:"required" jsonschema_description:"How deliveries are signed."`
	EventPaths billing.EventPaths `yaml:"event_paths" jsonschema_description:"Where an event names its type and ids: lists of JSON paths, the first that is there counts."`
}

// signatureConfig is a billing.Signature whose secrets are references.
type signatureConfig struct {
	billing.Signature `yaml:",inline"`
	SecretRefs        []secretRef `yaml:"secrets" jsonschema:"required,minItems=1"`
}

// JSONSchemaExtend says what the fields' Go types do not.
func (signatureConfig) JSONSchemaExtend(s *generate.Schema) {
	setEnum(s, "scheme", "standard-webhooks")
	setEnum(s, "algorithm", "hmac-sha256", "hmac-sha512")
	setEnum(s, "encoding", "hex", "base64", "base64url")
	setEnum(s, "key", "text", "hex", "base64")
	s.Properties.Set("tolerance", &generate.Schema{Type: "string", Title: lengthOfTime, Pattern: `^([0-9.]+(ms|s|m|h))+$`})
}

// dialectConfig is a billing.Dialect as the file may write it.
type dialectConfig struct {
	billing.Dialect `yaml:",inline"`
}

// JSONSchemaExtend says what the fields' Go types do not.
func (dialectConfig) JSONSchemaExtend(s *generate.Schema) {
	setEnum(s, "token_auth", "form", "basic")
	setEnum(s, "api_auth", "client_credentials", "authorization_code", "static")
	setEnum(s, "person_fields", "short", "long")
	setEnum(s, "address_fields", "short", "long")
	setEnum(s, "external_data", "map", "list", "object")
	setEnum(s, "update", "body_id", "path_id")
	setEnum(s, "mandate_link", "auto", "put", "get")
	setEnum(s, "link_when_created", "unknown", "same", "new")
	setEnum(s, "cancel", "colon", "slash", "query", "body")
	setEnum(s, "webhook_setup", "subscribe", "digest_auth_subscribe")
	setEnum(s, "webhook_read", "auto", "none")
	if list, ok := s.Properties.Get("list"); ok {
		list.Properties.Set("first_page", &generate.Schema{Enum: []any{"auto", "0", "1", 0, 1}})
	}
}

func setEnum(s *generate.Schema, key string, values ...any) {
	if property, ok := s.Properties.Get(key); ok {
		property.Enum = values
	}
}

type connectionConfig struct {
	Name         string       `yaml:"name" jsonschema:"required" jsonschema_description:"Your name for it; it stays in the ledger."`
	Source       sourceConfig `yaml:"source" jsonschema:"required" jsonschema_description:"The accounting system."`
	Mapping      string       `yaml:"mapping" jsonschema:"required" jsonschema_description:"The mapping file."`
	Organisation string       `yaml:"organisation" jsonschema_description:"Whose books these are, for mappings that write it beside the key; customers of two organisations with equal numbers are told apart by it. It never changes. Default what the accounting system says; a CSV file says nothing."`
	Schedule     string       `yaml:"schedule" jsonschema_description:"When serve syncs it, as a cron schedule; CRON_TZ= may stand in front. Without it serve does not."`
}

type lookupConfig struct {
	MaxAge     duration `yaml:"max_age" jsonschema_description:"Age from which the list is read again before anything is created. Default 24h."`
	Quarantine duration `yaml:"quarantine" jsonschema_description:"Time without creates after a ledger was restored or copied back; longer than the service can list what was some time ago. Default 15m."`
}

type guardsConfig struct {
	MaxChanges      limit `yaml:"max_changes" jsonschema_description:"Customers that would be changed, as a number or a percentage of the linked ones. Default 5%."`
	MaxChangesFloor int   `yaml:"max_changes_floor" jsonschema:"minimum=0" jsonschema_description:"So many changes, missing records, and payers lost by a plan are always let through. Default 10."`
	MaxCreates      int   `yaml:"max_creates" jsonschema:"minimum=0" jsonschema_description:"Customers that would be created. Default 20."`
	MaxBlanks       int   `yaml:"max_blanks" jsonschema:"minimum=0" jsonschema_description:"Fields that would be emptied. Default 0."`
	MaxIdentity     limit `yaml:"max_identity" jsonschema_description:"Customers whose name or e-mail address would change. Default 2%."`
	HoldOnlyAbove   bool  `yaml:"hold_only_above" jsonschema_description:"Of a plan above the limits, hold back only the kinds of change that are above theirs, and send the others without approval. Default false: all of it waits."`
	MaxMissing      limit `yaml:"max_missing" jsonschema_description:"Known records that a full reading of the source does not show, or linked customers that the billing service does not list, as a number or a percentage of the known ones. Above it nothing is concluded from that before a person looks; so it is whenever a source shows none. Default 10%."`
	MaxHolds        limit `yaml:"max_holds" jsonschema_description:"Payers that a plan would newly hold or leave out, as a number or a percentage of those with a customer. Above it nothing is sent before a person looks; so it is whenever a plan leaves none. Default 10%."`
}

type schedulesConfig struct {
	Sweep     string `yaml:"sweep" jsonschema_description:"When the service is compared with the ledger, for what webhooks missed. Default 7 * * * *."`
	Backup    string `yaml:"backup" jsonschema_description:"Without effect in this version."`
	Retention string `yaml:"retention" jsonschema_description:"Without effect in this version."`
	KeepAlive string `yaml:"keep_alive" jsonschema_description:"When consents that nobody used for a week are renewed, so that they do not lapse; when serve starts, too. Default 15 4 * * *."`
}

type serverConfig struct {
	Webhooks       string             `yaml:"webhooks" jsonschema_description:"The webhook endpoint. Default 127.0.0.1:8080."`
	Health         string             `yaml:"health" jsonschema_description:"The health pages. Left out or blank, they are beside the webhook endpoint."`
	TrustedProxies []network          `yaml:"trusted_proxies" jsonschema_description:"Proxies in front of the webhook endpoint, whose X-Forwarded-For says who sent a request. Default this machine; [] trusts nobody."`
	Limits         serverLimitsConfig `yaml:"limits" jsonschema_description:"What strangers may take. A genuine delivery is never refused because of them."`
	Admin          string             `yaml:"admin" jsonschema_description:"Without effect in this version."`
	Metrics        string             `yaml:"metrics" jsonschema_description:"Without effect in this version."`
}

type serverLimitsConfig struct {
	Connections      int `yaml:"connections" jsonschema:"minimum=16,maximum=65536" jsonschema_description:"Open connections of a listener. When all are taken, whoever has most loses the one that waited longest. Default 2048."`
	RefusedPerClient int `yaml:"refused_per_client" jsonschema:"minimum=1" jsonschema_description:"Refused requests per second of one client, a /24 or /64; more are answered 429. Default 500."`
}

// proxies returns the trusted proxies as the server takes them.
func (c serverConfig) proxies() (out []netip.Prefix) {
	for _, p := range c.TrustedProxies {
		out = append(out, netip.Prefix(p))
	}
	return out
}

// idle returns the settings that this version takes and does nothing with, so that
// nobody relies on backups that are not made.
func (c *config) idle() (keys []string) {
	for _, setting := range []struct{ key, value string }{
		{"schedules.backup", c.Schedules.Backup}, {"schedules.retention", c.Schedules.Retention},
		{"server.admin", c.Server.Admin}, {"server.metrics", c.Server.Metrics},
	} {
		if setting.value != "" {
			keys = append(keys, setting.key)
		}
	}
	return keys
}

type logConfig struct {
	Level  string `yaml:"level" jsonschema:"enum=debug,enum=info,enum=warn,enum=error"`
	Format string `yaml:"format" jsonschema:"enum=json,enum=text"`
}

// defaultConfig holds what the file may leave out; the dialect's defaults are
// its profile's.
func defaultConfig() config {
	return config{
		Ledger:    ledgerConfig{Path: "payersync.db", KeyFile: "payersync.key"},
		Billing:   billingConfig{Profile: "standard", AuthURL: "/oauth2/token", RatePerSecond: 5, MaxInFlight: 8},
		Adoption:  "propose",
		Lookup:    lookupConfig{MaxAge: duration(24 * time.Hour), Quarantine: duration(15 * time.Minute)},
		Guards:    guardsConfig{MaxChanges: limit{Percent: 5}, MaxChangesFloor: 10, MaxCreates: 20, MaxIdentity: limit{Percent: 2}, MaxMissing: limit{Percent: 10}, MaxHolds: limit{Percent: 10}},
		Schedules: schedulesConfig{Sweep: "7 * * * *", KeepAlive: "15 4 * * *"},
		Server: serverConfig{
			Webhooks:       "127.0.0.1:8080",
			TrustedProxies: []network{network(netip.MustParsePrefix("127.0.0.0/8")), network(netip.MustParsePrefix("::1/128"))},
			Limits:         serverLimitsConfig{Connections: 2048, RefusedPerClient: 500},
		},
		Log: logConfig{Level: "info", Format: "json"},
	}
}

// loadConfig reads the configuration file at path; getenv looks up environment
// variables. Without it the secrets are left alone: they stay the references that stand
// in the file. The error is a *strict.Error with every problem of the file, or
// says in three parts why there is no file to read.
func loadConfig(path string, getenv func(string) (string, bool)) (*config, error) {
	data, exposed, err := readConfig(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the configuration cannot be read: there is no file %s; make one with payersync init, or name yours with --config", path)
	case err != nil:
		return nil, fmt.Errorf("the configuration cannot be read: %w; make %s readable for this user, or name another file with --config", err, path)
	}
	return parseConfig(path, data, exposed, getenv)
}

// readConfig reads the configuration file, and returns its mode where other users
// of this machine may read it.
func readConfig(path string) (data []byte, exposed fs.FileMode, err error) {
	f, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, 0, err
	}
	exposed, err = files.Exposed(f)
	data, readErr := io.ReadAll(f)
	return data, exposed, errors.Join(err, readErr, f.Close())
}

// parseConfig reads data, the content of the file at path, which must hold no secret
// where others may read it too.
func parseConfig(path string, data []byte, exposed fs.FileMode, getenv func(string) (string, bool)) (*config, error) {
	cfg, doc, err := strict.Load(filepath.Base(path), data, defaultConfig())
	if err != nil {
		return nil, err
	}
	c := &configCheck{doc: doc, file: path, dir: filepath.Dir(path), exposed: exposed, getenv: getenv, config: &cfg}
	c.profile()
	c.billing()
	c.connections()
	c.schedules()
	c.server()
	c.paths()
	if err := strict.NewError(c.problems); err != nil {
		return nil, err
	}
	return &cfg, nil
}

// configSchema returns the JSON Schema of payersync.yaml, for editors.
func configSchema() []byte { return strict.Schema[config]() }

// configCheck completes a configuration and collects what is wrong with it.
type configCheck struct {
	doc      *strict.Doc
	file     string
	dir      string      // of the file: relative paths begin here
	exposed  fs.FileMode // of a file that others may read; else 0
	getenv   func(string) (string, bool)
	config   *config
	problems []strict.Problem
}

func (c *configCheck) report(at strict.Path, format string, args ...any) {
	c.problems = append(c.problems, c.doc.Problem(at, format, args...))
}

// profile lets the file's dialect and event paths override their defaults one by
// one, and checks the result.
func (c *configCheck) profile() {
	b := &c.config.Billing
	at := strict.Path{"billing", "dialect"}
	var err error
	if b.Dialect.Dialect, err = billing.Profile(b.Profile); err != nil {
		c.report(strict.Path{"billing", "profile"}, "%v", err)
		return
	}
	c.decode(at, &b.Dialect)
	c.placed(strict.Path{"billing"}, b.Dialect.Validate())
	if b.Webhook != nil {
		b.Webhook.EventPaths = billing.DefaultEventPaths()
		c.decode(strict.Path{"billing", "webhook", "event_paths"}, &b.Webhook.EventPaths)
		c.placed(strict.Path{"billing", "webhook"}, b.Webhook.EventPaths.Validate())
	}
}

func (c *configCheck) decode(at strict.Path, into any) {
	var wrong *strict.Error
	if errors.As(c.doc.Decode(at, into), &wrong) {
		c.problems = append(c.problems, wrong.Problems...)
	}
}

// placed reports findings that begin with their key below at, one per line, as
// in "dialect.list.size: 0 is out of range; use 1 to 1000".
func (c *configCheck) placed(at strict.Path, err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		key, what, _ := strings.Cut(line, ": ")
		path := append(slices.Clone(at), strings.FieldsFunc(key, func(r rune) bool { return strings.ContainsRune(".[]", r) })...)
		c.report(path, "%s: %s", path, what)
	}
}

func (c *configCheck) billing() {
	b := &c.config.Billing
	at := strict.Path{"billing"}
	c.url(at.Key("base_url"), b.BaseURL)
	if !strings.HasPrefix(b.AuthURL, "/") {
		c.url(at.Key("auth_url"), b.AuthURL)
	}
	c.url(at.Key("redirect_url"), b.RedirectURL)
	if b.AuthorizeURL != "" {
		c.url(at.Key("authorize_url"), b.AuthorizeURL)
	}
	c.credentials(at)
	if b.Webhook == nil {
		return
	}
	at = at.Key("webhook")
	if u := c.url(at.Key("public_url"), b.Webhook.PublicURL); u != nil && strings.Trim(u.Path, "/") == "" {
		c.report(at.Key("public_url"), "billing.webhook.public_url has no path; add one, for example /webhooks/billing, so that nothing else answers there")
	}
	if b.Webhook.Events == nil {
		b.Webhook.Events = []string{"dd-mandate", "customer"}
	}
	c.signature(at.Key("signature"), &b.Webhook.Signature)
}

// credentials resolves the secrets, and asks for those that the dialect needs.
func (c *configCheck) credentials(at strict.Path) {
	b := &c.config.Billing
	static := b.Dialect.APIAuth == "static"
	for _, s := range []struct {
		key    string
		ref    *secretRef
		needed bool
		when   string
	}{
		{"client_id", &b.ClientID, !static || b.Webhook != nil, ""},
		{"client_secret", &b.ClientSecret, !static || b.Webhook != nil, ""},
		{"api_token", &b.APIToken, static, "; dialect.api_auth static needs it"},
	} {
		if s.needed && s.ref.IsZero() && c.doc.Node(at.Key(s.key)) == nil {
			c.report(at, "the key %q is missing in billing%s", s.key, s.when)
		}
		c.resolve(at.Key(s.key), s.ref)
	}
}

// signature asks for the keys that its scheme needs. There are no defaults: a
// guess that is wrong would refuse every delivery, or accept a forged one.
func (c *configCheck) signature(at strict.Path, s *signatureConfig) {
	before := len(c.problems)
	for _, needed := range []struct{ key, value string }{{"header", s.Header}, {"algorithm", s.Algorithm}, {"encoding", s.Encoding}, {"signed", s.Signed}} {
		if s.Scheme == "" && needed.value == "" {
			c.report(at, "the key %q is missing in %s; only a scheme can stand for it", needed.key, at)
		}
	}
	for i := range s.SecretRefs {
		c.resolve(at.Key("secrets").Index(i), &s.SecretRefs[i])
		s.Secrets = append(s.Secrets, s.SecretRefs[i].Secret)
	}
	if len(c.problems) > before || c.getenv == nil {
		return
	}
	if _, err := billing.NewVerifier(s.Signature); err != nil {
		c.placed(at[:len(at)-1], errors.New(strings.TrimPrefix(err.Error(), "the webhook endpoint cannot be opened: ")))
	}
}

// connectionName is what names of connections look like: they stand in command
// lines, logs and metrics.
var connectionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (c *configCheck) connections() {
	var names []string
	for i := range c.config.Connections {
		conn := &c.config.Connections[i]
		at := strict.Path{"connections"}.Index(i)
		switch {
		case conn.Name == billingConsent:
			c.report(at.Key("name"), "%s cannot be %q: payersync connect means the billing service by it; choose another", at.Key("name"), conn.Name)
		case !connectionName.MatchString(conn.Name):
			c.report(at.Key("name"), "%s is made of letters, digits, dots, dashes and underscores, 64 at most", at.Key("name"))
		case slices.Contains(names, conn.Name):
			c.report(at.Key("name"), "two connections are called %q; give each its own name", conn.Name)
		}
		names = append(names, conn.Name)
		c.source(at.Key("source"), &conn.Source)
		if strings.TrimSpace(conn.Mapping) == "" {
			c.report(at.Key("mapping"), "%s is blank; name the mapping file", at.Key("mapping"))
		}
		if conn.Schedule != "" {
			c.schedule(at.Key("schedule"), conn.Schedule)
		}
	}
}

func (c *configCheck) schedules() {
	s := c.config.Schedules
	c.schedule(strict.Path{"schedules", "sweep"}, s.Sweep)
	c.schedule(strict.Path{"schedules", "keep_alive"}, s.KeepAlive)
	if s.Backup != "" {
		c.schedule(strict.Path{"schedules", "backup"}, s.Backup)
	}
	if s.Retention != "" {
		c.schedule(strict.Path{"schedules", "retention"}, s.Retention)
	}
}

func (c *configCheck) schedule(at strict.Path, spec string) {
	if _, err := worker.ParseSchedule(spec); err != nil {
		c.report(at, "%v", err)
	}
}

func (c *configCheck) server() {
	s := c.config.Server
	taken := map[string]string{}
	for _, listener := range []struct{ key, address string }{{"webhooks", s.Webhooks}, {"health", s.Health}, {"admin", s.Admin}, {"metrics", s.Metrics}} {
		at := strict.Path{"server", listener.key}
		if listener.address == "" {
			continue
		}
		_, port, err := net.SplitHostPort(listener.address)
		n, notNumber := strconv.ParseUint(port, 10, 16)
		switch other, twice := taken[listener.address]; {
		case err != nil || notNumber != nil:
			c.report(at, "%s must be an address and a port, for example 127.0.0.1:8080", at)
		case twice && n != 0:
			c.report(at, "%s and server.%s have the same address; give each its own port", at, other)
		}
		taken[listener.address] = listener.key
	}
}

// paths makes the file's relative paths relative to the file.
func (c *configCheck) paths() {
	l := &c.config.Ledger
	for key, path := range map[string]*string{"path": &l.Path, "key_file": &l.KeyFile} {
		if strings.TrimSpace(*path) == "" {
			c.report(strict.Path{"ledger", key}, "ledger.%s is blank; name a file, or remove the key", key)
		}
		*path = c.path(*path)
	}
	for i := range c.config.Connections {
		conn := &c.config.Connections[i]
		conn.Mapping = c.path(conn.Mapping)
	}
}

func (c *configCheck) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.dir, p)
}

// url checks an address that we speak to or are spoken to at: https, or http on
// this machine, and nothing secret in it.
func (c *configCheck) url(at strict.Path, raw string) *url.URL {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		c.report(at, "%s must be a whole address, for example https://api.example.com/api", at)
	case u.User != nil:
		c.report(at, "%s must not hold a user name or password; client_id and client_secret are for that", at)
	case u.RawQuery != "" || u.Fragment != "":
		c.report(at, "%s must end before the ? or #", at)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		c.report(at, "%s must begin with https://; plain http is for addresses of this machine, such as 127.0.0.1", at)
	default:
		return u
	}
	return nil
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// secretRef is a secret as the file writes it: env:NAME, file:PATH or the secret
// itself. Once resolved it is the secret. It prints as [redacted].
type secretRef struct{ connector.Secret }

// UnmarshalYAML keeps the reference until it is resolved.
func (s *secretRef) UnmarshalYAML(node *yaml.Node) error {
	var ref string
	if err := node.Decode(&ref); err != nil {
		return err
	}
	s.Secret = connector.NewSecret(ref)
	return nil
}

// JSONSchema describes a secret to editors.
func (secretRef) JSONSchema() *generate.Schema {
	return &generate.Schema{Type: "string", WriteOnly: true}
}

// maxSecret is how much of a secret's file is read, in bytes.
const maxSecret = 64 << 10

// resolve replaces a reference by what it refers to.
func (c *configCheck) resolve(at strict.Path, s *secretRef) {
	ref := s.Expose()
	if c.doc.Node(at) == nil {
		return
	}
	value := ref
	kind, name, _ := strings.Cut(ref, ":")
	if c.getenv == nil && (kind == "env" || kind == "file") {
		return
	}
	switch kind {
	case "env":
		found := false
		if value, found = c.getenv(name); !found {
			c.report(at, "the environment variable %s is not set; set it or use file:PATH", name)
			return
		}
	case "file":
		var exposed fs.FileMode
		var why string
		if value, exposed, why = readSecret(c.path(name)); exposed != 0 {
			c.report(at, "other users of this machine may read the file %s (mode %04o), which holds a secret; run chmod 600 %s", name, exposed, c.path(name))
			return
		}
		if why != "" {
			c.report(at, "the file %s cannot be read: %s; put the secret there, readable for this user, or use env:NAME", name, why)
			return
		}
	default:
		if c.exposed != 0 && ref != "" && at[len(at)-1] != "client_id" { // which is no secret
			c.report(at, "%s is a secret, and other users of this machine may read this file (mode %04o); run chmod 600 %s, or use env:NAME or file:PATH", at, c.exposed, c.file)
			return
		}
	}
	if value = strings.TrimSpace(value); value == "" {
		c.report(at, "%s is blank; put the secret where it says", at)
		return
	}
	s.Secret = connector.NewSecret(value)
}

// readSecret reads an ordinary file, or says why it cannot. The mode of a file that
// others may read too comes with it.
func readSecret(path string) (value string, exposed fs.FileMode, why string) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the configuration names it; what it holds is never shown
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", 0, "there is no such file"
	case err != nil:
		return "", 0, "this user may not read it"
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err == nil && !info.Mode().IsRegular():
		return "", 0, "it is no ordinary file"
	case err == nil && info.Size() > maxSecret:
		return "", 0, "it is too large for a secret"
	}
	exposed, exposedErr := files.Exposed(f)
	data, readErr := io.ReadAll(io.LimitReader(f, maxSecret))
	if errors.Join(err, exposedErr, readErr) != nil {
		return "", 0, "this user may not read it"
	}
	return string(data), exposed, ""
}

// duration is a length of time, written as in 90s, 15m or 24h.
type duration time.Duration

// UnmarshalText reads a duration.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is no length of time; write it as in 90s, 15m or 24h", text)
	}
	*d = duration(v)
	return nil
}

// network is an address, or all that begin alike, as in 10.0.0.0/8.
type network netip.Prefix

// UnmarshalText reads a network.
func (n *network) UnmarshalText(text []byte) error {
	prefix, err := netip.ParsePrefix(string(text))
	if addr, single := netip.ParseAddr(string(text)); single == nil && addr.Zone() == "" {
		prefix, err = addr.Unmap().Prefix(addr.Unmap().BitLen())
	}
	switch {
	case err != nil || prefix.Addr().Is4In6():
		return fmt.Errorf("%q is no network; write an address as in 10.0.0.1, or a network as in 10.0.0.0/8 or fd00::/8", text)
	case prefix.Bits() == 0:
		return fmt.Errorf("%q would trust everybody; name the networks of your own proxies", text)
	}
	*n = network(prefix.Masked())
	return nil
}

// JSONSchema describes a network to editors.
func (network) JSONSchema() *generate.Schema {
	return &generate.Schema{Type: "string", Title: "an address or a network, such as 10.0.0.1 or 10.0.0.0/8"}
}

const lengthOfTime = "a length of time such as 90s, 15m or 24h"

// JSONSchema describes a duration to editors.
func (duration) JSONSchema() *generate.Schema {
	return &generate.Schema{Type: "string", Title: lengthOfTime}
}

// limit is a number, or a percentage of the linked customers.
type limit struct {
	Count   int
	Percent float64 // used when above 0
}

// UnmarshalYAML reads 20 or 5%.
func (l *limit) UnmarshalYAML(node *yaml.Node) error {
	if number, isPercent := strings.CutSuffix(node.Value, "%"); isPercent {
		p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(p > 0 && p <= 100) {
			return fmt.Errorf("%q is no percentage above 0%% and up to 100%%", node.Value)
		}
		*l = limit{Percent: p}
		return nil
	}
	n, err := strconv.Atoi(node.Value)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is neither a number, such as 20, nor a percentage, such as 5%%", node.Value)
	}
	*l = limit{Count: n}
	return nil
}

// JSONSchema describes a limit to editors.
func (limit) JSONSchema() *generate.Schema {
	return &generate.Schema{Title: "a number or a percentage, such as 20 or 5%", OneOf: []*generate.Schema{{Type: "integer"}, {Type: "string"}}}
}
