// Package metrics exposes payersync's activity and its ledger's facts to Prometheus. It decides nothing and
// stores nothing:
//
//	requests, commits, webhooks, sweeps ─ told as they happen ─▶ live  ─┐
//	the ledger, the configuration ─ asked for, at most so often ─▶ facts ┴─▶ /metrics
//
// Facts of the ledger survive a restart and include the work of other processes. The live part covers this
// process alone.
//
// The page asks for no password. So every value of a label is one of a bounded set: an operator's name for a
// connection, a word of ours, or, cleaned and bounded in number, a status of the billing service's own. No
// id, address, name of a payer or other personal value is among them. Alerting rules interpret the numbers.
package metrics

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"payersync/connector/reconcile"
	"payersync/connector/server"
	"payersync/connector/transport"
)

// Path is where Handler shows the metrics.
const Path = "/metrics"

// The systems that requests go to.
const (
	Billing = "billing"
	Source  = "source"
)

const (
	maxOperations = 64      // with labels of their own; no system has as many
	other         = "other" // beyond a limit
	maxScrapes    = 4       // answered at a time
)

// Metrics counts one process's events, and shows them with the ledger's facts. It is safe for concurrent use.
// A nil *Metrics counts nothing.
type Metrics struct {
	registry  *prometheus.Registry
	together  bool // it counts for many accounts: their connections are not told apart
	requests  *prometheus.HistogramVec
	webhooks  *prometheus.CounterVec
	reflected prometheus.Histogram
	commits   prometheus.Histogram
	failed    prometheus.Counter
	repaired  prometheus.Counter
	drifted   prometheus.Counter
	found     *prometheus.GaugeVec

	mu         sync.Mutex
	operations map[string]bool
}

// New returns metrics of a process that has done nothing yet. version and commit are
// those of the program.
func New(version, commit string) *Metrics {
	m := newMetrics()
	m.registry.MustRegister(ofProcess(version, commit)...)
	return m
}

// ofProcess are the metrics of the process itself.
func ofProcess(version, commit string) []prometheus.Collector {
	built := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "payersync_build_info", Help: "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "goversion": runtime.Version()},
	})
	built.Set(1)
	return []prometheus.Collector{built, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
}

// newMetrics returns metrics of one ledger, or of all accounts' ledgers.
func newMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), operations: map[string]bool{},
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "payersync_request_duration_seconds",
			Help: "How long requests took, each attempt by itself; by the class of the answer's status, 429 apart, or why none came. Waits before a request leaves are not counted.",

			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"system", "connection", "operation", "status"}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "payersync_webhook_requests_total",
			Help: "Requests to the webhook endpoint, by how they ended; only accepted and repeated were taken in.",
		}, []string{"outcome"}),
		reflected: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "payersync_webhook_reflect_duration_seconds",
			Help: "Time from the receipt of a webhook until the ledger showed what the service then said; of several for one customer the longest.",

			Buckets: []float64{1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21600},
		}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "payersync_ledger_commit_duration_seconds",
			Help: "How long it took until a commit to the ledger was durable on the disk.",

			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "payersync_ledger_commit_failures_total",
			Help: "Commits that the ledger did not take, so that nothing of them was kept.",
		}),
		repaired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "payersync_sweep_repaired_total",
			Help: "Mandates whose status a sweep of this process found changed, without a webhook that had told.",
		}),
		drifted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "payersync_sweep_drifted_total",
			Help: "Customers that a sweep of this process found changed by somebody else in the billing service.",
		}),
		found: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "payersync_sweep_found",
			Help: "What the last sweep of this process found amiss: linked customers that no longer exist (missing), customers that exist and are not listed (unlisted), payers whose key several customers carry (doubled).",
		}, []string{"finding"}),
	}
	m.registry.MustRegister(m.requests, m.webhooks, m.reflected, m.commits, m.failed, m.repaired, m.drifted, m.found)
	for _, o := range server.Outcomes() {
		m.webhooks.WithLabelValues(string(o)) // start at 0, or the first event would not show as an increase
	}
	return m
}

// Follow adds the facts of read from now on: see [Facts].
func (m *Metrics) Follow(read func(context.Context) (Facts, error)) {
	if m != nil {
		m.registry.MustRegister(newFollower(read, time.Now))
	}
}

// Handler returns the handler of Path alone.
func (m *Metrics) Handler() http.Handler { return handler(m.registry) }

func handler(of prometheus.Gatherer) http.Handler {
	page := promhttp.HandlerFor(of,
		promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != Path:
			w.WriteHeader(http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			page.ServeHTTP(w, r)
		}
	})
}

// Gatherer returns the metrics of Handler, for tests.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Requests returns the observer of every attempt to send a request to a system, for a connection if it is a
// source's. operation is the purpose of attempts without one.
func (m *Metrics) Requests(system, connection, operation string) func(transport.CallAttempt) {
	if m == nil {
		return nil
	}
	if m.together {
		connection = ""
	}
	return func(a transport.CallAttempt) {
		a.Operation = cmp.Or(a.Operation, operation)
		m.requests.WithLabelValues(system, connection, m.bounded(a.Operation), statusOf(a)).Observe(a.Took.Seconds())
	}
}

// bounded returns the label of an operation; those above the limit share one.
func (m *Metrics) bounded(operation string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if operation == "" || !m.operations[operation] && len(m.operations) >= maxOperations {
		return other
	}
	m.operations[operation] = true
	return operation
}

// statusOf returns the class of an answer, or why there is none.
func statusOf(a transport.CallAttempt) string {
	switch class := a.Status / 100; {
	case a.Reason != "":
		return string(a.Reason)
	case a.Status == http.StatusTooManyRequests:
		return strconv.Itoa(a.Status)
	case class >= 1 && class <= 5:
		return strconv.Itoa(class) + "xx"
	}
	return other
}

// Webhook counts a request to the webhook endpoint.
func (m *Metrics) Webhook(o server.RequestOutcome) {
	if m != nil {
		m.webhooks.WithLabelValues(string(o)).Inc()
	}
}

// Reflected counts a customer whose webhooks were reflected, the first of them after so
// long.
func (m *Metrics) Reflected(waited time.Duration) {
	if m != nil {
		m.reflected.Observe(waited.Seconds())
	}
}

// Swept counts a sweep's findings.
func (m *Metrics) Swept(r reconcile.SweepResult) {
	if m == nil {
		return
	}
	m.repaired.Add(float64(r.Repaired))
	m.drifted.Add(float64(r.Drifted))
	if m.together { // the last of them would stand for all
		return
	}
	for finding, n := range map[string]int{"missing": r.Missing, "unlisted": r.Unlisted, "doubled": r.Doubled} {
		m.found.WithLabelValues(finding).Set(float64(n))
	}
}

// Committing is called when a commit begins, and returns a function for its end.
func (m *Metrics) Committing() (ended func(error)) {
	began := time.Now()
	return func(err error) {
		if err != nil {
			m.failed.Inc()
			return
		}
		m.commits.Observe(time.Since(began).Seconds())
	}
}
