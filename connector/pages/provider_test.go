package pages_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/pages"
)

// provider is a small OpenID provider on this machine. It lets everybody in whom it is told to.
type provider struct {
	*httptest.Server
	t   testing.TB
	key *rsa.PrivateKey

	mu     sync.Mutex
	claims map[string]any        // of whoever signs in
	codes  map[string]url.Values // what was asked for, until it is exchanged
	tamper func(claims map[string]any, key **rsa.PrivateKey)
}

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func newProvider(t testing.TB, claims map[string]any) *provider {
	t.Helper()
	o := &provider{t: t, key: must(rsa.GenerateKey(rand.Reader, 2048))(t), claims: claims, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		o.answer(w, map[string]any{
			"issuer": o.URL, "authorization_endpoint": o.URL + "/authorize", "token_endpoint": o.URL + "/token",
			"jwks_uri":                              o.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		o.answer(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "kid": "k1", "alg": "RS256", "use": "sig",
			"n": b64(o.key.N.Bytes()), "e": "AQAB"}}})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		code := rand.Text()
		o.mu.Lock()
		o.codes[code] = r.URL.Query()
		o.mu.Unlock()
		back := r.FormValue("redirect_uri") + "?" +
			url.Values{"code": {code}, "state": {r.FormValue("state")}, "iss": {o.URL}}.Encode()
		_, _ = fmt.Fprintf(w, `<!doctype html><title>Provider</title><h1>Provider</h1><a id="go" href="%s">Go back</a>`,
			strings.ReplaceAll(back, "&", "&amp;"))
	})
	mux.HandleFunc("POST /token", o.token)
	o.Server = httptest.NewServer(mux)
	t.Cleanup(o.Close)
	return o
}

func (o *provider) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// token exchanges a code, once, for who has asked for it and can show the verifier.
func (o *provider) token(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked, there := o.codes[r.FormValue("code")]
	delete(o.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	id, secret, _ := r.BasicAuth()
	if !there || asked.Get("code_challenge_method") != "S256" || asked.Get("code_challenge") != b64(sum[:]) ||
		r.FormValue("redirect_uri") != asked.Get("redirect_uri") || id != "payersync" || secret != "shh" {
		w.WriteHeader(http.StatusBadRequest)
		o.answer(w, map[string]any{"error": "invalid_grant", "error_description": "<script>alert(1)</script>"})
		return
	}
	claims := map[string]any{"iss": o.URL, "aud": "payersync", "sub": "1", "nonce": asked.Get("nonce"),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
	maps.Copy(claims, o.claims)
	key := o.key
	if o.tamper != nil {
		o.tamper(claims, &key)
	}
	text, _ := json.Marshal(claims)
	signed := b64([]byte(`{"alg":"RS256","kid":"k1"}`)) + "." + b64(text)
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	if err != nil {
		o.t.Error(err)
	}
	o.answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": signed + "." + b64(signature)})
}

// by makes the house's pages let people in by a provider.
func (h *house) by(o *provider) *pages.Provider {
	h.t.Helper()
	p := &pages.Provider{
		Issuer: o.URL, ID: "payersync", Secret: connector.NewSecret("shh"), Address: h.server.URL, Name: "the firm's login",
		Scopes:    []string{"email"},
		NameClaim: "email", RoleClaim: "realm.groups",
		Roles: map[pages.Role][]string{pages.Viewer: {"all"}, pages.Operator: {"accounting"}, pages.Admin: {"it"}},
		HTTP:  &http.Client{Timeout: 5 * time.Second},
	}
	h.pages = must(pages.New(pages.Config{Ledger: h.ledger, Connections: []string{sample}, Report: h.report,
		Provider: p}))(h.t)
	h.server.Config.Handler = h.pages
	return p
}

func anna(groups ...any) map[string]any {
	return map[string]any{"email": "Anna@firm.example", "email_verified": true, "realm": map[string]any{"groups": groups}}
}

// with returns claims with one of them changed.
func with(claims map[string]any, name string, value any) map[string]any {
	claims[name] = value
	return claims
}

// went goes to the provider and returns the address that it leads back to.
func (v *visitor) went() string {
	v.t.Helper()
	page := v.get("/signin/oidc", http.StatusOK)
	_, back, _ := strings.Cut(page, `href="`+v.base)
	back, _, _ = strings.Cut(back, `"`)
	return strings.ReplaceAll(back, "&amp;", "&")
}

// comes comes back from the provider, and presses the button.
func (v *visitor) comes(back string, want int) string {
	v.t.Helper()
	v.get(back, http.StatusOK)
	u := must(url.Parse(back))(v.t)
	q := u.Query()
	return v.post(u.Path, want, "code", q.Get("code"), "state", q.Get("state"), "iss", q.Get("iss"))
}

// covers F84
func TestAProviderLetsInWhomItGivesARole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		claims map[string]any
		role   string // "" for who does not get in
		says   string
	}{
		{"one group", anna("accounting", 7, nil), "operator", ""},
		{"the highest of several", anna("all", "it", "accounting"), "admin", ""},
		{"a text", map[string]any{"email": "anna@firm.example", "realm": map[string]any{"groups": "all"}}, "viewer", ""},
		{"a claim with a dot in its name", map[string]any{"email": "anna@firm.example", "realm.groups": []any{"all"}},
			"viewer", ""},
		{"no claim", map[string]any{"email": "anna@firm.example"}, "", "You may not use payersync"},
		{"another group", anna("ACCOUNTING", "itt", ""), "", "You may not use payersync"},
		{"no name", map[string]any{"realm": map[string]any{"groups": []any{"it"}}}, "", "did not say who you are"},
		{"a name that is none", map[string]any{"email": "<script>@x", "realm": map[string]any{"groups": []any{"it"}}}, "",
			"did not say who you are"},
		{"a token that was issued to these pages", with(anna("all"), "azp", "payersync"), "viewer", ""},
		{"several audiences, and issued to these pages",
			with(with(anna("all"), "azp", "payersync"), "aud", []string{"another app", "payersync"}), "viewer", ""},
		{"a list of one audience", with(anna("all"), "aud", []string{"payersync"}), "viewer", ""},
		{"the name root", with(anna("it"), "email", "Root"), "", "stands in the audit log for another actor"},
		{"the name schedule", with(anna("it"), "email", "schedule"), "", "stands in the audit log for another actor"},
		{"an address that was not confirmed",
			map[string]any{"email": "anna@firm.example", "email_verified": false,
				"realm": map[string]any{"groups": []any{"it"}}}, "", "did not say who you are"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.by(newProvider(t, c.claims))
			v := h.stranger()
			holds(t, v.get("/signin", http.StatusOK), `href="/signin/oidc"`, "the firm&#39;s login")
			if c.role == "" {
				holds(t, v.comes(v.went(), http.StatusForbidden), c.says, "You are not signed in")
				v.get("/runs", http.StatusUnauthorized)
				return
			}
			v.comes(v.went(), http.StatusOK)
			holds(t, v.get("/runs", http.StatusOK), "<bdi>anna@firm.example</bdi>, "+c.role)
			if log := h.logged(9); !strings.Contains(log, "anna@firm.example sign in as "+c.role+", by the provider") {
				t.Errorf("the audit log says:\n%s", log)
			}
			v.post("/signout", http.StatusOK)
			v.get("/runs", http.StatusUnauthorized)
		})
	}
}

func TestAProvidersTokenThatDoesNotHoldLetsNobodyIn(t *testing.T) {
	t.Parallel()
	other := must(rsa.GenerateKey(rand.Reader, 2048))(t)
	for name, tamper := range map[string]func(map[string]any, **rsa.PrivateKey){
		"another key":      func(_ map[string]any, k **rsa.PrivateKey) { *k = other },
		"another issuer":   func(c map[string]any, _ **rsa.PrivateKey) { c["iss"] = "https://evil.example" },
		"another audience": func(c map[string]any, _ **rsa.PrivateKey) { c["aud"] = "another app" },
		"several audiences, and nobody it was issued to": func(c map[string]any,
			_ **rsa.PrivateKey) {
			c["aud"] = []string{"payersync", "another app"}
		},
		"several audiences, and issued to another": func(c map[string]any, _ **rsa.PrivateKey) {
			c["aud"], c["azp"] = []string{"payersync", "another app"}, "another app"
		},
		"issued to another":           func(c map[string]any, _ **rsa.PrivateKey) { c["azp"] = "another app" },
		"issued to a blank client":    func(c map[string]any, _ **rsa.PrivateKey) { c["azp"] = "" },
		"issued to null":              func(c map[string]any, _ **rsa.PrivateKey) { c["azp"] = nil },
		"issued to a list of clients": func(c map[string]any, _ **rsa.PrivateKey) { c["azp"] = []string{"payersync"} },
		"too old": func(c map[string]any,
			_ **rsa.PrivateKey) {
			c["exp"] = time.Now().Add(-time.Hour).Unix()
		},
		"another nonce": func(c map[string]any, _ **rsa.PrivateKey) { c["nonce"] = "of another sign-in" },
		"no nonce":      func(c map[string]any, _ **rsa.PrivateKey) { delete(c, "nonce") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			o := newProvider(t, anna("it"))
			o.tamper = tamper
			h.by(o)
			v := h.stranger()
			back := v.went()
			q := must(url.Parse(back))(t).Query()
			status, page := v.send(http.MethodPost, pages.CallbackPath, q)
			if status != http.StatusBadGateway && status != http.StatusBadRequest ||
				!strings.Contains(page, "You are not signed in") {
				t.Errorf("it is answered %d:\n%s", status, page)
			}
			v.get("/runs", http.StatusUnauthorized)
		})
	}
}

func TestComingBackIsForTheBrowserThatWentAndOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	o := newProvider(t, anna("it"))
	h.by(o)
	v := h.stranger()
	back := v.went()
	form := must(url.Parse(back))(t).Query()
	refused := func(what string, v *visitor, method, path string, form url.Values, want int) {
		t.Helper()
		status, page := v.send(method, path, form)
		if status != want || strings.Contains(page, "evil") {
			t.Errorf("%s is answered %d, want %d:\n%s", what, status, want, page)
		}
		v.get("/runs", http.StatusUnauthorized)
	}
	refused("another browser", h.stranger(), http.MethodGet, back, nil, http.StatusBadRequest)
	refused("another browser's button", h.stranger(), http.MethodPost, pages.CallbackPath, form, http.StatusBadRequest)
	mixed := func(name, value string) url.Values {
		q := must(url.ParseQuery(form.Encode()))(t)
		q.Set(name, value)
		return q
	}
	refused("another state", v, http.MethodGet, pages.CallbackPath+"?"+mixed("state", "x").Encode(), nil,
		http.StatusBadRequest)
	refused("another provider", v, http.MethodGet, pages.CallbackPath+"?"+mixed("iss", "https://evil.example").Encode(),
		nil, http.StatusBadRequest)
	q := request{method: http.MethodPost, path: pages.CallbackPath + "?" + form.Encode(), site: "cross-site"}
	if w := q.to(t, h.pages); w.Code != http.StatusForbidden {
		t.Errorf("a button elsewhere is answered %d", w.Code)
	}
	kept := v.http.Jar.Cookies(must(url.Parse(v.base))(t))
	v.comes(back, http.StatusOK)
	v.get("/runs", http.StatusOK)
	v.get(back, http.StatusBadRequest) // the cookie is gone
	replay := h.stranger()
	replay.http.Jar.SetCookies(must(url.Parse(v.base))(t), kept)
	refused("a replay with the cookie", replay, http.MethodPost, pages.CallbackPath, form, http.StatusBadGateway)
	for _, e := range h.events {
		if e.Err != nil && (strings.Contains(e.Err.Error(), "script") || strings.Contains(e.Err.Error(), form.Get("code"))) {
			t.Errorf("the report holds what the provider wrote, or the code: %v", e.Err)
		}
	}
}

func TestWhatAProviderSaysIsNotShown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.by(newProvider(t, anna("it")))
	for code, want := range map[string]string{"access_denied": "It was stopped there",
		"temporarily_unavailable": "a problem of its own", "call 0800 evil": "It reported a problem"} {
		v := h.stranger()
		form := must(url.Parse(v.went()))(t).Query()
		page := v.get(pages.CallbackPath+"?"+url.Values{"error": {code}, "error_description": {"Call 0800 evil"},
			"state": {form.Get("state")}}.Encode(), http.StatusForbidden)
		holds(t, page, want, "You are not signed in")
		if strings.Contains(page, "0800") {
			t.Errorf("the page says what the provider said:\n%s", page)
		}
	}
	h.stranger().get(pages.CallbackPath+"?error=access_denied&state=x", http.StatusBadRequest)
}

func TestANameWithAPasswordIsNobodyElsesByAProvider(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.by(newProvider(t, anna("it")))
	h.choose("anna@firm.example", pages.Viewer)
	v := h.stranger()
	holds(t, v.comes(v.went(), http.StatusForbidden), "The name belongs to somebody else")
	v.get("/runs", http.StatusUnauthorized)
}

func TestLoginsByAProviderEndWithIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.by(newProvider(t, anna("it")))
	v := h.stranger()
	v.comes(v.went(), http.StatusOK)
	v.get("/runs", http.StatusOK)
	h.server.Config.Handler = must(pages.New(pages.Config{Ledger: h.ledger}))(t)
	v.get("/runs", http.StatusUnauthorized)
}

func TestAProviderThatIsDownIsToldAndAskedAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	o := newProvider(t, anna("it"))
	p := h.by(o)
	issuer := p.Issuer
	p.Issuer = "http://127.0.0.1:1"
	holds(t, h.stranger().get("/signin/oidc", http.StatusBadGateway), "gave a wrong answer")
	p.Issuer = issuer
	h.stranger().went()
}

func TestTheWayToAProviderIsACookieThatIsLaxAndShort(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	o := newProvider(t, anna("it"))
	p := h.by(o)
	for secure, at := range map[bool]*pages.Pages{
		false: h.pages,
		true:  must(pages.New(pages.Config{Ledger: h.ledger, Provider: p, Secure: true}))(t),
	} {
		w := request{method: http.MethodGet, path: "/signin/oidc"}.to(t, at)
		to := must(url.Parse(w.Header().Get("Location")))(t)
		cookies := w.Result().Cookies()
		if w.Code != http.StatusSeeOther || len(cookies) != 1 || to.Query().Get("code_challenge_method") != "S256" ||
			len(to.Query().Get("nonce")) < 20 || len(to.Query().Get("state")) < 20 {
			t.Fatalf("it is answered %d, to %s, with %d cookies", w.Code, to, len(cookies))
		}
		c := cookies[0]
		if c.SameSite != http.SameSiteLaxMode || c.MaxAge != 600 || !c.HttpOnly || c.Secure != secure ||
			strings.HasPrefix(c.Name, "__Host-payersync-") != secure || c.Path != "/" || c.Domain != "" {
			t.Errorf("the cookie is %s", c)
		}
		if strings.Contains(to.RawQuery, strings.Split(c.Value, ".")[2]) {
			t.Error("the verifier leaves before the code comes back")
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (&pages.Provider{Issuer: o.URL, HTTP: http.DefaultClient}).Discover(ctx); err == nil {
		t.Error("somebody who has gone is waited for")
	}
}
