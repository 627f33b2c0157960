package sandbox

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func (w *world) fetchToken(form url.Values, auth ...string) reply {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "POST", "http://sandbox.test/api/oauth2/token",
		strings.NewReader(form.Encode()))
	must(w.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if len(auth) == 2 {
		req.SetBasicAuth(auth[0], auth[1])
	}
	got, err := roundTrip(w.RoundTripper(), req)
	must(w.t, err)
	return got
}

func grant(kind string, more ...string) url.Values {
	form := url.Values{"grant_type": {kind}, "client_id": {"sandbox"}, "client_secret": {"sandbox-secret"}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

func TestTokenEndpointTakesCredentialsWhereTheSwitchSays(t *testing.T) {
	t.Parallel()
	inForm, bare := grant(ClientCredentials), url.Values{"grant_type": {ClientCredentials}}
	right, wrong := []string{"sandbox", "sandbox-secret"}, []string{"sandbox", "guess"}
	tests := []struct {
		name, auth string
		form       url.Values
		basic      []string
		want       int
	}{
		{"form as form", "form", inForm, nil, 200},
		{"basic as form", "form", bare, right, 401},
		{"basic as basic", "basic", bare, right, 200},
		{"form as basic", "basic", inForm, nil, 401},
		{"form as any", "any", inForm, nil, 200},
		{"basic as any", "any", bare, right, 200},
		{"both, agreeing", "any", inForm, right, 200},
		{"both, differing", "any", inForm, wrong, 401},
		{"wrong secret", "form", grant(ClientCredentials, "client_secret", "guess"), nil, 401},
		{"wrong client", "form", grant(ClientCredentials, "client_id", "other"), nil, 401},
		{"nothing", "any", bare, nil, 401},
		{"unknown grant", "form", grant("password"), nil, 400},
	}
	for _, tt := range tests {
		w := newWorld(t, with(Switches{TokenAuth: tt.auth}))
		if got := w.fetchToken(tt.form, tt.basic...); got.status != tt.want {
			t.Errorf("%s: got %d %s, want %d", tt.name, got.status, got.body, tt.want)
		}
	}
}

func TestTokenEndpointWantsAForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	got := w.want(400, "POST", "/api/oauth2/token", `{"grant_type":"client_credentials"}`)
	if code := text(t, got.body, "error"); code != "invalid_request" {
		t.Errorf("got error %q", code)
	}
}

func TestTokenExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{TokenLife: 30 * time.Minute})
	got := w.fetchToken(grant(ClientCredentials))
	if life := at(t, got.body, "expires_in"); life != "1800" {
		t.Errorf("got expires_in %s, want 1800", life)
	}
	w.token = text(t, got.body, "access_token")
	w.want(200, "GET", "/api/customers", "")
	w.wait(30*time.Minute - time.Second)
	w.want(200, "GET", "/api/customers", "")
	w.wait(time.Second)
	if got := w.want(401, "GET", "/api/customers", ""); got.header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("got headers %v", got.header)
	}
}

func TestExpiresInCanLie(t *testing.T) {
	t.Parallel()
	for told, want := range map[string]string{"": "3600", "0": "0", "-1": "-1", `"3600"`: `"3600"`, "omit": ""} {
		w := newWorld(t, with(Switches{ExpiresIn: told}))
		if got := at(t, w.fetchToken(grant(ClientCredentials)).body, "expires_in"); got != want {
			t.Errorf("told %q: got expires_in %s, want %s", told, got, want)
		}
	}
}

func TestMissingOrWrongBearerIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	for _, token := range []string{"", "guess", w.token + "x"} {
		w.token = token
		w.want(401, "POST", "/api/customers", `{"name":"A"}`)
	}
	if n := len(w.Customers()); n != 0 {
		t.Errorf("got %d customers made without a token", n)
	}
}

func TestRevokedTokensAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.RevokeTokens()
	w.want(401, "GET", "/api/customers", "")
}

func TestEndpointsTakeTheirKindOfToken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		switchWord, kind    string
		customers, webhooks int
	}{
		{"any", ClientCredentials, 200, 200},
		{"any", AuthorizationCode, 200, 403},
		{ClientCredentials, AuthorizationCode, 403, 403},
		{AuthorizationCode, AuthorizationCode, 200, 403},
		{AuthorizationCode, ClientCredentials, 403, 200},
	}
	for _, tt := range tests {
		w := newWorld(t, with(Switches{APITokens: tt.switchWord}))
		w.token = w.IssueToken(tt.kind, time.Hour)
		w.want(tt.customers, "GET", "/api/customers", "")
		w.want(tt.webhooks, "PUT", "/api/apps/sandbox/webhooks", `{"url":"https://hooks.test/in","events":["payment"]}`)
	}
}

func TestWrongKindOfTokenHasItsStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 401, 400} {
		w := newWorld(t, with(Switches{WrongTokenStatus: status}))
		w.token = w.IssueToken(AuthorizationCode, time.Hour)
		w.want(status, "GET", "/api/apps/sandbox/webhooks", "")
	}
}

func TestCodesAndRefreshTokensWorkOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	code := w.IssueCode()
	first := w.fetchToken(grant(AuthorizationCode, "code", code))
	if first.status != 200 {
		t.Fatalf("got %d %s", first.status, first.body)
	}
	if again := w.fetchToken(grant(AuthorizationCode, "code", code)); text(t, again.body, "error") != "invalid_grant" {
		t.Errorf("second use of the code: got %s", again.body)
	}
	refresh := text(t, first.body, "refresh_token")
	second := w.fetchToken(grant("refresh_token", "refresh_token", refresh))
	if text(t, second.body, "refresh_token") == refresh {
		t.Error("the refresh token was not rotated")
	}
	if again := w.fetchToken(grant("refresh_token", "refresh_token", refresh)); again.status != 400 {
		t.Errorf("second use of the refresh token: got %d", again.status)
	}
	w.token = text(t, second.body, "access_token")
	w.want(200, "GET", "/api/customers", "")
}

func TestTokenRequestsAreKeptWithoutSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.fetchToken(grant(ClientCredentials))
	got := w.Requests()
	if len(got) != 1 || got[0].Path != tokenPath || got[0].Body != nil || got[0].Status != 200 {
		t.Errorf("got %+v", got)
	}
}
