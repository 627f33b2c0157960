package billing

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"payersync/connector"
)

// DeliveryKey is a key required in each delivery, in addition to the signature. It only shows the sender knows the key,
// so it never replaces a signature.
type DeliveryKey struct {
	Header   string             `yaml:"header"`   // carries the key; "" is DeliveryKeyHeader
	Username string             `yaml:"username"` // of HTTP Basic, whose passwords are the keys; "" for a header
	Keys     []connector.Secret `yaml:"-"`        // any of them is right; none asks for nothing
}

// DeliveryKeyHeader is the default header for the delivery key.
const DeliveryKeyHeader = "X-Payersync-Key"

// ErrDeliveryKey means a delivery has no delivery key, or a wrong one.
var ErrDeliveryKey = errors.New("delivery: it carries none of the delivery keys")

const authorizationHeader = "Authorization"

// Validate checks the keys against the signing secrets. A key travels in each delivery: if it were also a secret, a
// reader of one delivery could forge the next.
func (k DeliveryKey) Validate(secrets []connector.Secret) error {
	var problems []error
	if k.Username != "" && (k.Header != "" || strings.Contains(k.Username, ":")) {
		problems = append(problems,
			errors.New("delivery_key.username: HTTP Basic has a header of its own, and a name without a colon; give either username or header"))
	}
	for i, key := range k.Keys {
		text := key.Expose()
		at := fmt.Sprintf("delivery_key.keys[%d]", i)
		if len(text) < minSecretBytes {
			problems = append(problems, fmt.Errorf("%s: it has %d bytes; use one of at least %d", at, len(text), minSecretBytes))
		} else if err := guessable(text); err != nil {
			problems = append(problems, fmt.Errorf("%s: it is blank, or one short text again and again; use a random one", at))
		}
		for _, secret := range secrets {
			if subtle.ConstantTimeCompare([]byte(text), []byte(secret.Expose())) == 1 {
				problems = append(problems,
					fmt.Errorf("%s: it is one of signature.secrets too, and whoever sees a delivery could forge the next; remove it there", at))
			}
		}
	}
	return errors.Join(problems...)
}

// Check reports whether a delivery has exactly one of the keys. Its duration does not depend on the key.
func (k DeliveryKey) Check(h http.Header) error {
	if len(k.Keys) == 0 {
		return nil
	}
	values := h.Values(k.header())
	if len(values) != 1 {
		return ErrDeliveryKey
	}
	fit := 0
	for _, key := range k.Keys {
		fit |= subtle.ConstantTimeCompare([]byte(k.spell(key)), []byte(values[0]))
	}
	if fit != 1 {
		return ErrDeliveryKey
	}
	return nil
}

// Set puts the first key on a delivery of our own.
func (k DeliveryKey) Set(h http.Header) {
	if len(k.Keys) > 0 {
		h.Set(k.header(), k.spell(k.Keys[0]))
	}
}

// sentPart is the part of the first key sent to the service.
func (k DeliveryKey) sentPart() json.RawMessage {
	var way, body object
	if k.Username != "" {
		way.set("username", quote(k.Username))
		way.set("password", quote(k.Keys[0].Expose()))
		body.set("basicAuthentication", way.bytes())
	} else {
		way.set("headerKey", quote(k.header()))
		way.set("headerValue", quote(k.Keys[0].Expose()))
		body.set("apiKeyAuthentication", way.bytes())
	}
	return body.bytes()
}

func (k DeliveryKey) header() string {
	switch {
	case k.Username != "":
		return authorizationHeader
	case k.Header != "":
		return k.Header
	}
	return DeliveryKeyHeader
}

func (k DeliveryKey) spell(key connector.Secret) string {
	if k.Username == "" {
		return key.Expose()
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(k.Username+":"+key.Expose()))
}
