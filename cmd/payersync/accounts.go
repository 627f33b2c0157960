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
		Short: "The accounts whose ledgers a database keeps: list, configure, pause",
		Long: `Where several machines share a database, it keeps the ledgers of many accounts, and what
each is configured with: the files that a folder holds otherwise, sealed. The
configuration of such a machine, a node, names the database in ledger.postgres
(configs/node.example.yaml). Other commands work on one account, which --account names;
payersync status shows all, and payersync nodes the machines.`,
		Example: "  payersync accounts apply ./accounts\n  payersync accounts list\n  payersync status --account acme",
	}
	return subcommands(c, a.accountsListCmd(), a.accountsShowCmd(), a.accountsApplyCmd(),
		a.accountsStateCmd("pause", state.AccountPaused), a.accountsStateCmd("resume", state.AccountActive), a.accountsKeyCmd(), a.accountsRewrapCmd(), a.accountsEraseCmd())
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
	return &cobra.Command{
		Use: "list", Short: "List the accounts",
		Long: `Lists every account with what is done for it, how often it was changed, when last, and by
whom.`,
		Example: "  payersync accounts list --output json",
		RunE: a.onServer(func(ctx context.Context, server *state.Server, _ []string) error {
			all, err := server.Accounts(ctx)
			if err != nil {
				return err
			}
			var rows [][]string
			for _, i := range all {
				if a.JSON() {
					if err := show.JSON(a.Out, rowOfAccount(i)); err != nil {
						return err
					}
					continue
				}
				rows = append(rows, []string{i.Name, string(i.State), fmt.Sprint(i.Version), show.Time(i.ChangedAt), i.Author})
			}
			switch {
			case len(rows) > 0:
				show.Table(a.Out, []string{"Name", "State", "Version", "Changed", "By"}, rows)
			case !a.JSON():
				a.Say("There is no account yet: payersync accounts apply DIR makes one.")
			}
			return nil
		}),
	}
}

// accountReport is the output of `accounts show --output json`.
type accountReport struct {
	accountRow
	Files    []string `json:"files"`
	Webhooks string   `json:"webhooks_path,omitempty"`
}

func (a *app) accountsShowCmd() *cobra.Command {
	var token bool
	c := &cobra.Command{
		Use: "show NAME", Short: "Show an account, and the path that its webhooks come to",
		Long: `Shows one account and the names of its files. The path that its webhooks come to is shown
with --show-token alone: it signs nothing, but nobody who does not need it should
know it.`,
		Example: "  payersync accounts show acme\n  payersync accounts show acme --show-token",
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
	c.Flags().BoolVar(&token, "show-token", false, "show the path that its webhooks come to")
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

func (a *app) accountsStateCmd(use string, to state.AccountState) *cobra.Command {
	short, long := "Do nothing more for an account, until resume", `Nothing is read or sent for the account from the next moment on that a node looks. Its
webhooks are kept, and worked on when it is resumed. Commands that would read or send
for it refuse, those at work stop within seconds as if interrupted, and those that show
what its ledger has go on, as other accounts do. payersync check looks at it all the same
and says whether it could go on. The account's audit log keeps who paused it and why.`
	if to == state.AccountActive {
		short, long = "Go on with an account that was paused", `Everything is done for the account again, beginning with the webhooks that came
meanwhile. The account's audit log keeps who resumed it and why.`
	}
	var reason string
	c := &cobra.Command{
		Use: use + " NAME", Short: short, Long: long,
		Example: "  payersync accounts " + use + " acme --reason 'as agreed on the phone'",
		Args:    cobra.ExactArgs(1),
		RunE: a.onServer(func(ctx context.Context, server *state.Server, args []string) error {
			i, err := server.SetState(ctx, args[0], to, state.Entry{Actor: actor(), Reason: reason})
			if err != nil {
				return err
			}
			a.Say("Account %s is %s.", i.Name, i.State)
			return a.Result(rowOfAccount(i))
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

func (a *app) accountsEraseCmd() *cobra.Command {
	var reason, confirm string
	c := &cobra.Command{
		Use: "erase NAME", Short: "Delete the key of an account, so that nothing of it can be read again",
		Long: `Deletes the key that seals what is the account's, and its files. What is personal in its
ledger stays as noise that nobody can read; ids, keys, statuses and times stay as they
are, and so does the audit log. A backup of the database from before still has the key.
Nothing is changed at the billing service.

This cannot be taken back. It asks for the account's name; --confirm NAME answers.`,
		Example: "  payersync accounts erase acme --reason 'the contract ended'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
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
				if confirm, err = a.Fills(cmd.Context(), "Which account shall be erased for good?", "none"); err != nil {
					return err
				}
			}
			if confirm != args[0] {
				return usage.Errorf("cannot erase account %s: %q is another name, so nothing was done; say the same twice", args[0], confirm)
			}
			i, err := server.Erase(cmd.Context(), args[0], state.Entry{Actor: actor(), Reason: reason})
			if err != nil {
				return err
			}
			a.Say("Account %s is erased. Restart nodes that run: what they have opened they keep until then.", i.Name)
			return a.Result(rowOfAccount(i))
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().StringVar(&confirm, "confirm", "", "the account's `NAME` once more, where nobody can be asked")
	return c
}

// keyReport is the output of `accounts key --output json`.
type keyReport struct {
	Account string `json:"account"`
	KeyFile string `json:"key_file"`
}

func (a *app) accountsKeyCmd() *cobra.Command {
	var to, reason string
	c := &cobra.Command{
		Use: "key NAME --to FILE", Short: "Write the key of an account into a file, so that its ledger can leave",
		Long: `Writes the key that seals what is the account's into a new file that only you can read:
payersync ledger copy --from, and whoever has the ledger then, need it. The account's
audit log tells who had it written. Whoever has the file and the database reads
everything of the account, so remove it where it is not needed.`,
		Example: "  payersync accounts key acme --to payersync.key --reason 'acme goes its own way'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
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
			if err := server.SaveKey(cmd.Context(), args[0], to, state.Entry{Actor: actor(), Reason: reason}); err != nil {
				return err
			}
			a.Say("The key of account %s is in %s.", args[0], to)
			return a.Result(keyReport{args[0], to})
		},
	}
	c.Flags().StringVar(&to, "to", "", "the `FILE` to write")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

// rewrapReport is the output of `accounts rewrap --output json`.
type rewrapReport struct {
	Accounts int  `json:"accounts"`
	Done     bool `json:"rewrapped"`
}

func (a *app) accountsRewrapCmd() *cobra.Command {
	var file string
	var yes bool
	c := &cobra.Command{
		Use: "rewrap --new-key FILE", Short: "Wrap the keys of all accounts with another key-encryption key",
		Long: `Wraps the key of every account with the key in FILE, all of them or none. What is sealed
stays as it is. Nodes that run go on with what they have opened; every node is to be
given the new key and started again. Keep the old key as long as there are backups of the
database from before: their accounts open with it alone.

A key is 32 random bytes in base64, in a file that only you can read.`,
		Example: "  (umask 077; openssl rand -base64 32 > kek.new)\n  payersync accounts rewrap --new-key kek.new",
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			sure, err := a.Confirms(cmd.Context(), yes, "cannot wrap the keys of accounts anew without a yes, so nothing was done", "Shall the keys of all accounts be wrapped with that of "+file+"?")
			if err != nil {
				return err
			}
			r := rewrapReport{Done: sure}
			if !sure {
				a.Say("Nothing was done.")
				return a.Result(r)
			}
			if r.Accounts, err = server.Rewrap(cmd.Context(), key); err != nil {
				return err
			}
			a.Say("The keys of %s are wrapped anew. Name %s in ledger.key_encryption_key of every node, and start them again.", connector.Plural(r.Accounts, "account"), file)
			return a.Result(r)
		},
	}
	c.Flags().StringVar(&file, "new-key", "", "the `FILE` with the new key")
	c.Flags().BoolVar(&yes, "yes", false, "ask no question")
	return c
}
