package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	apiPrefix = "/api/"
	tokenPath = "/api/oauth2/token"
	maxBody   = 1 << 20
)

// call is one request while it is served: its body, and its answer as it is
// built. It is the http.ResponseWriter of the sandbox's own routes.
type call struct {
	request []byte
	status  int
	header  http.Header
	body    []byte
	cut     bool // the answer breaks off in its middle
}

func newCall(request []byte, now time.Time) *call {
	return &call{request: request, header: http.Header{"Date": {now.UTC().Format(http.TimeFormat)}}}
}

func (c *call) Header() http.Header { return c.header }

func (c *call) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
}

func (c *call) Write(b []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	c.body = append(c.body, b...)
	return len(b), nil
}

// reply answers with a JSON body, or with an empty one when body is nil.
func (c *call) reply(status int, body []byte) {
	c.status, c.body = status, body
	if body != nil {
		c.header.Set("Content-Type", "application/json")
	}
}

// refuse answers an error. Neither code nor message holds anything of the
// request. The interface does not show the shape of error bodies.
func (c *call) refuse(status int, code, message string) {
	body, _ := json.Marshal(map[string]string{"code": code, "message": message}) // strings only
	c.reply(status, body)
}

// object returns the JSON object in the body, and false when it refused the
// request for not holding one.
func (c *call) object(r *http.Request) (object, bool) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		c.refuse(http.StatusUnsupportedMediaType, "NOT_JSON", "The Content-Type must be application/json.")
		return nil, false
	}
	o, err := parseObject(c.request)
	if err != nil {
		c.refuse(http.StatusBadRequest, "MALFORMED_BODY", "The body is not one JSON object.")
		return nil, false
	}
	return o, true
}

// Request is one API request as the sandbox saw it. Token requests are kept
// without their body, and no headers are kept, so that no secret is.
type Request struct {
	Method   string    `json:"method"`
	Path     string    `json:"path"` // as it was escaped on the wire, with /api
	RawQuery string    `json:"rawQuery,omitempty"`
	Body     []byte    `json:"body,omitempty"`
	Status   int       `json:"status"` // the service's result, even of a lost answer; 0 while a request is lost or late
	Fault    FaultKind `json:"fault,omitempty"`
	At       time.Time `json:"at"`
}

// Requests returns the API requests in the order they came in.
func (s *Sandbox) Requests() []Request {
	defer s.lock()()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = *r
		out[i].Body = slices.Clone(r.Body)
	}
	return out
}

// ResetRequests forgets the requests, not the count of writes.
func (s *Sandbox) ResetRequests() {
	defer s.lock()()
	s.requests = nil
}

// Writes returns how many POST and PUT requests on customers and mandates came
// in since New, refused and lost ones included.
func (s *Sandbox) Writes() int {
	defer s.lock()()
	return s.writes
}

func (s *Sandbox) record(r *http.Request, body []byte) *Request {
	write := r.Method == http.MethodPost || r.Method == http.MethodPut
	if write && strings.HasPrefix(r.URL.Path, "/api/customers") {
		s.writes++
	}
	entry := &Request{Method: r.Method, Path: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery, Body: body, At: s.opt.Now()}
	if r.URL.Path == tokenPath {
		entry.Body = nil
	}
	if !s.opt.DiscardRequests {
		s.requests = append(s.requests, entry)
	}
	return entry
}

// errDropped is a client's error for a connection that ends without an answer; it cannot tell whether its
// request had an effect.
var errDropped error = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// exchange takes one API request through faults and routes. An error means
// that no answer leaves the sandbox.
func (s *Sandbox) exchange(r *http.Request) (*call, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxBody {
		c := newCall(nil, s.opt.Now())
		c.refuse(http.StatusRequestEntityTooLarge, "TOO_LARGE", "The body is larger than 1 MiB.")
		return c, nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c, wait, err := s.process(r, body)
	if stop := pause(r.Context(), wait); stop != nil {
		return nil, stop
	}
	return c, err
}

// process is the part of exchange that holds the sandbox. The effect is there
// when it returns; wait is how long the answer takes.
func (s *Sandbox) process(r *http.Request, body []byte) (c *call, wait time.Duration, err error) {
	defer s.lock()()
	entry := s.record(r, body)
	fault := s.strike(r)
	entry.Fault = fault.Kind
	if c = s.suffer(fault, r, body, entry); c != nil {
		entry.Status = c.status
	}
	if fault.dropsAnswer() {
		err = errDropped
	}
	return c, s.opt.Latency + fault.wait(), err
}

// serve lets the service itself act on a request.
func (s *Sandbox) serve(r *http.Request, body []byte) *call {
	c := newCall(body, s.opt.Now())
	s.api.ServeHTTP(c, r)
	return c
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Sandbox) serveAPI(w http.ResponseWriter, r *http.Request) {
	c, err := s.exchange(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	c.send(w)
}

// send writes the answer to a socket.
func (c *call) send(w http.ResponseWriter) {
	for name, values := range c.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(c.body)))
	w.WriteHeader(c.status)
	if !c.cut {
		_, _ = w.Write(c.body) // a closed client does not matter
		return
	}
	_, _ = w.Write(c.body[:len(c.body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// RoundTripper returns a transport that calls the sandbox in process, without
// sockets: for tests under testing/synctest and for simulation. Lost requests
// and answers come back as the error a reset connection gives.
func (s *Sandbox) RoundTripper() http.RoundTripper { return inProcess{s} }

type inProcess struct{ s *Sandbox }

// RoundTrip serves req without changing it.
func (t inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	defer closeBody(req)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	r := req.Clone(req.Context())
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if strings.HasPrefix(r.URL.Path, apiPrefix) {
		c, err := t.s.exchange(r)
		if err != nil {
			return nil, err
		}
		return c.response(req), nil
	}
	c := newCall(nil, t.s.opt.Now())
	t.s.web.ServeHTTP(c, r)
	return c.response(req), nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // as every transport must; it was read whole
	}
}

func (c *call) response(req *http.Request) *http.Response {
	body := io.Reader(bytes.NewReader(c.body))
	if c.cut {
		body = io.MultiReader(bytes.NewReader(c.body[:len(c.body)/2]), broken{})
	}
	return &http.Response{
		Status:     strconv.Itoa(c.status) + " " + http.StatusText(c.status),
		StatusCode: c.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: c.header, Body: io.NopCloser(body), ContentLength: int64(len(c.body)), Request: req,
	}
}

// broken is the end of a body whose connection was lost.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
