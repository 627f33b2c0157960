package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// takeBack reverts the move, or the named pairs.
func (m *mover) takeBack(ctx context.Context) error {
	all, err := m.s.Ledger.MovePairs(ctx, m.from, m.to)
	if err != nil {
		return err
	}
	var newIDs []string
	for _, text := range m.pairs {
		i := slices.IndexFunc(all, func(p state.MovePair) bool { return p.Old.SourceID+"="+p.New.SourceID == text })
		if i < 0 {
			return usage.Errorf("nobody accepted the match %q", text)
		}
		newIDs = append(newIDs, all[i].New.SourceID)
	}
	n, what := len(all), fmt.Sprintf("open %s again", m.from)
	if len(newIDs) > 0 {
		n, what = len(newIDs), fmt.Sprintf("leave %s closed", m.from)
	}
	sure, err := m.Confirms(ctx, m.yes, fmt.Sprintf("%s would be taken back", connector.Plural(n, "pair")),
		fmt.Sprintf("Take %s back, and %s?", connector.Plural(n, "pair"), what))
	if err != nil {
		return err
	}
	if !sure {
		m.Print("Nothing was taken back.")
		return nil
	}
	var left []state.MoveLeft
	if len(newIDs) > 0 {
		left, err = m.moves.TakeBack(ctx, m.from, m.to, newIDs, m.operator())
	} else {
		left, err = m.moves.Undo(ctx, m.from, m.to, m.operator())
	}
	if err != nil {
		return notMovedBooks(m.from, m.to, err)
	}
	return m.endUndo(n, left, len(newIDs) == 0)
}

func (m *mover) endUndo(n int, left []state.MoveLeft, whole bool) error {
	m.printLeft(left)
	m.Print("%s taken back.", connector.Plural(n-len(left), "pair"))
	switch {
	case whole && len(left) > 0:
		m.Print("%s stays closed until the others are taken back as well.", m.from)
	case whole && m.s.Config.Has(m.from) != nil:
		m.Print("%s is open again, and is not configured. Its new keys stay until you configure it and it runs.", m.from)
	case whole:
		m.Print("%s is open again. Its next plan writes the old keys back: payersync plan %[1]s", m.from)
	}
	if err := m.Result(map[string]any{"old": m.from, "new": m.to, "taken_back": n - len(left),
		"left": leftReports(left)}); err != nil {
		return err
	}
	if len(left) > 0 {
		return exitError(exitAttention)
	}
	return nil
}

// notMovedBooks says why a connection is not moved, and what to do.
func notMovedBooks(from, to string, err error) error {
	next := ""
	switch {
	case errors.Is(err, state.ErrNoConnection):
		next = "; only a connection with an earlier run can be named"
	case errors.Is(err, admin.ErrNotRead):
		next = fmt.Sprintf("; payersync plan %s reads the accounting system and sends nothing", to)
	case errors.Is(err, state.ErrUnderWay):
		next = fmt.Sprintf("; payersync sync %s finishes what it began", from)
	case errors.Is(err, state.ErrRunning):
		next = "; try again when it has ended"
	case errors.Is(err, state.ErrConnectionDecided):
		next = fmt.Sprintf("; payersync connections move --separate %s %s --undo takes back that they are separate", from, to)
	}
	return fmt.Errorf("cannot move connection %s to %s: %w%s", show.Visible(from), show.Visible(to), err, next)
}
