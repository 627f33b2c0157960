package sandbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"payersync/connector"
)

// hooks is the service's state of the platform's webhooks.
type hooks struct {
	subscription *subscription
	secret       connector.Secret
	older        connector.Secret // the one before; blank while there was none
	digested     bool
	credentials  *credentials
}

type subscription struct {
	ID          string   `json:"id"`
	URL         string   `json:"url"`
	Events      []string `json:"events"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Enabled     bool     `json:"enabled"`
}

// credentials are the service's credentials in each delivery.
type credentials struct {
	Basic *struct {
		Username string `json:"username"`
		Password string `json:"password"`
	} `json:"basicAuthentication"`
	APIKey *struct {
		Header string `json:"headerKey"`
		Value  string `json:"headerValue"`
	} `json:"apiKeyAuthentication"`
}

// WebhookSecret returns the receiver's key for checking deliveries: the current signing secret, or its public
// key.
func (s *Sandbox) WebhookSecret() connector.Secret {
	defer s.lock()()
	return s.opt.Switches.Signature.receiverKey(s.hooks.secret)
}

// renewSecret signs with another secret from now on.
func (s *Sandbox) renewSecret(secret connector.Secret) {
	s.hooks.older, s.hooks.secret = s.hooks.secret, secret
}

// sign adds the headers that authenticate a body now.
func (s *Sandbox) sign(h http.Header, id string, body []byte) error {
	sig, secrets := s.opt.Switches.Signature, []connector.Secret{s.hooks.secret}
	if sig.WithOlder {
		if _, err := sig.key(s.hooks.older); err != nil || s.hooks.older.IsZero() {
			s.hooks.older = sig.draw(s.tokenIDs)
		}
		secrets = []connector.Secret{s.hooks.older, s.hooks.secret}
	}
	return sig.sign(h, id, s.opt.Now(), body, secrets...)
}

// SetWebhookSecret signs every delivery from now on with secret, as a rotation
// does. It refuses one that Signature.Key cannot read. With ed25519 it is the seed of the
// private key.
func (s *Sandbox) SetWebhookSecret(secret connector.Secret) error {
	defer s.lock()()
	sig := s.opt.Switches.Signature
	sig.Secret = secret
	if err := sig.check(); err != nil {
		return err
	}
	s.renewSecret(secret)
	return nil
}

// SignAsNow adds the headers of a delivery with this body at this moment: its type of content, its
// credentials and its signature.
func (s *Sandbox) SignAsNow(r *http.Request, body []byte) error {
	defer s.lock()()
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	s.hooks.credentials.show(r)
	return s.sign(r.Header, newUUID(s.eventIDs), body)
}

// ownApp refuses a path that carries another app's client id.
func (s *Sandbox) ownApp(c *call, r *http.Request) bool {
	if r.PathValue("client") != s.opt.ClientID {
		c.refuse(http.StatusForbidden, "WRONG_APP", "The token does not belong to this client id.")
		return false
	}
	return true
}

// subscribe is PUT /apps/{client_id}/webhooks; it replaces the subscription.
func (s *Sandbox) subscribe(c *call, r *http.Request) {
	if !s.ownApp(c, r) {
		return
	}
	if _, ok := c.object(r); !ok {
		return
	}
	if !s.setUp() {
		c.refuse(http.StatusBadRequest, "SIGNATURE_NOT_SET_UP", "Set up the digest and the delivery credentials first.")
		return
	}
	var wanted subscription
	if err := json.Unmarshal(c.request, &wanted); err != nil {
		s.refuseInvalid(c, problem{"", "WRONG_TYPE"})
		return
	}
	if wrong := wanted.problems(); len(wrong) > 0 {
		s.refuseInvalid(c, wrong...)
		return
	}
	wanted.ID, wanted.Enabled = newUUID(s.eventIDs), true
	s.hooks.subscription = &wanted
	body, _ := json.Marshal(wanted) // strings and a flag
	c.reply(http.StatusOK, body)
}

func (s *Sandbox) setUp() bool {
	return s.opt.Switches.WebhookSetup == "subscribe" || s.hooks.digested && s.hooks.credentials != nil
}

func (w subscription) problems() []problem {
	var out []problem
	if !absoluteURL(w.URL) {
		out = append(out, problem{"url", "NOT_A_URL"})
	}
	if len(w.Events) == 0 || slices.Contains(w.Events, "") {
		out = append(out, problem{"events", "MISSING"})
	}
	return out
}

// getSubscription is GET /apps/{client_id}/webhooks, which the interface does not show.
func (s *Sandbox) getSubscription(c *call, r *http.Request) {
	if s.opt.Switches.WebhookRead == "none" {
		s.refuseMethod(c)
		return
	}
	if !s.ownApp(c, r) {
		return
	}
	all := []subscription{}
	if s.hooks.subscription != nil {
		all = append(all, *s.hooks.subscription)
	}
	body, _ := json.Marshal(all) // strings and flags
	c.reply(http.StatusOK, body)
}

// ErrNoSubscription means that nothing is subscribed.
var ErrNoSubscription = errors.New("there is no webhook subscription")

// ReplaceSubscription is somebody else subscribing in our place: it has a new id,
// sends these events to url, and is enabled.
func (s *Sandbox) ReplaceSubscription(url string, events ...string) {
	defer s.lock()()
	s.hooks.subscription = &subscription{ID: newUUID(s.eventIDs), URL: url, Events: events, Name: "somebody else",
		Enabled: true}
}

// EditSubscription is somebody changing the subscription's address and events at
// the service's console; its id stays.
func (s *Sandbox) EditSubscription(url string, events ...string) error {
	return s.withSubscription(func(sub *subscription) { sub.URL, sub.Events = url, events })
}

// DisableSubscription is the service, or a person, switching the subscription off:
// nothing is sent any more, and what waits in the queue is lost.
func (s *Sandbox) DisableSubscription() error {
	return s.withSubscription(func(sub *subscription) { sub.Enabled, s.queue = false, nil })
}

// DeleteSubscription removes the subscription; what waits in the queue is lost.
func (s *Sandbox) DeleteSubscription() error {
	return s.withSubscription(func(*subscription) { s.hooks.subscription, s.queue = nil, nil })
}

func (s *Sandbox) withSubscription(act func(*subscription)) error {
	defer s.lock()()
	if s.hooks.subscription == nil {
		return ErrNoSubscription
	}
	act(s.hooks.subscription)
	return nil
}

// setDigest is PUT /apps/{client_id}/webhooks/digest: it draws a new secret,
// which signs every delivery from then on, and names what checks it.
func (s *Sandbox) setDigest(c *call, r *http.Request) {
	if !s.stepExists(c) || !s.ownApp(c, r) {
		return
	}
	sig := s.opt.Switches.Signature
	s.renewSecret(sig.draw(s.tokenIDs))
	s.hooks.digested = true
	c.reply(http.StatusOK, object{field("secretKey", quote(sig.receiverKey(s.hooks.secret).Expose()))}.json())
}

// setAuth is PUT /apps/{client_id}/webhooks/auth: what the service is to show
// with each delivery, Basic credentials, a header, or both.
func (s *Sandbox) setAuth(c *call, r *http.Request) {
	if !s.stepExists(c) || !s.ownApp(c, r) {
		return
	}
	if _, ok := c.object(r); !ok {
		return
	}
	var given credentials
	if err := json.Unmarshal(c.request, &given); err != nil || !given.complete() {
		s.refuseInvalid(c, problem{"", "CREDENTIALS_MISSING"})
		return
	}
	s.hooks.credentials = &given
	c.reply(http.StatusOK, object{field("statusCode", quote("200"))}.json())
}

// stepExists refuses the set-up steps of a service that has none.
func (s *Sandbox) stepExists(c *call) bool {
	if s.opt.Switches.WebhookSetup == "subscribe" {
		c.refuseUnknown()
		return false
	}
	return true
}

func (a credentials) complete() bool {
	if a.Basic == nil && a.APIKey == nil {
		return false
	}
	return (a.Basic == nil || a.Basic.Username != "") && (a.APIKey == nil || a.APIKey.Header != "")
}

// show puts the credentials on a delivery.
func (a *credentials) show(r *http.Request) {
	if a == nil {
		return
	}
	if a.Basic != nil {
		r.SetBasicAuth(a.Basic.Username, a.Basic.Password)
	}
	if a.APIKey != nil {
		r.Header.Set(a.APIKey.Header, a.APIKey.Value)
	}
}

// defaultBiller is the biller of a sandbox whose switches name none.
const defaultBiller = "sandbox-biller"

// getBiller is GET /biller: who is behind the token.
func (s *Sandbox) getBiller(c *call, _ *http.Request) {
	if s.opt.Switches.Biller == "" {
		c.refuseUnknown()
		return
	}
	c.reply(http.StatusOK, object{field("id", quote(s.opt.Switches.Biller)), field("name", quote(sender))}.json())
}

// TellOfAnother queues a delivery about a customer of another biller of the app, as
// one subscription serves them all.
func (s *Sandbox) TellOfAnother(biller, customerID string) {
	defer s.lock()()
	s.emit(event{category: "customer", verb: "UPDATED", customer: customerID, biller: biller})
}
