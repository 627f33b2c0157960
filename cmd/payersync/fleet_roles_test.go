package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"payersync/state/statetest"
)

// Nodes whose role owns no table make the tables with the owner's, run accounts, and cannot change the tables of jobs.
func TestNodesWorkWithARoleThatOwnsNoTables(t *testing.T) {
	t.Parallel()
	payers := map[string]int{"acme": 2}
	c := newCluster(t, 2, payers)
	owner := c.read("database")
	node := strings.Replace(owner, "user=ledger", "user=payersync_node", 1)
	statetest.Execute(t, strings.Replace(owner, "user=ledger", "user=postgres", 1), "DO $$ BEGIN CREATE ROLE payersync_node LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
	c.write("database", node)
	c.write("owner", owner)
	withOwner := strings.Replace(c.node(0), "ledger: {", fmt.Sprintf(`ledger: {owner: "file:%s/owner", `, c.dir), 1)
	c.write("node0.yaml", withOwner)
	w := c.accounts["acme"]
	w.write("payersync.yaml", withOwner)
	c.apply()
	c.serve(0)
	c.serve(1) // which has no ledger.owner
	c.awaitMandates(payers)
	for i := range c.hooks {
		if status := c.deliver(i, c.token("acme"), w.delivery(event(fmt.Sprint("evt-", i), w.box.Customers()[0].ID))); status != http.StatusOK {
			t.Errorf("node %d answered a webhook with %d", i, status)
		}
	}
	c.expectOnce(payers)
	for _, statement := range []string{"DROP TABLE river.nodes", "ALTER TABLE river.river_job ADD COLUMN x INT", "CREATE TABLE river.x (a INT)", "TRUNCATE river.holds"} {
		if err := statetest.Try(node, statement); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if r := w.run("check", "--account", "acme"); !strings.Contains(r.out, "cannot change tables or policies") {
		t.Errorf("check does not say what the role may do:\n%s", r.out)
	}
	w.write("payersync.yaml", strings.Replace(withOwner, `"file:`+c.dir+`/database"`, `"file:`+c.dir+`/owner"`, 1))
	if r := w.run("check", "--account", "acme"); !strings.Contains(strings.Join(strings.Fields(r.out), " "), "the node's role owns the tables") {
		t.Errorf("with ledger.owner of the same role check says:\n%s", r.out)
	}
	w.write("payersync.yaml", strings.Replace(c.node(0), `"file:`+c.dir+`/database"`, `"file:`+c.dir+`/owner"`, 1))
	if r := w.run("check", "--account", "acme"); !strings.Contains(strings.Join(strings.Fields(r.out), " "), "the node's role owns the tables") {
		t.Errorf("check does not say that one role does both:\n%s", r.out)
	}
}
