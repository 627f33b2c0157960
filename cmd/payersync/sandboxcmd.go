package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/sandbox/catcher"
	"payersync/connector/server"
	"payersync/connector/transport"
)

// quickStartSecret signs the sandbox's webhooks as configs/quickstart expects.
// It protects nothing: the sandbox holds no real payer.
const quickStartSecret = "quick-start-only-this-is-no-secret"

// sandboxFlags are how sandbox was called.
type sandboxFlags struct {
	listen  string
	smtp    string // "" for no mail server
	secret  string
	hosts   []string
	latency time.Duration

	profile    string
	switches   []string
	faults     []string
	mailFaults []string
	view, from string
}

func (a *app) sandboxCmd() *cobra.Command {
	var f sandboxFlags
	c := &cobra.Command{
		Use:   "sandbox",
		Short: "Serve a model of the billing service for your own tests",
		Long: `Serves a model of the billing service on this machine: customers, mandates, signing
pages and signed webhooks. It keeps them in memory, until it stops. Its page lists
customers and mandates with buttons to sign, approve and cancel. A mail server beside
it catches letters to payers: it delivers nothing, and the page shows them. The
configuration of payersync init uses both.

To rehearse, use --profile, --switch and --fault: the model then answers like your own
service, or with faults. Start it again to change them. --mail-fault does the same for
letters.

` + sandboxHelp(),
		Example: "  payersync sandbox\n  payersync sandbox --profile adfin --switch update=path_id --fault throttled,every=10,retry_after=2\n  payersync sandbox --from customers.csv\n  payersync init quickstart && payersync backfill --config quickstart/payersync.yaml --yes",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.sandbox(cmd.Context(), f) },
	}
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8090", "`ADDRESS` to serve on")
	c.Flags().StringVar(&f.smtp, "smtp", "127.0.0.1:2525",
		"`ADDRESS` on this machine to catch letters on; none when empty")
	c.Flags().StringSliceVar(&f.hosts, "host", nil, "further `NAME` of the server, beside localhost and addresses")
	c.Flags().StringVar(&f.secret, "webhook-secret", quickStartSecret,
		"the secret that signs webhooks; for ed25519 the seed of the key")
	c.Flags().DurationVar(&f.latency, "latency", 0, "how long every API request takes")
	c.Flags().StringVar(&f.profile, "profile", "standard", "the profile to start from: `NAME` is standard or adfin")
	c.Flags().StringArrayVar(&f.switches, "switch", nil, "set one switch, `NAME=VALUE`; may be given again")
	c.Flags().StringArrayVar(&f.faults, "fault", nil,
		"let requests go wrong, `KIND[,FIELD=VALUE,...]`; may be given again")
	c.Flags().StringArrayVar(&f.mailFaults, "mail-fault", nil,
		"let letters go wrong, `KIND[,FIELD=VALUE,...]`; may be given again")
	c.Flags().StringVar(&f.view, "view", "", "show readers less, `MEMBER=VALUE[,...]`")
	c.Flags().StringVar(&f.from, "from", "", "start with the customers of a CSV `FILE`")
	return c
}

func (a *app) sandbox(ctx context.Context, f sandboxFlags) error {
	rehearsed, err := f.rehearsal()
	if err != nil {
		return usage.Mistake{Err: err}
	}
	mail, err := a.openMail(ctx, f.smtp)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		if mail != nil {
			_ = mail.Close() // nobody was told of it yet
		}
		return fmt.Errorf("cannot serve the sandbox on %s: %w; choose another address with --listen", f.listen, err)
	}
	opt := sandbox.Options{Hosts: f.hosts, Latency: f.latency, Switches: rehearsed.switches}
	if mail != nil {
		opt.Letters = catcher.New(catcher.Config{})
		for _, fault := range rehearsed.mailFaults {
			opt.Letters.Inject(fault)
		}
	}
	model := newSandbox(listener, connector.NewSecret(f.secret), opt)
	rehearsed.start(model)
	if err := a.beginWith(ctx, model, f.from); err != nil {
		_ = listener.Close()
		if mail != nil {
			_ = mail.Close()
		}
		return err
	}
	if f.profile != "standard" || len(f.switches) > 0 {
		a.Print("%s", pasted("http://"+listener.Addr().String()+"/api", f.profile, model))
	}
	a.Print("The sandbox is at http://%s (API below /api, client sandbox, secret sandbox-secret). Ctrl-C stops it.",
		listener.Addr())
	if mail == nil {
		return serveSandbox(ctx, listener, model)
	}
	a.Print("Its mail server is at %s; letters are on the page http://%s/letters.", mail.Addr(), listener.Addr())
	ctx, stop := context.WithCancel(ctx)
	caught := make(chan error, 1)
	go func() { caught <- opt.Letters.Serve(ctx, mail) }()
	err = serveSandbox(ctx, listener, model)
	stop()
	return errors.Join(err, <-caught)
}

// openMail opens the port for catching letters. If the port is taken, it says so, and the sandbox has no mail
// server; nor does it without an address.
func (a *app) openMail(ctx context.Context, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil || !connector.IsLoopback(host) {
		return nil, usage.Errorf("--smtp is %q: letters are caught on this machine only; write it as 127.0.0.1:PORT", address)
	}
	mail, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		a.Print("Warning: no letters are caught: %v; choose another port with --smtp, or none with --smtp \"\".", err)
		return nil, nil
	}
	return mail, nil
}

// newSandbox makes a sandbox behind listener, with the options opt.
func newSandbox(listener net.Listener, secret connector.Secret, opt sandbox.Options) *sandbox.Sandbox {
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails (crypto/rand)
	opt.PublicURL, opt.Seed = "http://"+listener.Addr().String(), binary.LittleEndian.Uint64(seed[:])
	opt.Deliver = &http.Client{Timeout: 10 * time.Second, Transport: transport.WithUserAgent(nil)}
	opt.Switches.Signature.Secret = secret
	return sandbox.New(opt)
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
