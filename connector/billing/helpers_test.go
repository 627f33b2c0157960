package billing_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
	"payersync/connector/transport"
)

const (
	base     = "https://billing.example/api"
	redirect = "https://app.example/signed"
)

var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// config is a working configuration over a base transport, without retries.
func config(rt http.RoundTripper) billing.Config {
	return billing.Config{
		BaseURL: base, ClientID: "app-1", ClientSecret: connector.NewSecret("app-secret"), RedirectURL: redirect,
		Events:  []string{"dd-mandate", "customer"},
		Dialect: billing.Standard(), HTTP: transport.New(transport.Options{Base: rt, Retries: -1}),
		Now: func() time.Time { return start },
	}
}

func newClient(t *testing.T, cfg billing.Config) *billing.Client {
	t.Helper()
	client, err := billing.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// newSandbox returns a sandbox and a client that speaks to it in process.
func newSandbox(t *testing.T, switches sandbox.Switches, dialect billing.Dialect) (*sandbox.Sandbox, *billing.Client) {
	t.Helper()
	box := sandbox.New(sandbox.Options{
		ClientID: "app-1", ClientSecret: connector.NewSecret("app-secret"), Switches: switches,
		Now: func() time.Time { return start },
	})
	cfg := config(box.RoundTripper())
	cfg.Dialect = dialect
	if dialect.APIAuth == "authorization_code" {
		cfg.Tokens = issuer{box}
	}
	return box, newClient(t, cfg)
}

// behindToken serves API requests; the token endpoint works.
type behindToken func(r *http.Request) (*http.Response, error)

const tokenAnswer = `{"access_token":"token-1","token_type":"Bearer","expires_in":3600}`

func (api behindToken) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/oauth2/token") {
		return respond(http.StatusOK, "application/json", tokenAnswer), nil
	}
	return api(r)
}

// scripted answers each API request with the function's return.
func scripted(answer func(r *http.Request, body string) (status int, contentType, text string)) http.RoundTripper {
	return behindToken(func(r *http.Request) (*http.Response, error) {
		return respond(answer(r, readBody(r))), nil
	})
}

// answers gives every API request the same answer.
func answers(status int, contentType, answer string) http.RoundTripper {
	return scripted(func(*http.Request, string) (int, string, string) { return status, contentType, answer })
}

func decode(t *testing.T, raw json.RawMessage) map[string]json.RawMessage {
	t.Helper()
	var out map[string]json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return out
}
