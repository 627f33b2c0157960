package main

import "github.com/spf13/cobra"

func (a *app) ledgerCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "ledger",
		Short: "Care for the ledger: forget a payer, hand out what is held, a new sealing key",
		Long: `What a ledger needs over the years: to forget a payer who asks for it, to hand out what
it holds about one, to keep what is old no longer, and a new sealing key. None of these
asks another system.`,
		Example: "  payersync ledger export C0001 --file C0001.json\n  payersync ledger forget C0001 --reason 'ticket 88'\n  payersync ledger retain --dry-run",
	}
	return subcommands(c, a.ledgerForgetCmd(), a.ledgerUnforgetCmd(), a.ledgerExportCmd(), a.ledgerRekeyCmd(), a.ledgerRetainCmd())
}
