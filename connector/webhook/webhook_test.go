package webhook

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/transport"
)

func TestSecretsThatCouldBeGuessedAreRefused(t *testing.T) {
	t.Parallel()
	for secret, good := range map[string]bool{
		"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=": true,
		"a text of thirty-two bytes or so":                   true,
		"short":                                              false,
		"whsec_c2hvcnQ=":                                     false,
		"whsec_ not base64 at all, though long enough":       false,
	} {
		if err := CheckSecret(connector.NewSecret(secret)); (err == nil) != good || err != nil &&
			strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", secret, err)
		}
	}
}

// A redirect is no receiver's word: nothing goes to another host.
func TestAnAnswerSaysWhetherItIsWorthAnotherTry(t *testing.T) {
	t.Parallel()
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	for code, want := range map[int]string{200: "taken", 204: "taken", 307: "refused", 400: "refused", 410: "refused",
		408: "later", 429: "later", 500: "later", 503: "later"} {
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(code)
		}))
		client := transport.New(transport.Options{Retries: -1})
		r := &Receiver{URL: receiver.URL, Secret: connector.NewSecret("a text of thirty-two bytes or so"), HTTP: client,
			Now: time.Now}
		_, err := r.Send(t.Context(), "id", []byte("{}"))
		var refused *RefusedError
		var later interface{ RetryAt() time.Time }
		got := "taken"
		switch {
		case errors.As(err, &refused):
			got = "refused"
		case errors.As(err, &later):
			got = "later"
		case err != nil:
			got = err.Error()
		}
		if got != want {
			t.Errorf("%d is told as %s: %v", code, got, err)
		}
		client.Close()
		receiver.Close()
	}
	if elsewhere != 0 {
		t.Errorf("%d requests went elsewhere", elsewhere)
	}
}

func TestWithNobodyListeningNothingIsSent(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	client := transport.New(transport.Options{Retries: -1})
	t.Cleanup(client.Close)
	r := Receiver{URL: server.URL, Secret: connector.NewSecret("a text of thirty-two bytes or so"), HTTP: client,
		Now: time.Now}
	_, err := r.Send(t.Context(), "m1", []byte("{}"))
	var not *NotSentError
	if !errors.As(err, &not) {
		t.Errorf("it ended with %v", err)
	}
}
