package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"payersync/cmd/payersync/guides"
	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/internal/longtest"
	"payersync/state/statetest"
)

// TestTheGuideForManyMachinesIsPlayed types the lines of the guide on an empty PostgreSQL. Its three nodes serve two
// accounts, and go on when one of them is killed.
func TestTheGuideForManyMachinesIsPlayed(t *testing.T) {
	longtest.Story(t, longtest.Postgres)
	t.Parallel()
	guide, _ := guides.Find("many-machines")
	payers := map[string]int{"acme": 3, "beta": 2}
	c := newGuideCluster(t, payers)
	// whose administrator needs no password
	host := regexp.MustCompile(`host=(\S+) port=(\d+)`).FindStringSubmatch(statetest.Postgres(t))
	if host == nil {
		t.Fatal("the address of the database is another one")
	}
	// on this machine
	here := strings.NewReplacer("@db1,db2/", "@"+host[1]+":"+host[2]+"/", "sslmode=verify-full", "sslmode=disable")
	lines := []string{"export PGHOST=" + host[1] + " PGPORT=" + host[2] + " PGUSER=postgres"}
	for _, line := range shellLines(guide.Text) {
		if line != "payersync serve --config node.yaml" { // which the test starts three times
			lines = append(lines, here.Replace(line))
		}
	}
	settings := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(guide.Text)
	if len(lines) < 14 || settings == nil {
		t.Fatalf("the guide has the lines %q and the settings %q", lines, settings)
	}
	local := fmt.Sprintf("nodes: {stop_within: 5s}\naccounts: {files: [%q], networks: [127.0.0.0/8]}\n",
		filepath.Join(c.dir, "books"))
	c.write("node.yaml", settings[1]+local)
	for i, hook := range c.hooks {
		text := strings.Replace(settings[1], `":8080"`, fmt.Sprintf("%q", hook), 1)
		if i > 0 {
			text = strings.Replace(text, "  owner: file:owner\n", "", 1)
		}
		c.write(fmt.Sprintf("node%d.yaml", i), text+local)
		if i == 0 { // of the test's commands
			for _, w := range c.accounts {
				w.write("payersync.yaml", strings.ReplaceAll(text, "file:", "file:"+c.dir+"/")+local)
			}
		}
	}
	ends := walk(t, c.dir, lines)
	expectEnds(t, "many-machines", lines, ends, map[string]int{})
	if t.Failed() {
		return
	}
	nodes := []*process{c.serve(0), c.serve(1), c.serve(2)}
	c.awaitMandates(payers)
	deliver := func(node int, id string) {
		t.Helper()
		for _, name := range c.names {
			w := c.accounts[name]
			if got := c.deliver(node, c.token(name), w.delivery(event(id+name, w.box.Customers()[0].ID))); got != http.StatusOK {
				t.Errorf("node %d answered a webhook of %s with %d", node, name, got)
			}
		}
	}
	for i := range nodes {
		deliver(i, fmt.Sprint("evt-", i, "-"))
	}
	nodes[0].signal(syscall.SIGKILL)
	nodes[0].wait()
	deliver(1, "evt-after-")
	for name := range payers {
		w := c.accounts[name]
		mandate := w.mandateOf("A00001").ID
		w.must(w.box.Sign(mandate))
		w.must(w.box.Approve(mandate))
		for _, customer := range w.box.Customers() {
			if customer.ExternalData["accountNumber"] != "A00001" {
				continue
			}
			if got := c.deliver(2, c.token(name), w.delivery(event("evt-signed-"+name, customer.ID))); got != http.StatusOK {
				t.Errorf("a webhook of %s was answered %d", name, got)
			}
		}
	}
	// the node that was killed may have had a job of theirs, which another takes over after a minute
	for _, name := range c.names {
		patiently(t, "the signed mandate of "+name,
			func() bool { return c.linked(name)["A00001"] == string(connector.MandateActive) })
	}
	c.expectOnce(payers)
}

// newGuideCluster makes the folders of accounts, and three addresses for nodes. It makes no database.
func newGuideCluster(t *testing.T, payers map[string]int) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), accounts: map[string]*world{}, names: []string{"acme", "beta"}}
	if err := os.Mkdir(filepath.Join(c.dir, "books"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.hooks = append(c.hooks, freeAddress(t))
	}
	for _, name := range c.names {
		w := newWorld(t, people(payers[name]), func(o *sandbox.Options) { o.DiscardRequests = true })
		c.accounts[name] = w
		w.must(os.Symlink(w.dir, filepath.Join(c.dir, "books", name)))
		c.configure(name, "* * * * *")
	}
	return c
}
