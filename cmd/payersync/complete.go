package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/letters/templates"
	"payersync/connector/readiness"
	"payersync/state"
)

func (a *app) completionCmd() *cobra.Command {
	shells := map[string]func(*cobra.Command) error{
		"bash":       func(root *cobra.Command) error { return root.GenBashCompletionV2(a.Out, true) },
		"fish":       func(root *cobra.Command) error { return root.GenFishCompletion(a.Out, true) },
		"powershell": func(root *cobra.Command) error { return root.GenPowerShellCompletionWithDesc(a.Out) },
		"zsh":        func(root *cobra.Command) error { return root.GenZshCompletion(a.Out) },
	}
	names := slices.Sorted(maps.Keys(shells))
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script for completion of commands in a shell",
		Long: `Prints what a shell (` + strings.Join(names, ", ") + `) needs to complete commands, flags,
connections, states, reasons, plans and versions of mappings.`,
		Example: "  source <(payersync completion bash)\n  payersync completion zsh > \"${fpath[1]}/_payersync\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			script, known := shells[args[0]]
			if !known {
				return usage.Errorf("there is no completion for %q; SHELL is one of %s", args[0], strings.Join(names, ", "))
			}
			return script(cmd.Root())
		},
	}
}

// completer proposes completions of a word.
type completer func(context.Context) []cobra.Completion

// completions lets a shell complete names from the configuration and the ledger: an argument by its
// placeholder in the command's usage, a flag by its name.
func (a *app) completions(root *cobra.Command) {
	arguments := map[string]completer{
		"NAME": a.connectionNames, "[NAME…]": a.connectionNames, "[NAME…|RECORD]": a.connectionNames,
		"[CONNECTION]": a.connectionNames,
		"[WAY]":        a.alertWays, "PLAN": a.planNumbers, "SHELL": words("bash", "fish", "powershell", "zsh"),
		"HASH": a.versionHashes, "A": a.versionHashes, "[B]": a.versionHashes,
	}
	flags := map[string]completer{
		"connection": a.connectionNames,
		"output":     words("table", "json"),
		"only":       words(connector.ActionCreate, connector.ActionAdopt, connector.ActionUpdate, connector.ActionLink),
		"source":     words(append(sourceKinds(), sqlSource)...),
		"preset":     words(presetNames()...),

		"payers list --state":     words(linkStates...),
		"payers list --mandate":   words(append(slices.Clone(connector.MandateStatuses), state.NoMandate)...),
		"payers list --reason":    reasonCodes,
		"payers list --sort":      words(payerSorts...),
		"payers list --columns":   words(columnNames()...),
		"mandates list --state":   words(connector.MandateStatuses...),
		"mandates handover --for": words(spreadsheets...),
		"letters list --state":    words(letterStates...),
		"letters preview --kind":  words(templates.Kinds...),
		"report --class":          words(readiness.Classes...),
		"webhooks list --state":   words("received", "reflected", "superseded", "parked", "quarantined", "ignored"),
		"attention list --reason": reasonCodes, "attention retry --reason": reasonCodes,
		"attention close --reason-code": explained(slices.Compact(slices.Sorted(slices.Values(append(closable(),
			givenUpFor()...))))),
	}
	for _, c := range append(commandsBelow(root), root) {
		c.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			placeholders := slices.DeleteFunc(strings.Fields(useOf(cmd))[1:],
				func(word string) bool { return strings.HasPrefix(word, "--") })
			placeholder := ""
			if at := min(len(args), len(placeholders)-1); at >= 0 &&
				(at == len(args) || strings.Contains(placeholders[at], "…")) {
				placeholder = placeholders[at]
			}
			if strings.Contains(placeholder, "FILE") || strings.Contains(placeholder, "DIR") {
				return nil, cobra.ShellCompDirectiveDefault
			}
			complete := arguments[placeholder]
			if complete == nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return without(complete(cmd.Context()), args), cobra.ShellCompDirectiveNoFileComp
		}
		for name, complete := range flags {
			path, flag, special := strings.Cut(name, " --")
			if !special {
				path, flag = "", name
			}
			if c.Flags().Lookup(flag) == nil && c.PersistentFlags().Lookup(flag) == nil || special &&
				c.CommandPath() != "payersync "+path {
				continue
			}
			_ = c.RegisterFlagCompletionFunc(flag,
				func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
					return complete(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
				}) // the flag is there and has none yet
		}
	}
}

// commandsBelow returns all commands below one.
func commandsBelow(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range c.Commands() {
		all = append(append(all, sub), commandsBelow(sub)...)
	}
	return all
}

// without removes the words already on the line.
func without(proposed []cobra.Completion, args []string) []cobra.Completion {
	return slices.DeleteFunc(proposed, func(p cobra.Completion) bool {
		word, _, _ := strings.Cut(p, "\t")
		return slices.Contains(args, word)
	})
}

func words[T ~string](known ...T) completer {
	var out []cobra.Completion
	for _, k := range known {
		out = append(out, string(k))
	}
	return func(context.Context) []cobra.Completion { return slices.Clone(out) }
}

func reasonCodes(ctx context.Context) []cobra.Completion { return explained(reasons())(ctx) }

func explained(codes []connector.Reason) completer {
	return func(context.Context) (out []cobra.Completion) {
		for _, r := range codes {
			out = append(out, cobra.CompletionWithDesc(string(r), r.Sentence()))
		}
		return out
	}
}

// connectionNames are the configured connections; none with an unreadable configuration: the command itself
// reports that.
func (a *app) connectionNames(context.Context) (out []cobra.Completion) {
	cfg, err := a.loadLocal()
	if err != nil {
		return nil
	}
	for _, c := range cfg.Connections {
		out = append(out, cobra.CompletionWithDesc(c.Name, "a source of kind "+c.Source.Kind))
	}
	return out
}

func (a *app) alertWays(context.Context) (out []cobra.Completion) {
	cfg, err := a.loadLocal()
	if err != nil {
		return nil
	}
	out = append(out, connector.Map(cfg.Alerts.Ways, func(w config.AlertWay) cobra.Completion { return w.Name })...)
	return out
}

func (a *app) planNumbers(ctx context.Context) (out []cobra.Completion) {
	a.peek(ctx, state.Options{Keyless: true}, func(s *session.Session) error {
		plans, err := s.Ledger.WaitingPlans(ctx)
		for _, p := range plans {
			out = append(out, cobra.CompletionWithDesc(fmt.Sprint(p.ID), p.Connection+": "+summary(p)))
		}
		return err
	})
	return out
}

func (a *app) versionHashes(ctx context.Context) (out []cobra.Completion) {
	a.peek(ctx, state.Options{}, func(s *session.Session) error {
		for _, c := range s.Config.Connections {
			versions, err := s.Ledger.MappingVersions(ctx, c.Name)
			if err != nil {
				return err
			}
			for _, v := range versions {
				out = append(out, cobra.CompletionWithDesc(v.Hash[:shortHash], c.Name))
			}
		}
		return nil
	})
	return out
}

// peek reads an existing ledger. The command itself reports an error.
func (a *app) peek(ctx context.Context, o state.Options, look func(*session.Session) error) {
	cfg, err := a.loadLocal()
	if err != nil {
		return
	}
	if _, err := os.Stat(cfg.Ledger.Path); cfg.Node == nil && errors.Is(err, fs.ErrNotExist) {
		return // opening would make one
	}
	o.Now, o.Server = a.now, a.node.connected()
	s, err := session.Open(ctx, cfg, o)
	if err != nil {
		return
	}
	defer s.Close()
	_ = look(s)
}
