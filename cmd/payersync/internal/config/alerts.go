package config

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"payersync/connector"
	"payersync/connector/alarm"
	"payersync/connector/mail"
	"payersync/connector/webhook"
	"payersync/mapping/strict"
)

// Alerts configures the recipients and channels of alarms.
type Alerts struct {
	Name string     `yaml:"name" jsonschema_description:"What messages call this installation. Default the name of this computer."`
	Ways []AlertWay `yaml:"ways" jsonschema_description:"The ways of telling. Without one nobody is told."`
}

// AlertWay is one way of telling: by e-mail or by webhook.
type AlertWay struct {
	Name        string        `yaml:"name" jsonschema:"required" jsonschema_description:"Your name for it. What was told is remembered under it, so give another recipient another name."`
	Email       *AlertEmail   `yaml:"email" jsonschema_description:"Tell one address by e-mail."`
	Webhook     *AlertWebhook `yaml:"webhook" jsonschema_description:"Tell another system by a signed POST."`
	MinSeverity string        `yaml:"min_severity" jsonschema:"enum=warning,enum=critical" jsonschema_description:"critical: only conditions that are urgent. warning: every condition. Default warning."`
	Names       bool          `yaml:"names" jsonschema_description:"Whoever reads it may see the names of payers. Default false: record ids alone leave."`
}

// AlertEmail is an address and the mail server for it.
type AlertEmail struct {
	To       string `yaml:"to" jsonschema:"required" jsonschema_description:"The recipient: one address."`
	From     string `yaml:"from" jsonschema:"required" jsonschema_description:"The sender: one address that the mail server lets us use."`
	Server   string `yaml:"server" jsonschema:"required" jsonschema_description:"The mail server, as host:port."`
	TLS      string `yaml:"tls" jsonschema:"enum=starttls,enum=implicit,enum=none" jsonschema_description:"How the connection is encrypted: starttls (port 587), implicit (port 465), or none for a server on this machine. Default starttls."`
	Username string `yaml:"username" jsonschema_description:"Left out, nobody signs in."`
	Password Secret `yaml:"password" jsonschema_description:"env:NAME or file:PATH."`
}

// AlertWebhook is another system with an endpoint for signed requests.
type AlertWebhook struct {
	URL    string `yaml:"url" jsonschema:"required" jsonschema_description:"Where to post: https, or http on this machine."`
	Secret Secret `yaml:"secret" jsonschema:"required" jsonschema_description:"env:NAME or file:PATH: what requests are signed with, 24 bytes or more; whsec_ and base64, or a text."`
}

// alerts checks the recipients, and resolves the secrets.
func (c *check) alerts() {
	a := &c.config.Alerts
	at := strict.Path{"alerts"}
	if strings.ContainsFunc(a.Name, func(r rune) bool { return r < ' ' }) || len(a.Name) > 64 {
		c.report(at.Key("name"), "alerts.name is one line of 64 characters at most")
	}
	var names []string
	for i := range a.Ways {
		w := &a.Ways[i]
		at := at.Key("ways").Index(i)
		switch {
		case !connectionName.MatchString(w.Name):
			c.report(at.Key("name"), "%s is made of letters, digits, dots, dashes and underscores, 64 at most", at.Key("name"))
		case slices.Contains(names, w.Name):
			c.report(at.Key("name"), "two ways are called %q; give each its own name", w.Name)
		}
		names = append(names, w.Name)
		w.MinSeverity = cmp.Or(w.MinSeverity, string(alarm.Warning))
		switch {
		case (w.Email == nil) == (w.Webhook == nil):
			c.report(at, "%s tells by email or by webhook; give one of the two keys", at)
		case w.Email != nil:
			c.alertEmail(at.Key("email"), w.Email)
		default:
			c.alertWebhook(at.Key("webhook"), w.Webhook)
		}
	}
}

func (c *check) alertEmail(at strict.Path, e *AlertEmail) {
	for key, address := range map[string]*string{"to": &e.To, "from": &e.From} {
		*address = strings.TrimSpace(*address)
		if mail.CheckAddress(*address) != nil {
			c.report(at.Key(key), "%s is one bare address, for example ops@example.com", at.Key(key))
		}
	}
	e.TLS = cmp.Or(e.TLS, string(mail.StartTLS))
	host, port, err := net.SplitHostPort(e.Server)
	n, notNumber := strconv.ParseUint(port, 10, 16)
	c.resolve(at.Key("password"), &e.Password)
	switch {
	case err != nil || notNumber != nil || host == "" || n == 0:
		c.report(at.Key("server"), "%s must be a host and a port, for example smtp.example.com:587", at.Key("server"))
	case isLinkLocal(host):
		c.report(at.Key("server"), linkLocal, at.Key("server"))
	case e.TLS == string(mail.NoTLS) && !connector.IsLoopback(host):
		c.report(at.Key("tls"), "%s can be none for a server on this machine only; use starttls or implicit", at.Key("tls"))
	case e.TLS == string(mail.NoTLS) && e.Username != "":
		c.report(at.Key("tls"), "%s is none, so a password would go in the clear; use starttls or implicit, or remove username and password", at.Key("tls"))
	case (e.Username == "") != e.Password.IsZero() && c.doc.Node(at.Key("password")) == nil:
		c.report(at, "%s has a username and no password; add the key password, or remove username", at)
	case (e.Username == "") != e.Password.IsZero() && e.Username == "":
		c.report(at, "%s has a password and no username; add the key username, or remove password", at)
	}
}

func (c *check) alertWebhook(at strict.Path, w *AlertWebhook) {
	c.webhookURL(at.Key("url"), w.URL)
	c.resolve(at.Key("secret"), &w.Secret)
	if c.getenv == nil || w.Secret.IsZero() { // an unresolved reference, or a reported one
		return
	}
	if err := webhook.CheckSecret(w.Secret.Secret); err != nil {
		c.report(at.Key("secret"), "%s: %v", at.Key("secret"), err)
	}
}

// webhookURL checks an address for our requests. It refuses possible secrets in it, because logs and errors
// show the address.
func (c *check) webhookURL(at strict.Path, raw string) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		c.report(at, "%s must be a whole address, for example https://alerts.example.com/payersync", at)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		c.report(at, "%s must hold no user name or password, and end before the ? or #; requests are known by their signature", at)
	case isLinkLocal(u.Hostname()):
		c.report(at, linkLocal, at)
	case u.Scheme == "http" && !connector.IsLoopback(u.Hostname()):
		c.report(at, "%s must begin with https://; plain http is for addresses of this machine, such as 127.0.0.1", at)
	}
}
