package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"payersync/state"
	"payersync/state/statetest"
)

// withReplica is a cluster on a pair of servers, whose commands may look at the standby.
func withReplica(t *testing.T, payers map[string]int) (*statetest.Pair, *cluster) {
	t.Helper()
	pair := statetest.NewPair(t)
	c := newClusterOn(t, pair.Address, 1, payers)
	c.write("replica", pair.Standby)
	for _, w := range c.accounts {
		w.write("payersync.yaml", strings.Replace(c.node(0), "ledger: {", fmt.Sprintf("ledger: {replica: %q, ", "file:"+filepath.Join(c.dir, "replica")), 1))
	}
	return pair, c
}

// payers returns how many an account has, as a command says, and what it said.
func (c *cluster) payers(account string) (n int, said result) {
	c.t.Helper()
	said = c.expect(exitDone, "payers", "list", "--account", account, "--output", "json")
	return len(decodeLines[state.PayerRow](c.t, said)), said
}

func TestCommandsThatLookReadFromAReplicaAndSayHowFarItIsBehind(t *testing.T) {
	t.Parallel()
	pair, c := withReplica(t, map[string]int{"acme": 2, "beta": 1})
	c.expect(exitDone, "accounts", "apply", filepath.Join(c.dir, "accounts", "acme"), "--yes")
	sync := func(creates int) {
		t.Helper()
		before := len(c.accounts["acme"].box.Customers())
		c.expect(exitDone, "sync", "--account", "acme")
		if got := len(c.accounts["acme"].box.Customers()) - before; got != creates {
			t.Errorf("a sync created %d customers, want %d", got, creates)
		}
	}
	status := func(args ...string) *replicaStands {
		t.Helper()
		return decode[struct{ Replica *replicaStands }](t, c.expect(exitDone, append([]string{"status", "--output", "json"}, args...)...)).Replica
	}
	sync(2)
	const read = "Read from the replica, 0s behind the primary."
	if n, said := c.payers("acme"); n != 2 || !strings.Contains(said.errOut, read) {
		t.Errorf("%d payers, and it said %s", n, said.errOut)
	}
	for _, command := range [][]string{{"status"}, {"mandates", "list"}, {"plans", "list"}, {"report"}, {"webhooks", "list"}, {"alerts", "list"}, {"attention", "list"}, {"mandates", "letters", "list"}} {
		says(t, c.expect(exitDone, append(command, "--account", "acme")...), read)
	}
	for _, args := range [][]string{{"--account", "acme"}, {"--all"}} {
		if s := status(args...); s == nil || !s.Read || s.Behind != 0 || s.Why != "" {
			t.Errorf("status %v says of the replica %+v", args, s)
		}
	}
	says(t, c.expect(exitDone, "check", "--account", "acme"), "a standby of the database, 0s behind the primary")

	pair.HoldBack(true)
	c.accounts["acme"].export(people(3)...)
	sync(1)
	sync(0) // what decides knows of the one before
	if n, said := c.payers("acme"); n != 2 || strings.Contains(said.errOut, " 0s behind") || !strings.Contains(said.errOut, "behind the primary.") {
		t.Errorf("of a replica that is held back: %d payers, and it said %s", n, said.errOut)
	}
	if s := status("--account", "acme"); s == nil || !s.Read || s.Behind <= 0 {
		t.Errorf("status says of a replica that is held back %+v", s)
	}
	c.expect(exitDone, "accounts", "apply", filepath.Join(c.dir, "accounts", "beta"), "--yes")
	says(t, c.expect(exitDone, "status", "--account", "beta"), "Warning: the replica is not read from for account beta: ", "The primary answers instead.")
	pair.HoldBack(false)
	if n, _ := c.payers("acme"); n != 3 {
		t.Errorf("when it has caught up there are %d payers", n)
	}
}

func TestThePrimaryAnswersInThePlaceOfAReplicaThatIsNone(t *testing.T) {
	t.Parallel()
	pair, c := withReplica(t, map[string]int{"acme": 2})
	c.apply()
	c.expect(exitDone, "sync")
	answers := func(name, why string) {
		t.Helper()
		n, said := c.payers("acme")
		if n != 2 || strings.Count(said.errOut, "Warning: the replica is not read from: ") != 1 || !strings.Contains(said.errOut, why) {
			t.Errorf("%s: %d payers, and it said %s", name, n, said.errOut)
		}
		s := decode[statusReport](t, c.expect(exitDone, "status", "--account", "acme", "--output", "json"))
		if s.Replica == nil || s.Replica.Read || !strings.Contains(s.Replica.Why, why) || s.Payers["linked"] != 2 {
			t.Errorf("%s: status says %+v, and counts %v", name, s.Replica, s.Payers)
		}
		says(t, c.expect(exitDone, "check"), "warn  replica", why, "take ledger.replica out")
	}
	c.write("replica", strings.Replace(pair.Standby, "dbname=ledger", "dbname=postgres", 1))
	answers("another database", "another database of the same server")
	c.write("replica", pair.Standby)
	pair.Lose()
	pair.Promote()
	answers("one that was promoted", "takes writes itself")
	if r := c.expect(exitDone, "status", "--account", "acme"); strings.Contains(r.errOut, "Read from the replica") {
		t.Errorf("it said %s", r.errOut)
	}
}
