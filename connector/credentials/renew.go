package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/transport"
	"payersync/state"
)

// After a passing failure, a renewal is tried again after a pause that doubles from minCoolDown to
// maxCoolDown, for all processes alike.
const (
	minCoolDown = 15 * time.Second
	maxCoolDown = 15 * time.Minute
)

// renew exchanges the refresh token of t and keeps what came before anybody uses
// it. Its caller holds the lease. A renewal under way is not given up with the
// caller: its answer would be lost.
func (s *Source) renew(ctx context.Context, t state.Token) (state.Token, error) {
	ctx = context.WithoutCancel(ctx)
	asking, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	got, err := s.exchange(asking, t.Refresh)
	if isInvalidGrant(err) {
		if newer, again := s.stored(ctx); again != nil || newer.Generation != t.Generation {
			return newer, again
		}
		got, err = s.exchange(asking, s.lastResort(t))
	}
	switch {
	case isInvalidGrant(err):
		return t, s.broken(ctx, t)
	case err != nil:
		return s.coolDown(ctx, t, err)
	}
	return s.save(ctx, s.next(t, got))
}

func (s *Source) exchange(ctx context.Context, refresh connector.Secret) (*oauth2.Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, s.provider.HTTP)
	return s.provider.OAuth.TokenSource(ctx, &oauth2.Token{RefreshToken: refresh.Expose()}).Token()
}

// lastResort is the last try after a refusal: the refresh token before, while the server's grace for it
// lasts, else the same once more.
func (s *Source) lastResort(t state.Token) connector.Secret {
	if !t.Previous.IsZero() && s.ledger.Now().Before(t.RefreshedAt.Add(s.provider.Grace)) {
		return t.Previous
	}
	return t.Refresh
}

// next returns the token set after t, from the server's answer.
func (s *Source) next(t state.Token, got *oauth2.Token) state.Token {
	n := s.provider.tokenSet(t.Connection, got, s.ledger.Now())
	n.Generation, n.Tenant, n.TenantName = t.Generation, t.Tenant, t.TenantName
	n.Previous = t.Refresh
	if n.Refresh.IsZero() || n.Refresh == t.Refresh {
		n.Refresh, n.Previous = t.Refresh, t.Previous
	}
	return n
}

// tokenSet reads a server's answer of the time now.
func (p Provider) tokenSet(connection string, got *oauth2.Token, now time.Time) state.Token {
	t := state.Token{
		Connection: connection, Access: connector.NewSecret(got.AccessToken), Refresh: connector.NewSecret(got.RefreshToken),
		RefreshedAt: now,
	}
	if life, stated := seconds(got, "expires_in"); stated {
		t.ExpiresAt = now.Add(life)
	}
	if p.IdleLife > 0 {
		t.ReconnectBy = now.Add(p.IdleLife)
	}
	for _, key := range []string{"x_refresh_token_expires_in", "refresh_token_expires_in", "refresh_expires_in"} {
		if life, stated := seconds(got, key); stated && life > 0 {
			t.ReconnectBy = now.Add(life)
		}
	}
	return t
}

// seconds reads a length of time as it came: the library's own reading of
// expires_in cannot tell 0 from missing.
func seconds(got *oauth2.Token, key string) (life time.Duration, stated bool) {
	const most = 20 * 365 * 24 * time.Hour
	var n float64
	switch v := got.Extra(key).(type) {
	case float64:
		n = v
	case string:
		var err error
		if n, err = strconv.ParseFloat(v, 64); err != nil {
			return 0, false
		}
	case json.Number:
		var err error
		if n, err = v.Float64(); err != nil {
			return 0, false
		}
	case int64:
		n = float64(v)
	default:
		return 0, false
	}
	return time.Duration(min(max(n, 0), most.Seconds())) * time.Second, true
}

// save makes a token set durable before it is used. When the ledger cannot take
// it, it is kept in memory and saved before anything else: the refresh token it
// replaced is used up (fault F25).
func (s *Source) save(ctx context.Context, next state.Token) (state.Token, error) {
	err := s.ledger.Do(ctx, func(tx *state.Tx) error { return tx.RenewToken(next) })
	switch {
	case errors.Is(err, state.ErrTokenMoved):
		return s.stored(ctx)
	case err != nil:
		s.unsaved = &next
		return next, fmt.Errorf("the renewed token of %s could not be stored and is kept in memory only; "+
			"do not stop payersync before the ledger can be written to again: %w", s.connection, err)
	}
	s.unsaved = nil
	next.Generation++
	return next, nil
}

func (s *Source) saveUnsaved(ctx context.Context) error {
	if s.unsaved == nil {
		return nil
	}
	next := *s.unsaved
	s.unsaved = nil // save sets it again on failure
	_, err := s.save(ctx, next)
	return err
}

// broken stores that a person must connect again. No process asks the server after that (fault F24).
func (s *Source) broken(ctx context.Context, t state.Token) error {
	const why = "the consent was withdrawn, has lapsed, or its token was used by another program"
	if err := s.ledger.Do(ctx,
		func(tx *state.Tx) error { return tx.BreakToken(s.connection, t.Generation, why) }); err != nil {
		return errors.Join(&ReconnectError{s.connection, why}, err)
	}
	return &ReconnectError{s.connection, why}
}

// coolDown stores a passing failure: a token endpoint in trouble says nothing about the consent (fault F26).
func (s *Source) coolDown(ctx context.Context, t state.Token, cause error) (state.Token, error) {
	now := s.ledger.Now()
	fault := faultOf(cause)
	fault.RetryAt = now.Add(min(maxCoolDown, minCoolDown<<min(t.Failures, 10)))
	var answer *oauth2.RetrieveError
	if errors.As(cause, &answer) {
		if at := transport.RetryAfter(answer.Response, now); at.After(fault.RetryAt) {
			fault.RetryAt = at
		}
	}
	s.failed = fault
	if err := s.ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.DelayToken(s.connection, t.Generation, fault.RetryAt)
	}); err != nil {
		return t, errors.Join(fault, err)
	}
	return s.makeDo(t, fault)
}

// faultOf classifies the token endpoint's answer, without its text, which may hold what we sent.
func faultOf(err error) *connector.RemoteError {
	out := &connector.RemoteError{Op: "renew the access token", Fault: connector.FaultUnavailable,
		Detail: "the token endpoint gave no usable answer"}
	var answer *oauth2.RetrieveError
	var noAnswer *transport.Error
	switch {
	case errors.As(err, &answer):
		out.Status = answer.Response.StatusCode
		out.Fault, out.Detail = sortAnswer(answer)
	case errors.As(err, &noAnswer):
		out.Err = noAnswer
	}
	return out
}

func sortAnswer(answer *oauth2.RetrieveError) (connector.Fault, string) {
	code := connector.TokenErrorCode(answer.ErrorCode, answer.Body)
	switch {
	case answer.Response.StatusCode == http.StatusTooManyRequests:
		return connector.FaultThrottled, "the token endpoint was asked too often"
	case code == "invalid_client", code == "unauthorized_client":
		return connector.FaultUnauthorized,
			"the token endpoint refused the application itself; check client_id and client_secret"
	}
	return connector.FaultUnavailable, "the token endpoint gave no usable answer"
}

// isInvalidGrant reports whether the server refused the refresh token itself. No other answer says anything
// about the consent (fault F26).
func isInvalidGrant(err error) bool {
	var answer *oauth2.RetrieveError
	return errors.As(err, &answer) && connector.TokenErrorCode(answer.ErrorCode, answer.Body) == "invalid_grant" &&
		answer.Response.StatusCode < http.StatusInternalServerError
}
