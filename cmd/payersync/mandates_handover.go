package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
)

// spreadsheet is a program for opening a file, with its separator of columns.
type spreadsheet string

const (
	anySheet spreadsheet = "any"
	excelDE  spreadsheet = "excel-de" // and wherever the decimal point is a comma
)

var spreadsheets = []spreadsheet{anySheet, excelDE}

func (s spreadsheet) separator() rune {
	if s == excelDE {
		return ';'
	}
	return ','
}

func (a *app) mandatesHandoverCmd() *cobra.Command {
	var h admin.Handover
	var older, sheet string
	c := &cobra.Command{
		Use:   "handover",
		Short: "Write a list of unsigned payers with their signing links: for mail merge, the post, the telephone",
		Long: `Writes a CSV file with a line for every payer with an unsigned mandate and a known
signing link. Each line has the recipient, the signing link, its date, the number of
times sent, and the next step. It omits excluded records and uncertain customers. With
--lost it lists instead the payers with a lost signing link.

Anybody with a signing link can sign. The audit log keeps your name, the payers and
their number. Note the sent ones with payersync mandates handover --sent, so that no payer is
invited twice. Cells that look like a formula get a leading apostrophe; --output json
writes the plain values.`,
		Example: "  payersync mandates handover > links.csv\n  payersync mandates handover --not-sent --for excel-de > links.csv\n  payersync mandates handover --older 14d --connection acme > call.csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runMandatesHandover(cmd.Context(), h, older, sheet)
		},
	}
	f := c.Flags()
	f.StringVar(&h.Connection, "connection", "", "only this connection")
	f.BoolVar(&h.NotSent, "not-sent", false, "only payers without a sent signing link")
	f.StringVar(&older, "older", "", "only payers unsigned for so long, or since a `DATE`: 14d, 2026-11-20")
	f.BoolVar(&h.Lost, "lost", false, "payers with a lost signing link, and the next step")
	f.StringVar(&sheet, "for", string(anySheet),
		"the spreadsheet program: "+joined(spreadsheets)+"; excel-de expects semicolons")
	f.IntVar(&h.Limit, "limit", 0, "at most so many; 0 for all")
	return asCSV(c)
}

func (a *app) runMandatesHandover(ctx context.Context, h admin.Handover, older, sheet string) error {
	if h.NotSent && older != "" || h.Lost && (h.NotSent || older != "") {
		return usage.Errorf("--not-sent, --older and --lost are three lists; name one of them")
	}
	since, err := moment("older", older, a.now())
	if err := errors.Join(err, oneOf("for", sheet, spreadsheets...)); err != nil {
		return err
	}
	if older != "" {
		h.Older = a.now().Sub(since)
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		return a.handOver(ctx, s, h, spreadsheet(sheet))
	})
}

func (a *app) handOver(ctx context.Context, s *session.Session, h admin.Handover, sheet spreadsheet) error {
	if err := s.Config.Has(h.Connection); err != nil {
		return err
	}
	h.Valid = s.Config.Billing.LinkValid.Length()
	file, err := admin.MakeHandover(ctx, s.Ledger, h, actor())
	if err != nil {
		return err
	}
	defer a.printMore(file.More, h.Limit)
	if a.JSON() {
		return file.Each(ctx, func(r admin.HandoverRow) error { return show.JSON(a.Out, r) })
	}
	out, err := show.NewMarkedSheet(a.Out, sheet.separator())
	if err == nil {
		err = out.Row(admin.HandoverHeader)
	}
	if err != nil {
		return err
	}
	written := 0
	if err := file.Each(ctx, func(r admin.HandoverRow) error { written++; return out.Row(r.Cells()) }); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	switch {
	case written == 0:
		a.Print("Nobody is on the list. payersync report shows the state of all payers.")
	case h.Lost:
		a.Print("The signing links of %s are lost. payersync mandates links --lost fetches them again.",
			connector.Plural(written, "payer"))
	default:
		a.Print("%s. When they are sent: payersync mandates handover --sent FILE --on DATE", connector.Plural(written, "link"))
	}
	return nil
}

func (a *app) mandatesSentCmd() *cobra.Command {
	var on, reason string
	c := &cobra.Command{
		Use:   "sent FILE|ID…",
		Short: "Note that you sent signing links yourself, so that no payer is invited twice",
		Long: `Notes that you sent the signing links of some payers on a day, by post, by mail merge
or by telephone. FILE is the file of payersync mandates handover, or any CSV with a
column number, and a column date if the days differ. The separator is a comma or a
semicolon. ID is a number, source id, billing id or mandate id.

The command notes each one only once. It reports a row with its file and line if it
names no payer, or if its day is in the future or before the mandate. It still notes
the other rows. The audit log keeps your name and the reason.`,
		Example: "  payersync mandates handover --sent links.csv --on 2026-11-20\n  payersync mandates handover --sent HB-017 HB-018 --on 2026-11-20 --reason 'by post'",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runMandatesSent(cmd.Context(), args, on, reason)
		},
	}
	c.Flags().StringVar(&on, "on", "", "the `DATE` of sending, for rows without a date of their own")
	c.Flags().StringVar(&reason, "reason", "", "how or why, for the audit log")
	return c
}

func (a *app) runMandatesSent(ctx context.Context, args []string, on, reason string) error {
	var day time.Time
	if on != "" {
		var err error
		if day, err = time.Parse(time.DateOnly, on); err != nil {
			return usage.Errorf("--on is no date: %q; write it as 2026-11-20", on)
		}
	}
	sendings, problems, err := sendingsOf(args, day)
	if err != nil {
		return err
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		return a.noteSent(ctx, s, sendings, problems, reason)
	})
}

// sendingsOf returns the hand-overs in the arguments of mandates sent: a file, or payers.
func sendingsOf(args []string, on time.Time) (sendings []admin.Sending, problems []error, err error) {
	if len(args) == 1 {
		f, err := os.Open(args[0])
		switch {
		case err == nil:
			defer func() { err = errors.Join(err, f.Close()) }()
			return admin.ReadSendings(filepath.Base(args[0]), f, on)
		case !errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(args[0], ".csv") ||
			strings.ContainsRune(args[0], filepath.Separator):
			return nil, nil, fmt.Errorf("cannot read %s: %w; name the file of payersync mandates handover, or payers by their numbers", show.Visible(args[0]), errors.Unwrap(err))
		}
	}
	if on.IsZero() {
		return nil, nil, usage.Errorf("give the day of sending: --on 2026-11-20")
	}
	sendings = append(sendings,
		connector.Map(args, func(id string) admin.Sending { return admin.Sending{Number: id, On: on} })...)
	return sendings, nil, nil
}

func (a *app) noteSent(ctx context.Context, s *session.Session, sendings []admin.Sending, problems []error,
	reason string) error {
	r, err := admin.NoteSent(ctx, s.Ledger, sendings, actor(), reason)
	if err != nil {
		return err
	}
	r.Errors, r.Failed = append(problems, r.Errors...), r.Failed+len(problems)
	for _, err := range r.Errors {
		a.report(errors.New(show.Visible(errorText(err))))
	}
	a.Print("%s noted as sent; %d were noted before, and %d could not be.", connector.Plural(r.Noted, "mandate"), r.Before,
		r.Failed)
	if err := a.Result(r); err != nil {
		return err
	}
	if r.Failed > 0 {
		return exitError(exitAttention)
	}
	return nil
}
