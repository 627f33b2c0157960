package pages

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// flowFor is how long somebody may take at the provider.
const flowFor = 10 * time.Minute

// Provider signs people in by OpenID Connect: the code flow with PKCE, a state and a nonce. It identifies the person.
// The configuration maps a claim to the role.
type Provider struct {
	Issuer    string
	ID        string // of these pages at the provider
	Secret    connector.Secret
	Address   string            // of these pages for browsers, without a path
	Name      string            // what the button calls it; "" for its host
	Scopes    []string          // beside openid
	NameClaim string            // the user's name
	RoleClaim string            // the claim of the role; with dots for a nested one
	Roles     map[Role][]string // its values for each role
	HTTP      *http.Client      // with a limit on answers, and without redirects

	mu    sync.Mutex
	found *oidc.Provider
}

// CallbackPath is the provider's redirect address.
const CallbackPath = "/signin/oidc/callback"

// called returns the provider's name for people.
func (o *Provider) called() string {
	if o.Name != "" {
		return o.Name
	}
	u, _ := url.Parse(o.Issuer)
	if u == nil {
		return o.Issuer
	}
	return u.Host
}

// Discover asks the provider for its endpoints and caches the answer. After a failure, the next call asks again.
func (o *Provider) Discover(ctx context.Context) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.found != nil {
		return o.found, nil
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, o.HTTP), o.Issuer)
	if err == nil {
		o.found = found
	}
	return found, err
}

func (o *Provider) config(at *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.ID, ClientSecret: o.Secret.Expose(), Endpoint: at.Endpoint(), RedirectURL: o.Address + CallbackPath,
		Scopes: append([]string{oidc.ScopeOpenID}, o.Scopes...),
	}
}

// flow is the browser's state during a sign-in at the provider, in a cookie of its own.
type flow struct{ state, nonce, verifier string }

// flowCookie returns the name of that cookie. It is Lax, because the provider redirects from another site.
func (p *Pages) flowCookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: p.logins.Cookie.Name + "-flow", Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: p.cfg.Secure, SameSite: http.SameSiteLaxMode} //nolint:gosec // Secure wherever there is TLS
}

func (p *Pages) flowOf(r *http.Request) (f flow, ok bool) {
	c, err := r.Cookie(p.flowCookie("", 0).Name)
	if err != nil {
		return f, false
	}
	parts := strings.Split(c.Value, ".")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return f, false
	}
	return flow{parts[0], parts[1], parts[2]}, true
}

var noProvider = problem{Status: http.StatusNotFound, Title: "There is no provider",
	Sentence: "This installation has no sign-in by another service.", Next: "Sign in as the page says.", Path: "/signin"}

// unreachable is the text for people while the provider's answers fail.
func unreachable(err error) problem {
	return problem{
		Status: http.StatusBadGateway, Title: "The provider gave a wrong answer",
		Sentence: "You are not signed in; payersync's log says more.",
		Next:     "Try again in a minute. If it stays, ask the operator of payersync.", Path: "/signin", err: err,
	}
}

// toProvider redirects to the provider. It changes only that cookie.
func (p *Pages) toProvider(w http.ResponseWriter, r *http.Request) {
	o := p.cfg.Provider
	if o == nil {
		p.refuse(w, r, nil, noProvider)
		return
	}
	at, err := o.Discover(r.Context())
	if err != nil {
		p.refuse(w, r, nil, unreachable(fmt.Errorf("ask the provider where it is: %w", err)))
		return
	}
	f := flow{rand.Text(), rand.Text(), oauth2.GenerateVerifier()}
	http.SetCookie(w, p.flowCookie(strings.Join([]string{f.state, f.nonce, f.verifier}, "."), int(flowFor/time.Second)))
	http.Redirect(w, r, o.config(at).AuthCodeURL(f.state, oidc.Nonce(f.nonce), oauth2.S256ChallengeOption(f.verifier)),
		http.StatusSeeOther)
}

// otherFlow is the answer to a return without a matching start in this browser, after too long, or for a second time.
var otherFlow = problem{
	Status: http.StatusBadRequest, Title: "This is not the sign-in that you began",
	Sentence: "It began in another browser or more than ten minutes ago, or was used before. You are not signed in.",
	Next:     "Begin it again.", Path: "/signin",
}

// returned fails unless a browser comes back as it went, from this provider.
func (p *Pages) returned(r *http.Request) (flow, error) {
	f, ok := p.flowOf(r)
	iss := r.FormValue("iss")
	switch {
	case p.cfg.Provider == nil:
		return f, noProvider
	case !ok || subtle.ConstantTimeCompare([]byte(f.state), []byte(r.FormValue("state"))) != 1 || iss != "" &&
		iss != p.cfg.Provider.Issuer:
		return f, otherFlow
	}
	return f, nil
}

// fromProvider shows a returning person a button, pressed by a script. A redirect would not work: browsers withhold the
// cookie of a login started by a request from another site. In addition, a GET changes nothing.
func (p *Pages) fromProvider(w http.ResponseWriter, r *http.Request) {
	_, err := p.returned(r)
	if err == nil && (r.FormValue("code") == "" || r.FormValue("error") != "") {
		http.SetCookie(w, p.flowCookie("", -1))
		err = saidNo(r.FormValue("error"))
	}
	if err != nil {
		p.refuse(w, r, nil, err)
		return
	}
	p.render(w, nil, http.StatusOK, "arriving", "Finish signing in",
		map[string]string{"Code": r.FormValue("code"), "State": r.FormValue("state"), "Iss": r.FormValue("iss"),
			"Path": CallbackPath})
}

// saidNo describes a provider's error in our words. It omits the provider's text, because anybody can put text in an
// address.
func saidNo(code string) problem {
	is := problem{Status: http.StatusForbidden, Title: "The provider did not let you in",
		Sentence: "It reported a problem. You are not signed in.",
		Next:     "Try again. If it stays, ask the operator of payersync.", Path: "/signin"}
	switch code {
	case "access_denied":
		is.Sentence = "It was stopped there, or your account may not use payersync. You are not signed in."
	case "login_required", "interaction_required", "consent_required", "account_selection_required":
		is.Sentence = "It wants you to sign in there first. You are not signed in."
	case "temporarily_unavailable", "server_error":
		is.Sentence = "It has a problem of its own at the moment. You are not signed in."
	case "invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope":
		is.err = fmt.Errorf("the provider says %s: check pages.oidc, and how payersync is registered there", code)
	}
	return is
}

// useProvider signs in the person identified by the provider.
func (p *Pages) useProvider(w http.ResponseWriter, r *http.Request) {
	f, err := p.returned(r)
	var user User
	if err == nil {
		http.SetCookie(w, p.flowCookie("", -1)) // it is used up in any case
		user, err = p.cfg.Provider.arrived(r.Context(), r.FormValue("code"), f)
	}
	if errors.Is(err, errNoRole) {
		p.noteRefusal(r.Context(), "provider "+user.Name,
			state.Entry{Actor: user.Name, Action: "refuse to sign in", Subject: "by the provider", Reason: "no role"})
	}
	if err == nil {
		err = p.begin(w, r, arrival{user: user, way: byProvider + p.cfg.Provider.Issuer,
			said: fmt.Sprintf("as %s, by the provider", user.Role), use: nobodyOf(user)})
	}
	p.home(w, r, err)
}

// nobodyOf fails if a user with a password has the name: the audit log could not tell the two apart.
func nobodyOf(user User) func(*state.Tx) error {
	return func(tx *state.Tx) error {
		if ends, err := tx.Generation(strings.ToLower(user.Name)); err != nil || ends == 0 {
			return err
		}
		return problem{
			Status: http.StatusForbidden, Title: "The name belongs to somebody else",
			Sentence: "A user with a password has the name that the provider gives you. You are not signed in.",
			Next:     "Sign in with the password, or ask an admin to remove that user.", Path: "/signin",
		}
	}
}

var errNoRole = errors.New("the provider gives no role")

// arrived exchanges a code for the user and the role.
func (o *Provider) arrived(ctx context.Context, code string, f flow) (User, error) {
	at, err := o.Discover(ctx)
	if err != nil {
		return User{}, unreachable(fmt.Errorf("ask the provider where it is: %w", err))
	}
	ctx = oidc.ClientContext(ctx, o.HTTP)
	tokens, err := o.config(at).Exchange(ctx, code, oauth2.VerifierOption(f.verifier))
	if err != nil {
		return User{}, unreachable(fmt.Errorf("exchange the code of a sign-in: %w", plainly(err)))
	}
	raw, _ := tokens.Extra("id_token").(string)
	id, err := at.Verifier(&oidc.Config{ClientID: o.ID}).Verify(ctx, raw)
	switch {
	case err != nil:
		return User{}, unreachable(errors.New("the provider's ID token does not hold: its signature, issuer, audience or time"))
	case !o.isAuthorized(id):
		return User{}, unreachable(errors.New("the provider's ID token does not hold: it was issued to another client (azp), or has several audiences and does not say to which client it was issued"))
	case subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(f.nonce)) != 1:
		return User{}, otherFlow
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return User{}, unreachable(errors.New("the provider's ID token holds no object"))
	}
	return o.known(claims)
}

// isAuthorized reports whether an ID token was issued to these pages. The library checks the audiences, and leaves azp,
// the authorized party, to its callers.
func (o *Provider) isAuthorized(id *oidc.IDToken) bool {
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return false
	}
	azp, there := claims["azp"]
	if !there {
		return len(id.Audience) == 1
	}
	return azp == any(o.ID)
}

// plainly describes a failed exchange without the provider's text.
func plainly(err error) error {
	var said *oauth2.RetrieveError
	if errors.As(err, &said) && said.Response != nil {
		return fmt.Errorf("the provider answered %d; check pages.oidc.client_id, client_secret, and the redirect address that is registered there", said.Response.StatusCode)
	}
	return err
}

// known returns the user in the claims, with the highest role granted.
func (o *Provider) known(claims map[string]any) (User, error) {
	text, _ := claimOf(claims, o.NameClaim).(string)
	name, err := admin.NewUserName(text)
	if errors.Is(err, admin.ErrReservedName) {
		return User{}, problem{
			Status: http.StatusForbidden, Title: "The name is reserved",
			Sentence: fmt.Sprintf("The provider gives you the name %q, which stands in the audit log for another actor. You are not signed in.", text),
			Next:     "Ask an admin to have pages.oidc.name_claim name another claim, such as email, or to change your name there.",
			Path:     "/signin",
		}
	}
	if verified, said := claims["email_verified"].(bool); err != nil || o.NameClaim == "email" && said && !verified {
		return User{}, problem{
			Status: http.StatusForbidden, Title: "The provider did not say who you are",
			Sentence: "Your account has no name there under which you can act here, or an e-mail address that was not confirmed. You are not signed in.",
			Next:     "Ask the administrator of the accounts there.", Path: "/signin",
		}
	}
	user := User{Name: name}
	values := textsOf(claimOf(claims, o.RoleClaim))
	for _, role := range Roles {
		if slices.ContainsFunc(o.Roles[role], func(v string) bool { return slices.Contains(values, v) }) {
			user.Role = role
		}
	}
	if user.Role == "" {
		return user, errors.Join(problem{
			Status: http.StatusForbidden, Title: "You may not use payersync",
			Sentence: "Your account at the provider gives no role here. You are not signed in.",
			Next:     "Ask the administrator of the accounts there to give you one.", Path: "/signin",
		}, errNoRole)
	}
	return user, nil
}

// claimOf returns a claim by its name, or by the names on the way to it.
func claimOf(claims map[string]any, name string) any {
	if value, there := claims[name]; there {
		return value
	}
	first, rest, deeper := strings.Cut(name, ".")
	within, _ := claims[first].(map[string]any)
	if !deeper || within == nil {
		return nil
	}
	return claimOf(within, rest)
}

// textsOf returns the texts of a claim, one or several.
func textsOf(claim any) (out []string) {
	switch value := claim.(type) {
	case string:
		return []string{value}
	case []any:
		for _, one := range value {
			if text, is := one.(string); is {
				out = append(out, text)
			}
		}
	}
	return out
}
