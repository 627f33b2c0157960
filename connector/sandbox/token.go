package sandbox

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The token kinds. Customers and mandates take what Switches.APITokens says;
// webhook endpoints take ClientCredentials alone.
const (
	ClientCredentials = "client_credentials"
	AuthorizationCode = "authorization_code"
)

type tokens struct {
	access  map[string]accessToken
	codes   map[string]consent // authorization codes and refresh tokens work once
	refresh map[string]bool
}

type accessToken struct {
	kind    string
	expires time.Time
}

func newTokens() tokens {
	return tokens{map[string]accessToken{}, map[string]consent{}, map[string]bool{}}
}

// IssueToken returns a new access token of a kind that lives for life, as if
// it had been fetched: ClientCredentials or AuthorizationCode.
func (s *Sandbox) IssueToken(kind string, life time.Duration) string {
	defer s.lock()()
	return s.newAccessToken(kind, life)
}

// IssueCode returns an authorization code, as the service's login page hands it
// to the platform's callback; it can be exchanged once.
func (s *Sandbox) IssueCode() string {
	defer s.lock()()
	return s.newCode(consent{})
}

func (s *Sandbox) newCode(g consent) string {
	code := newToken(s.tokenIDs, 24)
	s.auth.codes[code] = g
	return code
}

// RevokeTokens makes every access token worthless; refresh tokens stay.
func (s *Sandbox) RevokeTokens() {
	defer s.lock()()
	clear(s.auth.access)
}

func (s *Sandbox) newAccessToken(kind string, life time.Duration) string {
	token := newToken(s.tokenIDs, 40)
	s.auth.access[token] = accessToken{kind, s.opt.Now().Add(life)}
	return token
}

// issueToken is POST /oauth2/token.
func (s *Sandbox) issueToken(c *call, r *http.Request) {
	form, err := url.ParseQuery(string(c.request))
	if err != nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		c.refuseToken(http.StatusBadRequest, "invalid_request")
		return
	}
	if !s.knowsClient(form, r) {
		c.header.Set("WWW-Authenticate", "Basic")
		c.refuseToken(http.StatusUnauthorized, "invalid_client")
		return
	}
	switch form.Get("grant_type") {
	case ClientCredentials:
		s.replyToken(c, ClientCredentials)
	case AuthorizationCode:
		given, known := s.auth.codes[form.Get("code")]
		delete(s.auth.codes, form.Get("code"))
		s.redeem(c, known && given.isFor(form))
	case "refresh_token":
		known := s.auth.refresh[form.Get("refresh_token")]
		delete(s.auth.refresh, form.Get("refresh_token"))
		s.redeem(c, known)
	default:
		c.refuseToken(http.StatusBadRequest, "unsupported_grant_type")
	}
}

// knowsClient checks the client's credentials where the switch TokenAuth wants
// them. Given in both places they must agree.
func (s *Sandbox) knowsClient(form url.Values, r *http.Request) bool {
	inForm := form.Has("client_id") || form.Has("client_secret")
	formRight := form.Get("client_id") == s.opt.ClientID && form.Get("client_secret") == s.opt.ClientSecret.Expose()
	id, secret, inBasic := r.BasicAuth()
	// Both parts are form-encoded before they go into the header (RFC 6749, 2.3.1).
	basicRight := id == url.QueryEscape(s.opt.ClientID) && secret == url.QueryEscape(s.opt.ClientSecret.Expose())
	if inForm && !formRight || inBasic && !basicRight {
		return false
	}
	switch s.opt.Switches.TokenAuth {
	case "form":
		return inForm
	case "basic":
		return inBasic
	}
	return inForm || inBasic
}

// redeem answers who gave a code or a refresh token; either works once, and brings
// a new refresh token.
func (s *Sandbox) redeem(c *call, valid bool) {
	if !valid {
		c.refuseToken(http.StatusBadRequest, "invalid_grant")
		return
	}
	refresh := newToken(s.tokenIDs, 40)
	s.auth.refresh[refresh] = true
	s.replyToken(c, AuthorizationCode, field("refresh_token", quote(refresh)))
}

func (s *Sandbox) replyToken(c *call, kind string, more ...member) {
	life := s.opt.TokenLife
	answer := object{
		field("access_token", quote(s.newAccessToken(kind, life))),
		field("token_type", quote("Bearer")),
	}
	switch told := s.opt.Switches.ExpiresIn; told {
	case "omit":
	case "":
		answer = append(answer, field("expires_in", strconv.AppendInt(nil, int64(life/time.Second), 10)))
	default:
		answer = append(answer, field("expires_in", []byte(told)))
	}
	c.header.Set("Cache-Control", "no-store")
	c.reply(http.StatusOK, append(answer, more...).json())
}

func (c *call) refuseToken(status int, code string) {
	body, _ := json.Marshal(map[string]string{"error": code}) // strings only
	c.reply(status, body)
}

// handle is a route of the service.
type handle func(*call, *http.Request)

// needs lets h run for requests with a living bearer token of a kind; "any"
// takes both kinds.
func (s *Sandbox) needs(kind string, h handle) handle {
	return func(c *call, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		token, known := s.auth.access[given]
		if !known || !s.opt.Now().Before(token.expires) {
			c.header.Set("WWW-Authenticate", "Bearer")
			c.refuse(http.StatusUnauthorized, "UNAUTHORIZED", "The access token is missing, expired or not known.")
			return
		}
		if kind != "any" && kind != token.kind {
			c.refuse(s.opt.Switches.WrongTokenStatus, "WRONG_TOKEN_KIND", "This endpoint does not take a token of this kind.")
			return
		}
		h(c, r)
	}
}

// needsAPI is needs with the kind of token that customers and mandates take now.
func (s *Sandbox) needsAPI(h handle) handle {
	return func(c *call, r *http.Request) { s.needs(s.opt.Switches.APITokens, h)(c, r) }
}

// routeAPI sets up the service's endpoints. The mandate calls share a pattern
// because …/{id}/directdebitmandates and …/directdebitmandates/{id} overlap.
func (s *Sandbox) routeAPI() {
	s.api = http.NewServeMux()
	on := func(pattern string, h handle) {
		s.api.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h(w.(*call), r) })
	}
	on("POST /api/oauth2/token", s.issueToken)
	on("POST /api/customers", s.needsAPI(s.createCustomer))
	on("GET /api/customers", s.needsAPI(s.listCustomers))
	on("PUT /api/customers", s.needsAPI(s.updateByBody))
	on("GET /api/customers/{id}", s.needsAPI(s.getCustomer))
	on("PUT /api/customers/{id}", s.needsAPI(s.updateByPath))
	on("DELETE /api/customers/{id}", s.needsAPI(s.deleteCustomer))
	on("GET /api/customers/{id}/directdebitmandates", s.needsAPI(s.getLink))
	on("PUT /api/customers/{first}/{second}", s.needsAPI(s.putMandate))
	on("PUT /api/customers/directdebitmandates/{id}/{action}", s.needsAPI(s.actBySlash))
	on("GET /api/biller", s.needsAPI(s.getBiller))
	on("GET /api/apps/{client}/webhooks", s.needs(ClientCredentials, s.getSubscription))
	on("PUT /api/apps/{client}/webhooks", s.needs(ClientCredentials, s.subscribe))
	on("PUT /api/apps/{client}/webhooks/digest", s.needs(ClientCredentials, s.setDigest))
	on("PUT /api/apps/{client}/webhooks/auth", s.needs(ClientCredentials, s.setAuth))
}
