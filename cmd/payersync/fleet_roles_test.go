package main

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"payersync/state"
	"payersync/state/statetest"
)

// Nodes with a role without tables create the tables with the owner's role, run accounts, and cannot change
// the tables of jobs.
func TestNodesWorkWithARoleThatOwnsNoTables(t *testing.T) {
	t.Parallel()
	payers := map[string]int{"acme": 2}
	c := newCluster(t, 2, payers)
	owner := c.read("database")
	node := strings.Replace(owner, "user=ledger", "user=payersync_node", 1)
	statetest.Execute(t, strings.Replace(owner, "user=ledger", "user=postgres", 1),
		"DO $$ BEGIN CREATE ROLE payersync_node LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
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
		if status := c.deliver(i, c.token("acme"),
			w.delivery(event(fmt.Sprint("evt-", i), w.box.Customers()[0].ID))); status != http.StatusOK {
			t.Errorf("node %d answered a webhook with %d", i, status)
		}
	}
	c.expectOnce(payers)
	for _, statement := range []string{"DROP TABLE river.nodes", "ALTER TABLE river.river_job ADD COLUMN x INT",
		"CREATE TABLE river.x (a INT)", "TRUNCATE river.holds"} {
		if err := statetest.Try(node, statement); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if r := w.run("check", "--account", "acme"); !strings.Contains(r.out, "cannot change tables or policies") {
		t.Errorf("check does not say what the role may do:\n%s", r.out)
	}
	w.write("payersync.yaml", strings.Replace(withOwner, `"file:`+c.dir+`/database"`, `"file:`+c.dir+`/owner"`, 1))
	if r := w.run("check", "--account", "acme"); !strings.Contains(strings.Join(strings.Fields(r.out), " "),
		"the node's role owns the tables") {
		t.Errorf("with ledger.owner of the same role check says:\n%s", r.out)
	}
	w.write("payersync.yaml", strings.Replace(c.node(0), `"file:`+c.dir+`/database"`, `"file:`+c.dir+`/owner"`, 1))
	if r := w.run("check", "--account", "acme"); !strings.Contains(strings.Join(strings.Fields(r.out), " "),
		"the node's role owns the tables") {
		t.Errorf("check does not say that one role does both:\n%s", r.out)
	}
}

// All accounts share the tables of jobs, which have no policy. They hold numbers, names of jobs and times, and nothing of a
// payer.
func TestTheTablesOfJobsHoldNoPersonalData(t *testing.T) {
	t.Parallel()
	payers := map[string]int{"acme": 2, "beta": 1}
	c := newCluster(t, 1, payers)
	c.apply()
	c.serve(0)
	c.awaitMandates(payers)
	for _, name := range c.names {
		w := c.accounts[name]
		if got := c.deliver(0, c.token(name), w.delivery(event("evt-"+name, w.box.Customers()[0].ID))); got != http.StatusOK {
			t.Fatalf("a webhook of %s was answered %d", name, got)
		}
	}
	ask := func(query string) string { return statetest.Ask(t, c.read("database"), "1", query) }
	if keys := ask("SELECT string_agg(DISTINCT key, ' ' ORDER BY key) FROM river.river_job, jsonb_object_keys(args) key"); keys != "account job trigger" {
		t.Errorf("jobs are given %q, want the account, the job's name and what started it", keys)
	}
	tables := strings.Fields(ask("SELECT string_agg(tablename, ' ') FROM pg_tables WHERE schemaname = 'river'"))
	if len(tables) < 5 {
		t.Fatalf("the tables of jobs are %q", tables)
	}
	for _, table := range tables {
		text := ask("SELECT coalesce(string_agg(t::text, ' '), '') FROM river." + table + " t")
		personal := []string{"Payer", "example.org", "01632", "Mill Lane"}
		for _, name := range c.names {
			for _, customer := range c.accounts[name].box.Customers() {
				personal = append(personal, customer.ID)
			}
		}
		for _, value := range personal {
			if strings.Contains(text, value) {
				t.Errorf("river.%s holds %q: %s", table, value, text)
			}
		}
	}
}

// The roles of the Compose file are those of the guide: an owner, which makes the tables, and the role of nodes.
func TestTheRolesOfTheComposeFileMakeAnOwnerAndARoleOfNodes(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../configs/deploy/nodes/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(file), "<<'end'\n")
	script, _, _ = strings.Cut(script, "ALTER SYSTEM") // which is for the pair of databases
	dsn := statetest.Postgres(t)
	const database = "composed" // roles are the server's, which other tests use
	names := strings.NewReplacer(":'owner'", "'one'", ":'password'", "'two'", ":'replication'", "'three'", "payersync",
		database, "replication", database+"_replication")
	admin := strings.Replace(dsn, "user=ledger", "user=postgres", 1)
	statements := strings.Split(names.Replace(script), ";\n")
	for _, statement := range statements[:len(statements)-1] {
		statetest.Execute(t, admin, statement)
	}
	as := func(role string) string {
		return regexp.MustCompile(`dbname=\S+`).ReplaceAllString(strings.Replace(dsn, "user=ledger", "user="+role, 1),
			"dbname="+database)
	}
	owner, err := state.OpenServer(t.Context(), state.ServerOptions{Address: as(database), Owner: as(database + "_owner")})
	if err != nil {
		t.Fatal(err)
	}
	owner.Close()
	node, err := state.OpenServer(t.Context(), state.ServerOptions{Address: as(database)})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if node.OwnsTables() {
		t.Error("the role of nodes owns the tables")
	}
	for _, statement := range []string{"DROP TABLE main.payers", "CREATE TEMPORARY TABLE x (a INT)", "CREATE SCHEMA x"} {
		if err := statetest.Try(as(database), statement); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", statement, err)
		}
	}
}
