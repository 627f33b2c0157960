package simulation

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/reconcile"
	"payersync/connector/sandbox"
	"payersync/connector/server"
	"payersync/connector/syncer"
	"payersync/connector/transport"
	"payersync/mapping"
	"payersync/state"
	"payersync/state/statetest"
)

const (
	connection       = "acme"
	secondConnection = "beta" // its books come into being when a key is passed on to them
	publicHook       = "http://localhost/webhooks/billing"

	// The connector's settings; the faults stay within its limits.
	quarantine   = 15 * time.Minute
	resendWithin = 15 * time.Minute
	maxLate      = 2 * time.Minute  // how long a request may be under way
	maxSkew      = 4 * time.Minute  // how wrong the connector's clock may be, either way
	minMemory    = 25 * time.Minute // how long the service remembers a body at least

	maxStrangers = 100    // customers added by others
	maxRequests  = 20_000 // forty times the largest need of a world
)

// world is one simulated installation: the accounting system, the billing service, the network between, and
// the connector's processes with one ledger. It runs in one testing/synctest bubble on the service's clock;
// the connector's clock is skewed against it.
type world struct {
	plan    plan
	dir     string
	path    string // of the ledger
	key     string
	books   *books
	second  *books // of another connection
	service *sandbox.Sandbox
	oracle  *oracle
	logger  *logrus.Entry
	procs   []*process // the first one serves webhooks
	mapping int        // index into mappings

	// the scheduler's, the network's, everybody else's chance, that of repeated requests, the server's, and that of a
	// ledger that is carried
	steps, wires, minds, echoes, cuts, journeys *rand.Rand

	skew     time.Duration
	late     []lateCall
	taken    []keyTaken
	weather  weather   // the network's present state
	outage   time.Time // until when nothing gets through
	spells   []spell
	view     sandbox.View // the readers' present view
	jumped   bool         // the connector's clock was put far ahead at some time
	full     bool         // the disk of the ledger
	focus    string       // the customer of the present request
	nested   bool         // a step runs inside another's call
	healed   bool
	silent   bool         // nobody answers for a plan above the limits
	strikes  []strike     // certain faults
	crashes  []int        // deaths of processes at these points, each counted from the last death
	fuse     int          // points until the next of them
	passed   int          // points of all processes so far
	checked  int          // passed when the ledger was last checked
	points   int          // of the story without its healing
	requests atomic.Int64 // of all processes so far
	deaths   int
	untold   atomic.Int64 // commits followed by the process's death: the mark is behind them, and nothing left
	operator bool         // an operator asked for the request under way
	backup   *backup
	due      int             // stops due by now
	carried  int             // how often the ledger was
	held     map[string]*int // see hold
	added    int             // a number for new records
	epoch    int             // counts disturbances, so a run can detect that it had none

	order  sync.Mutex // see fence
	mu     sync.Mutex
	log    []string
	hash   uint64
	counts map[string]int // reached rare states

	listings int               // list passes begun
	newest   map[string]string // for a variant: the time of the last payload about a mandate
	bad      []violation
}

// violation is a broken invariant.
type violation struct {
	invariant string // S1, L2, …
	detail    string
	at        int // lines of the log before it
}

func (v violation) String() string { return v.invariant + ": " + v.detail }

// process is one process of the connector.
type process struct {
	w    *world
	name string
	dead atomic.Bool
	fuse atomic.Int64 // points until it dies; 0 for never

	busy     int  // steps under way on it
	draining bool // as a worker, it drains one at a time
	fetching bool // a request for a token is under way

	ledger  *state.Ledger
	billing *billing.Client
	syncer  *syncer.Syncer
	hooks   http.Handler
}

var errDead = errors.New("the process is dead")

// newWorld makes a world by plan in a folder of its own.
func newWorld(p plan, dir string, template template) (*world, error) {
	w := &world{
		plan: p, dir: dir, path: filepath.Join(dir, "ledger.db"), key: template.key, counts: map[string]int{},
		newest: map[string]string{}, held: map[string]*int{},
		books:  &books{connection: connection, tells: p.seed%2 == 0},
		second: &books{connection: secondConnection, tells: p.seed%4 < 2}, // both, one or neither
		steps:  rand.New(rand.NewPCG(p.seed, 1)), wires: rand.New(rand.NewPCG(p.seed, 2)),
		minds: rand.New(rand.NewPCG(p.seed, 3)), echoes: rand.New(rand.NewPCG(p.seed, 6)),
		cuts: rand.New(rand.NewPCG(p.seed, 15)), journeys: rand.New(rand.NewPCG(p.seed, 17)),
	}
	w.hash, w.logger = fnvStart, newLogger(w)
	if err := statetest.Copy(template.ledger, w.path); err != nil {
		return nil, err
	}
	w.service = sandbox.New(sandbox.Options{
		Now: time.Now, Seed: p.seed, TokenLife: p.tokenLife, Switches: p.switches, DiscardRequests: true,
		Deliver: &http.Client{Transport: delivery{w}},
	})
	w.oracle = newOracle(w)
	if err := w.subscribe(); err != nil {
		return nil, err
	}
	for i := range p.processes {
		w.procs = append(w.procs, &process{w: w, name: string(rune('A' + i))})
	}
	for _, proc := range w.procs {
		if err := proc.open(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// newLogger returns a logger at the lowest level, read by the oracle.
func newLogger(w *world) *logrus.Entry {
	l := logrus.New()
	l.SetLevel(logrus.TraceLevel)
	l.SetOutput(reader{w})
	return logrus.NewEntry(l)
}

// reader receives the product's log lines.
type reader struct{ w *world }

func (r reader) Write(line []byte) (int, error) {
	r.w.oracle.told("a log line", string(line))
	return len(line), nil
}

// subscribe sets the webhook up, as somebody did before the story begins.
func (w *world) subscribe() error {
	client, err := w.client(w.service.RoundTripper(), -1)
	if err != nil {
		return err
	}
	_, err = client.Subscribe(context.Background(),
		billing.Subscription{URL: publicHook, Events: []string{"customer", "dd-mandate"}, Name: "payersync"},
		billing.SetUp{Keep: func(connector.Secret) error { return nil }})
	return err
}

func (w *world) client(base http.RoundTripper, retries int) (*billing.Client, error) {
	dialect := billing.Standard()
	dialect.List.Size = 100
	return billing.New(billing.Config{
		BaseURL: "http://localhost/api", ClientID: "sandbox", ClientSecret: connector.NewSecret("sandbox-secret"),
		RedirectURL: "https://app.example.com/signed", Dialect: dialect, Now: w.now,
		HTTP: transport.New(transport.Options{
			Base: base, Retries: retries, RatePerSecond: w.plan.rate, Now: w.now, Rand: rand.New(rand.NewPCG(w.plan.seed, 4)),
			Logger: w.logger,
		}),
	})
}

// numbered adds the list pass of a page for the wire: passes overlap.
type numbered struct {
	syncer.Billing
	w *world
}

type (
	passKey struct{}
	runKey  struct{} // of a request's run
)

func (n numbered) Customers(ctx context.Context) iter.Seq2[[]connector.RemoteCustomer, error] {
	n.w.mu.Lock()
	n.w.listings++
	ctx = context.WithValue(ctx, passKey{}, n.w.listings)
	n.w.mu.Unlock()
	return n.Billing.Customers(ctx)
}

// now is the connector's clock.
func (w *world) now() time.Time { return time.Now().Add(w.skew) }

// open starts the process over the ledger, at its present place.
func (p *process) open() (err error) {
	w := p.w
	p.dead.Store(false)
	if err := w.plan.variant.unspoil(w.path); err != nil {
		return err
	}
	if p.ledger, err = state.Open(context.Background(),
		state.Options{Path: w.path, KeyFile: w.key, Now: w.now, Commit: p.commit, IdleAfter: 1000 * 24 * time.Hour}); err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	if err := w.plan.variant.spoil(w.path); err != nil {
		return err
	}
	if p.billing, err = w.client(wire{w, p}, w.plan.retries); err != nil {
		return err
	}
	wait := quarantine
	if w.plan.variant.hurried {
		wait = 0
	}
	remote := numbered{w.plan.variant.wrap(w, p.billing), w}
	p.syncer = &syncer.Syncer{
		Ledger: p.ledger, Billing: remote,
		Reconciler: &reconcile.Reconciler{
			Ledger: p.ledger, Billing: remote, Lookup: reconcile.Lookup{MaxAge: 24 * time.Hour, Quarantine: wait},
		},
		Settings: syncer.Settings{
			Workers: 1, ProbeAfter: 15 * time.Minute, Overlap: 5 * time.Minute, Grace: 20 * time.Second,
			Adopt: w.plan.adopt, Guards: w.plan.guards,
		},
	}
	return p.openHooks()
}

func (p *process) openHooks() error {
	verifier, err := billing.NewVerifier(billing.Signature{Header: "X-Signature",
		Secrets: []connector.Secret{p.w.service.WebhookSecret()}})
	if err != nil {
		return err
	}
	s, err := server.New(server.Config{Ledger: p.ledger, Keys: server.Keys{Verifier: verifier},
		Events: billing.DefaultEventPaths(), Path: "/webhooks/billing", Now: p.w.now})
	if err != nil {
		return err
	}
	p.hooks = s.Handler()
	return nil
}

func (p *process) close() error {
	if p.ledger == nil {
		return nil
	}
	err := p.ledger.Close()
	p.ledger = nil
	return err
}

// restart starts the process again after its death, like a supervisor.
func (p *process) restart() error {
	p.w.reach("restart after a crash")
	if err := p.close(); err != nil {
		return err
	}
	return p.open()
}

// commit is asked by the ledger around every commit.
func (p *process) commit(done bool) error {
	if p.dead.Load() {
		return errDead
	}
	w := p.w
	defer w.fence()
	w.sleep(time.Microsecond) // all other goroutines run first: one order for one seed
	if p.point() {
		w.logf("%s dies at a commit (done %t)", p.name, done)
		w.reach("crash at a commit")
		if done {
			w.untold.Add(1)
		}
		return errDead
	}
	if done {
		w.untold.Store(0)
	}
	if !done && w.full {
		w.reach("commit on a full disk")
		return errors.New("database or disk is full")
	}
	w.cutOff()
	return nil
}

// sleep lets the harness wait: the bubble's clock moves only when nothing else can run, so the next goroutine
// to wake runs alone.
func (w *world) sleep(d time.Duration) {
	w.fence()
	time.Sleep(d)
	w.fence()
}

// fence tells the race detector the order guaranteed by the bubble's clock: goroutines pass it one after the
// other.
func (w *world) fence() {
	w.order.Lock()
	defer w.order.Unlock()
}

// point is a possible place for the process to die; it reports whether it did.
func (p *process) point() (died bool) {
	if p.dead.Load() {
		return true
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.passed++
	if p.burn() {
		p.w.deaths++
		p.dead.Store(true)
		p.w.light()
		return true
	}
	return false
}

// burn counts a point down, on the process's own fuse and on the story's.
func (p *process) burn() (out bool) {
	if p.fuse.Load() > 0 && p.fuse.Add(-1) == 0 {
		out = true
	}
	if p.w.fuse > 0 {
		p.w.fuse--
		out = out || p.w.fuse == 0
	}
	return out
}

// light sets every process to die at the next of the placed crashes.
func (w *world) light() {
	if len(w.crashes) == 0 {
		return
	}
	w.fuse = w.crashes[0]
	w.crashes = w.crashes[1:]
}

// connection is the process's present configuration of a connection.
func (w *world) connection(b *books) syncer.Connection {
	info := booksInfo
	info.Snapshot = w.plan.snapshot
	return syncer.Connection{Name: b.connection, Source: b, Info: info, Mapping: mappings[w.mapping]}
}

// allBooks returns the connections with present or former records.
func (w *world) allBooks() []*books {
	if len(w.second.records) == 0 {
		return []*books{w.books}
	}
	return []*books{w.books, w.second}
}

// rendered is the present result of the mapping for a record.
func (w *world) rendered(r connector.Record) (mapping.Result, bool) {
	if r.State != connector.RecordActive || r.Problem != "" {
		return mapping.Result{}, false
	}
	res, err := mappings[w.mapping].Apply(r)
	return res, err == nil && res.Included && len(res.Customer.Problems()) == 0
}

func (w *world) closeAll() error {
	var errs []error
	for _, p := range w.procs {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

const fnvStart = 14695981039346656037

// aside appends a line outside of the story to the event log.
func (w *world) aside(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// logf appends a line to the event log. Two worlds with one seed have the same.
func (w *world) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := fmt.Sprintf("%s %s", time.Now().Format("02 15:04:05.000"), fmt.Sprintf(format, args...))
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, w.hash)) // never fails
	_, _ = h.Write([]byte(line))
	w.hash = h.Sum64()
	w.log = append(w.log, line)
}

// reach counts a rare state.
func (w *world) reach(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// violate notes a broken invariant; the first is what a seed is judged by.
func (w *world) violate(invariant, format string, args ...any) {
	v := violation{invariant: invariant, detail: fmt.Sprintf(format, args...)}
	w.mu.Lock()
	v.at = len(w.log)
	known := slices.ContainsFunc(w.bad,
		func(b violation) bool { return b.invariant == v.invariant && b.detail == v.detail })
	if !known {
		w.bad = append(w.bad, v)
	}
	w.mu.Unlock()
	if !known {
		w.logf("VIOLATION %s", v)
	}
}

func cloneSet(in map[string]bool) map[string]bool {
	out := make(map[string]bool, len(in))
	for k := range in {
		out[k] = true
	}
	return out
}
