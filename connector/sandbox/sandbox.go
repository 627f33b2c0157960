package sandbox

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"payersync/connector"
	"payersync/connector/sandbox/catcher"
)

// Options configure a sandbox. The zero value works: a client called sandbox
// with the secret sandbox-secret, the real clock, seed 0, the standard
// switches.
type Options struct {
	ClientID     string           // "" is sandbox
	ClientSecret connector.Secret // blank is sandbox-secret
	PublicURL    string           // where browsers reach the sandbox, for signing links; "" is http://localhost
	Hosts        []string         // further host names, besides PublicURL's, localhost and addresses
	Now          func() time.Time // nil is time.Now
	Seed         uint64           // of ids, tokens, secrets and chance
	TokenLife    time.Duration    // of access tokens; 0 is an hour
	Latency      time.Duration    // of every API request, in real time; the effect comes first
	Switches     Switches
	Letters      *catcher.Catcher // the mail server of the letters on the pages; nil for none

	Deliver        *http.Client    // sends webhooks; without one Deliver and Run refuse
	Retries        []time.Duration // waits before a refused delivery is sent again; nil is 1, 5, 30 minutes, 2 and 6 hours
	DeliveryFaults DeliveryFaults  // chance on each new delivery

	DiscardRequests bool // keep nothing of requests but the count of writes
}

// Sandbox is a billing service in memory. It is safe for concurrent use.
type Sandbox struct {
	opt Options
	api *http.ServeMux // the service; called with mu held and a *call as writer
	web http.Handler   // everything

	mu        sync.Mutex
	customers map[string]*customer
	order     []*customer // the living, oldest first
	made      int         // customers ever made
	readers   readers
	created   map[[sha256.Size]byte]creation
	mandates  map[string]*Mandate // those of deleted customers too
	renewed   map[string]*Mandate // by the later links of each; the first link is its id
	auth      tokens
	hooks     hooks
	queue     []*Delivery
	wake      chan struct{} // tells Run of a new delivery
	faults    []*injection
	late      []lateCall
	requests  []*Request
	writes    int

	// One source each, so that a fault or an event shifts no id.
	ids, tokenIDs, eventIDs, chance, deliveryChance *rand.ChaCha8
}

// New returns an empty sandbox. It panics when opt.Switches do not pass
// Validate: check them first where they come from a person.
func New(opt Options) *Sandbox {
	if err := opt.Switches.Validate(); err != nil {
		panic(err)
	}
	s := &Sandbox{
		opt:       opt.filled(),
		customers: map[string]*customer{},
		created:   map[[sha256.Size]byte]creation{},
		mandates:  map[string]*Mandate{},
		renewed:   map[string]*Mandate{},
		auth:      newTokens(),
		wake:      make(chan struct{}, 1),
	}
	for name, source := range map[string]**rand.ChaCha8{
		"ids": &s.ids, "tokens": &s.tokenIDs, "events": &s.eventIDs, "chance": &s.chance, "deliveries": &s.deliveryChance,
	} {
		*source = seeded(opt.Seed, name)
	}
	s.hooks.secret = s.opt.Switches.Signature.Secret
	if s.hooks.secret.IsZero() {
		s.hooks.secret = s.opt.Switches.Signature.draw(s.tokenIDs)
	}
	s.routeAPI()
	s.routeWeb()
	return s
}

func (opt Options) filled() Options {
	orDefault(&opt.ClientID, "sandbox")
	orDefault(&opt.ClientSecret, connector.NewSecret("sandbox-secret"))
	orDefault(&opt.PublicURL, "http://localhost")
	orDefault(&opt.TokenLife, time.Hour)
	opt.PublicURL = strings.TrimSuffix(opt.PublicURL, "/")
	opt.Switches.fill()
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Retries == nil {
		opt.Retries = []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour}
	}
	return opt
}

// ServeHTTP serves the service, the signing page and the operator's page. A
// lost request or answer ends the connection by panicking with
// http.ErrAbortHandler, as net/http asks for.
func (s *Sandbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.named(s.web).ServeHTTP(w, r) }

// lock takes the sandbox for one look or act, after every late request that is
// due has taken effect, and returns the unlocking.
func (s *Sandbox) lock() (unlock func()) {
	s.mu.Lock()
	s.settle(s.opt.Now())
	return s.mu.Unlock
}

func seeded(seed uint64, name string) *rand.ChaCha8 {
	return rand.NewChaCha8(sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, seed), name...)))
}

func newUUID(source *rand.ChaCha8) string {
	return uuid.Must(uuid.NewRandomFromReader(source)).String()
}

const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// newToken returns n characters without meaning, the form of mandate ids and
// access tokens.
func newToken(source *rand.ChaCha8, n int) string {
	random := rand.New(source)
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[random.IntN(len(letters))]
	}
	return string(b)
}
