package main

import (
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/configs"
	"payersync/connector/accounting/httpsource"
)

func (a *app) sourceKeysCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "keys [BLOCK]",
		Short: "List the keys of a profile, of all blocks or of one as list",
		Long: `Lists every key of the format of profiles, whether a profile needs it, and what it
means. With BLOCK it lists the keys of one block, as list or record.`,
		Example: "  payersync source --keys list",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.listProfileKeys(strings.Join(args, ""))
		},
	}
}

func (a *app) listProfileKeys(block string) error {
	var keys []httpsource.Key
	var rows [][]string
	for _, k := range httpsource.Keys() {
		if block != "" && !strings.HasPrefix(k.Name+".", block+".") && !strings.HasPrefix(k.Name, block+"[") {
			continue
		}
		keys = append(keys, k)
		rows = append(rows, []string{k.Name, map[bool]string{true: "yes"}[k.Required], k.Is})
	}
	if len(keys) == 0 {
		return usage.Errorf("a profile has no block %q; payersync source --keys lists all keys", block)
	}
	if a.JSON() {
		return show.JSON(a.Out, keys)
	}
	a.Rows([]string{"KEY", "NEEDED", "MEANING"}, rows)
	return nil
}

func (a *app) sourcePrintCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "print NAME",
		Short:   "Print the file of a shipped profile, as an example",
		Long:    "Prints the file of a shipped profile. The guide payersync help profiles explains how\nto write one, and how to change a shipped one in a few lines.",
		Example: "  payersync source --print freeagent",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if config.ShippedProfile(args[0]) == nil {
				_, _, err := profileNamed(args[0])
				if err == nil {
					err = usage.Errorf("%s is a file of yours; only shipped profiles are printed", args[0])
				}
				return err
			}
			text, err := fs.ReadFile(configs.FS, config.ShippedFile(args[0]))
			if err == nil {
				_, err = a.Out.Write(text)
			}
			return err
		},
	}
}
