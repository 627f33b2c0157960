package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/billing"
	"payersync/state"
)

// subscriptionReport is the output of `webhooks subscribe --show --output json`; its keys are public.
type subscriptionReport struct {
	Configured state.Asked `json:"configured"`
	// as it was made, or seen first; null while none is known
	Expected     *state.Subscription       `json:"expected"`
	SubscribedBy []state.Subscribing       `json:"subscribed_by"` // the subscribers with this ledger, the latest first
	Shown        []state.Subscription      `json:"shown"`         // by the service; now, or when shown_at says
	ShownAt      time.Time                 `json:"shown_at,omitzero"`
	NotShown     string                    `json:"not_shown,omitempty"` // why the service shows nothing now
	Problem      state.SubscriptionProblem `json:"problem"`
	Detail       string                    `json:"detail"`
	Since        time.Time                 `json:"since,omitzero"` // when a sweep found the problem; zero for just now
	Closed       bool                      `json:"closed"`         // a person knows the problem

	// when the service sent the ledger's newest secret; zero for none
	SecretAt      time.Time `json:"secret_at,omitzero"`
	BeforeUntil   time.Time `json:"before_until,omitzero"` // how long one before it is accepted; zero for not any more
	SecretUnknown bool      `json:"secret_unknown"`        // the service may sign with an unknown one
}

func (a *app) webhooksSubscriptionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "subscription",
		Short: "Show the subscription, its person and date, and the differences",
		Long: `Shows the configured subscription, the last one of payersync with its person and time,
and the present one of the service, each with its date. It names the differences:
another address or other events, disabled, deleted, replaced by somebody or by another
installation of payersync, or a changed configuration. It asks the service, and
changes nothing: only payersync webhooks subscribe renews the subscription.`,
		Example: "  payersync webhooks subscribe --show\n  payersync webhooks subscribe --show --output json",
		RunE: a.runs(a.open, func(ctx context.Context, s *session.Session, _ []string) error {
			r, err := reportSubscription(ctx, s)
			if err != nil {
				return err
			}
			if a.JSON() {
				return show.JSON(a.Out, r)
			}
			a.printSubscription(r)
			return nil
		}),
	}
}

func reportSubscription(ctx context.Context, s *session.Session) (r subscriptionReport, err error) {
	hook := s.Config.Billing.Webhook
	if hook == nil {
		return r, usage.Errorf("the configuration has no billing.webhook; add public_url, events and signature")
	}
	f, err := lookAtSubscription(ctx, s)
	switch {
	case errors.Is(err, billing.ErrNotShown) && s.Config.Billing.Dialect.WebhookRead == "none":
		r.NotShown = "dialect.webhook_read is none, so payersync does not ask for it"
	case errors.Is(err, billing.ErrNotShown):
		r.NotShown = errorText(err)
	case err != nil:
		return r, fmt.Errorf("cannot look at the webhook subscription: %w", explainFault(err))
	}
	r.Configured = state.Asked{URL: plainAddress(hook.PublicURL), Events: hook.Events}
	r.Expected, r.Shown, r.ShownAt = f.Expected, slices.Concat([]state.Subscription{}, f.Shown), f.ShownAt
	r.Problem, r.Detail, r.Since, r.Closed = f.Problem, f.Detail, f.Since, f.Closed()
	kept, err := s.Ledger.WebhookKeys(ctx, time.Duration(hook.Overlap))
	if err != nil {
		return r, err
	}
	r.SecretAt, r.BeforeUntil, r.SecretUnknown = kept.SecretAt, kept.Until, kept.Unknown
	r.SubscribedBy, err = s.Ledger.Subscribings(ctx)
	return r, err
}

func (a *app) printSubscription(r subscriptionReport) {
	a.Hanging("Configured:  ", fmt.Sprintf("%s to %s", strings.Join(r.Configured.Events, ", "), r.Configured.URL))
	if r.Expected == nil {
		fmt.Fprintln(a.Out, "Subscribed:  nothing known to this ledger; payersync webhooks subscribe subscribes")
	} else {
		a.Hanging("Subscribed:  ", inWords(*r.Expected)+subscribedBy(r))
	}
	if text := secretInWords(r); text != "" {
		a.Hanging("Secret:      ", text)
	}
	switch {
	case r.NotShown != "":
		fmt.Fprintf(a.Out, "The service: not known: %s\n", r.NotShown)
	case len(r.Shown) == 0:
		fmt.Fprintln(a.Out, "The service: shows none")
	default:
		for _, shown := range r.Shown {
			a.Hanging("The service: ", "shows that "+shownInWords(shown))
		}
	}
	if r.Problem == "" {
		fmt.Fprintln(a.Out, "No difference is known.")
		return
	}
	found := "found just now; the next sweep keeps and tells it"
	if !r.Since.IsZero() {
		found = "found on " + show.Time(r.Since)
	}
	if r.Closed {
		found += "; a person has closed it"
	}
	fmt.Fprintf(a.Out, "Differences: %s (%s)\npayersync renews nothing by itself. To subscribe again: payersync webhooks subscribe. If you know of it: payersync attention close webhooks --reason TEXT.\n", show.Visible(r.Detail), found)
}

// secretInWords describes the ledger's secrets; "" if the configuration has them all.
func secretInWords(r subscriptionReport) string {
	var text []string
	if !r.SecretAt.IsZero() {
		text = append(text, "the service named the newest on "+show.Time(r.SecretAt)+", and the ledger keeps it")
	}
	if !r.BeforeUntil.IsZero() {
		text = append(text, "one before it is accepted until "+show.Time(r.BeforeUntil))
	}
	if r.SecretUnknown {
		text = append(text, "the service may sign with an unknown secret: payersync webhooks subscribe asks for another")
	}
	return strings.Join(text, "; ")
}

// shownInWords prints all facts of a subscription. Columns would not fit on a terminal: ids and addresses are
// long.
func shownInWords(s state.Subscription) string {
	text := inWords(s)
	if s.Name != "" {
		text += ", is called " + show.Visible(s.Name)
	}
	if !s.Enabled {
		text += ", is disabled"
	}
	text += "; seen so since " + show.Time(s.SeenSince)
	for _, told := range []struct{ what, value string }{{"made on ", show.Stored(s.CreatedAt)},
		{"changed on ", show.Stored(s.UpdatedAt)}, {"of the app ", show.Visible(s.ClientID)}} {
		if told.value != "" {
			text += "; " + told.what + told.value
		}
	}
	return text
}

// inWords describes a subscription.
func inWords(s state.Subscription) string {
	return show.Visible(fmt.Sprintf("%s sends %s to %s", s.ID, strings.Join(s.Events, ", "), s.URL))
}

// subscribedBy names the person or process behind the expected subscription, from the audit log.
func subscribedBy(r subscriptionReport) string {
	i := slices.IndexFunc(r.SubscribedBy, func(s state.Subscribing) bool { return s.ID == r.Expected.ID })
	if i < 0 {
		return "; it was made without this ledger"
	}
	return fmt.Sprintf("; by %s on %s", r.SubscribedBy[i].Actor, show.Stored(r.SubscribedBy[i].At))
}

// agreesToReplace shows the present and the new subscriptions. It asks before replacing one with another
// address than ours: somebody may need it. A value hidden by the service stops nothing.
func (a *app) agreesToReplace(ctx context.Context, s *session.Session, yes bool) (before []state.Subscription,
	sure bool, err error) {
	hook := s.Config.Billing.Webhook
	f, err := lookAtSubscription(ctx, s)
	switch {
	case errors.Is(err, billing.ErrNotShown):
		return []state.Subscription{}, true, nil
	case err != nil:
		a.Print("payersync could not read the present subscription: %s", errorText(err))
		return []state.Subscription{}, true, nil
	}
	foreign := ""
	for _, sub := range f.Shown {
		a.Print("Before: %s.", inWords(sub))
		if ours := sameAddress(sub.URL, hook.PublicURL) || f.Expected != nil && sub.URL == f.Expected.URL; foreign == "" &&
			!ours {
			foreign = show.Visible(sub.URL)
		}
	}
	if len(f.Shown) > 0 {
		a.Print("After:  it sends %s to %s.", strings.Join(hook.Events, ", "), plainAddress(hook.PublicURL))
	}
	if foreign == "" {
		return f.Shown, true, nil
	}
	sure, err = a.Confirms(ctx, yes,
		fmt.Sprintf("cannot subscribe without a yes: the subscription to %s would be replaced, and gets no more webhooks",
			foreign),
		fmt.Sprintf("Replace the subscription to %s? It gets no more webhooks.", foreign))
	if err == nil && !sure {
		a.Print("Nothing was changed.")
	}
	return f.Shown, sure, err
}
