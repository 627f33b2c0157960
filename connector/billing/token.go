package billing

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"payersync/connector"
	"payersync/connector/transport"
)

// bearer returns the access token for a request. stale is the token just refused by the service, or "". The result
// differs from it, or there is an error with the reason.
type bearer interface {
	token(ctx context.Context, stale string) (string, error)
}

// TokenOperation is the operation of a request for an access token.
const TokenOperation = "get token"

// errRefused means a token was refused and there is no other.
var errRefused = errors.New("the access token was refused")

// static is a token from the configuration. It cannot be renewed.
type static struct{ secret connector.Secret }

func (s static) token(_ context.Context, stale string) (string, error) {
	if stale == s.secret.Expose() {
		return "", errRefused
	}
	return s.secret.Expose(), nil
}

// granted is a token from a person's consent; its source renews it.
type granted struct{ source oauth2.TokenSource }

func (g granted) token(ctx context.Context, stale string) (string, error) {
	if told, ok := g.source.(interface{ Refused(access string) }); ok && stale != "" {
		told.Refused(stale)
	}
	got, err := g.fetch(ctx)
	switch {
	case err != nil:
		return "", err
	case got.AccessToken == "" || got.AccessToken == stale:
		return "", errRefused
	}
	return got.AccessToken, nil
}

// fetch waits no longer than its caller for a token being renewed by another process, if the source supports this.
func (g granted) fetch(ctx context.Context) (*oauth2.Token, error) {
	if patient, ok := g.source.(interface {
		TokenContext(ctx context.Context) (*oauth2.Token, error)
	}); ok {
		return patient.TokenContext(ctx)
	}
	return g.source.Token()
}

// clientCredentials fetches tokens of the client credentials flow, one fetch at a time for all waiting callers (fault
// F22).
//
// It trusts expires_in despite other text (fault F21): a token is renewed a minute, or a quarter of a short life,
// before its end. A token without any life left serves the waiting callers. A token without a stated life serves until
// refused.
type clientCredentials struct {
	config clientcredentials.Config
	http   *http.Client
	now    func() time.Time

	made atomic.Int64  // tokens fetched so far
	turn chan struct{} // holds one value; taking it gives the right to the fields below
	live string
	ends time.Time // when to renew; zero for when it is refused
}

const earlyRenewal = time.Minute

func newClientCredentials(cfg Config, tokenURL string) *clientCredentials {
	style := oauth2.AuthStyleInParams
	if cfg.Dialect.TokenAuth == "basic" {
		style = oauth2.AuthStyleInHeader
	}
	out := &clientCredentials{
		config: clientcredentials.Config{
			ClientID: cfg.ClientID, ClientSecret: cfg.ClientSecret.Expose(), TokenURL: tokenURL, AuthStyle: style,
		},
		http: cfg.HTTP.HTTPClient(transport.Always), // a token too many does no harm
		now:  cfg.Now,
		turn: make(chan struct{}, 1),
	}
	out.turn <- struct{}{}
	return out
}

func (c *clientCredentials) token(ctx context.Context, stale string) (string, error) {
	made := c.made.Load()
	select {
	case <-c.turn:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { c.turn <- struct{}{} }()
	fetchedMeanwhile := c.made.Load() != made
	if usable := fetchedMeanwhile || c.ends.IsZero() || c.now().Before(c.ends); c.live != "" && c.live != stale && usable {
		return c.live, nil
	}
	return c.fetch(ctx)
}

func (c *clientCredentials) fetch(ctx context.Context) (string, error) {
	if c.config.ClientID == "" || c.config.ClientSecret == "" {
		return "", errNoCredentials
	}
	seen := &witness{next: c.http.Transport}
	ctx = connector.WithOperation(ctx, TokenOperation)
	got, err := c.config.Token(context.WithValue(ctx, oauth2.HTTPClient,
		&http.Client{Transport: seen, CheckRedirect: c.http.CheckRedirect}))
	if err != nil {
		return "", seen.explain(err)
	}
	c.live, c.ends = got.AccessToken, c.renewal(got)
	c.made.Add(1)
	return c.live, nil
}

// witness remembers a token endpoint's answer, because the library hides unreadable ones.
type witness struct {
	next   http.RoundTripper
	status int
	what   string
}

// RoundTrip passes a request on.
func (w *witness) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	w.status, w.what = resp.StatusCode, cmp.Or(received(resp.Header, body), fmt.Sprintf("%d bytes", len(body)))
	return resp, nil
}

// explain adds the answer received if err does not describe it.
func (w *witness) explain(err error) error {
	if isA[*oauth2.RetrieveError](err) || w.status == 0 {
		return err
	}
	return &noTokenError{w.status, w.what, err}
}

// noTokenError is an answer of a token endpoint without a token in it.
type noTokenError struct {
	status int
	what   string // its type and size
	err    error
}

func (e *noTokenError) Error() string { return "the token endpoint answered with " + e.what }

func (e *noTokenError) Unwrap() error { return e.err }

func isA[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

var errNoCredentials = errors.New("client_id or client_secret is missing")

// renewal returns the time to replace a token; the zero time for an unstated life.
func (c *clientCredentials) renewal(got *oauth2.Token) time.Time {
	seconds, stated := lifeOf(got)
	if !stated {
		return time.Time{}
	}
	life := time.Duration(seconds) * time.Second
	return c.now().Add(life - min(earlyRenewal, max(life, 0)/4))
}

// lifeOf reads expires_in as it came: the library's own reading cannot tell 0
// from missing.
func lifeOf(got *oauth2.Token) (seconds int64, stated bool) {
	switch v := got.Extra("expires_in").(type) {
	case float64:
		return int64(max(min(v, 1<<31), -1<<31)), true
	case string:
		n, err := strconv.ParseInt(v, 10, 32)
		return n, err == nil
	case json.Number:
		n, err := v.Int64()
		return n, err == nil
	case int64:
		return v, true
	}
	return 0, false
}
