package billing

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"payersync/connector"
)

// Subscription is a webhook subscription. An app has one.
type Subscription struct {
	ID          string           // given by the service
	URL         string           // where events are posted to
	Events      []string         // what is subscribed to, for example customer, dd-mandate
	Name        string           // for people
	Description string           // for people
	Enabled     bool             // as the service states it
	Secret      connector.Secret // a new signing secret from the service; zero when it named none
	DeliveryKey connector.Secret // what deliveries carry in DeliveryKeyHeader; made up when it is zero and the service asks for one
}

// DeliveryKeyHeader is the header in which deliveries carry the delivery key,
// where the service wants one. Signatures are what deliveries are judged by; the key
// is a second lock that need not be checked.
const DeliveryKeyHeader = "X-Payersync-Key"

// Subscribe registers a webhook, in place of the one that was registered before. It
// always uses the app's own client credentials.
//
// With webhook_setup: digest_auth_subscribe the signing secret is replaced
// first. From then on the old one may be dead, so the new one is returned even
// when a later step fails: keep it whenever it is not zero (fault F41).
func (c *Client) Subscribe(ctx context.Context, s Subscription) (Subscription, error) {
	if c.dialect.WebhookSetup == "digest_auth_subscribe" {
		if err := c.prepareWebhooks(ctx, &s); err != nil {
			return s, err
		}
	}
	body := object{}
	body.set("url", quote(s.URL))
	body.set("events", quoteAll(s.Events))
	body.set("name", quote(s.Name))
	body.set("description", quote(s.Description))
	answer, err := c.putWebhook(ctx, "subscribe to webhooks", "", body.bytes())
	if err != nil {
		return s, err
	}
	if answer.text("id") == "" {
		return s, unreadable(request{op: "subscribe to webhooks"}, http.StatusOK, errors.New("the subscription has no id"))
	}
	s.ID, s.Enabled = answer.text("id"), string(answer.get("enabled")) == "true"
	if stated := readSubscription(answer); stated.URL != "" && len(stated.Events) > 0 {
		s.URL, s.Events = stated.URL, stated.Events
	}
	if secret := answer.text("secretKey", "secret"); secret != "" {
		s.Secret = connector.NewSecret(secret)
	}
	return s, nil
}

// ErrNotShown means that the service does not show its webhook subscriptions, or
// not in a way that is understood: nothing is known of ours then.
var ErrNotShown = errors.New("the billing service does not show its webhook subscriptions")

// Subscriptions returns the app's webhook subscriptions. The interface shows no such
// call; where webhook_read is auto it is tried with the path of the subscription,
// and a service that has none (404, 405 or 501) or answers in another shape gives
// ErrNotShown, never an empty list.
func (c *Client) Subscriptions(ctx context.Context) ([]Subscription, error) {
	if c.dialect.WebhookRead == "none" {
		return nil, ErrNotShown
	}
	r := c.read("look at the webhook subscription", c.webhooksPath(), nil)
	r.by, r.ofNobody = c.webhooks, true
	answer, err := c.send(ctx, r)
	switch statusOf(err) {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return nil, fmt.Errorf("%w (HTTP %d)", ErrNotShown, statusOf(err))
	}
	if err != nil {
		return nil, err
	}
	return readSubscriptions(answer)
}

// readSubscriptions reads a list, an object that holds one list, or a single
// subscription.
func readSubscriptions(answer json.RawMessage) ([]Subscription, error) {
	list := answer
	if o, err := parseObject(answer); err == nil {
		lists := slices.DeleteFunc(slices.Clone(o), func(m member) bool { return len(m.value) == 0 || m.value[0] != '[' })
		switch {
		case o.text("id") != "" && o.text("url") != "":
			return []Subscription{readSubscription(o)}, nil
		case len(lists) != 1:
			return nil, fmt.Errorf("%w in a known way", ErrNotShown)
		}
		list = lists[0].value
	}
	parts, err := parseArray(list)
	if err != nil || isNull(list) {
		return nil, fmt.Errorf("%w in a known way", ErrNotShown)
	}
	out := make([]Subscription, 0, len(parts))
	for _, part := range parts {
		o, err := parseObject(part)
		if err != nil || o.text("id") == "" || o.text("url") == "" {
			return nil, fmt.Errorf("%w in a known way", ErrNotShown)
		}
		out = append(out, readSubscription(o))
	}
	return out, nil
}

// readSubscription reads one subscription; it is disabled only where it says so.
func readSubscription(o object) Subscription {
	s := Subscription{
		ID: o.text("id"), URL: o.text("url"), Name: o.text("name"), Description: o.text("description"),
		Enabled: string(o.get("enabled")) != "false",
	}
	events, _ := parseArray(o.get("events")) // none where it is no list
	for _, event := range events {
		if text := scalar(event); text != "" {
			s.Events = append(s.Events, text)
		}
	}
	return s
}

func (c *Client) webhooksPath() string { return "/apps/" + url.PathEscape(c.clientID) + "/webhooks" }

// prepareWebhooks takes the two steps that some services want first: a signing
// secret from the service, and a delivery key for it.
func (c *Client) prepareWebhooks(ctx context.Context, s *Subscription) error {
	const op = "renew the webhook secret"
	answer, err := c.putWebhook(ctx, op, "/digest", nil)
	if err != nil {
		return err
	}
	secret := answer.text("secretKey")
	if secret == "" {
		return unreadable(request{op: op}, http.StatusOK, errors.New("there is no secret in it"))
	}
	s.Secret = connector.NewSecret(secret)
	if s.DeliveryKey.IsZero() {
		s.DeliveryKey = connector.NewSecret(rand.Text())
	}
	var key, body object
	key.set("headerKey", quote(DeliveryKeyHeader))
	key.set("headerValue", quote(s.DeliveryKey.Expose()))
	body.set("apiKeyAuthentication", key.bytes())
	_, err = c.putWebhook(ctx, "set the webhook delivery key", "/auth", body.bytes())
	return err
}

// putWebhook makes one call of the set-up. Only the key step may answer nothing.
func (c *Client) putWebhook(ctx context.Context, op, step string, body json.RawMessage) (object, error) {
	r := c.write(op, http.MethodPut, c.webhooksPath()+step, body)
	r.by = c.webhooks
	r.mayBeEmpty = step == "/auth"
	r.ofNobody = !r.mayBeEmpty // that one carries a key
	answer, err := c.send(ctx, r)
	if err != nil || len(answer) == 0 {
		return nil, err
	}
	o, err := parseObject(answer)
	if err != nil {
		return nil, unreadable(r, http.StatusOK, err)
	}
	return o, nil
}

func quoteAll(texts []string) json.RawMessage {
	list := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		list[i] = quote(text)
	}
	return joinArray(list)
}
