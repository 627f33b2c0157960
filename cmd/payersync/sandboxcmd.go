package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/server"
)

// quickStartSecret signs the sandbox's webhooks as configs/quickstart expects.
// It protects nothing: the sandbox holds no real payer.
const quickStartSecret = "quick-start-only-this-is-no-secret"

func (a *app) sandboxCmd() *cobra.Command {
	var listen, secret string
	var hosts []string
	var latency time.Duration
	c := &cobra.Command{
		Use:   "sandbox",
		Short: "Serve a model of the billing service for your own tests",
		Long: `Serves a model of the billing service on this machine: customers, mandates, signing
pages and signed webhooks, in memory, gone when it stops. Its page lists customers
and mandates with buttons to sign, approve and cancel. The configuration that
payersync init writes speaks to it.`,
		Example: "  payersync sandbox\n  payersync init quickstart && payersync backfill --config quickstart/payersync.yaml --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return fmt.Errorf("cannot serve the sandbox on %s: %w; choose another address with --listen", listen, err)
			}
			model := newSandbox(listener, connector.NewSecret(secret), latency, hosts...)
			a.Say("The sandbox is at http://%s (API below /api, client sandbox, secret sandbox-secret). Ctrl-C stops it.", listener.Addr())
			return serveSandbox(cmd.Context(), listener, model)
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8090", "`ADDRESS` to serve on")
	c.Flags().StringSliceVar(&hosts, "host", nil, "further `NAME` that it answers to, beside localhost and addresses")
	c.Flags().StringVar(&secret, "webhook-secret", quickStartSecret, "what webhooks are signed with")
	c.Flags().DurationVar(&latency, "latency", 0, "how long every API request takes")
	return c
}

// newSandbox makes a sandbox that is reached through listener.
func newSandbox(listener net.Listener, secret connector.Secret, latency time.Duration, hosts ...string) *sandbox.Sandbox {
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails (crypto/rand)
	return sandbox.New(sandbox.Options{
		PublicURL: "http://" + listener.Addr().String(), Hosts: hosts, Now: time.Now, Seed: binary.LittleEndian.Uint64(seed[:]), Latency: latency,
		Deliver:  &http.Client{Timeout: 10 * time.Second},
		Switches: sandbox.Switches{Signature: sandbox.Signature{Header: "x-signature", Encoding: "hex", Signed: "{body}", Secret: secret}},
	})
}

// serveSandbox serves the model and sends its webhooks until ctx ends.
func serveSandbox(ctx context.Context, listener net.Listener, model *sandbox.Sandbox) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	delivered := make(chan error, 1)
	go func() { delivered <- model.Run(ctx) }()
	err := server.Serve(ctx, listener, server.NewHTTPServer(model))
	cancel()
	if sending := <-delivered; err == nil {
		err = sending
	}
	return err
}
