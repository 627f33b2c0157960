package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payersync/connector"
)

// Signature says how deliveries are signed; the interface shows no scheme.
// Where words are listed the first one is the default.
type Signature struct {
	Scheme          string           `yaml:"scheme"`           // template | standard-webhooks (which fixes all below but Secret)
	Header          string           `yaml:"header"`           // carries the signature; "" is X-Signature
	TimestampHeader string           `yaml:"timestamp_header"` // carries the time of sending; "" sends none
	IDHeader        string           `yaml:"id_header"`        // carries the delivery's id; "" sends none
	Algorithm       string           `yaml:"algorithm"`        // hmac-sha256 | hmac-sha512
	Encoding        string           `yaml:"encoding"`         // hex | base64 | base64url
	Prefix          string           `yaml:"prefix"`           // goes before the encoded signature, for example "sha256="
	Signed          string           `yaml:"signed"`           // template of {body}, {timestamp} and {id}; "" is {body}
	Timestamp       string           `yaml:"timestamp"`        // spelling of the timestamp header: unix | rfc3339 | zoneless
	Key             string           `yaml:"key"`              // how Secret becomes the key: text | hex | base64 | base64url
	Secret          connector.Secret `yaml:"-"`                // blank lets the sandbox draw one, see WebhookSecret
}

const standardScheme = "standard-webhooks"

// check reports a secret that cannot be read as Key says. A blank one is drawn
// later and is right by construction.
func (sig Signature) check() error {
	if sig.Secret.IsZero() {
		return nil
	}
	if _, err := sig.key(sig.Secret); err != nil {
		return fmt.Errorf("sandbox switch signature.secret cannot be read as signature.key says: %w", err)
	}
	return nil
}

// key returns the bytes that secret stands for.
func (sig Signature) key(secret connector.Secret) ([]byte, error) {
	text := secret.Expose()
	switch {
	case sig.Scheme == standardScheme:
		return base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	case sig.Key == "hex":
		return hex.DecodeString(text)
	case sig.Key == "base64":
		return base64.StdEncoding.DecodeString(text)
	case sig.Key == "base64url":
		return base64.URLEncoding.DecodeString(text)
	}
	return []byte(text), nil
}

// draw returns a fresh secret of 32 random bytes in the spelling that key reads
// back; as text it has 44 URL-safe characters.
func (sig Signature) draw(random io.Reader) connector.Secret {
	b := make([]byte, 32)
	_, _ = io.ReadFull(random, b) // the seeded source never ends
	switch {
	case sig.Scheme == standardScheme:
		return connector.NewSecret("whsec_" + base64.StdEncoding.EncodeToString(b))
	case sig.Key == "hex":
		return connector.NewSecret(hex.EncodeToString(b))
	case sig.Key == "base64":
		return connector.NewSecret(base64.StdEncoding.EncodeToString(b))
	}
	return connector.NewSecret(base64.URLEncoding.EncodeToString(b))
}

// sign writes the headers that vouch for body, sent at now under the delivery
// id.
func (sig Signature) sign(h http.Header, secret connector.Secret, id string, now time.Time, body []byte) error {
	key, err := sig.key(secret)
	if err != nil {
		return fmt.Errorf("read the webhook secret: %w", err)
	}
	if sig.Scheme == standardScheme {
		return signStandard(h, key, id, now, body)
	}
	stamp := sig.stamp(now)
	mac := hmac.New(sig.hash(), key)
	// One pass over the template: braces inside the body are not read again.
	_, _ = strings.NewReplacer("{body}", string(body), "{timestamp}", stamp, "{id}", id).WriteString(mac, sig.Signed)
	h.Set(sig.Header, sig.Prefix+sig.encode(mac.Sum(nil)))
	setIfNamed(h, sig.TimestampHeader, stamp)
	setIfNamed(h, sig.IDHeader, id)
	return nil
}

func signStandard(h http.Header, key []byte, id string, now time.Time, body []byte) error {
	hook, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return fmt.Errorf("take the webhook key: %w", err)
	}
	signature, err := hook.Sign(id, now, body)
	if err != nil {
		return fmt.Errorf("sign a delivery: %w", err)
	}
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return nil
}

func (sig Signature) hash() func() hash.Hash {
	if sig.Algorithm == "hmac-sha512" {
		return sha512.New
	}
	return sha256.New
}

func (sig Signature) encode(b []byte) string {
	switch sig.Encoding {
	case "base64":
		return base64.StdEncoding.EncodeToString(b)
	case "base64url":
		return base64.URLEncoding.EncodeToString(b)
	}
	return hex.EncodeToString(b)
}

func (sig Signature) stamp(now time.Time) string {
	switch sig.Timestamp {
	case "rfc3339":
		return now.UTC().Format(time.RFC3339)
	case "zoneless":
		return now.UTC().Format("2006-01-02T15:04:05.000")
	}
	return strconv.FormatInt(now.Unix(), 10)
}

func setIfNamed(h http.Header, name, value string) {
	if name != "" {
		h.Set(name, value)
	}
}
