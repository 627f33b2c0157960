package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"payersync/state/statetest"
)

// household is a node, with its configuration in place of a world's own, and the folders of accounts.
type household struct {
	*world         // of the first account
	folders string // one for each account
}

const (
	firstKEK  = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"
	secondKEK = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=\n"
)

// newHousehold makes a node of an empty database, and a folder for each world, by the account's name.
func newHousehold(t *testing.T, worlds map[string]*world) *household {
	t.Helper()
	dsn := statetest.Postgres(t)
	f := &household{folders: t.TempDir()}
	books := t.TempDir()
	for name, w := range worlds {
		w.must(os.Symlink(w.dir, filepath.Join(books, name)))
		config, _, _ := strings.Cut(w.config(), "server:")
		config = strings.NewReplacer("env:BILLING_CLIENT_SECRET", "file:secrets/client", "customers.csv",
			filepath.Join(books, name, "customers.csv"), "file:webhook.secret", "file:secrets/webhook").Replace(config)
		for file, text := range map[string]string{"account.yaml": config, "mapping.yaml": worldMapping,
			"secrets/client": clientSecret + "\n", "secrets/webhook": webhookSecret + "\n",
			".git/config": "no file of an account"} {
			f.put(t, name+"/"+file, text)
		}
	}
	f.world = worlds[slices.Sorted(maps.Keys(worlds))[0]]
	f.write("dsn", dsn)
	f.write("kek", firstKEK)
	f.write("payersync.yaml",
		"ledger: {postgres: file:dsn, key_encryption_key: file:kek, connections: 8}\naccounts: {files: ["+books+"], networks: [127.0.0.0/8]}\n")
	return f
}

// put writes a file of an account.
func (f *household) put(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(f.folders, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// change replaces text in a file of an account.
func (f *household) change(t *testing.T, name, old, text string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.folders, name))
	if err != nil || !strings.Contains(string(data), old) {
		t.Fatalf("%s does not hold %q: %v", name, old, err)
	}
	f.put(t, name, strings.Replace(string(data), old, text, 1))
}

// says fails unless a command's output holds these.
func says(t *testing.T, r result, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.out+r.errOut, text) {
			t.Errorf("it is not said: %s\n%s%s", text, r.out, r.errOut)
		}
	}
}

// keepsSecret fails if a command's output contains a secret of a household.
func keepsSecret(t *testing.T, r result, more ...string) {
	t.Helper()
	for _, secret := range append(more, clientSecret, webhookSecret, strings.TrimSpace(firstKEK),
		strings.TrimSpace(secondKEK)) {
		if strings.Contains(r.out+r.errOut, secret) {
			t.Errorf("a secret is shown:\n%s%s", r.out, r.errOut)
		}
	}
}

// foreigners are rows unique to one account.
func foreigners(n int) []row {
	rows := people(n)
	for i := range rows {
		rows[i].ID, rows[i].Name = fmt.Sprintf("F%05d", i+1), fmt.Sprintf("Fjord %d", i+1)
	}
	return rows
}

// Their connections have the same name, and their payers the same addresses.
func TestTwoAccountsOfADatabaseSeeNothingOfEachOther(t *testing.T) {
	t.Parallel()
	ours, theirs := people(3), foreigners(4)
	other := newWorld(t, theirs)
	_, port, _ := strings.Cut(other.hooks, ":")
	harbour, fjord := "harbour-"+port, "zfjord-"+port
	f := newHousehold(t, map[string]*world{harbour: newWorld(t, ours), fjord: other})
	keepsSecret(t, f.expect(exitDone, "accounts", "apply", f.folders, "--yes"))
	says(t, f.expect(exitUsage, "payers", "list"), "there are several accounts", harbour, fjord)
	says(t, f.expect(exitFailed, "status", "--account", "nobody"), "none of that name", "payersync accounts list")
	for _, name := range []string{harbour, fjord} {
		f.expect(exitDone, "sync", "--account", name)
	}
	f.expectOnePerRow(ours)
	other.expectOnePerRow(theirs)
	mandate := f.mandateOf("A00001").ID
	version := hashOf([]byte(worldMapping))[:shortHash]
	for path, need := range needs {
		if need.what == "" || need.what == needsSecrets {
			continue
		}
		args := append(strings.Fields(path)[1:],
			strings.Fields(strings.NewReplacer("MANDATE", mandate, "VERSION", version, "BACKUPS", f.dir).Replace(need.args))...)
		r := f.run(append(args, "--account", harbour)...)
		if text := r.out + r.errOut; strings.Contains(text, "Fjord") || strings.Contains(text, "F0000") {
			t.Errorf("%s shows what is another account's:\n%s", path, text)
		}
		keepsSecret(t, r)
	}
	if s := decode[statusReport](t,
		f.expect(exitDone, "status", "--account", fjord, "--output", "json")); s.Payers["linked"] != 4 {
		t.Errorf("the other account has %v", s.Payers)
	}
	if left, _ := filepath.Glob(".letters*"); len(left) > 0 {
		t.Errorf("a journal of letters lies in no account's place: %v", left)
	}
	for _, place := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm", os.TempDir()} {
		if left, _ := filepath.Glob(filepath.Join(place, "payersync-*"+port+"-*")); len(left) > 0 {
			t.Errorf("files of accounts were left: %v", left)
		}
	}
}

// As behind head, which reads some lines and leaves.
func TestACommandThatNobodyReadsOnLeavesNoFilesOfItsAccount(t *testing.T) {
	t.Parallel()
	f := newHousehold(t, map[string]*world{"harbour": newWorld(t, people(1))})
	f.expect(exitDone, "accounts", "apply", f.folders, "--yes")
	place := t.TempDir()
	for _, args := range [][]string{{"status"}, {"check"}, {"plan"}, {"mapping", "fields"}} {
		p := f.process(append(args, "--account", "harbour")...)
		p.cmd.Env = append(p.cmd.Env, "XDG_RUNTIME_DIR="+place)
		read, write, err := os.Pipe()
		f.must(err)
		p.cmd.Stdout, p.cmd.Stderr = write, &p.errOut
		f.must(read.Close())
		f.must(p.begin())
		f.must(write.Close())
		p.wait()
		if left, err := os.ReadDir(place); err != nil || len(left) > 0 {
			t.Errorf("%s: %v were left: %v", p.args, left, err)
		}
		if text := p.errOut.String(); strings.Contains(text, "Stopping") || strings.Contains(text, "pipe") {
			t.Errorf("%s: nobody has stopped it, and it says\n%s", p.args, text)
		}
	}
}

// Each broken connection raises SIGPIPE, whatever its cause.
func TestABrokenConnectionEndsNoService(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	p := w.serve()
	p.signal(syscall.SIGPIPE)
	p.signal(syscall.SIGPIPE)
	w.expect(exitDone, "sync")
	if p.over() {
		t.Fatal("serve ended")
	}
	p.signal(syscall.SIGTERM)
	if r := p.wait(); r.code != exitDone {
		t.Errorf("serve ended with %d: %s", r.code, r.errOut)
	}
}

func TestAMistakeInOneOfTwoFoldersChangesNoAccount(t *testing.T) {
	t.Parallel()
	f := newHousehold(t, map[string]*world{"harbour": newWorld(t, people(1)), "fjord": newWorld(t, people(1))})
	for name, c := range map[string]struct{ file, old, text, says string }{
		"the configuration": {"harbour/account.yaml", "guards:", "gards:", "account harbour: account.yaml:"},
		"a mapping": {"fjord/mapping.yaml", "trim(Name)", "trim(Nmae)",
			"account fjord: connection acme: mapping.yaml:5:"},
		"a secret": {"fjord/account.yaml", "file:secrets/client", "env:BILLING_CLIENT_SECRET", "write file:NAME"},
		"a node's file": {"harbour/account.yaml", "/harbour/customers.csv", "/../payersync.yaml",
			"connections[0].source.path of account harbour is"},
		"a lost file": {"harbour/account.yaml", "mapping: mapping.yaml", "mapping: none.yaml",
			"the mapping cannot be read"},
	} {
		f.change(t, c.file, c.old, c.text)
		r := f.expect(exitUsage, "accounts", "apply", f.folders, "--yes")
		says(t, r, "no account was changed", c.says)
		keepsSecret(t, r)
		if left := f.expect(exitDone, "accounts", "list", "--output", "json"); left.out != "" {
			t.Errorf("%s: %s", name, left.out)
		}
		f.change(t, c.file, c.text, c.old)
	}
	f.put(t, "notes/todo.txt", "no account")
	says(t, f.expect(exitUsage, "accounts", "apply", f.folders, "--yes"), "no account was changed",
		"account notes: there is no account.yaml in ")
	f.drop(t, "notes/todo.txt")
	f.drop(t, "notes")
	f.expect(exitDone, "accounts", "apply", f.folders, "--yes")
	says(t, f.expect(exitDone, "accounts", "list"), "harbour", "fjord", "active")
}

func TestWhatAccountsApplyWouldChangeIsShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	f := newHousehold(t, map[string]*world{"harbour": newWorld(t, people(1))})
	says(t, f.expect(exitUsage, "accounts", "apply", f.folders), "Account harbour is new.", "secrets/client: added",
		"add --yes")
	f.expect(exitDone, "accounts", "apply", f.folders, "--yes")
	says(t, f.expect(exitDone, "accounts", "apply", filepath.Join(f.folders, "harbour")),
		"Account harbour stays as it is.")

	f.change(t, "harbour/mapping.yaml", "trim(Phone)", "upper(Phone)")
	f.put(t, "harbour/secrets/client", "hunter2-another-secret\n")
	f.change(t, "harbour/account.yaml", "file:secrets/webhook", "hunter2-literal-of-thirty-two-bytes")
	shown := f.expect(exitDone, "accounts", "apply", f.folders, "--yes", "--reason", "spaces")
	says(t, shown, "Account harbour changes.", `-    - {name: trim(Name), email: lower(trim(Email)), phone: trim(Phone)}`,
		`+    - {name: trim(Name), email: lower(trim(Email)), phone: upper(Phone)}`,
		"secrets/client: changed", "[redacted]", "Account harbour has version 2 now.")
	keepsSecret(t, shown, "hunter2-another-secret", "hunter2-literal")

	f.change(t, "harbour/account.yaml", "hunter2-literal-of-thirty-two-bytes", "'hunter2-''literal-of-thirty-two'")
	f.drop(t, "harbour/secrets/webhook")
	r := f.expect(exitDone, "accounts", "apply", f.folders, "--yes", "--output", "json")
	keepsSecret(t, r, "literal-of-thirty-two", "hunter2-literal")
	got := decode[accountChange](t, r)
	if len(got.Files) != 2 || got.Files[0] != (accountFileChange{"account.yaml", "changed", ""}) ||
		got.Files[1] != (accountFileChange{"secrets/webhook", "removed", ""}) || got.Version != 3 || !got.Applied {
		t.Errorf("got %+v", got)
	}
}

// drop removes a file of an account.
func (f *household) drop(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(f.folders, name)); err != nil {
		t.Fatal(err)
	}
}

func TestTheOnlyAccountIsMeantWhereNoneIsNamed(t *testing.T) {
	t.Parallel()
	rows := people(2)
	f := newHousehold(t, map[string]*world{"harbour": newWorld(t, rows)})
	says(t, f.expect(exitUsage, "payers", "list"), "there is no account yet")
	says(t, f.expect(exitDone, "status"), "There is no account yet", "No node is at work")
	says(t, f.expect(exitDone, "nodes", "list"), "There is no node")
	f.expect(exitDone, "accounts", "apply", f.folders, "--yes", "--reason", "the first")
	f.expect(exitDone, "sync")
	f.expectOnePerRow(rows)
	for _, args := range [][]string{{"ledger", "backup", f.dir}, {"ledger", "rekey", "--yes"},
		{"ledger", "restore", f.path("dsn")}, {"ledger", "verify", f.path("dsn")}} {
		says(t, f.expect(exitFailed, args...), "a ledger that is a file", "PostgreSQL")
	}
	f.expect(exitDone, "ledger", "verify")
	f.expect(exitDone, "check")
	says(t, f.expect(exitUsage, "mapping", "rollback", hashOf([]byte(worldMapping))[:shortHash]),
		"payersync accounts apply")

	shown := f.expect(exitDone, "accounts", "list", "--show", "harbour")
	says(t, shown, "account.yaml, mapping.yaml, secrets/client")
	if strings.Contains(shown.out, "/webhooks/") {
		t.Errorf("the path of webhooks is shown: %s", shown.out)
	}
	if r := decode[accountReport](t,
		f.expect(exitDone, "accounts", "list", "--show", "harbour", "--show-token", "--output",
			"json")); len(r.Webhooks) < len("/webhooks/")+26 || r.State != "active" {
		t.Errorf("got %+v", r)
	}
	says(t, f.expect(exitDone, "accounts", "pause", "harbour", "--reason", "a holiday"), "is paused")
	f.export(foreigners(3)...)
	sent := f.box.Writes()
	for _, args := range [][]string{{"sync"}, {"backfill", "--yes"}, {"plan"}, {"sweep"},
		{"webhooks", "subscribe", "--yes"}, {"webhooks", "subscribe", "--test"}, {"connect", "books"},
		{"letters", "preview", "--test", "--to", "me@harbour.example"}, {"alerts", "send"}, {"environment"}} {
		says(t, f.expect(exitFailed, args...), "for account harbour: it is paused", "payersync accounts pause --undo harbour")
	}
	if n := f.box.Writes() - sent; n > 0 {
		t.Errorf("%d writes left for an account that is paused", n)
	}
	f.expect(exitDone, "status")
	f.expect(exitDone, "check")
	f.expect(exitDone, "ledger", "export", "A00001", "--output", "json")
	f.export(rows...)
	says(t, f.expect(exitDone, "accounts", "pause", "--undo", "harbour"), "is active")
	says(t, f.expect(exitFailed, "accounts", "pause", "nobody"), "none of that name")
}

// covers F200
func TestAKeyInVaultIsRefusedWithTheWayOutAndNothingIsChanged(t *testing.T) {
	t.Parallel()
	f := newHousehold(t, map[string]*world{"harbour": newWorld(t, people(1)), "fjord": newWorld(t, people(1))})
	f.expect(exitDone, "accounts", "apply", f.folders, "--yes")
	f.write("kek.vault", "vault:v1:AAAA\n")
	says(t, f.expect(exitFailed, "accounts", "key", "--rewrap", "--new-key", f.path("kek.vault"), "--yes"),
		"no longer opens those")
	f.expect(exitDone, "status", "--account", "harbour")
	f.write("kek", "vault:v1:AAAA\n")
	for _, args := range [][]string{{"status", "--account", "harbour"}, {"sync", "--account", "harbour"}, {"serve"},
		{"accounts", "list"}, {"accounts", "apply", f.folders, "--yes"}} {
		says(t, f.expect(exitUsage, args...), "it is a ciphertext of Vault or OpenBao",
			"With the version before, run payersync accounts rewrap --new-key FILE")
	}
	f.write("kek", firstKEK)
	f.expect(exitDone, "status", "--account", "harbour")
}

func TestAccountsGoOnWithAnotherKeyEncryptionKeyAlone(t *testing.T) {
	t.Parallel()
	f := newHousehold(t, map[string]*world{"harbour": newWorld(t, people(1)), "fjord": newWorld(t, people(1))})
	f.expect(exitDone, "accounts", "apply", f.folders, "--yes")
	f.write("kek.new", secondKEK)
	says(t, f.expect(exitUsage, "accounts", "key", "--rewrap", "--new-key", f.path("kek.new")), "without a yes",
		"add --yes")
	keepsSecret(t, f.expect(exitDone, "accounts", "key", "--rewrap", "--new-key", f.path("kek.new"), "--yes"))
	says(t, f.expect(exitFailed, "status", "--account", "harbour"), "cannot open the keys of accounts",
		"is wrapped with the key", "Name the file of the other")
	all := f.expect(exitFailed, "status", "--output", "json")
	keepsSecret(t, all)
	if r := decode[fleetStatus](t, all); r.Need != 2 || len(r.Accounts) != 2 ||
		!strings.Contains(r.Accounts[0].Problem, "is wrapped with the key") {
		t.Errorf("with the other key all accounts are %+v", r)
	}
	f.write("kek", secondKEK)
	f.expect(exitDone, "status", "--account", "harbour")
	says(t, f.expect(exitUsage, "accounts", "erase", "harbour"), "add --confirm harbour")
	says(t, f.expect(exitUsage, "accounts", "erase", "harbour", "--confirm", "fjord"), "nothing was done")
	f.expect(exitDone, "accounts", "erase", "harbour", "--confirm", "harbour", "--reason", "the contract ended")
	says(t, f.expect(exitFailed, "status", "--account", "harbour"), "It was erased")
	says(t, f.expect(exitDone, "accounts", "list", "--show", "harbour"), "leaving", "the account was erased")
	f.expect(exitDone, "sync", "--account", "fjord")
	if r := decode[fleetStatus](t, f.expect(exitDone, "status", "--all", "--output", "json")); r.Counts["leaving"] != 1 ||
		len(r.Accounts) != 2 || r.Accounts[0].LastRun == nil {
		t.Errorf("after one was erased all accounts are %+v", r)
	}
}

func TestAnAccountIsNamedForANodeAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	says(t, w.expect(exitUsage, "status", "--account", "acme"), "--account is for the configuration of a node")
	says(t, w.expect(exitUsage, "status", "--all"), "this is one account")
	says(t, w.expect(exitUsage, "nodes", "list"), "ledger.postgres")
	says(t, w.expect(exitUsage, "accounts", "list"), "there are no accounts", "ledger.postgres")
}
