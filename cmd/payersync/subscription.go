package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector/billing"
	"payersync/state"
)

// followSubscription asks the service what became of the webhook subscription and
// keeps it for the status. It never repairs anything: somebody may have meant it.
// It reports whether a problem, or its end, is news.
func followSubscription(ctx context.Context, s *session.Session) (f state.SubscriptionFacts, news bool, err error) {
	if s.Config.Billing.Webhook == nil {
		if f, err = s.Ledger.Subscription(ctx); err != nil || f.Problem == "" {
			return state.SubscriptionFacts{}, false, err
		}
		f = state.SubscriptionFacts{} // nobody waits for webhooks any more
	} else if f, err = lookAtSubscription(ctx, s); err != nil && !errors.Is(err, billing.ErrNotShown) {
		return f, false, fmt.Errorf("the webhook subscription could not be looked at: %w", err)
	}
	return f, news, s.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		news, err = tx.SaveSubscription(f)
		return err
	})
}

// lookAtSubscription returns the ledger's facts about the webhook subscription, with the service's present
// list. billing.ErrNotShown means the service lists none, which says nothing about the subscription.
func lookAtSubscription(ctx context.Context, s *session.Session) (state.SubscriptionFacts, error) {
	f, err := s.Ledger.Subscription(ctx)
	if err != nil {
		return f, err
	}
	before := f.Problem
	f, err = seeSubscription(ctx, s, f)
	if f.Problem == "" && (err == nil || errors.Is(err, billing.ErrNotShown)) {
		f.Problem, f.Detail = judgeConfigured(s.Config.Billing.Webhook, f.Expected)
	}
	if f.Problem != before {
		f.Since = time.Time{}
	}
	return f, err
}

// seeSubscription queries the service, and describes the state of the subscription there.
func seeSubscription(ctx context.Context, s *session.Session, f state.SubscriptionFacts) (state.SubscriptionFacts,
	error) {
	if s.Config.Billing.Dialect.WebhookRead == "none" {
		return state.SubscriptionFacts{Expected: f.Expected}, billing.ErrNotShown
	}
	listed, err := s.Billing.Subscriptions(ctx)
	if err != nil {
		if !errors.Is(err, billing.ErrNotShown) {
			return f, err
		}
		f.Problem, f.Detail = "", ""
		if !f.ShownAt.IsZero() {
			f.Problem, f.Detail = judgeSubscription(f.Expected, f.Shown)
		}
		if f.Problem == "" && !f.ShownAt.IsZero() {
			f.Problem = state.SubscriptionNotShown
			f.Detail = fmt.Sprintf("The billing service no longer shows its webhook subscriptions; it did on %s. Whether ours is still there is not known.", f.ShownAt.UTC().Format(time.RFC3339))
		}
		return f, err
	}
	f.Shown, f.ShownAt = shownNow(listed, f.Shown, s.Ledger.Now()), s.Ledger.Now()
	if ours := sendingTo(f.Shown, s.Config.Billing.Webhook.PublicURL); f.Expected == nil && ours != nil {
		seen := *ours // it was made without this ledger; from now on it is the one to find again
		seen.Enabled, f.Expected = true, &seen
	}
	f.Problem, f.Detail = judgeSubscription(f.Expected, f.Shown)
	return f, nil
}

// mostSubscriptions bounds how many subscriptions of a service are kept.
const mostSubscriptions = 100

// shownNow returns the subscriptions in the ledger's form, each with the time since it has been listed so.
func shownNow(listed []billing.Subscription, before []state.Subscription, now time.Time) []state.Subscription {
	out := []state.Subscription{}
	for _, sub := range listed[:min(len(listed), mostSubscriptions)] {
		seen := subscriptionOf(sub)
		seen.SeenSince = now
		if i := slices.IndexFunc(before, seen.Same); i >= 0 && !before[i].SeenSince.IsZero() {
			seen.SeenSince = before[i].SeenSince
		}
		out = append(out, seen)
	}
	return out
}

// judgeConfigured reports whether the configuration names the subscribed address and events. If not, the
// subscription must be replaced, or somebody replaced it.
func judgeConfigured(hook *config.Webhook, expected *state.Subscription) (state.SubscriptionProblem, string) {
	if expected == nil {
		return "", ""
	}
	asked := expected.Asked
	if asked == nil { // it was not made here, or before this was kept: the service may state more than was asked for
		asked = &state.Asked{URL: expected.URL, Events: expected.Events}
	}
	missing := unnamed(hook.Events, asked.Events)
	var more []string
	if expected.Asked != nil {
		more = unnamed(asked.Events, hook.Events)
	}
	const since = "The configuration has changed since webhooks were subscribed to: "
	switch {
	case !sameAddress(asked.URL, hook.PublicURL):
		return state.SubscriptionReplaced,
			fmt.Sprintf(since+"public_url is %s, and the subscription sends to %s.", plainAddress(hook.PublicURL), asked.URL)
	case len(missing) > 0:
		return state.SubscriptionReplaced,
			fmt.Sprintf(since+"events names %s, but the subscription does not.", strings.Join(missing, ", "))
	case len(more) > 0:
		return state.SubscriptionReplaced,
			fmt.Sprintf(since+"the subscription names %s, but events does not any more.", strings.Join(more, ", "))
	}
	return "", ""
}

// unnamed returns the events missing among others, in any spelling.
func unnamed(events, others []string) []string {
	return slices.DeleteFunc(slices.Clone(events), func(event string) bool {
		return slices.ContainsFunc(others, func(other string) bool { return strings.EqualFold(event, other) })
	})
}

// judgeSubscription returns the problem of the expected subscription. Without one, nothing can be missing.
func judgeSubscription(expected *state.Subscription, shown []state.Subscription) (state.SubscriptionProblem, string) {
	if expected == nil {
		return "", ""
	}
	i := slices.IndexFunc(shown, func(s state.Subscription) bool { return s.ID == expected.ID })
	if i < 0 {
		return judgeOthers(expected, shown)
	}
	ours := shown[i]
	missing := slices.DeleteFunc(slices.Clone(expected.Events),
		func(event string) bool { return slices.Contains(ours.Events, event) })
	switch {
	case !ours.Enabled:
		return state.SubscriptionDisabled, "The webhook subscription is disabled in the billing service."
	case ours.URL != expected.URL:
		return state.SubscriptionReplaced,
			fmt.Sprintf("The webhook subscription sends to %s and no longer to %s.", ours.URL, expected.URL)
	case len(missing) > 0:
		return state.SubscriptionReplaced,
			fmt.Sprintf("The webhook subscription no longer tells of %s.", strings.Join(missing, ", "))
	}
	return "", ""
}

// judgeOthers describes the subscriptions in place of a missing one.
func judgeOthers(expected *state.Subscription, shown []state.Subscription) (state.SubscriptionProblem, string) {
	switch {
	case sendingTo(shown, expected.URL) != nil:
		return state.SubscriptionReplaced,
			"Somebody subscribed anew in place of our webhook subscription. Its deliveries are refused if they are signed with another secret."
	case len(shown) > 0 && shown[0].Name == subscriptionName:
		return state.SubscriptionReplaced,
			fmt.Sprintf("Another installation of payersync, with the address %s, has replaced our subscription. An app has one subscription, so the two replace each other's. Give each an app of its own, or run only one.", shown[0].URL)
	case len(shown) > 0:
		return state.SubscriptionReplaced,
			fmt.Sprintf("Another webhook subscription, with the address %s, has replaced ours.", shown[0].URL)
	}
	return state.SubscriptionDeleted, "The webhook subscription is gone from the billing service."
}

// sendingTo returns the first subscription to an address; nil for none.
func sendingTo(shown []state.Subscription, address string) *state.Subscription {
	i := slices.IndexFunc(shown, func(s state.Subscription) bool { return sameAddress(s.URL, address) })
	if i < 0 {
		return nil
	}
	return &shown[i]
}

// sameAddress compares a plain address with another one.
func sameAddress(plain, address string) bool {
	return strings.TrimRight(plain, "/") == strings.TrimRight(plainAddress(address), "/")
}

// subscriptionName is payersync's name for its subscriptions.
const subscriptionName = "payersync"

func subscriptionOf(sub billing.Subscription) state.Subscription {
	return state.Subscription{
		ID: sub.ID, URL: plainAddress(sub.URL), Events: sub.Events, Enabled: sub.Enabled,
		Name: asStated(sub.Name), ClientID: asStated(sub.ClientID), CreatedAt: asStated(sub.CreatedAt),
		UpdatedAt: asStated(sub.UpdatedAt),
	}
}

// asStated bounds the service's further texts about a subscription.
func asStated(text string) string {
	const most = 100
	runes := []rune(show.Visible(text))
	return string(runes[:min(len(runes), most)])
}

// plainAddress returns an address without possible secrets, marked where they were.
func plainAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "an unreadable address"
	}
	more := ""
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		more = "?…"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath() + more
}

// checkSubscription looks at the subscription and keeps nothing.
func checkSubscription(ctx context.Context, s *session.Session) []finding {
	const check = "webhook subscription"
	if s.Config.Billing.Webhook == nil {
		return nil
	}
	f, err := lookAtSubscription(ctx, s)
	switch {
	case f.Problem != "":
		return []finding{{Check: check, Detail: f.Detail}}
	case errors.Is(err, billing.ErrNotShown) && s.Config.Billing.Dialect.WebhookRead == "none":
		return []finding{tell(check,
			"not looked at, because dialect.webhook_read is none: nobody is told when it is replaced, disabled or deleted", nil)}
	case errors.Is(err, billing.ErrNotShown):
		return []finding{tell(check,
			fmt.Sprintf("nobody can be told when ours is replaced, disabled or deleted: %s", errorText(err)), nil)}
	case err != nil:
		return []finding{{Check: check, Detail: explainFault(err).Error(),
			Next: "see the finding about the billing service above: without its answer the subscription stays unknown"}}
	case f.Expected == nil:
		return []finding{tell(check, "none yet; payersync webhooks subscribe makes one", nil)}
	}
	return []finding{tell(check,
		fmt.Sprintf("%s sends %s to %s", f.Expected.ID, strings.Join(f.Expected.Events, ", "), f.Expected.URL), nil)}
}
