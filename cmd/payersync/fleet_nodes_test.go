package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/cmd/payersync/internal/config"
	"payersync/connector/queue"
	"payersync/state"
	"payersync/state/statetest"
)

var manyStatus = flag.Int("status-accounts", 24,
	"of how many accounts TestStatusLooksAtManyAccountsWithFewConnections is")

// relay stands between nodes and their database, and can stand still.
type relay struct {
	mu     sync.Mutex
	stands chan struct{} // closed when it goes on; nil while it does
}

// through puts a relay before the cluster's database.
func (c *cluster) through() *relay {
	c.t.Helper()
	dsn := c.read("database")
	port := regexp.MustCompile(`port=(\d+)`).FindStringSubmatch(dsn)
	if port == nil {
		c.t.Fatalf("the database is not at a port of this machine: %s", dsn)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = listener.Close() })
	r := &relay{}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			way, err := net.Dial("tcp", "127.0.0.1:"+port[1])
			if err != nil {
				_ = from.Close()
				continue
			}
			go r.carry(way, from)
			go r.carry(from, way)
		}
	}()
	_, through, _ := net.SplitHostPort(listener.Addr().String())
	c.write("database", strings.Replace(dsn, port[0], "port="+through, 1))
	return r
}

func (r *relay) carry(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		r.mu.Lock()
		stands := r.stands
		r.mu.Unlock()
		if stands != nil {
			<-stands
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// stand lets nothing through until what it returns is called.
func (r *relay) stand() (goOn func()) {
	stands := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stands = stands
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stands = nil
		close(stands)
	}
}

func (c *cluster) read(name string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// exec runs a statement on the cluster's database, as an operator could.
func (c *cluster) exec(statement string) {
	c.t.Helper()
	statetest.Execute(c.t, c.read("database"), statement)
}

// page returns what a node answers on a page of its health.
func (c *cluster) page(node int, path string) (status int, body string) {
	c.t.Helper()
	resp, err := client.Get("http://" + c.hooks[node] + path)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// spoil keeps an account from being opened.
func (c *cluster) spoil(name string) {
	c.t.Helper()
	c.exec(fmt.Sprintf("UPDATE main.accounts SET wrapped_key = set_byte(wrapped_key, 0, 255 - get_byte(wrapped_key, 0)) WHERE name = '%s'", name))
}

// A node answers a readiness probe soon, even while its database hangs, and without an account's name.
func TestANodeSaysWhetherItIsReadyAlsoWhileItsDatabaseHangs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, map[string]int{"acme": 1, "beta": 1})
	c.apply()
	c.spoil("beta")
	r := c.through()
	p := c.serve(0)
	degraded := `{"state":"degraded","degraded":["accounts_not_open"],"accounts":{"open":1,"not_open":1}}`
	eventually(t, "readiness", func() bool {
		status, body := c.page(0, "/readyz")
		return status == http.StatusOK && strings.TrimSpace(body) == degraded
	})
	goOn := r.stand()
	eventually(t, "a no", func() bool {
		began := time.Now()
		status, body := c.page(0, "/readyz")
		if took := time.Since(began); took > 3*answersWithin || strings.Contains(body, "acme") {
			t.Errorf("it answers after %v: %s", took, body)
		}
		return status == http.StatusServiceUnavailable &&
			strings.Contains(body, `"state":"failing","reason":"the ledgers' database does not answer`)
	})
	if status, _ := c.page(0, "/healthz"); status != http.StatusOK {
		t.Errorf("the process is alive, and it answers %d", status)
	}
	goOn()
	eventually(t, "readiness again", func() bool { status, _ := c.page(0, "/readyz"); return status == http.StatusOK })
	p.signal(syscall.SIGTERM)
	p.wait()
}

// A node with the replaced key cannot read files assigned to an account later.
func TestANodeSaysThatItLacksTheNewestFilesOfAnAccount(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, map[string]int{"acme": 1})
	c.apply()
	p := c.serve(0)
	c.write("kek.new", secondKEK)
	c.expect(exitDone, "accounts", "key", "--rewrap", "--new-key", filepath.Join(c.dir, "kek.new"), "--yes")
	c.write("kek", secondKEK)
	c.configure("acme", "0 4 * * *")
	c.apply()
	lags := `{"state":"degraded","degraded":["accounts_not_in_force"],"accounts":{"open":1,"not_open":0}}`
	eventually(t, "the word that the files are not in force", func() bool {
		status, body := c.page(0, "/readyz")
		return status == http.StatusOK && strings.TrimSpace(body) == lags
	})
	p.stop()
	if text := p.errOut.String(); !strings.Contains(text, "Name the file of the other, and start nodes again that run") {
		t.Errorf("the node does not say why:\n%s", text)
	}
	again := c.serve(0)
	eventually(t, "readiness with the new key", func() bool {
		status, body := c.page(0, "/readyz")
		return status == http.StatusOK && strings.Contains(body, `"state":"ok"`)
	})
	again.stop()
}

// otherNode adds a node of another name to the database, last seen that long ago, with an account it could
// not open.
func (c *cluster) otherNode(name, silent, unopened string) {
	c.t.Helper()
	c.exec(fmt.Sprintf(`INSERT INTO river.nodes (node_id, name, version, addresses, accounts, unopened, runs, stopping, started_at, seen_at)
		VALUES ('%[1]s', '%[1]s', '1', '{}', 0, ARRAY (SELECT account_id FROM main.accounts WHERE name = '%[3]s'), 0, false, now() - interval '3 days', now() - interval '%[2]s')`, name, silent, unopened))
}

// covers F195
func TestNodesAreShownInListsStatusMetricsAndTheLog(t *testing.T) {
	t.Parallel()
	payers := map[string]int{"acme": 2, "beta": 1}
	c := newCluster(t, 1, payers)
	measured := freeAddress(t)
	c.write("node0.yaml", strings.Replace(c.node(0), `metrics: ""`, fmt.Sprintf("metrics: %q", measured), 1))
	c.apply()
	c.expect(exitDone, "accounts", "pause", "beta", "--reason", "a holiday")
	p := c.serve(0)
	c.awaitMandates(map[string]int{"acme": 2})
	c.otherNode("node-b", "14 minutes", "")
	p.logged("a node is lost")
	var rows []nodeRow
	eventually(t, "the node to lead", func() bool {
		rows = decodeLines[nodeRow](t, c.expect(exitDone, "nodes", "list", "--output", "json"))
		return len(rows) == 2 && (rows[0].Leads || rows[1].Leads)
	})
	mine, lost := rows[0], rows[1]
	if lost.Name != "node-b" {
		mine, lost = lost, mine
	}
	if host, _ := os.Hostname(); mine.Name != host+c.hooks[0][strings.LastIndex(c.hooks[0], ":"):] ||
		mine.State != queue.AtWork || mine.Accounts != 2 || len(mine.Unopened) > 0 || mine.Version != version ||
		mine.Silent > 60 ||
		len(mine.Addresses) != 2 || mine.Addresses[0] != "webhooks "+c.hooks[0] || lost.State != queue.Lost || lost.Leads ||
		lost.Silent/60 != 14 {
		t.Errorf("the nodes are %+v", rows)
	}
	says(t, c.expect(exitDone, "nodes", "list"), "at work", "leads", "14 minutes ago")
	eventually(t, "the metrics", func() bool {
		_, got := scrape(t, measured)
		for name := range got {
			if strings.Contains(name, "account=") {
				t.Errorf("an account at which nobody should look has the series %s", name)
			}
		}
		need, counted := got["accounts_need_somebody"]
		return got[`nodes{state="at_work"}`] == 1 && got[`nodes{state="lost"}`] == 1 &&
			got[`accounts{state="open"}`]+got[`accounts{state="closed"}`] == 2 && got[`accounts{state="not_open"}`] == 0 &&
			counted && need == 0
	})
	says(t, c.expect(exitDone, "status"), "1 active, 1 paused", "Node node-b was last seen 14 minutes ago",
		"payersync nodes forget node-b")
	c.expect(exitDone, "nodes", "forget", "node-b")
	says(t, c.expect(exitUsage, "nodes", "forget", "node-b"), "nothing was done")
	p.logged("is back or removed")
	p.signal(syscall.SIGTERM)
	p.wait()
	says(t, c.expect(exitDone, "nodes", "list"), "There is no node")
}

// The time of the next run is shown only while a node can do it.
func TestTheNextRunIsShownOnlyWhileANodeServesTheAccount(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, map[string]int{"acme": 1, "beta": 1})
	for _, name := range c.names {
		c.configure(name, "0 3 * * *")
	}
	c.apply()
	expect := func(when string, want bool) {
		t.Helper()
		r := decode[statusReport](t, c.expect(exitDone, "status", "--account", "acme", "--output", "json"))
		if r.Served != want {
			t.Errorf("%s: served is %t, want %t", when, r.Served, want)
		}
	}
	expect("before any node served", false)
	p := c.serve(0)
	expect("while a node serves", true)
	p.signal(syscall.SIGTERM)
	p.wait()
	expect("once the node has stopped", false)
	for _, node := range []struct {
		silent, unopened string
		serves           bool
	}{{"5 seconds", "", true}, {"2 minutes", "", false}, {"5 seconds", "acme", false}, {"5 seconds", "beta", true}} {
		c.otherNode("node-b", node.silent, node.unopened)
		expect(fmt.Sprintf("with a node that is silent for %s and lacks %q", node.silent, node.unopened), node.serves)
		c.exec("DELETE FROM river.nodes")
	}
}

func TestStatusShowsTheAccountsAtWhichSomebodyShouldLook(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, map[string]int{"acme": 2, "beta": 1, "gamma": 1})
	for _, name := range c.names {
		c.configure(name, "0 3 * * *")
	}
	c.apply()
	for _, name := range c.names {
		c.expect(exitDone, "sync", "--account", name)
		c.expect(exitDone, "sweep", "--account", name)
	}
	p := c.serve(0)
	p.signal(syscall.SIGTERM)
	p.wait()
	status := func(code int, args ...string) fleetStatus {
		t.Helper()
		return decode[fleetStatus](t, c.expect(code, append([]string{"status", "--output", "json"}, args...)...))
	}
	if r := status(exitDone); len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "No node is at work") ||
		len(r.Accounts) > 0 || r.Need > 0 {
		t.Errorf("while nothing is the matter but that no node is there: %+v", r)
	}
	c.otherNode("node-c", "1 second", "beta")
	r := status(exitDone)
	if len(r.Problems) > 0 || len(r.Accounts) != 1 || r.Accounts[0].Account != "beta" ||
		len(r.Accounts[0].NotOpenOn) != 1 || r.Accounts[0].NotOpenOn[0] != "node-c" {
		t.Errorf("with an account that is not open: %+v", r)
	}
	says(t, c.expect(exitDone, "status"), "It is not open on node-c; its log has the reason.",
		"3 accounts: 3 active. Somebody should look at 1.")
	c.spoil("gamma")
	r = status(exitFailed, "--all")
	if r.Need != 2 || len(r.Accounts) != 3 || r.Accounts[2].Problem == "" || r.Accounts[0].LastRun == nil ||
		r.Accounts[0].LastRun.Outcome != "complete" || r.Accounts[0].SweptAt.IsZero() {
		t.Errorf("with an account that cannot be opened: %+v", r)
	}
}

// More accounts are looked at together than there are connections, and what is said of each is what is said of it alone.
func TestStatusLooksAtManyAccountsWithFewConnections(t *testing.T) {
	t.Parallel()
	rows := people(3)
	rows[1].Depot = "2 Quay Street" // held: it has two addresses
	f := newHousehold(t, map[string]*world{"harbour": newWorld(t, rows)})
	f.expect(exitDone, "accounts", "apply", f.folders, "--yes")
	f.expect(exitAttention, "sync")
	node, err := config.LoadNode(f.path("payersync.yaml"), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	server, err := state.OpenServer(t.Context(), node.Options())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	docs, err := server.Documents(t.Context(), "harbour")
	if err != nil {
		t.Fatal(err)
	}
	one := docs.Files[config.AccountFile]
	for i := range *manyStatus - 1 {
		// before the one that has something to tell
		name := fmt.Sprint("early", i)
		docs.Files[config.AccountFile] = bytes.ReplaceAll(one, []byte("/harbour/customers.csv"),
			[]byte("/"+name+"/customers.csv")) // its books
		if _, err := server.Apply(t.Context(),
			state.AccountChange{Name: name, Files: docs.Files, By: state.Entry{Actor: "test"}}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	r := decode[fleetStatus](t, f.expect(exitDone, "status", "--all", "--output", "json"))
	t.Logf("%d accounts were looked at in %v", len(r.Accounts), time.Since(began))
	for _, s := range r.Accounts {
		if s.Problem != "" || s.State != state.AccountActive || (s.LastRun != nil) != (s.Account == "harbour") {
			t.Errorf("it says of an account %+v", s)
		}
	}
	if len(r.Accounts) != *manyStatus {
		t.Fatalf("of %d accounts %d are shown", *manyStatus, len(r.Accounts))
	}
	alone := decode[statusReport](t, f.expect(exitDone, "status", "--account", "harbour", "--output", "json"))
	among := r.Accounts[*manyStatus-1]
	if diff := cmp.Diff(alone.Conditions, among.Conditions); diff != "" || len(among.Conditions) == 0 ||
		among.Questions != 1 || among.LastRun.RunID != alone.Runs[0].RunID {
		t.Errorf("among others (+) it is not what it is alone (-):\n%s%+v", diff, among)
	}
}
