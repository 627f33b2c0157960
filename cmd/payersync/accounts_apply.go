package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/accounting/csvfile"
	"payersync/connector/queue"
	"payersync/mapping"
	"payersync/state"
)

func (a *app) accountsApplyCmd() *cobra.Command {
	var reason, keyFile string
	var yes bool
	c := &cobra.Command{
		Use:   "apply DIR",
		Short: "Create accounts, or change their configuration, from folders of files",
		Long: `Takes each folder below DIR as an account of that name. If DIR itself has an
account.yaml, it takes DIR. An account.yaml is a payersync.yaml without ledger, log,
http and the listening addresses of serve. It names mappings, templates and secrets by
their paths below the folder. Accounts without a folder stay as they are.

The command first checks everything, like payersync check, but asks no other system. A
mistake in one account stops all changes. It then shows the changed files as a
difference, without the text of secrets, and asks you. It changes each account in one
step, and the account's audit log keeps your name and the reason. Nodes use the new
files within seconds.

An account from payersync ledger copy needs --key-file: the sealing key of the old
ledger file. Every other account gets a new key.`,
		Example: "  payersync accounts apply ./accounts\n  payersync accounts apply ./accounts/acme --key-file payersync.key\n  payersync accounts apply ./accounts/acme --yes --reason 'new mapping'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runAccountsApply(cmd.Context(), args, reason, keyFile, yes)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().StringVar(&keyFile, "key-file", "", "the `FILE` with the key of a copied ledger; for one account")
	c.Flags().BoolVar(&yes, "yes", false, "ask no question")
	return c
}

func (a *app) runAccountsApply(ctx context.Context, args []string, reason, keyFile string, yes bool) error {
	var key []byte
	if keyFile != "" {
		var err error
		if key, err = state.ReadKey(keyFile); err != nil {
			return err
		}
	}
	return a.applyAccounts(ctx, args[0], key, state.Entry{Actor: actor(), Reason: reason}, yes)
}

// accountFileChange is the change of an account's file.
type accountFileChange struct {
	Name   string `json:"name"`
	Change string `json:"change"`         // added, changed or removed
	Diff   string `json:"diff,omitempty"` // omitted if the file may hold a secret
}

// accountChange is the output of `accounts apply --output json` for an account.
type accountChange struct {
	Account string              `json:"account"`
	New     bool                `json:"new"`
	Version int64               `json:"version"` // the present version
	Files   []accountFileChange `json:"files"`
	Applied bool                `json:"applied"`

	over    int64
	files   map[string][]byte
	carried bool   // its ledger is there, and its key is not
	pages   string // the address of its pages, "" for none
}

func (a *app) applyAccounts(ctx context.Context, dir string, key []byte, by state.Entry, yes bool) error {
	server, err := a.node.open()
	if err != nil {
		return err
	}
	folders, err := accountFolders(dir)
	if err != nil {
		return err
	}
	if key != nil && len(folders) != 1 {
		return usage.Errorf("--key-file is the key of one ledger, and %s has %d accounts; name the folder of the one", dir,
			len(folders))
	}
	var changes []accountChange
	var wrong []error
	for _, folder := range folders {
		c, err := a.accountChange(ctx, server, folder)
		switch {
		case err == nil && c.carried && key == nil:
			err = errors.New("its ledger is a copy, sealed with the key of the old file; give that key with --key-file")
		case err == nil && !c.New && key != nil:
			err = errors.New("it has its key already; leave --key-file out")
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("account %s: %w", filepath.Base(folder), err))
		}
		changes = append(changes, c)
	}
	if err := errors.Join(wrong...); err != nil {
		return usage.Errorf("no account was changed: %w", err)
	}
	if err := a.warnOfPages(ctx, server, changes); err != nil {
		return err
	}
	open := 0
	for _, c := range changes {
		if c.over == 0 || len(c.Files) > 0 {
			open++
		}
		a.sayChange(c)
	}
	if open > 0 {
		if yes, err = a.Confirms(ctx, yes, "cannot change accounts without a yes, so none was changed",
			"Change "+connector.Plural(open, "account")+"?"); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if yes && (c.over == 0 || len(c.Files) > 0) {
			apply := server.Apply
			if key != nil {
				apply = func(ctx context.Context, c state.AccountChange) (state.AccountInfo, error) {
					return server.Adopt(ctx, c, key)
				}
			}
			made, err := apply(ctx, state.AccountChange{Name: c.Account, Over: c.over, Files: c.files, By: by})
			if err != nil {
				return err
			}
			c.Version, c.Applied = made.Version, true
			a.Print("Account %s has version %d now.", c.Account, c.Version)
		}
		if err := a.Result(c); err != nil {
			return err
		}
	}
	if open > 0 && !yes {
		a.Print("Nothing was changed.")
	}
	return nil
}

// warnOfPages names the accounts without pages on any node, because no node uses the scheme of their address.
func (a *app) warnOfPages(ctx context.Context, server *state.Server, changes []accountChange) error {
	if !slices.ContainsFunc(changes, func(c accountChange) bool { return c.pages != "" }) {
		return nil
	}
	nodes, err := nodesOf(ctx, server)
	if err != nil {
		return err
	}
	shown := map[string]bool{}
	for _, n := range nodes {
		if n.State() != queue.Lost {
			shown[n.Pages] = true
			if !n.PagesKnown {
				return nil
			}
		}
	}
	if len(shown) == 0 { // nodes are still to be started, probably with this configuration
		shown[a.node.config.Server.PagesScheme()] = true
	}
	for _, c := range changes {
		if scheme, _, _ := strings.Cut(c.pages, "://"); c.pages != "" && !shown[scheme] {
			a.Print("Warning: no node shows the pages of account %s: its server.admin_url is %s, and no node has pages over %s. Start a node with server.admin, and for https with admin_tls or admin_proxies, or change server.admin_url.", c.Account, show.Visible(c.pages), scheme)
		}
	}
	return nil
}

// accountFolders returns the account folders meant by dir: itself, or those in it.
func accountFolders(dir string) (out []string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, config.AccountFile)); err == nil {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, usage.Errorf("cannot read the accounts: %w; name their folder", err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, usage.Errorf("there is no account in %s; put %s into a folder with the account's name there", dir,
			config.AccountFile)
	}
	return out, nil
}

// accountChange compares a folder with the account's files in the database, after it was checked.
func (a *app) accountChange(ctx context.Context, server *state.Server, folder string) (accountChange, error) {
	c := accountChange{Account: filepath.Base(folder), Files: []accountFileChange{}}
	var err error
	if c.files, err = config.ReadBundle(folder); err != nil {
		return c, err
	}
	if c.files[config.AccountFile] == nil {
		return c, fmt.Errorf("there is no %s in %s; write one, or move folders that are no accounts elsewhere",
			config.AccountFile, folder)
	}
	cfg, err := a.checkAccount(ctx, folder, c.Account)
	if err := errors.Join(state.CheckFiles(c.Account, c.files), err); err != nil {
		return c, err
	}
	c.pages = cfg.Server.AdminURL
	docs, err := server.Documents(ctx, c.Account)
	c.carried = errors.Is(err, state.ErrNotAdopted)
	if c.New = c.carried || errors.Is(err, state.ErrNoAccount); err != nil && !c.New {
		return c, err
	}
	c.over, c.Version = docs.Version, docs.Version
	shownBefore, err := a.keptShown(c.Account, docs.Files)
	if err != nil {
		return c, err
	}
	shown := a.shown(folder, c.Account, c.files)
	names := maps.Clone(c.files)
	maps.Copy(names, docs.Files)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, was := docs.Files[name]
		after, is := c.files[name]
		if was && is && bytes.Equal(before, after) {
			continue
		}
		f := accountFileChange{Name: name,
			Change: map[[2]bool]string{{false, true}: "added", {true, false}: "removed",
				{true, true}: "changed"}[[2]bool{was, is}]}
		old, oldShown := shownBefore[name]
		if text, newShown := shown[name]; (!was || oldShown) && (!is || newShown) {
			f.Diff = string(diff.Diff(c.Account+"/"+name+" as it is", old, c.Account+"/"+name, text))
		}
		c.Files = append(c.Files, f)
	}
	return c, nil
}

// keptShown is shown for the files in the database.
func (a *app) keptShown(account string, files map[string][]byte) (_ map[string][]byte, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	folder, err := config.Unpack(a.runtime(), account, files)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.Remove()) }()
	return a.shown(folder.Path, account, files), nil
}

// shown returns the readable files of an account: its configuration, without literal secrets, its mappings,
// templates and queries. Other files may hold secrets.
func (a *app) shown(folder, account string, files map[string][]byte) map[string][]byte {
	cfg, err := config.LoadAccount(folder, a.node.config, account, nil)
	if err != nil {
		return nil
	}
	out := map[string][]byte{}
	whole, spelled := files[config.AccountFile], true
	for _, secret := range cfg.Literals() {
		spelled = spelled && bytes.Contains(files[config.AccountFile], []byte(secret)) // else it is not found
		whole = bytes.ReplaceAll(whole, []byte(secret), []byte("[redacted]"))
	}
	if spelled {
		out[config.AccountFile] = whole
	}
	named := func(path string) {
		rel, err := filepath.Rel(folder, path)
		if err != nil {
			return
		}
		for name, body := range files {
			if name == rel || strings.HasPrefix(name, rel+"/") {
				out[name] = body
			}
		}
	}
	for _, c := range cfg.Connections {
		named(c.Mapping)
		if c.Source.SQL.QueryFile != "" {
			named(c.Source.SQL.QueryFile)
		}
		if c.Source.HTTP.Profile != "" {
			named(c.Source.HTTP.Profile)
		}
	}
	if cfg.Letters.Templates != "" {
		named(cfg.Letters.Templates)
	}
	for name := range cfg.SecretFiles() {
		delete(out, name)
	}
	return out
}

// sayChange describes the effect on an account.
func (a *app) sayChange(c accountChange) {
	switch {
	case c.New:
		a.Print("Account %s is new.", c.Account)
	case len(c.Files) == 0:
		a.Print("Account %s stays as it is.", c.Account)
		return
	default:
		a.Print("Account %s changes.", c.Account)
	}
	for _, f := range c.Files {
		a.Print("  %s: %s", show.Visible(f.Name), f.Change)
		for line := range strings.Lines(f.Diff) {
			_, _ = fmt.Fprintln(a.ErrOut, show.Visible(strings.TrimSuffix(line, "\n")))
		}
	}
}

// checkAccount checks the files of an account without requests to other systems.
func (a *app) checkAccount(ctx context.Context, folder, name string) (*config.Config, error) {
	cfg, err := config.LoadAccount(folder, a.node.config, name, a.getenv)
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, c := range cfg.Connections {
		if err := checkMappingOf(ctx, cfg, c); err != nil {
			wrong = append(wrong, fmt.Errorf("connection %s: %w", c.Name, err))
		}
	}
	return cfg, errors.Join(wrong...)
}

// checkMappingOf checks the mapping of a connection: completely if the source's fields are known, else only
// its form.
func checkMappingOf(ctx context.Context, cfg *config.Config, c config.Connection) error {
	data, err := session.ReadMapping(c.Mapping)
	if err != nil {
		return err
	}
	info := connector.SourceInfo{Kind: c.Source.Name(), Organisation: c.Organisation, Fields: fieldsOf(&c.Source)}
	if c.Source.Kind == config.KindCSV {
		if source, err := csvfile.New(c.Source.CSV); err == nil { // a file of the node's need not be here
			if info, err = source.Describe(ctx); err != nil {
				info.Fields = nil
			}
			info.Organisation = c.Organisation
		}
	}
	name := filepath.Base(c.Mapping)
	if info.Fields == nil {
		return mapping.CheckForm(name, data)
	}
	m, err := session.ParseMapping(name, data, info, cfg.Billing.Dialect.Dialect)
	if err != nil {
		return err
	}
	return m.CheckExamples()
}
