package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/server"
	"payersync/connector/transport"
)

// healthcheckCmd checks whether a running serve is alive, for containers with nothing but this binary.
func (a *app) healthcheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "healthcheck",
		Short:   "Ask a running serve on this machine whether it is alive",
		Example: "  payersync healthcheck --config /etc/payersync/payersync.yaml",
		Hidden:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			listens, err := a.listeners()
			if err != nil {
				return err
			}
			address := cmp.Or(listens.Health, listens.Webhooks)
			if address == "" {
				return usage.Errorf("server.webhooks and server.health are blank, so serve answers nobody; give one an address to have health pages")
			}
			return healthy(cmd.Context(), address)
		},
	}
}

// listeners are the addresses of serve.
func (a *app) listeners() (config.Server, error) {
	if config.IsNode(a.config) {
		node, err := config.LoadNode(a.config, a.getenv)
		if err != nil {
			return config.Server{}, usage.Mistake{Err: err}
		}
		return node.Server, nil
	}
	cfg, err := a.loadLocal()
	if err != nil {
		return config.Server{}, err
	}
	return cfg.Server, nil
}

// healthy asks the server on addr.
func healthy(ctx context.Context, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+loopback(addr)+server.HealthPath, nil)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 4 * time.Second, Transport: transport.WithUserAgent(nil)}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", addr, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s: it answered %s", addr, resp.Status)
	}
	return nil
}

// loopback returns this machine's address for a server on addr, which may stand for all of its addresses.
func loopback(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}
