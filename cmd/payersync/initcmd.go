package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"payersync/configs"
	"payersync/state"
)

func (a *app) initCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a payersync.yaml, a mapping.yaml, sample data and a key file",
		Long: `Writes what a first try needs into DIR (default: here): payersync.yaml and
mapping.yaml with comments, customers.csv to try them on, and a key file that seals
personal data in the ledger. It never replaces a file that exists.`,
		Example: "  payersync init acme && cd acme\n  payersync sandbox &\n  payersync plan",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return a.initialise(dir)
		},
	}
}

// quickStart names the files of a first set-up.
var quickStart = []string{"payersync.yaml", "mapping.yaml", "customers.csv"}

const keyFile = "payersync.key"

func (a *app) initialise(dir string) error {
	for _, name := range append([]string{keyFile}, quickStart...) {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot write into %s: %s is there already; choose another folder, or move it away", dir, name)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder %s: %w", dir, err)
	}
	for _, name := range quickStart {
		data, err := fs.ReadFile(configs.FS, "quickstart/"+name)
		if err != nil {
			return fmt.Errorf("read the shipped %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	if err := state.CreateKey(filepath.Join(dir, keyFile)); err != nil {
		return err
	}
	if a.json() {
		return printJSON(a.out, map[string]any{"folder": dir, "files": append(quickStart, keyFile)})
	}
	fmt.Fprintf(a.out, "Wrote payersync.yaml, mapping.yaml, customers.csv and payersync.key into %s\n", dir)
	fmt.Fprintln(a.out, "Keep payersync.key safe: without it the ledger cannot be read. Next:")
	fmt.Fprintf(a.out, "  payersync sandbox                         in another terminal: a model of the billing service\n")
	fmt.Fprintf(a.out, "  payersync plan --config %s   what would be done\n", filepath.Join(dir, "payersync.yaml"))
	return nil
}
