// Package server receives the deliveries of the billing service and serves the health pages. It stores a
// delivery without acting on it:
//
//	POST ─▶ method, type ─▶ verify the raw bytes ─▶ parse ─▶ inbox (commit) ─▶ 2xx ─▶ nudge
//	              │                  │                │          │
//	             4xx                401          quarantined    503
//
// Recipients of letters unsubscribe by a POST below [Config.StopPath].
//
// Nothing unsigned is parsed or stored, and nothing is acknowledged before it is durable (faults F34, F37 to
// F40). Package reconcile asks the service about the delivery, and worker decides when. The receiver of the
// reports logs and counts.
//
// Only a signature tells a genuine delivery from junk: both may come through the same proxy. So every request
// is verified, and only refused requests count against their sender. Junk can take a bounded share before:
// connections without a verified delivery are closed for new ones, and memory for large bodies is limited.
package server

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/httprate"
	"golang.org/x/sync/singleflight"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/health"
	"payersync/connector/worker"
	"payersync/state"
)

// The paths of the health pages.
const (
	HealthPath = "/healthz" // the process answers
	ReadyPath  = "/readyz"  // the ledger can be written to
)

// Config says what a server accepts and how it stores it. Without a verifier and Path there is no webhook,
// only the health pages.
type Config struct {
	Ledger *state.Ledger
	Keys   Keys                                // the keys for checking deliveries; there is no endpoint without a verifier
	Renew  func(context.Context) (Keys, error) // reads Keys anew, if they may change while it serves; nil for never
	Events billing.EventPaths                  // the paths to a delivery's contents
	Path   string                              // of the webhook, for example /webhooks/billing

	MaxBody int // bytes of a delivery; more are answered with 413; default 256 KiB
	// requests per second of one /24 or /64 refused with their reason; more are answered with 429; default 500
	Refused        int
	TrustedProxies []netip.Prefix // proxies with a trusted X-Forwarded-For
	HealthApart    bool           // the health pages are served by HealthHandler alone

	Jobs func(context.Context) ([]JobTimes, error) // for ReadyPath; nil for none
	// called after a commit with work for the drain; must not block; may be nil
	Nudge func()
	// below which recipients of letters say that they want no more, for example StopPath; "" for nowhere
	StopPath string
	// receives every request below StopPath, from several goroutines at once; may be nil
	StopReport func(StopEvent)
	// is told of every request to the webhook, by several goroutines at once; nil for nobody
	Report   func(Event)
	Now      func() time.Time // the clock of signature tolerances and ages; nil means the system's
	Expected health.Expected  // the expectations for readiness; by default an hourly sweep
}

// Keys are the keys for checking a delivery.
type Keys struct {
	Verifier *billing.Verifier
	Delivery billing.DeliveryKey // the key in each delivery besides its signature
	Until    time.Time           // when one of them is accepted no more; zero while all are
	Unknown  bool                // the service may sign with another secret, not known here yet
}

// RequestOutcome says how one request to the webhook ended.
type RequestOutcome string

// The outcomes, each with its answer.
const (
	Accepted RequestOutcome = "accepted" // 200: durable in the inbox
	// 200: the inbox has it already, and its customer is looked at once more
	Repeated        RequestOutcome = "repeated"
	WrongPath       RequestOutcome = "wrong_path"          // 404: on the webhook's listener, and at no path of it
	WrongMethod     RequestOutcome = "wrong_method"        // 405
	TooMany         RequestOutcome = "too_many"            // 429
	WrongEncoding   RequestOutcome = "wrong_encoding"      // 415: compressed
	WrongType       RequestOutcome = "wrong_type"          // 415: not JSON
	TooLarge        RequestOutcome = "too_large"           // 413: above Config.MaxBody
	BrokenOff       RequestOutcome = "broken_off"          // 400, or 408 if it was too slow: the body did not arrive whole
	SignatureFailed RequestOutcome = "signature_failed"    // 401
	KeyFailed       RequestOutcome = "delivery_key_failed" // 401: it carries no delivery key, or another
	// 503: no secret fits, while the service may have another; nothing is lost if it is sent again
	SecretUnknown RequestOutcome = "secret_unknown"
	// 503: too many large bodies are being read; nothing is lost if it is sent again
	Busy      RequestOutcome = "busy"
	NotStored RequestOutcome = "not_stored" // 503: the ledger did not take it; nothing is lost if it is sent again
	Panicked  RequestOutcome = "panicked"   // 500
	NotReady  RequestOutcome = "not_ready"  // 503 on ReadyPath, not on the webhook
)

var statuses = map[RequestOutcome]int{
	Accepted: http.StatusOK, Repeated: http.StatusOK,
	WrongPath: http.StatusNotFound, WrongMethod: http.StatusMethodNotAllowed, TooMany: http.StatusTooManyRequests,
	WrongEncoding: http.StatusUnsupportedMediaType, WrongType: http.StatusUnsupportedMediaType,
	TooLarge: http.StatusRequestEntityTooLarge, BrokenOff: http.StatusBadRequest, SignatureFailed: http.StatusUnauthorized,
	KeyFailed:     http.StatusUnauthorized,
	SecretUnknown: http.StatusServiceUnavailable, Busy: http.StatusServiceUnavailable,
	NotStored: http.StatusServiceUnavailable, Panicked: http.StatusInternalServerError,
	NotReady: http.StatusServiceUnavailable,
}

// Outcomes returns every outcome there is.
func Outcomes() []RequestOutcome { return slices.Sorted(maps.Keys(statuses)) }

// Event is the server's report of one request. It holds nothing of the body or the headers except the name of
// a stored delivery.
type Event struct {
	Outcome RequestOutcome
	Client  netip.Prefix         // the sender's /24 or /64; invalid if unknown
	Key     string               // delivery key; "" when nothing was stored
	Type    string               // event type; "" when nothing was stored or none is given
	State   connector.InboxState // what the delivery was stored as; "" when nothing was stored
	Err     error                // the reason, if there is more than the outcome
}

// Server takes deliveries in. It is safe for concurrent use.
type Server struct {
	cfg     Config
	refused *httprate.RateLimiter // by client
	seed    maphash.Seed          // of the buckets clients share
	large   chan struct{}         // a slot for each large body being read or stored

	keys     atomic.Pointer[Keys]
	renewing sync.Mutex // held while the keys are read anew

	looking singleflight.Group // serialises checks of the ledger; they alone use the fields below
	looked  time.Time
	ready   readiness
}

const defaultRefused = 500

// New returns a server. It refuses to make one without a ledger, and a webhook
// without a verifier or a path of its own.
func New(cfg Config) (*Server, error) {
	if cfg.Ledger == nil {
		return nil, errors.New("the webhook endpoint needs a ledger to keep deliveries in")
	}
	if cfg.Keys.Verifier != nil || cfg.Path != "" {
		if err := checkWebhook(cfg); err != nil {
			return nil, err
		}
	}
	if cfg.Expected.Jobs == nil {
		cfg.Expected.Jobs = []worker.Job{{Name: "sweep", Schedule: "@hourly", Last: cfg.Ledger.LastPass}}
	}
	return newServer(cfg), nil
}

// newServer returns a server of a checked configuration.
func newServer(cfg Config) *Server {
	setDefault(&cfg.MaxBody, maxBody)
	setDefault(&cfg.Refused, defaultRefused)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Expected.Now = cfg.Now
	if cfg.Nudge == nil {
		cfg.Nudge = func() {}
	}
	if cfg.Report == nil {
		cfg.Report = func(Event) {}
	}
	if cfg.StopReport == nil {
		cfg.StopReport = func(StopEvent) {}
	}
	if cfg.Jobs == nil {
		cfg.Jobs = func(context.Context) ([]JobTimes, error) { return nil, nil }
	}
	large := min(maxLarge, max(1, largeBytes/cfg.MaxBody)) // 16 MiB in all
	s := &Server{cfg: cfg, refused: perSecond(cfg.Refused), seed: maphash.MakeSeed(), large: make(chan struct{}, large)}
	s.hold(cfg.Keys)
	return s
}

func setDefault[T int | time.Duration](value *T, to T) {
	if *value <= 0 {
		*value = to
	}
}

func checkWebhook(cfg Config) error {
	if cfg.Keys.Verifier == nil {
		return errors.New("the webhook endpoint is not opened, because nothing says how deliveries are signed; set billing.webhook.signature and its secrets")
	}
	if path := cfg.Path; len(path) < 2 || !strings.HasPrefix(path, "/") || path == HealthPath || path == ReadyPath ||
		cfg.StopPath != "" && strings.HasPrefix(path, cfg.StopPath) {
		return fmt.Errorf("the webhook cannot be served at the path %q; give billing.webhook.public_url a path of its own, for example /webhooks/billing", path)
	}
	return nil
}

// Handler returns the handler of the webhook's listener: the webhook, the paths below Config.StopPath if
// letters are sent, and HealthPath and ReadyPath unless they have a listener of their own. Anything else is
// 404. The webhook and HealthPath answer without a body. Paths are compared as they are, without the
// redirects of a mux.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.cfg.Keys.Verifier != nil && r.URL.Path == s.cfg.Path:
			s.serveWebhook(w, r)
		case s.cfg.StopPath != "" && strings.HasPrefix(r.URL.Path, s.cfg.StopPath):
			s.serveStop(w, r)
		case !s.cfg.HealthApart && (r.URL.Path == HealthPath || r.URL.Path == ReadyPath):
			s.serveHealth(w, r)
		case s.cfg.Keys.Verifier != nil:
			w.WriteHeader(statuses[WrongPath])
			s.cfg.Report(Event{Outcome: WrongPath, Client: s.client(r)})
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
}

// HealthHandler returns the handler of a listener for the health pages alone.
func (s *Server) HealthHandler() http.Handler { return http.HandlerFunc(s.serveHealth) }

func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case HealthPath:
		w.WriteHeader(http.StatusOK)
	case ReadyPath:
		s.serveReady(w)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
