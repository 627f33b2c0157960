package pages

import (
	"strconv"

	"payersync/state"
)

// audit lists the audit log, newest first.
func (v *visit) audit() error {
	ctx := v.Context()
	before, _ := strconv.ParseInt(v.filled("after"), 10, 64)
	f := state.LogFilter{Actor: v.filled("who"), Action: v.filled("act"), Before: before, Limit: rowsShown + 1}
	lines, err := v.ledger().Log(ctx, f)
	if err != nil {
		return err
	}
	next := ""
	if len(lines) > rowsShown {
		lines = lines[:rowsShown]
		next = strconv.FormatInt(lines[rowsShown-1].Seq, 10)
	}
	actors, actions, err := v.ledger().LoggedWords(ctx)
	if err != nil {
		return err
	}
	content := struct {
		Lines           []state.LoggedEntry
		Actors, Actions []string
		Filter          state.LogFilter
		Chain           *state.LogChain // nil while nobody asked for it
		Pager           pager
	}{Lines: lines, Actors: actors, Actions: actions, Filter: f, Pager: v.page(next)}
	if v.filled("check") != "" {
		chain, err := v.ledger().LogChain(ctx)
		if err != nil {
			return err
		}
		content.Chain = &chain
	}
	return v.show("audit", "Audit log", content)
}
