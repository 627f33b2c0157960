package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Subscription is a webhook subscription as the service states it. Its address has
// no query: that may hold a secret of somebody else.
type Subscription struct {
	ID        string    `json:"id"`
	URL       string    `json:"url"`
	Events    []string  `json:"events"`
	Enabled   bool      `json:"enabled"`
	Name      string    `json:"name,omitempty"`
	ClientID  string    `json:"client_id,omitempty"`  // its owner, if the service gives one
	CreatedAt string    `json:"created_at,omitempty"` // as the service states it
	UpdatedAt string    `json:"updated_at,omitempty"` // as the service states it
	SeenSince time.Time `json:"seen_since,omitzero"`  // since when the service has shown it so
	Asked     *Asked    `json:"asked,omitempty"`      // the request; nil if it was made elsewhere, or long ago
}

// Asked is what the configuration named when a subscription was made: a service may state
// it in other words.
type Asked struct {
	URL    string   `json:"url"`
	Events []string `json:"events"`
}

// Same reports whether the service shows a subscription as it did.
func (s Subscription) Same(as Subscription) bool {
	return s.ID == as.ID && s.URL == as.URL && slices.Equal(s.Events, as.Events) && s.Enabled == as.Enabled &&
		s.UpdatedAt == as.UpdatedAt
}

// Subscribing is somebody's act of subscribing to webhooks.
type Subscribing struct {
	At    string `json:"at"`
	Actor string `json:"actor"`
	ID    string `json:"id"` // of the subscription that was made
}

const (
	subscribeAction  = "subscribe to webhooks"
	mostSubscribings = 20
)

// Subscribings returns who subscribed to webhooks, the latest first.
func (l *Ledger) Subscribings(ctx context.Context) ([]Subscribing, error) {
	return list(ctx, l, "SELECT at, actor, subject FROM audit WHERE action = ? ORDER BY seq DESC LIMIT ?",
		[]any{subscribeAction, mostSubscribings},
		func(s *Subscribing) []any { return []any{&s.At, &s.Actor, &s.ID} })
}

// Subscribed keeps a subscription that somebody has made: it is the one to find again.
func (tx *Tx) Subscribed(made Subscription, actor string) error {
	_, err := tx.SaveSubscription(SubscriptionFacts{Expected: &made})
	return errors.Join(err, tx.Audit(Entry{Actor: actor, Action: subscribeAction, Subject: made.ID}))
}

// SubscriptionProblem is a problem of the webhook subscription.
type SubscriptionProblem string

// The problems. Replaced means the service shows another subscription than the wanted one, by a new
// subscription or a changed configuration. NotShown means the service no longer lists subscriptions, so ours
// may or may not exist.
const (
	SubscriptionReplaced SubscriptionProblem = "replaced"
	SubscriptionDisabled SubscriptionProblem = "disabled"
	SubscriptionDeleted  SubscriptionProblem = "deleted"
	SubscriptionNotShown SubscriptionProblem = "not_shown"
)

// SubscriptionFacts is what the ledger knows of the webhook subscription.
type SubscriptionFacts struct {
	Expected *Subscription       `json:"expected"`          // as it was made, or seen first; null while none is known
	Shown    []Subscription      `json:"shown"`             // by the service, when it was last asked
	ShownAt  time.Time           `json:"shown_at,omitzero"` // zero when it never was
	Problem  SubscriptionProblem `json:"problem"`           // "" for none that is known
	Detail   string              `json:"detail"`            // the problem, in plain words
	Since    time.Time           `json:"since,omitzero"`    // when the problem was found
	// the problem in the words that a person has closed; "" for none
	KnownOf string `json:"-"`
}

// Closed reports whether a person has said that the problem is known.
func (f SubscriptionFacts) Closed() bool {
	return f.Problem != "" && f.KnownOf != "" && f.KnownOf == f.Detail
}

// Subscription returns what the ledger knows of the webhook subscription.
func (l *Ledger) Subscription(ctx context.Context) (f SubscriptionFacts, err error) {
	var expected, shown string
	var at, since sql.NullString
	f.Shown = []Subscription{}
	err = l.queryRow(ctx, "SELECT expected, shown, shown_at, problem, detail, problem_since, known_of FROM subscription").
		Scan(&expected, &shown, &at, &f.Problem, &f.Detail, &since, &f.KnownOf)
	if err == nil && expected != "" {
		err = json.Unmarshal([]byte(expected), &f.Expected)
	}
	if err == nil && shown != "" {
		err = json.Unmarshal([]byte(shown), &f.Shown)
	}
	if err == nil {
		f.ShownAt, err = parseTime(at)
	}
	if err == nil {
		f.Since, err = parseTime(since)
	}
	if err != nil {
		return f, fmt.Errorf("read the webhook subscription: %w", err)
	}
	return f, nil
}

// SaveSubscription keeps what is known of the webhook subscription, and reports
// whether its problem is news. A problem that stays keeps the time it was found.
func (tx *Tx) SaveSubscription(f SubscriptionFacts) (news bool, err error) {
	var expected, shown []byte
	if f.Expected != nil {
		if expected, err = json.Marshal(f.Expected); err != nil {
			return false, err
		}
	}
	if !f.ShownAt.IsZero() {
		if shown, err = json.Marshal(f.Shown); err != nil {
			return false, err
		}
	}
	var before SubscriptionProblem
	if err := tx.row([]any{&before}, "SELECT problem FROM subscription"); err != nil {
		return false, fmt.Errorf("save the webhook subscription: %w", err)
	}
	err = tx.exec(`UPDATE subscription SET expected = ?, shown = ?, shown_at = ?, detail = ?, known = CASE known_of WHEN ?4 THEN known ELSE 0 END, known_of = CASE known_of WHEN ?4 THEN known_of ELSE '' END,
		problem_since = CASE WHEN ?5 = '' THEN NULL WHEN problem = ?5 THEN problem_since ELSE ?6 END, problem = ?5`,
		string(expected), string(shown), stamp(f.ShownAt), f.Detail, f.Problem, stamp(tx.now))
	if err != nil {
		return false, fmt.Errorf("save the webhook subscription: %w", err)
	}
	return before != f.Problem, nil
}
