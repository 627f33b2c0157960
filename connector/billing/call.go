package billing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/transport"
)

// request is one call of the service.
type request struct {
	op         string // the operation, for people
	method     string
	path       string // below the base address, with ids escaped
	query      url.Values
	body       []byte // sent as it is; nil for none
	by         bearer
	repeat     transport.Repeat
	reads      bool // it changes nothing, whatever its outcome
	mayBeEmpty bool // a 2xx without a body is an answer
	ofNobody   bool // it is about no record, so the reason of a refusal may be shown
}

// read prepares a call without side effects.
func (c *Client) read(op, path string, query url.Values) request {
	return request{op: op, method: http.MethodGet, path: path, query: query, by: c.api, repeat: transport.Always,
		reads: true}
}

// write prepares a call with possible side effects. It is not sent again once it may have arrived.
func (c *Client) write(op, method, path string, body []byte) request {
	return request{op: op, method: method, path: path, body: body, by: c.api, repeat: transport.IfNoEffect}
}

// send makes the call and returns the body of a 2xx, checked by checkJSON unless empty. It renews a refused token once
// and sends the same bytes with the new one, unless the call must never be repeated.
func (c *Client) send(ctx context.Context, r request) ([]byte, error) {
	token, err := r.by.token(ctx, "")
	if err != nil {
		return nil, noToken{c.tokenError(r, err)}
	}
	resp, err := c.sendWith(ctx, r, token)
	if failed := (*transport.Error)(nil); errors.As(err, &failed) && !failed.Tried {
		err = errors.Join(connector.ErrNeverTried, err)
	}
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		if token, err = r.by.token(ctx, token); err != nil {
			return nil, noToken{c.tokenError(r, err)}
		}
		if r.repeat == transport.Never {
			return nil, &connector.RemoteError{
				Op: r.op, Fault: connector.FaultUnauthorized, Status: http.StatusUnauthorized,
				Detail: "the access token was refused, and nothing was changed; try again", Err: connector.ErrTokenRenewed,
			}
		}
		resp, err = c.sendWith(ctx, r, token)
	}
	if err != nil {
		return nil, noAnswer(r, err)
	}
	return c.judge(r, resp)
}

func (c *Client) sendWith(ctx context.Context, r request, token string) (*http.Response, error) {
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(connector.WithOperation(ctx, r.op), r.method, address, body)
	if err != nil {
		return nil, &transport.Error{Reason: transport.ReasonURL, Err: errors.New("the address cannot be built")}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.http.Do(req, r.repeat)
}

// judge turns an answer into its body or into an error with its meaning.
func (c *Client) judge(r request, resp *http.Response) ([]byte, error) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, noAnswer(r, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, c.refusal(r, resp, body)
	}
	if len(bytes.TrimSpace(body)) == 0 && r.mayBeEmpty {
		return nil, nil
	}
	if err := checkBody(resp.Header, body); err != nil {
		if what := received(resp.Header, body); what != "" {
			err = fmt.Errorf("%w: %s", err, what)
		}
		return nil, unreadable(r, resp.StatusCode, err)
	}
	return body, nil
}

var errNotJSONType = errors.New("its content type is not JSON")

func checkBody(header http.Header, body []byte) error {
	if kind := header.Get("Content-Type"); kind != "" && !connector.IsJSON(kind) {
		return errNotJSONType
	}
	return checkJSON(body)
}

// unreadable is the error for an unusable 2xx: a write may have taken effect.
func unreadable(r request, status int, err error) error {
	return &connector.RemoteError{
		Op: r.op, Fault: r.open(), Status: status, Detail: "the answer is not what the interface promises", Err: err,
	}
}

// open is the fault of a call with an unknown effect.
func (r request) open() connector.Fault {
	if r.reads {
		return connector.FaultUnavailable
	}
	return connector.FaultUnknown
}

// noAnswer is a call without an answer.
func noAnswer(r request, err error) error {
	out := &connector.RemoteError{Op: r.op, Fault: r.open(), Detail: "no usable answer came", Err: err}
	var failed *transport.Error
	if errors.As(err, &failed) {
		out.RetryAt = failed.RetryAt
		if !failed.Sent {
			out.Fault, out.Detail = connector.FaultUnavailable, "nothing was sent"
		}
	}
	return out
}

// refusal is any answer but a 2xx.
func (c *Client) refusal(r request, resp *http.Response, body []byte) error {
	out := &connector.RemoteError{Op: r.op, Fault: r.faultOf(resp.StatusCode), Status: resp.StatusCode}
	out.Detail = details[out.Fault]
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		out.Detail = "the service redirects elsewhere, which is never followed; check billing.base_url"
	}
	if code := codeOf(resp.Header, body); code != "" {
		out.Detail += ", code " + code
	}
	out.Detail = explained(out.Detail, r.ofNobody, resp.Header, body, c.secrets...)
	if c.ofWebhooks(r) && (out.Fault == connector.FaultUnauthorized || resp.StatusCode == http.StatusBadRequest) {
		out.Detail += "; " + c.webhookTokens(sentOwnToken)
	} else if out.Fault == connector.FaultUnauthorized {
		out.Detail += fmt.Sprintf("; %s, and billing.dialect.api_auth (%s) with whose token it documents for customers and mandates", c.checkOwn(), c.dialect.APIAuth)
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		out.RetryAt = transport.RetryAfter(resp, c.now())
	}
	return out
}

// checkOwn checks the source of the credentials for customers and mandates.
func (c *Client) checkOwn() string {
	switch c.dialect.APIAuth {
	case "authorization_code":
		return "it is a person's consent that was shown: compare its rights, or give it again"
	case "static":
		return "compare billing.api_token with what the provider gave"
	}
	return "compare billing.client_id and billing.client_secret with what the provider gave"
}

var details = map[connector.Fault]string{
	connector.FaultRejected:     "the service refused the request for what it says",
	connector.FaultNotFound:     "the service has no such object",
	connector.FaultUnauthorized: "the service refused our credentials",
	connector.FaultThrottled:    "the service asks for fewer requests",
	connector.FaultUnavailable:  "the service did not do it",
	connector.FaultUnknown:      "the service failed after it had received the request, so it may have happened",
}

// faultOf returns the fault of a status other than 2xx. 307 and 308 prove the request had no effect; older redirects
// may follow an executed request.
func (r request) faultOf(status int) connector.Fault {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return connector.FaultUnauthorized
	case http.StatusNotFound:
		return connector.FaultNotFound
	case http.StatusTooManyRequests:
		return connector.FaultThrottled
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusTooEarly, http.StatusNotImplemented:
		return connector.FaultUnavailable
	case http.StatusRequestTimeout:
		return r.open()
	}
	if status >= 400 && status < 500 {
		return connector.FaultRejected
	}
	return r.open()
}

var codeShape = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{1,39}$`)

// errorMembers returns the members of an error body, those below error first; none of what is
// no object.
func errorMembers(header http.Header, body []byte) object {
	if checkBody(header, body) != nil {
		return nil
	}
	o, _ := parseObject(body)
	nested, _ := parseObject(o.get("error"))
	return append(nested, o...)
}

// codeOf returns the error code in a body, if it is clearly a code. It ignores free text, because this may quote the
// record.
func codeOf(header http.Header, body []byte) string {
	o := errorMembers(header, body)
	for _, key := range []string{"code", "errorCode", "error_code", "error", "type"} {
		if code := scalar(o.get(key)); codeShape.MatchString(code) {
			return code
		}
	}
	return ""
}

// noToken is a call not made for lack of a token. Its status comes from the token endpoint and gives no evidence about
// the spelling of the call.
type noToken struct{ error }

// Unwrap returns the error of the token.
func (e noToken) Unwrap() error { return e.error }

// tokenError is the error of a call not made for lack of a token. It quotes no text from the token endpoint able to
// contain the credentials.
func (c *Client) tokenError(r request, err error) error {
	out := &connector.RemoteError{Op: r.op, Fault: connector.FaultUnavailable, Detail: "no access token could be had"}
	var refused *oauth2.RetrieveError
	var unusable *noTokenError
	var failed *transport.Error
	var remote *connector.RemoteError
	switch {
	case errors.As(err, &refused):
		c.judgeRefusedToken(r, out, refused)
	case errors.As(err, &unusable):
		out.Status, out.Detail = unusable.status,
			fmt.Sprintf("the token endpoint answered with %s and no token; check billing.base_url and auth_url", unusable.what)
	case errors.As(err, &remote):
		out.Fault, out.RetryAt, out.Err = remote.Fault, remote.RetryAt, err
	case errors.As(err, &failed):
		out.RetryAt, out.Err = failed.RetryAt, failed
	case errors.Is(err, errNoCredentials) && c.ofWebhooks(r):
		out.Fault, out.Detail, out.Err = connector.FaultUnauthorized, "nothing was sent; "+c.webhookTokens(sentNothing), err
	case errors.Is(err, errRefused) || errors.Is(err, errNoCredentials):
		out.Fault, out.Detail, out.Err = connector.FaultUnauthorized, details[connector.FaultUnauthorized]+"; "+c.checkOwn(),
			err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		out.Err = err
	}
	if out.Fault == connector.FaultUnknown {
		out.Fault = connector.FaultUnavailable // the call was not made, whatever the token's outcome
	}
	return out
}

// definiteTokenErrors are the token endpoint's codes for invalid credentials (fault F26).
var definiteTokenErrors = []string{"invalid_client", "invalid_grant", "unauthorized_client", "access_denied"}

func (c *Client) judgeRefusedToken(r request, out *connector.RemoteError, refused *oauth2.RetrieveError) {
	out.Status = refused.Response.StatusCode
	transient := request{reads: true}.faultOf(out.Status)
	switch {
	case slices.Contains(definiteTokenErrors, refused.ErrorCode):
		out.Fault, out.Detail = connector.FaultUnauthorized,
			"the token endpoint refused our credentials, code "+refused.ErrorCode
	case transient == connector.FaultThrottled:
		out.Fault, out.RetryAt = transient, transport.RetryAfter(refused.Response, c.now())
	case out.Status >= 400 && transient != connector.FaultUnavailable:
		out.Fault, out.Detail = connector.FaultUnauthorized, "the token endpoint refused our request; check billing.auth_url"
	}
	out.Detail = explained(out.Detail, true, refused.Response.Header, refused.Body, c.secrets...)
	_, own := r.by.(*clientCredentials)
	missing := out.Status == http.StatusNotFound || out.Status == http.StatusMethodNotAllowed
	if own && !missing && out.Fault == connector.FaultUnauthorized {
		out.Detail += "; compare billing.client_id and billing.client_secret with what the provider gave"
		if refused.ErrorCode == "" || refused.ErrorCode == "invalid_client" {
			out.Detail += fmt.Sprintf("; where they are right, compare billing.dialect.token_auth (%s)", c.dialect.TokenAuth)
		}
	}
	if out.Fault == connector.FaultUnauthorized && c.ofWebhooks(r) {
		out.Detail += "; " + c.webhookTokens(sentNoToken)
	}
}
