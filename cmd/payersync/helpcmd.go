package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/guides"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
)

// helpCmd prints a guide, or the help of a command. For a name of both it prints the guide: the command's own
// flag --help prints the other.
func (a *app) helpCmd(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [TOPIC | COMMAND]",
		Short: "Print a guide, or help about a command",
		Long: `Prints a guide about one topic, or the help of a command. Without an argument it lists
both. COMMAND --help prints the help of a command too.

Guides:
` + listOfGuides(),
		Example:           "  payersync help first-hour\n  payersync help payers match",
		ValidArgsFunction: completeTopics,
		RunE:              func(_ *cobra.Command, args []string) error { return a.runHelp(args, root) },
	}
}

func (a *app) runHelp(args []string, root *cobra.Command) error {
	if len(args) == 0 {
		return root.Help()
	}
	if g, ok := guides.Find(args[0]); ok && len(args) == 1 {
		fmt.Fprint(a.Out, g.Text)
		return nil
	}
	c, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 || c == root {
		return usage.Errorf("there is no guide or command %q%s; payersync help lists them", strings.Join(args, " "),
			didYouMean(args[0], append(topicNames(), namesOf(root.Commands())...)))
	}
	c.InitDefaultHelpFlag() // cobra's own help command adds it here, too
	return c.Help()
}

func topicNames() (names []string) {
	return connector.Map(guides.All(), func(g guides.Guide) string { return g.Name })
}

// listOfGuides is a line for each guide: its name, its title and its readers.
func listOfGuides() string {
	var list strings.Builder
	for _, g := range guides.All() {
		fmt.Fprintf(&list, "  %-14s %s (%s)\n", g.Name, g.Title, g.Readers)
	}
	return strings.TrimSuffix(list.String(), "\n")
}

func completeTopics(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return append(topicNames(), namesOf(c.Root().Commands())...), cobra.ShellCompDirectiveNoFileComp
}
