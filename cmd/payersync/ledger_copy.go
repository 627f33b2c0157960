package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/state"
)

// ledgerCopying is the target of a ledger copy.
type ledgerCopying struct {
	to, from string // how the server's address is written; one of the two
	account  string
	reason   string
	yes      bool
}

func (a *app) ledgerCopyCmd() *cobra.Command {
	var o ledgerCopying
	c := &cobra.Command{
		Use:   "copy --to|--from ADDRESS --account NAME",
		Short: "Carry the ledger from its file to an account on a PostgreSQL server, or back",
		Long: `Copies the whole ledger to another place: from the file at ledger.path to an account
on a PostgreSQL server (--to), or from there into a new file (--from). The sealing key
stays the same. Write the address as env:NAME or file:PATH, with the content
postgres://USER@HOST:PORT/DATABASE; the command never shows it.

It writes all rows in one transaction, reads them back, and compares every value. It
checks both hash chains, every mandate and every sealed value. Only then does the copy
become valid. The old ledger then names the new place and does not open any more, so
only one ledger works. The audit logs of both keep your name.

Stop payersync serve first: the command refuses while serve or a run works. The
account or the file must be new. After an interruption, the same command goes on.
Never restore an older backup beside the new ledger: it does not know of the move.`,
		Example: "  payersync ledger copy --to env:LEDGER_DATABASE --account acme\n" +
			"  payersync ledger copy --from file:database.secret --account acme --reason 'back to one machine' --yes",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.copyLedger(cmd.Context(), o) },
	}
	c.Flags().StringVar(&o.to, "to", "", "carry it to the server at this `ADDRESS`, as env:NAME or file:PATH")
	c.Flags().StringVar(&o.from, "from", "", "carry it from the server at this `ADDRESS`, as env:NAME or file:PATH")
	c.Flags().StringVar(&o.account, "account", "", "the account's `NAME` on the server")
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the audit logs")
	c.Flags().BoolVar(&o.yes, "yes", false, "ask no question")
	return c
}

// copyReport is the output of `ledger copy --output json`.
type copyReport struct {
	state.Transferred
	Copied bool `json:"copied"`
}

func (a *app) copyLedger(ctx context.Context, o ledgerCopying) error {
	if (o.to == "") == (o.from == "") {
		return usage.Errorf("the direction is missing; give --to with a server's address, or --from with the present one")
	}
	cfg, err := a.loadLocal()
	if err != nil {
		return err
	}
	if !state.IsAccountName(o.account) {
		return usage.Errorf("--account %q is no name of an account; write small letters, digits, - and _, at most 63 of them, and begin with a letter or a digit", o.account)
	}
	flag, ref := "--to", o.to
	if o.from != "" {
		flag, ref = "--from", o.from
	}
	address, err := config.Referred(ref, a.getenv)
	if err != nil {
		return usage.Errorf("the address of %s cannot be used: %w", flag, err)
	}
	file, account := "the file "+show.Visible(cfg.Ledger.Path), "account "+o.account+" on the server"
	from, to := file, account
	if o.from != "" {
		from, to = account, file
	}
	a.Print("The whole ledger would move from %s to %s, and the old one would open no more.", from, to)
	if yes, err := a.Confirms(ctx, o.yes, "cannot carry the ledger without a yes, so nothing was done",
		"Shall it be carried?"); err != nil {
		return err
	} else if !yes {
		a.Print("Nothing was done.")
		return a.Result(copyReport{})
	}
	server, err := state.OpenServer(ctx, state.ServerOptions{Address: address.Expose()})
	if err != nil {
		return fmt.Errorf("cannot carry the ledger: %w", err)
	}
	defer server.Close()
	c := state.Transfer{
		From: state.Options{Path: cfg.Ledger.Path, KeyFile: cfg.Ledger.KeyFile, Now: a.now},
		To:   state.Options{Server: server, Account: o.account, KeyFile: cfg.Ledger.KeyFile},
		By:   state.Entry{Actor: actor(), Reason: o.reason}, Watch: a.checkProgress(),
	}
	if o.from != "" {
		c.From, c.To = c.To, c.From
	}
	done, err := c.Run(ctx)
	if err != nil {
		return explainCopy(err, o.from != "")
	}
	if done.Resumed {
		a.Print("All of it was in %s already, from an interrupted command; it is the ledger now.", show.Visible(done.To))
	} else {
		a.Print("Carried %s of %s to %s. Every value was read back and is the same, both hash chains hold, and everything sealed opens.",
			connector.Plural(done.Rows, "row"), connector.Plural(done.Tables, "table"), show.Visible(done.To))
	}
	a.Print("The ledger in %s opens no more. Name the new place in the configuration, with the same sealing key.",
		show.Visible(done.From))
	return a.Result(copyReport{done, true})
}

// explainCopy adds the next step after a failed copy.
func explainCopy(err error, back bool) error {
	next, another := "", "give --account a name that no ledger has yet"
	if back {
		another = "move what is at ledger.path away, with the files beside it, or name another file there"
	}
	switch {
	case errors.Is(err, state.ErrServed):
		next = "; stop it, and say it again"
	case errors.Is(err, state.ErrRunning):
		next = "; say it again when it has ended, and where it was interrupted, let payersync sync end it first"
	case errors.Is(err, state.ErrNothing) && back:
		next = "; look at the server's database, and how the account is called there"
	case errors.Is(err, state.ErrNothing):
		next = "; look at ledger.path"
	case errors.Is(err, state.ErrNotNew):
		next = "; " + another
	case errors.Is(err, state.ErrGoneOn):
		next = "; that copy stays unused: " + another + ", and say it again"
	case errors.Is(err, state.ErrDiffers):
		next = "; the ledger stays in its old place and still works. Look for a trigger or the like that alters rows, and start the command again"
	}
	return fmt.Errorf("cannot carry the ledger: %w%s", err, next)
}
