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
