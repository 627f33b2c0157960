package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// check says on each node whether its folder of the journal of letters is the one that the other nodes write.
//
// covers F289
func TestCheckSaysWhetherNodesShareTheFolderOfLetters(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, map[string]int{"acme": 1})
	c.configure("acme", "0 3 1 1 *")
	path := filepath.Join("accounts", "acme", "account.yaml")
	c.write(path, c.read(path)+`letters:
  sender: payersync
  smtp: {host: 127.0.0.1, port: 2525, tls: none}
  from: "Harbour Bakery accounts <accounts@harbour.example>"
  legal: "Harbour Bakery Ltd, 1 Quay Street, Whitby"
  link_hosts: [pay.harbour.example]
  languages: [en]
  service_chasing_off: true
  test_to: me@harbour.example
  journal: `+filepath.Join(c.dir, "books", "acme", "letters")+`
`)
	c.apply()
	p := c.serve(0) // makes the list of nodes
	check := func() string {
		t.Helper()
		return strings.Join(strings.Fields(c.any().run("check", "--account", "acme").out), " ")
	}
	if says := check(); strings.Contains(says, "letters folder") && !strings.Contains(says, "this node wrote in") {
		t.Errorf("with one node check says:\n%s", says)
	}
	c.otherNode("node-b", "1 second", "")
	p.signal(syscall.SIGKILL)
	p.wait()
	marked := func(by, word string) {
		t.Helper()
		c.exec("SELECT set_config('payersync.account', '1', false); UPDATE main.letter_desk SET folder = " + word +
			", folder_node = " + by + ", folder_at = '2026-03-02T09:00:00.000Z'")
	}
	marked("''", "''")
	if says := check(); !strings.Contains(says, "2 nodes are listed, and none has looked for letters yet") {
		t.Errorf("before a node has looked for letters check says:\n%s", says)
	}
	marked("'node-b'", "'WORD'")
	if says := check(); !strings.Contains(says, "FAIL letters folder") ||
		!strings.Contains(says, "is not the one that node node-b writes the journal of letters in, so this node sends no letters") || !strings.Contains(says, "mount the folder that the nodes share at ") {
		t.Errorf("on a node with another folder check says:\n%s", says)
	}
	c.accounts["acme"].write("letters.shared", "payersync letters folder 1 WORD\n")
	if says := check(); !strings.Contains(says, "ok letters folder") ||
		!strings.Contains(says, "shows what node node-b wrote there") {
		t.Errorf("on a node with the same folder check says:\n%s", says)
	}
}
