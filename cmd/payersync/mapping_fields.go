package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/mapping"
)

func (a *app) mappingFieldsCmd() *cobra.Command {
	var p privacy
	c := &cobra.Command{
		Use:   "fields [CONNECTION]",
		Short: "List the fields of a source: how to write them, how full they are, examples",
		Long: `Lists the fields that a mapping may use, and then the functions. For each field it
shows the spelling in an expression, the number of stored records with a value, and
the most common values. Values that may belong to one person are shortened. Values of
many records are shown in full, because conditions use them.`,
		Example: "  payersync mapping fields\n  payersync mapping fields acme --show-values",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.eachMapping(cmd.Context(), names, func(s *session.Session, c config.Connection) (int, error) {
				return exitDone, a.fields(cmd.Context(), s, c, p)
			})
		},
	}
	p.flag(c)
	return c
}

// fieldsReport is the output of `mapping fields --output json` for a connection.
type fieldsReport struct {
	Connection string              `json:"connection"`
	Records    int                 `json:"records"`
	Fields     []admin.SourceField `json:"fields"`
	Functions  []string            `json:"functions"` // how each is called
}

func (a *app) fields(ctx context.Context, s *session.Session, c config.Connection, p privacy) error {
	conn, err := a.declared(ctx, s, c)
	if err != nil {
		return err
	}
	profiles, err := s.Syncer.ProfileFields(ctx, conn)
	if err != nil {
		return err
	}
	r := fieldsReport{Connection: c.Name, Fields: p.SourceFields(profiles), Functions: mapping.Functions()}
	if len(profiles) > 0 {
		r.Records = profiles[0].Records
	}
	if r.Records == 0 {
		a.nothingStored(c)
	}
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	a.printFields(r)
	return nil
}

func (a *app) printFields(r fieldsReport) {
	fmt.Fprintf(a.Out, "%s: %s\n", r.Connection, connector.Plural(r.Records, "stored record"))
	var rows [][]string
	for _, f := range r.Fields {
		examples := connector.Map(f.Examples, func(e syncer.FieldExample) string { return e.Value })
		rows = append(rows, []string{f.Written, string(f.Type), percent(f.Filled, f.Records), strings.Join(examples, " · "),
			f.Description})
	}
	show.Table(a.Out, []string{"Written", "Type", "Filled", "Values", "Meaning"}, rows)
	fmt.Fprintln(a.Out, "\nFunctions; mapping/README.md explains them")
	for _, line := range wrapped(r.Functions, 100) {
		fmt.Fprintln(a.Out, "  "+line)
	}
}

// wrapped joins words with dots into lines of about so many letters.
func wrapped(words []string, width int) (lines []string) {
	line := ""
	for _, word := range words {
		if line != "" && len(line)+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " · "
		}
		line += word
	}
	return append(lines, line)
}
