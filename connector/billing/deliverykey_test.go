package billing_test

import (
	"net/http"
	"strings"
	"testing"

	"payersync/connector/billing"
)

const ourKey, oldKey = "a delivery key of 24 bytes or more", "an older delivery key that is known"

// covers F152
func TestADeliveryCarriesOneOfTheKeysOnce(t *testing.T) {
	t.Parallel()
	keys := secrets(ourKey, oldKey)
	for _, tt := range []struct {
		name  string
		key   billing.DeliveryKey
		given http.Header
		right bool
	}{
		{"none is asked for", billing.DeliveryKey{}, headers(), true},
		{"the usual header", billing.DeliveryKey{Keys: keys}, headers(billing.DeliveryKeyHeader, ourKey), true},
		{"an older one", billing.DeliveryKey{Keys: keys}, headers(billing.DeliveryKeyHeader, oldKey), true},
		{"a header of its own", billing.DeliveryKey{Header: "X-Hook", Keys: keys}, headers("x-hook", ourKey), true},
		{"another header", billing.DeliveryKey{Header: "X-Hook", Keys: keys}, headers(billing.DeliveryKeyHeader, ourKey),
			false},
		{"none", billing.DeliveryKey{Keys: keys}, headers(), false},
		{"empty", billing.DeliveryKey{Keys: keys}, headers(billing.DeliveryKeyHeader, ""), false},
		{"cut short", billing.DeliveryKey{Keys: keys}, headers(billing.DeliveryKeyHeader, ourKey[:30]), false},
		{"twice", billing.DeliveryKey{Keys: keys},
			headers(billing.DeliveryKeyHeader, ourKey, billing.DeliveryKeyHeader, ourKey), false},
		{"Basic", billing.DeliveryKey{Username: "adfin", Keys: keys}, basic("adfin", oldKey), true},
		{"Basic of another name", billing.DeliveryKey{Username: "adfin", Keys: keys}, basic("adfinn", ourKey), false},
		{"Basic without a password", billing.DeliveryKey{Username: "adfin", Keys: keys}, basic("adfin", ""), false},
	} {
		if err := tt.key.Check(tt.given); (err == nil) != tt.right {
			t.Errorf("%s: %v", tt.name, err)
		}
		own := http.Header{}
		tt.key.Set(own)
		if err := tt.key.Check(own); err != nil {
			t.Errorf("%s: our own is refused: %v", tt.name, err)
		}
	}
}

func basic(name, password string) http.Header {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(name, password)
	return r.Header
}

// covers F152
func TestDeliveryKeysThatProtectNothingAreRefused(t *testing.T) {
	t.Parallel()
	for want, key := range map[string]billing.DeliveryKey{
		"delivery_key.keys[0]: it has 0 bytes":                 {Keys: secrets("")},
		"delivery_key.keys[1]: it has 5 bytes":                 {Keys: secrets(ourKey, "short")},
		"delivery_key.keys[0]: it is blank, or one short text": {Keys: secrets(strings.Repeat("none", 8))},
		"delivery_key.keys[0]: it is one of signature.secrets": {Keys: secrets(hookSecret)},
		"delivery_key.username: HTTP Basic has a header":       {Username: "a", Header: "b"},
	} {
		err := key.Validate(secrets(hookSecret))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %s", err, want)
		}
	}
	if err := (billing.DeliveryKey{Keys: secrets(ourKey)}).Validate(secrets(hookSecret)); err != nil {
		t.Error(err)
	}
}
