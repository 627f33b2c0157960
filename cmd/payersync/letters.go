package main

import (
	"github.com/spf13/cobra"
)

func (a *app) lettersCmd() *cobra.Command {
	c := &cobra.Command{
		Use:     "letters",
		Short:   "Letters to payers about their mandates",
		Example: "  payersync mandates letters bounced report.eml",
	}
	return subcommands(c, a.lettersBouncedCmd())
}
