package tryton

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// loginPause is how long the server remembers wrong passwords, unless it was
// configured otherwise. It names no time itself.
const loginPause = 5 * time.Minute

// op is the operation of a failed call, for people.
const op = "read Tryton"

// client speaks JSON-RPC to one database.
type client struct {
	http     *transport.Client
	limiter  accounting.Limiter // nil for none
	now      func() time.Time
	root     string // address of the server
	path     string // address of the database
	database string
	user     string
	password connector.Secret

	mu      sync.Mutex
	session string   // what authorizes a call; "" before the first login
	refused error    // why the login was refused: it is not tried again
	wanted  []string // this server's columns, once known
}

// errSession means the server refused a call because of its session.
var errSession = errors.New("the session is gone")

// call calls a method of the database and decodes its result. It replaces a dropped session once.
func (c *client) call(ctx context.Context, method string, result any, params ...any) error {
	session, err := c.login(ctx, "")
	if err != nil {
		return err
	}
	err = c.request(ctx, session, method, result, params)
	if !errors.Is(err, errSession) {
		return err
	}
	if session, err = c.login(ctx, session); err != nil {
		return err
	}
	err = c.request(ctx, session, method, result, params)
	if errors.Is(err, errSession) {
		return &accounting.Disconnected{Reason: "it logs payersync in and then refuses the session", Err: err}
	}
	return err
}

func (c *client) request(ctx context.Context, session, method string, result any, params []any) error {
	got, err := c.post(ctx, request{url: c.path, session: session, method: method, params: params,
		repeat: transport.Always})
	if err != nil {
		return err
	}
	switch got.status {
	case http.StatusOK:
		return c.decode(got.body, result)
	case http.StatusUnauthorized:
		return errSession
	case http.StatusForbidden:
		return &accounting.Disconnected{Reason: "its user may not use " + method}
	}
	return c.refusedCall(got)
}

// login returns the session to use: a new one when there is none yet, or when the
// one at hand is stale.
func (c *client) login(ctx context.Context, stale string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused != nil {
		return "", c.refused
	}
	if c.session != stale {
		return c.session, nil
	}
	got, err := c.post(ctx, request{url: c.path, method: "common.db.login", repeat: transport.Never,
		params: []any{c.user, map[string]string{"password": c.password.Expose()}}})
	if err != nil {
		return "", err
	}
	if got.status != http.StatusOK {
		return "", c.loginRefused(ctx, got)
	}
	var pair []json.RawMessage // user id, session
	var key string
	if err := c.decode(got.body, &pair); err != nil {
		return "", err
	}
	if len(pair) != 2 || json.Unmarshal(pair[1], &key) != nil {
		return "", failed("its answer to the login has another form than is known")
	}
	c.session = "Session " + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s:%s:%s", c.user, pair[0], key))
	return c.session, nil
}

// loginRefused remembers a refusal, so no run adds to the count after which the server closes the login.
func (c *client) loginRefused(ctx context.Context, got answer) error {
	switch got.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		c.refused = &accounting.Disconnected{Reason: "it does not accept user and password, which were tried once and will not be tried again in this run"}
	case http.StatusNotFound:
		c.refused = &accounting.Disconnected{Reason: fmt.Sprintf("it has no database %q", c.database)}
	case http.StatusTooManyRequests:
		until := c.now().Add(loginPause)
		c.refused = &accounting.Parked{Until: until}
		if c.limiter == nil {
			break
		}
		if err := c.limiter.Park(ctx, until); err != nil {
			return fmt.Errorf("park the Tryton login: %w", err)
		}
	default:
		return c.refusedCall(got)
	}
	return c.refused
}

// version returns the server's version and clock.
func (c *client) version(ctx context.Context) (version, date string, err error) {
	got, err := c.post(ctx, request{url: c.root, method: "common.server.version", params: []any{},
		repeat: transport.Always})
	if err != nil {
		return "", "", err
	}
	if got.status != http.StatusOK {
		return "", "", c.refusedCall(got)
	}
	err = c.decode(got.body, &version)
	return version, got.date, err
}

// request is one call on the wire.
type request struct {
	url, session, method string
	params               []any
	repeat               transport.Repeat
}

// answer is the answer to a call.
type answer struct {
	status  int
	date    string    // the server's clock, as it writes it
	retryAt time.Time // zero when the server named none
	body    []byte
}

func (c *client) post(ctx context.Context, r request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	if c.limiter != nil {
		release, err := c.limiter.Acquire(ctx)
		if err != nil {
			return answer{}, err
		}
		defer release()
	}
	body, err := json.Marshal(map[string]any{"id": 1, "method": r.method, "params": r.params})
	if err != nil {
		return answer{}, fmt.Errorf("write the call %s: %w", r.method, err)
	}
	req, err := http.NewRequestWithContext(connector.WithOperation(ctx, r.method), http.MethodPost, r.url,
		bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("prepare the call %s: %w", r.method, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if r.session != "" {
		req.Header.Set("Authorization", r.session)
	}
	resp, err := c.http.Do(req, r.repeat)
	if err != nil {
		return answer{}, unanswered(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got := answer{status: resp.StatusCode, date: resp.Header.Get("Date"), retryAt: transport.RetryAfter(resp, c.now())}
	got.body, err = io.ReadAll(resp.Body) // transport has it in memory already
	return got, err
}

// unanswered is a call without an answer.
func unanswered(err error) error {
	var sent *transport.Error
	if !errors.As(err, &sent) {
		return err
	}
	return &connector.RemoteError{Op: op, Fault: connector.FaultUnavailable, RetryAt: sent.RetryAt,
		Detail: "there was no answer", Err: err}
}

// refusedCall returns the error of an answer without success.
func (c *client) refusedCall(got answer) error {
	fault := connector.FaultRejected
	switch {
	case got.status == http.StatusTooManyRequests:
		until := got.retryAt
		if until.IsZero() {
			until = c.now().Add(time.Minute)
		}
		return &accounting.Parked{Until: until}
	case got.status == http.StatusNotFound:
		fault = connector.FaultNotFound
	case got.status >= http.StatusInternalServerError:
		fault = connector.FaultUnavailable
	}
	return &connector.RemoteError{
		Op: op, Fault: fault, Status: got.status, RetryAt: got.retryAt,
		Detail: "the server refused the call; check url and database, and that it runs",
	}
}

// failed returns the error of an unusable answer.
func failed(why string) error {
	return &connector.RemoteError{Op: op, Fault: connector.FaultUnavailable, Detail: why}
}

// decode reads the answer to a call. The server reports most errors with status 200, as a list with the kind
// of error as its first element.
func (c *client) decode(body []byte, result any) error {
	var said struct {
		Result json.RawMessage   `json:"result"`
		Error  []json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return failed("the answer is no JSON-RPC but " + cmp.Or(accounting.NotJSON(body), "data of another form") +
			"; check url")
	}
	if said.Error != nil {
		return c.refusal(said.Error)
	}
	if said.Result == nil || string(said.Result) == "null" || json.Unmarshal(said.Result, result) != nil {
		return failed("the answer has another form than is known")
	}
	return nil
}

// errorKind matches the names of Tryton's own errors; other texts may quote
// values and are kept back.
var errorKind = regexp.MustCompile(`^[A-Z][A-Za-z]{2,40}$`)

// refusal returns the server's error. Its text may name parties.
func (c *client) refusal(parts []json.RawMessage) error {
	var kind string
	if len(parts) > 0 {
		_ = json.Unmarshal(parts[0], &kind) // other than text has no kind
	}
	if !errorKind.MatchString(kind) {
		return &connector.RemoteError{Op: op, Fault: connector.FaultRejected,
			Detail: fmt.Sprintf("the server reported an error; check that database %q is right and has the module party, and look into the server's log", c.database)}
	}
	return &connector.RemoteError{Op: op, Fault: connector.FaultRejected,
		Detail: "the server refused the read (" + kind +
			"); check that its user may read parties, addresses, contact mechanisms and identifiers"}
}
