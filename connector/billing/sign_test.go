package billing

import (
	"net/http"
	"testing"
	"time"

	"payersync/connector"
)

func TestADeliveryOfOurOwnIsVerified(t *testing.T) {
	t.Parallel()
	const text, coded = "0123456789abcdef0123456789abcdef", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	for name, s := range map[string]Signature{
		"body alone": {Header: "X-Signature", Encoding: "hex", Signed: "{body}"},
		"prefix":     {Header: "X-Signature", Encoding: "base64", Prefix: "sha256=", Signed: "{body}"},
		"time and id": {Header: "X-Signature", TimestampHeader: "X-Time", IDHeader: "X-Id", Algorithm: "hmac-sha512",
			Signed: "{id}.{timestamp}.{body}"},
		"list":              {Header: "X-Signature", SignatureItem: "v1", TimestampItem: "t", Signed: "{timestamp}.{body}"},
		"adfin":             {Scheme: "adfin"},
		"xero":              {Scheme: "xero"},
		"standard webhooks": {Scheme: "standard-webhooks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.Secrets = []connector.Secret{connector.NewSecret(text)}
			if s.Scheme == "standard-webhooks" {
				s.Secrets = []connector.Secret{connector.NewSecret(coded)}
			}
			v, err := NewVerifier(s)
			if err != nil {
				t.Fatal(err)
			}
			now, body, h := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), []byte(`{"type":"test"}`), http.Header{}
			if err := v.Sign(h, "test-1", body, now); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Verify(h, body, now); err != nil {
				t.Errorf("our own signature was refused: %v", err)
			}
			if _, err := v.Verify(h, []byte(`{"type":"tess"}`), now); err == nil {
				t.Error("the signature fits another body")
			}
		})
	}
}
