package billing_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/billing"
)

// vector is a delivery of a known family, signed by other programs (Python's hmac and
// openssl) and never by this one.
type vector struct {
	name      string
	signature billing.Signature
	header    http.Header
	signed    string // the header that holds the signature
	want      billing.Signed
}

const (
	vectorBody   = `{"type":"CUSTOMER_UPDATED","customerId":"c1"}`
	vectorKey    = "fixed vectors need a fixed key"
	vectorPublic = "Kb+kV563JR7S7P7nZFmIwntF7Fw0RJlpj2afb+x7XcU="
	vectorHex    = "46c33f83b4edcb492bc3179cf15a07062026f791fcd28445b55148642778595b"
	vectorTimed  = "c606d989a2ea3e730cdd6e76e71461a4450d41f7a759247b7c863b51c36dd41d"
	vectorXero   = "RsM/g7Tty0krwxec8VoHBiAm95H80oRFtVFIZCd4WVs="
	vectorAdfin  = "hvZR3b1yRuBwR/933fgaGcZOVNrediUOxxhZgGVAggw="
)

func vectors() []vector {
	timed := billing.Signature{Header: "S", SignatureItem: "v1", TimestampItem: "t", Algorithm: "hmac-sha256",
		Encoding: "hex", Signed: "{timestamp}.{body}"}
	signedAt := billing.Signed{SignedAt: start}
	out := []vector{
		{"body", billing.Signature{Header: "S", Signed: "{body}"}, headers("S", vectorHex), "S", billing.Signed{}},
		{"timestamp and body", billing.Signature{Header: "S", TimestampHeader: "T", Signed: "{timestamp}.{body}"},
			headers("S", vectorTimed, "T", "1772355600"), "S", signedAt},
		{
			"id, timestamp and body",
			billing.Signature{Header: "S", TimestampHeader: "T", IDHeader: "I", Encoding: "base64",
				Signed: "{id}.{timestamp}.{body}"},
			headers("S", "GGYH66Dci3XetaXUtmntxnAUdoFgEhqeaIIyEgRjRwE=", "T", "1772355600", "I", "d1"), "S",
			billing.Signed{DeliveryID: "d1", SignedAt: start},
		},
		{"list", timed, headers("S", "t=1772355600,v1="+vectorTimed), "S", signedAt},
		{"list with another signature before", timed,
			headers("S", "t=1772355600, v1="+vectorHex+", v1="+vectorTimed+", v0=x"), "S", signedAt},
		{
			"Standard Webhooks", billing.Signature{Scheme: "standard-webhooks"},
			headers("webhook-id", "msg_1", "webhook-timestamp", "1772355600", "webhook-signature",
				"v1,e0llFTJc63aSctvqjoDcNbIDadnTshCUzaSd9SxiscI="),
			"webhook-signature", billing.Signed{DeliveryID: "msg_1", SignedAt: start},
		},
		{
			"Standard Webhooks with a public key",
			billing.Signature{Scheme: "standard-webhooks", Secrets: secrets("whpk_" + vectorPublic)},
			headers("webhook-id", "msg_1", "webhook-timestamp", "1772355600", "webhook-signature",
				"v1,AAAA v1a,lbHmZSHWXyMI4b+6ANvyEvK4gFT3UT6zRW/eGkjZHnqOFGkLfRMW8qkZktFWV/zzZss8v9WflrqwmHQRsh1ZAw=="),
			"webhook-signature", billing.Signed{DeliveryID: "msg_1", SignedAt: start},
		},
		{"Xero", billing.Signature{Scheme: "xero"}, headers("x-xero-signature", vectorXero), "x-xero-signature",
			billing.Signed{}},
		{
			"adfin, without a zone", billing.Signature{Scheme: "adfin"},
			headers("adfin-webhook-signature", vectorAdfin, "adfin-webhook-signature-timestamp", "2026-03-01T09:00:00.000"),
			"adfin-webhook-signature", signedAt,
		},
		{
			"adfin, with another order and encoding",
			billing.Signature{Scheme: "adfin", Signed: "{timestamp}.{body}", Encoding: "hex"},
			headers("adfin-webhook-signature", vectorTimed, "adfin-webhook-signature-timestamp", "1772355600"),
			"adfin-webhook-signature", signedAt,
		},
		{
			"Ed25519", billing.Signature{Header: "S", Algorithm: "ed25519", Encoding: "base64", Key: "base64",
				Secrets: secrets(vectorPublic)},
			headers("S", "ctCNy/mbEEzmDWYV9DS5+59vlh5dRCdFo6AeIjHYGnLqFHMjh/6B6/ersw3CoVgnLr7wp9g+g4D6XY4Z7KEICg=="), "S",
			billing.Signed{},
		},
	}
	for i, v := range out {
		switch {
		case len(v.signature.Secrets) > 0:
		case v.signature.Scheme == "standard-webhooks":
			out[i].signature.Secrets = secrets("whsec_c29tZSBvdGhlciBrZXkgb2YgMzAgYnl0ZXMuLg==",
				"whsec_Zml4ZWQgdmVjdG9ycyBuZWVkIGEgZml4ZWQga2V5")
		default:
			out[i].signature.Secrets = secrets("some other secret of 31 bytes..", vectorKey)
		}
	}
	return out
}

// covers F34
func TestFixedVectorsOfEachFamilyPassAndWhatDiffersIsRefused(t *testing.T) {
	t.Parallel()
	for _, f := range vectors() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			v := newVerifier(t, f.signature)
			if got, err := v.Verify(f.header, []byte(vectorBody), start); err != nil || got != f.want {
				t.Fatalf("got %+v, %v; want %+v", got, err, f.want)
			}
			given := f.header.Get(f.signed)
			refuse := func(what, name string, values ...string) {
				t.Helper()
				h := f.header.Clone()
				h[http.CanonicalHeaderKey(name)] = values
				if _, err := v.Verify(h, []byte(vectorBody), start); err == nil {
					t.Errorf("accepted: %s", what)
				}
			}
			mustRefuse(t, v, f.header, []byte(vectorBody+"\n"))
			refuse("no signature", f.signed)
			refuse("an empty one", f.signed, "")
			refuse("the header twice", f.signed, given, given)
			refuse("one cut short", f.signed, strings.SplitN(given[:len(given)-8], " v1=c606", 2)[0])
			refuse("the other case", f.signed, swapCase(given))
			refuse("none", f.signed, "none")
			for name, values := range f.header {
				if name != http.CanonicalHeaderKey(f.signed) {
					refuse("another "+name, name, values[0]+"1")
				}
			}
			other := f.signature
			other.Secrets = otherSecrets(f.signature)
			if _, err := newVerifier(t, other).Verify(f.header, []byte(vectorBody), start); !errors.Is(err,
				billing.ErrSignatureWrong) {
				t.Errorf("another key: %v", err)
			}
		})
	}
}

// swapCase changes every second letter's case: hex may be written in either throughout.
func swapCase(text string) string {
	out := []byte(text)
	for i := range out {
		if c := out[i] | 0x20; i%2 == 0 && c >= 'a' && c <= 'z' {
			out[i] ^= 0x20
		}
	}
	return string(out)
}

func otherSecrets(s billing.Signature) (out []connector.Secret) {
	switch {
	case s.Algorithm == "ed25519":
		return secrets("c29tZSBvdGhlciBrZXkgb2YgMzIgYnl0ZXMuLi4uLi4=")
	case s.Scheme == "standard-webhooks":
		return secrets("whsec_c29tZSBvdGhlciBrZXkgb2YgMzAgYnl0ZXMuLg==")
	}
	return secrets("some other secret of 31 bytes..")
}

// covers F34
func TestAListWithoutItsPartsIsRefused(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, billing.Signature{Header: "S", SignatureItem: "v1", TimestampItem: "t",
		Signed: "{timestamp}.{body}", Secrets: secrets(vectorKey)})
	for what, list := range map[string]string{
		"no v1":            "t=1772355600",
		"v0 only":          "t=1772355600,v0=" + vectorTimed,
		"no time":          "v1=" + vectorTimed,
		"two times":        "t=1772355600,t=1772355600,v1=" + vectorTimed,
		"an empty v1":      "t=1772355600,v1=",
		"another name":     "t=1772355600,V1=" + vectorTimed,
		"too many to try":  "t=1772355600" + strings.Repeat(",v1="+vectorTimed, 17),
		"another time":     "t=1772355601,v1=" + vectorTimed,
		"the bare text":    vectorTimed,
		"names and no sum": "t,v1",
	} {
		if _, err := v.Verify(headers("S", list), []byte(vectorBody), start); err == nil {
			t.Errorf("accepted: %s", what)
		}
	}
}

// covers F34
func TestSecretsThatAnybodyGuessesAreRefused(t *testing.T) {
	t.Parallel()
	for what, secret := range map[string]string{
		"blank":         strings.Repeat(" ", 30),
		"one character": strings.Repeat("k", 32),
		"none":          strings.Repeat("none", 8),
		"changeme":      strings.Repeat("changeme", 4),
		"cut off":       strings.Repeat("secret", 6)[:32],
	} {
		_, err := billing.NewVerifier(billing.Signature{Header: "S", Secrets: secrets(vectorKey, secret)})
		if err == nil || !strings.Contains(err.Error(), "signature.secrets[1]: it is ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, s := range map[string]billing.Signature{
		"half a public key": {Header: "S", Algorithm: "ed25519", Key: "hex",
			Secrets: secrets("29bfa4579eb7251ed2ecfee7645988c2")},
		"zeros once decoded":           {Header: "S", Key: "hex", Secrets: secrets(strings.Repeat("00", 32))},
		"a list without its signature": {Header: "S", TimestampItem: "t", Secrets: secrets(vectorKey)},
		"one item for both":            {Header: "S", TimestampItem: "v1", SignatureItem: "v1", Secrets: secrets(vectorKey)},
		"a public key as a shared one": {Header: "S", Key: "base64", Secrets: secrets("whpk_" + vectorPublic)},
		"a shared one as a public key": {Scheme: "standard-webhooks", Algorithm: "ed25519",
			Secrets: secrets("whsec_Zml4ZWQgdmVjdG9ycyBuZWVkIGEgZml4ZWQga2V5")},
	} {
		if _, err := billing.NewVerifier(s); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
}

// Who knows a public key, as everybody may, must not sign with it: in no scheme is it taken
// for a shared secret.
//
// covers F34
func TestPublicKeysCannotSignATest(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]billing.Signature{
		"field by field": {Header: "S", Algorithm: "ed25519", Encoding: "base64", Key: "base64",
			Secrets: secrets(vectorPublic)},
		"Standard Webhooks": {Scheme: "standard-webhooks", Algorithm: "ed25519", Secrets: secrets(vectorPublic)},
	} {
		if err := newVerifier(t, s).Sign(http.Header{}, "x", nil, start); !errors.Is(err, billing.ErrCannotSign) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
