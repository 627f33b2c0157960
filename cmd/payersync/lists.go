package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/state"
)

// takesCSV marks the commands with CSV output. The name of a way's flag follows where the way has it.
const takesCSV = "csv"

// printsCSV reports whether a command prints CSV, or the chosen way of it.
func printsCSV(c *cobra.Command) bool {
	_, is := c.Annotations[takesCSV+chosenWay(c)]
	return is
}

// usualLimit is how many rows a table has when nobody says.
const usualLimit = 50

func limitFlag(c *cobra.Command) {
	c.Flags().Int("limit", usualLimit, "at most so many; 0 for all, and so do JSON and CSV without it")
}

// asCSV lets a command print CSV as well, and returns it.
func asCSV(c *cobra.Command) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[takesCSV] = ""
	return c
}

// limitOf returns the number of a list's rows: --limit, or else a readable number and all for another
// program. 0 is for all.
func (a *app) limitOf(c *cobra.Command) int {
	limit, err := c.Flags().GetInt("limit")
	if err != nil || limit < 0 || a.Output != "table" && !c.Flags().Changed("limit") {
		return 0
	}
	return limit
}

// oneMore is a limit that reveals whether there are more.
func oneMore(limit int) int {
	if limit == 0 {
		return 0
	}
	return limit + 1
}

// upTo returns the rows of a list read with oneMore, and whether there are more.
func upTo[T any](rows []T, limit int) ([]T, bool) {
	if limit == 0 || len(rows) <= limit {
		return rows, false
	}
	return rows[:limit], true
}

// printMore says that a list goes on.
func (a *app) printMore(more bool, limit int) {
	if more {
		a.Print("There are more: these are the first %d, and --limit 0 lists every one.", limit)
	}
}

// warnNameless says why names are not there.
func (a *app) warnNameless(s *session.Session, sealed bool, bare int) {
	switch {
	case sealed:
		a.Print("Names are omitted: they are sealed, and payersync cannot read the sealing key %s here.",
			show.Visible(s.Config.Ledger.KeyFile))
	case bare > 0:
		a.Print("%s no name yet: the next complete reading of the accounting system adds names.", haveOf(bare))
	}
}

func haveOf(n int) string {
	if n == 1 {
		return "1 record has"
	}
	return connector.Plural(n, "record") + " have"
}

// labelsOf returns the labels of records, and says why any are not there.
func (a *app) labelsOf(ctx context.Context, s *session.Session,
	records []state.RecordID) (map[state.RecordID]connector.Label, error) {
	known, err := s.Ledger.LabelsOf(ctx, records)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	bare := 0
	for _, id := range records {
		if _, named := known[id]; !named {
			bare++
		}
	}
	a.warnNameless(s, s.Ledger.Sealed(), bare)
	return known, nil
}

// named returns a record's id, with its name beside it if personal values are shown in full.
func (p privacy) named(ctx context.Context, s *session.Session, id state.RecordID) (string, error) {
	if !p.Whole {
		return show.Visible(id.SourceID), nil
	}
	known, err := s.Ledger.LabelsOf(ctx, []state.RecordID{id})
	return show.Visible(strings.TrimSpace(id.SourceID + " " + known[id].Name)), err
}

// withoutColumn leaves a column out of a table.
func withoutColumn(title string, header []string, rows [][]string) ([]string, [][]string) {
	at := slices.Index(header, title)
	if at < 0 {
		return header, rows
	}
	for i, row := range rows {
		rows[i] = slices.Delete(row, at, at+1)
	}
	return slices.Delete(header, at, at+1), rows
}
