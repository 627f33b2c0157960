package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

func (a *app) todoCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "todo",
		Short: "Walk through everything that needs somebody, and ask what to do",
		Long: `Walks through the list of payersync status, one item after the other. It shows each
item, its possible actions, and what each of them does and sends. Answer with the
letter of an action, with s to skip the item, or with q to quit. payersync does nothing
without an answer. Actions that need a reason ask for it.

Without a terminal, or with --output json, it prints the list.`,
		Example: "  payersync todo\n  payersync todo --output json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runTodo(cmd) },
	}
}

func (a *app) runTodo(cmd *cobra.Command) error {
	var lines []needLine
	if err := a.with(cmd.Context(), a.openReport, func(s *session.Session) (err error) {
		lines, err = a.readNeeds(cmd.Context(), s)
		return err
	}); err != nil {
		return err
	}
	switch {
	case a.JSON():
		return show.Lines(a.Out, lines)
	case len(lines) == 0 || a.Unasked() != "":
		a.printNeeds(lines)
		return nil
	}
	return (&todoWalk{app: a, root: cmd.Root()}).through(cmd.Context(), lines)
}

// todoWalk asks about the items of the list, one after the other.
type todoWalk struct {
	*app
	root *cobra.Command
	done bool // the person ended it
}

// todoItem is one item of a line.
type todoItem struct {
	name    string
	show    func(ctx context.Context) ([]todoChoice, error) // shows it, and returns its choices; none if it is settled
	advance bool                                            // an action that succeeds settles it
}

// todoChoice is a possible action on an item: a command, with a letter to choose it.
type todoChoice struct {
	key   byte
	words []string // of the command
	does  string
}

// through asks about all lines.
func (w *todoWalk) through(ctx context.Context, lines []needLine) error {
	for i, l := range lines {
		fmt.Fprintf(w.Out, "\n── %d of %d\n", i+1, len(lines))
		w.printNeed(l)
		items, err := w.items(ctx, l)
		for n := 0; n < len(items) && err == nil && !w.done; n++ {
			err = w.ask(ctx, items[n], n, len(items))
		}
		if err != nil || w.done {
			return err
		}
	}
	w.Print("\nThis was the whole list.")
	return nil
}

// items returns the items of a line.
func (w *todoWalk) items(ctx context.Context, l needLine) (items []todoItem, err error) {
	switch l.Kind {
	case admin.KindFinding, admin.KindMatch, admin.KindDelivery:
		return w.findings(ctx, connector.Reason(l.Subject))
	case admin.KindPlan:
		return w.plans(ctx)
	}
	return []todoItem{{name: l.Title,
		show: func(context.Context) ([]todoChoice, error) { return w.choices(l.Commands), nil }}}, nil
}

// findings returns the items with a finding.
func (w *todoWalk) findings(ctx context.Context, r connector.Reason) (items []todoItem, err error) {
	var rows []state.AttentionRow
	err = w.with(ctx, w.openReport, func(s *session.Session) (err error) {
		rows, err = s.Ledger.Attention(ctx, state.Filter{State: string(r), PutOff: state.NotPutOff, Alone: true})
		return err
	})
	for _, row := range rows {
		items = append(items, todoItem{name: row.SourceID, advance: true,
			show: func(ctx context.Context) ([]todoChoice, error) { return w.showFinding(ctx, row, r) }})
	}
	return items, err
}

// showFinding shows a finding with its facts, and returns the ways out.
func (w *todoWalk) showFinding(ctx context.Context, row state.AttentionRow, r connector.Reason) (choices []todoChoice,
	err error) {
	return choices, w.with(ctx, w.mappingSession, func(s *session.Session) error {
		same, err := s.Ledger.FindRecords(ctx, row.SourceID)
		if err != nil {
			return err
		}
		matters, err := w.mattersOf(ctx, s, row.SourceID, row.Connection)
		if err != nil {
			return err
		}
		for _, m := range matters {
			shown := withCommands(w.root, m, len(same) > 1)
			at := slices.IndexFunc(shown.Told, func(t shownTelling) bool { return t.Reason == r })
			if at < 0 {
				continue
			}
			ways := shown.Told[at].Ways
			for i := range shown.Told {
				shown.Told[i].Ways = nil
			}
			fmt.Fprintln(w.Out)
			w.printMatter(shown)
			for _, way := range ways {
				choices = append(choices, todoChoice{words: way.words, does: way.Does + " " + way.Sends.Sentence()})
			}
		}
		name(w.root, choices)
		return nil
	})
}

// plans returns the waiting plans.
func (w *todoWalk) plans(ctx context.Context) (items []todoItem, err error) {
	err = w.with(ctx, w.openReport, func(s *session.Session) error {
		plans, err := s.Ledger.WaitingPlans(ctx)
		for _, p := range plans {
			if s.Config.Has(p.Connection) == nil {
				id := fmt.Sprint(p.ID)
				items = append(items, todoItem{name: "plan " + id, advance: true,
					show: func(ctx context.Context) ([]todoChoice, error) {
						w.perform(ctx, "payersync", "plan", "show", id)
						return w.choices([]string{"payersync plan approve " + id, "payersync plan reject " + id + " --reason why"}), nil
					}})
			}
		}
		return err
	})
	return items, err
}

// choices returns commands as choices.
func (w *todoWalk) choices(commands []string) (out []todoChoice) {
	for _, command := range commands {
		words, does := strings.Fields(command), ""
		if c, _, err := w.root.Find(words[1:]); err == nil {
			does = doesOf(c, wayOf(w.root, words)) + "."
		}
		out = append(out, todoChoice{words: words, does: does})
	}
	name(w.root, out)
	return out
}

// name gives each choice a letter: the first free one of its verb.
func name(root *cobra.Command, choices []todoChoice) {
	taken := "sq"
	for i, c := range choices {
		verb := ""
		for _, word := range c.words[1:] {
			if strings.HasPrefix(word, "-") || strings.ToLower(word) != word {
				break
			}
			verb = word + verb // the last word of a command says what it does
		}
		for _, letter := range []byte(wayOf(root, c.words) + verb + "abcdefghijklmnoprtuvwxyz") {
			if letter >= 'a' && letter <= 'z' && strings.IndexByte(taken, letter) < 0 {
				choices[i].key, taken = letter, taken+string(letter)
				break
			}
		}
	}
}

// ask shows an item, and asks until the person has acted, or goes on.
func (w *todoWalk) ask(ctx context.Context, item todoItem, at, of int) error {
	choices, err := item.show(ctx)
	if err != nil || len(choices) == 0 && item.advance { // it was settled with another one
		return err
	}
	w.printChoices(choices)
	keys := strings.Join(connector.Map(choices, func(c todoChoice) string { return string(c.key) }), ",")
	for {
		answer, ended, err := w.Reads(ctx, fmt.Sprintf("(%d/%d) What to do with %s?", at+1, of, show.Visible(item.name)),
			strings.TrimPrefix(keys+",s,q,?", ","))
		if err != nil {
			return err
		}
		i := slices.IndexFunc(choices, func(c todoChoice) bool { return string(c.key) == answer })
		switch {
		case ended || answer == "q":
			w.done = true
			return nil
		case answer == "s":
			return nil
		case i < 0 && answer != "?":
			w.Print("%q is none of the answers.", show.Visible(answer))
			continue
		case i < 0:
			w.printChoices(choices)
			continue
		}
		words, err := w.complete(ctx, slices.Clone(choices[i].words))
		if err != nil {
			return err
		}
		if words == nil {
			w.Print("Nothing was done.")
			continue
		}
		if ok := w.perform(ctx, words...); ctx.Err() != nil || ok && item.advance {
			return ctx.Err()
		}
	}
}

// printChoices prints what each answer does.
func (w *todoWalk) printChoices(choices []todoChoice) {
	fmt.Fprintln(w.Out)
	for _, c := range choices {
		fmt.Fprintf(w.Out, "  %c  %s\n", c.key, show.Visible(commandLine(c.words)))
		w.Below(5, c.does)
	}
	fmt.Fprintln(w.Out, "  s  Skip it. Nothing is done.\n  q  Quit.\n  ?  Show these answers again.")
}

// blanks are the words of a command that the person must fill in, with the question for each.
var blanks = []struct{ word, question string }{
	{"why", "Why? The audit log keeps the reason:"},
	{"TEXT", "Why? The audit log keeps the reason:"},
	{"ANOTHER", "Which customer?"},
	{"CUSTOMER", "Which customer?"},
	{"OTHER", "Which other record?"},
	{"PART", "Which part: name, people or addresses?"},
}

// complete asks for the missing words of a command. It returns nil if one was not given.
func (w *todoWalk) complete(ctx context.Context, words []string) ([]string, error) {
	for _, b := range blanks {
		at := slices.Index(words, b.word)
		if at < 0 {
			continue
		}
		answer, _, err := w.Reads(ctx, b.question, "")
		if err != nil || answer == "" {
			return nil, err
		}
		words[at] = answer
	}
	return words, nil
}

// perform runs a command as if the person had typed it, and reports whether it succeeded.
func (w *todoWalk) perform(ctx context.Context, words ...string) bool {
	fmt.Fprintf(w.Out, "\n$ %s\n", show.Visible(commandLine(words)))
	args := words[1:]
	if w.given != "" {
		args = append(args, "--config", w.given)
	}
	if w.account != "" {
		args = append(args, "--account", w.account)
	}
	p := w.program
	p.Console, p.walks = w.streams, true
	return run(ctx, p, args) == exitDone
}
