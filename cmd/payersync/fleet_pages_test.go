package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// addressPages gives an account an address of its pages.
func (c *cluster) addressPages(name, url string) {
	c.t.Helper()
	path := filepath.Join("accounts", name, "account.yaml")
	text, _, _ := strings.Cut(c.read(path), "server: {")
	c.write(path, text+fmt.Sprintf("server: {admin_url: %q}\n", url))
}

// A node without pages, or without TLS for them, accepts the webhooks of an account with its pages on another
// node.
func TestANodeTakesWebhooksOfAnAccountWhosePagesItCannotShow(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, map[string]int{"acme": 1})
	pagesAt := freeAddress(t)
	c.write("node1.yaml", strings.Replace(c.node(1), `admin: ""`, fmt.Sprintf("admin: %q", pagesAt), 1))
	c.addressPages("acme", "https://acme.example.com")
	r := c.expect(exitDone, "accounts", "apply", filepath.Join(c.dir, "accounts"), "--yes")
	if !strings.Contains(r.errOut, "Warning: no node shows the pages of account acme") {
		t.Errorf("accounts apply does not warn:\n%s", r.errOut)
	}
	c.serve(0)
	node := c.serve(1)
	c.awaitMandates(map[string]int{"acme": 1})
	w := c.accounts["acme"]
	for i := range c.hooks {
		eventually(t, fmt.Sprintf("node %d to take a webhook", i), func() bool {
			resp, err := client.Get("http://" + c.hooks[i] + "/readyz")
			if err == nil {
				_ = resp.Body.Close()
			}
			return err == nil && c.deliver(i, c.token("acme"),
				w.delivery(event(fmt.Sprint("evt-", i), w.box.Customers()[0].ID))) == http.StatusOK
		})
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+pagesAt+"/", http.NoBody)
	req.Host = "acme.example.com"
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusNotFound ||
		!strings.Contains(string(body), "server.admin_url") {
		t.Errorf("the node without TLS answers %d to a browser: %s", resp.StatusCode, body)
	}
	node.logged("the pages of the account are not shown on this node")
	c.addressPages("acme", "http://"+pagesAt)
	if r := c.expect(exitDone, "accounts", "apply", filepath.Join(c.dir, "accounts"), "--yes"); strings.Contains(r.errOut,
		"Warning: no node") {
		t.Errorf("node 1 shows pages over http, and there is a warning:\n%s", r.errOut)
	}
}

// Two nodes on one machine have names of their own, and a wrong clock is named.
func TestNodesOfOneMachineHaveNamesOfTheirOwnAndAClockThatIsOffIsNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, map[string]int{"acme": 1})
	c.apply()
	c.serve(0)
	c.serve(1)
	host, _ := os.Hostname()
	names := map[string]bool{}
	eventually(t, "both nodes to be seen", func() bool {
		rows := decodeLines[nodeRow](t, c.expect(exitDone, "nodes", "list", "--output", "json"))
		for _, row := range rows {
			names[row.Name] = true
		}
		return len(rows) == 2
	})
	for _, hook := range c.hooks {
		if name := host + hook[strings.LastIndex(hook, ":"):]; !names[name] {
			t.Errorf("there is no node %s: %v", name, names)
		}
	}
	if r := c.expect(exitDone, "nodes", "list"); strings.Contains(r.errOut, "Warning") {
		t.Errorf("all clocks are right:\n%s", r.errOut)
	}
	c.otherNode("node-b", "1 second", "")
	c.exec("UPDATE river.nodes SET clock_seconds = -42 WHERE name = 'node-b'")
	if r := c.expect(exitDone, "nodes", "list"); !strings.Contains(r.errOut,
		"Warning: the clock of node node-b is 42 seconds behind the database's") {
		t.Errorf("the clock is not named:\n%s", r.errOut)
	}
}
