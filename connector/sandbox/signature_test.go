package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

func hexMAC(secret, message string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(message))
	return hex.EncodeToString(mac.Sum(nil))
}

func mac512(key []byte, message string) []byte {
	mac := hmac.New(sha512.New, key)
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

func TestSignaturesFollowTheScheme(t *testing.T) {
	t.Parallel()
	const body = `{"a":"{timestamp}"}`
	at := time.Date(2026, 3, 2, 9, 0, 0, 250e6, time.UTC)
	key := []byte{0xff, 0xfe, 0xfd, 0xfc}
	tests := []struct {
		name   string
		sig    Signature
		secret string
		want   http.Header
	}{
		{"defaults", Signature{}, "s", http.Header{"X-Signature": {hexMAC("s", body)}}},
		{"header, prefix, time",
			Signature{Header: "Sig", Prefix: "sha256=", TimestampHeader: "Ts", Signed: "{timestamp}.{body}"}, "s",
			http.Header{"Sig": {"sha256=" + hexMAC("s", "1772442000."+body)}, "Ts": {"1772442000"}}},
		{"body before time, id",
			Signature{TimestampHeader: "Ts", Timestamp: "rfc3339", IDHeader: "Id", Signed: "{id}{body}{timestamp}"}, "s",
			http.Header{"X-Signature": {hexMAC("s", "d1"+body+"2026-03-02T09:00:00Z")}, "Ts": {"2026-03-02T09:00:00Z"},
				"Id": {"d1"}}},
		{"zoneless time",
			Signature{TimestampHeader: "Ts", Timestamp: "zoneless", Signed: "{timestamp}"}, "s",
			http.Header{"X-Signature": {hexMAC("s", "2026-03-02T09:00:00.250")}, "Ts": {"2026-03-02T09:00:00.250"}}},
		{"sha-512, base64, hex key",
			Signature{Algorithm: "hmac-sha512", Encoding: "base64", Key: "hex"}, "fffefdfc",
			http.Header{"X-Signature": {base64.StdEncoding.EncodeToString(mac512(key, body))}}},
		{"sha-512, base64url, base64 key",
			Signature{Algorithm: "hmac-sha512", Encoding: "base64url", Key: "base64"}, "//79/A==",
			http.Header{"X-Signature": {base64.URLEncoding.EncodeToString(mac512(key, body))}}},
		{"a list with the time, the older secret first",
			Signature{SignatureItem: "v1", TimestampItem: "t", Signed: "{timestamp}.{body}"}, "old|s",
			http.Header{"X-Signature": {"t=1772442000,v1=" + hexMAC("old", "1772442000."+body) + ",v1=" +
				hexMAC("s", "1772442000."+body)}}},
		{"two secrets, no list", Signature{}, "old|s", http.Header{"X-Signature": {hexMAC("s", body)}}},
		{"base64url key",
			Signature{Algorithm: "hmac-sha512", Key: "base64url"}, "__79_A==",
			http.Header{"X-Signature": {hex.EncodeToString(mac512(key, body))}}},
	}
	for _, tt := range tests {
		sw := Switches{Signature: tt.sig}
		sw.fill()
		got, secrets := http.Header{}, []connector.Secret(nil)
		for text := range strings.SplitSeq(tt.secret, "|") {
			secrets = append(secrets, connector.NewSecret(text))
		}
		must(t, sw.Signature.sign(got, "d1", at, []byte(body), secrets...))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

// The example of the Standard Webhooks specification.
func TestStandardWebhooksMatchesThePublishedExample(t *testing.T) {
	t.Parallel()
	got := http.Header{}
	sig := Signature{Scheme: standardScheme}
	must(t, sig.sign(got, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`),
		connector.NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")))
	want := http.Header{
		"Webhook-Id":        {"msg_p5jXN8AQM9LWM0D4loKWxJek"},
		"Webhook-Timestamp": {"1614265330"},
		"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestDrawnSecretsReadBackAsThirtyTwoBytes(t *testing.T) {
	t.Parallel()
	for _, sig := range []Signature{{Key: "hex"}, {Key: "base64"}, {Key: "base64url"}, {Scheme: standardScheme}} {
		key, err := sig.key(sig.draw(seeded(1, "test")))
		if err != nil || len(key) != 32 {
			t.Errorf("%+v: got %d bytes, %v", sig, len(key), err)
		}
	}
}
