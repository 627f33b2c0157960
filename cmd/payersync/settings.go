package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/connector/syncer"
	"slices"
	"strings"
	"time"

	"payersync/cmd/payersync/internal/usage"
)

// What an operator cannot set, because a wrong value would be unsafe or only slow.
const (
	probeAfter = 15 * time.Minute // age of the last list from which a create searches once more
	overlap    = 5 * time.Minute  // how far a reading position is set back (accounting/README.md#the-position-is-the-start-of-the-run)
	grace      = 20 * time.Second // how long requests in flight may finish after an interruption
	perSlot    = 8                // changes worked on for each request in flight: the others wait for the ledger
)

// billingConsent is what payersync connect calls the billing service, and
// authorizationCode the dialect.api_auth that it is for.
const (
	billingConsent    = "billing"
	authorizationCode = "authorization_code"
)

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
			return nil, usage.Errorf("there is no connection %q; the configuration has %s", name, strings.Join(known, ", "))
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

func (c *config) reliesOn(consent string) bool {
	if consent == billingConsent {
		return c.Billing.Dialect.APIAuth == authorizationCode
	}
	found, err := c.configured([]string{consent})
	return err == nil && found[0].Source.consents()
}

// one returns the connection with this name, or the only one.
func (c *config) one(connection string) (connectionConfig, error) {
	if connection == "" && len(c.Connections) > 1 {
		return connectionConfig{}, usage.Errorf("there are several connections; name one with --connection")
	}
	var names []string
	if connection != "" {
		names = []string{connection}
	}
	found, err := c.configured(names)
	if err != nil {
		return connectionConfig{}, err
	}
	return found[0], nil
}
