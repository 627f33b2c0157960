package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/state"
)

// node is a node's database, and the account of a command, while the command runs. It is opened on demand.
type node struct {
	app    *app
	ctx    func() context.Context // of the command
	config *config.Node
	server *state.Server
	name   string           // of the account
	folder *config.Unpacked // the place of its files until the end

	watch    sync.Once
	watching sync.WaitGroup // whether the account is paused
}

// open connects to the database.
func (n *node) open() (*state.Server, error) {
	switch {
	case n == nil:
		return nil, errors.New("connect to the database of accounts: no command runs")
	case n.server != nil:
		return n.server, nil
	}
	if !config.IsNode(n.app.config) {
		if _, err := config.Load(n.app.config, nil); err != nil {
			return nil, usage.Mistake{Err: err}
		}
		return nil, usage.Errorf("there are no accounts: %s configures one account with a ledger file; name the configuration of a node, with ledger.postgres, by --config", n.app.config)
	}
	cfg, err := config.LoadNode(n.app.config, n.app.getenv)
	if err != nil {
		return nil, usage.Mistake{Err: err}
	}
	n.config = cfg
	n.server, err = state.OpenServer(n.ctx(), cfg.Options())
	return n.server, err
}

// connected returns the database after it was opened; nil if the ledger is a file.
func (n *node) connected() *state.Server {
	if n == nil {
		return nil
	}
	return n.server
}

// account returns the name of the account that the command works on; "" before it is known, and where the ledger is a
// file.
func (n *node) account() string {
	if n == nil {
		return ""
	}
	return n.name
}

// load returns the configuration of the chosen account, read from its files.
func (n *node) load(getenv func(string) (string, bool)) (*config.Config, error) {
	server, err := n.open()
	if err != nil {
		return nil, err
	}
	if n.folder == nil {
		if n.name, err = n.meant(); err != nil {
			return nil, err
		}
		docs, err := server.Documents(n.ctx(), n.name)
		if err != nil {
			return nil, err
		}
		if n.folder, err = config.Unpack(n.app.runtime(), n.name, docs.Files); err != nil {
			return nil, err
		}
	}
	cfg, err := config.LoadAccount(n.folder.Path, n.config, n.name, getenv)
	if err != nil {
		return nil, usage.Mistake{Err: err}
	}
	return cfg, nil
}

// atWork refuses a paused account, and interrupts the command when somebody pauses it later.
func (n *node) atWork() error {
	i, err := n.server.Account(n.ctx(), n.name)
	switch {
	case err != nil:
		return err
	case i.State != state.AccountActive:
		return fmt.Errorf("cannot do that for account %s: it is %s, so payersync reads and sends nothing for it; resume it first: payersync accounts pause --undo %[1]s", i.Name, i.State)
	}
	n.watch.Do(func() { n.watching.Go(n.untilPaused) })
	return nil
}

// pausedEvery is how often a command looks whether its account was paused.
const pausedEvery = 2 * time.Second

// untilPaused interrupts the command, as Ctrl-C would, once its account is not active any more. It ends with the
// command.
func (n *node) untilPaused() {
	ctx := n.ctx()
	tick := time.NewTicker(pausedEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		i, err := n.server.Account(ctx, n.name)
		if err != nil || i.State == state.AccountActive { // a failed question is repeated later
			continue
		}
		n.app.interrupt()
		fmt.Fprintf(n.app.ErrOut,
			"Stopping: account %s is %s now, said %s. payersync first finishes the requests in flight. The planned changes stay, and payersync accounts pause --undo %[1]s continues.\n", i.Name, i.State, show.Visible(i.Author))
		return
	}
}

// withAccount hands the configuration of an account to do, without what its secrets say. Its files are there until do
// returns. The database was opened.
func (n *node) withAccount(ctx context.Context, name string, do func(*config.Config) error) error {
	docs, err := n.server.Documents(ctx, name)
	if err != nil {
		return err
	}
	folder, err := config.Unpack(n.app.runtime(), name, docs.Files)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Remove() }() // as in close
	cfg, err := config.LoadAccount(folder.Path, n.config, name, nil)
	if err != nil {
		return usage.Mistake{Err: err}
	}
	return do(cfg)
}

// runtime is the folder of this user's temporary files; "" if the environment does not name it.
func (a *app) runtime() string {
	place, _ := a.getenv("XDG_RUNTIME_DIR")
	return place
}

// meant returns the account of --account, or the only one.
func (n *node) meant() (string, error) {
	if n.app.account != "" {
		return n.app.account, nil
	}
	all, err := n.server.Accounts(n.ctx())
	if err != nil {
		return "", err
	}
	names := connector.Map(all, func(a state.AccountInfo) string { return a.Name })
	switch {
	case len(names) == 0:
		return "", usage.Errorf("there is no account yet; make one with payersync accounts apply DIR")
	case len(names) > 1:
		return "", usage.Errorf("there are several accounts; name one with --account: %s", strings.Join(names, ", "))
	}
	return names[0], nil
}

// close lets the database go and removes what was written of the account.
func (n *node) close() {
	if n == nil {
		return
	}
	n.watching.Wait()
	_ = n.folder.Remove() // of this user alone; the next start of a node or of the machine clears it
	if n.server != nil {
		n.server.Close()
	}
}
