package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/accounting/quickbooks"
	"payersync/connector/accounting/xero"
	"payersync/connector/admin"
	"payersync/connector/reconcile"
	"payersync/connector/syncer"
	"payersync/mapping"
)

func (a *app) mappingCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "mapping",
		Short: "Edit a mapping without fear: fields, check, preview, versions",
		Long: `Commands to write and check mapping.yaml. They use the records stored by the last
runs, and send nothing. They ask no other system. They look up columns in the file, or
use the columns that the last run met on the database server.`,
		Example: "  payersync mapping fields\n  payersync mapping check && payersync mapping preview",
	}
	return subcommands(c, also(a.mappingFieldsCmd(), "schema", a.mappingSchemaCmd()),
		also(a.mappingCheckCmd(), "coverage", a.mappingCoverageCmd()), a.mappingPreviewCmd(),
		also(also(a.mappingHistoryCmd(), "show", a.mappingShowCmd()), "diff", a.mappingDiffCmd()), a.mappingRollbackCmd())
}

// mappingSession opens the resources of the mapping commands: the ledger, and a syncer without the billing
// service.
func (a *app) mappingSession(ctx context.Context) (*session.Session, error) {
	s, err := a.openLedger(ctx)
	if err != nil {
		return nil, err
	}
	s.Syncer = &syncer.Syncer{Ledger: s.Ledger,
		Reconciler: &reconcile.Reconciler{Ledger: s.Ledger, Lookup: s.Config.LookupLimits()},
		Settings:   s.Config.RunSettings()}
	return s, nil
}

// fieldsOf returns the fields of a source with the same fields for every customer; none for other sources.
func fieldsOf(s *config.Source) []connector.Field {
	if p := s.ProfileOf(); p != nil {
		return p.Fields()
	}
	if fields, known := declaredFields[s.Kind]; known {
		return fields()
	}
	return nil
}

// declaredFields are the fields of systems with a package of their own and the same fields for every customer.
var declaredFields = map[string]func() []connector.Field{config.KindXero: xero.Fields,
	config.KindQuickBooks: quickbooks.Fields}

// declared describes a connection's source for its stored records, without a request to a system: the ledger
// has its identity and the columns of the last run. It examines a file; if the file is gone, those columns
// serve as well.
func (a *app) declared(ctx context.Context, s *session.Session, c config.Connection) (syncer.Connection, error) {
	info, err := s.Ledger.SourceInfo(ctx, c.Name)
	if err != nil {
		return syncer.Connection{}, err
	}
	info.Organisation = c.Organisation
	known := syncer.Connection{Name: c.Name, Info: info, TwoWay: syncer.TwoWay(c.TwoWay), Native: c.Native()}
	if fields := fieldsOf(&c.Source); fields != nil {
		known.Info.Kind, known.Info.Fields = c.Source.Name(), fields
		return known, nil
	}
	met := info.Kind == c.Source.Kind && len(info.Fields) > 0
	if met && c.Source.OnServer() {
		return known, nil
	}
	if c.Source.OnServer() { // it asks after all, and needs its password
		whole, err := a.load()
		if err != nil {
			return known, err
		}
		if c, err = whole.One(c.Name); err != nil {
			return known, err
		}
	}
	conn, err := s.Source(ctx, c)
	if err == nil || !met || ctx.Err() != nil {
		return conn, err
	}
	a.Print("%s: cannot look up its columns, so those of the last run are used: %v", c.Name, err)
	return known, nil
}

// stored is declared with the connection's mapping.
func (a *app) stored(ctx context.Context, s *session.Session, c config.Connection) (syncer.Connection, error) {
	conn, err := a.declared(ctx, s, c)
	if err != nil {
		return conn, err
	}
	if conn.Mapping, err = session.LoadMapping(c.Mapping, conn.Info, s.Config.Billing.Dialect.Dialect); err != nil &&
		conn.Source == nil && c.Source.OnServer() {
		a.Print("%s: the columns are those of the last run; payersync plan %[1]s looks them up again", c.Name)
	}
	return conn, err
}

// mappingsOf returns the pages' service for the mappings of a session.
func (a *app) mappingsOf(s *session.Session, kept *admin.Tallies) *admin.Mappings {
	m := &admin.Mappings{
		Ledger: s.Ledger, Read: session.ReadMapping, Tally: kept,
		Syncer: &syncer.Syncer{Ledger: s.Ledger,
			Reconciler: &reconcile.Reconciler{Ledger: s.Ledger, Lookup: s.Config.LookupLimits()},
			Settings:   s.Config.RunSettings()},
		Source: func(ctx context.Context, connection string) (syncer.Connection, error) {
			c, err := s.Config.One(connection)
			if err != nil {
				return syncer.Connection{}, err
			}
			return a.declared(ctx, s, c)
		},
		Parse: func(name string, text []byte, info connector.SourceInfo) (*mapping.Mapping, error) {
			return session.ParseMapping(name, text, info, s.Config.Billing.Dialect.Dialect)
		},
	}
	if s.Config.Node != nil {
		m.Elsewhere = errors.New("the database keeps the account's files, and payersync accounts apply changes them")
	}
	for _, c := range s.Config.Connections {
		m.Files = append(m.Files, admin.MappingFile{Connection: c.Name, Path: c.Mapping})
	}
	return m
}

// storedAs is stored by the connection's name.
func (a *app) storedAs(ctx context.Context, s *session.Session, name string) (syncer.Connection, error) {
	configured, err := s.Config.Named([]string{name})
	if err != nil {
		return syncer.Connection{}, err
	}
	return a.stored(ctx, s, configured[0])
}

// eachMapping hands the named connection to do, or all of them.
func (a *app) eachMapping(ctx context.Context, names []string,
	do func(*session.Session, config.Connection) (int, error)) error {
	s, err := a.mappingSession(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return a.eachConnection(ctx, s, names, func(c config.Connection) (int, error) {
		code, err := do(s, c)
		if err != nil {
			return exitCode(err), err
		}
		return code, nil
	})
}

// nothingStored says how to get stored records.
func (a *app) nothingStored(c config.Connection) {
	a.Print("%s: no records are stored yet; run payersync plan %s first, it sends nothing", c.Name, c.Name)
}

// privacy says how personal values are shown in a terminal.
type privacy struct{ admin.Privacy }

func (p *privacy) flag(c *cobra.Command) {
	p.Clean = show.Visible
	c.Flags().BoolVar(&p.Whole, "show-values", false, "show personal values whole, not their first letters")
}

// change returns a field's change in a line: what it becomes, or both values,
// with quotes around what is whole.
func (p privacy) change(d connector.FieldChange) string {
	if d.From == "" {
		return fmt.Sprintf("%s: %s", d.Path, p.quoted(d.Path, d.To))
	}
	return fmt.Sprintf("%s: %s → %s", d.Path, p.quoted(d.Path, d.From), p.quoted(d.Path, d.To))
}

func (p privacy) quoted(path, value string) string {
	text := p.Field(path, value)
	switch {
	case value == "":
		return "blank"
	case p.Whole && text != admin.NotShown:
		return fmt.Sprintf("%q", text)
	}
	return text
}

// few names the first ids of several.
func few(ids []string, of int) string {
	const most = 5
	shown := connector.Map(ids[:min(most, len(ids))], show.Visible)
	text := strings.Join(shown, ", ")
	if of > len(shown) {
		text += fmt.Sprintf(" and %d more", of-len(shown))
	}
	return text
}

// percent returns n of total as a whole percentage. It returns 0 and 100 only if they are exact.
func percent(n, total int) string {
	switch {
	case total == 0:
		return "–"
	case n > 0 && n*100 < total:
		return "<1%"
	}
	return fmt.Sprintf("%d%%", n*100/total)
}
