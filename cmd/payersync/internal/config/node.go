package config

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/mapping/strict"
	"payersync/state"
)

// Node is the configuration of one of several machines with a shared database. The database keeps the ledgers
// of many accounts and their configurations (configs/node.example.yaml has every key). Node holds only the
// machine's own settings.
type Node struct {
	Ledger   NodeLedger `yaml:"ledger" jsonschema:"required" jsonschema_description:"The database that keeps the ledgers of all accounts."`
	Nodes    Nodes      `yaml:"nodes" jsonschema_description:"How work is shared out."`
	Accounts Accounts   `yaml:"accounts" jsonschema_description:"What of this machine the files of accounts may name."`
	Server   Server     `yaml:"server" jsonschema_description:"Addresses that serve listens on, as host:port. A blank one is off."`
	HTTP     HTTP       `yaml:"http" jsonschema_description:"How requests leave this machine."`
	Log      Log        `yaml:"log" jsonschema_description:"The log on standard error."`
}

// NodeLedger names the database of the ledgers.
type NodeLedger struct {
	Postgres         Secret `yaml:"postgres" jsonschema:"required" jsonschema_description:"The database of PostgreSQL, as in postgres://USER@HOST:PORT/DATABASE?sslmode=verify-full; with a password in it env:NAME or file:PATH."`
	Owner            Secret `yaml:"owner" jsonschema_description:"The same database with the role that owns its tables, for migrations; env:NAME or file:PATH. The role of postgres then only reads and writes rows. Default none: the role of postgres owns the tables, or they are up to date."`
	KeyEncryptionKey Secret `yaml:"key_encryption_key" jsonschema:"required" jsonschema_description:"The key that wraps those of accounts: 32 random bytes in base64. env:NAME or file:PATH."`
	Connections      int    `yaml:"connections" jsonschema:"minimum=5,maximum=1000" jsonschema_description:"Connections to the database that this machine holds for ledgers at most. Default 16."`
}

// Nodes says how work is shared out.
type Nodes struct {
	OpenAccounts int      `yaml:"open_accounts" jsonschema:"minimum=1,maximum=100000" jsonschema_description:"Accounts that this machine keeps open at most, unless more have work at once. Others are opened when they have work. Default 200."`
	Workers      Workers  `yaml:"workers" jsonschema_description:"How many jobs of each kind this machine works on at a time."`
	Slice        Duration `yaml:"slice" jsonschema_description:"How long a job works before others have their turn, 5s to 4m. Default 60s."`
	StopWithin   Duration `yaml:"stop_within" jsonschema_description:"How long jobs have to come to an end when this machine stops, 1s to 5m. Default 20s."`
}

// Workers are how many jobs of each kind a machine works on at a time.
type Workers struct {
	Hooks int `yaml:"hooks" jsonschema:"minimum=0,maximum=1000" jsonschema_description:"Webhooks of accounts. Default 16."`
	Runs  int `yaml:"runs" jsonschema:"minimum=0,maximum=1000" jsonschema_description:"Syncs and backfills. Default 32."`
	Care  int `yaml:"care" jsonschema:"minimum=0,maximum=1000" jsonschema_description:"Sweeps, letters and other chores. Default 4."`
}

// Accounts lists the machine's folders and addresses open to accounts' configurations: another person than
// the machine's operator may have written those.
type Accounts struct {
	Files    []string  `yaml:"files" jsonschema_description:"Folders that hold one for each account, by its name: books of the account acme may lie below /srv/payersync/acme where this is [/srv/payersync]. Default none."`
	Networks []Network `yaml:"networks" jsonschema_description:"Addresses that are not public and that accounts may reach nevertheless, as databases, mail servers or billing services of your own are. Default none: neither this machine nor others beside it."`
}

// AccountFile is the name of an account's configuration among its files.
const AccountFile = "account.yaml"

// Secrets returns every secret of the node.
func (n *Node) Secrets() []connector.Secret {
	return append(n.HTTP.secrets(), n.Ledger.Postgres.Secret, n.Ledger.Owner.Secret, n.Ledger.KeyEncryptionKey.Secret)
}

// Options returns the database as package state takes it. The secrets were resolved.
func (n *Node) Options() state.ServerOptions {
	key, _ := parseKEK(n.Ledger.KeyEncryptionKey.Secret) // it was checked when the file was read
	return state.ServerOptions{Address: n.Ledger.Postgres.Expose(), Owner: n.owner(), Connections: n.Ledger.Connections,
		KeyEncryptionKey: key}
}

// owner returns the address for migrations; "" for none.
func (n *Node) owner() string {
	if n.Ledger.Owner.IsZero() {
		return ""
	}
	return n.Ledger.Owner.Expose()
}

// IsNode reports whether the file at path configures a node, and not a single account with its ledger in a
// file.
func IsNode(path string) bool {
	data, _, err := read(path)
	if err != nil {
		return false
	}
	_, doc, err := strict.Load(filepath.Base(path), data, map[string]any{})
	return err == nil && doc.Node(inDatabase) != nil
}

var inDatabase = strict.Path{"ledger", "postgres"}

// nodeDefaults holds the defaults of a node's file.
func nodeDefaults() Node {
	one := defaults()
	return Node{
		Ledger: NodeLedger{Connections: 16},
		Nodes: Nodes{OpenAccounts: 200, Workers: Workers{Hooks: 16, Runs: 32, Care: 4}, Slice: Duration(time.Minute),
			StopWithin: Duration(20 * time.Second)}, Accounts: Accounts{Files: []string{}, Networks: []Network{}},
		Server: one.Server, HTTP: one.HTTP, Log: one.Log,
	}
}

// LoadNode reads the configuration of a node. Every command needs its secrets: getenv looks up environment
// variables. The error is a *strict.Error with every problem of the file, or says in three parts why there is
// no file to read.
func LoadNode(path string, getenv func(string) (string, bool)) (*Node, error) {
	data, exposed, err := readWhole(path)
	if err != nil {
		return nil, err
	}
	return parseNode(path, data, exposed, getenv)
}

func parseNode(path string, data []byte, exposed fs.FileMode, getenv func(string) (string, bool)) (*Node, error) {
	name := filepath.Base(path)
	if err := misplaced(name, data,
		elsewhere{ofAccount, "is of a single account; move it to " + AccountFile +
			" in the account's folder, which payersync accounts apply takes, or remove ledger.postgres, if this file is to be the one account and its ledger a file"}); err != nil {
		return nil, err
	}
	if err := refuseRemoved(name, data, usage.RemovedKeys); err != nil {
		return nil, err
	}
	node, doc, invalid := strict.Load(name, data, nodeDefaults())
	if doc == nil {
		return nil, invalid
	}
	c := &check{doc: doc, file: path, dir: filepath.Dir(path), exposed: exposed, getenv: getenv,
		config: &Config{Server: node.Server, HTTP: node.HTTP}}
	c.database(&node.Ledger)
	c.nodes(node.Nodes)
	c.folders(node.Accounts.Files)
	c.server()
	c.adminListener()
	c.proxy()
	if err := c.result(invalid); err != nil {
		return nil, err
	}
	node.Server, node.HTTP = c.config.Server, c.config.HTTP
	return &node, nil
}

// The keys of an account and those of a node: each is refused in the other's file.
var (
	ofAccount = []strict.Path{
		{"billing"}, {"connections"}, {"adoption"}, {"lookup"}, {"guards"}, {"schedules"}, {"retention"}, {"backup"},
		{"pages"}, {"alerts"}, {"letters"},
		{"ledger", "path"}, {"ledger", "key_file"}, {"server", "admin_url"},
	}
	ofNode = []strict.Path{
		{"ledger"}, {"nodes"}, {"http"}, {"log"}, {"server", "webhooks"}, {"server", "health"}, {"server", "trusted_proxies"},
		{"server", "limits"}, {"server", "admin"},
		{"server", "admin_tls"}, {"server", "admin_proxies"}, {"server", "metrics"},
	}
)

// elsewhere are keys of the other kind of file, with the reason.
type elsewhere struct {
	keys []strict.Path
	why  string
}

// misplaced refuses the keys of the other kind of file. Mistakes of an unreadable file are reported when it
// is read as its own kind.
func misplaced(name string, data []byte, of ...elsewhere) error {
	_, doc, err := strict.Load(name, data, map[string]any{})
	if err != nil {
		return nil
	}
	var problems []strict.Problem
	for _, e := range of {
		for _, at := range e.keys {
			if doc.Node(at) != nil {
				problems = append(problems, doc.KeyProblem(at, "%s %s", at, e.why))
			}
		}
	}
	return strict.NewError(problems)
}

// database resolves the secrets of the database, and refuses an address of an uncertain server.
func (c *check) database(l *NodeLedger) {
	at := strict.Path{"ledger"}
	before := len(c.problems)
	c.resolve(at.Key("postgres"), &l.Postgres)
	c.resolve(at.Key("owner"), &l.Owner)
	c.resolve(at.Key("key_encryption_key"), &l.KeyEncryptionKey)
	if len(c.problems) > before {
		return
	}
	c.databaseAt(at.Key("postgres"), l.Postgres)
	if !l.Owner.IsZero() {
		c.databaseAt(at.Key("owner"), l.Owner)
	}
	c.keyEncryptionKey(l)
}

// databaseAt refuses an unreadable address of a database, or one of an uncertain server.
func (c *check) databaseAt(at strict.Path, of Secret) {
	switch err := state.CheckAddress(of.Expose()); {
	case slices.ContainsFunc(state.AddressHosts(of.Expose()), isLinkLocal):
		c.report(at, linkLocal, at)
	case err != nil:
		c.report(at, "%s cannot be used: %s", at, strings.TrimPrefix(err.Error(), state.ErrServer.Error()+": "))
	}
}

func (c *check) nodes(n Nodes) {
	at := strict.Path{"nodes"}
	if d := time.Duration(n.Slice); d < 5*time.Second || d > 4*time.Minute {
		c.report(at.Key("slice"), "nodes.slice is %s; a job works for 5s to 4m before others have their turn", d)
	}
	if d := time.Duration(n.StopWithin); d < time.Second || d > 5*time.Minute {
		c.report(at.Key("stop_within"), "nodes.stop_within is %s; give jobs 1s to 5m to come to an end", d)
	}
}

// folders makes the folders of accounts' files absolute.
func (c *check) folders(paths []string) {
	at := strict.Path{"accounts", "files"}
	for i, path := range paths {
		whole, err := filepath.Abs(c.path(path))
		if err != nil || strings.TrimSpace(path) == "" {
			c.report(at.Index(i), "%s is no folder; name one that has a folder for each account, or remove the entry",
				at.Index(i))
		}
		paths[i] = whole
	}
}

// LoadAccount reads the configuration of a named account from the folder of its files, merged with its node's
// settings. Without getenv the secrets stay references. The error is that of Load.
func LoadAccount(folder string, node *Node, name string, getenv func(string) (string, bool)) (*Config, error) {
	path := filepath.Join(folder, AccountFile)
	data, exposed, err := readWhole(path)
	if err != nil {
		return nil, err
	}
	if err := misplaced(AccountFile, data,
		elsewhere{ofNode, "is the same for all accounts of a machine; it belongs into the configuration of the node, remove it here"},
		elsewhere{[]strict.Path{{"backup"}, {"schedules", "backup"}},
			"is for a ledger file; remove it, and back up the database with the tools of PostgreSQL"}); err != nil {
		return nil, err
	}
	start := defaults()
	start.Schedules.Backup = ""
	start.Ledger = Ledger{}
	start.Server, start.HTTP, start.Log = node.Server, node.HTTP, node.Log
	start.Node, start.AccountName = node, name
	return parse(path, data, exposed, getenv, start)
}

// ownFile refuses a path to any file but the account's own: it would be the node's, or of another account.
func (c *check) ownFile(at strict.Path, path string) bool {
	if c.config.Node == nil || filepath.IsLocal(path) {
		return true
	}
	c.report(at, "%s of account %s leads out of the account's folder; put the file there, and write its path from %s", at,
		c.config.AccountName, AccountFile)
	return false
}

// dataFile makes a path absolute, and returns the folder that must contain its file: for an account its own
// files' folder, or one the node has for it.
func (c *check) dataFile(at strict.Path, path *string) (within connector.Within) {
	written := *path
	*path = c.path(written)
	node := c.config.Node
	switch {
	case node == nil:
		return ""
	case filepath.IsLocal(written):
		return connector.Within(c.dir)
	}
	var folders []string
	for _, of := range node.Accounts.Files {
		folder := filepath.Join(of, c.config.AccountName)
		if name, err := filepath.Rel(folder, *path); err == nil && name != "." && filepath.IsLocal(name) {
			return connector.Within(folder)
		}
		folders = append(folders, folder)
	}
	next := "put it below " + strings.Join(folders, " or ")
	if folders == nil {
		next = "name a folder in accounts.files of the node's configuration, and put it into one of the account's name there"
	}
	c.report(at, "%s of account %s is %s, outside the account's folder on this node; %s", at, c.config.AccountName,
		written, next)
	return connector.Within(c.dir)
}
