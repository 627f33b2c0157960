// Package config reads payersync.yaml: its keys, defaults and secrets, and its mistakes by line. It also
// opens a connection's source. Package session opens the ledger and the client of the billing service.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	generate "github.com/invopop/jsonschema"

	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/transport"
	"payersync/mapping/strict"
	"payersync/state"
	"payersync/state/backups"
	"payersync/state/files"
)

// Config is payersync.yaml (configs/payersync.example.yaml has every key), with defaults filled in,
// paths made absolute or relative to the working directory, and secrets resolved.
type Config struct {
	Ledger      Ledger       `yaml:"ledger" jsonschema_description:"The ledger: what was read, sent and observed."`
	Billing     Billing      `yaml:"billing" jsonschema:"required" jsonschema_description:"The billing service."`
	Connections []Connection `yaml:"connections" jsonschema:"required,minItems=1" jsonschema_description:"The accounting sources, each with its mapping."`
	Adoption    string       `yaml:"adoption" jsonschema:"enum=propose,enum=exact" jsonschema_description:"Customers that look like a new payer: propose shows them to a person, exact goes by the key alone. Default propose."`
	Lookup      Lookup       `yaml:"lookup" jsonschema_description:"How far the list of the service's customers is trusted."`
	Guards      Guards       `yaml:"guards" jsonschema_description:"Limits above which a plan waits for approval."`
	Schedules   Schedules    `yaml:"schedules" jsonschema_description:"When serve does its chores, as cron schedules."`
	Retention   Retention    `yaml:"retention" jsonschema_description:"For how long the ledger keeps what is personal and decides nothing any more."`
	Backup      Backup       `yaml:"backup" jsonschema_description:"Backups of the ledger, by payersync ledger backup and by schedules.backup."`
	Server      Server       `yaml:"server" jsonschema_description:"Addresses that serve listens on, as host:port. A blank one is off."`
	Pages       Pages        `yaml:"pages" jsonschema_description:"What people may do on the pages, and who lets them in."`
	HTTP        HTTP         `yaml:"http" jsonschema_description:"How requests leave this machine."`
	Alerts      Alerts       `yaml:"alerts" jsonschema_description:"Who is told when something is the matter, and how."`
	Letters     Letters      `yaml:"letters" jsonschema_description:"Who writes to payers who have not signed their mandates yet, and how."`
	Log         Log          `yaml:"log" jsonschema_description:"The log on standard error."`

	// For an account with its ledger in a database: the node that provides server, http and log, and the
	// account's name. nil and "" if the ledger is a file.
	Node        *Node  `yaml:"-"`
	AccountName string `yaml:"-"`

	// Files are the files that it was read from: its own, and those of its secrets. None for an account of a node.
	Files []string `yaml:"-"`
}

// HTTP says how requests leave this machine.
type HTTP struct {
	Proxy Secret `yaml:"proxy" jsonschema_description:"A proxy for all requests but those to this machine, as in http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT; with a password in it env:NAME or file:PATH. The environment is never asked for one. Default blank: none."`
}

// Client returns a client for one remote system by the configuration.
func (c *Config) Client(o transport.Options) *transport.Client {
	public := o.Reach.PublicOnly
	o.Proxy, o.Reach = c.HTTP.Address(), c.Reach()
	o.Reach.PublicOnly = o.Reach.PublicOnly || public
	return transport.New(o)
}

// Reach returns the allowed addresses: all, but for an account of a node.
func (c *Config) Reach() (r connector.Reach) {
	if c.Node != nil {
		r.PublicOnly = true
		r.Also = append(r.Also, connector.Map(c.Node.Accounts.Networks,
			func(n Network) netip.Prefix { return netip.Prefix(n) })...)
	}
	return r
}

// Address returns the proxy's address, nil for none.
func (h HTTP) Address() *url.URL {
	if h.Proxy.IsZero() {
		return nil
	}
	u, _ := transport.CheckProxy(h.Proxy.Expose()) // checked when the file was read
	return u
}

// secrets are the secret parts of the proxy's address: all of it if it holds a password.
func (h HTTP) secrets() []connector.Secret {
	u := h.Address()
	if u == nil || u.User == nil {
		return nil
	}
	password, _ := u.User.Password()
	return []connector.Secret{h.Proxy.Secret, connector.NewSecret(password)}
}

// Ledger configures the places of the ledger and its key.
type Ledger struct {
	Path    string `yaml:"path" jsonschema_description:"The SQLite file, on a local disk. Default payersync.db."`
	KeyFile string `yaml:"key_file" jsonschema_description:"The key that seals personal data. Default payersync.key."`
}

// Billing holds the address of the billing service and the settings of its open points.
type Billing struct {
	Profile       string   `yaml:"profile" jsonschema:"enum=standard,enum=adfin,enum=sandbox" jsonschema_description:"Starting point of dialect. Default standard."`
	BaseURL       string   `yaml:"base_url" jsonschema:"required" jsonschema_description:"Where the service is, for example https://api.example.com/api."`
	AuthURL       string   `yaml:"auth_url" jsonschema_description:"The token endpoint, a path below base_url. Default /oauth2/token."`
	ClientID      Secret   `yaml:"client_id" jsonschema_description:"env:NAME, file:PATH or the id itself."`
	ClientSecret  Secret   `yaml:"client_secret" jsonschema_description:"env:NAME or file:PATH."`
	APIToken      Secret   `yaml:"api_token" jsonschema_description:"env:NAME or file:PATH; for dialect.api_auth static."`
	AuthorizeURL  string   `yaml:"authorize_url" jsonschema_description:"The page where a person gives consent; for dialect.api_auth authorization_code."`
	Scopes        []string `yaml:"scopes" jsonschema_description:"What the consent asks for; for dialect.api_auth authorization_code."`
	RedirectURL   string   `yaml:"redirect_url" jsonschema:"required" jsonschema_description:"The page that payers return to after signing."`
	LinkValid     Days     `yaml:"link_valid" jsonschema_description:"For how many days a signing link works after the service gave it, where it says so, for example 30d. A link that is older counts as lost. Default blank: not known."`
	RatePerSecond float64  `yaml:"rate_per_second" jsonschema:"exclusiveMinimum=0" jsonschema_description:"Requests per second. Default 5."`
	Timeout       Duration `yaml:"request_timeout" jsonschema_description:"How long the service may take for one answer, 1s to 5m. Default 30s."`
	MaxInFlight   int      `yaml:"max_in_flight" jsonschema:"minimum=1,maximum=64" jsonschema_description:"Requests at a time. Default 8."`
	Webhook       *Webhook `yaml:"webhook" jsonschema_description:"The webhook endpoint. Without it the sweep alone finds changes."`
	Dialect       Dialect  `yaml:"dialect" jsonschema_description:"What the service's interface leaves open; overrides the profile one by one."`
}

// Webhook is the endpoint for the service's events.
type Webhook struct {
	PublicURL  string             `yaml:"public_url" jsonschema:"required" jsonschema_description:"The address that the service sends to; its path is the endpoint's."`
	Events     []string           `yaml:"events" jsonschema:"minItems=1" jsonschema_description:"Event types to subscribe to. Default dd-mandate and customer."`
	Path       string             `yaml:"path" jsonschema_description:"The path of the endpoint, where a proxy in front hands on another than that of public_url. Default that of public_url."`
	Signature  Signature          `yaml:"signature" jsonschema_description:"How deliveries are signed. Default what the profile knows of it: adfin knows it, standard does not."`
	Overlap    Duration           `yaml:"overlap" jsonschema_description:"For how long the secret and the delivery key of before are accepted after payersync webhooks subscribe got others, at most 30 days. Default 24h."`
	Key        *DeliveryKey       `yaml:"delivery_key" jsonschema_description:"What each delivery must carry beside its signature. Default nothing."`
	KnownTypes []string           `yaml:"known_types" jsonschema_description:"Types of events that need no telling: payersync does not know them and a person does. Those of them that came before stay until payersync webhooks replay --quarantined."`
	BillerID   string             `yaml:"biller_id" jsonschema_description:"Whose events are ours, where the app acts for several billers and one subscription serves them all. Default everybody's."`
	EventPaths billing.EventPaths `yaml:"event_paths" jsonschema_description:"Where an event names its type and ids: lists of JSON paths, the first that is there counts."`
}

// Signature is a billing.Signature with references to its secrets.
type Signature struct {
	billing.Signature `yaml:",inline"`
	SecretRefs        []Secret `yaml:"secrets" jsonschema:"minItems=1" jsonschema_description:"The secrets that deliveries may be signed with, beside those that the service named to payersync webhooks subscribe, which the ledger keeps."`
}

// DeliveryKey is a billing.DeliveryKey with references to its keys.
type DeliveryKey struct {
	billing.DeliveryKey `yaml:",inline"`
	KeyRefs             []Secret `yaml:"keys" jsonschema:"minItems=1" jsonschema_description:"The keys, any of which is right, beside those that payersync webhooks subscribe told the service, which the ledger keeps."`
}

// EndpointPath returns the path for deliveries: path, or that of public_url if no proxy changes it.
func (w *Webhook) EndpointPath() string {
	if w.Path != "" {
		return w.Path
	}
	public, err := url.Parse(w.PublicURL)
	if err != nil {
		return ""
	}
	return public.Path
}

// JSONSchemaExtend adds facts missing in the fields' Go types.
func (Signature) JSONSchemaExtend(s *generate.Schema) {
	setEnum(s, "scheme", "standard-webhooks", "xero", "adfin")
	setEnum(s, "algorithm", "hmac-sha256", "hmac-sha512", "ed25519")
	setEnum(s, "encoding", "hex", "base64", "base64url")
	setEnum(s, "key", "text", "hex", "base64", "base64url")
	s.Properties.Set("tolerance", &generate.Schema{Type: "string", Title: lengthOfTime, Pattern: `^([0-9.]+(ms|s|m|h))+$`})
}

// Dialect is a billing.Dialect as the file may write it.
type Dialect struct {
	billing.Dialect `yaml:",inline"`
}

// JSONSchemaExtend adds facts missing in the fields' Go types.
func (Dialect) JSONSchemaExtend(s *generate.Schema) {
	setEnum(s, "token_auth", "form", "basic")
	setEnum(s, "api_auth", "client_credentials", "authorization_code", "static")
	setEnum(s, "person_fields", "short", "long")
	setEnum(s, "address_fields", "short", "long")
	setEnum(s, "external_data", "map", "list", "object")
	setEnum(s, "update", "body_id", "path_id")
	setEnum(s, "mandate_link", "auto", "put", "get")
	setEnum(s, "link_when_created", "unknown", "same", "new")
	setEnum(s, "cancel", "colon", "slash", "query", "body")
	setEnum(s, "reinstate", "none", "colon", "slash", "query", "body")
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

// Connection is an accounting source with its mapping.
type Connection struct {
	Name         string `yaml:"name" jsonschema:"required" jsonschema_description:"Your name for it; it stays in the ledger."`
	Source       Source `yaml:"source" jsonschema:"required" jsonschema_description:"The accounting system."`
	Mapping      string `yaml:"mapping" jsonschema:"required" jsonschema_description:"The mapping file."`
	Organisation string `yaml:"organisation" jsonschema_description:"Whose books these are, for mappings that write it beside the key; customers of two organisations with equal numbers are told apart by it. It never changes. Default what the accounting system says; a CSV file says nothing."`
	TwoWay       string `yaml:"two_way" jsonschema:"enum=auto,enum=link_only,enum=write" jsonschema_description:"What is sent where the billing service has an accounting connection of its own to these books, so that two would write one record. link_only links the customers that exist, and neither creates nor changes any; write does; auto links only once such a connection was found. Default auto."`
	Schedule     string `yaml:"schedule" jsonschema_description:"When serve syncs it, as a cron schedule; CRON_TZ= may stand in front. Without it serve does not."`

	Letters   ConnectionLetters `yaml:"letters" jsonschema_description:"What differs for letters to these payers."`
	Writeback *Writeback        `yaml:"writeback" jsonschema_description:"Writes the status of mandates back into one field of the books, or tells it to another system. Left out, nothing is written there."`
}

// Native returns the billing service's name for the accounting system in externalData: the system's name in
// capitals. For a CSV file it is the system of the preset. It is "" for a file without a preset and for a
// database of your own.
func (c *Connection) Native() string {
	switch preset := c.Source.CSV.Preset; {
	case preset != "" && preset != "generic":
		return strings.ToUpper(preset)
	case c.Source.Kind == KindCSV || c.Source.Kind == KindSQL:
		return ""
	}
	return strings.ToUpper(c.Source.Name())
}

// Lookup says how far the list of the service's customers is trusted.
type Lookup struct {
	MaxAge     Duration `yaml:"max_age" jsonschema_description:"Age from which the list is read again before anything is created. Default 24h."`
	Quarantine Duration `yaml:"quarantine" jsonschema_description:"Time without creates after a ledger was restored or copied back; longer than the service can list what was some time ago. Default 15m."`
}

// Guards are the limits above which a plan waits for approval.
type Guards struct {
	MaxChanges      Limit `yaml:"max_changes" jsonschema_description:"Customers that would be changed, as a number or a percentage of the linked ones. Default 5%."`
	MaxChangesFloor int   `yaml:"max_changes_floor" jsonschema:"minimum=0" jsonschema_description:"So many changes, missing records, and payers lost by a plan are always let through. Default 10."`
	MaxCreates      int   `yaml:"max_creates" jsonschema:"minimum=0" jsonschema_description:"Customers that would be created. Default 20."`
	MaxBlanks       int   `yaml:"max_blanks" jsonschema:"minimum=0" jsonschema_description:"Fields that would be emptied. Default 0."`
	MaxIdentity     Limit `yaml:"max_identity" jsonschema_description:"Customers whose name or e-mail address would change. Default 2%."`
	FirstMatching   bool  `yaml:"first_matching" jsonschema_description:"A connection whose payers have no customers yet creates none while the service has customers that belong to no record, until a person has finished matching. Default true."`
	HoldOnlyAbove   bool  `yaml:"hold_only_above" jsonschema_description:"Of a plan above the limits, hold back only the kinds of change that are above theirs, and send the others without approval. Default false: all of it waits."`
	MaxMissing      Limit `yaml:"max_missing" jsonschema_description:"Known records that a full reading of the source does not show, or linked customers that the billing service does not list, as a number or a percentage of the known ones. Above it nothing is concluded from that before a person looks; so it is whenever a source shows none. Default 10%."`
	MaxHolds        Limit `yaml:"max_holds" jsonschema_description:"Payers that a plan would newly hold or leave out, as a number or a percentage of those with a customer. Above it nothing is sent before a person looks; so it is whenever a plan leaves none. Default 10%."`
}

// Schedules say when serve does its chores.
type Schedules struct {
	Sweep      string `yaml:"sweep" jsonschema_description:"When the service is compared with the ledger, for what webhooks missed. Default 7 * * * *."`
	Backup     string `yaml:"backup" jsonschema_description:"When a backup is made, if backup.folder names a place. Default 30 3 * * *; blank for never."`
	Retention  string `yaml:"retention" jsonschema_description:"When the ledger keeps no longer what is older than retention says. Default 40 3 * * *; blank keeps everything."`
	Duplicates string `yaml:"duplicates" jsonschema_description:"When all customers are compared, to find two of one payer. Default 50 3 * * *; blank for never."`
	Writeback  string `yaml:"writeback" jsonschema_description:"When statuses are written back, if a connection has writeback. Default 12,42 * * * *; blank for never."`
	KeepAlive  string `yaml:"keep_alive" jsonschema_description:"When consents that nobody used for a week are renewed, so that they do not lapse; when serve starts, too. Default 15 4 * * *."`
	Letters    string `yaml:"letters" jsonschema_description:"When letters are looked for that are due, where letters.sender is payersync: every few minutes, also while letters.window is closed. Default */5 * * * *."`
}

// Retention says for how many days the ledger keeps what is personal and decides nothing any
// more.
type Retention struct {
	WebhookBodies int `yaml:"webhook_bodies" jsonschema:"minimum=7" jsonschema_description:"Days for which the bodies of webhooks are kept that are done with; one that was not understood is kept until it is closed, and so long after. Default 30."`
	ChangeDetails int `yaml:"change_details" jsonschema:"minimum=90" jsonschema_description:"Days for which the requests of settled changes are kept, and the customers before them; after that they cannot be undone. Of each payer the newest stays. The fields before and after, which plans and payers show, stay as long as the audit log. Default 400."`
}

// Backup configures the place of backups, and their readers.
type Backup struct {
	Folder     string   `yaml:"folder" jsonschema_description:"Where backups go: a folder that is there, best on another disk. Left out, none are made by schedule."`
	Keep       int      `yaml:"keep" jsonschema:"minimum=0" jsonschema_description:"How many backups of this ledger are kept in the folder; 0 keeps all. Default 14."`
	Recipients []string `yaml:"recipients" jsonschema_description:"Public keys of age (age1…) or ssh: only these can read the backups. Left out, backups are not encrypted as a whole."`
}

// Readers returns the readers of a backup, for its encryption.
func (b Backup) Readers() (out []backups.Recipient, err error) {
	for _, text := range b.Recipients {
		r, err := backups.ParseRecipient(text)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// Server configures the listeners of serve, and the limits for strangers.
type Server struct {
	Webhooks       string       `yaml:"webhooks" jsonschema_description:"The webhook endpoint. Default 127.0.0.1:8080."`
	Health         string       `yaml:"health" jsonschema_description:"The health pages. Left out or blank, they are beside the webhook endpoint."`
	TrustedProxies []Network    `yaml:"trusted_proxies" jsonschema_description:"Proxies in front of the webhook endpoint, whose X-Forwarded-For says who sent a request. Default this machine; [] trusts nobody."`
	Limits         ServerLimits `yaml:"limits" jsonschema_description:"What strangers may take. A genuine delivery is never refused because of them."`
	Admin          string       `yaml:"admin" jsonschema_description:"Pages for people in a browser, for example 127.0.0.1:8070. An address that others reach takes admin_tls or admin_proxies, admin_url, and users or pages.oidc. Default blank, which is off."`
	AdminURL       string       `yaml:"admin_url" jsonschema_description:"The address at which browsers reach the pages, for example https://payers.example.com. They answer to its name alone, and to those of this machine. Default http:// and server.admin."`
	AdminTLS       *TLS         `yaml:"admin_tls" jsonschema_description:"The certificate that the pages are served with. A renewed one is taken without a restart."`
	AdminProxies   []Network    `yaml:"admin_proxies" jsonschema_description:"Proxies that speak TLS with browsers and hand requests on to the pages, with the Host header as it was. Requests that do not come from one of them are refused. Default none."`
	Metrics        string       `yaml:"metrics" jsonschema_description:"Metrics for Prometheus at /metrics, without a password: numbers and the names of connections, nothing personal. Default blank, which is off."`
}

// TLS names the files of a certificate.
type TLS struct {
	Cert string `yaml:"cert" jsonschema:"required" jsonschema_description:"A file with the certificate, and those between it and one that browsers know (PEM)."`
	Key  string `yaml:"key" jsonschema:"required" jsonschema_description:"The file with its private key (PEM), readable for this user alone."`
}

// ServerLimits limit strangers' use of the webhook endpoint.
type ServerLimits struct {
	Connections      int      `yaml:"connections" jsonschema:"minimum=16,maximum=65536" jsonschema_description:"Open connections of a listener. When all are taken, whoever has most loses the one that waited longest. Default 2048."`
	MaxBody          int      `yaml:"max_body" jsonschema:"minimum=4096,maximum=8388608" jsonschema_description:"Bytes of a delivery; a larger one is answered 413. Default 262144."`
	ReadTimeout      Duration `yaml:"read_timeout" jsonschema_description:"How long a request may take to arrive whole, 1s to 30s. Default 10s."`
	RefusedPerClient int      `yaml:"refused_per_client" jsonschema:"minimum=1" jsonschema_description:"Refused requests per second of one client, a /24 or /64; more are answered 429. Default 500."`
}

// Proxies returns the trusted proxies as the server takes them.
func (c Server) Proxies() (out []netip.Prefix) {
	return connector.Map(c.TrustedProxies, func(p Network) netip.Prefix { return netip.Prefix(p) })
}

// Log says how much serve logs, and how.
type Log struct {
	Level  string `yaml:"level" jsonschema:"enum=debug,enum=info,enum=warn,enum=error"`
	Format string `yaml:"format" jsonschema:"enum=json,enum=text"`
}

// Limits returns the retention as the ledger takes it.
func (r Retention) Limits() state.Retention {
	const day = 24 * time.Hour
	return state.Retention{Bodies: time.Duration(r.WebhookBodies) * day, Details: time.Duration(r.ChangeDetails) * day}
}

// defaults holds the values of missing keys; the dialect's defaults are its profile's.
func defaults() Config {
	return Config{
		Ledger: Ledger{Path: "payersync.db", KeyFile: "payersync.key"},
		Billing: Billing{Profile: "standard", AuthURL: "/oauth2/token", RatePerSecond: 5, MaxInFlight: 8,
			Timeout: Duration(30 * time.Second)},
		Adoption: "propose",
		Lookup:   Lookup{MaxAge: Duration(24 * time.Hour), Quarantine: Duration(15 * time.Minute)},
		Guards: Guards{FirstMatching: true, MaxChanges: Limit{Percent: 5}, MaxChangesFloor: 10, MaxCreates: 20,
			MaxIdentity: Limit{Percent: 2}, MaxMissing: Limit{Percent: 10}, MaxHolds: Limit{Percent: 10}},
		Schedules: Schedules{Sweep: "7 * * * *", Backup: "30 3 * * *", Retention: "40 3 * * *", Duplicates: "50 3 * * *",
			Writeback: "12,42 * * * *", KeepAlive: "15 4 * * *", Letters: "*/5 * * * *"},
		Retention: Retention{WebhookBodies: 30, ChangeDetails: 400},
		Backup:    Backup{Keep: 14},
		Server: Server{
			Webhooks:       "127.0.0.1:8080",
			TrustedProxies: []Network{Network(netip.MustParsePrefix("127.0.0.0/8")), Network(netip.MustParsePrefix("::1/128"))},
			Limits: ServerLimits{Connections: 2048, RefusedPerClient: 500, MaxBody: 256 << 10,
				ReadTimeout: Duration(10 * time.Second)},
		},
		Pages:   Pages{Approve: "operator"},
		Letters: defaultLetters(),
		Log:     Log{Level: "info", Format: "json"},
	}
}

// Load reads the configuration file at path; getenv looks up environment variables. Without getenv the
// secrets stay references, as in the file. The error is a *strict.Error with every problem of the file, or
// says in three parts why there is no file to read.
func Load(path string, getenv func(string) (string, bool)) (*Config, error) {
	data, exposed, err := readWhole(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, exposed, getenv)
}

// readWhole is read, and says in three parts why there is nothing to read.
func readWhole(path string) ([]byte, fs.FileMode, error) {
	data, exposed, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, fmt.Errorf("the configuration cannot be read: there is no file %s; make one with payersync init, or name yours with --config", path)
	case err != nil:
		return nil, 0, fmt.Errorf("the configuration cannot be read: %w; make %s readable for this user, or name another file with --config", err, path)
	}
	return data, exposed, nil
}

// read reads the configuration file, and returns its mode if other users of this machine may read it.
func read(path string) (data []byte, exposed fs.FileMode, err error) {
	f, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, 0, err
	}
	exposed, err = files.Exposed(f)
	data, readErr := io.ReadAll(f)
	return data, exposed, errors.Join(err, readErr, f.Close())
}

// Parse reads data, the content of the file at path. The file must hold no secret if others may read it too.
func Parse(path string, data []byte, exposed fs.FileMode, getenv func(string) (string, bool)) (*Config, error) {
	return parse(path, data, exposed, getenv, defaults())
}

// parse is Parse with defaults in start for missing keys.
func parse(path string, data []byte, exposed fs.FileMode, getenv func(string) (string, bool), start Config) (*Config,
	error) {
	if err := refuseRemoved(filepath.Base(path), data, usage.RemovedKeys); err != nil {
		return nil, err
	}
	cfg, doc, invalid := strict.Load(filepath.Base(path), data, start)
	if doc == nil {
		return nil, invalid
	}
	c := &check{doc: doc, file: path, dir: filepath.Dir(path), exposed: exposed, getenv: getenv, config: &cfg}
	if cfg.Node == nil {
		cfg.Files = []string{path}
	}
	c.profile()
	c.billing()
	c.connections()
	c.schedules()
	c.backup()
	if cfg.Node == nil { // the node checks its own
		c.server()
		c.adminListener()
		c.proxy()
	}
	c.adminAddress()
	c.oidc()
	c.alerts()
	c.paths()
	c.letters()
	if err := c.result(invalid); err != nil {
		return nil, err
	}
	return &cfg, nil
}

// Schema returns the JSON Schema of payersync.yaml, for editors.
func Schema() []byte { return strict.Schema[Config]() }

// NodeSchema returns the JSON Schema of the configuration of a node, for editors.
func NodeSchema() []byte { return strict.Schema[Node]() }
