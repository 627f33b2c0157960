// Package webhook sends signed webhooks to other systems, as https://www.standardwebhooks.com defines them:
// HMAC-SHA256 over id, timestamp and body. The caller decides the content, repeats a failed delivery, and
// stores its state.
package webhook

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payersync/connector"
	"payersync/connector/transport"
)

// Receiver is another system with one address for signed requests.
type Receiver struct {
	URL    string
	Secret connector.Secret // see CheckSecret
	HTTP   *transport.Client
	Now    func() time.Time
}

// RefusedError means a final refusal: the receiver will not accept the request later either.
type RefusedError struct{ Err error }

// Error returns why.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// CheckSecret refuses a secret with a malformed key, or one easy to guess.
func CheckSecret(secret connector.Secret) error {
	const least = 24
	key, err := keyOf(secret)
	if err == nil && len(key) < least {
		err = fmt.Errorf("it has %d bytes; use one of at least %d, as openssl rand -base64 32 makes it", len(key), least)
	}
	return err
}

// keyOf returns the key inside a secret: base64 after whsec_, as Standard Webhooks writes it, or the text
// itself.
func keyOf(secret connector.Secret) ([]byte, error) {
	encoded, standard := strings.CutPrefix(secret.Expose(), "whsec_")
	if !standard {
		return []byte(encoded), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("what follows whsec_ is not base64")
	}
	return key, nil
}

// Send posts a body once. The signature covers the time of sending, so it is made for each
// attempt; the id and the body stay.
func (r *Receiver) Send(ctx context.Context, id string, body []byte) (answer string, err error) {
	key, err := keyOf(r.Secret)
	if err != nil {
		return "", fmt.Errorf("the secret of the webhook cannot be used: %w", err)
	}
	signer, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return "", fmt.Errorf("the secret of the webhook cannot be used: %w", err)
	}
	now := r.Now()
	signature, err := signer.Sign(id, now, body)
	if err != nil {
		return "", fmt.Errorf("sign the webhook: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("the address of the webhook cannot be used: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(standardwebhooks.HeaderWebhookID, id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	resp, err := r.HTTP.Do(req, transport.Never) // the ledger knows when to try again
	if err != nil {
		err = fmt.Errorf("the webhook was not taken: %w", err)
		var failed *transport.Error
		if errors.As(err, &failed) && slices.Contains(beforeSending, failed.Reason) {
			err = &NotSentError{err}
		}
		return "", err
	}
	status := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return status, nil
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return "", &laterError{fmt.Errorf("the webhook was answered %s", status), transport.RetryAfter(resp, now)}
	}
	return "", &RefusedError{fmt.Errorf("the webhook was answered %s", status)}
}

// laterError is an answer with a time before which the request must not be repeated.
type laterError struct {
	error
	at time.Time
}

// RetryAt returns the time; zero for any.
func (e *laterError) RetryAt() time.Time { return e.at }

// beforeSending are the failures before the first byte of a request left.
var beforeSending = []transport.Reason{transport.ReasonURL, transport.ReasonName, transport.ReasonAddress,
	transport.ReasonConnect, transport.ReasonProxy}

// NotSentError means no byte left: no connection to the receiver could be made.
type NotSentError struct{ Err error }

// Error returns why.
func (e *NotSentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NotSentError) Unwrap() error { return e.Err }
