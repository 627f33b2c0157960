package billing_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
)

var mutations = flag.Int("mutations", 100_000, "how many damaged deliveries are tried (goal G6: 1,000,000)")

const hookSecret = "a secret of at least 24 bytes"

func secrets(texts ...string) []connector.Secret {
	var out []connector.Secret
	for _, text := range texts {
		out = append(out, connector.NewSecret(text))
	}
	return out
}

func mac(key, text string) []byte {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(text))
	return h.Sum(nil)
}

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func newVerifier(t testing.TB, s billing.Signature) *billing.Verifier {
	t.Helper()
	v, err := billing.NewVerifier(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// signedScheme is a scheme with a delivery that it accepts at start.
type signedScheme struct {
	name      string
	signature billing.Signature
	header    http.Header
	body      string
	want      billing.Signed
}

func schemes() []signedScheme {
	const body = `{"type":"CUSTOMER_UPDATED","customerId":"c1"}`
	stamp := "2026-03-01T09:00:00.000"
	hexSum := hex.EncodeToString(mac(hookSecret, body))
	standardKey := "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	return []signedScheme{
		{"hex of the body", billing.Signature{Header: "X-Signature", Signed: "body", Secrets: secrets(hookSecret)},
			headers("X-Signature", hexSum), body, billing.Signed{}},
		{"prefix, an old secret first", billing.Signature{
			Header: "X-Hub-Signature-256", Algorithm: "hmac-sha256", Encoding: "hex", Prefix: "sha256=", Signed: "{body}",
			Secrets: secrets("another secret of enough bytes", hookSecret),
		}, headers("X-Hub-Signature-256", "sha256="+strings.ToUpper(hexSum)), body, billing.Signed{}},
		{"body then timestamp, without a zone", billing.Signature{
			Header: "adfin-webhook-signature", TimestampHeader: "adfin-webhook-signature-timestamp",
			Encoding: "base64", Signed: "{body}{timestamp}", Secrets: secrets(hookSecret),
		}, headers("adfin-webhook-signature", base64.StdEncoding.EncodeToString(mac(hookSecret, body+stamp)),
			"adfin-webhook-signature-timestamp", stamp),
			body, billing.Signed{SignedAt: start}},
		{"id and Unix time, unpadded", billing.Signature{
			Header: "S", TimestampHeader: "T", IDHeader: "I", Encoding: "base64url", Signed: "v0:{id}:{timestamp}:{body}",
			Key:     "hex",
			Secrets: secrets(hex.EncodeToString([]byte(hookSecret))),
		}, headers("S", base64.RawURLEncoding.EncodeToString(mac(hookSecret, "v0:d1:1772355600:"+body)), "T", "1772355600",
			"I", "d1"),
			body, billing.Signed{DeliveryID: "d1", SignedAt: start}},
		{"standard webhooks", billing.Signature{Scheme: "standard-webhooks", Secrets: secrets("whsec_" + standardKey)},
			headers("webhook-id", "msg_1", "webhook-timestamp", "1772355600", "webhook-signature",
				"v1a,xxx v1,"+standardSum(standardKey, "msg_1.1772355600."+body)),
			body, billing.Signed{DeliveryID: "msg_1", SignedAt: start}},
	}
}

func standardSum(key, text string) string {
	raw, _ := base64.StdEncoding.DecodeString(key)
	return base64.StdEncoding.EncodeToString(mac(string(raw), text))
}

func TestRightlySignedDeliveriesPass(t *testing.T) {
	t.Parallel()
	for _, s := range schemes() {
		got, err := newVerifier(t, s.signature).Verify(s.header, []byte(s.body), start)
		if err != nil || got != s.want {
			t.Errorf("%s: got %+v, %v; want %+v", s.name, got, err, s.want)
		}
	}
}

// The vector that the standard's own library is published with.
func TestStandardWebhooksVector(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, billing.Signature{Scheme: "standard-webhooks",
		Secrets: secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")})
	h := headers("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp", "1614265330",
		"webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	got, err := v.Verify(h, []byte(`{"test": 2432232314}`), time.Unix(1614265330, 0))
	if err != nil || got.DeliveryID != "msg_p5jXN8AQM9LWM0D4loKWxJek" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// covers F35, F36
func TestSignedTimeMustBeNear(t *testing.T) {
	t.Parallel()
	for _, s := range schemes()[2:] {
		for _, tolerance := range []time.Duration{0, 10 * time.Second, -1} {
			limit := map[time.Duration]time.Duration{0: 5 * time.Minute, 10 * time.Second: 10 * time.Second,
				-1: 1000 * time.Hour}[tolerance]
			s.signature.Tolerance = tolerance
			v := newVerifier(t, s.signature)
			for _, sign := range []time.Duration{1, -1} {
				if _, err := v.Verify(s.header, []byte(s.body), start.Add(sign*limit)); err != nil {
					t.Errorf("%s, tolerance %v, %v away: %v", s.name, tolerance, sign*limit, err)
				}
				_, err := v.Verify(s.header, []byte(s.body), start.Add(sign*(limit+time.Second)))
				if stale := errors.Is(err, billing.ErrSignatureStale); stale != (tolerance >= 0) {
					t.Errorf("%s, tolerance %v, %v away: %v", s.name, tolerance, sign*(limit+time.Second), err)
				}
			}
		}
	}
}

// covers F34
func TestForgedDeliveriesAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range schemes() {
		v := newVerifier(t, s.signature)
		refuse := func(what string, h http.Header, body string, want error) {
			t.Helper()
			if got, err := v.Verify(h, []byte(body), start); !errors.Is(err, want) {
				t.Errorf("%s, %s: got %+v, %v; want %v", s.name, what, got, err, want)
			}
		}
		refuse("no headers", http.Header{}, s.body, billing.ErrSignatureMissing)
		refuse("another body", s.header, s.body+" ", billing.ErrSignatureWrong)
		refuse("empty body", s.header, "", billing.ErrSignatureWrong)
		for name := range s.header {
			without, empty, double := s.header.Clone(), s.header.Clone(), s.header.Clone()
			without.Del(name)
			empty.Set(name, "")
			double.Add(name, s.header.Get(name))
			for what, h := range map[string]http.Header{"without ": without, "empty ": empty, "double ": double} {
				refuse(what+name, h, s.body, billing.ErrSignatureMissing)
			}
			changed := s.header.Clone()
			changed.Set(name, s.header.Get(name)+"0")
			refuse("longer "+name, changed, s.body, billing.ErrSignatureWrong)
		}
		sums := map[string]string{
			"of an empty key":  hex.EncodeToString(mac("", s.body)),
			"of nothing":       hex.EncodeToString(mac(hookSecret, "")),
			"not a signature":  "none",
			"the secret":       hookSecret,
			"a line too many":  s.header.Get(signatureHeader(s)) + "\n",
			"a space in front": " " + s.header.Get(signatureHeader(s)),
		}
		for what, sum := range sums {
			h := s.header.Clone()
			h.Set(signatureHeader(s), sum)
			if s.signature.Scheme != "" && strings.HasPrefix(what, "a ") {
				continue // the scheme's header is a list with spaces
			}
			refuse(what, h, s.body, billing.ErrSignatureWrong)
		}
	}
}

func signatureHeader(s signedScheme) string {
	if s.signature.Scheme != "" {
		return "webhook-signature"
	}
	return s.signature.Header
}

// Every bit of the body and of each signed header, and every shorter form.
//
// covers F34, G6
func TestNoDamagedDeliveryPasses(t *testing.T) {
	t.Parallel()
	for _, s := range schemes() {
		v := newVerifier(t, s.signature)
		for i := range len(s.body) {
			for bit := range 8 {
				damaged := []byte(s.body)
				damaged[i] ^= 1 << bit
				mustRefuse(t, v, s.header, damaged)
			}
			mustRefuse(t, v, s.header, []byte(s.body[:i]))
		}
		for name, values := range s.header {
			if s.signature.Scheme != "" && name == http.CanonicalHeaderKey("webhook-signature") {
				continue // a list, of which parts may be damaged without harm
			}
			for i := range len(values[0]) {
				for bit := range 8 {
					damaged := []byte(values[0])
					damaged[i] ^= 1 << bit
					h := s.header.Clone()
					h[name] = []string{string(damaged)}
					mustRefuse(t, v, h, []byte(s.body))
				}
			}
		}
	}
}

// covers F34, G6
func TestRandomlyDamagedDeliveriesAreRefused(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	all := schemes()
	verifiers := make([]*billing.Verifier, len(all))
	for i, s := range all {
		verifiers[i] = newVerifier(t, s.signature)
	}
	for range *mutations {
		i := random.IntN(len(all))
		body := damage(random, []byte(all[i].body))
		if string(body) != all[i].body {
			mustRefuse(t, verifiers[i], all[i].header, body)
		}
	}
}

func damage(random *rand.Rand, body []byte) []byte {
	for range 1 + random.IntN(3) {
		at := random.IntN(len(body))
		switch random.IntN(4) {
		case 0:
			body[at] = byte(random.IntN(256))
		case 1:
			body = append(body[:at], body[at+1:]...)
		case 2:
			body = append(body[:at], append([]byte{byte(random.IntN(256))}, body[at:]...)...)
		case 3:
			other := random.IntN(len(body))
			body[at], body[other] = body[other], body[at]
		}
	}
	return body
}

func mustRefuse(t *testing.T, v *billing.Verifier, h http.Header, body []byte) {
	t.Helper()
	if got, err := v.Verify(h, body, start); err == nil {
		t.Errorf("accepted %q with %v as %+v", body, h, got)
	}
}

// covers F34
func TestVerifierRefusesSchemesThatWouldLetAnythingPass(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(s *billing.Signature)
		want   string
	}{
		{"no secret", func(s *billing.Signature) { s.Secrets = nil }, "signature.secrets: there is none"},
		{"empty secret", func(s *billing.Signature) { s.Secrets = secrets("") }, "signature.secrets[0]: it has 0 bytes"},
		{"second one short", func(s *billing.Signature) { s.Secrets = secrets(hookSecret, "23 bytes are one short.") },
			"signature.secrets[1]: it has 23 bytes"},
		{"short once decoded", func(s *billing.Signature) { s.Key, s.Secrets = "base64", secrets("c2hvcnQ=") },
			"signature.secrets[0]: it has 5 bytes"},
		{"not hex", func(s *billing.Signature) { s.Key = "hex" }, "signature.secrets[0]: it is not hex"},
		{"none", func(s *billing.Signature) { s.Scheme = "none" }, `signature.scheme: "none" is not known`},
		{"none as algorithm", func(s *billing.Signature) { s.Algorithm = "none" },
			`signature.algorithm: "none" is not known`},
		{"unknown encoding", func(s *billing.Signature) { s.Encoding = "rot13" }, `signature.encoding: "rot13" is not known`},
		{"unknown key form", func(s *billing.Signature) { s.Key = "pem" }, `signature.key: "pem" is not known`},
		{"no header", func(s *billing.Signature) { s.Header = "" }, "signature.header: it is missing"},
		{"body not covered", func(s *billing.Signature) { s.Signed = "{timestamp}" }, "signature.signed: "},
		{"unknown placeholder", func(s *billing.Signature) { s.Signed = "{body}{url}" }, "unknown placeholder"},
		{"timestamp from nowhere", func(s *billing.Signature) { s.TimestampHeader = "" }, "signature.timestamp_header: "},
		{"id from nowhere", func(s *billing.Signature) { s.Signed = "{id}{body}" }, "signature.id_header: "},
	}
	for _, tt := range tests {
		s := billing.Signature{Header: "S", TimestampHeader: "T", Signed: "{timestamp}.{body}", Secrets: secrets(hookSecret)}
		tt.change(&s)
		v, err := billing.NewVerifier(s)
		if err == nil || v != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v; want one with %q", tt.name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), hookSecret) {
			t.Errorf("%s: the error shows the secret", tt.name)
		}
	}
	_, err := billing.NewVerifier(billing.Signature{Algorithm: "md5", Encoding: "x"})
	for _, want := range []string{"algorithm", "encoding", "header", "secrets"} {
		if err == nil || !strings.Contains(err.Error(), "signature."+want) {
			t.Errorf("not every problem is reported: %s is not in %v", want, err)
		}
	}
}

// The verifier accepts the sandbox's signatures.
func TestVerifierTakesWhatTheSandboxSigns(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		box  sandbox.Signature
		ours billing.Signature
	}{
		{"sha512, hex", sandbox.Signature{Header: "S", Algorithm: "hmac-sha512", Prefix: "p="},
			billing.Signature{Header: "S", Algorithm: "hmac-sha512", Prefix: "p="}},
		{"base64url with all", sandbox.Signature{Header: "S", TimestampHeader: "T", IDHeader: "I", Encoding: "base64url",
			Signed: "{timestamp}.{id}.{body}"},
			billing.Signature{Header: "S", TimestampHeader: "T", IDHeader: "I", Encoding: "base64url",
				Signed: "{timestamp}.{id}.{body}"}},
		{"zoneless", sandbox.Signature{Header: "S", TimestampHeader: "T", Signed: "{body}{timestamp}", Timestamp: "zoneless"},
			billing.Signature{Header: "S", TimestampHeader: "T", Signed: "{body}{timestamp}"}},
		{"standard", sandbox.Signature{Scheme: "standard-webhooks"}, billing.Signature{Scheme: "standard-webhooks"}},
		{"standard, an older secret first", sandbox.Signature{Scheme: "standard-webhooks", WithOlder: true},
			billing.Signature{Scheme: "standard-webhooks"}},
		{"standard, Ed25519", sandbox.Signature{Scheme: "standard-webhooks", Algorithm: "ed25519"},
			billing.Signature{Scheme: "standard-webhooks"}},
		{"standard, Ed25519, an older key first",
			sandbox.Signature{Scheme: "standard-webhooks", Algorithm: "ed25519", WithOlder: true},
			billing.Signature{Scheme: "standard-webhooks"}},
		{"a list with the time", sandbox.Signature{Header: "S", SignatureItem: "v1", TimestampItem: "t",
			Signed: "{timestamp}.{body}"},
			billing.Signature{Header: "S", SignatureItem: "v1", TimestampItem: "t", Signed: "{timestamp}.{body}"}},
		{"a list, an older secret first",
			sandbox.Signature{Header: "S", SignatureItem: "v1", TimestampItem: "t", Signed: "{timestamp}.{body}",
				WithOlder: true},
			billing.Signature{Header: "S", SignatureItem: "v1", TimestampItem: "t", Signed: "{timestamp}.{body}"}},
		{"a list, the time in a header",
			sandbox.Signature{Header: "S", SignatureItem: "s", TimestampHeader: "T", Encoding: "base64", Prefix: "p:",
				Signed: "{body}{timestamp}", WithOlder: true},
			billing.Signature{Header: "S", SignatureItem: "s", TimestampHeader: "T", Encoding: "base64", Prefix: "p:",
				Signed: "{body}{timestamp}"}},
		{"Ed25519, hex", sandbox.Signature{Header: "S", Algorithm: "ed25519"},
			billing.Signature{Header: "S", Algorithm: "ed25519", Key: "base64"}},
		{"Ed25519, base64, a hex key",
			sandbox.Signature{Header: "S", Algorithm: "ed25519", Encoding: "base64", Key: "hex", TimestampHeader: "T",
				Signed: "{timestamp}{body}"},
			billing.Signature{Header: "S", Algorithm: "ed25519", Encoding: "base64", Key: "hex", TimestampHeader: "T",
				Signed: "{timestamp}{body}"}},
		{"Ed25519 in a list", sandbox.Signature{Header: "S", Algorithm: "ed25519", Key: "base64url", SignatureItem: "v1",
			TimestampItem: "t", Signed: "{timestamp}.{body}", WithOlder: true},
			billing.Signature{Header: "S", Algorithm: "ed25519", Key: "base64url", SignatureItem: "v1", TimestampItem: "t",
				Signed: "{timestamp}.{body}"}},
		{"xero", sandbox.Signature{Header: "x-xero-signature", Encoding: "base64"}, billing.Signature{Scheme: "xero"}},
		{"adfin", sandbox.Adfin().Signature, billing.Signature{Scheme: "adfin"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			switches := sandbox.Standard()
			switches.Signature = tt.box
			event, signed := deliver(t, switches, tt.ours)
			if strings.Contains(tt.ours.Signed, "{timestamp}") && signed.SignedAt.IsZero() {
				t.Error("the signed time is missing")
			}
			if event.CustomerID == "" || event.Type == "" {
				t.Errorf("event = %+v", event)
			}
			if strings.Contains(tt.ours.Signed, "{id}") && signed.DeliveryID == "" {
				t.Error("the signed id is missing")
			}
		})
	}
}

// deliver lets a sandbox send one delivery to a verifier with its secret.
func deliver(t *testing.T, switches sandbox.Switches, s billing.Signature) (event billing.Event,
	signed billing.Signed) {
	t.Helper()
	received := 0
	receiver := roundTrip(func(r *http.Request) (*http.Response, error) {
		body := []byte(readBody(r))
		var err error
		if signed, err = newVerifier(t, s).Verify(r.Header, body, start); err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
		received++
		event, err = billing.ParseEvent(billing.DefaultEventPaths(), r.Header, body)
		return respond(204, "", ""), err
	})
	box := sandbox.New(sandbox.Options{
		ClientID: "app-1", ClientSecret: connector.NewSecret("app-secret"), Switches: switches,
		Now: func() time.Time { return start }, Deliver: &http.Client{Transport: receiver},
	})
	client := newClient(t, config(box.RoundTripper()))
	if _, err := client.Subscribe(t.Context(), hook(), setUp(nil)); err != nil {
		t.Fatal(err)
	}
	s.Secrets = []connector.Secret{box.WebhookSecret()}
	body, err := client.CreateBody(northwind())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateCustomer(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	if _, err := box.Deliver(t.Context()); err != nil || received == 0 {
		t.Fatalf("%d deliveries arrived: %v", received, err)
	}
	return event, signed
}

func FuzzVerify(f *testing.F) {
	all := schemes()
	for i, s := range all {
		f.Add(i, s.header.Get(signatureHeader(s)), "1772355600", "d1", []byte(s.body))
	}
	f.Fuzz(func(t *testing.T, i int, signature, stamp, id string, body []byte) {
		s := all[(i%len(all)+len(all))%len(all)]
		h := s.header.Clone()
		h.Set(signatureHeader(s), signature)
		for _, name := range []string{s.signature.TimestampHeader, "webhook-timestamp"} {
			h.Set(name, stamp)
		}
		for _, name := range []string{s.signature.IDHeader, "webhook-id"} {
			h.Set(name, id)
		}
		if _, err := newVerifier(t, s.signature).Verify(h, body, start); err == nil && string(body) != s.body {
			t.Errorf("%s: accepted %q with %v", s.name, body, h)
		}
	})
}
