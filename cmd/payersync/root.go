package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
)

// app is the program while one command runs.
type app struct {
	program
	now     func() time.Time
	config  string        // --config
	given   string        // the same if the user named it, "" otherwise
	account string        // --account
	streams *show.Console // as the process has them
	node    *node         // the opened account of a shared database

	interrupt context.CancelFunc // ends the command as Ctrl-C does

	verbose bool // --verbose
}

// run executes one command line and returns its exit code. It is the whole program except the process around
// it, so tests and the demo call it too.
func run(ctx context.Context, p program, args []string) int {
	a := &app{program: p, now: p.clock}
	if a.now == nil {
		a.now = time.Now
	}
	a.Plain = a.plain()
	a.streams = a.Console
	defer func() { a.node.close() }()
	named, flush := a.NameFlags(func() show.Flags { return show.Flags{Account: a.node.account(), Config: a.given} })
	defer flush()
	a.Console = named
	ctx, a.interrupt = context.WithCancel(ctx)
	defer a.interrupt()
	root := a.root()
	args, from, to := presentNames(args)
	if from != "" {
		fmt.Fprintf(a.ErrOut, "payersync %s is now payersync %s.\n", from, to)
	}
	root.SetArgs(args)
	root.SetIn(p.In)
	root.SetOut(a.Out)
	root.SetErr(a.ErrOut)
	err := legible(args)
	if err == nil {
		err = connector.Guard(func() error { return root.ExecuteContext(ctx) })
	}
	a.report(err)
	return exitCode(err)
}

// legible refuses arguments other than valid text: their stored form would differ.
func legible(args []string) error {
	for i, arg := range args {
		if connector.Clean(arg) != arg {
			return usage.Errorf("argument %d has characters that are no text; write it in UTF-8", i+1)
		}
	}
	return nil
}

// plain reports whether a terminal is to get no colours: by the convention of
// https://no-color.org, or because it takes none.
func (p program) plain() bool {
	no, _ := p.getenv("NO_COLOR")
	kind, _ := p.getenv("TERM")
	return no != "" || kind == "dumb"
}

// report prints an error for a person, once.
func (a *app) report(err error) {
	var said exitError
	switch {
	case err == nil, errors.As(err, &said), errors.Is(err, show.ErrUnread):
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(a.ErrOut, "Interrupted. Run the same command again to go on.")
	default:
		fmt.Fprintf(a.ErrOut, "payersync: %s\n", errorText(err))
		var broken *connector.PanicError
		if errors.As(err, &broken) {
			fmt.Fprintf(a.ErrOut, "This is a mistake in payersync; where it happened:\n%s", broken.Stack)
		}
	}
}

// manyMachines is the group of commands that are listed only beside the configuration of a node.
const manyMachines = "Many machines"

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "payersync",
		Short: "Keep a billing service's customers and mandates in step with an accounting system",
		Long: `payersync keeps a billing service's customers and direct debit mandates in step
with an accounting system: it reads customers, creates or updates them once each,
asks for a mandate signing link for every new payer, and follows the mandates.

To see it all at work, without any account:

  payersync demo

Guides, each printed by payersync help TOPIC:
` + listOfGuides() + `

Exit status: 0 done · 1 failed · 2 usage or configuration · 3 done, but records
need attention · 4 waiting for approval · 5 throttled, try again at the printed time
· 6 another run uses the connection · 7 a standstill: far fewer records or payers
than known · 130 interrupted.`,
		Version:      versionLine(),
		SilenceUsage: true, SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usage.Errorf("there is no command %q%s; payersync --help lists them", args[0],
				didYouMean(args[0], namesOf(cmd.Commands())))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			a.node = &node{app: a, ctx: c.Context}
			if c.Flags().Changed("config") {
				a.given = a.config
			}
			if err := shortEnough(c, "reason", "note"); err != nil {
				return err
			}
			switch csv := printsCSV(c); {
			case a.Output == "table", a.Output == "json", a.Output == "csv" && csv:
				return nil
			case csv:
				return usage.Errorf("--output is table, json or csv, not %q", a.Output)
			}
			return usage.Errorf("--output is table or json, not %q", a.Output)
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	file := "payersync.yaml"
	if v, ok := a.getenv("PAYERSYNC_CONFIG"); ok && v != "" {
		file = v
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.config, "config", file, "configuration `FILE` (or PAYERSYNC_CONFIG)")
	flags.StringVar(&a.account, "account", "", "the account, with the configuration of a node")
	flags.StringVar(&a.Output, "output", "table", "how results are printed: table, json, and csv for lists")
	flags.BoolVar(&a.verbose, "verbose", false, "log each decision and request, without a value")
	root.SetFlagErrorFunc(flagError)
	root.Flags().Bool("version", false, "print the version")
	root.SetVersionTemplate("{{.Version}}\n")
	a.addCommands(root, config.IsNode(file))
	root.SetHelpCommand(a.helpCmd(root))
	a.completions(root)
	for _, c := range root.Commands() {
		usageArgs(c)
	}
	return root
}

// addCommands adds all commands in their groups. The help lists those for many machines only beside the configuration
// of a node.
func (a *app) addCommands(root *cobra.Command, node bool) {
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Begin", []*cobra.Command{a.demoCmd(), a.initCmd(), a.checkCmd(), a.connectCmd()}},
		{"Every day", []*cobra.Command{a.statusCmd(), a.todoCmd(), a.planCmd(), a.syncCmd(), a.backfillCmd(), a.reportCmd(),
			a.payersCmd(), a.mandatesCmd(), a.lettersCmd()}},
		{"Decide", []*cobra.Command{a.attentionCmd(), a.connectionsCmd()}},
		{"Set up", []*cobra.Command{a.sourceCmd(), a.mappingCmd(), a.pagesCmd(), a.webhooksCmd(), a.alertsCmd(),
			a.writebackCmd(), a.environmentCmd(), a.sandboxCmd()}},
		{"Look after", []*cobra.Command{a.serveCmd(), a.sweepCmd(), a.ledgerCmd(), a.auditCmd()}},
		{manyMachines, []*cobra.Command{a.accountsCmd(), a.nodesCmd()}},
	} {
		hidden := g.title == manyMachines && !node
		if !hidden {
			root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		}
		for _, c := range g.commands {
			if c.Hidden = hidden; !hidden {
				c.GroupID = g.title
			}
			root.AddCommand(c)
		}
	}
	// for programs and packages
	for _, c := range []*cobra.Command{a.versionCmd(), a.healthcheckCmd(), a.completionCmd(), a.manCmd()} {
		c.Hidden = true
		root.AddCommand(c)
	}
}

// usageArgs adds a command's usage to the error of wrong arguments. A command takes none unless its definition
// says how many.
func usageArgs(c *cobra.Command) {
	check := c.Args
	if check == nil {
		check = cobra.NoArgs
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		var wrong usage.Mistake
		if err := check(cmd, args); err == nil || errors.As(err, &wrong) {
			return err
		}
		return usage.Errorf("call it like this: %s %s [flags]; see %s --help", cmd.Parent().CommandPath(), useOf(cmd),
			cmd.CommandPath())
	}
	for _, sub := range c.Commands() {
		usageArgs(sub)
	}
}

// subcommands makes a command that only groups others.
func subcommands(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return usage.Errorf("there is no command %q%s; see %s --help", cmd.CommandPath()+" "+args[0],
			didYouMean(args[0], namesOf(cmd.Commands())), cmd.CommandPath())
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	c.AddCommand(subs...)
	return c
}

func didYouMean(word string, known []string) string {
	if near := connector.Nearest(word, known); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return ""
}

// namesOf returns the names of the commands listed by help.
func namesOf(commands []*cobra.Command) (names []string) {
	for _, c := range commands {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// flagError explains a mistake in a flag, and suggests the probable one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var blank *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		command := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		if r, removed := usage.RemovedFlag(usage.RemovedFlags, command, unknown.GetSpecifiedName()); removed {
			return usage.Errorf("%s was removed; %s", r.Name, r.Instead)
		}
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = name[1:]
		}
		return usage.Errorf("there is no flag %s%s; see %s --help", name, didYouMean(name, flagsOf(cmd)), cmd.CommandPath())
	case errors.As(err, &invalid):
		return usage.Errorf("--%s cannot be %q; see %s --help", invalid.GetFlag().Name, invalid.GetValue(), cmd.CommandPath())
	case errors.As(err, &blank):
		return usage.Errorf("--%s needs a value; see %s --help", blank.GetFlag().Name, cmd.CommandPath())
	}
	return usage.Errorf("%w; see %s --help", err, cmd.CommandPath())
}

// flagsOf returns the flags of a command listed by help.
func flagsOf(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return names
}

// oneOf refuses a filter's value that matches nothing ever: the empty list would look like good news.
func oneOf[T ~string](flag, value string, known ...T) error {
	if value == "" || slices.Contains(known, T(value)) {
		return nil
	}
	var names []string
	for _, k := range known {
		names = append(names, string(k))
	}
	return usage.Errorf("--%s is one of %s, not %q", flag, strings.Join(names, ", "), value)
}

// actor names the person at the keyboard, for the audit log.
func actor() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "unknown"
}

// shortEnough fails if a flag with a person's reason is longer than a reason may be.
func shortEnough(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if f := c.Flags().Lookup(name); f != nil && utf8.RuneCountInString(f.Value.String()) > admin.LongestReason {
			return usage.Errorf("--%s is too long: a reason has at most %d letters; say it shorter", name, admin.LongestReason)
		}
	}
	return nil
}
