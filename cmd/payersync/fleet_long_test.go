package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/connector"
	"payersync/state"
	"payersync/state/statetest"
)

var (
	nodeKills  = flag.Int("node-kills", 0, "how often a node of three is killed during a backfill; 0 leaves that test out")
	nodePayers = flag.Int("node-payers", 2000, "of how many payers that backfill is")
	nodeApart  = flag.Duration("node-apart", 0,
		"kill by the clock, twice in this time on average; 0 kills by what was sent")
	nodeSleeps = flag.Bool("node-sleeps", false, "let a node stand still for longer than a run's lease")
)

// within is how long the work of a lost node may wait: until the node is lost and the lease of its run is
// over.
const within = 4 * time.Minute

// patiently is eventually for what a lost node holds up.
func patiently(t testing.TB, what string, done func() bool) {
	t.Helper()
	longWait(t, within, what, done)
}

func longWait(t testing.TB, patience time.Duration, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}

// Nodes die at any moment of a backfill and are started again; each payer is made once, and what was
// acknowledged is reflected.
//
// covers F185
func TestNodesThatAreKilledMakeEachPayerOnce(t *testing.T) {
	t.Parallel()
	if *nodeKills == 0 {
		t.Skip("it takes minutes: run with -node-kills N")
	}
	random := seeded(t)
	payers := map[string]int{"acme": *nodePayers, "beta": *nodePayers / 10}
	c := newCluster(t, 3, payers)
	c.apply()
	token, w := c.token("acme"), c.accounts["acme"]
	nodes := []*process{c.serve(0), c.serve(1), c.serve(2)}
	// mandates that a webhook said to be signed, by their payers
	told := map[string]string{}
	planned := within + time.Duration(*nodePayers)*20*time.Millisecond // nothing is sent before all are
	made := func() bool { return w.box.Writes() >= 2**nodePayers }
	stands, during := w.standstill(), 0
	for i := range *nodeKills {
		come := w.moment(random, 2**nodePayers / *nodeKills)
		if *nodeApart > 0 {
			at := time.Now().Add(time.Duration(random.Int64N(int64(*nodeApart))))
			come = func() bool { return time.Now().After(at) }
		}
		longWait(t, planned, "the moment to kill", func() bool { stands(); return come() || made() })
		if !made() {
			during++
		}
		n := random.IntN(len(nodes))
		nodes[n].signal(syscall.SIGKILL)
		nodes[n].wait()
		if at := (n + 1) % len(nodes); i%5 == 0 {
			if customers := w.box.Customers(); len(customers) > 0 {
				one := customers[random.IntN(len(customers))]
				if len(one.Mandates) > 0 && one.Mandates[0].Status == connector.MandateCreated {
					w.must(w.box.Sign(one.Mandates[0].ID))
					if c.deliver(at, token, w.delivery(event(fmt.Sprint("evt-", i), one.ID))) == http.StatusOK {
						told[one.ExternalData["accountNumber"]] = one.Mandates[0].ID
					}
				}
			}
		}
		nodes[n] = c.serve(n)
	}
	killed := time.Now()
	longWait(t, planned, "all payers", func() bool {
		stands()
		return len(w.box.Customers()) == payers["acme"] && len(c.accounts["beta"].box.Customers()) == payers["beta"]
	})
	t.Logf("all were made %v after the last of %d kills, of which %d came while it was at work; it stood still for %v at most",
		time.Since(killed).Round(time.Second), *nodeKills, during, stands().Round(time.Second))
	for name, n := range payers {
		box := c.accounts[name].box
		longWait(t, planned, "the requests for mandates of "+name, func() bool { return box.Writes() >= 2*n })
		longWait(t, planned, "the mandates of "+name, func() bool {
			asked := 0
			for _, status := range c.linked(name) {
				if status != "" {
					asked++
				}
			}
			return asked == n
		})
	}
	c.expectOnce(payers)
	linked := c.linked("acme")
	for number, id := range told {
		if truth, ok := w.box.Mandate(id); !ok || linked[number] != string(truth.Status) {
			t.Errorf("payer %s is %s, although a webhook that says it is %s was acknowledged", number, linked[number],
				truth.Status)
		}
	}
	t.Logf("%d webhooks were acknowledged meanwhile", len(told))
	for _, name := range c.names {
		c.expectTakenUp(name)
		if r := c.accounts[name].run("ledger", "verify", "--account", name); r.code != exitDone {
			t.Errorf("the ledger of %s: %s%s", name, r.out, r.errOut)
		}
	}
}

// expectTakenUp fails if another node took over a lost node's run later than the queue's limit.
func (c *cluster) expectTakenUp(name string) {
	c.t.Helper()
	waited := statetest.Ask(c.t, c.read("database"), name,
		`SELECT count(*) || ' lost runs were taken up, the last ' || coalesce(max(extract(epoch FROM finished_at::timestamptz - lease_until::timestamptz))::bigint, 0)
		|| ' s after its lease: ' || (coalesce(max(finished_at::timestamptz - lease_until::timestamptz), '0') <= interval '4 minutes')
		FROM main.runs WHERE outcome = 'incomplete' AND finished_at > lease_until`)
	c.t.Logf("%s: %s", name, waited)
	if !strings.HasSuffix(waited, ": true") {
		c.t.Errorf("%s: a run of a lost node waited too long", name)
	}
}

// standstill returns a function to call now and then: it returns the longest time without a request since the
// first changing one.
func (w *world) standstill() func() time.Duration {
	var longest time.Duration
	writes, since := 0, time.Now()
	return func() time.Duration {
		if now := w.box.Writes(); now > writes {
			writes, since = now, time.Now()
		} else if writes > 0 && now < 2**nodePayers {
			longest = max(longest, time.Since(since))
		}
		return longest
	}
}

// A node that stands still while its run's lease runs out finds another's run when it wakes up, and sends nothing
// more for its own.
//
// covers F184
func TestANodeThatSleptThroughItsLeaseSendsNothingMore(t *testing.T) {
	t.Parallel()
	if !*nodeSleeps {
		t.Skip("it takes minutes: run with -node-sleeps")
	}
	payers := map[string]int{"acme": *nodePayers}
	c := newCluster(t, 2, payers)
	c.apply()
	w := c.accounts["acme"]
	sleeper := c.serve(0)
	patiently(t, "the run to be at work", func() bool { return len(w.box.Customers()) > 20 })
	sleeper.signal(syscall.SIGSTOP)
	other := c.serve(1)
	slept := time.Now()
	patiently(t, "the other node to go on",
		func() bool { return time.Since(slept) > state.Lease && len(w.box.Customers()) == *nodePayers })
	t.Logf("the other node was done %v after the first stood still", time.Since(slept).Round(time.Second))
	sleeper.signal(syscall.SIGCONT)
	c.awaitMandates(payers)
	c.expectOnce(payers)
	for _, p := range []*process{sleeper, other} {
		p.signal(syscall.SIGTERM)
		p.wait()
	}
}

// memory returns what the process has in memory, and had at most.
func (p *process) memory() string {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(out, ", ")
}
