package server

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
)

// Strangers returns a handler for deliveries at unknown addresses. It finds every signature false, as a real
// endpoint does, so nobody can probe for addresses. It calls report for every request, from several
// goroutines at once.
func Strangers(proxies []netip.Prefix, now func() time.Time, report func(Event)) (http.Handler, error) {
	verifier, err := billing.NewVerifier(billing.Signature{Scheme: "standard-webhooks",
		Secrets: []connector.Secret{connector.NewSecret(rand.Text() + rand.Text())}})
	if err != nil {
		return nil, fmt.Errorf("open the addresses of nobody: %w", err)
	}
	s := newServer(Config{Keys: Keys{Verifier: verifier}, TrustedProxies: proxies, Now: now, Report: report})
	return http.HandlerFunc(s.serveWebhook), nil
}
