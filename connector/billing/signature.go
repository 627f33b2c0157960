package billing

import (
	"cmp"
	"crypto/ed25519"
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
	"slices"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payersync/connector"
)

// Signature describes the signatures of deliveries. The interface leaves the scheme open, so an operator configures it:
// by fields, or by a scheme with fields to override its parts. Only standard-webhooks cannot be overridden.
type Signature struct {
	Scheme string `yaml:"scheme"` // standard-webhooks, xero, adfin; "" for the fields below
	Header string `yaml:"header"` // carries the signature
	// for a header with a list such as t=…,v1=…,v1=…: the name of the signatures, for example v1
	SignatureItem string `yaml:"signature_item"`
	TimestampItem string `yaml:"timestamp_item"` // and the name of the time of signing, for example t
	// carries the time of signing; needed for {timestamp} without an item of it
	TimestampHeader string `yaml:"timestamp_header"`
	IDHeader        string `yaml:"id_header"` // carries the delivery's id; needed for {id}
	// hmac-sha256 (also "") | hmac-sha512 | ed25519, where secrets are public keys
	Algorithm string `yaml:"algorithm"`
	Encoding  string `yaml:"encoding"` // of the signature: hex (also "") | base64 | base64url
	Prefix    string `yaml:"prefix"`   // text before the signature, for example sha256=
	// template of {body}, {timestamp}, {id}; body (also "") is {body}
	Signed string `yaml:"signed"`
	// how secrets are spelt: text (also "") | hex | base64 | base64url
	Key string `yaml:"key"`
	// either side of now; 0 for 5 minutes, negative for any time
	Tolerance time.Duration      `yaml:"tolerance"`
	Secrets   []connector.Secret `yaml:"-"` // any of them may have signed
}

const (
	schemeStandard   = "standard-webhooks"
	schemeXero       = "xero"
	schemeAdfin      = "adfin"
	algorithmEd25519 = "ed25519"
	publicPrefix     = "whpk_" // before a public key of the standard's
	minSecretBytes   = 24
	maxPeriod        = 8  // the longest period in bytes refused as a repeated secret
	maxSignatures    = 16 // signatures checked in one header
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
	keys      []signingKey
	hash      func() hash.Hash
	template  []string // texts and placeholders, in turn
}

// NewVerifier returns a verifier for the scheme. It reports all unsafe settings at once: no secret, a secret shorter
// than 24 bytes, an unknown scheme, a template without the body (fault F34). Each would let an unsigned delivery pass.
func NewVerifier(s Signature) (*Verifier, error) {
	s = s.spelledOut()
	v := &Verifier{signature: s, hash: sha256.New, template: cut(s.Signed)}
	if s.Algorithm == "hmac-sha512" {
		v.hash = sha512.New
	}
	if err := errors.Join(s.validate(), v.readKeys()); err != nil {
		return nil, fmt.Errorf("the webhook endpoint cannot be opened: %w", err)
	}
	return v, nil
}

// Validate checks the scheme without its secrets.
func (s Signature) Validate() error { return s.spelledOut().validate() }

// ProfileScheme returns the scheme of a dialect's profile, for a configuration without a scheme or a header; "" for
// none.
func ProfileScheme(profile string) string {
	if profile == schemeAdfin {
		return schemeAdfin
	}
	return ""
}

// spelledOut fills open fields from the scheme, for the checks shared by all schemes.
func (s Signature) spelledOut() Signature {
	if s.Signed == "body" {
		s.Signed = bodyPlace
	}
	switch s.Scheme {
	case schemeStandard:
		return Signature{
			Scheme: s.Scheme, Header: standardwebhooks.HeaderWebhookSignature,
			TimestampHeader: standardwebhooks.HeaderWebhookTimestamp, IDHeader: standardwebhooks.HeaderWebhookID,
			Signed: "{id}.{timestamp}.{body}", Key: "base64", Encoding: "base64", Tolerance: s.Tolerance, Secrets: s.Secrets,
			Algorithm: publicOnly(s.Algorithm),
		}
	case schemeXero:
		s.Header, s.Encoding = cmp.Or(s.Header, "x-xero-signature"), cmp.Or(s.Encoding, "base64")
	case schemeAdfin:
		s.Header, s.Encoding = cmp.Or(s.Header, "adfin-webhook-signature"), cmp.Or(s.Encoding, "base64")
		s.TimestampHeader = cmp.Or(s.TimestampHeader, "adfin-webhook-signature-timestamp")
		s.Signed = cmp.Or(s.Signed, bodyPlace+timestampPlace)
	}
	s.Signed = cmp.Or(s.Signed, bodyPlace)
	return s
}

// publicOnly returns the algorithm for a scheme with a fixed signature for shared secrets, if it excludes these.
func publicOnly(algorithm string) string {
	if algorithm == algorithmEd25519 {
		return algorithm
	}
	return ""
}

// AgeUnchecked reports whether deliveries have a time outside the signature. Such a time proves nothing, so tolerance
// has no effect.
func (s Signature) AgeUnchecked() bool {
	s = s.spelledOut()
	return (s.TimestampHeader != "" || s.TimestampItem != "") && !strings.Contains(s.Signed, timestampPlace)
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
	oneOf("scheme", s.Scheme, schemeStandard, schemeXero, schemeAdfin)
	oneOf("algorithm", s.Algorithm, "hmac-sha256", "hmac-sha512", algorithmEd25519)
	oneOf("encoding", s.Encoding, "hex", "base64", "base64url")
	oneOf("key", s.Key, "text", "hex", "base64", "base64url")
	if s.Header == "" {
		add("header: it is missing; name the header that carries the signature")
	}
	if strings.Count(s.Signed, bodyPlace) != 1 {
		add("signed: %q does not hold {body} once; a signature must cover the body", s.Signed)
	}
	if strings.ContainsAny(placeholders.Replace(s.Signed), "{}") {
		add("signed: %q holds an unknown placeholder; use {body}, {timestamp}, {id}", s.Signed)
	}
	if strings.Contains(s.Signed, timestampPlace) && s.TimestampHeader == "" && s.TimestampItem == "" {
		add("timestamp_header: signed holds {timestamp}; name the header that carries it")
	}
	if s.TimestampItem != "" && s.SignatureItem == "" {
		add("signature_item: timestamp_item makes the header a list; name the items that are signatures, for example v1")
	}
	if s.SignatureItem != "" && s.SignatureItem == s.TimestampItem {
		add("timestamp_item: it is the same as signature_item; the time and the signature are different items")
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
		key, err := v.signature.readKey(secret.Expose())
		if err != nil {
			problems = append(problems, fmt.Errorf("signature.secrets[%d]: %w", i, err))
		}
		v.keys = append(v.keys, key)
	}
	return errors.Join(problems...)
}

// signingKey is the key in one secret.
type signingKey struct {
	bytes  []byte
	public bool // of Ed25519; otherwise it is shared with the service
}

// readKey refuses a key that can be guessed or looked up, and never shows it.
func (s Signature) readKey(secret string) (signingKey, error) {
	decoded, err := s.decodeKey(strings.TrimPrefix(secret, publicPrefix))
	key := signingKey{decoded, s.Algorithm == algorithmEd25519 || s.Scheme == schemeStandard &&
		strings.HasPrefix(secret, publicPrefix)}
	switch {
	case err != nil:
		return key, fmt.Errorf("it is not %s; check it and signature.key", s.Key)
	case !key.public && strings.HasPrefix(secret, publicPrefix):
		return key, fmt.Errorf("it is a public key, with which anybody could sign as with a shared secret; set signature.algorithm to %s", algorithmEd25519)
	case key.public && len(decoded) != ed25519.PublicKeySize:
		return key, fmt.Errorf("it has %d bytes; a public key of Ed25519 has %d: see signature.key", len(decoded),
			ed25519.PublicKeySize)
	case len(decoded) < minSecretBytes:
		return key, fmt.Errorf("it has %d bytes; use one of at least %d", len(decoded), minSecretBytes)
	}
	if err := guessable(secret); err != nil {
		return key, err
	}
	return key, guessable(string(decoded))
}

// guessable refuses a key padded to the length: a blank, one character, or a short word again and again, such
// as none or changeme.
func guessable(secret string) error {
	if strings.TrimSpace(secret) == "" {
		return errors.New("it is blank; give the secret that the service signs with")
	}
	for period := 1; period <= maxPeriod; period++ {
		if repeats(secret, period) {
			return errors.New("it is one short text again and again, which anybody guesses; give the secret that the service signs with")
		}
	}
	return nil
}

func repeats(s string, period int) bool {
	return len(s) > period && s[period:] == s[:len(s)-period]
}

func (s Signature) decodeKey(secret string) ([]byte, error) {
	switch s.Key {
	case "hex":
		return hex.DecodeString(secret)
	case "base64", "base64url":
		return decodeBase64(strings.TrimPrefix(secret, "whsec_"))
	}
	return []byte(secret), nil
}

// decodeBase64 takes both alphabets, padded or not.
func decodeBase64(text string) ([]byte, error) {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	return base64.RawStdEncoding.DecodeString(text)
}

// Signed holds the signed facts of a verified delivery.
type Signed struct {
	DeliveryID string    // zero when the scheme signs no id: an unsigned one is the sender's word
	SignedAt   time.Time // zero when the scheme signs no time
}

// Verify checks a delivery's headers and raw body against every secret, and the signed time against now. Its duration
// does not depend on the matching secret. It returns ErrSignatureMissing, ErrSignatureWrong or ErrSignatureStale
// (faults F34 and F35). It verifies the timestamp's raw text before parsing it.
func (v *Verifier) Verify(h http.Header, body []byte, now time.Time) (Signed, error) {
	d := delivery{header: h, body: body}
	if !v.read(&d) {
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

// delivery is the data for checking a signature.
type delivery struct {
	header        http.Header
	body          []byte
	signatures    []string // any one may fit
	timestamp, id string
}

// read takes the signed values and the signatures from the headers.
func (v *Verifier) read(d *delivery) bool {
	s := v.signature
	var whole string
	if !v.readHeader(d.header, s.Header, true, &whole) || !v.readHeader(d.header, s.IDHeader, v.signs(idPlace), &d.id) ||
		!v.readHeader(d.header, s.TimestampHeader, v.signs(timestampPlace) && s.TimestampItem == "", &d.timestamp) {
		return false
	}
	if s.SignatureItem == "" {
		d.signatures = []string{whole}
		return true
	}
	var times []string
	for item := range strings.SplitSeq(whole, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		switch {
		case value == "":
		case name == s.SignatureItem:
			d.signatures = append(d.signatures, value)
		case name == s.TimestampItem:
			times = append(times, value)
		}
	}
	if s.TimestampItem != "" {
		if len(times) != 1 {
			return false
		}
		d.timestamp = times[0]
	}
	return len(d.signatures) > 0 && len(d.signatures) <= maxSignatures
}

func (v *Verifier) signs(place string) bool { return strings.Contains(v.signature.Signed, place) }

// readHeader reads a required header; it must occur exactly once.
func (v *Verifier) readHeader(h http.Header, name string, needed bool, to *string) bool {
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

// fits tries every secret and spelling, even after a match. It compares texts, not decoded bytes: a text with stray
// bits or characters decodes to the right bytes, but is not the signature.
func (v *Verifier) fits(d delivery) bool {
	if v.signature.Scheme == schemeStandard {
		return v.fitsStandard(d)
	}
	message, fit := v.message(d), false
	for _, key := range v.keys {
		var sum []byte
		if !key.public { // once, however many signatures a stranger gives
			sum = v.sign(key.bytes, message)
		}
		for _, given := range d.signatures {
			if key.public {
				fit = v.fitsPublic(key.bytes, message, given) || fit
				continue
			}
			fit = v.isSpelt(given, sum) || fit
		}
	}
	return fit
}

// isSpelt reports whether given is a spelling of sum, in constant time.
func (v *Verifier) isSpelt(given string, sum []byte) bool {
	fit := 0
	for _, text := range v.spell(sum) {
		fit |= subtle.ConstantTimeCompare([]byte(v.signature.Prefix+text), []byte(given))
	}
	return fit == 1
}

// fitsPublic reports whether given is a signature of a public key.
func (v *Verifier) fitsPublic(key ed25519.PublicKey, message []byte, given string) bool {
	text, found := strings.CutPrefix(given, v.signature.Prefix)
	if !found {
		return false
	}
	var sum []byte
	var err error
	if v.signature.Encoding == "base64" || v.signature.Encoding == "base64url" {
		sum, err = decodeBase64(text)
	} else {
		sum, err = hex.DecodeString(text)
	}
	return err == nil && slices.Contains(v.spell(sum), text) && ed25519.Verify(key, message, sum)
}

// spell returns all spellings of a signature: hex in one case throughout, Base64 with or without padding.
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

// fitsStandard verifies shared secrets with the scheme's own library. signedAt checks the time, because the library
// uses the machine's clock. The library does not know public keys; their signatures are the list's items v1a.
func (v *Verifier) fitsStandard(d delivery) bool {
	fit := false
	for _, key := range v.keys {
		if key.public {
			fit = v.fitsStandardPublic(key.bytes, d) || fit
			continue
		}
		webhook, err := standardwebhooks.NewWebhookRaw(key.bytes)
		valid := err == nil && webhook.VerifyIgnoringTimestamp(d.body, d.header) == nil
		fit = fit || valid
	}
	return fit
}

func (v *Verifier) fitsStandardPublic(key ed25519.PublicKey, d delivery) bool {
	message, items := v.message(d), strings.Split(d.signatures[0], " ")
	for _, item := range items[:min(len(items), maxSignatures)] {
		if text, found := strings.CutPrefix(item, "v1a,"); found && v.fitsPublic(key, message, text) {
			return true
		}
	}
	return false
}

func (v *Verifier) sign(key, message []byte) []byte {
	mac := hmac.New(v.hash, key)
	mac.Write(message)
	return mac.Sum(nil)
}

// message fills the template.
func (v *Verifier) message(d delivery) []byte {
	var out []byte
	for _, part := range v.template {
		switch part {
		case bodyPlace:
			out = append(out, d.body...)
		case timestampPlace:
			out = append(out, d.timestamp...)
		case idPlace:
			out = append(out, d.id...)
		default:
			out = append(out, part...)
		}
	}
	return out
}

// signedAt reads the signed time and compares it with now. If no time is required, an unreadable one is zero.
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
