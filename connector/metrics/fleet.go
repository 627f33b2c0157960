package metrics

import (
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Fleet is what a process shows that works for many accounts: its own metrics, and those of each account
// with its name as the label account. It is safe for concurrent use.
type Fleet struct {
	process *prometheus.Registry

	mu sync.Mutex
	of map[string]*Metrics
}

// NewFleet returns the metrics of a process that works for no account yet. version and commit are
// those of the program.
func NewFleet(version, commit string) *Fleet {
	f := &Fleet{process: prometheus.NewRegistry(), of: map[string]*Metrics{}}
	f.process.MustRegister(ofProcess(version, commit)...)
	return f
}

// Account returns new metrics of an account, in the place of those that it had before.
func (f *Fleet) Account(name string) *Metrics {
	m := newMetrics(prometheus.Labels{"account": name})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[name] = m
	return m
}

// Leave shows an account no more.
func (f *Fleet) Leave(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, name)
}

// Handler returns what answers at Path, and at nothing else.
func (f *Fleet) Handler() http.Handler { return handler(f.Gatherer()) }

// Gatherer gives what Handler shows.
func (f *Fleet) Gatherer() prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all := prometheus.Gatherers{f.process}
		f.mu.Lock()
		for _, m := range f.of {
			all = append(all, m.registry)
		}
		f.mu.Unlock()
		return all.Gather()
	})
}

// FleetFacts are what a process knows of all accounts and of its like.
type FleetFacts struct {
	Nodes map[string]int  // by their states; nil where that cannot be learned
	Open  map[string]bool // accounts that are to be open on every node, and whether they are on this one
}

var (
	descNodes   = desc("nodes", "Nodes that work on the accounts of the database, as all of them see it: at work, stopping, or lost, which is kept for a day.", "state")
	descAccount = desc("account_open", "1 when the account is open on this node; at 0 nothing is done for it here, and the log says why.", "account")
)

// fleetFollower is a collector of what a process knows of its like.
type fleetFollower struct {
	read func() FleetFacts
}

// Follow shows from now on what read finds, too.
func (f *Fleet) Follow(read func() FleetFacts) {
	f.process.MustRegister(fleetFollower{read})
}

// Describe implements prometheus.Collector.
func (fleetFollower) Describe(out chan<- *prometheus.Desc) { out <- descNodes; out <- descAccount }

// Collect implements prometheus.Collector.
func (f fleetFollower) Collect(out chan<- prometheus.Metric) {
	facts, p := f.read(), page{out}
	for s, n := range facts.Nodes {
		p.gauge(descNodes, float64(n), s)
	}
	for account, open := range facts.Open {
		p.flag(descAccount, open, account)
	}
}
