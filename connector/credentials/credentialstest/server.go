// Package credentialstest is a stateful authorisation server for tests: it gives authorisation codes bound to
// PKCE and to a redirect address, rotates refresh tokens, and revokes the whole family when one is used
// again, as strict vendors do. It refuses the same requests and misbehaves on request. The access of a token
// is the task of its users' tests.
package credentialstest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// The client that the server knows.
const (
	ClientID     = "test-client"
	ClientSecret = "test-client-secret"
)

// Server is the authorisation server: /authorize and /token. Its zero value is
// not usable; New makes one.
type Server struct {
	Redirect string        // the registered redirect address, compared character by character
	Life     any           // expires_in as it is written; nil leaves it out
	Grace    time.Duration // how long a used refresh token works once more
	Static   bool          // refresh tokens are not rotated
	Extra    map[string]any
	Back     url.Values // goes into the redirect beside the code, as Intuit's realmId does
	Now      func() time.Time

	mu       sync.Mutex
	codes    map[string]code
	tokens   map[string]*refresh // by refresh token
	access   map[string]bool     // live access tokens
	trouble  []Trouble
	requests int
	made     int
	families int
	revoked  int
}

type code struct{ challenge, redirect string }

// refresh is one refresh token.
type refresh struct {
	family int
	used   int       // how often it was exchanged
	usedAt time.Time // first
	dead   bool      // its family was revoked
}

// Trouble is a single misbehaviour of the token endpoint.
type Trouble struct {
	Status     int    // 0 breaks the connection
	Type       string // content type; application/json when blank
	Body       string
	RetryAfter string
	After      bool // it does its work first, and the answer is lost
}

// New returns a server whose access tokens live for half an hour.
func New(now func() time.Time) *Server {
	return &Server{Life: 1800, Now: now, codes: map[string]code{}, tokens: map[string]*refresh{},
		access: map[string]bool{}}
}

// Suffer lets the next requests to the token endpoint meet these troubles, one
// each.
func (s *Server) Suffer(troubles ...Trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = append(s.trouble, troubles...)
}

// Grant returns the tokens of a new consent, without a browser.
func (s *Server) Grant() (access, refreshToken string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.families++
	return s.issue(s.families)
}

// Withdraw ends every consent.
func (s *Server) Withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		t.dead = true
	}
	clear(s.access)
}

// Accepts reports whether an access token is live.
func (s *Server) Accepts(access string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.access[access]
}

// Requests returns how many requests the token endpoint had.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Revoked returns how many families were revoked because a token came again.
func (s *Server) Revoked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revoked
}

// MostUsed returns how often the refresh token that was used most was exchanged,
// and how many were exchanged at all.
func (s *Server) MostUsed() (most, used int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		most = max(most, t.used)
		if t.used > 0 {
			used++
		}
	}
	return most, used
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/authorize":
		s.authorize(w, r)
	case "/token":
		s.token(w, r)
	default:
		http.NotFound(w, r)
	}
}

// authorize is the vendor's consent page with a person who says yes at once.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	switch {
	case q.Get("client_id") != ClientID, q.Get("redirect_uri") != s.Redirect, err != nil, q.Get("response_type") != "code":
		http.Error(w, "unknown application or redirect address", http.StatusBadRequest)
		return
	case q.Get("code_challenge_method") != "S256", q.Get("code_challenge") == "", len(q.Get("state")) < 16:
		http.Error(w, "the request is not protected", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	name := fmt.Sprintf("code-%d", s.made)
	s.codes[name] = code{challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri")}
	answer := url.Values{"code": {name}, "state": {q.Get("state")}}
	maps.Copy(answer, s.Back)
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	var trouble *Trouble
	if len(s.trouble) > 0 {
		trouble, s.trouble = &s.trouble[0], s.trouble[1:]
		if !trouble.After {
			trouble.write(w)
			return
		}
	}
	status, answer := s.exchange(r)
	if trouble != nil {
		trouble.write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (t Trouble) write(w http.ResponseWriter) {
	if t.Status == 0 {
		panic(http.ErrAbortHandler)
	}
	kind := t.Type
	if kind == "" {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	if t.RetryAfter != "" {
		w.Header().Set("Retry-After", t.RetryAfter)
	}
	w.WriteHeader(t.Status)
	_, _ = fmt.Fprint(w, t.Body)
}

func (s *Server) exchange(r *http.Request) (status int, answer map[string]any) {
	id, secret, basic := r.BasicAuth()
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost {
		return refuse("invalid_request")
	}
	if !basic {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	if id != ClientID || secret != ClientSecret {
		return refuse("invalid_client")
	}
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		return s.redeem(r.PostForm)
	case "client_credentials":
		s.families++
		access, unused := s.issue(s.families)
		delete(s.tokens, unused)
		return s.answer(access, "")
	case "refresh_token":
		return s.renew(r.PostForm.Get("refresh_token"))
	}
	return refuse("unsupported_grant_type")
}

// redeem exchanges a code, once, for who holds its verifier.
func (s *Server) redeem(form url.Values) (int, map[string]any) {
	c, known := s.codes[form.Get("code")]
	delete(s.codes, form.Get("code"))
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	if !known || form.Get("redirect_uri") != c.redirect || base64.RawURLEncoding.EncodeToString(sum[:]) != c.challenge {
		return refuse("invalid_grant")
	}
	s.families++
	return s.answer(s.issue(s.families))
}

// renew exchanges a refresh token. One that was used before, and not just now,
// takes its family along.
func (s *Server) renew(token string) (int, map[string]any) {
	t, known := s.tokens[token]
	if !known || t.dead {
		return refuse("invalid_grant")
	}
	if t.used > 0 && !s.Static && !s.Now().Before(t.usedAt.Add(s.Grace)) {
		s.revoke(t.family)
		return refuse("invalid_grant")
	}
	if t.used++; t.used == 1 {
		t.usedAt = s.Now()
	}
	access, fresh := s.issue(t.family)
	if s.Static {
		delete(s.tokens, fresh)
		fresh = token
	}
	return s.answer(access, fresh)
}

func (s *Server) revoke(family int) {
	s.revoked++
	for _, t := range s.tokens {
		if t.family == family {
			t.dead = true
		}
	}
	for access := range s.access {
		if strings.HasPrefix(access, fmt.Sprintf("access-%d-", family)) {
			delete(s.access, access)
		}
	}
}

func (s *Server) issue(family int) (access, refreshToken string) {
	s.made++
	access, refreshToken = fmt.Sprintf("access-%d-%d", family, s.made), fmt.Sprintf("refresh-%d-%d", family, s.made)
	s.access[access] = true
	s.tokens[refreshToken] = &refresh{family: family}
	return access, refreshToken
}

func (s *Server) answer(access, refreshToken string) (int, map[string]any) {
	out := map[string]any{"access_token": access, "token_type": "Bearer"}
	if refreshToken != "" {
		out["refresh_token"] = refreshToken
	}
	if s.Life != nil {
		out["expires_in"] = s.Life
	}
	for key, value := range s.Extra {
		out[key] = value
	}
	return http.StatusOK, out
}

func refuse(reason string) (int, map[string]any) {
	if reason == "invalid_client" {
		return http.StatusUnauthorized, map[string]any{"error": reason}
	}
	return http.StatusBadRequest, map[string]any{"error": reason}
}
