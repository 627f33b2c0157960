package billing

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payersync/connector"
)

// Signature says how deliveries are signed. The interface leaves the scheme open,
// so an operator states it, either field by field or by scheme.
type Signature struct {
	Scheme          string             `yaml:"scheme"`           // standard-webhooks, which settles all but secrets and tolerance; "" for the fields below
	Header          string             `yaml:"header"`           // carries the signature
	TimestampHeader string             `yaml:"timestamp_header"` // carries the time of signing; needed for {timestamp}
	IDHeader        string             `yaml:"id_header"`        // carries the delivery's id; needed for {id}
	Algorithm       string             `yaml:"algorithm"`        // hmac-sha256 (also "") | hmac-sha512
	Encoding        string             `yaml:"encoding"`         // of the signature: hex (also "") | base64 | base64url
	Prefix          string             `yaml:"prefix"`           // what stands before the signature, for example sha256=
	Signed          string             `yaml:"signed"`           // template of {body}, {timestamp}, {id}; body (also "") is {body}
	Key             string             `yaml:"key"`              // how secrets are spelt: text (also "") | hex | base64
	Tolerance       time.Duration      `yaml:"tolerance"`        // either side of now; 0 for 5 minutes, negative for any time
	Secrets         []connector.Secret `yaml:"-"`                // any of them may have signed
}

const (
	schemeStandard   = "standard-webhooks"
	minSecretBytes   = 24
	defaultTolerance = 5 * time.Minute
)

// Why a delivery is refused. None of them says more than a sender may know.
var (
	ErrSignatureMissing = errors.New("delivery: a signature header is missing or not single")
	ErrSignatureWrong   = errors.New("delivery: the signature fits none of the secrets")
	ErrSignatureStale   = errors.New("delivery: it was signed too long ago or in the future; the likely causes are a replay, or a clock that is wrong")
)

// Verifier checks deliveries. It is safe for concurrent use.
type Verifier struct {
	signature Signature
	keys      [][]byte
	hash      func() hash.Hash
	template  []string // texts and placeholders, in turn
}

// NewVerifier returns a verifier for the scheme. It refuses, with every problem
// at once, what would let an unsigned delivery pass: no secret, one shorter than
// 24 bytes, an unknown scheme, a template without the body (fault F34).
func NewVerifier(s Signature) (*Verifier, error) {
	if s.Scheme == schemeStandard {
		s = standardSignature(s)
	}
	if s.Signed == "" || s.Signed == "body" {
		s.Signed = bodyPlace
	}
	v := &Verifier{signature: s, hash: sha256.New, template: cut(s.Signed)}
	if s.Algorithm == "hmac-sha512" {
		v.hash = sha512.New
	}
	if err := errors.Join(s.validate(), v.readKeys()); err != nil {
		return nil, fmt.Errorf("the webhook endpoint cannot be opened: %w", err)
	}
	return v, nil
}

// standardSignature spells the scheme out, for the checks that all schemes share.
func standardSignature(s Signature) Signature {
	return Signature{
		Scheme: s.Scheme, Header: standardwebhooks.HeaderWebhookSignature,
		TimestampHeader: standardwebhooks.HeaderWebhookTimestamp, IDHeader: standardwebhooks.HeaderWebhookID,
		Signed: "{id}.{timestamp}.{body}", Key: "base64", Encoding: "base64", Tolerance: s.Tolerance, Secrets: s.Secrets,
	}
}

func (s Signature) validate() error {
	var problems []error
	add := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("signature."+format, args...))
	}
	oneOf := func(key, value string, allowed ...string) {
		for _, a := range allowed {
			if value == a || value == "" {
				return
			}
		}
		add("%s: %q is not known; use %s", key, value, strings.Join(allowed, ", "))
	}
	oneOf("scheme", s.Scheme, schemeStandard)
	oneOf("algorithm", s.Algorithm, "hmac-sha256", "hmac-sha512")
	oneOf("encoding", s.Encoding, "hex", "base64", "base64url")
	oneOf("key", s.Key, "text", "hex", "base64")
	if s.Header == "" {
		add("header: it is missing; name the header that carries the signature")
	}
	if strings.Count(s.Signed, bodyPlace) != 1 {
		add("signed: %q does not hold {body} once; a signature must cover the body", s.Signed)
	}
	if strings.ContainsAny(placeholders.Replace(s.Signed), "{}") {
		add("signed: %q holds an unknown placeholder; use {body}, {timestamp}, {id}", s.Signed)
	}
	if strings.Contains(s.Signed, timestampPlace) && s.TimestampHeader == "" {
		add("timestamp_header: signed holds {timestamp}; name the header that carries it")
	}
	if strings.Contains(s.Signed, idPlace) && s.IDHeader == "" {
		add("id_header: signed holds {id}; name the header that carries it")
	}
	return errors.Join(problems...)
}

// The placeholders of a template.
const (
	bodyPlace      = "{body}"
	timestampPlace = "{timestamp}"
	idPlace        = "{id}"
)

var placeholders = strings.NewReplacer(bodyPlace, "", timestampPlace, "", idPlace, "")

// cut splits a template before and behind each placeholder.
func cut(template string) []string {
	const mark = "\x00"
	for _, place := range []string{bodyPlace, timestampPlace, idPlace} {
		template = strings.ReplaceAll(template, place, mark+place+mark)
	}
	return strings.Split(template, mark)
}

func (v *Verifier) readKeys() error {
	if len(v.signature.Secrets) == 0 {
		return errors.New("signature.secrets: there is none; give the secret that the service signs with")
	}
	var problems []error
	for i, secret := range v.signature.Secrets {
		key, err := v.signature.decodeKey(secret.Expose())
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("signature.secrets[%d]: it is not %s; check it and signature.key", i, v.signature.Key))
		case len(key) < minSecretBytes:
			problems = append(problems, fmt.Errorf("signature.secrets[%d]: it has %d bytes; use one of at least %d", i, len(key), minSecretBytes))
		}
		v.keys = append(v.keys, key)
	}
	return errors.Join(problems...)
}

func (s Signature) decodeKey(secret string) ([]byte, error) {
	switch s.Key {
	case "hex":
		return hex.DecodeString(secret)
	case "base64":
		return decodeBase64(strings.TrimPrefix(secret, "whsec_"))
	}
	return []byte(secret), nil
}

// decodeBase64 takes both alphabets, padded or not.
func decodeBase64(text string) ([]byte, error) {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	return base64.RawStdEncoding.DecodeString(text)
}

// Signed is what a verified delivery states under its signature.
type Signed struct {
	DeliveryID string    // zero when the scheme signs no id: an unsigned one is the sender's word
	SignedAt   time.Time // zero when the scheme signs no time
}

// Verify checks a delivery's headers and raw body against every secret, in time
// that does not depend on which of them fits, and the signed time against now.
// It returns ErrSignatureMissing, ErrSignatureWrong or ErrSignatureStale (faults
// F34 and F35). The text of the timestamp is signed as it came and only then
// read.
func (v *Verifier) Verify(h http.Header, body []byte, now time.Time) (Signed, error) {
	d := delivery{header: h, body: body}
	present := v.take(h, v.signature.Header, true, &d.signature) &&
		v.take(h, v.signature.TimestampHeader, v.signs(timestampPlace), &d.timestamp) &&
		v.take(h, v.signature.IDHeader, v.signs(idPlace), &d.id)
	if !present {
		return Signed{}, ErrSignatureMissing
	}
	if !v.fits(d) {
		return Signed{}, ErrSignatureWrong
	}
	at, err := v.signedAt(d.timestamp, now)
	if err != nil {
		return Signed{}, err
	}
	return Signed{DeliveryID: d.id, SignedAt: at}, nil
}

// delivery is what a signature is checked against.
type delivery struct {
	header                   http.Header
	body                     []byte
	signature, timestamp, id string
}

func (v *Verifier) signs(place string) bool { return strings.Contains(v.signature.Signed, place) }

// take reads a header that must be there once, if it is needed at all.
func (v *Verifier) take(h http.Header, name string, needed bool, to *string) bool {
	if !needed {
		return true
	}
	values := h.Values(name)
	if len(values) != 1 || values[0] == "" {
		return false
	}
	*to = values[0]
	return true
}

// fits tries every secret and spelling, whether or not an earlier one fitted.
// What was given is never decoded: a text that merely decodes to the right
// bytes, with stray bits or characters, is not the signature.
func (v *Verifier) fits(d delivery) bool {
	if v.signature.Scheme == schemeStandard {
		return v.fitsStandard(d)
	}
	given, fit := []byte(d.signature), 0
	for _, key := range v.keys {
		for _, text := range v.spell(v.sign(key, d)) {
			fit |= subtle.ConstantTimeCompare([]byte(v.signature.Prefix+text), given)
		}
	}
	return fit == 1
}

// spell returns every way in which a signature may be written: hex in one case
// throughout, Base64 with or without padding.
func (v *Verifier) spell(sum []byte) []string {
	switch v.signature.Encoding {
	case "base64":
		return []string{base64.StdEncoding.EncodeToString(sum), base64.RawStdEncoding.EncodeToString(sum)}
	case "base64url":
		return []string{base64.URLEncoding.EncodeToString(sum), base64.RawURLEncoding.EncodeToString(sum)}
	}
	lower := hex.EncodeToString(sum)
	return []string{lower, strings.ToUpper(lower)}
}

// fitsStandard leaves the signature to the scheme's own library and the time to
// signedAt, because the library reads the clock of the machine.
func (v *Verifier) fitsStandard(d delivery) bool {
	fit := false
	for _, key := range v.keys {
		webhook, err := standardwebhooks.NewWebhookRaw(key)
		valid := err == nil && webhook.VerifyIgnoringTimestamp(d.body, d.header) == nil
		fit = fit || valid
	}
	return fit
}

func (v *Verifier) sign(key []byte, d delivery) []byte {
	mac := hmac.New(v.hash, key)
	for _, part := range v.template {
		switch part {
		case bodyPlace:
			mac.Write(d.body)
		case timestampPlace:
			mac.Write([]byte(d.timestamp))
		case idPlace:
			mac.Write([]byte(d.id))
		default:
			mac.Write([]byte(part))
		}
	}
	return mac.Sum(nil)
}

// signedAt reads the signed time and compares it with now. Where any time goes,
// one that cannot be read is zero.
func (v *Verifier) signedAt(timestamp string, now time.Time) (time.Time, error) {
	if !v.signs(timestampPlace) {
		return time.Time{}, nil
	}
	at, err := ParseTime(timestamp)
	tolerance := cmp.Or(v.signature.Tolerance, defaultTolerance)
	if tolerance < 0 {
		return at, nil
	}
	if err != nil || now.Sub(at).Abs() > tolerance {
		return time.Time{}, ErrSignatureStale
	}
	return at, nil
}
