package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/server"
	"payersync/state"
)

// errNoWebhookSecret means neither the service nor the configuration has given a secret.
var errNoWebhookSecret = usage.Errorf("the webhook endpoint cannot start: there is no signing secret; run payersync webhooks subscribe to get one from the service, or set billing.webhook.signature.secrets")

// heldAgainst returns the keys for checking deliveries: the ledger's secrets and delivery keys from
// rotations, the newest first, and those of the configuration. Our own test deliveries are signed with the
// first.
func heldAgainst(ctx context.Context, ledger *state.Ledger, hook *config.Webhook) (server.Keys, error) {
	kept, err := ledger.WebhookKeys(ctx, time.Duration(hook.Overlap))
	if err != nil {
		return server.Keys{}, err
	}
	held := server.Keys{Until: kept.Until, Unknown: kept.Unknown}
	signature := hook.Signature.Signature
	readable, unread := readableSecrets(signature, kept.Secrets)
	signature.Secrets = slices.Concat(readable, signature.Secrets)
	switch {
	case len(signature.Secrets) > 0:
		held.Unknown = held.Unknown || unread != nil // the service signs with it: such deliveries are not junk
	case unread != nil:
		return server.Keys{}, usage.Errorf("billing.webhook.signature cannot read the service's secret: %w", unread)
	default:
		return server.Keys{}, errNoWebhookSecret
	}
	if held.Verifier, err = billing.NewVerifier(signature); err != nil {
		return server.Keys{}, usage.Mistake{Err: err}
	}
	if err := (billing.DeliveryKey{Keys: kept.DeliveryKeys}).Validate(signature.Secrets); err != nil {
		return server.Keys{}, usage.Errorf("billing.webhook.signature.secrets contains a delivery key of the service: %w",
			err)
	}
	if hook.Key == nil {
		return held, nil
	}
	held.Delivery = hook.Key.DeliveryKey
	held.Delivery.Keys = slices.Concat(kept.DeliveryKeys, hook.Key.Keys)
	if len(held.Delivery.Keys) == 0 {
		return server.Keys{}, usage.Errorf("billing.webhook.delivery_key requires a key, and there is none; payersync webhooks subscribe makes one if the service wants one, or set delivery_key.keys")
	}
	if err := held.Delivery.Validate(signature.Secrets); err != nil {
		return server.Keys{}, usage.Errorf("billing.webhook.%w", err)
	}
	return held, nil
}

// readableSecrets returns the secrets valid in the scheme, and the reason against an invalid one.
func readableSecrets(s billing.Signature, secrets []connector.Secret) (readable []connector.Secret, unread error) {
	for _, secret := range secrets {
		s.Secrets = []connector.Secret{secret}
		if _, err := billing.NewVerifier(s); err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		readable = append(readable, secret)
	}
	return readable, unread
}

// rotation is a subscription in progress, as far as it replaces the keys of deliveries. Each step is in the
// ledger before the next begins, so a running serve knows it. A crash needs no cleanup: arrived secrets are
// accepted. If one may have been lost, serve asks for the delivery again until the next subscription.
type rotation struct {
	ledger *state.Ledger
	id     int64
	key    billing.DeliveryKey
	kept   bool  // the service named a secret
	unread error // why the present configuration cannot use it
}

// beginRotation stores the beginning of the request to the service. The service gets the configuration's
// first delivery key, or a random one.
func beginRotation(ctx context.Context, s *session.Session, hook *config.Webhook, by string) (*rotation, error) {
	r := &rotation{ledger: s.Ledger}
	var told connector.Secret
	if s.Billing.WantsDeliveryKey() {
		if hook.Key != nil {
			r.key = hook.Key.DeliveryKey
		}
		if len(r.key.Keys) == 0 {
			r.key.Keys = []connector.Secret{connector.NewSecret(rand.Text())}
		}
		told = r.key.Keys[0]
	}
	err := s.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		r.id, err = tx.BeginRotation(told, time.Duration(hook.Overlap), by)
		return err
	})
	return r, err
}

// keep stores the secret from the service, even during an interruption: the service may sign with it from now
// on.
func (r *rotation) keep(ctx context.Context, signature billing.Signature) func(connector.Secret) error {
	return func(secret connector.Secret) error {
		if err := r.ledger.Do(context.WithoutCancel(ctx),
			func(tx *state.Tx) error { return tx.KeepSecret(r.id, secret) }); err != nil {
			return fmt.Errorf("cannot store the service's new secret: %w", err)
		}
		r.kept = true
		_, r.unread = readableSecrets(signature, []connector.Secret{secret})
		return nil
	}
}

// failed returns the error of a failed subscription, with the consequences for its secret.
func (r *rotation) failed(ctx context.Context, why error) error {
	switch fault := connector.FaultOf(why); {
	case r.kept:
		return fmt.Errorf("cannot subscribe to webhooks: %w. The new secret is kept and accepted beside those of before; run payersync webhooks subscribe again", why)
	case fault == "" || fault == connector.FaultUnknown:
		return fmt.Errorf("cannot subscribe to webhooks: %w. The service may sign with a new secret that never arrived here: until payersync webhooks subscribe succeeds, serve asks for a repetition of each delivery that fits no secret", why)
	}
	return errors.Join(fmt.Errorf("cannot subscribe to webhooks: %w", why),
		r.ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.RefuseRotation(r.id) }))
}
