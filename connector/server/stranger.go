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

// Strangers returns what answers deliveries at addresses that are nobody's: it looks at them as every
// endpoint does and finds each signature false, so that whoever tries addresses learns nothing from the answers.
// report is told of every request, by several goroutines at once.
func Strangers(proxies []netip.Prefix, now func() time.Time, report func(Event)) (http.Handler, error) {
	verifier, err := billing.NewVerifier(billing.Signature{Scheme: "standard-webhooks", Secrets: []connector.Secret{connector.NewSecret(rand.Text() + rand.Text())}})
	if err != nil {
		return nil, fmt.Errorf("open the addresses of nobody: %w", err)
	}
	s := newServer(Config{Keys: Keys{Verifier: verifier}, TrustedProxies: proxies, Now: now, Report: report})
	return http.HandlerFunc(s.serveWebhook), nil
}
