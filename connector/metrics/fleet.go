package metrics

import (
	"context"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Fleet holds the metrics of a process for many accounts: its own, the events of all accounts together, and
// the problems of accounts that need attention. It is safe for concurrent use.
type Fleet struct {
	process  *prometheus.Registry
	accounts *Metrics
}

// NewFleet returns the metrics of a process that has done nothing yet. version and commit are those of the program.
func NewFleet(version, commit string) *Fleet {
	f := &Fleet{process: prometheus.NewRegistry(), accounts: newMetrics()}
	f.accounts.together = true
	f.process.MustRegister(ofProcess(version, commit)...)
	return f
}

// Accounts returns the metrics of all accounts together.
func (f *Fleet) Accounts() *Metrics { return f.accounts }

// Handler returns the handler of Path alone.
func (f *Fleet) Handler() http.Handler { return handler(f.Gatherer()) }

// Gatherer returns the metrics of Handler.
func (f *Fleet) Gatherer() prometheus.Gatherer {
	return prometheus.Gatherers{f.process, f.accounts.registry}
}

// FleetFacts are a process's facts about all accounts and nodes.
type FleetFacts struct {
	Nodes    map[string]int                // by their states; nil if unknown
	Accounts map[string]int                // by their state on this node: open, closed or not_open
	Unopened []string                      // names of accounts that could not be opened
	Needing  map[string][]AccountCondition // by the names of accounts that need attention; nil if unknown
}

// AccountCondition is a problem of an account.
type AccountCondition struct {
	Code   string
	Urgent bool
}

var (
	descNodes = desc("nodes",
		"Nodes that work on the accounts of the database, as all of them see it: at work, stopping, or lost, which is kept for a day.", "state")
	descAccounts = desc("accounts",
		"Accounts that this node serves: open, closed until they have work, or not_open, which could not be opened.", "state")
	descAccount = desc("account_open",
		"0 for an account that could not be opened on this node when it had work; the log says why. Others have no series.",
		"account")
	descNeed = desc("accounts_need_somebody",
		"Accounts at which somebody should look, as the last look of any node found. The status command names them.")
	descCondition = desc("account_condition",
		"1 while the newest check of an account found this problem. Accounts at which nobody should look have no series.",
		"account", "code", "urgent")
)

// fleetFollower is a collector of FleetFacts.
type fleetFollower struct {
	read func(context.Context) FleetFacts
}

// Follow adds the facts of read from now on.
func (f *Fleet) Follow(read func(context.Context) FleetFacts) {
	f.process.MustRegister(fleetFollower{read})
}

// Describe implements prometheus.Collector.
func (fleetFollower) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descNodes, descAccounts, descAccount, descNeed, descCondition} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (f fleetFollower) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	facts, p := f.read(ctx), page{out}
	for s, n := range facts.Nodes {
		p.gauge(descNodes, float64(n), s)
	}
	for s, n := range facts.Accounts {
		p.gauge(descAccounts, float64(n), s)
	}
	for _, account := range facts.Unopened {
		p.flag(descAccount, false, account)
	}
	if facts.Needing == nil {
		return
	}
	p.gauge(descNeed, float64(len(facts.Needing)))
	for account, conditions := range facts.Needing {
		for _, c := range conditions {
			p.flag(descCondition, true, account, c.Code, strconv.FormatBool(c.Urgent))
		}
	}
}
