package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/connector/sandbox"
	"payersync/state"
	"payersync/state/statetest"
)

// readWithin is how long webhooks of a lost node may wait: a minute until it is lost, plus the others' time
// to notice and to read.
const readWithin = 90 * time.Second

// One of three nodes dies while it reads webhooks. The others read them all, each once.
//
// covers F185
func TestWebhooksOfAKilledNodeAreReadWithinNinetySeconds(t *testing.T) {
	t.Parallel()
	if *nodeKills == 0 {
		t.Skip("it takes minutes: run with -node-kills N")
	}
	const webhooks = 98
	payers := map[string]int{"acme": webhooks}
	c := newCluster(t, 3, payers)
	c.apply()
	w, path := c.accounts["acme"], c.token("acme")
	nodes := []*process{c.serve(0), c.serve(1), c.serve(2)}
	c.awaitMandates(payers)
	c.configure("acme", "0 0 1 1 *") // nothing but webhooks tells of a signature from now on
	c.apply()
	w.box.Inject(sandbox.Fault{Kind: sandbox.Slow, Method: http.MethodGet, Path: "/api/customers/*",
		Delay: 3 * time.Second})
	customers := w.box.Customers()
	for i, customer := range customers {
		w.must(w.box.Sign(customer.Mandates[0].ID))
		if status := c.deliver(i%len(nodes), path,
			w.delivery(event(fmt.Sprint("evt-", i), customer.ID))); status != http.StatusOK {
			t.Fatalf("webhook %d was answered %d", i, status)
		}
	}
	victim := -1
	eventually(t, "a node to read the webhooks", func() bool {
		at := statetest.Ask(t, c.read("database"), "acme",
			`SELECT coalesce(max(n.addresses::text), '') FROM river.river_job j JOIN river.nodes n ON n.node_id = j.attempted_by[cardinality(j.attempted_by)]
			WHERE j.kind = 'drain' AND j.state = 'running'`)
		for i, address := range c.hooks {
			if strings.Contains(at, address) {
				victim = i
			}
		}
		return victim >= 0
	})
	nodes[victim].signal(syscall.SIGKILL)
	nodes[victim].wait()
	killed := time.Now()
	w.box.ClearFaults()
	linked := func() (n int) {
		for i, status := range c.linked("acme") {
			if status == w.mandateStatusOf(i) {
				n++
			}
		}
		return n
	}
	t.Logf("%d of %d were read when node %d was killed", linked(), webhooks, victim)
	longWait(t, readWithin, "all webhooks to be read", func() bool { return linked() == webhooks })
	t.Logf("all were read %v after the kill", time.Since(killed).Round(time.Second))
	there := map[string]int{}
	for _, d := range decodeLines[state.InboxRow](t,
		c.expect(exitDone, "webhooks", "list", "--account", "acme", "--limit", "0", "--output", "json")) {
		there[d.DeliveryKey]++
	}
	for key, n := range there {
		if n != 1 {
			t.Errorf("%s is there %d times", key, n)
		}
	}
	if len(there) != webhooks {
		t.Errorf("%d webhooks are there, want %d", len(there), webhooks)
	}
	c.expectOnce(payers)
}

// mandateStatusOf returns the service's status of a payer's mandate.
func (w *world) mandateStatusOf(number string) (status string) {
	for _, customer := range w.box.Customers() {
		if customer.ExternalData["accountNumber"] == number {
			status = string(customer.Mandates[0].Status)
		}
	}
	return status
}
