package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"payersync/connector"
)

// Subscription is a webhook subscription. An app has one.
type Subscription struct {
	ID          string   // given by the service
	URL         string   // the address for events
	Events      []string // the subscribed types, for example customer, dd-mandate
	Name        string   // for people
	Description string   // for people
	Enabled     bool     // as the service states it
	ClientID    string   // whose it is, as the service states it; "" where it does not
	CreatedAt   string   // as the service states it
	UpdatedAt   string   // as the service states it
}

// SetUp holds the further needs of a subscription.
type SetUp struct {
	// its first key is sent to the service if WantsDeliveryKey; the ledger has it by then
	Key DeliveryKey
	// is given a new signing secret the moment the service names it, and returns when it is durable
	Keep func(connector.Secret) error
}

// WantsDeliveryKey reports whether the service must get a delivery key before it accepts a subscription.
func (c *Client) WantsDeliveryKey() bool { return c.dialect.WebhookSetup == "digest_auth_subscribe" }

// Subscribe registers a webhook and replaces the earlier one. It always uses the app's own client credentials.
//
// With webhook_setup: digest_auth_subscribe it first replaces the signing secret. Otherwise the answer may contain a
// new one. From then on the service may sign with the new secret, so Subscribe stores it before any other request
// (fault F41).
func (c *Client) Subscribe(ctx context.Context, s Subscription, setUp SetUp) (Subscription, error) {
	if c.WantsDeliveryKey() {
		if err := c.prepareWebhooks(ctx, setUp); err != nil {
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
	if secret := answer.text("secretKey", "secret"); secret != "" {
		if err := setUp.Keep(connector.NewSecret(secret)); err != nil {
			return s, err
		}
	}
	if answer.text("id") == "" {
		return s, unreadable(request{op: "subscribe to webhooks"}, http.StatusOK, errors.New("the subscription has no id"))
	}
	s.ID, s.Enabled = answer.text("id"), string(answer.get("enabled")) == "true"
	if stated := readSubscription(answer); stated.URL != "" && len(stated.Events) > 0 {
		s.URL, s.Events = stated.URL, stated.Events
	}
	return s, nil
}

// ErrNotShown means the service does not show its webhook subscriptions, or not in a known format. The state of ours is
// then unknown.
var ErrNotShown = errors.New("the billing service does not show its webhook subscriptions")

// Subscriptions returns the app's webhook subscriptions. The interface documents no such call. With webhook_read: auto
// it tries the path of the subscription. If the service has none (404, 405 or 501) or answers in another shape, the
// error is ErrNotShown; the result is never an empty list.
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

// readSubscriptions reads a list, an object with one list, or a single subscription.
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

// readSubscription reads one subscription. It is disabled only if the answer states this.
func readSubscription(o object) Subscription {
	s := Subscription{
		ID: o.text("id"), URL: o.text("url"), Name: o.text("name"), Description: o.text("description"),
		Enabled: string(o.get("enabled")) != "false", ClientID: o.text("clientId"),
		CreatedAt: o.text("creationTime", "createdAt"), UpdatedAt: o.text("lastUpdatedTime", "lastUpdateTime", "updatedAt"),
	}
	events, _ := parseArray(o.get("events")) // none if it is no list
	for _, event := range events {
		if text := scalar(event); text != "" {
			s.Events = append(s.Events, text)
		}
	}
	return s
}

func (c *Client) webhooksPath() string { return "/apps/" + url.PathEscape(c.clientID) + "/webhooks" }

// ofWebhooks reports whether a call is of the webhook interface.
func (c *Client) ofWebhooks(r request) bool { return strings.HasPrefix(r.path, c.webhooksPath()) }

// The values sent to the webhook interface before a refusal, and the next step.
const (
	sentOwnToken = "one was sent, had with billing.client_id and billing.client_secret: they are of another app or environment, " +
		"or webhooks are not allowed to this one; compare the two with what the provider gave, and ask its integration manager whether the app may subscribe"
	sentNoToken = "none could be had with billing.client_id and billing.client_secret; compare both with what the provider gave"
	sentNothing = "billing.client_id or billing.client_secret is missing; set both, the provider's integration manager gives them"
)

// webhookTokens explains fault F27: customers work, the webhook does not, because it takes
// another kind of token.
func (c *Client) webhookTokens(sent string) string {
	other := ""
	if auth := c.dialect.APIAuth; auth != "client_credentials" {
		other = fmt.Sprintf(", whatever customers are read with (dialect.api_auth is %s)", auth)
	}
	return "the webhook interface takes only a token of the app itself (client credentials)" + other + "; " + sent
}

// prepareWebhooks performs the two preparatory steps of some services: a signing secret from the service, and a
// delivery key for it.
func (c *Client) prepareWebhooks(ctx context.Context, setUp SetUp) error {
	const op = "renew the webhook secret"
	answer, err := c.putWebhook(ctx, op, "/digest", nil)
	if err != nil {
		return err
	}
	secret := answer.text("secretKey")
	if secret == "" {
		return unreadable(request{op: op}, http.StatusOK, errors.New("there is no secret in it"))
	}
	if err := setUp.Keep(connector.NewSecret(secret)); err != nil {
		return err
	}
	_, err = c.putWebhook(ctx, "set the webhook delivery key", "/auth", setUp.Key.sentPart())
	return err
}

// putWebhook makes one call of the set-up. Only the key step may answer nothing.
func (c *Client) putWebhook(ctx context.Context, op, step string, body json.RawMessage) (object, error) {
	r := c.write(op, http.MethodPut, c.webhooksPath()+step, body)
	r.by = c.webhooks
	r.mayBeEmpty = step == "/auth"
	r.ofNobody = !r.mayBeEmpty // it has a key
	answer, err := c.send(ctx, r)
	if err != nil || len(answer) == 0 {
		return nil, c.adviseWebhook(err, step)
	}
	o, err := parseObject(answer)
	if err != nil {
		return nil, unreadable(r, http.StatusOK, err)
	}
	return o, nil
}

// adviseWebhook names the settings to check after a refused set-up call.
func (c *Client) adviseWebhook(err error, step string) error {
	switch status := statusOf(err); status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		if step != "" {
			return advise(err, "it has no such step; compare billing.dialect.webhook_setup with what it documents")
		}
		return advise(err, "it takes no subscription of this app at this address; compare billing.client_id and billing.base_url with what the provider gave")
	case http.StatusBadRequest, http.StatusConflict, http.StatusPreconditionFailed, http.StatusUnprocessableEntity,
		http.StatusPreconditionRequired:
		if c.dialect.WebhookSetup == "subscribe" {
			return advise(err, "where verification has to be set up first, billing.dialect.webhook_setup says how")
		}
	}
	return err
}

func quoteAll(texts []string) json.RawMessage {
	list := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		list[i] = quote(text)
	}
	return joinArray(list)
}
