package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/server"
	"payersync/state"
	"payersync/state/files"
)

func (a *app) webhooksCmd() *cobra.Command {
	c := &cobra.Command{
		Use:     "webhooks",
		Short:   "Subscribe to webhooks, look at what came in, replay, close, test",
		Example: "  payersync webhooks subscribe\n  payersync webhooks list --state quarantined",
	}
	return subcommands(c, a.webhooksSubscribeCmd(), a.webhooksListCmd(), a.webhooksShowCmd(), a.webhooksReplayCmd(), a.webhooksCloseCmd(), a.webhooksTestCmd())
}

func (a *app) webhooksSubscribeCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "subscribe",
		Short: "Tell the billing service where to send webhooks",
		Long: `Registers billing.webhook.public_url for the configured events. Doing it again
replaces the subscription. When the service answers with a new signing secret, it
is written to a file beside the ledger and never printed: add the file to
billing.webhook.signature.secrets.`,
		Example: "  payersync webhooks subscribe",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), a.open, func(s *session.Session) error {
				return a.subscribe(cmd.Context(), s)
			})
		},
	}
}

func (a *app) subscribe(ctx context.Context, s *session.Session) error {
	hook := s.Config.Billing.Webhook
	if hook == nil {
		return usage.Errorf("the configuration has no billing.webhook; add public_url, events and signature")
	}
	sub, err := s.Billing.Subscribe(ctx, billing.Subscription{
		URL: hook.PublicURL, Events: hook.Events, Name: "payersync", Description: "keeps customers and mandates in step",
	})
	// A secret that the service has made is kept even when a later step failed:
	// the service signs with it from now on (fault F41).
	kept, keepErr := keepSecrets(s.Config.Ledger.Path, sub, a.now())
	for _, path := range kept {
		a.Say("A new secret is in %s: add file:%s to the configuration, and restart serve.", path, path)
	}
	if err := errors.Join(err, keepErr); err != nil {
		return fmt.Errorf("cannot subscribe to webhooks: %w", err)
	}
	made := subscriptionOf(sub)
	made.Enabled = true
	if err := s.Ledger.Do(ctx, func(tx *state.Tx) error {
		_, err := tx.SaveSubscription(state.SubscriptionFacts{Expected: &made})
		return errors.Join(err, tx.Audit(state.Entry{Actor: actor(), Action: "subscribe to webhooks", Subject: sub.ID}))
	}); err != nil {
		return err
	}
	if a.JSON() {
		return show.JSON(a.Out, map[string]any{"id": sub.ID, "url": sub.URL, "events": sub.Events, "enabled": sub.Enabled})
	}
	_, err = fmt.Fprintf(a.Out, "Subscribed to %v at %s (subscription %s).\n", sub.Events, sub.URL, show.Visible(sub.ID))
	return err
}

// keepSecrets writes the secrets of a subscription to new files beside the ledger.
// Where root subscribes, they are the ledger's owner's, who is to use them.
func keepSecrets(ledger string, sub billing.Subscription, now time.Time) (paths []string, err error) {
	folder, err := files.OpenFolder(filepath.Dir(ledger))
	if err != nil {
		return nil, fmt.Errorf("keep the webhook secret: %w", err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	for name, secret := range map[string]connector.Secret{"webhook-secret": sub.Secret, "webhook-delivery-key": sub.DeliveryKey} {
		if secret.IsZero() {
			continue
		}
		file := fmt.Sprintf("%s-%s", name, now.UTC().Format("20060102T150405.000Z"))
		f, openErr := folder.CreateFor(file, filepath.Base(ledger))
		if openErr != nil {
			err = errors.Join(err, fmt.Errorf("keep the %s: %w", name, openErr))
			continue
		}
		_, writeErr := f.WriteString(secret.Expose() + "\n")
		err = errors.Join(err, writeErr, f.Sync(), f.Close())
		paths = append(paths, filepath.Join(filepath.Dir(ledger), file))
	}
	return paths, err
}

var inboxStates = []connector.InboxState{
	connector.InboxReceived, connector.InboxReflected, connector.InboxSuperseded, connector.InboxParked, connector.InboxQuarantined, connector.InboxIgnored,
}

func (a *app) webhooksListCmd() *cobra.Command {
	f := state.Filter{Limit: 50}
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the deliveries that came in, newest first",
		Example: "  payersync webhooks list --state quarantined --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), a.openReport, func(s *session.Session) error {
				if err := oneOf("state", f.State, inboxStates...); err != nil {
					return err
				}
				limit := max(0, f.Limit)
				f.Limit = oneMore(limit)
				deliveries, err := s.Ledger.Inbox(cmd.Context(), f)
				if err != nil {
					return err
				}
				deliveries, more := upTo(deliveries, limit)
				defer a.tellMore(more, limit)
				if a.JSON() {
					return show.Lines(a.Out, deliveries)
				}
				var rows [][]string
				for _, d := range deliveries {
					rows = append(rows, []string{show.Stored(d.ReceivedAt), d.EventType, d.BillingID, d.State, d.DeliveryKey})
				}
				a.Rows([]string{"Received", "Type", "Customer", "State", "Delivery"}, rows)
				return nil
			})
		},
	}
	c.Flags().StringVar(&f.State, "state", "", "only this state (received, reflected, superseded, parked, quarantined, ignored)")
	c.Flags().IntVar(&f.Limit, "limit", f.Limit, "at most so many; 0 for all")
	return c
}

func (a *app) webhooksTestCmd() *cobra.Command {
	var local bool
	c := &cobra.Command{
		Use:   "send-test",
		Short: "Send a signed test delivery to the endpoint",
		Long: `Signs a harmless delivery with the configured secret and sends it to
billing.webhook.public_url, or with --local straight to server.webhooks. It shows
whether the endpoint is reached, the signature is right and the inbox takes it.`,
		Example: "  payersync webhooks send-test --local",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			return a.sendTest(cmd.Context(), cfg, local)
		},
	}
	c.Flags().BoolVar(&local, "local", false, "send to server.webhooks on this machine, past any proxy")
	return c
}

func (a *app) sendTest(ctx context.Context, cfg *config.Config, local bool) error {
	sent, err := a.deliverTest(ctx, cfg, local)
	var wrong usage.Error
	switch {
	case errors.As(err, &wrong):
		return err
	case err != nil:
		return fmt.Errorf("cannot reach the endpoint: %w; is payersync serve running?", err)
	case a.JSON():
		err = show.JSON(a.Out, map[string]any{"url": sent.url, "status": sent.status})
	case sent.taken():
		_, err = fmt.Fprintf(a.Out, "%s answered %s: signed deliveries arrive.\n", sent.url, sent.text)
	}
	if !sent.taken() {
		return fmt.Errorf("%s answered %s; a 401 means another secret, a 404 another path", sent.url, sent.text)
	}
	return err
}

// testDelivery makes a signed event of a kind that payersync keeps and ignores, and the key
// that it is kept by.
func (a *app) testDelivery(ctx context.Context, cfg *config.Config, local bool) (req *http.Request, key string, err error) {
	hook := cfg.Billing.Webhook
	if hook == nil {
		return nil, "", usage.Errorf("the configuration has no billing.webhook; add public_url, events and signature")
	}
	verifier, err := billing.NewVerifier(hook.Signature.Signature)
	if err != nil {
		return nil, "", usage.Error{Err: err}
	}
	id := "payersync-test-" + rand.Text()
	body := fmt.Appendf(nil, `{"type":"payment","eventId":%q}`, id)
	req, err = http.NewRequestWithContext(ctx, http.MethodPost, hook.PublicURL, bytes.NewReader(body))
	if err != nil {
		return nil, "", usage.Errorf("billing.webhook.public_url: %w", err)
	}
	if local {
		req.URL.Scheme, req.URL.Host, req.Host = "http", loopback(cfg.Server.Webhooks), ""
	}
	req.Header.Set("Content-Type", "application/json")
	now := a.now()
	verifier.Sign(req.Header, id, body, now)
	signed, err := verifier.Verify(req.Header, body, now)
	if err != nil {
		return nil, "", fmt.Errorf("sign a test delivery: %w", err)
	}
	return req, server.KeyOf(hook.EventPaths, req.Header, signed, body), nil
}
