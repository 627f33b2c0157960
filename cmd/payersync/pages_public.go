package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/pages"
	"payersync/connector/server"
	"payersync/connector/transport"
)

// mayBePublic fails if others can reach the pages and only links made on this machine could sign anybody in.
// serve then refuses to start, a node refuses requests for the pages, and check reports it.
func mayBePublic(ctx context.Context, s *session.Session) error {
	if !s.Config.Server.AdminPublic() || s.Config.Pages.OIDC != nil {
		return nil
	}
	users, err := s.Ledger.Users(ctx)
	if err != nil || len(users) > 0 {
		return err
	}
	return usage.Errorf("the pages at server.admin %s cannot start: other machines can reach them, and there is neither a user nor pages.oidc; create the first user with payersync pages users invite NAME --role admin, or set pages.oidc", s.Config.Server.Admin)
}

// checkPages checks whether serve can show the pages.
func checkPages(ctx context.Context, s *session.Session) []finding {
	c := s.Config
	if c.Server.Admin == "" {
		return nil
	}
	if why := c.NoPages(); why != "" {
		return []finding{{Check: "pages", OK: true, Warning: true, Detail: "not shown on this node: " + why,
			Next: "start a node with the fitting server.admin, or change server.admin_url; webhooks and jobs need no pages"}}
	}
	err := mayBePublic(ctx, s)
	if err == nil && c.Server.AdminTLS != nil {
		_, err = newCertificate(c.Server.AdminTLS)
	}
	found := []finding{tell("pages", "at "+c.Server.AdminAddress(), err)}
	if provider := providerOf(s); provider != nil {
		_, err := provider.Discover(ctx)
		if err != nil {
			err = fmt.Errorf("the provider %s does not name its addresses: %w; check pages.oidc.issuer and the network",
				provider.Issuer, err)
		}
		found = append(found, tell("pages.oidc",
			"the provider answers; the address to register there is "+provider.Address+pages.CallbackPath, err))
	}
	return found
}

// providerPatience is how long the provider has for an answer: somebody waits for it.
const providerPatience = 10 * time.Second

// providerOf returns the OpenID Connect provider; nil for none.
func providerOf(s *session.Session) *pages.Provider {
	o := s.Config.Pages.OIDC
	if o == nil {
		return nil
	}
	client := s.Config.Client(transport.Options{Timeout: providerPatience, MaxBody: 1 << 20, Retries: 1})
	return &pages.Provider{
		Issuer: o.Issuer, ID: o.ClientID.Expose(), Secret: o.ClientSecret.Secret, Address: s.Config.Server.AdminAddress(),
		Name: o.Name, Scopes: o.Scopes,
		NameClaim: o.NameClaim, RoleClaim: o.RoleClaim, HTTP: client.HTTPClient(transport.IfNoEffect),
		Roles: map[pages.Role][]string{pages.Viewer: o.Roles.Viewer, pages.Operator: o.Roles.Operator,
			pages.Admin: o.Roles.Admin},
	}
}

// adminHandler answers with the pages of the installation in force. Behind proxies, it refuses requests from
// elsewhere: their headers cannot be trusted.
func (svc *service) adminHandler() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		at := svc.inForce.Load()
		if fronts := at.Config.Server.TrustedFronts(); len(fronts) > 0 && !server.FromProxy(r, fronts) {
			http.Error(w, "The pages are reached through the proxy in front of them.", http.StatusForbidden)
			return
		}
		// other nodes and the account's webhooks do not wait for its first user
		if at.Config.Node != nil && !at.public.Load() {
			if err := mayBePublic(r.Context(), at.Session); err != nil {
				http.Error(w, "Nobody may come in yet: make the first user with payersync pages users invite, or set pages.oidc.",
					http.StatusForbidden)
				return
			}
			at.public.Store(true)
		}
		at.pages.ServeHTTP(w, r)
	}
}

// network returns a function for the network of a page's request.
func network(c config.Server) func(*http.Request) string {
	fronts := c.TrustedFronts()
	return func(r *http.Request) string { return server.Network(r, fronts).String() }
}

// certificate is a certificate renewed on the disk while in use.
type certificate struct {
	files *config.TLS

	mu     sync.Mutex
	loaded *tls.Certificate
	of     time.Time // the time of its file
}

// newCertificate returns the certificate of these files, or an error in three parts.
func newCertificate(files *config.TLS) (*certificate, error) {
	c := &certificate{files: files}
	pair, err := c.current()
	if err == nil && !time.Now().Before(pair.Leaf.NotAfter) {
		err = fmt.Errorf("the certificate %s ran out on %s", files.Cert, pair.Leaf.NotAfter.UTC().Format(time.DateOnly))
	}
	if err != nil {
		return nil, usage.Errorf("cannot show the pages over TLS: %w; put the certificate and its key at the paths in server.admin_tls", err)
	}
	return c, nil
}

// current returns the certificate on the disk. If it is unreadable, or its key is not renewed yet, the
// earlier one stays in use.
func (c *certificate) current() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.files.Cert)
	if err == nil && (c.loaded == nil || !info.ModTime().Equal(c.of)) {
		var made tls.Certificate
		if made, err = tls.LoadX509KeyPair(c.files.Cert, c.files.Key); err == nil {
			c.loaded, c.of = &made, info.ModTime()
		}
	}
	if c.loaded != nil {
		return c.loaded, nil
	}
	return nil, err
}

// config returns how TLS is spoken with it.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current() }}
}
