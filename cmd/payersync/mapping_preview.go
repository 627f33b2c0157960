package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

// previewArgs are the flags of mapping preview.
type previewArgs struct {
	privacy
	file     string
	limit    int
	sourceID string
}

func (a *app) mappingPreviewCmd() *cobra.Command {
	var p previewArgs
	c := &cobra.Command{
		Use:   "preview [CONNECTION]",
		Short: "Show the effects of the mapping, per customer and in total; nothing is sent",
		Long: `Applies the mapping, or the one in --file, to the stored records, and compares the
results with the last applied values of each customer. It counts changes, changed and
emptied fields, and newly excluded or included records. It also says whether the
limits would stop the next run, and how many payers would not be asked for a mandate.
It reads only the ledger. Personal values are shortened, unless you give --show-values.`,
		Example: "  payersync mapping preview\n  payersync mapping preview acme --file mapping.new.yaml --limit 3\n  payersync mapping preview --source-id C0001 --show-values",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.runMappingPreview(cmd.Context(), names, p)
		},
	}
	c.Flags().StringVar(&p.file, "file", "", "another mapping `FILE` than the configured one")
	c.Flags().IntVar(&p.limit, "limit", 10, "customers and groups told in detail; 0 for all")
	c.Flags().StringVar(&p.sourceID, "source-id", "", "tell of this record in detail, and of no other")
	p.flag(c)
	return c
}

func (a *app) runMappingPreview(ctx context.Context, names []string, p previewArgs) error {
	return a.eachMapping(ctx, names, func(s *session.Session, c config.Connection) (int, error) {
		if p.file != "" && len(names) == 0 && len(s.Config.Connections) > 1 {
			return exitUsage, usage.Errorf("--file is for one connection; name it, as in payersync mapping preview %s --file %s", c.Name, p.file)
		}
		return exitDone, a.preview(ctx, s, c, p)
	})
}

func (a *app) preview(ctx context.Context, s *session.Session, c config.Connection, args previewArgs) error {
	if args.file != "" {
		c.Mapping = args.file
	}
	conn, err := a.stored(ctx, s, c)
	if err != nil {
		return err
	}
	p, err := s.Syncer.Preview(ctx, conn, syncer.PreviewOptions{Limit: args.limit, SourceID: args.sourceID})
	if err != nil {
		return err
	}
	if p.Records == 0 {
		a.nothingStored(c)
	}
	if args.sourceID != "" && len(p.Customers) == 0 && p.Records > 0 {
		return fmt.Errorf("cannot preview %q: no stored record of %s has this source id; payersync payers list shows them",
			args.sourceID, c.Name)
	}
	unasked := admin.ExplainUnasked(p.NotAsked, map[string]string{p.Mapping: string(conn.Mapping.Text())},
		func(string) string { return c.Mapping })
	if a.JSON() {
		return show.JSON(a.Out, struct {
			syncer.Preview
			NotAsked []admin.NotAsked `json:"not_asked"`
		}{args.Preview(p), unasked})
	}
	return a.printPreview(p, unasked, args)
}

func (a *app) printPreview(p syncer.Preview, unasked []admin.NotAsked, args previewArgs) error {
	fmt.Fprintf(a.Out, "%s: %s\n%s\n", p.Connection, blastRadius(p), verdictOf(p))
	if args.sourceID == "" {
		if err := connector.Each(unasked, a.printUnasked); err != nil {
			return err
		}
		a.printFieldCounts(p.Fields)
		a.printGroups(p.Groups, args.privacy)
		a.printBlanked(p.Blanked, args.privacy)
		printNamed(a.Out, "Become payers", p.Included)
		printNamed(a.Out, "Excluded from now on; their customers stay in the billing service", p.Dropped)
		printNamed(a.Out, "No longer on hold", p.Mended)
		printNamed(a.Out, "The key would change, so linked ones go on hold", p.KeyChanges)
		a.printFailures(p.Failures)
	}
	if len(p.Customers) > 0 {
		fmt.Fprintln(a.Out, "\nRecord by record")
	}
	for _, c := range p.Customers {
		a.printCustomer(c, args.privacy)
	}
	return nil
}

// blastRadius sums up a mapping's changes in one line.
func blastRadius(p syncer.Preview) string {
	fresh, emptied := 0, 0
	for _, f := range p.Failures {
		fresh += f.New
	}
	for _, f := range p.Fields {
		emptied += f.Emptied
	}
	parts := []string{fmt.Sprintf("%d of %s would change", p.Updates, connector.Plural(p.Linked, "linked customer"))}
	if emptied > 0 {
		parts[0] += fmt.Sprintf(" (%s emptied)", connector.Plural(emptied, "field"))
	}
	for _, part := range []struct {
		n    int
		what string
	}{
		{p.Creates, "would be created"}, {p.Adopts, "would be linked"}, {p.Links, "would be asked to sign a mandate"},
		{p.Dropped.Count, "payers newly excluded"},
		{fresh, "newly on hold"}, {p.KeyChanges.Count, "with another key"}, {p.InFlight, "wait for an answer first"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return fmt.Sprintf("%s; %s looked at", strings.Join(parts, ", "), connector.Plural(p.Records, "stored record"))
}

// verdictOf describes the result of a sync with the mapping.
func verdictOf(p syncer.Preview) string {
	if len(p.Stops) > 0 {
		stopped := fmt.Sprintf("No new customer would be created: %s",
			withSteps(state.StopsText(p.Stops), state.StepsOfStops(p.Stops)))
		if p.Stops = nil; p.Adopts+p.Updates == 0 && p.Limits == "" {
			return stopped
		}
		return stopped + "\nOf the others: " + verdictOf(p)
	}
	switch {
	case p.Records == 0:
		return "No records are stored yet, so the changes of the next run are unknown."
	case p.Limits != "":
		return "The limits would stop it until somebody approves: " + p.Limits
	case p.Creates+p.Adopts+p.Updates+p.Links == 0:
		return "The next sync would send nothing."
	}
	return "It is within the limits: the next sync would send it without asking."
}

func (a *app) printFieldCounts(fields []syncer.FieldCount) {
	if len(fields) == 0 {
		return
	}
	fmt.Fprintln(a.Out, "\nFields of customers that exist")
	var rows [][]string
	for _, f := range fields {
		rows = append(rows, []string{f.Path, fmt.Sprint(f.Changed), fmt.Sprint(f.Emptied)})
	}
	show.Table(a.Out, []string{"Field", "Change", "Of those emptied"}, rows)
}

func (a *app) printGroups(groups []syncer.ChangeGroup, p privacy) {
	if len(groups) == 0 {
		return
	}
	fmt.Fprintln(a.Out, "\nWhat changes alike, the largest groups first")
	for _, g := range groups {
		what := connector.Map(g.Changes, func(c syncer.FieldManner) string { return fmt.Sprintf("%s %s", c.Path, c.Manner) })
		fmt.Fprintf(a.Out, "  %s: %s\n", connector.Plural(g.Count, "customer"), strings.Join(what, ", "))
		for _, d := range g.Example {
			fmt.Fprintf(a.Out, "      %s  %s\n", show.Visible(g.SourceIDs[0]), p.change(d))
		}
	}
}

func (a *app) printBlanked(blanked []syncer.BlankedField, p privacy) {
	if len(blanked) == 0 {
		return
	}
	fmt.Fprintln(a.Out, "\nThe first fields that would be emptied")
	for _, b := range blanked {
		fmt.Fprintf(a.Out, "  %s  %s: %s\n", show.Visible(b.SourceID), b.Path, p.quoted(b.Path, b.From))
	}
}

func printNamed(w io.Writer, title string, n syncer.Named) {
	if n.Count == 0 {
		return
	}
	linked := ""
	if n.Linked > 0 {
		linked = fmt.Sprintf(" (%d linked)", n.Linked)
	}
	fmt.Fprintf(w, "\n%s: %s%s: %s\n", title, connector.Plural(n.Count, "record"), linked, few(n.SourceIDs, n.Count))
}

func (a *app) printFailures(failures []syncer.Failure) {
	if len(failures) == 0 {
		return
	}
	fmt.Fprintln(a.Out, "\nOn hold, by reason")
	for _, f := range failures {
		who := "as before: " + few(f.SourceIDs, f.Count)
		if f.New > 0 {
			who = fmt.Sprintf("%d of them new: %s", f.New, few(f.SourceIDs, f.New))
		}
		fmt.Fprintf(a.Out, "  %s, %s\n      %s %s\n", connector.Plural(f.Count, "record"), who, show.Visible(f.Detail),
			f.Reason.Next())
	}
}

func (a *app) printCustomer(c syncer.CustomerPreview, p privacy) {
	what := string(c.Action)
	switch {
	case c.Verdict == state.Held:
		what = "hold"
	case c.Verdict == state.Excluded:
		what = "leave"
	case what == "" && c.Link:
		what = string(connector.ActionLink)
	case what == "":
		what = "same"
	}
	fmt.Fprintf(a.Out, "  %s %s", a.action(what), show.Visible(c.SourceID))
	if c.Key.Value != "" {
		fmt.Fprintf(a.Out, "  (%s)", show.Visible(c.Key.String()))
	}
	fmt.Fprintln(a.Out)
	for _, d := range c.Diff {
		fmt.Fprintf(a.Out, "            %s\n", p.change(d))
	}
	if c.Reason != "" {
		fmt.Fprintf(a.Out, "            %s\n", show.Visible(c.Detail))
	}
}
