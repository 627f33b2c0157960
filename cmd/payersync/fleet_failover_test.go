package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"payersync/state"
	"payersync/state/statetest"
)

// Webhooks come to two nodes all the time while their database's server is lost and its standby takes its place. What
// was answered 200 is in the inbox, once; the nodes go on without a restart.
//
// covers F190
func TestNoAcknowledgedWebhookIsLostInAFailover(t *testing.T) {
	t.Parallel()
	payers := map[string]int{"acme": 3}
	pair := statetest.NewPair(t)
	c := newClusterOn(t, pair.Address, 2, payers)
	c.apply()
	nodes := []*process{c.serve(0), c.serve(1)}
	c.awaitMandates(payers)
	w, path := c.accounts["acme"], c.token("acme")
	customer := w.box.Customers()[0].ID
	var (
		mu      sync.Mutex
		acked   [2]map[string]bool
		senders sync.WaitGroup
	)
	over := make(chan struct{})
	for i := range c.hooks {
		acked[i] = map[string]bool{}
		senders.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				id := fmt.Sprintf("evt-%d-%d", i, n)
				if c.deliver(i, path, w.delivery(event(id, customer))) == http.StatusOK {
					mu.Lock()
					acked[i][id] = true
					mu.Unlock()
				}
			}
		})
	}
	count := func() (each [2]int) {
		mu.Lock()
		defer mu.Unlock()
		return [2]int{len(acked[0]), len(acked[1])}
	}
	eventually(t, "deliveries to both", func() bool { n := count(); return n[0] > 50 && n[1] > 50 })
	pair.Lose()
	pair.Promote()
	promoted, before := time.Now(), count()
	eventually(t, "both nodes to take deliveries again",
		func() bool { n := count(); return n[0] > before[0] && n[1] > before[1] })
	t.Logf("%v were acknowledged before, and both nodes took more %v after the standby was promoted", before,
		time.Since(promoted).Round(time.Millisecond))
	close(over)
	senders.Wait()
	there := map[string]int{}
	for _, d := range decodeLines[state.InboxRow](t,
		c.expect(exitDone, "webhooks", "list", "--account", "acme", "--limit", "0", "--output", "json")) {
		_, id, _ := strings.Cut(d.DeliveryKey, "event:")
		id, _, _ = strings.Cut(id, ":")
		there[id]++
	}
	for i := range acked {
		for id := range acked[i] {
			if there[id] != 1 {
				t.Errorf("%s was acknowledged and is there %d times", id, there[id])
			}
		}
	}
	c.expectOnce(payers)
	for _, p := range nodes {
		p.signal(syscall.SIGTERM)
		if r := p.wait(); r.code != exitDone || strings.Contains(r.errOut, "waits for no standby") {
			t.Errorf("a node ended with %d:\n%s", r.code, r.errOut)
		}
	}
}

// Without the standby, a starting node's writes are not confirmed. It must report that.
func TestANodeThatStartsWhileTheStandbyIsAwaySaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	pair := statetest.NewPair(t)
	c := newClusterOn(t, pair.Address, 1, map[string]int{"acme": 1})
	c.apply()
	c.serve(0).stop()
	pair.Away()
	p := c.beginOf("payersync", 0)
	p.logged("the node has not started yet: another node creates the queue's tables, or the database waits for a standby")
	pair.Back()
	p.logged("payersync serves")
	p.stop()
}
