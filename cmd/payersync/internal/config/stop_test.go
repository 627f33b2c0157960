package config

import "testing"

func TestWhereRemindersAreStopped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ own, public, listen, url, path string }{
		{"", "https://hooks.example.com/webhooks/billing", ":8080", "https://hooks.example.com/letters/stop",
			"/letters/stop/"},
		{"", "https://hooks.example.com:8443/x", ":8080", "https://hooks.example.com:8443/letters/stop", "/letters/stop/"},
		{"", "http://127.0.0.1:8080/webhooks", ":8080", "", "/letters/stop/"},
		{"", "https://hooks.example.com/x", "", "", "/letters/stop/"},
		{"", "", ":8080", "", "/letters/stop/"},
		{"https://pay.example.com/p/letters/stop/", "https://hooks.example.com/x", ":8080",
			"https://pay.example.com/p/letters/stop", "/p/letters/stop/"},
		{"https://pay.example.com", "", ":8080", "https://pay.example.com/letters/stop", "/letters/stop/"},
	} {
		var cfg Config
		cfg.Letters.StopURL, cfg.Server.Webhooks = c.own, c.listen
		if c.public != "" {
			cfg.Billing.Webhook = &Webhook{PublicURL: c.public}
		}
		if cfg.StopURL() != c.url || cfg.StopPath() != c.path {
			t.Errorf("with %+v reminders are stopped at %q, path %q", c, cfg.StopURL(), cfg.StopPath())
		}
	}
}
