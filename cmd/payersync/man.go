package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"payersync/cmd/payersync/internal/usage"
)

func (a *app) manCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page for every command into a folder",
		Long: `Writes payersync.1 and a page for each command into DIR, and creates DIR if needed. It
replaces existing pages. With SOURCE_DATE_EPOCH (seconds since 1970) they have that
date, so the pages of a release are always the same.`,
		Example: "  payersync man /usr/local/share/man/man1 && man payersync-backfill",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runMan(cmd, args) },
	}
}

func (a *app) runMan(cmd *cobra.Command, args []string) error {
	defer syscall.Umask(syscall.Umask(0o022))           // unlike all other files of payersync
	if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // everybody may read manual pages
		return fmt.Errorf("cannot write manual pages: %w; choose another folder", err)
	}
	built := a.now()
	if epoch, _ := a.getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return usage.Errorf("SOURCE_DATE_EPOCH is %q, which is no number of seconds; write one, or unset it", epoch)
		}
		built = time.Unix(seconds, 0).UTC()
	}
	root := cmd.Root()
	root.DisableAutoGenTag = true
	for _, c := range root.Commands() {
		c.Hidden = false // a page for each command
	}
	if err := doc.GenManTree(root,
		&doc.GenManHeader{Section: "1", Date: &built, Source: "payersync " + version, Manual: "payersync"},
		args[0]); err != nil {
		return fmt.Errorf("cannot write manual pages into %s: %w; choose another folder", args[0], err)
	}
	a.Say("Wrote the manual pages into %s.", args[0])
	return nil
}
