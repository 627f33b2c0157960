package simulation

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fault is a fault of one request on its way.
type fault string

// The faults of the network and of the proxies before the service.
const (
	faultNone         fault = ""
	faultLostRequest  fault = "lost request"
	faultLostResponse fault = "lost response"
	faultLate         fault = "late"
	faultThrottled    fault = "429"
	faultBefore       fault = "503 before"
	faultAfter        fault = "502 after"
	faultHTML         fault = "html"
	faultTruncated    fault = "truncated"
	faultEmpty        fault = "empty"
	faultRevoked      fault = "revoked" // every token is worthless from now on
	faultOutage       fault = "outage"  // nothing gets through for a while
)

var faults = []fault{
	faultLostRequest, faultLostResponse, faultLate, faultThrottled, faultBefore, faultAfter, faultHTML, faultTruncated,
	faultEmpty, faultRevoked,
}

// weather is how likely each fault is, and how likely something else happens
// while a request is under way.
type weather struct {
	odds    map[fault]float64
	disturb float64 // while a request is under way
	drift   float64 // while the list is being paged
}

// call is one request as the wire sees it.
type call struct {
	p     *process
	req   *http.Request
	body  []byte
	op    string    // token, create, update, link, cancel, get, list, search, other
	id    string    // the customer or mandate it names
	page  int       // of a list
	pass  int       // the page's pass
	asked bool      // an operator asked for it
	given bool      // its sender has given it up
	run   *runSeen  // its run; nil for none
	at    time.Time // when it was sent
}

// lateCall is a request that still arrives after its sender gave it up.
type lateCall struct {
	due time.Time
	c   call
}

// wire is the network between one process and the service.
type wire struct {
	w *world
	p *process
}

var (
	errReset   error = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	errRefused error = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
)

// RoundTrip carries one request through faults, disturbances and crashes.
func (x wire) RoundTrip(req *http.Request) (*http.Response, error) {
	w, p := x.w, x.p
	if p.dead.Load() || w.endless() {
		return nil, errRefused
	}
	c, err := newCall(p, req)
	if err != nil {
		return nil, err
	}
	defer w.fence()
	// Overlapping requests arrive one after the other, in an order of their own.
	w.sleep(time.Millisecond + time.Duration(c.page+1)*17*time.Microsecond)
	if p.point() {
		w.reach("crash before a call")
		w.logf("%s dies before %s", p.name, c)
		return nil, errRefused
	}
	c.at = time.Now()
	w.oracle.departs(p)
	w.arrive()
	w.disturb(c)
	if req.Context().Err() != nil || p.dead.Load() {
		return nil, errRefused
	}
	return w.carry(c, w.strike(c))
}

// endless reports whether the world has made more requests than any finite story: an endless run keeps its
// lease for ever (L4), and nothing gets through.
func (w *world) endless() bool {
	if w.requests.Add(1) <= maxRequests {
		return false
	}
	w.violate("L4", "more than %d requests: something does not end", maxRequests)
	return true
}

func newCall(p *process, req *http.Request) (call, error) {
	c := call{p: p, req: req, op: "other", asked: p.w.operator}
	c.run, _ = req.Context().Value(runKey{}).(*runSeen)
	if req.Body != nil {
		var err error
		if c.body, err = io.ReadAll(req.Body); err != nil {
			return c, err
		}
		_ = req.Body.Close() // read whole
	}
	path := strings.TrimPrefix(req.URL.Path, "/api/")
	parts := strings.Split(path, "/")
	query := req.URL.Query()
	switch {
	case strings.HasPrefix(path, "oauth2"):
		c.op = "token"
	case parts[0] != "customers":
	case len(parts) == 1 && req.Method == http.MethodPost:
		c.op, c.id = "create", keyOf(c.body)
	case len(parts) == 1 && req.Method == http.MethodPut:
		c.op, c.id = "update", textOf(c.body, "id")
	case len(parts) == 1 && query.Has("searchText"):
		c.op = "search"
	case len(parts) == 1:
		c.op = "list"
		c.pass, _ = req.Context().Value(passKey{}).(int)
		c.page, _ = strconv.Atoi(query.Get("Page"))
	case len(parts) == 2 && req.Method == http.MethodGet:
		c.op, c.id = "get", parts[1]
	case len(parts) == 3 && parts[1] == "directdebitmandates":
		c.op, c.id = "cancel", strings.TrimSuffix(parts[2], ":cancel")
	case len(parts) == 3:
		c.op, c.id = "link", parts[1]
	}
	if req.Method == http.MethodDelete {
		c.op = "delete"
	}
	return c, nil
}

func (c call) String() string {
	id := c.id
	if len(id) > 8 {
		id = id[:8]
	}
	if c.op == "list" {
		id = fmt.Sprint("page ", c.page)
	}
	return strings.TrimSpace(c.op + " " + id)
}

// strike draws the fault of a request. It draws even in calm weather, so fewer faults do not change other
// random choices.
func (w *world) strike(c call) fault {
	if at := slices.IndexFunc(w.strikes,
		func(s strike) bool { return s.op == c.op && (s.id == "" || s.id == c.id) }); at >= 0 && !w.healed {
		defer func() { w.strikes = slices.Delete(w.strikes, at, at+1) }()
		return w.strikes[at].fault
	}
	roll := w.wires.Float64()
	switch {
	case w.healed:
		return faultNone
	case time.Now().Before(w.outage) && !w.plan.without[string(faultOutage)]:
		return faultOutage
	case c.op == "token" && roll > 0.5:
		return faultNone
	}
	for _, f := range faults {
		odds := w.weather.odds[f]
		if roll < odds {
			if w.plan.without[string(f)] {
				return faultNone
			}
			return f
		}
		roll -= odds
	}
	return faultNone
}

// carry takes the request to the service under a fault and brings back what is
// left of the answer.
func (w *world) carry(c call, f fault) (*http.Response, error) {
	if f != faultNone {
		w.reach("fault: " + string(f))
	}
	switch f {
	case faultRevoked:
		w.service.RevokeTokens()
	case faultLostRequest:
		return w.lost(c, f)
	case faultLate:
		late := c
		late.given = true
		w.late = append(w.late, lateCall{time.Now().Add(time.Duration(w.wires.Int64N(int64(maxLate)))), late})
		return w.lost(c, f)
	case faultThrottled:
		return w.answer(c, f, stubbed(http.StatusTooManyRequests, "application/json", `{"code":"SLOW"}`, "2"))
	case faultBefore, faultOutage:
		return w.answer(c, f, stubbed(http.StatusServiceUnavailable, "application/json", `{"code":"DOWN"}`, ""))
	case faultHTML:
		return w.answer(c, f, stubbed(http.StatusOK, "text/html", "<p>Please sign in.</p>", ""))
	}
	resp := w.serve(c)
	w.double(c)
	if c.p.point() {
		w.logf("%s dies inside %s", c.p.name, c)
		w.reach("crash inside a call")
		return nil, errReset
	}
	w.disturb(c)
	switch f {
	case faultLostResponse:
		return w.lost(c, f)
	case faultAfter:
		resp = stubbed(http.StatusBadGateway, "text/html", "<p>Bad gateway</p>", "")
	case faultTruncated:
		resp = truncated(resp)
	case faultEmpty:
		resp = stubbed(resp.StatusCode, "application/json", "", "")
	}
	return w.answer(c, f, resp)
}

// serve lets the service act on a request, with the oracle watching.
func (w *world) serve(c call) *http.Response {
	if w.poisoned(c) {
		return stubbed(http.StatusUnprocessableEntity, "application/json", `{"code":"POISON"}`, "")
	}
	w.readers(c)
	watched := w.oracle.before(c)
	req := c.req.Clone(context.Background())
	req.Body = io.NopCloser(bytes.NewReader(c.body))
	resp, err := w.service.RoundTripper().RoundTrip(req)
	if err != nil {
		panic(err) // a sandbox without faults of its own answers
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err) // a body in memory
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	w.oracle.after(c, watched)
	return resp
}

// double delivers a request a second time, as networks may.
func (w *world) double(c call) {
	if w.healed || w.plan.doubles == 0 || w.echoes.Float64() >= w.plan.doubles {
		return
	}
	c.given = true // nobody waits for the second answer
	w.logf("%s arrives twice", c)
	w.reach("request delivered twice")
	w.serve(c)
}

// poisoned reports whether the request is about the record refused by the service for its own reasons.
func (w *world) poisoned(c call) bool {
	return w.plan.poison != "" && (c.op == "create" || c.op == "update") && keyOf(c.body) == w.plan.poison
}

// answer brings an answer to its caller.
func (w *world) answer(c call, f fault, resp *http.Response) (*http.Response, error) {
	w.sleep(time.Duration(w.wires.Int64N(int64(200 * time.Millisecond))))
	body, broken := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if broken != nil {
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), brokenEnd{}))
	}
	w.logf("%s %s → %d %s", c.p.name, c, resp.StatusCode, f)
	w.oracle.answered(c, f, resp.StatusCode, body, broken == nil)
	if c.p.point() {
		w.reach("crash after a call")
		w.logf("%s dies after %s", c.p.name, c)
	}
	resp.Request = c.req
	return resp, nil
}

// lost is a call without an answer: the connection breaks, or nothing comes
// until the caller gives up.
func (w *world) lost(c call, f fault) (*http.Response, error) {
	patient := w.wires.IntN(2) == 0
	w.logf("%s %s → %s", c.p.name, c, f)
	w.oracle.answered(c, f, 0, nil, false)
	if c.p.point() {
		w.reach("crash inside a call")
		return nil, errReset
	}
	if !patient {
		return nil, errReset
	}
	w.fence()
	<-c.req.Context().Done()
	// pages asked for together are given up together: one order for them, too
	w.sleep(time.Duration(c.page) * 17 * time.Microsecond)
	return nil, context.Cause(c.req.Context())
}

// arrive lets the due late requests take effect, earliest first.
func (w *world) arrive() {
	slices.SortStableFunc(w.late, func(a, b lateCall) int { return a.due.Compare(b.due) })
	for len(w.late) > 0 && !w.late[0].due.After(time.Now()) {
		l := w.late[0]
		w.late = w.late[1:]
		w.logf("late %s arrives", l.c)
		w.reach("late " + l.c.op)
		if l.c.op == "update" {
			w.oracle.taintCustomer(l.c.id, "late update")
		}
		w.serve(l.c)
	}
}

func stubbed(status int, contentType, body, retryAfter string) *http.Response {
	h := http.Header{"Content-Type": {contentType}}
	if retryAfter != "" {
		h.Set("Retry-After", retryAfter)
	}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func truncated(resp *http.Response) *http.Response {
	body, _ := io.ReadAll(resp.Body) // in memory
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), brokenEnd{}))
	return resp
}

// brokenEnd is the end of a body after a lost connection.
type brokenEnd struct{}

func (brokenEnd) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// delivery is the network between the service and the webhook endpoint.
type delivery struct{ w *world }

// RoundTrip hands a delivery to the first process.
func (d delivery) RoundTrip(req *http.Request) (*http.Response, error) {
	w, p := d.w, d.w.procs[0]
	if p.dead.Load() {
		return nil, errRefused
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	status := p.receive(req.Header, body)
	if p.dead.Load() {
		return nil, errReset
	}
	w.logf("webhook %.8s → %d", textOf(body, "eventId"), status)
	if status/100 == 2 {
		w.oracle.acknowledged(textOf(body, "eventId"))
	}
	return stubbed(status, "application/json", "", ""), nil
}

// receive hands one delivery to the process's endpoint.
func (p *process) receive(h http.Header, body []byte) (status int) {
	if p.w.plan.variant.applyPayload != nil {
		return p.w.plan.variant.applyPayload(p, body)
	}
	req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/webhooks/billing",
		bytes.NewReader(body))
	req.Header = h.Clone()
	rec := httptest.NewRecorder()
	p.hooks.ServeHTTP(rec, req)
	return rec.Code
}
