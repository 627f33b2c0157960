package credentials

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/state"
)

const (
	earlyRenewal = time.Minute            // how long before its end a token is renewed, or a quarter of a short life
	renewWithin  = 60 * time.Second       // one renewal; less than state.TokenLease
	waitForOther = 100 * time.Millisecond // between checks of a token being renewed elsewhere
	longestWait  = 25 * time.Hour         // more than any obeyed Retry-After
)

// Provider is an authorisation server with our application at it.
type Provider struct {
	OAuth  oauth2.Config     // its addresses, our client and the scopes; the redirect address belongs to each consent
	Params map[string]string // further parameters of its authorisation address
	HTTP   *http.Client      // how it is spoken to

	Grace    time.Duration // how long a refresh token still works after it was replaced; 0 for not at all
	IdleLife time.Duration // how long an unused refresh token works; 0 if unknown
}

// settled chooses the client's way of authentication if the configuration does not. To detect it by trying,
// like the library, would use a refresh token twice.
func (p Provider) settled() Provider {
	if p.OAuth.Endpoint.AuthStyle == oauth2.AuthStyleAutoDetect {
		p.OAuth.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	return p
}

// Source gives the access tokens of one consent and renews them when needed. It
// is an oauth2.TokenSource, safe for concurrent use; two Sources of one consent,
// in one process or in several, never renew the same generation.
type Source struct {
	connection string
	provider   Provider
	ledger     *state.Ledger
	holder     string                 // names this Source to other holders of the lease
	refused    atomic.Pointer[string] // the access token last refused by the remote system

	turn    chan struct{}          // holds one value; taking it gives the right to the fields below
	unsaved *state.Token           // renewed, but the ledger could not take it yet (fault F25)
	failed  *connector.RemoteError // why the last try of this Source failed; nil before
}

// New returns the token source of a connection's consent.
func New(ledger *state.Ledger, connection string, provider Provider) *Source {
	s := &Source{connection: connection, provider: provider.settled(), ledger: ledger, holder: rand.Text(),
		turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// Token returns a valid token. The error is a *ReconnectError when only a person can help, else a
// *connector.RemoteError, or the ledger's.
func (s *Source) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), state.TokenLease+renewWithin)
	defer cancel()
	return s.TokenContext(ctx)
}

// TokenContext is Token with a context to cancel it.
func (s *Source) TokenContext(ctx context.Context) (*oauth2.Token, error) {
	t, err := s.fresh(ctx, s.usable)
	if err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: t.Access.Expose(), TokenType: "Bearer", Expiry: t.ExpiresAt}, nil
}

// Refused reports that the remote system refused an access token early: the next Token is another one, or an
// error with the reason (fault F21).
func (s *Source) Refused(access string) { s.refused.Store(&access) }

// KeepAlive renews the tokens when they are older than maxAge, so a refresh token does not lapse without
// reads (fault F29). It fails after a failed renewal, even if the access token still works.
func (s *Source) KeepAlive(ctx context.Context, maxAge time.Duration) error {
	young := func(t state.Token) bool { return s.ledger.Now().Sub(t.RefreshedAt).Abs() < maxAge }
	t, err := s.fresh(ctx, young)
	if err == nil && !young(t) {
		return connector.Advise(fmt.Errorf("the consent of %s could not be renewed, though its access token still serves. A check shows the reason", s.connection), connector.Step{Do: connector.DoCheck})
	}
	return err
}

// fresh returns a valid token set, renewed by the first caller to get the lease. A new one serves all waiting
// callers, however short its life.
func (s *Source) fresh(ctx context.Context, good func(state.Token) bool) (state.Token, error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return state.Token{}, ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	if err := s.saveUnsaved(ctx); err != nil {
		return state.Token{}, err
	}
	t, err := s.stored(ctx)
	for began := t.Generation; err == nil && t.Generation == began && !good(t); t, err = s.stored(ctx) {
		if s.coolsDown(t) {
			return s.makeDo(t, s.waiting(t.RetryAt))
		}
		mine, err := s.lease(ctx, t)
		if err != nil {
			return t, err
		}
		if mine {
			return s.renew(ctx, t)
		}
		if t, err := s.makeDo(t, errOther); err == nil {
			return t, nil
		}
		if err := pause(ctx, waitForOther); err != nil {
			return t, err
		}
	}
	return t, err
}

// stored returns the newest token set; a *ReconnectError when none can become valid.
func (s *Source) stored(ctx context.Context) (state.Token, error) {
	t, err := s.ledger.Token(ctx, s.connection)
	switch {
	case errors.Is(err, state.ErrNoToken):
		return t, &ReconnectError{s.connection, "nobody has given consent yet"}
	case err == nil && t.Broken != "":
		return t, &ReconnectError{s.connection, t.Broken}
	}
	return t, err
}

func (s *Source) lease(ctx context.Context, t state.Token) (mine bool, err error) {
	err = s.ledger.Do(ctx, func(tx *state.Tx) (err error) {
		mine, err = tx.LeaseToken(s.connection, t.Generation, s.holder)
		return err
	})
	return mine, err
}

var errOther = errors.New("another process is renewing the token")

// makeDo returns t while it still works, though it is about to end, and
// otherwise why there is no newer one.
func (s *Source) makeDo(t state.Token, why error) (state.Token, error) {
	if s.wasRefused(t) || !t.ExpiresAt.IsZero() && !s.ledger.Now().Before(t.ExpiresAt) {
		return t, why
	}
	return t, nil
}

// coolsDown reports whether the next try to renew is not due. A time beyond the longest pause comes from a
// clock that was set back since.
func (s *Source) coolsDown(t state.Token) bool {
	wait := t.RetryAt.Sub(s.ledger.Now())
	return 0 < wait && wait <= longestWait
}

// waiting returns the error before the next try is due. Only the process of the failed try knows the cause.
func (s *Source) waiting(until time.Time) error {
	if s.failed != nil && s.failed.RetryAt.Equal(until) {
		return s.failed
	}
	return &connector.RemoteError{
		Op: "renew the access token", Fault: connector.FaultUnavailable, RetryAt: until,
		Detail: "the last try failed, and the next is made at " + until.UTC().Format(time.RFC3339),
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// usable reports whether the access token will probably be accepted. expires_in is trusted over any document
// (fault F21): a token is renewed a minute, or a quarter of a short life, before its end. A token without a
// stated life serves until it is refused.
func (s *Source) usable(t state.Token) bool {
	if s.wasRefused(t) {
		return false
	}
	if t.ExpiresAt.IsZero() {
		return true
	}
	life := t.ExpiresAt.Sub(t.RefreshedAt)
	return s.ledger.Now().Before(t.ExpiresAt.Add(-min(earlyRenewal, max(life, 0)/4)))
}

func (s *Source) wasRefused(t state.Token) bool {
	refused := s.refused.Load()
	return refused != nil && *refused == t.Access.Expose()
}

// ReconnectError means a consent no longer works, and a person must give it anew. It is an unauthorized
// fault.
type ReconnectError struct{ Connection, Why string }

// Error says what could not be done, why, and what to do next.
func (e *ReconnectError) Error() string {
	return fmt.Sprintf("%s cannot be reached in your name: %s. Give the consent again", e.Connection, e.Why)
}

// Steps returns the step that gives the consent again.
func (e *ReconnectError) Steps() []connector.Step {
	return []connector.Step{{Do: connector.DoConnect, Connection: e.Connection}}
}

// Unwrap returns the fault for callers.
func (e *ReconnectError) Unwrap() error {
	return &connector.RemoteError{Op: "renew the access token", Fault: connector.FaultUnauthorized, Detail: e.Why}
}
