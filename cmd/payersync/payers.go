package main

import "github.com/spf13/cobra"

func (a *app) payersCmd() *cobra.Command {
	c := &cobra.Command{
		Use:     "payers",
		Short:   "List payers, explain one, and decide on matches",
		Example: "  payersync payers list --search bakery\n  payersync payers show C0001",
	}
	return subcommands(c, a.payersListCmd(), a.payersShowCmd(), a.payersAskCmd(), a.payersMatchCmd(), a.payersSameCmd(),
		a.payersDifferentCmd(), a.payersMovedCmd(), a.payersUndoCmd(),
		also(also(also(a.payersDriftCmd(), "take", a.driftTakeCmd()), "send", a.driftSendCmd()), "ignore",
			a.driftIgnoreCmd()))
}
