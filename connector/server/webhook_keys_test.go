package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
)

// covers F152
func TestADeliveryKeyIsAskedForBesideTheSignatureAndNeverInsteadOfIt(t *testing.T) {
	t.Parallel()
	const key = "the-delivery-key-of-this-month"
	for _, tt := range []struct {
		name, key string
		signed    bool
		status    int
		outcome   RequestOutcome
	}{
		{"both", key, true, 200, Accepted},
		{"no key", "", true, 401, KeyFailed},
		{"the signing secret as key", hookNew, true, 401, KeyFailed},
		{"the key alone", key, false, 401, SignatureFailed},
	} {
		e := newEndpoint(t, bodyOnly(), func(c *Config) {
			c.Keys.Delivery = billing.DeliveryKey{Keys: []connector.Secret{connector.NewSecret(key)}}
		})
		r := delivery(sampleBody)
		r.Header.Set(billing.DeliveryKeyHeader, tt.key)
		if !tt.signed {
			r.Header.Set("X-Signature", mac(key, sampleBody))
		}
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, r)
		if got := e.lastEvent().Outcome; w.Code != tt.status || got != tt.outcome {
			t.Errorf("%s: answered %d, reported %s; want %d, %s", tt.name, w.Code, got, tt.status, tt.outcome)
		}
	}
}

// covers F180
func TestADeliveryThatFitsNoSecretIsHeldAgainstThoseThatThereAreByNow(t *testing.T) {
	t.Parallel()
	const drawn, key = "a-secret-that-was-drawn-just-now", "the-delivery-key-of-this-month"
	broken := errors.New("the ledger cannot be read")
	keysOf := func(t *testing.T, unknown bool, secrets ...string) Keys {
		t.Helper()
		s := bodyOnly()
		s.Secrets = nil
		for _, secret := range secrets {
			s.Secrets = append(s.Secrets, connector.NewSecret(secret))
		}
		v, err := billing.NewVerifier(s)
		if err != nil {
			t.Fatal(err)
		}
		return Keys{Verifier: v, Unknown: unknown}
	}
	for _, tt := range []struct {
		name    string
		signs   string // what the delivery is signed with
		now     Keys   // that there are by now
		err     error
		reads   int
		status  int
		outcome RequestOutcome
	}{
		{"the secret that was known", hookNew, keysOf(t, true, hookNew), nil, 0, 200, Accepted},
		{"one that came meanwhile", drawn, keysOf(t, false, drawn, hookNew), nil, 1, 200, Accepted},
		{"one that is on its way", drawn, keysOf(t, true, hookNew), nil, 1, 503, SecretUnknown},
		{"one that nobody waits for", drawn, keysOf(t, false, hookNew), nil, 1, 401, SignatureFailed},
		{"one that cannot be looked for", drawn, keysOf(t, false, hookNew), broken, 1, 503, NotStored},
		{"none at all", "", keysOf(t, true, hookNew), nil, 0, 401, SignatureFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			reads := 0
			e := newEndpoint(t, bodyOnly(), func(c *Config) {
				c.Renew = func(context.Context) (Keys, error) { reads++; return tt.now, tt.err }
			})
			r := delivery(sampleBody)
			if r.Header.Set("X-Signature", mac(tt.signs, sampleBody)); tt.signs == "" {
				r.Header.Del("X-Signature")
			}
			w := httptest.NewRecorder()
			e.Handler().ServeHTTP(w, r)
			if got := e.lastEvent().Outcome; w.Code != tt.status || got != tt.outcome || reads != tt.reads {
				t.Errorf("answered %d, reported %s after %d reads; want %d, %s, %d", w.Code, got, reads, tt.status, tt.outcome,
					tt.reads)
			}
			if again := w.Header().Get("Retry-After") != ""; again != (tt.status == 503) {
				t.Errorf("it is to be sent again: %v", again)
			}
		})
	}
	t.Run("a delivery key that came meanwhile", func(t *testing.T) {
		t.Parallel()
		now := keysOf(t, false, hookNew)
		now.Delivery.Keys = []connector.Secret{connector.NewSecret(key)}
		e := newEndpoint(t, bodyOnly(), func(c *Config) {
			c.Keys.Delivery.Keys = []connector.Secret{connector.NewSecret("the-delivery-key-of-last-month")}
			c.Renew = func(context.Context) (Keys, error) { return now, nil }
		})
		r := delivery(sampleBody)
		r.Header.Set(billing.DeliveryKeyHeader, key)
		w := httptest.NewRecorder()
		if e.Handler().ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("answered %d", w.Code)
		}
	})
	t.Run("one that another process has replaced, while nothing came", func(t *testing.T) {
		t.Parallel()
		reads := 0
		e := newEndpoint(t, bodyOnly(), func(c *Config) {
			c.Renew = func(context.Context) (Keys, error) { reads++; return keysOf(t, false, drawn), nil }
		})
		for i, want := range []int{200, 200, 401, 401} { // the second within the minute
			w := httptest.NewRecorder()
			if e.Handler().ServeHTTP(w, delivery(sampleBody)); w.Code != want {
				t.Errorf("delivery %d, at %s: answered %d, want %d", i, e.clock(), w.Code, want)
			}
			e.pass(40 * time.Second)
		}
		if reads != 3 {
			t.Errorf("%d reads, want one when the minute was over and one for each that did not fit", reads)
		}
	})
	t.Run("when one is accepted no more", func(t *testing.T) {
		t.Parallel()
		e := newEndpoint(t, bodyOnly(), func(c *Config) {
			c.Keys.Until = noon.Add(time.Hour)
			c.Renew = func(context.Context) (Keys, error) { return keysOf(t, false, drawn), nil }
		})
		for _, want := range []int{200, 401} {
			w := httptest.NewRecorder()
			if e.Handler().ServeHTTP(w, delivery(sampleBody)); w.Code != want {
				t.Errorf("at %s: answered %d, want %d", e.clock(), w.Code, want)
			}
			e.pass(time.Hour)
		}
	})
}

// A proxy in front may hand a path on that is shorter than the public one.
func TestTheEndpointIsWhereTheProxyHandsItOn(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Path = "/billing" })
	front := http.StripPrefix("/webhooks", e.Handler())
	for path, want := range map[string]int{"/webhooks/billing": 200, "/webhooks/webhooks/billing": 404} {
		r := delivery(sampleBody)
		r.URL.Path = path
		w := httptest.NewRecorder()
		if front.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: answered %d, want %d", path, w.Code, want)
		}
	}
}

// Headers are no JSON: they may hold any bytes, and are what the type and the delivery's id are read from.
func TestADeliveryIsKeptOnceWhateverItsHeadersHold(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"broken text": "CUSTOMER\xff", "U+0000": "CUSTOMER\x00",
		"Latin-1": "KUND\xc4"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			h.Set("adfin-webhook-type", text)
			d, event := Understand(billing.DefaultEventPaths(), h, []byte(`{"customerId":"c"}`))
			if d.State != connector.InboxQuarantined || d.Type != "" || d.TypeHeader != "" || d.BillingID != "" || event != "" {
				t.Errorf("understood as %+v", d)
			}
			key := identity(billing.Signed{DeliveryID: text}, "", []byte("{}"))
			if key != identity(billing.Signed{}, "", []byte("{}")) {
				t.Errorf("the key is %q", key)
			}
		})
	}
}
