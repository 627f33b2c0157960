package transport

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/hashicorp/go-retryablehttp"

	"payersync/connector"
)

// call is one call of Do: a request and all attempts to send it. It is the round tripper of its own retrying
// client, so the findings of an attempt are at hand for the decision on the next one.
type call struct {
	client   *Client
	repeat   Repeat
	caller   context.Context // for waiting for an answer; a request's own ends when sending stops
	attempts int
	tried    bool // some attempt has passed the limits
	sent     bool // some attempt may have reached the server and has no definite answer
}

func (c *call) retrying() *retryablehttp.Client {
	o := c.client.options
	return &retryablehttp.Client{
		HTTPClient:   &http.Client{Transport: c, CheckRedirect: refuseRedirect},
		RetryMax:     o.Retries,
		RetryWaitMin: minBackoff,
		RetryWaitMax: maxBackoff,
		CheckRetry:   c.again,
		Backoff:      c.wait,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
}

// RoundTrip makes one attempt within the client's limits.
func (c *call) RoundTrip(req *http.Request) (*http.Response, error) {
	c.attempts++
	permit, err := c.client.admit(req.Context())
	if err != nil {
		return nil, c.client.turnedAway(err)
	}
	c.tried = true
	if c.attempts == 1 {
		c.client.budget.earn() // a rejected call has sent nothing
	}
	began := time.Now()
	resp, failed := c.exchange(req)
	took := time.Since(began)
	c.log(req, resp, failed, took)
	c.observe(resp, failed, took)
	c.client.learn(permit, resp, failed)
	if failed != nil {
		return nil, failed
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		c.sent = true
	}
	return resp, nil
}

// exchange sends the request and reads the whole answer before one deadline: an answer that trickles in is no
// better than none (fault F15). Once sending has stopped, a request without a connection does not leave.
func (c *call) exchange(req *http.Request) (*http.Response, *Error) {
	ctx, cancel := context.WithTimeoutCause(c.caller, c.client.options.Timeout, errTimeout)
	defer cancel()
	var gate gate
	if c.client.traced {
		defer context.AfterFunc(req.Context(), func() {
			if gate.shut() {
				cancel()
			}
		})()
	}
	var connected atomic.Bool
	out := req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			late := !gate.pass(req.Context())
			if late {
				cancel()
			}
			connected.Store(!late || !turnBack(info.Conn))
		},
	}))
	if c.repeat != Always && out.Method == http.MethodGet {
		out.GetBody = nil // net/http would silently send a GET again on a broken connection
	}
	out.Header = out.Header.Clone() // the caller's stays as it was
	out.Header.Set("User-Agent", UserAgent())
	resp, err := c.client.options.Base.RoundTrip(out)
	read := 0
	if err == nil {
		c.client.noteDate(resp)
		read, err = readWhole(out.Method, resp, c.client.options.MaxBody)
	}
	if err != nil {
		sent := connected.Load() || !c.client.traced && !isDial(err) && !isA[*net.DNSError](err)
		failed := c.attemptError(req.Context(), context.Cause(ctx), err, sent)
		failed.Got = got(resp, read, sent)
		return nil, failed
	}
	return resp, nil
}

// gate decides once whether a request has left or is too late to.
type gate struct{ state atomic.Int32 }

const (
	gatePassed = 1
	gateShut   = 2
)

// pass reports whether the request may leave, and marks it as gone. After the end of sending the answer is
// no, even if the gate is not shut yet.
func (g *gate) pass(leaving context.Context) bool {
	if connector.MayLeave(leaving) != nil {
		g.shut()
	}
	return g.state.CompareAndSwap(0, gatePassed) || g.state.Load() == gatePassed
}

// shut reports whether the request did not leave before.
func (g *gate) shut() bool { return g.state.CompareAndSwap(0, gateShut) }

// turnBack keeps a late request off the connection it has just got. It closes a connection used by this
// request alone. On a shared one, the request may still leave before it is cancelled.
func turnBack(conn net.Conn) (kept bool) {
	if shared, ok := conn.(*tls.Conn); ok && shared.ConnectionState().NegotiatedProtocol == "h2" {
		return false
	}
	_ = conn.Close() // the request is lost either way
	return true
}

// got says how much of an answer came.
func got(resp *http.Response, read int, sent bool) string {
	switch {
	case resp != nil:
		return fmt.Sprintf("HTTP %d and %d bytes came", resp.StatusCode, read)
	case sent:
		return "it took the request, and nothing came back"
	}
	return ""
}

// attemptError returns the error of an attempt failed with err. leaving ends with the permission to send, and
// cause is the reason why the attempt ended, if it did.
func (c *call) attemptError(leaving context.Context, cause, err error, sent bool) *Error {
	c.sent = c.sent || sent
	if gaveUp := cmp.Or(c.caller.Err(), connector.MayLeave(leaving)); c.caller.Err() != nil || gaveUp != nil && !sent {
		return &Error{Reason: ReasonCancelled, Sent: sent, Err: gaveUp}
	}
	return &Error{Reason: reasonOf(cause, err), Sent: sent, Err: err}
}

// turnedAway returns the error when no attempt was made: the circuit is open, the caller gave up, or its
// deadline comes before its turn.
func (c *Client) turnedAway(err error) *Error {
	if errors.Is(err, circuitbreaker.ErrOpen) {
		return &Error{Reason: ReasonCircuit, Err: err, RetryAt: c.options.Now().Add(c.circuit.RemainingDelay())}
	}
	return &Error{Reason: ReasonCancelled, Err: err}
}

// failure is the error of the whole call, made from the last attempt's.
func (c *call) failure(err error) *Error {
	out := &Error{Reason: ReasonCancelled, Err: err} // only a wait between attempts fails without an Error
	var last *Error
	if errors.As(err, &last) {
		*out = *last
	}
	out.Tried, out.Sent, out.Attempts = c.tried, c.sent, c.attempts
	return out
}

// readWhole replaces the body by one in memory. So a broken or oversized answer fails inside the attempt, and
// no caller has to drain or close. It always returns the number of bytes read.
func readWhole(method string, resp *http.Response, limit int64) (read int, err error) {
	defer func() { _ = resp.Body.Close() }()
	if resp.ContentLength > limit {
		return 0, errTooLarge
	}
	var body []byte
	if resp.ContentLength > 0 && method != http.MethodHead {
		body = make([]byte, resp.ContentLength)
		read, err = io.ReadFull(resp.Body, body)
	} else {
		body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
		read = len(body)
	}
	if err != nil {
		return read, err
	}
	if int64(len(body)) > limit {
		return read, errTooLarge
	}
	resp.ContentLength = int64(len(body))
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return read, nil
}

// admit waits until an attempt may be sent and takes its place. It fails when
// the circuit is open, the caller gives up, or nothing is to leave any more.
func (c *Client) admit(ctx context.Context) (adaptivelimiter.Permit, error) {
	if c.circuit.IsOpen() && c.circuit.RemainingDelay() > 0 {
		return nil, circuitbreaker.ErrOpen // before a turn of the rate is spent on it
	}
	if err := c.pace.wait(ctx); err != nil {
		return nil, err
	}
	permit, err := c.slot(ctx)
	if err != nil {
		return nil, err
	}
	if err := connector.MayLeave(ctx); err != nil { // its turn came too late
		permit.Drop()
		return nil, err
	}
	if !c.circuit.TryAcquirePermit() {
		permit.Drop()
		return nil, circuitbreaker.ErrOpen
	}
	return permit, nil
}

// slot waits for a place among the attempts in flight while nothing is paused. It checks both again, because
// a wait for one may outlast the other.
func (c *Client) slot(ctx context.Context) (adaptivelimiter.Permit, error) {
	for {
		if err := c.pause.wait(ctx); err != nil {
			return nil, err
		}
		permit, err := c.slots.AcquirePermit(ctx)
		if err != nil {
			return nil, err
		}
		if !c.pause.on() {
			return permit, nil
		}
		permit.Drop()
	}
}

// learn returns the place and updates every limit. Only answers show the speed of the server.
func (c *Client) learn(permit adaptivelimiter.Permit, resp *http.Response, failed *Error) {
	switch verdictOf(resp, failed) {
	case verdictFine:
		permit.Record()
		c.circuit.RecordSuccess()
		c.pace.faster()
	case verdictThrottled:
		permit.Drop()
		c.circuit.RecordSuccess()
		c.pace.slower()
		c.pauseFor(resp)
	case verdictFailed:
		permit.Drop()
		c.circuit.RecordFailure()
		c.pauseFor(resp)
	case verdictNone:
		permit.Drop()
		if c.circuit.IsHalfOpen() {
			c.circuit.RecordFailure() // the probe's place must be given back, and it proved nothing
		}
	}
}

// pauseFor delays every call for as long as the server asked of one of them. If that exceeds MaxRetryAfter,
// the callers park instead.
func (c *Client) pauseFor(resp *http.Response) {
	now := c.options.Now()
	if at := RetryAfter(resp, now); !at.IsZero() && at.Sub(now) <= c.options.MaxRetryAfter {
		c.pause.until(time.Now().Add(at.Sub(now)))
	}
}

type verdict int

const (
	verdictFine verdict = iota
	verdictThrottled
	verdictFailed
	verdictNone // the caller gave up: it says nothing about the server
)

func verdictOf(resp *http.Response, failed *Error) verdict {
	switch {
	case failed != nil && failed.Reason == ReasonCancelled:
		return verdictNone
	case failed != nil && failed.Reason == ReasonTooLarge:
		return verdictFine
	case failed != nil, resp.StatusCode >= http.StatusInternalServerError && resp.StatusCode != http.StatusNotImplemented:
		return verdictFailed
	case resp.StatusCode == http.StatusTooManyRequests:
		return verdictThrottled
	}
	return verdictFine
}
