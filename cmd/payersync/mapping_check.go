package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/mapping/strict"
	"payersync/state"
)

func (a *app) mappingCheckCmd() *cobra.Command {
	var p privacy
	c := &cobra.Command{
		Use:   "check [CONNECTION]",
		Short: "Is the mapping right? every mistake, its examples, the keys, the service's rules",
		Long: `Loads the mapping, tries its examples, and applies it to every stored record. Keys
must exist and differ, and each result must be a valid customer for the billing
service. The command names the records that break a rule. Notes list by rule the
unreadable countries, phone numbers and the like, and the payers with a shared name or
e-mail address. Values of fewer than five records are only counted, unless you give
--show-values.

Exit status: 2 for a mistake in the mapping, 3 if only records break a rule. Nothing
is sent or stored.`,
		Example: "  payersync mapping check && payersync mapping preview\n  payersync mapping check acme --show-values\n  payersync mapping check acme --output json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.eachMapping(cmd.Context(), names, func(s *session.Session, c config.Connection) (int, error) {
				return a.checkMapping(cmd.Context(), s, c, p)
			})
		},
	}
	p.flag(c)
	return c
}

// mappingReport is the output of `mapping check --output json` for a connection.
type mappingReport struct {
	Connection string           `json:"connection"`
	File       string           `json:"file"`
	Mapping    string           `json:"mapping_version,omitempty"`
	OK         bool             `json:"ok"`
	Mistakes   []mappingMistake `json:"mistakes"` // in the file and its examples
	Records    int              `json:"records"`
	Rules      []ruleReport     `json:"rules"`
	NotSent    int              `json:"not_sent"` // customers with values the service has no place for
	admin.Quality
}

type mappingMistake struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
	Instead string `json:"instead,omitempty"` // the replacement for the line
}

// ruleReport is a rule and the stored records against it.
type ruleReport struct {
	Reason    connector.Reason `json:"reason"`
	Count     int              `json:"count"`
	SourceIDs []string         `json:"source_ids"` // the first of them
	Detail    string           `json:"detail"`
	Next      string           `json:"next"`
}

// mappingRules are the reasons possibly caused by a mapping.
var mappingRules = []connector.Reason{
	connector.ReasonKeyBlank, connector.ReasonKeyShared, connector.ReasonKeyChanged, connector.ReasonMappingFailed,
	connector.ReasonNameMissing, connector.ReasonEmailMalformed, connector.ReasonTooManyAddresses,
	connector.ReasonTwoPrimary, connector.ReasonIllegalText,
}

func (a *app) checkMapping(ctx context.Context, s *session.Session, c config.Connection, priv privacy) (int, error) {
	r := mappingReport{Connection: c.Name, File: c.Mapping, Mistakes: []mappingMistake{}, Rules: []ruleReport{},
		Quality: priv.Quality(mapping.CoverageReport{})}
	conn, err := a.stored(ctx, s, c)
	if err == nil {
		r.Mapping = conn.Mapping.Version()
		err = conn.Mapping.CheckExamples()
	}
	var wrong *strict.Error
	if err != nil && !errors.As(err, &wrong) {
		return exitFailed, err
	}
	if wrong != nil {
		for _, p := range wrong.Problems {
			r.Mistakes = append(r.Mistakes, mappingMistake{p.Line, p.Column, p.Message, p.Instead})
		}
	}
	if conn.Mapping != nil {
		if err := checkRules(ctx, s, conn, &r); err != nil {
			return exitFailed, err
		}
		found, err := admin.Covered(ctx, s.Syncer, conn)
		if err != nil {
			return exitFailed, err
		}
		r.Quality = priv.Quality(found)
		if r.NotSent, err = countCut(ctx, s, conn); err != nil {
			return exitFailed, err
		}
	}
	r.OK = len(r.Mistakes)+len(r.Rules) == 0
	if err := a.printMappingReport(c, r, conn.Mapping, wrong, priv); err != nil {
		return exitFailed, err
	}
	switch {
	case len(r.Mistakes) > 0:
		return exitUsage, nil
	case !r.OK:
		return exitAttention, nil
	}
	return exitDone, nil
}

// countCut counts the stored customers with a country, if it would not be sent.
func countCut(ctx context.Context, s *session.Session, conn syncer.Connection) (cut int, err error) {
	if !bytes.Contains(conn.Mapping.Text(), []byte("country")) {
		return 0, nil
	}
	err = s.Syncer.EachStored(ctx, conn, func(page []state.StoredRecord) error {
		for _, r := range page {
			if r.Record.State != connector.RecordActive || r.Record.Problem != "" {
				continue
			}
			res, err := conn.Mapping.Apply(r.Record)
			if err == nil && res.Included && len(s.Config.Billing.Dialect.NotCarried(res.Customer)) > 0 {
				cut++
			}
		}
		return ctx.Err()
	})
	return cut, err
}

// checkRules applies the mapping to the stored records by the rules of a plan.
func checkRules(ctx context.Context, s *session.Session, conn syncer.Connection, r *mappingReport) error {
	p, err := s.Syncer.Preview(ctx, conn, syncer.PreviewOptions{Limit: 10})
	if err != nil {
		return err
	}
	r.Records = p.Records
	for _, f := range p.Failures {
		if slices.Contains(mappingRules, f.Reason) {
			r.Rules = append(r.Rules, ruleReport{f.Reason, f.Count, f.SourceIDs, f.Detail, f.Reason.Next()})
		}
	}
	return nil
}

func (a *app) printMappingReport(c config.Connection, r mappingReport, m *mapping.Mapping, wrong *strict.Error,
	p privacy) error {
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	switch {
	case wrong != nil && m == nil:
		fmt.Fprintf(a.Out, "FAIL  %s: the mapping has %s\n%v\n", r.Connection, connector.Plural(len(r.Mistakes), "mistake"),
			wrong)
		return nil
	case wrong != nil:
		fmt.Fprintf(a.Out, "ok    %s: the mapping is well formed\nFAIL  %[1]s: its examples differ\n%[2]v\n", r.Connection,
			wrong)
	default:
		fmt.Fprintf(a.Out, "ok    %s: the mapping is well formed\nok    %[1]s: its examples hold\n", r.Connection)
	}
	if r.Records == 0 {
		a.nothingStored(c)
		return nil
	}
	if len(r.Rules) == 0 {
		fmt.Fprintf(a.Out, "ok    %s: keys and rules hold for %s\n", r.Connection,
			connector.Plural(r.Records, "stored record"))
	}
	for _, rule := range r.Rules {
		a.Hanging("FAIL  ", fmt.Sprintf("%s: %s of %d: %s", r.Connection, connector.Plural(rule.Count, "record"), r.Records,
			few(rule.SourceIDs, rule.Count)))
		a.Hanging("        ", show.Visible(rule.Detail))
		a.Hanging("        ", rule.Next)
	}
	if r.NotSent > 0 {
		a.Hanging("note  ", fmt.Sprintf("%s: %s", r.Connection, notCarried(r.NotSent)))
	}
	a.printQuality(r.Connection, r.Quality, p)
	return nil
}
