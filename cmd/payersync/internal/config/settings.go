package config

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/connector/syncer"
	"payersync/state"
)

// Fixed values: an operator's wrong value would be unsafe or only slow.
const (
	probeAfter = 15 * time.Minute // the age of the last list above which a create searches again
	// how far a reading position is set back (accounting/README.md#the-position-is-the-start-of-the-run)
	overlap = 5 * time.Minute
	grace   = 20 * time.Second // how long requests in flight may finish after an interruption
	perSlot = 8                // changes worked on for each request in flight: the others wait for the ledger
)

// BillingConsent is the billing service's name in payersync connect, and AuthorizationCode its
// dialect.api_auth.
const (
	BillingConsent    = "billing"
	AuthorizationCode = "authorization_code"
)

// LookupLimits returns how far the index of the service's customers is believed.
func (c *Config) LookupLimits() reconcile.Lookup {
	return reconcile.Lookup{
		MaxAge: time.Duration(c.Lookup.MaxAge), Quarantine: time.Duration(c.Lookup.Quarantine),
		MaxMissing: func(linked int) int {
			return max(syncer.Limit(c.Guards.MaxMissing).Of(linked), c.Guards.MaxChangesFloor)
		},
	}
}

// RunSettings returns the settings of every run.
func (c *Config) RunSettings() syncer.Settings {
	g, configured := c.Guards, map[string]string{}
	for _, one := range c.Connections {
		configured[one.Name] = one.Organisation
	}
	return syncer.Settings{
		Configured: configured,
		Workers:    perSlot * c.Billing.MaxInFlight, Adopt: syncer.Adoption(c.Adoption),
		SameMandate: c.Billing.Dialect.LinkWhenCreated == "same",
		NotCarried:  c.Billing.Dialect.NotCarried,
		ProbeAfter:  probeAfter, Overlap: overlap, Grace: grace,
		Guards: syncer.Guards{
			MaxChanges: syncer.Limit(g.MaxChanges), MaxChangesFloor: g.MaxChangesFloor,
			MaxCreates: g.MaxCreates, MaxBlanks: g.MaxBlanks, MaxIdentity: syncer.Limit(g.MaxIdentity),
			MaxMissing: syncer.Limit(g.MaxMissing), MaxHolds: syncer.Limit(g.MaxHolds), HoldOnlyAbove: g.HoldOnlyAbove,
			FirstMatching: g.FirstMatching, SameBooks: true,
		},
	}
}

// Secrets returns every secret of the configuration, for masking.
func (c *Config) Secrets() []connector.Secret {
	out := []connector.Secret{c.Billing.ClientSecret.Secret, c.Billing.APIToken.Secret}
	if c.Billing.Webhook != nil {
		out = append(out, c.Billing.Webhook.Signature.Secrets...)
		if key := c.Billing.Webhook.Key; key != nil {
			out = append(out, key.Keys...)
		}
	}
	for i := range c.Connections {
		out = append(out, c.Connections[i].Source.secrets()...)
		out = append(out, c.Connections[i].Writeback.secrets()...)
	}
	out = append(out, c.HTTP.secrets()...)
	if c.Node != nil {
		out = append(out, c.Node.Secrets()...)
	}
	if o := c.Pages.OIDC; o != nil {
		out = append(out, o.ClientSecret.Secret)
	}
	for _, w := range c.Alerts.Ways {
		switch {
		case w.Email != nil:
			out = append(out, w.Email.Password.Secret)
		case w.Webhook != nil:
			out = append(out, w.Webhook.Secret.Secret)
		}
	}
	return out
}

// Account returns the identity of the billing account, so a ledger is never used with another one (fault
// F77).
func (c *Config) Account() state.Account {
	address := c.Billing.BaseURL
	if u, err := url.Parse(address); err == nil {
		address = strings.TrimSuffix(u.Host, map[string]string{"https": ":443", "http": ":80"}[u.Scheme]) +
			path.Clean("/"+u.Path)
	}
	known := c.Billing.ClientID
	if c.Billing.Dialect.APIAuth == "static" {
		known = c.Billing.APIToken
	}
	return state.Account{Address: strings.ToLower(strings.TrimSuffix(address, "/")),
		Credentials: shortHash(known.Expose())}
}

// NoCredentials is the stored hash of an account reached with a token in earlier versions.
var NoCredentials = shortHash("")

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// Named returns the connections with these names, all of them without names.
func (c *Config) Named(names []string) ([]Connection, error) {
	if len(names) == 0 {
		return c.Connections, nil
	}
	known := connector.Map(c.Connections, func(conn Connection) string { return conn.Name })
	var out []Connection
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, usage.Errorf("there is no connection %q; the configuration has %s", name, strings.Join(known, ", "))
		}
		out = append(out, c.Connections[i])
	}
	return out, nil
}

// Has refuses the name of an unknown connection; a blank one means all of them.
func (c *Config) Has(connection string) error {
	if connection == "" {
		return nil
	}
	_, err := c.Named([]string{connection})
	return err
}

// FindsTwoWay reports whether a connection detects by itself that it only links.
func (c *Config) FindsTwoWay(connection string) bool {
	conn, err := c.One(connection)
	return err == nil && (conn.TwoWay == "" || conn.TwoWay == string(syncer.TwoWayAuto))
}

// ReliesOn reports whether any configured part needs the consent of this name.
func (c *Config) ReliesOn(consent string) bool {
	if consent == BillingConsent {
		return c.Billing.Dialect.APIAuth == AuthorizationCode
	}
	found, err := c.Named([]string{consent})
	return err == nil && found[0].Source.Consents()
}

// One returns the connection with this name, or the only one.
func (c *Config) One(connection string) (Connection, error) {
	if connection == "" && len(c.Connections) > 1 {
		return Connection{}, usage.Errorf("there are several connections; name one with --connection")
	}
	var names []string
	if connection != "" {
		names = []string{connection}
	}
	found, err := c.Named(names)
	if err != nil {
		return Connection{}, err
	}
	return found[0], nil
}
