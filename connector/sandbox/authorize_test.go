package sandbox

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"payersync/connector"
)

// browse is a person's browser at the consent page; it follows nothing.
func (w *world) browse(method string, asked url.Values, answer string) *http.Response {
	w.t.Helper()
	req := httptest.NewRequestWithContext(w.t.Context(), method, "http://localhost"+AuthorizePath+"?"+asked.Encode(),
		strings.NewReader("answer="+answer))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, req)
	return rec.Result()
}

func consentFor(verifier string) url.Values {
	sum := sha256.Sum256([]byte(verifier))
	return url.Values{
		"client_id": {"sandbox"}, "response_type": {"code"}, "redirect_uri": {"http://localhost:8484/callback"},
		"state":          {"s1"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
}

func TestAConsentGivesACodeToWhoAskedForItAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, redirect, verifier string
		want                     int
	}{
		{"who asked", "http://localhost:8484/callback", "right", 200},
		{"another verifier", "http://localhost:8484/callback", "wrong", 400},
		{"another address", "http://localhost:9999/callback", "right", 400},
	} {
		w := newWorld(t, Options{})
		if page := w.browse("GET", consentFor("right"), ""); page.StatusCode != 200 {
			t.Fatalf("the page is answered with %d", page.StatusCode)
		}
		back, err := w.browse("POST", consentFor("right"), "yes").Location()
		must(t, err)
		if back.Query().Get("state") != "s1" || back.Host != "localhost:8484" {
			t.Fatalf("the browser was sent to %s", back)
		}
		form := grant(AuthorizationCode, "code", back.Query().Get("code"), "redirect_uri", tt.redirect, "code_verifier",
			tt.verifier)
		if got := w.fetchToken(form); got.status != tt.want {
			t.Errorf("%s: got %d %s, want %d", tt.name, got.status, got.body, tt.want)
		}
		if got := w.fetchToken(form); got.status != 400 {
			t.Errorf("%s: the code works twice", tt.name)
		}
	}
}

func TestAConsentThatIsRefusedOrMalformedGivesNoCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	back, err := w.browse("POST", consentFor("v"), "no").Location()
	must(t, err)
	if q := back.Query(); q.Get("error") != "access_denied" || q.Has("code") {
		t.Errorf("a no sent the browser to %s", back)
	}
	for name, value := range map[string]string{"client_id": "another", "response_type": "token",
		"redirect_uri": "callback", "code_challenge_method": "plain"} {
		asked := consentFor("v")
		asked.Set(name, value)
		for _, method := range []string{"GET", "POST"} {
			if got := w.browse(method, asked, "yes"); got.StatusCode != 400 {
				t.Errorf("%s with %s %q is answered with %d", method, name, value, got.StatusCode)
			}
		}
	}
}

func TestACancelledMandateIsReinstatedWhereThatExists(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		spelling, path, body string
		want                 int
	}{
		{"none", ":reinstate", "{}", 404},
		{"colon", ":reinstate", "{}", 200},
		{"colon", "%3Areinstate", "{}", 404},
		{"slash", "/reinstate", "{}", 200},
		{"slash", ":reinstate", "{}", 404},
		{"query", "?action=reinstate", "{}", 200},
		{"body", "", `{"action":"reinstate"}`, 200},
	} {
		w := newWorld(t, with(Switches{Reinstate: tt.spelling}))
		id := w.create(`{"name":"A"}`)
		m := text(t, w.want(200, "PUT", "/api/customers/"+id+"/directdebitmandates", `{}`).body, "id")
		w.want(200, "PUT", "/api/customers/directdebitmandates/"+m+":cancel", `{}`)
		w.want(tt.want, "PUT", "/api/customers/directdebitmandates/"+m+tt.path, tt.body)
		want := map[int]connector.MandateStatus{200: connector.MandateActive, 404: connector.MandateCancelled}[tt.want]
		if got, _ := w.Mandate(m); got.Status != want {
			t.Errorf("%s, %q: it is %s", tt.spelling, tt.path, got.Status)
		}
		if tt.want == 200 {
			w.want(400, "PUT", "/api/customers/directdebitmandates/"+m+tt.path, tt.body)
		}
	}
}

func TestTheBillerIsToldWhereThereIsOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(Switches{Biller: "b1"}))
	if got := text(t, w.want(200, "GET", "/api/biller", "").body, "id"); got != "b1" {
		t.Errorf("the biller is %q", got)
	}
	newWorld(t, Options{}).want(404, "GET", "/api/biller", "")
}
