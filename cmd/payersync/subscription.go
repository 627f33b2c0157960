package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"payersync/cmd/payersync/internal/session"
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

// lookAtSubscription returns what the ledger knows of the webhook subscription,
// with what the service shows of it now. billing.ErrNotShown means that it shows
// nothing, which says nothing of the subscription.
func lookAtSubscription(ctx context.Context, s *session.Session) (state.SubscriptionFacts, error) {
	f, err := s.Ledger.Subscription(ctx)
	if err != nil {
		return f, err
	}
	if s.Config.Billing.Dialect.WebhookRead == "none" {
		return state.SubscriptionFacts{Expected: f.Expected}, billing.ErrNotShown
	}
	listed, err := s.Billing.Subscriptions(ctx)
	if err != nil {
		if errors.Is(err, billing.ErrNotShown) && f.Problem == "" && !f.ShownAt.IsZero() {
			f.Problem = state.SubscriptionNotShown
			f.Detail = fmt.Sprintf("The billing service no longer shows its webhook subscriptions; it did on %s. Whether ours is still there is not known.", f.ShownAt.UTC().Format(time.RFC3339))
		}
		return f, err
	}
	f.Shown, f.ShownAt = []state.Subscription{}, s.Ledger.Now()
	for _, sub := range listed {
		f.Shown = append(f.Shown, subscriptionOf(sub))
	}
	if ours := sendingTo(f.Shown, s.Config.Billing.Webhook.PublicURL); f.Expected == nil && ours != nil {
		seen := *ours // it was made without this ledger; from now on it is the one to find again
		seen.Enabled, f.Expected = true, &seen
	}
	before := f.Problem
	if f.Problem, f.Detail = judgeSubscription(f.Expected, f.Shown); f.Problem != before {
		f.Since = time.Time{}
	}
	return f, nil
}

// judgeSubscription says what became of the subscription that is expected. Before
// one is known there is nothing to miss.
func judgeSubscription(expected *state.Subscription, shown []state.Subscription) (state.SubscriptionProblem, string) {
	if expected == nil {
		return "", ""
	}
	i := slices.IndexFunc(shown, func(s state.Subscription) bool { return s.ID == expected.ID })
	if i < 0 {
		return judgeOthers(expected, shown)
	}
	ours := shown[i]
	missing := slices.DeleteFunc(slices.Clone(expected.Events), func(event string) bool { return slices.Contains(ours.Events, event) })
	switch {
	case !ours.Enabled:
		return state.SubscriptionDisabled, "The webhook subscription is disabled in the billing service."
	case ours.URL != expected.URL:
		return state.SubscriptionReplaced, fmt.Sprintf("The webhook subscription sends to %s and no longer to %s.", ours.URL, expected.URL)
	case len(missing) > 0:
		return state.SubscriptionReplaced, fmt.Sprintf("The webhook subscription no longer tells of %s.", strings.Join(missing, ", "))
	}
	return "", ""
}

// judgeOthers says what stands in place of a subscription that is gone.
func judgeOthers(expected *state.Subscription, shown []state.Subscription) (state.SubscriptionProblem, string) {
	switch {
	case sendingTo(shown, expected.URL) != nil:
		return state.SubscriptionReplaced, "Somebody subscribed anew in place of our webhook subscription. Its deliveries are refused if they are signed with another secret."
	case len(shown) > 0:
		return state.SubscriptionReplaced, fmt.Sprintf("Another webhook subscription, which sends to %s, stands in place of ours.", shown[0].URL)
	}
	return state.SubscriptionDeleted, "The webhook subscription is gone from the billing service."
}

// sendingTo returns the first subscription that sends to an address; nil for none.
func sendingTo(shown []state.Subscription, address string) *state.Subscription {
	i := slices.IndexFunc(shown, func(s state.Subscription) bool {
		return strings.TrimRight(s.URL, "/") == strings.TrimRight(plainAddress(address), "/")
	})
	if i < 0 {
		return nil
	}
	return &shown[i]
}

func subscriptionOf(sub billing.Subscription) state.Subscription {
	return state.Subscription{ID: sub.ID, URL: plainAddress(sub.URL), Events: sub.Events, Enabled: sub.Enabled}
}

// plainAddress returns an address without what may be a secret in it; that there
// was more shows.
func plainAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "an address that cannot be read"
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
		return []finding{{Check: check, Detail: f.Detail + " payersync webhooks subscribe subscribes again"}}
	case errors.Is(err, billing.ErrNotShown) && s.Config.Billing.Dialect.WebhookRead == "none":
		return []finding{tell(check, "not looked at, because dialect.webhook_read is none: nobody is told when it is replaced, disabled or deleted", nil)}
	case errors.Is(err, billing.ErrNotShown):
		return []finding{tell(check, fmt.Sprintf("%v: nobody can be told when ours is replaced, disabled or deleted", err), nil)}
	case err != nil:
		return []finding{tell(check, "", explainFault(err))}
	case f.Expected == nil:
		return []finding{tell(check, "none yet; payersync webhooks subscribe makes one", nil)}
	}
	return []finding{tell(check, fmt.Sprintf("%s sends %s to %s", f.Expected.ID, strings.Join(f.Expected.Events, ", "), f.Expected.URL), nil)}
}
