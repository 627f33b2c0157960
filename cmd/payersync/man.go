package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
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
	for _, c := range root.Commands() {
		c.Hidden = false // a page for each command
	}
	if err := writeManTree(root, args[0], built); err != nil {
		return fmt.Errorf("cannot write manual pages into %s: %w; choose another folder", args[0], err)
	}
	a.Print("Wrote the manual pages into %s.", args[0])
	return nil
}

// writeManTree writes the pages of a command and of those below it.
func writeManTree(c *cobra.Command, dir string, built time.Time) error {
	page := filepath.Join(dir, manName(c)+".1")
	if err := os.WriteFile(page, []byte(manPage(c, built)), 0o644); err != nil { //nolint:gosec // everybody may read it
		return err
	}
	return connector.Each(c.Commands(), func(below *cobra.Command) error {
		if !below.IsAvailableCommand() || below.IsAdditionalHelpTopicCommand() {
			return nil
		}
		return writeManTree(below, dir, built)
	})
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is the manual page of a command, in the language of man(7).
func manPage(c *cobra.Command, built time.Time) string {
	c.InitDefaultHelpFlag()
	var out strings.Builder
	fmt.Fprintf(&out, ".nh\n.TH \"%s\" \"1\" \"%s\" \"payersync %s\" \"payersync\"\n", strings.ToUpper(manName(c)),
		built.Format("Jan 2006"), version)
	fmt.Fprintf(&out, ".SH NAME\n%s - %s\n", manText(manName(c)), manText(c.Short))
	fmt.Fprintf(&out, ".SH SYNOPSIS\n\\fB%s\\fP\n.SH DESCRIPTION\n", manText(c.UseLine()))
	for i, paragraph := range strings.Split(strings.TrimSpace(cmp.Or(c.Long, c.Short)), "\n\n") {
		if i > 0 {
			out.WriteString(".PP\n")
		}
		out.WriteString(manText(paragraph) + "\n")
	}
	manFlags(&out, "OPTIONS", c.NonInheritedFlags())
	manFlags(&out, "OPTIONS INHERITED FROM PARENT COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&out, ".SH EXAMPLE\n.EX\n%s\n.EE\n", manText(c.Example))
	}
	var also []string
	if c.HasParent() {
		also = append(also, manName(c.Parent()))
	}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() && !below.IsAdditionalHelpTopicCommand() {
			also = append(also, manName(below))
		}
	}
	for i, name := range also {
		also[i] = `\fB` + manText(name) + `(1)\fP`
	}
	if len(also) > 0 {
		fmt.Fprintf(&out, ".SH SEE ALSO\n%s\n", strings.Join(also, ", "))
	}
	return out.String()
}

// manFlags writes a section with the flags of a command; none without flags.
func manFlags(out *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	out.WriteString(".SH " + title + "\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		out.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(out, `\fB\-%s\fP, `, f.Shorthand)
		}
		fmt.Fprintf(out, `\fB\-\-%s\fP`, manText(f.Name))
		if value != "" {
			fmt.Fprintf(out, ` \fI%s\fP`, manText(value))
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			usage += " (default " + f.DefValue + ")"
		}
		out.WriteString("\n" + manText(usage) + "\n")
	})
}

// manText is a text in which man(7) finds no command.
func manText(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
