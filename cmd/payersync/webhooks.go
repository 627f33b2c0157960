package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/billing"
	"payersync/connector/server"
	"payersync/state"
)

func (a *app) webhooksCmd() *cobra.Command {
	c := &cobra.Command{
		Use:     "webhooks",
		Short:   "Subscribe to webhooks, list, replay, close and test deliveries",
		Example: "  payersync webhooks subscribe\n  payersync webhooks list --state quarantined",
	}
	return subcommands(c, also(also(a.webhooksSubscribeCmd(), "show", a.webhooksSubscriptionCmd()), "test",
		a.webhooksTestCmd()),
		also(a.webhooksListCmd(), "shapes", a.webhooksShapesCmd()), a.webhooksShowCmd(), a.webhooksReplayCmd(),
		a.webhooksCloseCmd())
}

func (a *app) webhooksSubscribeCmd() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "subscribe",
		Short: "Subscribe to webhooks of the billing service",
		Long: `Registers billing.webhook.public_url for the configured events. A repetition replaces
the subscription; the command first shows the present and the new one. If the present
one sends to another address, the command asks at a terminal, and --yes does not
answer.

The ledger keeps a new signing secret of the service, sealed, before any other step;
it is never printed. serve accepts it at once, and the old one for
billing.webhook.overlap (24 h) more. The same applies to the delivery key of some
services (billing.webhook.delivery_key). After an interruption, run it again: no
delivery is lost.`,
		Example: "  payersync webhooks subscribe",
		RunE: a.runs(a.open, func(ctx context.Context, s *session.Session, _ []string) error {
			return a.subscribe(ctx, s, yes)
		}),
	}
	c.Flags().BoolVar(&yes, "yes", false, "replace a subscription to another address without a question")
	return c
}

func (a *app) subscribe(ctx context.Context, s *session.Session, yes bool) (err error) {
	hook := s.Config.Billing.Webhook
	if hook == nil {
		return usage.Errorf("the configuration has no billing.webhook; add public_url, events and signature")
	}
	var before []state.Subscription
	var sub billing.Subscription
	var r *rotation
	acts := a.attentionOf(s)
	acts.Deliveries.Subscribe = func(ctx context.Context, by string) (_ string, err error) {
		sub, r, err = subscribeNow(ctx, s, by, func() (sure bool, err error) {
			before, sure, err = a.agreesToReplace(ctx, s, yes)
			return sure, err
		})
		return "", err
	}
	proposal, err := acts.Propose(ctx, admin.Decision{Act: connector.ActSubscribe})
	sure := false
	if err == nil {
		sure, err = a.agrees(ctx, proposal, asksInWalk, yes)
	}
	if sure {
		_, err = proposal.Perform(ctx, by(""))
	}
	if err != nil || r == nil {
		return err
	}
	a.sayOfKeys(r, hook)
	if r.unread != nil {
		return fmt.Errorf("the subscription exists, but billing.webhook.signature cannot read the service's secret: %w; correct it: until then serve asks for a repetition of each delivery that fits no other secret", r.unread)
	}
	return a.Answer(map[string]any{"id": sub.ID, "url": sub.URL, "events": sub.Events, "enabled": sub.Enabled,
		"before": before, "secret_kept": r.kept}, "Subscribed to %v at %s (subscription %s).\n", sub.Events, sub.URL,
		show.Visible(sub.ID))
}

// subscribeNow subscribes for a person, after agrees has said yes. It is nil for a no. One
// process does so at a time.
func subscribeNow(ctx context.Context, s *session.Session, by string,
	agrees func() (bool, error)) (sub billing.Subscription, r *rotation, err error) {
	hook := s.Config.Billing.Webhook
	lock, err := s.Ledger.TryRotation()
	switch {
	case err != nil:
		return sub, nil, err
	case lock == nil:
		return sub, nil, errors.New("cannot subscribe to webhooks: another payersync does so just now; let it come to its end, and see payersync webhooks subscribe --show")
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if sure, err := agrees(); err != nil || !sure {
		return sub, nil, err
	}
	if r, err = beginRotation(ctx, s, hook, by); err != nil {
		return sub, nil, err
	}
	sub, err = s.Billing.Subscribe(ctx, billing.Subscription{
		URL: hook.PublicURL, Events: hook.Events, Name: subscriptionName, Description: "keeps customers and mandates in step",
	}, billing.SetUp{Key: r.key, Keep: r.keep(ctx, hook.Signature.Signature)})
	if err != nil {
		return sub, nil, r.failed(ctx, err)
	}
	made := subscriptionOf(sub)
	made.Enabled, made.Asked = true, &state.Asked{URL: plainAddress(hook.PublicURL), Events: hook.Events}
	return sub, r, s.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		return errors.Join(tx.EndRotation(r.id), tx.Subscribed(made, by))
	})
}

// subscribeOnPages subscribes for a person on the pages. The pages show the replaced subscriptions first.
func subscribeOnPages(s *session.Session) func(context.Context, string) (string, error) {
	return func(ctx context.Context, by string) (string, error) {
		_, r, err := subscribeNow(ctx, s, by, func() (bool, error) { return true, nil })
		if err == nil && r.unread != nil {
			err = fmt.Errorf("the subscription exists, but billing.webhook.signature cannot read the service's secret: %w",
				r.unread)
		}
		return "Subscribed to webhooks again.", err
	}
}

// sayOfKeys names the signing secret and the key of later deliveries.
func (a *app) sayOfKeys(r *rotation, hook *config.Webhook) {
	if r.kept {
		a.Print("The service named a secret. The ledger keeps it, sealed, and serve accepts it at once; it accepts an earlier secret until %s.",
			show.Time(a.now().Add(time.Duration(hook.Overlap))))
	}
	if r.kept && len(hook.Signature.Secrets) > 0 {
		a.Print("The secrets of billing.webhook.signature.secrets are accepted for as long as they stand there: remove those of before.")
	}
	if len(r.key.Keys) > 0 && hook.Key == nil {
		a.Print("Deliveries have a delivery key from now on, which the ledger keeps: with delivery_key: {} in billing.webhook, serve checks it.")
	}
}

var inboxStates = []connector.InboxState{
	connector.InboxReceived, connector.InboxReflected, connector.InboxSuperseded, connector.InboxParked,
	connector.InboxQuarantined, connector.InboxIgnored,
}

func (a *app) webhooksListCmd() *cobra.Command {
	f := state.Filter{Limit: 50}
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the received deliveries, newest first",
		Example: "  payersync webhooks list --state quarantined --output json",
		RunE: a.runs(a.openReport, func(ctx context.Context, s *session.Session, _ []string) error {
			if err := oneOf("state", f.State, inboxStates...); err != nil {
				return err
			}
			limit := max(0, f.Limit)
			f.Limit = oneMore(limit)
			deliveries, err := s.Ledger.Inbox(ctx, f)
			if err != nil {
				return err
			}
			refused, err := s.Ledger.Refusals(ctx, a.refusedSince())
			if err != nil {
				return err
			}
			deliveries, more := upTo(deliveries, limit)
			defer a.printRefused(refused)
			defer a.printMore(more, limit)
			type row = state.InboxRow
			list := show.Listing[row]{Columns: []show.Column[row]{
				show.StoredMoment("received_at", "Received", func(d row) string { return d.ReceivedAt }),
				{Name: "event_type", Title: "Type", Cell: func(d row) string { return d.EventType }},
				{Name: "billing_id", Title: "Customer", Cell: func(d row) string { return d.BillingID }},
				{Name: "state", Title: "State", Cell: func(d row) string { return d.State }},
				show.StoredMoment("processed_at", "", func(d row) string { return show.Value(d.ProcessedAt) }),
				{Name: "delivery_key", Title: "Delivery", Cell: func(d row) string { return d.DeliveryKey }},
			}}
			return list.On(a.Console).Print(deliveries)
		}),
	}
	c.Flags().StringVar(&f.State, "state", "",
		"only this state (received, reflected, superseded, parked, quarantined, ignored)")
	c.Flags().IntVar(&f.Limit, "limit", f.Limit, "at most so many; 0 for all")
	return asCSV(c)
}

// refusedSince is the beginning of the period for counting refused requests.
func (a *app) refusedSince() time.Time { return a.now().AddDate(0, 0, -admin.RefusalsShown) }

// printRefused says below the deliveries how many requests did not become one.
func (a *app) printRefused(refused []state.Refusals) {
	n := 0
	for _, r := range refused {
		n += r.Count
	}
	if n > 0 {
		a.Print("Not listed: %s to the endpoint, refused in the last %d days; payersync status has the reason and the next step.", connector.Plural(n, "request"), admin.RefusalsShown)
	}
}

func (a *app) webhooksTestCmd() *cobra.Command {
	var local bool
	c := &cobra.Command{
		Use:   "send-test",
		Short: "Send a signed test delivery to the endpoint",
		Long: `Signs a harmless delivery with the configured secret and sends it to
billing.webhook.public_url, or with --local straight to server.webhooks. It shows
whether the endpoint is reached, the signature is right and the inbox takes it.`,
		Example: "  payersync webhooks subscribe --test --local",
		RunE: a.runs(a.openWithSecrets,
			func(ctx context.Context, s *session.Session, _ []string) error { return a.sendTest(ctx, s, local) }),
	}
	c.Flags().BoolVar(&local, "local", false, "send to server.webhooks on this machine, past any proxy")
	return c
}

func (a *app) sendTest(ctx context.Context, s *session.Session, local bool) error {
	sent, err := a.deliverTest(ctx, s, local)
	var wrong usage.Mistake
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
		return fmt.Errorf("%s answered %s; %s", sent.url, sent.text,
			cmp.Or(meanings[sent.status], "see the log of payersync serve, and of the proxy before it"))
	}
	return err
}

// testDelivery makes a signed event of a kind that payersync stores and ignores, with its key in the inbox.
func (a *app) testDelivery(ctx context.Context, s *session.Session, local bool) (req *http.Request, key string,
	err error) {
	hook := s.Config.Billing.Webhook
	if hook == nil {
		return nil, "", usage.Errorf("the configuration has no billing.webhook; add public_url, events and signature")
	}
	held, err := heldAgainst(ctx, s.Ledger, hook)
	if err != nil {
		return nil, "", err
	}
	id := "payersync-test-" + rand.Text()
	body := fmt.Appendf(nil, `{"type":"payment","eventId":%q}`, id)
	req, err = http.NewRequestWithContext(ctx, http.MethodPost, hook.PublicURL, bytes.NewReader(body))
	if err != nil {
		return nil, "", usage.Errorf("billing.webhook.public_url: %w", err)
	}
	if local {
		req.URL.Scheme, req.URL.Host, req.Host = "http", loopback(s.Config.Server.Webhooks), ""
		req.URL.Path, req.URL.RawPath = hook.EndpointPath(), ""
	}
	req.Header.Set("Content-Type", "application/json")
	held.Delivery.Set(req.Header)
	now := a.now()
	if err := held.Verifier.Sign(req.Header, id, body, now); err != nil {
		return nil, "", usage.Mistake{Err: err}
	}
	signed, err := held.Verifier.Verify(req.Header, body, now)
	if err != nil {
		return nil, "", fmt.Errorf("sign a test delivery: %w", err)
	}
	return req, server.KeyOf(hook.EventPaths, req.Header, signed, body), nil
}
