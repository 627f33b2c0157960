package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/transport"
	"payersync/connector/worker"
	"payersync/mapping/strict"
	"payersync/state/backups"
)

// check completes a configuration and collects its mistakes.
type check struct {
	doc      *strict.Doc
	file     string
	dir      string      // of the file: relative paths begin here
	exposed  fs.FileMode // the mode of a file readable by others; else 0
	getenv   func(string) (string, bool)
	config   *Config
	problems []strict.Problem
	secrets  []strict.Problem // the problems of unreadable secrets
}

func (c *check) report(at strict.Path, format string, args ...any) {
	c.problems = append(c.problems, c.doc.Problem(at, format, args...))
}

// profile lets the file's dialect and event paths override their defaults one by
// one, and checks the result.
func (c *check) profile() {
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
		b.Webhook.EventPaths.Settled, b.Webhook.EventPaths.Biller = b.Webhook.KnownTypes, b.Webhook.BillerID
		c.placed(strict.Path{"billing", "webhook"}, b.Webhook.EventPaths.Validate())
		if s := &b.Webhook.Signature; s.Scheme == "" && s.Header == "" {
			s.Scheme = billing.ProfileScheme(b.Profile)
		}
	}
}

func (c *check) decode(at strict.Path, into any) {
	var wrong *strict.Error
	if errors.As(c.doc.Decode(at, into), &wrong) {
		c.problems = append(c.problems, wrong.Problems...)
	}
}

// placed reports findings with a key at their beginning, below at, one per line, as in "dialect.list.size: 0
// is out of range; use 1 to 1000".
func (c *check) placed(at strict.Path, err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		key, what, _ := strings.Cut(line, ": ")
		path := append(slices.Clone(at),
			strings.FieldsFunc(key, func(r rune) bool { return strings.ContainsRune(".[]", r) })...)
		c.report(path, "%s: %s", path, what)
	}
}

func (c *check) billing() {
	b := &c.config.Billing
	at := strict.Path{"billing"}
	c.url(at.Key("base_url"), b.BaseURL)
	if !strings.HasPrefix(b.AuthURL, "/") {
		c.url(at.Key("auth_url"), b.AuthURL)
	}
	c.url(at.Key("redirect_url"), b.RedirectURL)
	if d := time.Duration(b.Timeout); d < time.Second || d > 5*time.Minute {
		c.report(at.Key("request_timeout"), "billing.request_timeout is %s; give the service 1s to 5m for an answer", d)
	}
	if b.AuthorizeURL != "" {
		c.url(at.Key("authorize_url"), b.AuthorizeURL)
	}
	c.credentials(at)
	if b.Webhook == nil {
		return
	}
	at = at.Key("webhook")
	if u := c.url(at.Key("public_url"), b.Webhook.PublicURL); u != nil && strings.Trim(u.Path, "/") == "" {
		c.report(at.Key("public_url"),
			"billing.webhook.public_url has no path; add one, for example /webhooks/billing, to keep other services off it")
	}
	if b.Webhook.Events == nil {
		b.Webhook.Events = []string{"dd-mandate", "customer"}
	}
	if path := b.Webhook.Path; path != "" &&
		(!strings.HasPrefix(path, "/") || strings.Trim(path, "/") == "" || strings.ContainsAny(path, "?#%")) {
		c.report(at.Key("path"), "billing.webhook.path is the path that the proxy hands on, for example /webhooks/billing")
	}
	b.Webhook.Overlap = cmp.Or(b.Webhook.Overlap, Duration(24*time.Hour))
	if o := time.Duration(b.Webhook.Overlap); o < time.Minute || o > 30*24*time.Hour {
		c.report(at.Key("overlap"),
			"billing.webhook.overlap is for how long the secret of before is accepted; use 1m to 720h")
	}
	c.signature(at.Key("signature"), &b.Webhook.Signature)
	c.deliveryKey(at.Key("delivery_key"), b.Webhook)
}

// deliveryKey resolves the keys of deliveries. They must differ from the signing keys.
func (c *check) deliveryKey(at strict.Path, w *Webhook) {
	k := w.Key
	if k == nil {
		return
	}
	before := len(c.problems)
	for i := range k.KeyRefs {
		c.resolve(at.Key("keys").Index(i), &k.KeyRefs[i])
		k.Keys = append(k.Keys, k.KeyRefs[i].Secret)
	}
	if len(c.problems) == before && c.getenv != nil {
		c.placed(at[:len(at)-1], k.Validate(w.Signature.Secrets))
	}
}

// credentials resolves the secrets, and requires those of the dialect.
func (c *check) credentials(at strict.Path) {
	b := &c.config.Billing
	static := b.Dialect.APIAuth == "static"
	own := "" // why the app's own credentials are needed besides another token for customers
	if static {
		own = "; billing.webhook needs it: a subscription needs a token of the app itself (client credentials), whatever dialect.api_auth is"
	}
	for _, s := range []struct {
		key    string
		ref    *Secret
		needed bool
		when   string
	}{
		{"client_id", &b.ClientID, !static || b.Webhook != nil, own},
		{"client_secret", &b.ClientSecret, !static || b.Webhook != nil, own},
		{"api_token", &b.APIToken, static, "; dialect.api_auth static needs it"},
	} {
		if s.needed && s.ref.IsZero() && c.doc.Node(at.Key(s.key)) == nil {
			c.report(at, "the key %q is missing in billing%s", s.key, s.when)
		}
		c.resolve(at.Key(s.key), s.ref)
	}
}

// proxy checks the address of the outgoing proxy. One without a password is no secret.
func (c *check) proxy() {
	at := strict.Path{"http", "proxy"}
	p := &c.config.HTTP.Proxy
	if p.IsZero() {
		return
	}
	if text := p.Expose(); !strings.Contains(text, "://") || strings.Contains(text, "@") {
		before := len(c.problems)
		c.resolve(at, p)
		if len(c.problems) > before || c.getenv == nil && !strings.Contains(text, "://") {
			return
		}
	}
	switch u, err := transport.CheckProxy(p.Expose()); {
	case err != nil:
		c.report(at, "%s: %v", at, err)
	case isLinkLocal(u.Hostname()):
		c.report(at, linkLocal, at)
	}
}

// signature requires the keys of its scheme. There are no defaults: a wrong guess would refuse every
// delivery, or accept a forged one.
func (c *check) signature(at strict.Path, s *Signature) {
	if s.Scheme == "" && c.doc.Node(at) == nil {
		c.report(at[:len(at)-1], "the key %q is missing in %s; add it: %[1]s: …", "signature", at[:len(at)-1])
		return
	}
	before := len(c.problems)
	for _, needed := range []struct{ key, value string }{{"header", s.Header}, {"algorithm", s.Algorithm},
		{"encoding", s.Encoding}, {"signed", s.Signed}} {
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
	err := s.Validate()
	if len(s.SecretRefs) > 0 { // otherwise the ledger has them, once webhooks are subscribed to
		_, err = billing.NewVerifier(s.Signature)
	}
	if err != nil {
		c.placed(at[:len(at)-1], errors.New(strings.TrimPrefix(err.Error(), "the webhook endpoint cannot be opened: ")))
	}
}

// connectionName matches names of connections: they are used in command lines, logs and metrics.
var connectionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (c *check) connections() {
	var names []string
	for i := range c.config.Connections {
		conn := &c.config.Connections[i]
		at := strict.Path{"connections"}.Index(i)
		switch {
		case conn.Name == BillingConsent:
			c.report(at.Key("name"), "%s cannot be %q: payersync connect means the billing service by it; choose another",
				at.Key("name"), conn.Name)
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
		c.writeback(at.Key("writeback"), conn)
	}
}

func (c *check) schedules() {
	s := c.config.Schedules
	c.schedule(strict.Path{"schedules", "sweep"}, s.Sweep)
	c.schedule(strict.Path{"schedules", "keep_alive"}, s.KeepAlive)
	c.schedule(strict.Path{"schedules", "letters"}, s.Letters)
	if s.Backup != "" {
		c.schedule(strict.Path{"schedules", "backup"}, s.Backup)
	}
	if s.Retention != "" {
		c.schedule(strict.Path{"schedules", "retention"}, s.Retention)
	}
	if s.Duplicates != "" {
		c.schedule(strict.Path{"schedules", "duplicates"}, s.Duplicates)
	}
	if s.Writeback != "" {
		c.schedule(strict.Path{"schedules", "writeback"}, s.Writeback)
	}
}

// backup refuses invalid recipients, and a schedule without a folder.
func (c *check) backup() {
	b := &c.config.Backup
	at := strict.Path{"backup"}
	for i, text := range b.Recipients {
		if _, err := backups.ParseRecipient(text); err != nil {
			c.report(at.Key("recipients").Index(i), "%s: %v", at.Key("recipients").Index(i), err)
		}
	}
	scheduled := strict.Path{"schedules", "backup"}
	if b.Folder == "" && c.config.Schedules.Backup != "" && c.doc.Node(scheduled) != nil {
		c.report(scheduled, "schedules.backup has no folder to put a backup into; name one in backup.folder")
	}
	if b.Folder != "" {
		b.Folder = c.path(b.Folder)
	}
}

func (c *check) schedule(at strict.Path, spec string) {
	if _, err := worker.ParseSchedule(spec); err != nil {
		c.report(at, "%v", err)
	}
}

func (c *check) server() {
	s := c.config.Server
	if d := time.Duration(s.Limits.ReadTimeout); d < time.Second || d > 30*time.Second {
		c.report(strict.Path{"server", "limits", "read_timeout"},
			"server.limits.read_timeout is %s; a request has 1s to 30s to arrive", d)
	}
	taken := map[string]string{}
	for _, listener := range []struct{ key, address string }{{"webhooks", s.Webhooks}, {"health", s.Health},
		{"admin", s.Admin}, {"metrics", s.Metrics}} {
		at := strict.Path{"server", listener.key}
		if listener.address == "" {
			continue
		}
		_, port, err := net.SplitHostPort(listener.address)
		n, notNumber := strconv.ParseUint(port, 10, 16)
		switch other, twice := taken[listener.address]; {
		case err != nil || notNumber != nil:
			c.report(at, "%s must be an address and a port, for example 127.0.0.1:8080", at)
		case listener.key == "admin" && n == 0:
			c.report(at, "server.admin has port 0, which changes at each start, so no sign-in link could work; choose one, for example 127.0.0.1:8070")
		case twice && n != 0:
			c.report(at, "%s and server.%s have the same address; give each its own port", at, other)
		}
		taken[listener.address] = listener.key
	}
}

// paths makes the file's relative paths relative to the file.
func (c *check) paths() {
	l := &c.config.Ledger
	if c.config.Node != nil {
		l = &Ledger{Path: ".", KeyFile: "."} // it has neither
	}
	for key, path := range map[string]*string{"path": &l.Path, "key_file": &l.KeyFile} {
		if strings.TrimSpace(*path) == "" {
			c.report(strict.Path{"ledger", key}, "ledger.%s is blank; name a file, or remove the key", key)
		}
		*path = c.path(*path)
	}
	for i := range c.config.Connections {
		conn := &c.config.Connections[i]
		c.ownFile(strict.Path{"connections"}.Index(i).Key("mapping"), conn.Mapping)
		conn.Mapping = c.path(conn.Mapping)
	}
}

func (c *check) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.dir, p)
}

// linkLocal says why an address is refused: a service there could receive credentials, or give out those of
// this machine.
const linkLocal = "%s must not be a link-local address or the metadata service of a cloud; write the address of the service itself"

// url checks an address for incoming or outgoing requests: https, or http on this machine, and no secret in
// it.
func (c *check) url(at strict.Path, raw string) *url.URL {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		c.report(at, "%s must be a whole address, for example https://api.example.com/api", at)
	case u.User != nil:
		c.report(at, "%s must not hold a user name or password; keys of their own are for secrets", at)
	case u.RawQuery != "" || u.Fragment != "":
		c.report(at, "%s must end before the ? or #", at)
	case isLinkLocal(u.Hostname()):
		c.report(at, linkLocal, at)
	case u.Scheme == "http" && !connector.IsLoopback(u.Hostname()):
		c.report(at, "%s must begin with https://; plain http is for addresses of this machine, such as 127.0.0.1", at)
	default:
		return u
	}
	return nil
}

// result returns the problems of the file. If the file does not fit the schema, it is invalid: result then
// adds only the unreadable secrets, because a misspelt key may have caused the other problems.
func (c *check) result(invalid error) error {
	var wrong *strict.Error
	if errors.As(invalid, &wrong) {
		return strict.NewError(slices.Concat(wrong.Problems, c.secrets))
	}
	return strict.NewError(c.problems)
}

// resolve replaces a reference to a secret by the secret.
func (c *check) resolve(at strict.Path, s *Secret) {
	before := len(c.problems)
	c.readReference(at, s)
	c.secrets = append(c.secrets, c.problems[before:]...)
}

func (c *check) readReference(at strict.Path, s *Secret) {
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
	case "env", "file":
		if kind == "env" && c.config.Node != nil {
			c.report(at, "%s comes from the environment, which is the same for all accounts; put it into a file beside %s and write file:NAME", at, AccountFile)
			return
		}
		if kind == "file" && !c.ownFile(at, name) {
			return
		}
		if kind == "file" && c.config.Node == nil {
			c.config.Files = append(c.config.Files, c.path(name))
		}
		var why string
		if value, why = referred(kind, name, c.path, c.getenv); why != "" {
			c.report(at, "%s", why)
			return
		}
	default:
		// which are no secrets
		if c.exposed != 0 && ref != "" && !slices.Contains([]string{"client_id", "user"}, at[len(at)-1]) {
			c.report(at, "%s is a secret, and other users of this machine may read this file (mode %04o); run chmod 600 %s, or use env:NAME or file:PATH", at, c.exposed, c.file)
			return
		}
	}
	if value = strings.TrimSpace(value); value == "" {
		c.report(at, "%s is blank; put the secret there", at)
		return
	}
	s.Secret = connector.NewSecret(value)
}

// referred returns the value behind env:NAME or file:PATH, or the reason and the next step.
func referred(kind, name string, path func(string) string, getenv func(string) (string, bool)) (value, why string) {
	if kind == "env" {
		value, found := getenv(name)
		if !found {
			return "", fmt.Sprintf("the environment variable %s is not set; set it or use file:PATH", name)
		}
		return value, ""
	}
	value, exposed, why := readSecret(path(name))
	switch {
	case exposed != 0:
		return "", fmt.Sprintf("other users of this machine may read the file %s (mode %04o), which holds a secret; run chmod 600 %s", name, exposed, path(name))
	case why != "":
		return "", fmt.Sprintf("the file %s cannot be read: %s; put the secret there, readable for this user, or use env:NAME", name, why)
	}
	return value, ""
}

// Referred returns the secret behind env:NAME or file:PATH. It refuses the secret itself: other users of the
// machine see the arguments of a command.
func Referred(ref string, getenv func(string) (string, bool)) (connector.Secret, error) {
	kind, name, _ := strings.Cut(ref, ":")
	if kind != "env" && kind != "file" {
		return connector.Secret{},
			errors.New("it is a secret, which other users of this machine would see; write env:NAME or file:PATH")
	}
	value, why := referred(kind, name, func(p string) string { return p }, getenv)
	if value = strings.TrimSpace(value); why == "" && value == "" {
		why = ref + " is blank; put the secret there"
	}
	if why != "" {
		return connector.Secret{}, errors.New(why)
	}
	return connector.NewSecret(value), nil
}
