package config

import (
	"reflect"
	"slices"
)

// KeepUntilRestart keeps the values of running, the configuration at the process's start, for settings fixed
// until a restart. It returns the keys with new values that must wait.
func (c *Config) KeepUntilRestart(running *Config) (keys []string) {
	for _, s := range []struct {
		key       string
		own, kept *string
	}{
		{"ledger.path", &c.Ledger.Path, &running.Ledger.Path},
		{"ledger.key_file", &c.Ledger.KeyFile, &running.Ledger.KeyFile},
		{"server.webhooks", &c.Server.Webhooks, &running.Server.Webhooks},
		{"server.health", &c.Server.Health, &running.Server.Health},
		{"server.admin", &c.Server.Admin, &running.Server.Admin},
		{"server.metrics", &c.Server.Metrics, &running.Server.Metrics},
	} {
		if *s.own != *s.kept {
			*s.own, keys = *s.kept, append(keys, s.key)
		}
	}
	own, kept := &c.Server, running.Server
	if own.AdminURL != kept.AdminURL || !slices.Equal(own.AdminProxies, kept.AdminProxies) ||
		!reflect.DeepEqual(own.AdminTLS, kept.AdminTLS) {
		own.AdminURL, own.AdminProxies, own.AdminTLS = kept.AdminURL, kept.AdminProxies, kept.AdminTLS
		keys = append(keys, "server.admin_url, admin_tls or admin_proxies")
	}
	if !slices.Equal(own.TrustedProxies, kept.TrustedProxies) {
		own.TrustedProxies, keys = kept.TrustedProxies, append(keys, "server.trusted_proxies")
	}
	if own.Limits.Connections != kept.Limits.Connections {
		own.Limits.Connections, keys = kept.Limits.Connections, append(keys, "server.limits.connections")
	}
	if own.Limits.ReadTimeout != kept.Limits.ReadTimeout {
		own.Limits.ReadTimeout, keys = kept.Limits.ReadTimeout, append(keys, "server.limits.read_timeout")
	}
	return keys
}
