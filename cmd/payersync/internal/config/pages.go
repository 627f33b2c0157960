package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"payersync/connector"
	"payersync/mapping/strict"
)

// Pages configures permissions on the pages, and the sign-in.
type Pages struct {
	Approve  string `yaml:"approve" jsonschema:"enum=operator,enum=admin" jsonschema_description:"The least role that approves plans and write-backs on the pages, and rejects plans. Default operator."`
	FourEyes bool   `yaml:"four_eyes" jsonschema_description:"Who saved the mapping version that made a plan may not approve it: neither on the pages nor by a command. Default false."`
	OIDC     *OIDC  `yaml:"oidc" jsonschema_description:"A provider that signs people in by OpenID Connect. Left out, there is none."`
}

// OIDC is a provider for signing in.
type OIDC struct {
	Name         string   `yaml:"name" jsonschema_description:"What the button calls it. Default the issuer's host."`
	Issuer       string   `yaml:"issuer" jsonschema:"required" jsonschema_description:"Its address, exactly as its tokens name it, for example https://login.example.com/realms/firm."`
	ClientID     Secret   `yaml:"client_id" jsonschema:"required" jsonschema_description:"env:NAME, file:PATH or the id itself. The redirect address to register there is server.admin_url with /signin/oidc/callback behind it."`
	ClientSecret Secret   `yaml:"client_secret" jsonschema:"required" jsonschema_description:"env:NAME or file:PATH."`
	Scopes       []string `yaml:"scopes" jsonschema_description:"What is asked for beside openid. Default email and profile."`
	NameClaim    string   `yaml:"name_claim" jsonschema_description:"The claim that names a person in the audit log. It must be one that people cannot change themselves. Default email."`
	RoleClaim    string   `yaml:"role_claim" jsonschema:"required" jsonschema_description:"The claim that decides the role, a text or a list; dots lead into one within another, as in realm_access.roles."`
	Roles        Roles    `yaml:"roles" jsonschema:"required" jsonschema_description:"Which of its values give which role; the highest counts. Who has none does not get in."`
}

// Roles are the claim's values for each role.
type Roles struct {
	Viewer   []string `yaml:"viewer"`
	Operator []string `yaml:"operator"`
	Admin    []string `yaml:"admin"`
}

// TrustedFronts returns the proxies in front of the pages.
func (s Server) TrustedFronts() (out []netip.Prefix) {
	return connector.Map(s.AdminProxies, func(p Network) netip.Prefix { return netip.Prefix(p) })
}

// AdminAddress returns the address of the pages for browsers, without a path; "" without pages.
func (s Server) AdminAddress() string {
	if s.AdminURL != "" || s.Admin == "" {
		return strings.TrimSuffix(s.AdminURL, "/")
	}
	scheme := "http"
	if s.AdminTLS != nil {
		scheme = "https"
	}
	return (&url.URL{Scheme: scheme, Host: s.Admin}).String()
}

// AdminHost returns the name in that address; "" without pages.
func (s Server) AdminHost() string {
	u, err := url.Parse(s.AdminAddress())
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// AdminSecure reports whether browsers reach the pages over TLS alone.
func (s Server) AdminSecure() bool { return s.AdminTLS != nil || len(s.AdminProxies) > 0 }

// PagesScheme returns the scheme of the pages for browsers, http or https; "" without pages.
func (s Server) PagesScheme() string {
	switch {
	case s.Admin == "":
		return ""
	case s.AdminSecure():
		return "https"
	}
	return "http"
}

// AdminPublic reports whether others than this machine reach the pages.
func (s Server) AdminPublic() bool {
	host, _, _ := net.SplitHostPort(s.Admin)
	return s.Admin != "" && (!connector.IsLoopback(host) || len(s.AdminProxies) > 0)
}

// NoPages says why this node does not show the pages of its account, although it shows pages; "" if it does.
// Webhooks and jobs of the account need no pages.
func (c *Config) NoPages() string {
	s := c.Server
	scheme, _, _ := strings.Cut(s.AdminURL, "://")
	switch {
	case c.Node == nil || s.Admin == "":
		return ""
	case s.AdminURL == "" && s.AdminPublic():
		return "the account has no server.admin_url, so the node does not know the name of its pages"
	case s.AdminURL != "" && scheme != s.PagesScheme():
		return fmt.Sprintf("the account's server.admin_url is %s, and this node shows pages over %s; a node shows pages over https with server.admin_tls or server.admin_proxies", s.AdminURL, s.PagesScheme())
	}
	return ""
}

// adminListener checks the pages' listener.
func (c *check) adminListener() {
	s := &c.config.Server
	at := strict.Path{"server", "admin"}
	if host, _, err := net.SplitHostPort(s.Admin); err == nil && !connector.IsLoopback(host) && !s.AdminSecure() {
		c.report(at, "server.admin is %s, which other machines can reach, and the traffic is not encrypted; name a certificate in server.admin_tls, or your TLS proxy in server.admin_proxies, or choose 127.0.0.1 and use a tunnel, for example ssh -L", s.Admin)
	}
	if t := s.AdminTLS; t != nil {
		t.Cert, t.Key = c.path(t.Cert), c.path(t.Key)
		c.config.Files = append(c.config.Files, t.Key)
		if _, exposed, _ := readSecret(t.Key); exposed != 0 {
			c.report(strict.Path{"server", "admin_tls", "key"},
				"other users of this machine may read the file %s (mode %04o), which holds a private key; run chmod 600 %[1]s",
				t.Key, exposed)
		}
	}
}

// adminAddress checks the pages' name for browsers.
func (c *check) adminAddress() {
	s := &c.config.Server
	at := strict.Path{"server", "admin"}
	url := strict.Path{"server", "admin_url"}
	switch {
	case s.AdminURL != "" && c.config.Node != nil: // another node may show the pages: see Config.NoPages
		if u := c.url(url, s.AdminURL); u != nil && strings.Trim(u.Path, "/") != "" {
			c.report(url, "server.admin_url is %s; remove its path", s.AdminURL)
		}
	case s.AdminURL != "":
		if u := c.url(url, s.AdminURL); u != nil &&
			(strings.Trim(u.Path, "/") != "" || s.AdminSecure() != (u.Scheme == "https")) {
			c.report(url, "server.admin_url is %s; it needs no path, and begins with https:// if server.admin_tls or server.admin_proxies is set, else with http://", s.AdminURL)
		}
	case c.config.Node == nil && s.AdminPublic() && s.AdminSecure():
		c.report(at, "other machines can reach server.admin, and the pages need to know their public name; write it into server.admin_url, for example https://payers.example.com")
	}
}

// oidc checks the sign-in. The ledger knows the users: serve and check read it.
func (c *check) oidc() {
	o := c.config.Pages.OIDC
	if o == nil {
		return
	}
	at := strict.Path{"pages", "oidc"}
	c.url(at.Key("issuer"), o.Issuer)
	c.resolve(at.Key("client_id"), &o.ClientID)
	c.resolve(at.Key("client_secret"), &o.ClientSecret)
	o.NameClaim = cmp.Or(o.NameClaim, "email")
	if c.doc.Node(at.Key("scopes")) == nil {
		o.Scopes = []string{"email", "profile"}
	}
	if strings.TrimSpace(o.RoleClaim) == "" {
		c.report(at.Key("role_claim"),
			"pages.oidc.role_claim is blank; name the claim with the user's role, for example groups")
	}
	if len(o.Roles.Viewer)+len(o.Roles.Operator)+len(o.Roles.Admin) == 0 {
		c.report(at.Key("roles"),
			"pages.oidc.roles gives nobody a role, so nobody would get in; write, for example: roles: {operator: [accounting], admin: [it]}")
	}
}
