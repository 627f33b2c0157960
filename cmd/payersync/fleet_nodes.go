package main

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"payersync/cmd/payersync/internal/config"
	"payersync/connector"
	"payersync/connector/metrics"
	"payersync/connector/queue"
	"payersync/connector/server"
	"payersync/state"
)

// nodeName returns the name of a node: its machine's, and a port to tell it from others on that machine.
func nodeName(c config.Server) string {
	name, _ := os.Hostname() // a machine without one has a node without a name
	for _, address := range []string{c.Webhooks, c.Health, c.Admin, c.Metrics} {
		if _, port, err := net.SplitHostPort(address); err == nil && port != "0" {
			return net.JoinHostPort(name, port)
		}
	}
	return name
}

// presence is the node's entry in the database's list of nodes.
func (f *fleet) presence() queue.Presence {
	p := queue.Presence{Name: nodeName(f.node.Server), Pages: f.node.Server.PagesScheme(), Version: version,
		Addresses: f.addresses, Runs: f.queue.Runs()}
	open, unopened := f.opened()
	p.Accounts = open
	p.Unopened = append(p.Unopened, connector.Map(unopened, func(a state.AccountInfo) int64 { return a.ID })...)
	return p
}

// opened returns the number of accounts open on this node, and those with work that could not be opened, by
// their numbers.
func (f *fleet) opened() (open int, unopened []state.AccountInfo) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for id := range f.failed {
		if row, known := f.known.byID[id]; known && f.members[id] == nil {
			unopened = append(unopened, row)
		}
	}
	slices.SortFunc(unopened, func(a, b state.AccountInfo) int { return cmp.Compare(a.ID, b.ID) })
	return len(f.members), unopened
}

// nodesEvery is the time between checks for other nodes.
const nodesEvery = 10 * time.Second

// watchNodes checks the nodes repeatedly, and logs lost and recovered ones, until ctx ends.
func (f *fleet) watchNodes(ctx context.Context) {
	tick := time.NewTicker(nodesEvery)
	defer tick.Stop()
	lost := map[string]queue.Node{}
	for {
		within, cancel := context.WithTimeout(ctx, answersWithin)
		nodes, err := f.queue.Nodes(within)
		cancel()
		if err != nil {
			nodes = nil // others say so
		}
		f.mu.Lock()
		f.nodes = nodes
		f.mu.Unlock()
		if err == nil {
			f.logLostNodes(nodes, lost)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// logLostNodes logs each node lost since the last call, and each that is back or forgotten; lost holds the lost
// ones so far.
func (f *fleet) logLostNodes(nodes []queue.Node, lost map[string]queue.Node) {
	now := map[string]queue.Node{}
	for _, n := range nodes {
		if n.State() != queue.Lost {
			continue
		}
		now[n.ID] = n
		if _, known := lost[n.ID]; !known {
			f.log.WithFields(logrus.Fields{"node": n.Name,
				"seen": n.SeenAt}).Error("a node is lost, and other nodes continue its work. Start it again, or remove it: payersync nodes forget NAME")
		}
	}
	for id, n := range lost {
		if _, still := now[id]; !still {
			f.log.WithField("node", n.Name).Info("the lost node is back or removed")
		}
	}
	clear(lost)
	maps.Copy(lost, now)
}

// numbers are the metrics of nodes, as seen last, of accounts, and of those with a problem.
func (f *fleet) numbers(ctx context.Context) metrics.FleetFacts {
	open, unopened := f.opened()
	facts := metrics.FleetFacts{Accounts: map[string]int{}}
	facts.Unopened = append(facts.Unopened, connector.Map(unopened, func(a state.AccountInfo) string { return a.Name })...)
	needing, err := f.server.Summaries(ctx, true)
	f.mu.RLock()
	defer f.mu.RUnlock()
	facts.Accounts = map[string]int{"open": open, "not_open": len(unopened),
		"closed": f.known.size() - open - len(unopened)}
	if err == nil {
		facts.Needing = map[string][]metrics.AccountCondition{}
		for id, a := range needing {
			if row, known := f.known.byID[id]; known {
				facts.Needing[row.Name] = conditionsOf(a)
			}
		}
	}
	if f.nodes == nil { // they cannot be looked at now
		return facts
	}
	facts.Nodes = map[string]int{}
	for _, s := range queue.NodeStates {
		facts.Nodes[string(s)] = 0
	}
	for _, n := range f.nodes {
		facts.Nodes[string(n.State())]++
	}
	return facts
}

// conditionsOf returns an account's conditions at the last check, each code once.
func conditionsOf(a state.AccountSummary) (out []metrics.AccountCondition) {
	var r accountStatus
	_ = json.Unmarshal([]byte(a.Text), &r) // nodes alone write it
	for _, c := range r.Conditions {
		one := metrics.AccountCondition{Code: string(c.Code), Urgent: c.Urgent}
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

// nodeReadiness is the answer of a node's /readyz. It names no account: the listener may be public.
type nodeReadiness struct {
	State    string   `json:"state"`            // ok, degraded or failing
	Reason   string   `json:"reason,omitempty"` // why it is failing, in plain words
	Degraded []string `json:"degraded"`
	Accounts struct {
		Open    int `json:"open"`     // now; others are opened when they have work
		NotOpen int `json:"not_open"` // accounts that could not be opened
	} `json:"accounts"`
}

const (
	answersWithin = 3 * time.Second // the longest wait for the database while a person waits
	askedAgain    = time.Second     // the page is open to strangers
)

// readyPage answers whether a node can work. It queries the database once for all concurrent requests.
type readyPage struct {
	inspect func(context.Context) nodeReadiness
	now     func() time.Time

	mu    sync.Mutex
	asked time.Time // when the last answer came
	last  nodeReadiness
}

func (p *readyPage) answer(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if age := p.now().Sub(p.asked); p.asked.IsZero() || age < 0 || age >= askedAgain {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), answersWithin)
		p.last = p.inspect(ctx)
		cancel()
		p.asked = p.now()
	}
	ready := p.last
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if ready.State == "failing" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(ready) // a gone caller needs no error
}

// ready says whether the node can work. An account that cannot be opened here stops no other.
func (f *fleet) ready(ctx context.Context) nodeReadiness {
	out := nodeReadiness{State: "ok", Degraded: []string{}}
	open, unopened := f.opened()
	out.Accounts.Open, out.Accounts.NotOpen = open, len(unopened)
	switch {
	case f.server.Ping(ctx) != nil:
		out.State, out.Reason = "failing",
			"the ledgers' database does not answer, or accepts no writes: it may be down, or wait for a standby that is away"
	case !f.queue.Alive():
		out.State, out.Reason = "failing", "the queue of jobs stands still; the log says more"
	case out.Accounts.NotOpen > 0:
		out.State, out.Degraded = "degraded", append(out.Degraded, "accounts_not_open")
	}
	if f.lagging() && out.State != "failing" {
		out.State, out.Degraded = "degraded", append(out.Degraded, "accounts_not_in_force")
	}
	return out
}

// lagging reports whether an account is open here with outdated files or an outdated state.
func (f *fleet) lagging() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for id := range f.failed {
		if f.members[id] != nil {
			return true
		}
	}
	return false
}

// health says that the process is alive, and whether the node can work.
func (f *fleet) health(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case server.HealthPath:
	case server.ReadyPath:
		f.readyPage.answer(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
