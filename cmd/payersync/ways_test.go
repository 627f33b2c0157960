package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
)

// The two commands share --reason, and each has a flag of its own.
func TestAWayOfACommandTakesItsOwnFlagsAndNoOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, does, fails string }{
		{"A --limit 3", "list A limit 3 reason ", ""},
		{"A --reason why", "list A limit 0 reason why", ""},
		{"--take A --reason why --field name", "take A field name reason why", ""},
		{"A --field name", "", "--field goes with --take"},
		{"--take A --limit 3", "", "--limit does not go with --take"},
		{"--take", "", "accepts 1 arg(s), received 0"},
		{"--take=false A", "list A limit 0 reason ", ""},
	} {
		did := ""
		var limit, reason, field, why string
		list := &cobra.Command{Use: "list", Args: cobra.MaximumNArgs(1), SilenceErrors: true, SilenceUsage: true,
			RunE: func(_ *cobra.Command, args []string) error {
				did = "list " + strings.Join(args, " ") + " limit " + limit + " reason " + reason
				return nil
			}}
		list.Flags().StringVar(&limit, "limit", "0", "")
		list.Flags().StringVar(&reason, "reason", "", "")
		take := &cobra.Command{Use: "take", Short: "Take theirs; they stay", Long: "Takes.", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				did = "take " + strings.Join(args, " ") + " field " + field + " reason " + why
				return nil
			}}
		take.Flags().StringVar(&field, "field", "", "")
		take.Flags().StringVar(&why, "reason", "", "")
		both := also(list, "take", take)
		both.SetArgs(strings.Fields(c.args))
		err := both.Execute()
		if did != c.does || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%q does %q and fails with %v, want %q and %q", c.args, did, err, c.does, c.fails)
		}
		var wrong usage.Mistake
		if strings.Contains(c.fails, "--") && !errors.As(err, &wrong) {
			t.Errorf("%q is no mistake of the caller: %v", c.args, err)
		}
	}
}

// A person finds a command in a list of one screen's length for each group.
func TestThereAreEightyCommandsAtMost(t *testing.T) {
	t.Parallel()
	a := &app{program: program{Console: &show.Console{Out: io.Discard, ErrOut: io.Discard},
		getenv: func(string) (string, bool) { return "", false }}}
	var leaves []string
	for _, c := range commandsBelow(a.root()) {
		hidden := false
		for up := c; up != nil; up = up.Parent() {
			hidden = hidden || up.Hidden
		}
		if !hidden && !c.HasAvailableSubCommands() && c.Name() != "help" {
			leaves = append(leaves, c.CommandPath())
		}
	}
	if len(leaves) > 80 || len(leaves) < 70 {
		t.Errorf("There are %d commands:\n%s", len(leaves), strings.Join(leaves, "\n"))
	}
}
