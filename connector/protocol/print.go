package protocol

import (
	"fmt"
	"strings"
)

// Table returns both tables as Markdown, from the lines that Next uses. README.md holds it. Only tests call
// it: they print README.md.
func Table() string {
	var b strings.Builder
	for _, t := range []struct {
		title string
		lines []line
	}{{"The customer", customers}, {"The mandate", mandates}} {
		fmt.Fprintf(&b, "### %s\n\n| line | when | step | reason |\n|---|---|---|---|\n", t.title)
		for _, l := range t.lines {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.name, l.when(), l.step(), l.tells())
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// step describes the step of a line in words, with its preconditions. Only tests call it: they print
// README.md.
func (l line) step() string {
	var first []string
	for _, n := range []struct {
		set  needs
		text string
	}{{approval, "an approved plan"}, {list, "a list of this run"}, {look, "a read just before"}} {
		if l.needs&n.set != 0 {
			first = append(first, n.text)
		}
	}
	if first == nil {
		return fmt.Sprintf("**%s**", l.do)
	}
	return fmt.Sprintf("**%s**, after %s", l.do, strings.Join(first, " and "))
}

// Only tests call it: they print README.md.
func (l line) tells() string {
	switch {
	case l.reason != "":
		return fmt.Sprintf("`%s`", l.reason)
	case l.do == Tell && l.all&unfit != 0:
		return "reason of the unfit record"
	case l.do == Tell:
		return "reason of the refusal"
	}
	return ""
}
