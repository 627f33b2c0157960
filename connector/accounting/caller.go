package accounting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
)

// Caller sends reads to a system with one person's consent, within the budget of its organisation.
type Caller struct {
	System string // its name, for people
	// the transport; it repeats what may be repeated and reads the answer whole
	Send func(*http.Request) (*http.Response, error)
	// its methods Refused(access string) and TokenContext, where it has them, are used too
	Token   oauth2.TokenSource
	Limiter Limiter

	// Authorize puts the access token into a request; nil for Authorization: Bearer.
	Authorize func(req *http.Request, access string)
}

// Answer is a system's answer, read completely.
type Answer struct {
	Status int // HTTP status
	Header http.Header
	Body   []byte
}

// Date returns the time by the system's clock, in whole seconds; zero when it
// did not say.
func (a Answer) Date() time.Time {
	date, err := http.ParseTime(a.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return date
}

// Do sends a repeatable request, once more with another access token after a 401 (fault F21), and returns the
// answer with any status. op names the operation for errors. Without an answer the error is a *Parked when
// there is no turn, a *Disconnected when there is no token, or else a *connector.RemoteError or the token
// source's error.
func (c Caller) Do(ctx context.Context, op string, req *http.Request) (Answer, error) {
	token, err := c.token(ctx, op, "")
	if err != nil {
		return Answer{}, err
	}
	answer, err := c.send(ctx, op, req, token)
	if err != nil || answer.Status != http.StatusUnauthorized {
		return answer, err
	}
	another, err := c.token(ctx, op, token)
	var none *Disconnected
	if errors.As(err, &none) {
		return answer, nil // the refusal itself tells more
	}
	if err != nil {
		return Answer{}, err
	}
	return c.send(ctx, op, req, another)
}

// Probe tries whether there is an access token.
func (c Caller) Probe(ctx context.Context) Probe {
	if _, err := c.token(ctx, "try the credentials", ""); err != nil {
		return Probe{"credentials", false, err.Error()}
	}
	return Probe{"credentials", true, "there is an access token"}
}

// token returns an access token other than the refused one.
func (c Caller) token(ctx context.Context, op, refused string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("%s: %w", op, err)
	}
	if told, ok := c.Token.(interface{ Refused(access string) }); ok && refused != "" {
		told.Refused(refused)
	}
	got, err := c.fetch(ctx)
	switch {
	case err != nil:
		return "", c.tokenError(op, err)
	case got.AccessToken == refused:
		return "", &Disconnected{Reason: c.System + " refuses the access token"}
	}
	return got.AccessToken, nil
}

// fetch waits no longer than its caller while another process renews the token, if the token source supports
// that.
func (c Caller) fetch(ctx context.Context) (*oauth2.Token, error) {
	if patient, ok := c.Token.(interface {
		TokenContext(ctx context.Context) (*oauth2.Token, error)
	}); ok {
		return patient.TokenContext(ctx)
	}
	return c.Token.Token()
}

// tokenError says why there is no token. It never shows the token endpoint's text: that may quote the
// request.
func (c Caller) tokenError(op string, err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) {
		return fmt.Errorf("%s: %w", op, err)
	}
	code := connector.TokenErrorCode(answer.ErrorCode, answer.Body)
	switch code {
	case "invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope":
		return &Disconnected{Reason: c.System + " gives no access token (" + code + ")"}
	}
	return &connector.RemoteError{Op: op, Fault: connector.FaultUnavailable, Detail: c.System + " gave no access token"}
}

// send takes a turn of the budget and sends the request.
func (c Caller) send(ctx context.Context, op string, req *http.Request, token string) (Answer, error) {
	release, err := c.Limiter.Acquire(ctx)
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", op, err)
	}
	defer release()
	out := req.Clone(connector.WithOperation(ctx, op)) // the transport takes over what it is given
	if c.Authorize != nil {
		c.Authorize(out, token)
	} else {
		out.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Send(out)
	if err != nil {
		return Answer{}, &connector.RemoteError{Op: op, Fault: connector.FaultUnavailable, Detail: c.System +
			" gave no answer", Err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, &connector.RemoteError{Op: op, Fault: connector.FaultUnavailable, Detail: c.System +
			"'s answer broke off", Err: err}
	}
	return Answer{resp.StatusCode, resp.Header, body}, nil
}
