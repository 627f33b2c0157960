package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/state"
)

func (a *app) accountsCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "accounts",
		Short: "List, configure and pause the accounts of a database",
		Long: `Several machines that share a database serve many accounts. The database keeps the
ledger of each account and its files, sealed. The configuration of such a machine, a
node, names the database in ledger.postgres (configs/node.example.yaml). Other
commands work on one account: name it with --account. payersync status shows all
accounts, and payersync nodes the machines.`,
		Example: "  payersync accounts apply ./accounts\n  payersync accounts list\n  payersync status --account acme",
	}
	return subcommands(c, also(a.accountsListCmd(), "show", a.accountsShowCmd()), a.accountsApplyCmd(),
		also(a.accountsStateCmd(state.AccountPaused), "undo", a.accountsStateCmd(state.AccountActive)),
		also(a.accountsKeyCmd(), "rewrap", a.accountsRewrapCmd()), a.accountsEraseCmd())
}

// accountRow is an account as lists show it.
type accountRow struct {
	Name      string             `json:"name"`
	State     state.AccountState `json:"state"`
	Version   int64              `json:"version"`
	MadeAt    time.Time          `json:"made_at"`
	ChangedAt time.Time          `json:"changed_at"`
	Author    string             `json:"author"`
	KeyID     string             `json:"key_encryption_key"`
}

func rowOfAccount(i state.AccountInfo) accountRow {
	return accountRow{i.Name, i.State, i.Version, i.MadeAt, i.ChangedAt, i.Author, i.KeyID}
}

// onServer returns the run of a command that works with the database of all accounts.
func (a *app) onServer(do func(context.Context, *state.Server, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		server, err := a.node.open()
		if err != nil {
			return err
		}
		return do(cmd.Context(), server, args)
	}
}

func (a *app) accountsListCmd() *cobra.Command {
	return asCSV(&cobra.Command{
		Use: "list", Short: "List the accounts",
		Long: `Lists every account with its state, the number of its changes, and the time and person
of the last one.`,
		Example: "  payersync accounts list --output json",
		RunE: a.onServer(func(ctx context.Context, server *state.Server, _ []string) error {
			all, err := server.Accounts(ctx)
			if err != nil {
				return err
			}
			return accountListing().On(a.Console).Print(connector.Map(all, rowOfAccount))
		}),
	})
}

func accountListing() *show.Listing[accountRow] {
	return &show.Listing[accountRow]{Empty: "There is no account yet: payersync accounts apply DIR makes one.",
		Columns: []show.Column[accountRow]{
			{Name: "name", Title: "Name", Cell: func(r accountRow) string { return r.Name }},
			{Name: "state", Title: "State", Cell: func(r accountRow) string { return string(r.State) }},
			show.Number("version", "Version", func(r accountRow) int64 { return r.Version }),
			show.Moment("made_at", "", func(r accountRow) time.Time { return r.MadeAt }),
			show.Moment("changed_at", "Changed", func(r accountRow) time.Time { return r.ChangedAt }),
			{Name: "author", Title: "By", Cell: func(r accountRow) string { return r.Author }},
		}}
}

// accountReport is the output of `accounts list --show --output json`.
type accountReport struct {
	accountRow
	Files    []string `json:"files"`
	Webhooks string   `json:"webhooks_path,omitempty"`
}

func (a *app) accountsShowCmd() *cobra.Command {
	var token bool
	c := &cobra.Command{
		Use: "show NAME", Short: "Show an account, and the path of its webhooks",
		Long: `Shows one account and the names of its files. The secret path of its webhooks appears
only with --show-token. The path signs nothing, but keep it private all the same.`,
		Example: "  payersync accounts list --show acme\n  payersync accounts list --show acme --show-token",
		Args:    cobra.ExactArgs(1),
		RunE: a.onServer(func(ctx context.Context, server *state.Server, args []string) error {
			i, err := server.Account(ctx, args[0])
			if err != nil {
				return err
			}
			var docs state.Documents
			if i.KeyID != "" { // else it was erased
				if docs, err = server.Documents(ctx, args[0]); err != nil {
					return err
				}
			}
			r := accountReport{accountRow: rowOfAccount(i), Files: slices.Sorted(maps.Keys(docs.Files))}
			if token {
				hook, err := server.HookToken(ctx, i)
				if err != nil {
					return err
				}
				r.Webhooks = hooksPath + hook
			}
			return a.showAccount(r)
		}),
	}
	c.Flags().BoolVar(&token, "show-token", false, "show the path of its webhooks")
	return c
}

func (a *app) showAccount(r accountReport) error {
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	a.Hanging("Account   ", fmt.Sprintf("%s, %s, since %s", r.Name, r.State, show.Time(r.MadeAt)))
	a.Hanging("Version   ", fmt.Sprintf("%d, of %s, by %s", r.Version, show.Time(r.ChangedAt), show.Visible(r.Author)))
	if r.KeyID == "" {
		a.Hanging("Key       ", "none: the account was erased, and nothing of it can be read")
	} else {
		a.Hanging("Files     ", strings.Join(r.Files, ", "))
		a.Hanging("Key       ", "wrapped with the key-encryption key "+r.KeyID)
	}
	if r.Webhooks != "" {
		a.Hanging("Webhooks  ", r.Webhooks)
	}
	return nil
}

func (a *app) accountsStateCmd(to state.AccountState) *cobra.Command {
	call, short, long := "pause", "Do nothing more for an account, until --undo",
		`Nodes stop reading and sending for the account within seconds. They keep its webhooks,
and process them after payersync accounts pause --undo. Commands that read or send for the
account refuse to start, and running ones stop as if interrupted. Commands that only
show its ledger still work, and so do other accounts. payersync check still checks the
account, and says whether it could run. The account's audit log keeps your name and
the reason.`
	if to == state.AccountActive {
		call, short, long = "pause --undo", "Resume a paused account",
			`Everything is done for the account again, beginning with the webhooks that came
meanwhile. The account's audit log keeps who resumed it and why.`
	}
	var reason string
	c := &cobra.Command{
		Use: "pause NAME", Short: short, Long: long,
		Example: "  payersync accounts " + call + " acme --reason 'as agreed on the phone'",
		Args:    cobra.ExactArgs(1),
		RunE: a.onServer(func(ctx context.Context, server *state.Server, args []string) error {
			i, err := server.SetState(ctx, args[0], to, state.Entry{Actor: actor(), Reason: reason})
			if err != nil {
				return err
			}
			a.Print("Account %s is %s.", i.Name, i.State)
			return a.Result(rowOfAccount(i))
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

func (a *app) accountsEraseCmd() *cobra.Command {
	var reason, confirm string
	c := &cobra.Command{
		Use: "erase NAME", Short: "Delete the key of an account, so that nobody can read its data again",
		Long: `Deletes the account's sealing key and its files. Nobody can read the personal data in
its ledger afterwards. Ids, keys, statuses, times and the audit log stay. An older
backup of the database still has the key. Nothing changes at the billing service.

You cannot undo this. The command asks for the account's name; --confirm NAME answers.`,
		Example: "  payersync accounts erase acme --reason 'the contract ended'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runAccountsErase(cmd, args, reason, confirm)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().StringVar(&confirm, "confirm", "", "the account's `NAME` once more, if no terminal can ask")
	return c
}

func (a *app) runAccountsErase(cmd *cobra.Command, args []string, reason, confirm string) error {
	server, err := a.node.open()
	if err != nil {
		return err
	}
	if _, err := server.Account(cmd.Context(), args[0]); err != nil {
		return err
	}
	if !cmd.Flags().Changed("confirm") {
		if why := a.Unasked(); why != "" {
			return usage.Errorf("cannot erase account %s without its name said twice, so nothing was done: %s; add --confirm %[1]s", args[0], why)
		}
		if confirm, err = a.Fills(cmd.Context(), "Which account do you want to erase for good?", "none"); err != nil {
			return err
		}
	}
	if confirm != args[0] {
		return usage.Errorf("cannot erase account %s: %q is another name, so nothing was done; say the same twice", args[0],
			confirm)
	}
	i, err := server.Erase(cmd.Context(), args[0], state.Entry{Actor: actor(), Reason: reason})
	if err != nil {
		return err
	}
	a.Print("Account %s is erased. Restart running nodes: they keep its open data until then.", i.Name)
	return a.Result(rowOfAccount(i))
}

// keyReport is the output of `accounts key --output json`.
type keyReport struct {
	Account string `json:"account"`
	KeyFile string `json:"key_file"`
}

func (a *app) accountsKeyCmd() *cobra.Command {
	var to, reason string
	c := &cobra.Command{
		Use: "key NAME --to FILE", Short: "Write the key of an account into a file, to move its ledger away",
		Long: `Writes the account's sealing key into a new file, readable only by you. payersync
ledger copy --from needs it, and so does the new owner of the ledger. The account's
audit log keeps your name. The file and the database together reveal everything of the
account: remove the file after use.`,
		Example: "  payersync accounts key acme --to payersync.key --reason 'acme goes its own way'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runAccountsKey(cmd.Context(), args, to, reason)
		},
	}
	c.Flags().StringVar(&to, "to", "", "the `FILE` to write")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

func (a *app) runAccountsKey(ctx context.Context, args []string, to, reason string) error {
	if to == "" {
		return usage.Errorf("name the file to write: --to FILE")
	}
	if _, err := os.Lstat(to); err == nil {
		return usage.Errorf("cannot write the key of %s: %s is there already; name a new file", args[0], to)
	}
	server, err := a.node.open()
	if err != nil {
		return err
	}
	if err := server.SaveKey(ctx, args[0], to, state.Entry{Actor: actor(), Reason: reason}); err != nil {
		return err
	}
	a.Print("The key of account %s is in %s.", args[0], to)
	return a.Result(keyReport{args[0], to})
}

// rewrapReport is the output of `accounts key --rewrap --output json`.
type rewrapReport struct {
	Accounts int  `json:"accounts"`
	Done     bool `json:"rewrapped"`
}

func (a *app) accountsRewrapCmd() *cobra.Command {
	var file string
	var yes bool
	c := &cobra.Command{
		Use: "rewrap --new-key FILE", Short: "Wrap the keys of all accounts with another key-encryption key",
		Long: `Wraps the key of every account with the key in FILE: all of them, or none. The sealed
data stays as it is. Running nodes go on with the keys that they have opened. Give
every node the new key, and restart it. Keep the old key for older backups of the
database: only that key opens their accounts.

A key is 32 random bytes in base64, in a file readable only by you.`,
		Example: "  (umask 077; openssl rand -base64 32 > kek.new)\n  payersync accounts key --rewrap --new-key kek.new",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runAccountsRewrap(cmd.Context(), file, yes) },
	}
	c.Flags().StringVar(&file, "new-key", "", "the `FILE` with the new key")
	c.Flags().BoolVar(&yes, "yes", false, "ask no question")
	return c
}

func (a *app) runAccountsRewrap(ctx context.Context, file string, yes bool) error {
	if file == "" {
		return usage.Errorf("name the file with the new key: --new-key FILE")
	}
	server, err := a.node.open()
	if err != nil {
		return err
	}
	key, err := config.ReadKey(file)
	if err != nil {
		return err
	}
	sure, err := a.Confirms(ctx, yes,
		"cannot wrap the keys of accounts anew without a yes, so nothing was done",
		"Shall the keys of all accounts be wrapped with that of "+file+"?")
	if err != nil {
		return err
	}
	r := rewrapReport{Done: sure}
	if !sure {
		a.Print("Nothing was done.")
		return a.Result(r)
	}
	if r.Accounts, err = server.Rewrap(ctx, key); err != nil {
		return err
	}
	a.Print("The keys of %s are wrapped anew. Name %s in ledger.key_encryption_key of every node, and start them again.",
		connector.Plural(r.Accounts, "account"), file)
	return a.Result(r)
}
