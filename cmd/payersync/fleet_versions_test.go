package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"payersync/connector"
)

var (
	nodeVersions = flag.Duration("node-versions", 0,
		"for how long a node of an earlier version serves beside one of this; 0 leaves that test out")
	nodeOlder = flag.String("node-older", "", "the program of that earlier version")
)

// mixed is a cluster with one node of an earlier version.
type mixed struct {
	*cluster
	payers map[string]int

	older sync.RWMutex                 // held to write while the older node is started anew
	given int                          // webhooks
	told  map[string]map[string]string // the customers of which one came, by account and payer
}

// Nodes of two versions serve the same accounts for as long as an upgrade may take, the older one started anew now and
// then: no job of the queue fails or is left to nobody, each webhook is reflected, no time is missed, and each payer is
// made once.
//
// covers F191
func TestNodesOfTwoVersionsServeTheSameAccounts(t *testing.T) {
	t.Parallel()
	switch {
	case *nodeVersions == 0:
		t.Skip("it takes as long as it is given: run with -node-versions DURATION -node-older PROGRAM")
	case *nodeOlder == "":
		t.Skip("there is no earlier version: name its program with -node-older")
	}
	m := &mixed{payers: map[string]int{"acme": 5, "beta": 7, "gamma": 9}, told: map[string]map[string]string{}}
	m.cluster = newCluster(t, 2, m.payers)
	m.apply()
	older := []*process{m.serveOf(*nodeOlder, 0)}
	newer := m.serve(1)
	m.awaitMandates(m.payers)
	t.Log(versionsOf(m.cluster))
	from := time.Now()
	m.meanwhile(seeded(t), func() {
		restart, grow := time.NewTicker(*nodeVersions/10), time.NewTicker(time.Minute)
		defer restart.Stop()
		defer grow.Stop()
		for over := time.After(*nodeVersions); ; {
			select {
			case <-over:
				return
			case <-grow.C:
				m.grow()
			case <-restart.C:
				m.older.Lock()
				older[len(older)-1].signal(syscall.SIGTERM)
				older[len(older)-1].wait()
				older = append(older, m.serveOf(*nodeOlder, 0))
				m.older.Unlock()
			}
		}
	})
	t.Logf("%d webhooks were given, and the older node was started %d times", m.given, len(older))
	m.awaitMandates(m.payers)
	m.expectInTime(m.payers, from, m.given)
	m.expectOnce(m.payers)
	m.expectTold()
	m.expectSoundJobs()
	for i, p := range append(older, newer) {
		p.signal(syscall.SIGTERM)
		if r := p.wait(); r.code != exitDone || p == newer && strings.Contains(r.errOut, `"level":"error"`) {
			t.Errorf("process %d ended with %d", i, r.code)
		}
		p.complaints(i)
	}
}

// versionsOf returns the versions of the nodes.
func versionsOf(c *cluster) (of string) {
	c.t.Helper()
	for _, row := range decodeLines[nodeRow](c.t, c.expect(exitDone, "nodes", "list", "--output", "json")) {
		of += fmt.Sprintf("%s is of %s. ", strings.Join(row.Addresses, ", "), row.Version)
	}
	return of
}

// grow puts one more payer into each account's books.
func (m *mixed) grow() {
	for _, name := range m.names {
		m.payers[name]++
		m.accounts[name].export(people(m.payers[name])...)
	}
}

// meanwhile lets webhooks come to both nodes until do returns.
func (m *mixed) meanwhile(random *rand.Rand, do func()) {
	m.t.Helper()
	paths, over := map[string]string{}, make(chan struct{})
	for _, name := range m.names {
		paths[name], m.told[name] = m.token(name), map[string]string{}
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				name := m.names[random.IntN(len(m.names))]
				m.tell(random, name, paths[name])
			}
		}
	})
	do()
	close(over)
	sending.Wait()
}

// tell sends one webhook of an account, to the newer node if the older is not running.
func (m *mixed) tell(random *rand.Rand, name, path string) {
	node := 1
	if m.older.TryRLock() {
		defer m.older.RUnlock()
		node = m.given % 2
	}
	w := m.accounts[name]
	customers := w.box.Customers()
	one := customers[random.IntN(len(customers))]
	if len(one.Mandates) == 0 {
		return
	}
	if one.Mandates[0].Status == connector.MandateCreated {
		w.must(w.box.Sign(one.Mandates[0].ID))
	}
	if got := m.deliver(node, path, w.delivery(event(fmt.Sprint("evt-", m.given), one.ID))); got != http.StatusOK {
		m.t.Errorf("a webhook of %s was answered %d by node %d", name, got, node)
	}
	m.given++
	m.told[name][one.ExternalData["accountNumber"]] = one.ID
}

// expectTold fails unless the ledgers have what the webhooks told.
func (m *mixed) expectTold() {
	m.t.Helper()
	for name, told := range m.told {
		linked := m.linked(name)
		for number, customer := range told {
			if want := string(sandboxStatus(m.accounts[name], customer)); linked[number] != want {
				m.t.Errorf("payer %s of %s is %s, although a webhook was acknowledged that came when it was %s", number, name,
					linked[number], want)
			}
		}
	}
}

// expectSoundJobs fails if a job of the queue failed, was given up, or waits for a capable node.
func (m *mixed) expectSoundJobs() {
	m.t.Helper()
	m.exec(`DO $$ DECLARE bad text; BEGIN
		SELECT string_agg(format('%s %s is %s after %s: %s', kind, args, state, attempt, array_to_string(errors, ' ')), E'\n') INTO bad FROM river.river_job
			WHERE state IN ('discarded', 'cancelled', 'retryable') OR cardinality(errors) > 0 OR finalized_at IS NULL AND scheduled_at < now() - interval '2 minutes';
		IF bad <> '' THEN RAISE EXCEPTION 'jobs of the queue: %', bad; END IF;
	END $$`)
}
