package credentials

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/state"
)

// ConsentLife is how long a person may take to give a consent (fault F30).
const ConsentLife = 10 * time.Minute

// Consent is one request for a person's consent: an address to open in a browser, and one redirect to expect.
// Its state and PKCE verifier bind the two together.
type Consent struct {
	provider Provider
	state    string
	verifier string
	ends     time.Time
	now      func() time.Time
	used     atomic.Bool
}

// Ask begins a consent with the given redirect address, as registered with the vendor, character by
// character.
func Ask(p Provider, redirect string, now func() time.Time) *Consent {
	p = p.settled()
	p.OAuth.RedirectURL = redirect
	return &Consent{provider: p, state: rand.Text(), verifier: oauth2.GenerateVerifier(), ends: now().Add(ConsentLife),
		now: now}
}

// URL returns the address for a person to give the consent.
func (c *Consent) URL() string {
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(c.verifier)}
	for key, value := range maps.All(c.provider.Params) {
		options = append(options, oauth2.SetAuthURLParam(key, value))
	}
	return c.provider.OAuth.AuthCodeURL(c.state, options...)
}

// RedirectError says why a redirect was not taken for the answer to a consent.
type RedirectError struct {
	Why   string
	Final bool // the consent is over; else it still waits for its own redirect
}

// Error says what could not be done, why, and what to do next.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("the consent was not taken in: %s. Give it once more", e.Why)
}

// Steps returns the step that gives the consent.
func (e *RedirectError) Steps() []connector.Step { return []connector.Step{{Do: connector.DoConnect}} }

// Accept checks the redirected address and returns its parameters. It is accepted once, within ConsentLife,
// at the exact redirect address, and only with the state of this consent. The error is a *RedirectError
// (fault F30).
func (c *Consent) Accept(redirected *url.URL) (url.Values, error) {
	query, err := url.ParseQuery(redirected.RawQuery)
	switch {
	case err != nil || twice(query):
		return nil, &RedirectError{Why: "the address it came to is malformed"}
	case !c.isOurs(redirected):
		return nil, &RedirectError{Why: "it came to another address than the one that was registered"}
	case subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(c.state)) != 1:
		return nil, &RedirectError{Why: "it answers another request than this one"}
	case !c.now().Before(c.ends):
		return nil, &RedirectError{Why: fmt.Sprintf("it came later than %s after it was asked for", ConsentLife), Final: true}
	case c.used.Swap(true):
		return nil, &RedirectError{Why: "it was used already", Final: true}
	case query.Has("error"):
		return nil, &RedirectError{Why: refusal(query.Get("error")), Final: true}
	case query.Get("code") == "":
		return nil, &RedirectError{Why: "it carries no code", Final: true}
	}
	return query, nil
}

// isOurs reports whether an address is the registered one, except for its query and the path "/" added by
// browsers.
func (c *Consent) isOurs(redirected *url.URL) bool {
	at := *redirected
	at.RawQuery, at.ForceQuery, at.Fragment, at.RawFragment = "", false, "", ""
	registered := c.provider.OAuth.RedirectURL
	return at.String() == registered || at.Path == "/" && strings.TrimSuffix(at.String(), "/") == registered
}

// twice reports whether an important parameter is given twice: one reader would use the first and another the
// last.
func twice(query url.Values) bool {
	return slices.ContainsFunc([]string{"state", "code", "error", "realmId"},
		func(key string) bool { return len(query[key]) > 1 })
}

// refusal explains an error code of the authorisation server. Codes are a few
// words known to everybody; anything else came from a stranger and is not shown.
func refusal(code string) string {
	switch code {
	case "access_denied":
		return "the person said no"
	case "invalid_scope":
		return "the application may not ask for these permissions; see its settings at the vendor"
	case "unauthorized_client", "invalid_client", "invalid_request":
		return "the vendor does not know the application as it is configured; see client_id and the redirect address"
	case "server_error", "temporarily_unavailable":
		return "the vendor's page is in trouble just now"
	}
	return "the vendor refused it for a reason it did not spell out"
}

// Grant is the result of a consent.
type Grant struct {
	Token *oauth2.Token
	Query url.Values // of the redirect: some vendors name the organisation there
	At    time.Time  // when
}

// Redeem exchanges the code of an accepted redirect for tokens, once.
func (c *Consent) Redeem(ctx context.Context, query url.Values) (Grant, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, c.provider.HTTP)
	got, err := c.provider.OAuth.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(c.verifier))
	if isInvalidGrant(err) {
		return Grant{}, &RedirectError{Why: "the vendor no longer accepts its code", Final: true}
	}
	if err != nil {
		fault := faultOf(err)
		fault.Op = "exchange the consent for a token"
		return Grant{}, fault
	}
	if got.RefreshToken == "" {
		return Grant{}, errors.New("the consent cannot be kept: the vendor gave no refresh token; see that the application may ask for offline access")
	}
	return Grant{got, query, c.now()}, nil
}

// Tenant is an organisation within a consent's reach.
type Tenant struct{ ID, Name string }

// Choose returns the organisation with the wanted id, or the only one there is
// when none is named. It refuses to guess between several (fault F28).
func Choose(reached []Tenant, wanted string) (Tenant, error) {
	var list []string
	for _, t := range reached {
		if wanted != "" && strings.EqualFold(t.ID, wanted) {
			return t, nil
		}
		list = append(list, fmt.Sprintf("%s (%s)", t.ID, t.Name))
	}
	switch {
	case len(reached) == 0:
		return Tenant{}, errors.New("the consent reaches no organisation; give it again and choose one on the vendor's page")
	case wanted != "":
		return Tenant{}, fmt.Errorf("the consent does not reach the organisation %q, but %s; name one of these, or give it again for the right one", wanted, strings.Join(list, ", "))
	case len(reached) > 1:
		return Tenant{}, fmt.Errorf("the consent reaches several organisations: %s; choose one with --tenant ID",
			strings.Join(list, ", "))
	}
	return reached[0], nil
}

// Keep stores a consent's result for a connection, pinned to its organisation, in place of any consent
// before. It fails with *state.ErrOtherEnvironment when the connection's records are another organisation's
// (fault F28).
func Keep(ctx context.Context, ledger *state.Ledger, to ConsentTarget, g Grant) (reconnectBy time.Time, err error) {
	t := to.Provider.tokenSet(to.Name, g.Token, g.At)
	t.Tenant, t.TenantName = to.Tenant.ID, to.Tenant.Name
	return t.ReconnectBy, ledger.Do(ctx, func(tx *state.Tx) error {
		if err := tx.ConnectToken(t); err != nil {
			return err
		}
		return tx.Audit(state.Entry{Actor: to.Actor, Action: "connect", Subject: to.Name,
			Reason: "consent for organisation " + t.Tenant})
	})
}

// ConsentTarget names the connection of a consent.
type ConsentTarget struct {
	Name     string
	Provider Provider
	Tenant   Tenant
	Actor    string // the person who gave it, for the audit log
}
