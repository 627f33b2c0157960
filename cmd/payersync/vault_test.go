package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payersync/connector/vault/vaulttest"
)

// vaultKeys are those of ledger.vault for a server, whose token is in a file beside the configuration.
func vaultKeys(s *vaulttest.Server, token string) string {
	return fmt.Sprintf("vault: {address: %q, key: %s, mount: %s, namespace: %s, token: %q}", s.URL, vaulttest.Key, vaulttest.Mount, vaulttest.Namespace, "file:"+token)
}

// edit replaces text in a file beside the configuration.
func (f *household) edit(t *testing.T, name, old, text string) {
	t.Helper()
	data, err := os.ReadFile(f.path(name))
	if err != nil || !strings.Contains(string(data), old) {
		t.Fatalf("%s does not hold %q: %v", name, old, err)
	}
	f.write(name, strings.Replace(string(data), old, text, 1))
}

func TestAKeyInClearMovesIntoVaultAndOut(t *testing.T) {
	t.Parallel()
	f := newHousehold(t, map[string]*world{"harbour": newWorld(t, people(1)), "fjord": newWorld(t, people(1))})
	f.expect(exitDone, "accounts", "apply", f.folders, "--yes")
	s := vaulttest.New(t)
	first, second := s.Wrapped(1, secondKEK), s.Wrapped(2, firstKEK)
	hidden := func(r result) result {
		t.Helper()
		keepsSecret(t, r, vaulttest.Token, first, second)
		return r
	}
	f.write("kek.vault", first+"\n")
	f.write("kek.second", second)
	says(t, f.expect(exitFailed, "accounts", "rewrap", "--new-key", f.path("kek.vault"), "--yes"), "it is a ciphertext of Vault, and nothing says who opens it", "ledger.vault")

	f.write("token", vaulttest.Token+"\n")
	f.edit(t, "payersync.yaml", "file:kek,", "file:kek, "+vaultKeys(s, "token")+",")
	says(t, hidden(f.expect(exitUsage, "status")), "ledger.key_encryption_key holds the key in clear", "accounts rewrap --new-key FILE")
	says(t, hidden(f.expect(exitUsage, "accounts", "rewrap", "--new-key", f.path("kek.vault"))), "without a yes")
	says(t, hidden(f.expect(exitDone, "accounts", "rewrap", "--new-key", f.path("kek.vault"), "--yes")), "The keys of 2 accounts are wrapped anew. Name "+f.path("kek.vault")+" in ledger.key_encryption_key of every node beside ledger.vault")
	f.must(os.Remove(f.path("kek")))
	f.edit(t, "payersync.yaml", "file:kek,", "file:kek.vault,")
	s.Asked()
	for _, name := range []string{"harbour", "fjord"} {
		says(t, hidden(f.expect(exitDone, "sync", "--account", name)), "1")
		says(t, hidden(f.expect(exitDone, "check", "--account", name)), "which Vault at "+s.URL+" opened; no file of this node holds it")
	}
	hidden(f.expect(exitDone, "status", "--all"))
	if n := s.Asked(); n != 5 {
		t.Errorf("Vault was asked %d times by five commands", n)
	}

	says(t, hidden(f.expect(exitDone, "accounts", "rewrap", "--new-key", f.path("kek.second"), "--yes")), "2 accounts", "beside ledger.vault")
	f.edit(t, "payersync.yaml", "file:kek.vault,", "file:kek.second,")
	hidden(f.expect(exitDone, "status", "--account", "fjord"))
	f.write("kek.second", s.Wrapped(3, firstKEK)) // as after a rotation of Vault's own key
	hidden(f.expect(exitDone, "status", "--account", "fjord"))
	f.write("kek", secondKEK)
	says(t, hidden(f.expect(exitDone, "accounts", "rewrap", "--new-key", f.path("kek"), "--yes")), "2 accounts", "of every node, take ledger.vault out, and start them again")
}

// What needs no key asks nobody for one; what needs it says who has it, and why it cannot be had.
//
// covers F200
func TestWithoutVaultNothingIsDoneThatNeedsTheKey(t *testing.T) {
	t.Parallel()
	f := newHousehold(t, map[string]*world{"harbour": newWorld(t, people(1)), "fjord": newWorld(t, people(1))})
	s := vaulttest.New(t)
	sealed := s.Wrapped(1, firstKEK)
	f.write("kek", sealed)
	f.write("token", vaulttest.Token)
	f.edit(t, "payersync.yaml", "file:kek,", "file:kek, "+vaultKeys(s, "token")+",")
	f.expect(exitDone, "accounts", "apply", f.folders, "--yes")
	f.write("token", "hvs.expired")
	s.Asked()
	for _, args := range [][]string{
		{"accounts", "list"}, {"nodes", "list"}, {"accounts", "pause", "fjord"}, {"accounts", "resume", "fjord"},
		{"accounts", "erase", "fjord", "--confirm", "fjord"}, {"accounts", "show", "fjord"},
	} {
		f.expect(exitDone, args...)
	}
	if n := s.Asked(); n != 0 {
		t.Errorf("Vault was asked %d times for what needs no key", n)
	}
	for _, args := range [][]string{{"status", "--account", "harbour"}, {"check", "--account", "harbour"}, {"sync", "--account", "harbour"}, {"serve"}, {"accounts", "show", "harbour"}, {"accounts", "key", "harbour", "--to", f.path("out")}, {"accounts", "apply", f.folders, "--yes"}} {
		r := f.expect(exitFailed, args...)
		keepsSecret(t, r, "hvs.expired", sealed)
		says(t, r, "cannot open the keys of accounts: Vault at "+s.URL+" opens no key: it does not know the token, which has run out or was revoked, or is another server's (HTTP 403). Put one into ledger.vault.token")
		if n := s.Asked(); n != 1 {
			t.Errorf("%s asked Vault %d times", args, n)
		}
	}
	f.write("token", vaulttest.Token) // as an agent writes it anew
	f.expect(exitDone, "status", "--account", "harbour")
	s.Seal(true)
	s.Asked()
	r := f.expect(exitFailed, "status", "--output", "json")
	keepsSecret(t, r, vaulttest.Token, sealed)
	says(t, r, "it is sealed or not ready (HTTP 503)")
	if n := s.Asked(); n != 4 {
		t.Errorf("one command asked a server that is sealed %d times", n)
	}
}

// Nodes need Vault when they start, and not while they run.
//
// covers F200
func TestNodesThatRunGoOnWithoutVault(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, map[string]int{"harbour": 1, "fjord": 1})
	s := vaulttest.New(t)
	key, err := os.ReadFile(filepath.Join(c.dir, "kek"))
	c.any().must(err)
	sealed := s.Wrapped(1, string(key))
	c.write("kek", sealed)
	c.write("token", vaulttest.Token)
	for i := range c.hooks {
		c.write(fmt.Sprintf("node%d.yaml", i), strings.Replace(c.node(i), `/kek"`, `/kek", `+vaultKeys(s, filepath.Join(c.dir, "token")), 1))
	}
	for _, w := range c.accounts {
		w.write("payersync.yaml", strings.Replace(c.node(0), `/kek"`, `/kek", `+vaultKeys(s, filepath.Join(c.dir, "token")), 1))
	}
	c.apply()
	s.Asked()
	nodes := []*process{c.serve(0), c.serve(1)}
	if n := s.Asked(); n != 2 {
		t.Errorf("two nodes asked %d times", n)
	}
	s.Seal(true)
	for _, name := range c.names {
		eventually(t, "a customer for the payer of "+name, func() bool { return c.accounts[name].box.Writes() > 0 })
	}
	if n := s.Asked(); n != 0 {
		t.Errorf("nodes at work asked %d times", n)
	}
	for _, p := range nodes {
		p.stop()
		for _, secret := range []string{vaulttest.Token, sealed, strings.TrimSpace(string(key))} {
			if strings.Contains(p.out.String()+p.errOut.String(), secret) {
				t.Errorf("%d letters of a secret are in the log", len(secret))
			}
		}
	}
	r := c.expect(exitFailed, "serve")
	says(t, r, "it is sealed or not ready (HTTP 503). Unseal it (vault operator unseal), and try again")
	keepsSecret(t, r, vaulttest.Token, sealed)
}
