package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"payersync/state"
	"payersync/state/statetest"
)

// few lets a node keep so many accounts open, and says more of what it does.
func (c *cluster) few(node, accounts int) {
	c.t.Helper()
	c.write(fmt.Sprintf("node%d.yaml", node),
		strings.Replace(c.node(node), "nodes: {", fmt.Sprintf("nodes: {open_accounts: %d, ", accounts), 1))
}

// asked returns what a query gives in the rows of an account.
func (c *cluster) asked(name, query string) string {
	c.t.Helper()
	return statetest.Ask(c.t, c.read("database"), name, query)
}

// A node that keeps one account open serves four: runs of closed accounts start on time. A webhook of a
// closed one is acknowledged once it is durable, and then processed.
func TestANodeServesMoreAccountsThanItKeepsOpen(t *testing.T) {
	t.Parallel()
	payers := map[string]int{"acme": 2, "beta": 2, "gamma": 2, "delta": 2}
	c := newCluster(t, 1, payers)
	c.few(0, 1)
	c.apply()
	p := c.serve(0)
	c.awaitMandates(payers)
	c.expectOnce(payers)
	eventually(t, "the node to close accounts", func() bool {
		_, body := c.page(0, "/readyz")
		return strings.Contains(body, `"accounts":{"open":1,"not_open":0}`) ||
			strings.Contains(body, `"accounts":{"open":0,"not_open":0}`)
	})
	runs := map[string]string{}
	for name := range payers {
		runs[name] = c.asked(name, "SELECT count(*) FROM main.runs")
		w := c.accounts[name]
		one := w.box.Customers()[0]
		w.must(w.box.Sign(one.Mandates[0].ID))
		if got := c.deliver(0, c.token(name), w.delivery(event("evt-"+name, one.ID))); got != http.StatusOK {
			t.Errorf("a webhook of %s was answered %d", name, got)
		}
		if n := c.asked(name, "SELECT count(*) FROM main.inbox"); n != "1" {
			t.Errorf("%s has %s deliveries after the answer", name, n)
		}
	}
	for name := range payers {
		eventually(t, "the webhook of "+name+" to be reflected", func() bool {
			return c.asked(name, "SELECT count(*) FROM main.inbox WHERE processed_at IS NULL") == "0"
		})
		patiently(t, "the next run of "+name,
			func() bool { return c.asked(name, "SELECT count(*) FROM main.runs") != runs[name] })
		if due := c.asked(name, "SELECT coalesce(due_at, 'none') FROM main.accounts WHERE name = '"+name+"'"); due != "none" {
			t.Errorf("the row of %s says that a delivery is due at %q", name, due)
		}
	}
	p.signal(syscall.SIGTERM)
	if r := p.wait(); r.code != exitDone || strings.Contains(r.errOut, `"level":"error"`) {
		t.Errorf("the node ended with %d and said\n%s", r.code, r.errOut)
	}
}

// A node is killed after it has acknowledged webhooks of closed accounts: the next node finds and reflects them by one query over
// all accounts.
func TestDeliveriesOfClosedAccountsSurviveAKilledNode(t *testing.T) {
	t.Parallel()
	payers := map[string]int{"acme": 2, "beta": 2}
	c := newCluster(t, 2, payers)
	for name := range payers {
		c.configure(name, "0 4 * * *")
	}
	c.few(0, 1)
	c.apply()
	p := c.serve(0)
	c.awaitMandates(payers)
	tokens := map[string]string{}
	for name := range payers {
		tokens[name] = c.token(name)
		w := c.accounts[name]
		w.must(w.box.Sign(w.box.Customers()[0].Mandates[0].ID))
	}
	for name := range payers {
		w := c.accounts[name]
		if got := c.deliver(0, tokens[name], w.delivery(event("evt-"+name, w.box.Customers()[0].ID))); got != http.StatusOK {
			t.Errorf("a webhook of %s was answered %d", name, got)
		}
	}
	p.signal(syscall.SIGKILL)
	p.wait()
	c.exec("DELETE FROM river.river_job WHERE kind = 'drain'") // as if the node had died before it asked for them
	next := c.serve(1)
	for name := range payers {
		number := c.accounts[name].box.Customers()[0].ExternalData["accountNumber"]
		patiently(t, "the status that the webhook told", func() bool {
			return c.linked(name)[number] == string(sandboxStatus(c.accounts[name], c.accounts[name].box.Customers()[0].ID))
		})
	}
	next.stop()
}

// Changed settings of a closed account are in force for its next work, and its schedules before that.
func TestChangedSettingsOfAClosedAccountAreInForce(t *testing.T) {
	t.Parallel()
	payers := map[string]int{"acme": 1, "beta": 1}
	c := newCluster(t, 1, payers)
	for name := range payers {
		c.configure(name, "0 4 * * *")
	}
	c.few(0, 1)
	c.apply()
	p := c.serve(0)
	c.awaitMandates(payers)
	c.configure("acme", "7 5 * * *")
	c.configure("beta", "7 5 * * *")
	c.apply()
	schedule := func(name string) string {
		return c.asked(name, "SELECT coalesce(string_agg(cron, ' '), 'none') FROM river.schedules WHERE job LIKE 'sync %' AND account = current_setting('payersync.account')::bigint")
	}
	for name := range payers {
		eventually(t, "the new schedule of "+name, func() bool { return schedule(name) == "7 5 * * *" })
	}
	c.expect(exitDone, "accounts", "pause", "beta", "--reason", "a holiday")
	eventually(t, "the schedules of a paused account to be gone", func() bool { return schedule("beta") == "none" })
	c.expect(exitDone, "accounts", "pause", "--undo", "beta")
	eventually(t, "them to be back", func() bool { return schedule("beta") == "7 5 * * *" })
	c.expect(exitDone, "accounts", "erase", "beta", "--confirm", "beta")
	eventually(t, "the schedules of an erased account to be gone", func() bool { return schedule("beta") == "none" })
	p.stop()
}

// The status of all accounts uses the nodes' checks, and checks only accounts written to since.
func TestStatusReadsTheLastLookUntilTheAccountIsWrittenTo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, map[string]int{"acme": 2})
	c.apply()
	c.expect(exitDone, "sync", "--account", "acme")
	server := c.server()
	acme := server.infos[0]
	if err := server.SettleAccount(t.Context(), acme); err != nil {
		t.Fatal(err)
	}
	found := newAccountStatus(acme)
	found.Questions = 77
	if err := server.NoteSummary(t.Context(),
		state.AccountSummary{Account: acme.ID, LookedAt: server.Now(), NextLook: server.Now().Add(lookAgain),
			Text: found.text()}); err != nil {
		t.Fatal(err)
	}
	status := func() accountStatus {
		t.Helper()
		r := decode[fleetStatus](t, c.expect(exitDone, "status", "--all", "--output", "json"))
		if len(r.Accounts) != 1 {
			t.Fatalf("%+v", r)
		}
		return r.Accounts[0]
	}
	if s := status(); s.Questions != 77 || s.LookedAt.IsZero() {
		t.Errorf("it does not say what the last look found, and when: %+v", s)
	}
	c.expect(exitDone, "sync", "--account", "acme")
	if s := status(); s.Questions != 0 || !s.LookedAt.IsZero() || s.LastRun == nil {
		t.Errorf("after a run of a command it says %+v", s)
	}
}
