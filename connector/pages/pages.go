package pages

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/alexedwards/scs/v2"

	"payersync/connector/admin"
	"payersync/connector/health"
	"payersync/state"
)

// Config holds the dependencies and settings of the pages.
type Config struct {
	Ledger *state.Ledger
	// its names stay in memory, so it outlives this Config
	Lists       *admin.Lists
	Connections []string               // by name, in the order of the configuration
	Expected    func() health.Expected // the state expected by the configuration
	Letters     *admin.Letters         // to payers; nil if payersync writes none
	Mandates    *admin.Mandates        // acts on mandates; nil if nothing can be sent
	// how a connection's payers are explained; nil for not at all
	Explain    func(context.Context, string) (admin.Explainer, error)
	Deliveries *admin.Deliveries // acts on webhooks
	Attention  *admin.Attention  // acts on findings about payers; nil if nobody can
	Writebacks *admin.Writebacks // to accounting systems; nil for none
	Matches    *admin.Matches    // decides on existing customers; nil if nobody can
	Moves      *admin.Moves      // moves a connection to another; nil if nobody can
	// told when a delivery waits to be read; must not block; nil for nobody
	Nudge    func()
	Jobs     func(context.Context) ([]JobTimes, error) // of payersync serve; nil for none
	Settings func() []Setting                          // the settings, in groups; may be nil
	Hosts    []string                                  // further host names, besides this machine's
	Secure   bool                                      // they are reached over TLS alone
	Valid    time.Duration                             // how long a signing link works; 0 if unknown
	// its count stays in memory, so it outlives this Config
	Standings *admin.ReadinessCounts
	Fetcher   *admin.Fetcher // of lost links; its work outlives this Config
	Report    func(Event)    // receives every failed request; may be nil
	Starter   *admin.Starter // starts requested runs; nil if nobody may
	// the billing service's requests per second; 0 if unknown
	Rate     float64
	Mappings *admin.Mappings // of the connections; nil if none is readable
	// the least role that approves plans and write-backs, and rejects plans; "" for Operator
	Approvers Role
	// serves /design, the page with all parts; for the demo
	Design bool
	// the author of a mapping version may not approve its plans
	FourEyes bool
	Systems  []System // the accounting systems that can be connected
	Guides   []Guide  // in the Help menu, in this order
	// counts wrong passwords; its counters are in memory, too, so it outlives this Config; nil for one of the ledger
	Door     *Door
	Provider *Provider // for signing in by OpenID Connect; nil for none
	// the network of a request, for counting wrong passwords; nil for the sending address
	Network func(*http.Request) string
}

// Event is a request with an error or a refusal.
type Event struct {
	Route  string // the pattern, never the address: that may hold a token
	User   string // "" for nobody
	Status int
	Err    error
}

// Pages answers requests for pages. It is safe for concurrent use.
type Pages struct {
	cfg     Config
	logins  *scs.SessionManager
	handler http.Handler

	served    map[string]bool // the addresses without a variable part
	exporting *sync.Mutex     // one large file is made at a time
	limited   bool            // they show some connections alone; see limits.go

	mu    sync.Mutex
	parts map[string]*Pages // the views of limited users, by their connections
}

// New returns pages. It fails without a ledger with its sealing key: nobody could sign in.
func New(cfg Config) (*Pages, error) {
	if cfg.Ledger == nil || cfg.Ledger.Sealed() {
		return nil, errors.New("the pages need the ledger with its sealing key; give ledger.key_file")
	}
	if cfg.Lists == nil {
		cfg.Lists = &admin.Lists{Ledger: cfg.Ledger}
	}
	if cfg.Standings == nil {
		cfg.Standings = &admin.ReadinessCounts{Ledger: cfg.Ledger}
	}
	cfg.Standings.SetValid(cfg.Valid)
	if cfg.Fetcher == nil {
		cfg.Fetcher = &admin.Fetcher{}
	}
	if cfg.Expected == nil {
		cfg.Expected = func() health.Expected { return health.Expected{} }
	}
	if cfg.Explain == nil {
		cfg.Explain = noExplainer
	}
	if cfg.Deliveries == nil {
		cfg.Deliveries = &admin.Deliveries{Ledger: cfg.Ledger, Read: unread}
	}
	if cfg.Nudge == nil {
		cfg.Nudge = func() {}
	}
	if cfg.Jobs == nil {
		cfg.Jobs = noJobs
	}
	if cfg.Settings == nil {
		cfg.Settings = func() []Setting { return nil }
	}
	cfg.Approvers = cmp.Or(cfg.Approvers, Operator)
	if cfg.Door == nil {
		cfg.Door = NewDoor(cfg.Ledger)
	}
	if cfg.Network == nil {
		cfg.Network = func(r *http.Request) string { host, _, _ := net.SplitHostPort(r.RemoteAddr); return host }
	}
	cfg.Report = unlessGone(cfg.Report)
	p := &Pages{cfg: cfg, served: map[string]bool{}, exporting: &sync.Mutex{}, parts: map[string]*Pages{}}
	for _, r := range all {
		if path, ok := strings.CutPrefix(r.pattern, "GET "); ok {
			p.served[path] = true
		}
	}
	p.logins = p.newLogins()
	p.handler = p.guarded(p.routes())
	return p, nil
}

// unlessGone reports no errors caused by a closed browser connection.
func unlessGone(report func(Event)) func(Event) {
	return func(e Event) {
		if report != nil && !errors.Is(e.Err, context.Canceled) {
			report(e)
		}
	}
}

// ServeHTTP answers a request.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// now returns the ledger's time, for all dates on pages.
func (p *Pages) now() time.Time { return p.cfg.Ledger.Now() }
