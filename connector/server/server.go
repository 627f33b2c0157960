// Package server is the endpoint that the billing service calls, with the health
// pages beside it. It takes a delivery in and does nothing with it:
//
//	POST ─▶ limits ─▶ verify the raw bytes ─▶ parse ─▶ inbox (commit) ─▶ 2xx ─▶ nudge
//	          │          │                       │          │
//	        4xx        401                 quarantined     503
//
// Nothing unsigned is parsed or stored, and nothing is acknowledged before it is
// durable (faults F34, F37 to F40). What a delivery means is left to reconcile,
// which asks the service itself; when to ask, to worker; logging and counting, to
// whoever receives the reports.
package server

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/httprate"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/state"
)

// The paths of the health pages.
const (
	HealthPath = "/healthz" // the process answers
	ReadyPath  = "/readyz"  // the ledger can be written to
)

// Config says what a server accepts and where it puts it. With neither Verifier nor
// Path there is no webhook, and the health pages are all that is served.
type Config struct {
	Ledger   *state.Ledger
	Verifier *billing.Verifier  // there is no endpoint without one
	Events   billing.EventPaths // where a delivery says what it is about
	Path     string             // of the webhook, for example /webhooks/billing

	Limits         Limits
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed

	Nudge        func()           // called after a commit that left something to drain; must not block; nil for nobody
	Report       func(Event)      // is told of every request to the webhook, by several goroutines at once; nil for nobody
	Now          func() time.Time // the clock of signature tolerances and ages; nil means the system's
	SweepOverdue time.Duration    // the age of the last sweep from which readiness is degraded; default 3 h
}

// Limits says how many requests per second are looked at before any signature is
// checked; more are answered with 429 (fault F40).
type Limits struct {
	PerClient int // from one /24 or /64; default 500
	Total     int // from all; default 2,000
}

// Outcome says how one request to the webhook ended.
type Outcome string

// The outcomes, each with its answer.
const (
	Accepted        Outcome = "accepted"         // 200: durable in the inbox
	Repeated        Outcome = "repeated"         // 200: the inbox has it already
	WrongMethod     Outcome = "wrong_method"     // 405
	TooMany         Outcome = "too_many"         // 429
	WrongEncoding   Outcome = "wrong_encoding"   // 415: compressed
	WrongType       Outcome = "wrong_type"       // 415: not JSON
	TooLarge        Outcome = "too_large"        // 413: above 256 KiB
	BrokenOff       Outcome = "broken_off"       // 400: the body did not arrive whole
	SignatureFailed Outcome = "signature_failed" // 401
	NotStored       Outcome = "not_stored"       // 503: the ledger did not take it; nothing is lost if it is sent again
	Panicked        Outcome = "panicked"         // 500
	NotReady        Outcome = "not_ready"        // 503 on ReadyPath, not on the webhook
)

var statuses = map[Outcome]int{
	Accepted: http.StatusOK, Repeated: http.StatusOK,
	WrongMethod: http.StatusMethodNotAllowed, TooMany: http.StatusTooManyRequests,
	WrongEncoding: http.StatusUnsupportedMediaType, WrongType: http.StatusUnsupportedMediaType,
	TooLarge: http.StatusRequestEntityTooLarge, BrokenOff: http.StatusBadRequest, SignatureFailed: http.StatusUnauthorized,
	NotStored: http.StatusServiceUnavailable, Panicked: http.StatusInternalServerError, NotReady: http.StatusServiceUnavailable,
}

// Event is what the server reports of one request. It holds nothing of the body
// or the headers beyond what a delivery that was stored is called.
type Event struct {
	Outcome Outcome
	Client  netip.Prefix         // the /24 or /64 it came from; not valid when that is not known
	Key     string               // delivery key; "" when nothing was stored
	Type    string               // event type; "" when nothing was stored or none is given
	State   connector.InboxState // what the delivery was stored as; "" when nothing was stored
	Err     error                // why, where there is more to say than the outcome
}

// Server takes deliveries in. It is safe for concurrent use.
type Server struct {
	cfg       Config
	perClient *httprate.RateLimiter
	total     *httprate.RateLimiter
	seed      maphash.Seed // of the buckets clients share

	checking sync.Mutex // held while readiness is looked at
	checked  time.Time
	ready    readiness
}

const (
	defaultPerClient    = 500
	defaultTotal        = 2000
	defaultSweepOverdue = 3 * time.Hour
)

// New returns a server. It refuses to make one without a ledger, and a webhook
// without a verifier or a path of its own.
func New(cfg Config) (*Server, error) {
	if cfg.Ledger == nil {
		return nil, errors.New("the webhook endpoint needs a ledger to keep deliveries in")
	}
	if cfg.Verifier != nil || cfg.Path != "" {
		if err := checkWebhook(cfg); err != nil {
			return nil, err
		}
	}
	setDefault(&cfg.Limits.PerClient, defaultPerClient)
	setDefault(&cfg.Limits.Total, defaultTotal)
	setDefault(&cfg.SweepOverdue, defaultSweepOverdue)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Nudge == nil {
		cfg.Nudge = func() {}
	}
	if cfg.Report == nil {
		cfg.Report = func(Event) {}
	}
	return &Server{cfg: cfg, perClient: perSecond(cfg.Limits.PerClient), total: perSecond(cfg.Limits.Total), seed: maphash.MakeSeed()}, nil
}

func setDefault[T int | time.Duration](value *T, to T) {
	if *value <= 0 {
		*value = to
	}
}

func checkWebhook(cfg Config) error {
	if cfg.Verifier == nil {
		return errors.New("the webhook endpoint is not opened, because nothing says how deliveries are signed; set billing.webhook.signature and its secrets")
	}
	if path := cfg.Path; len(path) < 2 || !strings.HasPrefix(path, "/") || path == HealthPath || path == ReadyPath {
		return fmt.Errorf("the webhook cannot be served at the path %q; give billing.webhook.public_url a path of its own, for example /webhooks/billing", path)
	}
	return nil
}

// Handler returns the handler of the webhook's listener: the webhook, HealthPath
// and ReadyPath; anything else is 404. Only ReadyPath answers with a body. Paths
// are compared as they are, without the redirects of a mux.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case s.cfg.Verifier != nil && path == s.cfg.Path:
			s.serveWebhook(w, r)
		case path == HealthPath:
			w.WriteHeader(http.StatusOK)
		case path == ReadyPath:
			s.serveReady(w, r)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
}
