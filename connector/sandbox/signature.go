package sandbox

import (
	"crypto/ed25519"
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
	// template | standard-webhooks (fixes all below except Algorithm for ed25519, WithOlder and Secret)
	Scheme string `yaml:"scheme"`
	Header string `yaml:"header"` // carries the signature; "" is X-Signature
	// makes the header a list such as t=…,v1=…: the name of signatures, for example v1; "" for no list
	SignatureItem string `yaml:"signature_item"`
	// the name of the time of sending in that list, for example t; "" leaves it out
	TimestampItem   string `yaml:"timestamp_item"`
	TimestampHeader string `yaml:"timestamp_header"` // carries the time of sending; "" sends none
	IDHeader        string `yaml:"id_header"`        // carries the delivery's id; "" sends none
	// hmac-sha256 | hmac-sha512 | ed25519 (WebhookSecret is the public key then)
	Algorithm string `yaml:"algorithm"`
	Encoding  string `yaml:"encoding"` // hex | base64 | base64url
	Prefix    string `yaml:"prefix"`   // goes before the encoded signature, for example "sha256="
	Signed    string `yaml:"signed"`   // template of {body}, {timestamp} and {id}; "" is {body}
	// spelling of the time of sending: unix | rfc3339 | zoneless
	Timestamp string `yaml:"timestamp"`
	// how Secret becomes the key: text | hex | base64 | base64url
	Key string `yaml:"key"`
	// in a list, the signature by the secret before stands before the one of now
	WithOlder bool             `yaml:"with_older"`
	Secret    connector.Secret `yaml:"-"` // blank lets the sandbox draw one, see WebhookSecret
}

const (
	standardScheme   = "standard-webhooks"
	algorithmEd25519 = "ed25519"
)

// placeholders removes the placeholders from a template.
var placeholders = strings.NewReplacer("{body}", "", "{timestamp}", "", "{id}", "")

// check reports contradictory switches, and a secret unreadable by Key. A blank secret is drawn later and is
// valid by construction.
func (sig Signature) check() error {
	switch {
	case sig.Scheme == standardScheme:
	case sig.Signed != "" && strings.Count(sig.Signed, "{body}") != 1:
		return refused("sandbox switch signature.signed must hold {body} once: a signature that does not cover the body vouches for nothing")
	case strings.ContainsAny(placeholders.Replace(sig.Signed), "{}"):
		return refused("sandbox switch signature.signed holds an unknown placeholder: use {body}, {timestamp} and {id}")
	case strings.Contains(sig.Signed, "{timestamp}") && sig.TimestampHeader == "" && sig.TimestampItem == "":
		return refused("sandbox switch signature.signed holds {timestamp}, which no header carries: name signature.timestamp_header or signature.timestamp_item too")
	case strings.Contains(sig.Signed, "{id}") && sig.IDHeader == "":
		return refused("sandbox switch signature.signed holds {id}, which no header carries: name signature.id_header too")
	case sig.SignatureItem == "" && sig.TimestampItem != "":
		return refused("sandbox switch signature.timestamp_item names the time in a list: name signature.signature_item too, for example v1")
	case sig.SignatureItem == "" && sig.WithOlder:
		return refused("sandbox switch signature.with_older puts two signatures into a list: name signature.signature_item too, for example v1")
	case sig.SignatureItem != "" && sig.SignatureItem == sig.TimestampItem:
		return refused("sandbox switches signature.signature_item and signature.timestamp_item are the same: give each its own name")
	}
	if sig.Secret.IsZero() {
		return nil
	}
	if _, err := sig.key(sig.Secret); err != nil {
		return fmt.Errorf("sandbox switch signature.secret cannot be read as signature.key says: %w", err)
	}
	return nil
}

// key returns the bytes of a secret. For Ed25519 it is the private key, with any secret as its seed.
func (sig Signature) key(secret connector.Secret) ([]byte, error) {
	text := secret.Expose()
	switch {
	case sig.Algorithm == algorithmEd25519:
		seed := sha256.Sum256([]byte(text))
		return ed25519.NewKeyFromSeed(seed[:]), nil
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

// receiverKey returns the receiver's key for checking signatures of secret: the secret itself, or the public key
// that belongs to it.
func (sig Signature) receiverKey(secret connector.Secret) connector.Secret {
	if sig.Algorithm != algorithmEd25519 {
		return secret
	}
	key, _ := sig.key(secret) // any seed is right
	public, _ := ed25519.PrivateKey(key).Public().(ed25519.PublicKey)
	switch {
	case sig.Scheme == standardScheme:
		return connector.NewSecret("whpk_" + base64.StdEncoding.EncodeToString(public))
	case sig.KeySpelling() == "hex":
		return connector.NewSecret(hex.EncodeToString(public))
	case sig.KeySpelling() == "base64url":
		return connector.NewSecret(base64.URLEncoding.EncodeToString(public))
	}
	return connector.NewSecret(base64.StdEncoding.EncodeToString(public))
}

// KeySpelling returns how WebhookSecret is spelled: as Key says, but that a public key is
// no text and is Base64 then.
func (sig Signature) KeySpelling() string {
	if sig.Algorithm == algorithmEd25519 && (sig.Key == "text" || sig.Key == "") {
		return "base64"
	}
	return sig.Key
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

// sign writes the signature headers of body, sent at now under the delivery id. Only a list has room for
// several secrets; the last one is the current one.
func (sig Signature) sign(h http.Header, id string, now time.Time, body []byte, secrets ...connector.Secret) error {
	stamp := sig.stamp(now)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		key, err := sig.key(secret)
		if err != nil {
			return fmt.Errorf("read the webhook secret: %w", err)
		}
		if signatures[i], err = sig.signature(key, id, now, body); err != nil {
			return err
		}
	}
	switch {
	case sig.Scheme == standardScheme:
		h.Set(standardwebhooks.HeaderWebhookID, id)
		h.Set(standardwebhooks.HeaderWebhookTimestamp, stamp)
		h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
		return nil
	case sig.SignatureItem != "":
		h.Set(sig.Header, sig.list(stamp, signatures))
	default:
		h.Set(sig.Header, signatures[len(signatures)-1])
	}
	setIfNamed(h, sig.TimestampHeader, stamp)
	setIfNamed(h, sig.IDHeader, id)
	return nil
}

// list writes signatures as the items of one header.
func (sig Signature) list(stamp string, signatures []string) string {
	var items []string
	if sig.TimestampItem != "" {
		items = append(items, sig.TimestampItem+"="+stamp)
	}
	for _, s := range signatures {
		items = append(items, sig.SignatureItem+"="+s)
	}
	return strings.Join(items, ",")
}

// signature returns one signature as a header has it.
func (sig Signature) signature(key []byte, id string, now time.Time, body []byte) (string, error) {
	if sig.Scheme == standardScheme {
		return signStandard(key, sig.Algorithm, id, now, body)
	}
	// One pass over the template: braces inside the body are not read again.
	message := strings.NewReplacer("{body}", string(body), "{timestamp}", sig.stamp(now), "{id}", id).Replace(sig.Signed)
	if sig.Algorithm == algorithmEd25519 {
		return sig.Prefix + sig.encode(ed25519.Sign(key, []byte(message))), nil
	}
	mac := hmac.New(sig.hash(), key)
	mac.Write([]byte(message))
	return sig.Prefix + sig.encode(mac.Sum(nil)), nil
}

// signStandard leaves a shared key to the scheme's own library, which knows no public ones.
func signStandard(key []byte, algorithm, id string, now time.Time, body []byte) (string, error) {
	if algorithm == algorithmEd25519 {
		message := fmt.Appendf(nil, "%s.%d.%s", id, now.Unix(), body)
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(key, message)), nil
	}
	hook, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return "", fmt.Errorf("take the webhook key: %w", err)
	}
	signature, err := hook.Sign(id, now, body)
	if err != nil {
		return "", fmt.Errorf("sign a delivery: %w", err)
	}
	return signature, nil
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
	switch {
	case sig.Scheme == standardScheme:
	case sig.Timestamp == "rfc3339":
		return now.UTC().Format(time.RFC3339)
	case sig.Timestamp == "zoneless":
		return now.UTC().Format("2006-01-02T15:04:05.000")
	}
	return strconv.FormatInt(now.Unix(), 10)
}

func setIfNamed(h http.Header, name, value string) {
	if name != "" {
		h.Set(name, value)
	}
}
