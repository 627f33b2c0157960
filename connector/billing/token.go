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

// bearer gives the access token of a request. stale is the token that the
// service has just refused, or "": the answer differs from it, or there is an
// error that says why not.
type bearer interface {
	token(ctx context.Context, stale string) (string, error)
}

// TokenOperation is what a request for an access token is for.
const TokenOperation = "get token"

// errRefused says that a token was refused and there is no other.
var errRefused = errors.New("the access token was refused")

// static is a token from the configuration, which cannot be renewed.
type static struct{ secret connector.Secret }

func (s static) token(_ context.Context, stale string) (string, error) {
	if stale == s.secret.Expose() {
		return "", errRefused
	}
	return s.secret.Expose(), nil
}

// granted is a token that a person's consent gave; its source renews it.
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

// fetch does not wait longer than its caller for a token that another process is
// renewing, where the source can tell the two apart.
func (g granted) fetch(ctx context.Context) (*oauth2.Token, error) {
	if patient, ok := g.source.(interface {
		TokenContext(ctx context.Context) (*oauth2.Token, error)
	}); ok {
		return patient.TokenContext(ctx)
	}
	return g.source.Token()
}

// clientCredentials fetches tokens of the client credentials flow, one fetch at a
// time however many callers wait (fault F22).
//
// expires_in is believed, whatever the text around it says (fault F21): a token
// is renewed a minute, or a quarter of a short life, before its end; one without
// any life left serves the callers that waited for it; one without a stated life
// serves until it is refused.
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
	usable := fetchedMeanwhile || c.ends.IsZero() || c.now().Before(c.ends)
	if c.live != "" && c.live != stale && usable {
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
	got, err := c.config.Token(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: seen, CheckRedirect: c.http.CheckRedirect}))
	if err != nil {
		return "", seen.explain(err)
	}
	c.live, c.ends = got.AccessToken, c.renewal(got)
	c.made.Add(1)
	return c.live, nil
}

// witness remembers what a token endpoint answered, of which the library says nothing where
// it cannot be read.
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

// explain says what was received where err does not tell.
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

// renewal returns when a token should be replaced; the zero time for a life
// that was not stated.
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
