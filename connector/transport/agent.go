package transport

import (
	"net/http"
	"sync/atomic"
)

// agent is the User-Agent of every request of this process; nil before SetVersion.
var agent atomic.Pointer[string]

// SetVersion sets the version in UserAgent. The program sets it once, before its first request.
func SetVersion(version string) {
	text := "payersync/" + version
	agent.Store(&text)
}

// UserAgent returns the User-Agent of every request: payersync/VERSION.
func UserAgent() string {
	if text := agent.Load(); text != nil {
		return *text
	}
	return "payersync/development"
}

// WithUserAgent returns a round tripper for requests through base, each with UserAgent. It serves requests
// not sent by a Client; nil stands for http.DefaultTransport.
func WithUserAgent(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return withAgent{base}
}

type withAgent struct{ base http.RoundTripper }

// RoundTrip sends a copy of the request: a round tripper may not change what it was given.
func (w withAgent) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.Header.Set("User-Agent", UserAgent())
	return w.base.RoundTrip(out)
}
