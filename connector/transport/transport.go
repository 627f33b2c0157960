// Package transport is the one way payersync gets an HTTP client: bounded in
// rate, concurrency, time and size, polite to a service in trouble, and silent
// about what it carries. What a request says, whose token it bears and what an
// answer means are left to the packages that call it.
//
// # One call
//
//	Do ──▶ attempt ──▶ wait for pause, rate, slot ──▶ circuit ──▶ wire ──▶ body read whole
//	 ▲        │                                         │          │
//	 │        └── the deadline counts from here ────────┼──────────┘
//	 │                                                  │ open: fails at once
//	 └── again, where the call allows it and the budget has room:
//	     after Retry-After, else after a random part of a doubling delay
//
// # The circuit
//
//	closed ──half of the last 30 s failed (10 calls or more)──▶ open ──30 s──▶ half-open
//	   ▲                                                          ▲              │ one probe
//	   └──────────────────── it succeeds ─────────────────────────┼──────────────┤
//	                                                              └── it fails ──┘
package transport

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/sirupsen/logrus"

	"payersync/connector"
)

// Options configure a Client. The zero value is usable: every field has the default in its comment.
type Options struct {
	Base http.RoundTripper // the underlying transport; nil for its own
	// one attempt from connection to last byte, waits for a slot not counted; 30 s
	Timeout time.Duration
	MaxBody int64 // bytes of an answer; one more is an error; 8 MiB
	Retries int   // attempts after the first; 3, negative for none
	// attempts per second, halved by each 429 and regained with success; 0 for no limit
	RatePerSecond float64
	// waits for a turn shared by several processes, after RatePerSecond's; may be nil
	Shared        func(context.Context) error
	MaxInFlight   int               // attempts at a time, fewer while answers slow down; 8
	MaxRetryAfter time.Duration     // the longest Retry-After to sleep; above it the answer is returned; 15 min
	Reach         connector.Reach   // the allowed addresses; the proxy always is
	Proxy         *url.URL          // a proxy, as an http, https or socks5 address, see ProxyFor; nil for none
	Roots         *x509.CertPool    // the trusted certificates; nil for the system's
	Now           func() time.Time  // the clock for Retry-After dates; time.Now
	Rand          *rand.Rand        // source of jitter; randomly seeded
	Logger        *logrus.Entry     // attempts at debug level, the circuit at warning level; nil for silence
	Observe       func(CallAttempt) // is told of every attempt, by several goroutines at once; nil for nobody
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.MaxBody = cmp.Or(o.MaxBody, 8<<20)
	o.Retries = max(0, cmp.Or(o.Retries, 3))
	o.MaxInFlight = max(1, cmp.Or(o.MaxInFlight, 8))
	o.MaxRetryAfter = cmp.Or(o.MaxRetryAfter, 15*time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if o.Base == nil {
		o.Base = newWire(o)
	}
	return o
}

// Repeat says when a request may be sent a second time.
type Repeat int

const (
	// IfNoEffect repeats a request only when it certainly changed nothing: it
	// was answered 429, or no connection was made.
	IfNoEffect Repeat = iota
	// Always repeats a request after every passing failure. Use it for reads, and for requests that may
	// happen twice.
	Always
	// Never sends a request at most once, whatever happens to it.
	Never
)

// Client sends requests to one remote system. All its calls share the same
// limits, so a system should have one Client. It is safe for concurrent use.
type Client struct {
	options Options
	traced  bool // the base tells when a connection was made
	pause   pause
	pace    pace
	slots   adaptivelimiter.AdaptiveLimiter[any]
	circuit circuitbreaker.CircuitBreaker[any]
	budget  budget
	rand    lockedRand
	ahead   atomic.Pointer[time.Duration] // see Skew; nil for not known
}

// New returns a client with the given options.
func New(o Options) *Client {
	o = o.withDefaults()
	_, traced := o.Base.(*http.Transport)
	return &Client{
		options: o,
		traced:  traced,
		pace:    newPace(o.RatePerSecond, o.Shared),
		slots:   newSlots(uint(o.MaxInFlight)),
		circuit: newCircuit(o.Logger),
		budget:  budget{saved: budgetReserve},
		rand:    lockedRand{source: o.Rand},
	}
}

// Do takes ownership of req, sends it, and returns the answer with any status. It follows no redirects, and
// returns a 429 or 5xx as it came after the last repeat (RetryAfter reads its header). The body is already in
// memory and needs no closing. Without a usable answer the error is an *Error; errors.Is still finds a
// cancellation by the caller.
func (c *Client) Do(req *http.Request, repeat Repeat) (*http.Response, error) {
	if err := checkURL(req.URL); err != nil {
		return nil, &Error{Reason: ReasonURL, Err: err}
	}
	wrapped, err := rewindable(req)
	if err != nil {
		return nil, &Error{Reason: ReasonURL, Err: err}
	}
	leaving, done := connector.Leaving(req.Context())
	defer done()
	call := &call{client: c, repeat: repeat, caller: req.Context()}
	wrapped = wrapped.WithContext(leaving)
	resp, err := call.retrying().Do(wrapped)
	if err != nil {
		return nil, call.failure(err)
	}
	return resp, nil
}

// rewindable prepares a request for several attempts. A request of http.NewRequest can rewind itself; any
// other body is read once and kept.
func rewindable(req *http.Request) (*retryablehttp.Request, error) {
	if req.GetBody == nil {
		return retryablehttp.FromRequest(req)
	}
	out, again, length := &retryablehttp.Request{Request: req}, req.GetBody, req.ContentLength
	err := out.SetBody(func() (io.Reader, error) { return again() })
	req.ContentLength = length // SetBody cannot see it
	return out, err
}

// HTTPClient returns the client as an http.Client for libraries. Do sends every request through it, with the
// given Repeat.
func (c *Client) HTTPClient(repeat Repeat) *http.Client {
	return &http.Client{Transport: roundTripper{c, repeat}, CheckRedirect: refuseRedirect}
}

// Skew returns how far the clock of the server is ahead of ours, by the Date of its last answer, and whether
// it is known. Its error is a second plus the time of an answer.
func (c *Client) Skew() (ahead time.Duration, known bool) {
	if ahead := c.ahead.Load(); ahead != nil {
		return *ahead, true
	}
	return 0, false
}

// noteDate records the server's clock from an answer.
func (c *Client) noteDate(resp *http.Response) {
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		ahead := date.Sub(c.options.Now().Truncate(time.Second))
		c.ahead.Store(&ahead)
	}
}

// Close closes the idle connections.
func (c *Client) Close() {
	if base, ok := c.options.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

type roundTripper struct {
	client *Client
	repeat Repeat
}

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	own := *req // a round tripper leaves the request as it was
	return r.client.Do(&own, r.repeat)
}

func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// checkURL refuses addresses that would expose secrets: plain http is for loopback only, and no credentials
// may stand in an address.
func checkURL(u *url.URL) error {
	switch {
	case u == nil || u.Host == "":
		return errors.New("the address has no host")
	case u.User != nil:
		return errors.New("the address holds credentials")
	case u.Scheme == "https", u.Scheme == "http" && connector.IsLoopback(u.Hostname()):
		return nil
	}
	return errors.New("plain http is for loopback addresses only; use https")
}

// lockedRand shares one source of randomness between calls.
type lockedRand struct {
	mu     sync.Mutex
	source *rand.Rand
}

// below returns a random duration in [0, limit].
func (r *lockedRand) below(limit time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.source.Int64N(int64(limit) + 1))
}
