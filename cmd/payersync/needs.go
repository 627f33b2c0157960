package main

import (
	"context"
	"fmt"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/health"
	"payersync/connector/readiness"
)

// needLine is a line of the list of what needs somebody, with the commands that list its items, or end its cause. Its
// keys are public.
type needLine struct {
	admin.Line
	Commands []string `json:"commands"`
}

// needLines returns the list of what needs somebody.
func needLines(count *admin.Count, found []health.Condition, s *session.Session) []needLine {
	lines := count.List(found, func(connection string) bool { return s.Config.Has(connection) == nil })
	return connector.Map(lines, func(l admin.Line) needLine { return needLine{l, needCommands(l)} })
}

// readNeeds reads the ledger, and returns the list of what needs somebody.
func (a *app) readNeeds(ctx context.Context, s *session.Session) ([]needLine, error) {
	count, err := admin.CountNow(ctx, s.Ledger, s.Config.Billing.LinkValid.Length())
	if err != nil {
		return nil, err
	}
	found, err := health.Present(ctx, s.Ledger, a.expected(s), admin.ListedConditions...)
	return needLines(count, found, s), err
}

// taskCommands are the commands that people need for a task on payers.
var taskCommands = map[string]string{
	string(readiness.NotSent):  "payersync mandates handover --not-sent",
	string(readiness.LinkLost): "payersync mandates links --lost",
}

// needCommands returns the commands that list exactly the items of a line, or end its cause.
func needCommands(l admin.Line) (commands []string) {
	switch l.Kind {
	case admin.KindPayer:
		commands = []string{"payersync report --task " + l.Subject}
		if ends := taskCommands[l.Subject]; ends != "" {
			commands = append(commands, ends)
		}
	case admin.KindPlan:
		commands = []string{"payersync plan list"}
	case admin.KindFinding, admin.KindMatch, admin.KindDelivery:
		commands = []string{"payersync attention list --reason " + l.Subject}
	}
	for _, c := range l.Conditions {
		commands = append(commands, c.Commands...)
	}
	return append([]string{}, commands...)
}

// printNeeds prints the list of what needs somebody.
func (a *app) printNeeds(lines []needLine) {
	if len(lines) == 0 {
		fmt.Fprintln(a.Out, "\nNothing needs anybody.")
		return
	}
	fmt.Fprintln(a.Out, "\nNeeds somebody")
	for _, l := range lines {
		a.printNeed(l)
	}
	fmt.Fprintln(a.Out, "\nTo decide on them one after the other: payersync todo")
}

// printNeed prints a line of the list.
func (a *app) printNeed(l needLine) {
	mark, number, since := " ", fmt.Sprint(l.Count), ""
	if l.Urgent {
		mark = "!"
	}
	if l.Kind == admin.KindCondition {
		number = ""
	}
	if !l.Since.IsZero() {
		since = ", since " + show.Time(l.Since)
	}
	head := show.Visible(fmt.Sprintf("%s%5s  %s%s", mark, number, l.Title, inBrackets(l.Connection)))
	if l.Urgent {
		head = a.Toned(show.Bad, head)
	}
	fmt.Fprintf(a.Out, "\n%s\n", head)
	a.Below(needIndent, l.Detail)
	for _, c := range l.Conditions {
		a.Below(needIndent, c.Detail)
	}
	a.Below(needIndent, l.Next)
	a.Below(needIndent, l.Who.Title()+since+". Otherwise: "+l.Otherwise)
	for _, command := range l.Commands {
		fmt.Fprintf(a.Out, "  %s\n", show.Visible(command))
	}
}

// needIndent is the column of the text below a line of the list.
const needIndent = 8

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
