package billing_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
)

func listOnce(ctx context.Context, c *billing.Client) error {
	for _, err := range c.Customers(ctx) {
		if err != nil {
			return err
		}
	}
	return nil
}

// A refusal quotes the received answer, without any possible personal value.
func TestARefusalIsToldWithWhatWasReceived(t *testing.T) {
	t.Parallel()
	const json, html = "application/json", "text/html; charset=utf-8"
	search := func(ctx context.Context, c *billing.Client) error {
		_, err := c.SearchCustomers(ctx, "Jane")
		return err
	}
	create := func(ctx context.Context, c *billing.Client) error {
		_, err := c.CreateCustomer(ctx, []byte(`{"name":"Jane Roe"}`))
		return err
	}
	tests := []struct {
		name          string
		call          func(context.Context, *billing.Client) error
		rt            http.RoundTripper
		want, without string
	}{
		{"a reason", listOnce, answers(403, json,
			`{"code":"FORBIDDEN","message":"Direct debits are not switched on for this app."}`),
			`it says "Direct debits are not switched on for this app."`, ""},
		{"a reason inside", listOnce, answers(403, json, `{"error":{"message":"No such scope."}}`),
			`it says "No such scope."`, ""},
		{"a reason that quotes the secret", listOnce, answers(403, json, `{"message":"Not with app-secret."}`), "(HTTP 403)",
			"app-secret"},
		{"a reason with an address", listOnce, answers(403, json, `{"message":"Not for ada@northwind.example."}`),
			"(HTTP 403)", "ada"},
		{"a reason with a token", listOnce,
			answers(403, json, `{"message":"Not with eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."}`), "(HTTP 403)", "eyJ"},
		{"a reason with an account", listOnce, answers(403, json, `{"message":"Not for 12345678."}`), "(HTTP 403)", "1234"},
		{"a reason that steers a terminal", listOnce, answers(403, json, `{"message":"\u001b[2J"}`), "(HTTP 403)", "[2J"},
		{"what was looked for", search, answers(403, json, `{"message":"Nobody called Jane."}`), "(HTTP 403)", "Jane"},
		{"what was sent", create, answers(422, json, `{"message":"Jane Roe has no address."}`), "(HTTP 422)", "Jane"},
		{"a page", create, answers(403, html, `<p>Jane, sign in`),
			"it answered with text/html, 16 bytes; compare billing.client_id and billing.client_secret with what the provider gave, and billing.dialect.api_auth", "Jane"},
		{"a page for success", listOnce, answers(200, html, `<p>Sign in`), "text/html, 10 bytes", "Sign in"},
		{"a type that is none", listOnce, answers(502, "<script>", `oops`), "it answered with no type, 4 bytes (HTTP 502)",
			"script"},
		{"nothing", listOnce, answers(403, "", ``),
			"the service refused our credentials; compare billing.client_id and billing.client_secret with what the provider gave, and billing.dialect.api_auth (client_credentials)", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.call(t.Context(), newClient(t, config(tt.rt)))
			if err == nil || !strings.Contains(err.Error(), tt.want) || tt.without != "" &&
				strings.Contains(err.Error(), tt.without) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// A refusal with a consent, or with a fixed token, does not refer to the app's own credentials.
func TestARefusalNamesTheCredentialsThatWereShown(t *testing.T) {
	t.Parallel()
	for auth, want := range map[string]string{
		"client_credentials": "compare billing.client_id and billing.client_secret",
		"authorization_code": "compare its rights, or give it again", "static": "compare billing.api_token",
	} {
		for status, answer := range map[int]string{401: `{"error":"invalid_token"}`, 403: `{}`} {
			cfg := config(roundTrip(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/oauth2/token") {
					return respond(200, "application/json", `{"access_token":"own","token_type":"Bearer"}`), nil
				}
				return respond(status, "application/json", answer), nil
			}))
			cfg.Dialect.APIAuth, cfg.APIToken, cfg.Tokens = auth, connector.NewSecret("fixed"), fixedToken{}
			err := listOnce(t.Context(), newClient(t, cfg))
			if err == nil || !strings.Contains(err.Error(), want) || auth != "client_credentials" &&
				strings.Contains(err.Error(), "client_secret") {
				t.Errorf("%s, answered %d: it says %v", auth, status, err)
			}
		}
	}
}

// A token address that is a page of the service's website says so.
func TestATokenAddressIsToldWithWhatItAnswered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		status        int
		kind, answer  string
		want, without string
	}{
		{"a page", 200, "text/html", "<p>app-secret",
			"the token endpoint answered with text/html, 13 bytes and no token; check billing.base_url and auth_url (HTTP 200)",
			"app-secret"},
		{"a page that calls itself JSON", 200, "application/json", "<p>app-secret",
			"answered with application/json, 13 bytes and no token", "app-secret"},
		{"a page that is missing", 404, "text/html", "<p>Not here",
			"check billing.auth_url; it answered with text/html, 11 bytes (HTTP 404)", "Not here"},
		{"a reason", 401, "application/json", `{"error":"invalid_client","error_description":"The app is not live yet."}`,
			`code invalid_client; it says "The app is not live yet."; compare billing.client_id and billing.client_secret with what the provider gave; where they are right, compare billing.dialect.token_auth (form) (HTTP 401)`, ""},
		{"a reason with the secret", 401, "application/json",
			`{"error":"invalid_client","error_description":"app-secret is wrong"}`,
			"code invalid_client; compare billing.client_id and billing.client_secret with what the provider gave; where they are right, compare billing.dialect.token_auth (form) (HTTP 401)", "app-secret"},
		{"no token", 200, "application/json", `{"token_type":"Bearer"}`, "no token", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := roundTrip(func(*http.Request) (*http.Response, error) { return respond(tt.status, tt.kind, tt.answer), nil })
			err := listOnce(t.Context(), newClient(t, config(rt)))
			if err == nil || !strings.Contains(err.Error(), tt.want) || tt.without != "" &&
				strings.Contains(err.Error(), tt.without) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestACancellationInAWrongSpellingNamesTheSetting(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 405, 501} {
		switches := sandbox.Standard()
		switches.Cancel, switches.RefusedMethodStatus = "slash", status
		_, client := newSandbox(t, switches, billing.Standard())
		body, err := client.CreateBody(northwind())
		if err != nil {
			t.Fatal(err)
		}
		made, err := client.CreateCustomer(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		mandate, err := client.RequestMandateLink(t.Context(), made.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.CancelMandate(t.Context(), mandate.ID, "test"); err == nil ||
			!strings.Contains(err.Error(), "billing.dialect.cancel") {
			t.Errorf("it says %v", err)
		}
	}
}
