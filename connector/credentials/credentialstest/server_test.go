package credentialstest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector/credentials/credentialstest"
)

const redirect = "https://app.example.com/connected"

// vendor is a server under a clock of its own.
type vendor struct {
	*credentialstest.Server
	t    *testing.T
	http *httptest.Server
	now  time.Time
}

func newVendor(t *testing.T) *vendor {
	v := &vendor{t: t, now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	v.Server = credentialstest.New(func() time.Time { return v.now })
	v.Redirect = redirect
	v.http = httptest.NewServer(v.Server)
	t.Cleanup(v.http.Close)
	return v
}

// exchange posts a form and returns the status and the answer.
func (v *vendor) exchange(form url.Values) (int, map[string]any) {
	v.t.Helper()
	form.Set("client_id", credentialstest.ClientID)
	if !form.Has("client_secret") {
		form.Set("client_secret", credentialstest.ClientSecret)
	}
	resp, err := http.PostForm(v.http.URL+"/token", form)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		v.t.Fatal(err)
	}
	return resp.StatusCode, answer
}

func (v *vendor) refresh(token string) (int, map[string]any) {
	v.t.Helper()
	return v.exchange(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

func TestReusedRefreshTokenTakesItsFamilyAlong(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	_, first := v.Grant()
	other, _ := v.Grant()
	status, answer := v.refresh(first)
	if status != http.StatusOK || answer["refresh_token"] == first || !v.Accepts(answer["access_token"].(string)) {
		t.Fatalf("a refresh gave %d %v", status, answer)
	}
	if status, _ := v.refresh(first); status != http.StatusBadRequest || v.Revoked() != 1 {
		t.Errorf("a token that came again gave %d, %d families revoked", status, v.Revoked())
	}
	if status, _ := v.refresh(answer["refresh_token"].(string)); status != http.StatusBadRequest ||
		v.Accepts(answer["access_token"].(string)) {
		t.Errorf("its successor lives on: %d", status)
	}
	if !v.Accepts(other) {
		t.Error("another consent was revoked too")
	}
}

func TestUsedRefreshTokenWorksWithinItsGrace(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.Grace = 30 * time.Minute
	_, first := v.Grant()
	for _, step := range []struct {
		later time.Duration
		want  int
	}{{0, 200}, {29 * time.Minute, 200}, {time.Minute, 400}} {
		v.now = v.now.Add(step.later)
		if status, _ := v.refresh(first); status != step.want {
			t.Errorf("%s later: %d, want %d", step.later, status, step.want)
		}
	}
}

func TestCodesAreBoundToTheirVerifierAndWorkOnce(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	verifier := oauth2.GenerateVerifier()
	authorize := func(change url.Values) (int, *url.URL) {
		q := url.Values{
			"client_id": {credentialstest.ClientID}, "redirect_uri": {redirect}, "response_type": {"code"},
			"state":                 {strings.Repeat("s", 26)},
			"code_challenge_method": {"S256"}, "code_challenge": {oauth2.S256ChallengeFromVerifier(verifier)},
		}
		for key, value := range change {
			q[key] = value
		}
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.Get(v.http.URL + "/authorize?" + q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		to, _ := resp.Location()
		return resp.StatusCode, to
	}
	for name, change := range map[string]url.Values{
		"another client": {"client_id": {"x"}}, "another redirect": {"redirect_uri": {redirect + "/"}},
		"no challenge": {"code_challenge": {""}}, "a plain challenge": {"code_challenge_method": {"plain"}},
		"a short state": {"state": {"1"}},
	} {
		if status, _ := authorize(change); status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, status)
		}
	}
	redeem := func(code, verifier, redirect string) int {
		status, _ := v.exchange(url.Values{"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {verifier},
			"redirect_uri": {redirect}})
		return status
	}
	for _, wrong := range [][2]string{{"another-verifier", redirect}, {verifier, redirect + "/"}} {
		_, to := authorize(nil)
		if status := redeem(to.Query().Get("code"), wrong[0], wrong[1]); status != http.StatusBadRequest {
			t.Errorf("%v: %d", wrong, status)
		}
	}
	_, to := authorize(nil)
	code := to.Query().Get("code")
	if first, second := redeem(code, verifier, redirect), redeem(code, verifier, redirect); first != 200 || second != 400 {
		t.Errorf("a code gave %d, then %d", first, second)
	}
}

func TestServerRefusesStrangersAndMisbehavesOnRequest(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	_, token := v.Grant()
	if status, _ := v.exchange(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token},
		"client_secret": {"guess"}}); status != http.StatusUnauthorized {
		t.Errorf("a wrong secret gave %d", status)
	}
	if status, answer := v.exchange(url.Values{"grant_type": {"password"}}); status != http.StatusBadRequest ||
		answer["error"] != "unsupported_grant_type" {
		t.Errorf("an unknown grant gave %d %v", status, answer)
	}
	v.Suffer(credentialstest.Trouble{Status: 503, Body: "{}"},
		credentialstest.Trouble{Status: 502, Body: "{}", After: true})
	if status, _ := v.refresh(token); status != 503 {
		t.Errorf("the first trouble gave %d", status)
	}
	if status, _ := v.refresh(token); status != 502 {
		t.Errorf("the second trouble gave %d", status)
	}
	if status, _ := v.refresh(token); status != http.StatusBadRequest {
		t.Errorf("the second trouble did not use the token: %d", status)
	}
	access, _ := v.Grant()
	if v.Withdraw(); v.Accepts(access) {
		t.Error("a withdrawn consent is accepted")
	}
}
