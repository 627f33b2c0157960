package config

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/transport"
)

const nodeFile = `ledger:
  postgres: env:DATABASE_URL
  key_encryption_key: file:kek
accounts:
  files: [/srv/payersync, /data]
server:
  webhooks: ":8080"
  metrics: 127.0.0.1:9090
log:
  level: debug
`

const accountFile = `billing:
  profile: sandbox
  base_url: http://127.0.0.1:8090/api
  client_id: ours
  client_secret: file:secrets/billing
  redirect_url: http://localhost:8090/signed
connections:
  - {name: books, source: {kind: csv, path: /data/acme/books.csv, preset: xero}, mapping: mapping.yaml}
server:
  admin_url: http://localhost:8070
`

// csvBooks is its source.
const csvBooks = "{kind: csv, path: /data/acme/books.csv, preset: xero}"

// kek is a key-encryption key, as its file holds it.
const kek = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"

// folder writes files below a new folder, readable for their owner alone.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func databaseAt(address string) func(string) (string, bool) {
	return func(name string) (string, bool) { return address, name == "DATABASE_URL" }
}

const verified = "postgres://payersync:open-sesame@db.example.com/ledgers?sslmode=verify-full"

func aNode(t *testing.T) *Node {
	t.Helper()
	n, err := LoadNode(filepath.Join(folder(t, map[string]string{"node.yaml": nodeFile, "kek": kek}), "node.yaml"),
		databaseAt(verified))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestANodeSaysWhatIsOfTheMachineAndAnAccountTheRest(t *testing.T) {
	t.Parallel()
	n := aNode(t)
	o := n.Options()
	if o.Address != verified || o.Connections != 16 || len(o.KeyEncryptionKey) != 32 {
		t.Errorf("the database: %d connections, a key of %d bytes", o.Connections, len(o.KeyEncryptionKey))
	}
	owned, err := LoadNode(filepath.Join(folder(t,
		map[string]string{"node.yaml": strings.Replace(nodeFile, "  key_enc", "  owner: file:owner\n  key_enc", 1),
			"kek": kek, "owner": verified}), "node.yaml"), databaseAt(verified))
	if err != nil || o.Owner != "" || owned.Options().Owner != verified {
		t.Errorf("the owner's address: %q without one, %v", o.Owner, err)
	}
	if w := n.Nodes; w.Workers != (Workers{16, 32, 4}) || time.Duration(w.Slice) != time.Minute ||
		time.Duration(w.StopWithin) != 20*time.Second {
		t.Errorf("nodes: %+v", w)
	}
	dir := folder(t, map[string]string{"account.yaml": accountFile, "mapping.yaml": "",
		"secrets/billing": "hunter2-billing\n"})
	cfg, err := LoadAccount(dir, n, "acme", databaseAt(""))
	if err != nil {
		t.Fatal(err)
	}
	s := cfg.Server
	if cfg.AccountName != "acme" || cfg.Node != n || s.Webhooks != ":8080" || s.Metrics != "127.0.0.1:9090" ||
		s.AdminURL != "http://localhost:8070" || n.Server.AdminURL != "" || cfg.Log.Level != "debug" {
		t.Errorf("server %+v, log %+v", s, cfg.Log)
	}
	if cfg.Connections[0].Mapping != filepath.Join(dir, "mapping.yaml") ||
		cfg.Billing.ClientSecret.Expose() != "hunter2-billing" || cfg.Ledger != (Ledger{}) {
		t.Errorf("connections %+v, ledger %+v", cfg.Connections, cfg.Ledger)
	}
	masked := ""
	for _, secret := range cfg.Secrets() {
		masked += secret.Expose() + "\n"
	}
	for _, secret := range []string{verified, "hunter2-billing", strings.TrimSpace(kek)} {
		if !strings.Contains(masked, secret+"\n") {
			t.Errorf("%d letters of a secret are not masked", len(secret))
		}
	}
}

func TestTheShippedNodeShowsEveryKeyWithItsDefault(t *testing.T) {
	t.Parallel()
	const file = "../../../../configs/node.example.yaml"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kekFile := filepath.Join(folder(t, map[string]string{"kek": kek}), "kek")
	n, err := parseNode(file, []byte(strings.ReplaceAll(string(data), "file:kek", "file:"+kekFile)), 0,
		databaseAt(verified))
	if err != nil {
		t.Fatal(err)
	}
	want := nodeDefaults()
	want.Ledger.Postgres, want.Ledger.KeyEncryptionKey, want.HTTP = n.Ledger.Postgres, n.Ledger.KeyEncryptionKey, n.HTTP
	if !reflect.DeepEqual(*n, want) {
		t.Errorf("it sets %+v, and the defaults are %+v", *n, want)
	}
	var schema struct {
		Defs map[string]struct {
			Properties map[string]any
		} `json:"$defs"`
		Properties map[string]struct {
			Properties map[string]any
		}
	}
	if err := json.Unmarshal(NodeSchema(), &schema); err != nil || len(schema.Properties) != 6 {
		t.Fatalf("%d keys, %v", len(schema.Properties), err)
	}
	for key, below := range schema.Properties {
		for inner := range below.Properties {
			if key+"."+inner != "server.admin_url" && !strings.Contains(string(data), inner+":") {
				t.Errorf("%s.%s is not shown", key, inner)
			}
		}
	}
}

func TestWhichFileIsANodesIsToldByItsDatabase(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"node.yaml": nodeFile, "account.yaml": accountFile, "broken.yaml": "ledger: [",
		"file.yaml": "ledger: {path: a.db}\n"})
	for name, want := range map[string]bool{"node.yaml": true, "account.yaml": false, "broken.yaml": false,
		"file.yaml": false, "none.yaml": false} {
		if got := IsNode(filepath.Join(dir, name)); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestWrongNodesAreExplained(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		from, to, address string
		says              string
	}{
		"an account's key": {"log:", "billing: {profile: sandbox}\nlog:", verified,
			"node.yaml:9:1: billing is of a single account; move it to account.yaml"},
		"a ledger's file": {"  key_enc", "  path: a.db\n  key_enc", verified, "ledger.path is of a single account"},
		"a name of pages": {"server:", "server:\n  admin_url: https://x.example.com", verified,
			"server.admin_url is of a single account"},
		"no verified server": {"", "", "postgres://payersync:open-sesame@db.example.com/ledgers", "sslmode=verify-full"},
		"half verified": {"", "", "postgres://payersync:open-sesame@db.example.com/ledgers?sslmode=require",
			"sslmode=verify-full"},
		"one of two hosts": {"", "", "host=127.0.0.1,db.example.com user=payersync password=open-sesame dbname=ledgers",
			"way to db.example.com"},
		"a replica": {"  key_enc", "  replica: env:DATABASE_URL\n  key_enc", verified,
			"ledger.replica was removed; every command reads"},
		"no address":          {"", "", "postgres://payersync:open-sesame@host:port/ledgers", "cannot be read"},
		"an unverified owner": {"  key_enc", "  owner: file:owner\n  key_enc", verified, "ledger.owner cannot be used"},
		"no key":              {"file:kek", "not a key", verified, "openssl rand -base64 32"},
		"a long slice":        {"log:", "nodes: {slice: 1h}\nlog:", verified, "nodes.slice is 1h0m0s"},
		"no time to stop":     {"log:", "nodes: {stop_within: 1ms}\nlog:", verified, "nodes.stop_within is 1ms"},
		"no folder":           {"/data]", `""]`, verified, "accounts.files[1] is no folder; name one"},
		"an open listener":    {"server:", "server:\n  admin: 0.0.0.0:8070", verified, "server.admin is 0.0.0.0:8070"},
	} {
		dir := folder(t, map[string]string{"node.yaml": strings.Replace(nodeFile, tt.from, tt.to, 1), "kek": kek,
			"owner": "postgres://owner:open-sesame@db.example.com/ledgers"})
		_, err := LoadNode(filepath.Join(dir, "node.yaml"), databaseAt(tt.address))
		if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, address := range map[string]string{"this machine": "postgres://payersync@localhost/ledgers",
		"a socket": "host=/run/postgresql user=payersync dbname=ledgers"} {
		dir := folder(t, map[string]string{"node.yaml": nodeFile, "kek": kek})
		if _, err := LoadNode(filepath.Join(dir, "node.yaml"), databaseAt(address)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrongAccountsAreExplained(t *testing.T) {
	t.Parallel()
	n := aNode(t)
	for name, tt := range map[string]struct{ from, to, says string }{
		"a ledger": {"server:", "ledger: {path: a.db}\nserver:",
			"account.yaml:9:1: ledger is the same for all accounts"},
		"a log":      {"server:", "log: {level: info}\nserver:", "log is the same for all accounts"},
		"workers":    {"server:", "nodes: {}\nserver:", "nodes is the same for all accounts"},
		"a listener": {"server:", "server:\n  webhooks: :80", "server.webhooks is the same for all accounts"},
		"a backup":   {"server:", "backup: {keep: 3}\nserver:", "backup is for a ledger file"},
		"the environment": {"file:secrets/billing", "env:DATABASE_URL",
			`account.yaml:5:18: billing.client_secret comes from the environment, which is the same for all accounts; put it into a file beside account.yaml and write file:NAME`},
		"a file of the node": {"file:secrets/billing", "file:/run/secrets/kek",
			"billing.client_secret of account acme leads out of the account's folder"},
		"a file of another": {"file:secrets/billing", "file:../beta/billing",
			"billing.client_secret of account acme leads out of the account's folder"},
		"a mapping of nobody": {"mapping.yaml", "../mapping.yaml", "connections[0].mapping of account acme leads out"},
		"another's templates": {"server:", "letters: {templates: /srv/letters}\nserver:",
			"letters.templates of account acme leads out"},
		"a query of nobody": {csvBooks,
			"{kind: sql, driver: sqlite, path: books.db, query_file: /run/secrets/kek, id: [no]}",
			"connections[0].source.query_file of account acme leads out"},
		"books of the node": {"/data/acme/books.csv", "/etc/passwd",
			"connections[0].source.path of account acme is /etc/passwd, outside the account's folder on this node; put it below /srv/payersync/acme or /data/acme"},
		"books of another":   {"/data/acme/books.csv", "/data/beta/books.csv", "outside the account's folder"},
		"books by a way out": {"/data/acme/books.csv", "/data/acme/../beta/books.csv", "outside the account's folder"},
		"books beside":       {"/data/acme/books.csv", "../beta/books.csv", "outside the account's folder"},
		"all books":          {"/data/acme/books.csv", "/data/acme", "outside the account's folder"},
		"a database's file": {csvBooks, "{kind: sql, driver: sqlite, path: /var/lib/other.db, table: t, id: [no]}",
			"connections[0].source.path of account acme is /var/lib/other.db"},
		"a certificate": {csvBooks,
			"{kind: sql, driver: mysql, host: db.example.com, database: d, user: u, ca_file: /etc/ssl/key.pem, table: t, id: [no]}", "connections[0].source.ca_file of account acme leads out"},
		"a socket": {csvBooks,
			"{kind: sql, driver: postgres, host: /run/postgresql, database: d, user: u, table: t, id: [no]}",
			"connections[0].source.host of account acme is a socket"},
		"another's journal": {"server:", "letters: {journal: /srv/payersync/beta/journal}\nserver:",
			"letters.journal of account acme is /srv/payersync/beta/journal"},
		"no secret": {"secrets/billing", "secrets/none", "there is no such file"},
	} {
		dir := folder(t, map[string]string{"account.yaml": strings.Replace(accountFile, tt.from, tt.to, 1),
			"secrets/billing": "hunter2-billing\n"})
		_, err := LoadAccount(dir, n, "acme", databaseAt(verified))
		if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What lies in the folder of an account by a link is somebody else's.
//
// covers F192
func TestBooksThatALinkNamesAreNotRead(t *testing.T) {
	t.Parallel()
	books := folder(t, map[string]string{"acme/own.csv": "ContactName,AccountNumber\nAnn,1\n",
		"beta/books.csv": "ContactName,AccountNumber\nBob,2\n"})
	for name, to := range map[string]string{"link.csv": "../beta/books.csv", "link.db": "../beta/books.csv",
		"own.db-journal": "../beta/books.csv", "near.csv": "own.csv"} {
		if err := os.Symlink(to, filepath.Join(books, "acme", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(books, "acme", "own.db"), []byte("SQLite"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := aNode(t)
	n.Accounts.Files = []string{books}
	for source, want := range map[string]string{
		"{kind: csv, path: BOOKS/own.csv, preset: xero}":                       "",
		"{kind: csv, path: BOOKS/near.csv, preset: xero}":                      "",
		"{kind: csv, path: BOOKS/link.csv, preset: xero}":                      "it leads out of its folder",
		"{kind: sql, driver: sqlite, path: BOOKS/link.db, table: t, id: [no]}": "it, or what SQLite keeps beside it, leads out",
		"{kind: sql, driver: sqlite, path: BOOKS/own.db, table: t, id: [no]}":  "it, or what SQLite keeps beside it, leads out",
	} {
		text := strings.Replace(accountFile, csvBooks, strings.Replace(source, "BOOKS", books+"/acme", 1), 1)
		cfg, err := LoadAccount(folder(t, map[string]string{"account.yaml": text, "secrets/billing": "hunter2-billing"}), n,
			"acme", databaseAt(""))
		if err != nil {
			t.Fatal(err)
		}
		opened, err := cfg.Connections[0].Source.Open(SourceDeps{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = opened.Describe(t.Context()); want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

// Whatever an account's configuration names, nobody beside the node is asked in the node's name.
//
// covers F81
func TestAnAccountReachesPublicAddressesAndThoseOfItsNodeAlone(t *testing.T) {
	t.Parallel()
	beside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = beside.Close() }()
	asked := make(chan struct{}, 100)
	go func() {
		for conn, err := beside.Accept(); err == nil; conn, err = beside.Accept() {
			asked <- struct{}{}
			_ = conn.Close()
		}
	}()
	port := beside.Addr().(*net.TCPAddr).Port
	n := aNode(t)
	for _, allowed := range []bool{false, true} {
		if allowed {
			n.Accounts.Networks = []Network{Network(netip.MustParsePrefix("127.0.0.0/8"))}
		}
		for name, ask := range map[string]func(cfg *Config) error{
			"http": func(cfg *Config) error {
				client := cfg.Client(transport.Options{Retries: -1})
				defer client.Close()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
					fmt.Sprintf("http://127.0.0.1:%d/latest/meta-data", port), nil)
				if err == nil {
					_, err = client.Do(req, transport.Never)
				}
				return err
			},
			"mail": func(cfg *Config) error {
				_, err := cfg.MailServer("").Send(t.Context(), "a@example.com", "b@example.com", []byte("Subject: x\r\n\r\nx\r\n"))
				return err
			},
			"postgres": func(cfg *Config) error { return describe(t, cfg) },
			"mysql":    func(cfg *Config) error { return describe(t, cfg) },
		} {
			text := strings.Replace(accountFile, "server:",
				fmt.Sprintf("letters: {smtp: {host: localhost, port: %d, tls: none}}\nserver:", port), 1)
			if name == "postgres" || name == "mysql" {
				text = strings.Replace(text, csvBooks,
					fmt.Sprintf("{kind: sql, driver: %s, host: localhost, port: %d, database: d, user: u, table: t, id: [no]}", name,
						port), 1)
			}
			cfg, err := LoadAccount(folder(t, map[string]string{"account.yaml": text, "secrets/billing": "hunter2-billing"}), n,
				"acme", databaseAt(""))
			if err != nil {
				t.Fatal(err)
			}
			switch err := ask(cfg); {
			case err == nil, !allowed && !strings.Contains(err.Error(), connector.ErrAddress.Error()), allowed &&
				strings.Contains(err.Error(), connector.ErrAddress.Error()):
				t.Errorf("%s, allowed %t: %v", name, allowed, err)
			case !allowed && len(asked) > 0:
				t.Errorf("%s: it was asked", name)
			}
		}
	}
	if len(asked) < 4 {
		t.Errorf("%d of 4 were asked where that is allowed", len(asked))
	}
}

// describe asks the database of the first connection.
func describe(t *testing.T, cfg *Config) error {
	t.Helper()
	source, err := cfg.Connections[0].Source.Open(SourceDeps{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = source.Describe(t.Context())
	return err
}
