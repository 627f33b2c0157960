package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/mapping"
)

func (a *app) mappingCoverageCmd() *cobra.Command {
	var p privacy
	c := &cobra.Command{
		Use:   "coverage [CONNECTION]",
		Short: "Show rules that never fire, blank targets and unused fields",
		Long: `Applies the mapping to the stored records, and counts the effects of each rule. A rule
fires when it gives a text, true, or a list that is not blank. The command names rules
and parts that never fired, source fields that no rule reads, unreadable values, and
shared names. Exit status 3: a rule fails for a record.`,
		Example: "  payersync mapping check --coverage\n  payersync mapping check --coverage acme --show-values\n  payersync mapping check --coverage acme --output json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.eachMapping(cmd.Context(), names, func(s *session.Session, c config.Connection) (int, error) {
				return a.coverage(cmd.Context(), s, c, p)
			})
		},
	}
	p.flag(c)
	return c
}

// coverageReport is the output of `mapping check --coverage --output json` for a connection.
type coverageReport struct {
	Connection   string                 `json:"connection"`
	Mapping      string                 `json:"mapping_version"`
	Records      int                    `json:"records"`
	Included     int                    `json:"included"`
	Failed       int                    `json:"failed"`
	Rules        []mapping.RuleCoverage `json:"rules"`
	NeverFired   []string               `json:"never_fired"`
	UnusedFields []string               `json:"unused_fields"`
	admin.Quality
}

func (a *app) coverage(ctx context.Context, s *session.Session, c config.Connection, p privacy) (int, error) {
	conn, err := a.stored(ctx, s, c)
	if err != nil {
		return exitFailed, err
	}
	found, err := admin.Covered(ctx, s.Syncer, conn)
	if err != nil {
		return exitFailed, err
	}
	r := reportCoverage(c.Name, conn.Mapping.Version(), found)
	r.Quality = p.Quality(found)
	if r.Records == 0 {
		a.nothingStored(c)
	}
	switch {
	case a.JSON():
		err = show.JSON(a.Out, r)
	case r.Records > 0:
		a.printCoverage(r, p)
	}
	if r.Failed > 0 {
		return exitAttention, err
	}
	return exitDone, err
}

func reportCoverage(connection, version string, c mapping.CoverageReport) coverageReport {
	return coverageReport{
		Connection: connection, Mapping: version, Records: c.Records, Included: c.Included, Failed: c.Failed,
		Rules: append([]mapping.RuleCoverage{}, c.Rules...), NeverFired: append([]string{}, c.NeverFired...),
		UnusedFields: append([]string{}, c.UnusedFields...),
	}
}

func (a *app) printCoverage(r coverageReport, p privacy) {
	fmt.Fprintf(a.Out, "%s: %s read by the mapping: %d are payers, %d fail, the rest is excluded\n",
		r.Connection, connector.Plural(r.Records, "stored record"), r.Included, r.Failed)
	var rows [][]string
	for _, rule := range r.Rules {
		blank := fmt.Sprint(rule.Blank)
		if rule.Part != "" {
			blank = ""
		}
		name := rule.Path
		if rule.Part != "" {
			name = "  " + rule.Part
		}
		rows = append(rows, []string{name, fmt.Sprint(rule.Line), fmt.Sprint(rule.Fired), blank})
	}
	show.Table(a.Out, []string{"Rule", "Line", "Fired", "Blank"}, rows)
	a.printList("\nNever fired", r.NeverFired)
	a.printList("\nFields that no rule reads", r.UnusedFields)
	if len(r.NotUnderstood)+len(r.Shared) > 0 {
		fmt.Fprintln(a.Out)
	}
	a.printQuality(r.Connection, r.Quality, p)
}

func (a *app) printList(title string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintln(a.Out, title)
	for _, item := range items {
		fmt.Fprintln(a.Out, "  "+show.Visible(item))
	}
}
