package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
	"payersync/state/statetest"
)

// cluster is a database with accounts, each with its own billing service, and their nodes.
type cluster struct {
	t        testing.TB
	dir      string
	accounts map[string]*world
	names    []string
	hooks    []string // where the nodes take webhooks in
}

// newCluster makes a database with these accounts and numbers of payers, and configures the nodes.
func newCluster(t testing.TB, nodes int, payers map[string]int) *cluster {
	t.Helper()
	return newClusterOn(t, statetest.Postgres(t), nodes, payers)
}

// newClusterOn is newCluster with an existing database.
func newClusterOn(t testing.TB, address string, nodes int, payers map[string]int) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), accounts: map[string]*world{}}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	c.write("database", address)
	if err := os.Mkdir(filepath.Join(c.dir, "books"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.write("kek", base64.StdEncoding.EncodeToString(key))
	for i := range nodes {
		c.hooks = append(c.hooks, freeAddress(t))
		c.write(fmt.Sprintf("node%d.yaml", i), c.node(i))
	}
	for name, n := range payers {
		// of many payers they would weigh gigabytes
		w := newWorld(t, people(n), func(o *sandbox.Options) { o.DiscardRequests = true })
		c.accounts[name], c.names = w, append(c.names, name)
		w.must(os.Symlink(w.dir, filepath.Join(c.dir, "books", name)))
		c.configure(name, "* * * * *")
		w.write("payersync.yaml", c.node(0)) // of commands
	}
	slices.Sort(c.names)
	return c
}

// node is the configuration of a node.
func (c *cluster) node(i int) string {
	return fmt.Sprintf(`ledger: {postgres: "file:%[1]s/database", key_encryption_key: "file:%[1]s/kek"}
server: {webhooks: %[2]q, admin: "", metrics: ""}
nodes: {stop_within: 5s}
accounts: {files: ["%[1]s/books"], networks: [127.0.0.0/8]}
log: {level: debug, format: json}
`, c.dir, c.hooks[i])
}

// configure writes the folder of an account with this schedule.
func (c *cluster) configure(name, schedule string) {
	c.t.Helper()
	w := c.accounts[name]
	text := strings.NewReplacer(
		"env:BILLING_CLIENT_SECRET", "file:client.secret",
		"path: customers.csv", "path: "+filepath.Join(c.dir, "books", name, "customers.csv"),
		"mapping: mapping.yaml}", fmt.Sprintf("mapping: mapping.yaml, schedule: %q}", schedule),
		"guards: {max_creates: 20}", "guards: {max_creates: 100000}",
	).Replace(w.config())
	text, _, _ = strings.Cut(text, "server: {")
	c.write(filepath.Join("accounts", name, "account.yaml"), text)
	c.write(filepath.Join("accounts", name, "client.secret"), clientSecret)
	c.write(filepath.Join("accounts", name, "webhook.secret"), webhookSecret)
	c.write(filepath.Join("accounts", name, "mapping.yaml"), worldMapping)
}

func (c *cluster) write(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// any is a world for running commands on the cluster.
func (c *cluster) any() *world { return c.accounts[c.names[0]] }

// expect runs a command on the first node's configuration.
func (c *cluster) expect(code int, args ...string) result {
	c.t.Helper()
	return c.any().expect(code, args...)
}

// apply gives the database what the folders of the accounts say.
func (c *cluster) apply() {
	c.t.Helper()
	c.expect(exitDone, "accounts", "apply", filepath.Join(c.dir, "accounts"), "--yes")
}

// serve starts a node and waits until it serves.
func (c *cluster) serve(node int) *process {
	c.t.Helper()
	return c.serveOf("payersync", node)
}

// serveOf is serve with another program.
func (c *cluster) serveOf(program string, node int) *process {
	c.t.Helper()
	p := c.beginOf(program, node)
	p.logged("payersync serves")
	return p
}

// beginOf starts a node and waits for nothing.
func (c *cluster) beginOf(program string, node int) *process {
	c.t.Helper()
	p := c.any().process("serve")
	var err error
	if p.cmd.Path, err = exec.LookPath(program); err != nil {
		c.t.Fatal(err)
	}
	p.configure(filepath.Join(c.dir, fmt.Sprintf("node%d.yaml", node)))
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errOut
	if err := p.begin(); err != nil {
		c.t.Fatal(err)
	}
	return p
}

// token returns what names an account in the address of its webhooks.
func (c *cluster) token(name string) string {
	c.t.Helper()
	return decode[struct {
		Path string `json:"webhooks_path"`
	}](c.t, c.expect(exitDone, "accounts", "list", "--show", name, "--show-token", "--output", "json")).Path
}

// deliver sends a delivery signed by an account's service to a node.
func (c *cluster) deliver(node int, path string, r *http.Request) int {
	c.t.Helper()
	r.URL.Host, r.URL.Path = c.hooks[node], path
	status, _ := post(c.t, r)
	return status
}

// linked returns the mandate statuses of an account's payers, by their numbers.
func (c *cluster) linked(name string) map[string]string {
	c.t.Helper()
	out := map[string]string{}
	for _, p := range decodeLines[state.PayerRow](c.t,
		c.expect(exitDone, "payers", "list", "--account", name, "--output", "json")) {
		if p.BillingID != nil {
			out[p.SourceID] = show.Value(p.MandateStatus)
		}
	}
	return out
}

// awaitMandates waits until each payer of each account has a mandate in the ledger.
func (c *cluster) awaitMandates(payers map[string]int) {
	c.t.Helper()
	for name, n := range payers {
		eventually(c.t, "the mandates of "+name, func() bool {
			asked := 0
			for _, status := range c.linked(name) {
				if status != "" {
					asked++
				}
			}
			return asked == n
		})
	}
}

// expectOnce fails unless each account's service has each payer once, with one mandate.
func (c *cluster) expectOnce(payers map[string]int) {
	c.t.Helper()
	for name, n := range payers {
		customers := c.accounts[name].box.Customers()
		keys := map[string]int{}
		for _, customer := range customers {
			keys[customer.ExternalData["accountNumber"]]++
			if len(customer.Mandates) != 1 {
				c.t.Errorf("%s: customer %s has %d mandates", name, customer.ID, len(customer.Mandates))
			}
		}
		if len(customers) != n || len(keys) != n {
			c.t.Errorf("%s: %d customers with %d keys, want %d", name, len(customers), len(keys), n)
		}
	}
}

// Whatever node a webhook comes to and whichever runs a job, each account is served once, and none sees another.
//
// covers F183, F189
func TestNodesServeAllAccountsOfADatabaseTogether(t *testing.T) {
	t.Parallel()
	payers := map[string]int{"acme": 5, "beta": 7}
	c := newCluster(t, 2, payers)
	c.apply()
	nodes := []*process{c.serve(0), c.serve(1)}
	c.awaitMandates(payers)
	c.expectOnce(payers)
	eventually(t, "the look for second customers in both accounts", func() bool {
		return strings.Count(nodes[0].errOut.String()+nodes[1].errOut.String(), "two customers of one payer") >= len(payers)
	})
	w := c.accounts["beta"]
	signed := w.box.Customers()[3]
	w.must(w.box.Sign(signed.Mandates[0].ID))
	for _, tt := range []struct {
		name, path string
		want       int
	}{
		{"beta's address", c.token("beta"), http.StatusOK},
		{"an address of nobody", hooksPath + "AAAAAAAAAAAAAAAAAAAAAAAAAA", http.StatusUnauthorized},
	} {
		if got := c.deliver(1, tt.path, w.delivery(event("evt-"+tt.name, signed.ID))); got != tt.want {
			t.Errorf("a delivery to %s was answered %d, want %d", tt.name, got, tt.want)
		}
	}
	number := signed.ExternalData["accountNumber"]
	eventually(t, "the status that the webhook told", func() bool {
		return c.linked("beta")[number] == string(sandboxStatus(w, signed.ID))
	})
	if c.linked("acme")[number] == c.linked("beta")[number] {
		t.Error("the other account's payer of the same number has the status, too")
	}
	for _, p := range nodes {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range nodes {
		if r := p.wait(); r.code != exitDone || strings.Contains(r.errOut, `"level":"error"`) {
			t.Errorf("a node ended with %d and said\n%s", r.code, r.errOut)
		}
	}
}

// Who has outgrown one file carries it to the database and goes on there: the customers are known, and nothing is
// sent.
//
// covers F188
func TestALedgersFileGoesOnAsAnAccountOfNodes(t *testing.T) {
	t.Parallel()
	payers := map[string]int{"acme": 6}
	c := newCluster(t, 1, payers)
	w := c.accounts["acme"]
	w.write("payersync.yaml", w.config())
	w.expect(exitDone, "backfill", "--yes")
	w.expect(exitDone, "ledger", "copy", "--to", "file:"+filepath.Join(c.dir, "database"), "--account", "acme", "--yes")
	if r := w.expect(exitFailed, "sync"); !strings.Contains(r.errOut, "works there") {
		t.Errorf("the file that was left says\n%s", r.errOut)
	}
	w.write("payersync.yaml", c.node(0))
	folder := filepath.Join(c.dir, "accounts", "acme")
	if r := w.expect(exitUsage, "accounts", "apply", folder, "--yes"); !strings.Contains(r.errOut, "--key-file") {
		t.Errorf("without the key of its ledger it says\n%s", r.errOut)
	}
	w.expect(exitFailed, "accounts", "apply", folder, "--yes", "--key-file", filepath.Join(c.dir, "kek"))
	w.expect(exitDone, "accounts", "apply", folder, "--yes", "--key-file", w.path("payersync.key"))
	sent := w.box.Writes()
	if r := w.expect(exitDone, "sync", "--account", "acme"); !strings.Contains(r.out, "6 unchanged") {
		t.Errorf("the first run says\n%s", r.out)
	}
	if n := w.box.Writes() - sent; n > 0 {
		t.Errorf("%d writes left although nothing had changed", n)
	}
	c.expectOnce(payers)
}

// An account that began in the database leaves it with a key that was in no file before, and goes on in a file.
//
// covers F188
func TestAnAccountLeavesTheDatabaseWithItsKey(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, map[string]int{"acme": 6})
	c.apply()
	w := c.accounts["acme"]
	w.expect(exitDone, "backfill", "--account", "acme", "--yes")
	w.must(os.Remove(w.path("payersync.key")))
	if r := w.expect(exitFailed, "accounts", "key", "nobody", "--to", w.path("payersync.key")); !strings.Contains(r.errOut,
		"nobody") {
		t.Errorf("of nobody it says\n%s", r.errOut)
	}
	w.expect(exitDone, "accounts", "key", "acme", "--to", w.path("payersync.key"))
	if r := w.expect(exitUsage, "accounts", "key", "acme", "--to", w.path("payersync.key")); !strings.Contains(r.errOut,
		"is there already") {
		t.Errorf("where a file is it says\n%s", r.errOut)
	}
	w.write("payersync.yaml",
		strings.Replace(w.config(), "guards:", "ledger: {path: left.db, key_file: payersync.key}\nguards:", 1))
	w.expect(exitDone, "ledger", "copy", "--from", "file:"+filepath.Join(c.dir, "database"), "--account", "acme", "--yes")
	sent := w.box.Writes()
	if r := w.expect(exitDone, "sync"); !strings.Contains(r.out, "6 unchanged") || w.box.Writes() != sent {
		t.Errorf("in its file it says, after %d writes,\n%s", w.box.Writes()-sent, r.out)
	}
}

// A node has only a copy of an account's files. A mapping saved there would seem to be in force, and be gone
// with the next change.
func TestAMappingIsNotSavedWhereOnlyACopyOfItLies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	a, s := w.later(0)
	defer s.Close()
	s.Config.Node = new(config.Node)
	m := a.mappingsOf(s, nil)
	now, _, err := m.Now("acme")
	if err != nil {
		t.Fatal(err)
	}
	var unwritable *admin.MappingUnwritable
	if _, err := m.Save(t.Context(), "acme", now.Hash, now.Text+"\n# more\n",
		syncer.Operator{Name: "ada"}); !errors.As(err, &unwritable) {
		t.Errorf("it was saved, or refused with %v", err)
	}
	if w.read("mapping.yaml") != worldMapping {
		t.Error("the file has changed")
	}
}

// sandboxStatus returns the status of a customer's mandate as the service has it.
func sandboxStatus(w *world, id string) connector.MandateStatus {
	i := slices.IndexFunc(w.box.Customers(), func(c sandbox.Customer) bool { return c.ID == id })
	return w.box.Customers()[i].Mandates[0].Status
}
