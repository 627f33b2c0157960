package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/billing"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) mandatesCmd() *cobra.Command {
	c := &cobra.Command{
		Use:     "mandates",
		Short:   "List, show, ask for, hand over and cancel direct debit mandates",
		Example: "  payersync mandates list --state CREATED --links\n  payersync mandates request C0001 --reason 'new bank account'",
	}
	return subcommands(c, also(a.mandatesListCmd(), "export", a.mandatesExportCmd()), a.mandatesShowCmd(),
		a.mandatesRequestCmd(), a.mandatesLinksCmd(), a.mandatesCancelCmd(), a.mandatesReinstateCmd(),
		also(a.mandatesHandoverCmd(), "sent", a.mandatesSentCmd()))
}

// mandatesOf returns the acts on mandates.
func mandatesOf(s *session.Session) *admin.Mandates {
	b := s.Config.Billing
	return &admin.Mandates{Ledger: s.Ledger, Syncer: s.Syncer, Billing: s.Billing, WhenCreated: b.Dialect.LinkWhenCreated,
		Valid: b.LinkValid.Length()}
}

// mandateReport is a mandate as `mandates list` prints it; its link only on demand.
type mandateReport struct {
	state.MandateRow
	Link    string `json:"link,omitempty"`
	Expired bool   `json:"link_expired,omitempty"` // so it is not shown
}

func (a *app) mandatesListCmd() *cobra.Command {
	var f state.Filter
	var links bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List mandates; with --links the signing links of unsigned ones",
		Long: `Lists the mandates that payersync follows. With a signing link anybody can sign.
--links shows the signing links of unsigned mandates, and the audit log keeps your
name. payersync never shows a replaced signing link, or an expired one
(billing.link_valid).`,
		Example: "  payersync mandates list --state CREATED --links --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Limit = a.limitOf(cmd)
			return a.withMandates(cmd.Context(), f, links, func(s *session.Session, each mandatesIn) error {
				return a.printMandates(cmd.Context(), s, each, links)
			})
		},
	}
	mandateFlags(c, &f, &links)
	limitFlag(c)
	return asCSV(c)
}

func mandateFlags(c *cobra.Command, f *state.Filter, links *bool) {
	c.Flags().StringVar(&f.Connection, "connection", "", "only this connection")
	c.Flags().StringVar(&f.State, "state", "", "only this status, for example CREATED")
	c.Flags().BoolVar(links, "links", false, "with the signing links; the audit log keeps your name")
}

// mandatesIn hands the mandates of a list over, some at a time.
type mandatesIn func(do func(some []mandateReport) error) error

// withMandates passes on the mandates to show, with their links if they were asked for and the asking is in
// the audit log, and says whether there are more.
func (a *app) withMandates(ctx context.Context, f state.Filter, links bool,
	do func(s *session.Session, each mandatesIn) error) error {
	open := a.openReport
	if links {
		open = a.openLedger
	}
	s, err := open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Config.Has(f.Connection); err != nil {
		return err
	}
	if f.State, err = parseStatus(ctx, s.Ledger, "state", f.State); err != nil {
		return err
	}
	cut := false
	err = do(s, func(do func(some []mandateReport) error) error {
		return s.Ledger.EachMandates(ctx, f, func(n int, more bool) error {
			cut = more
			if !links {
				return nil
			}
			return admin.Audit(ctx, s.Ledger, state.Entry{Actor: actor(), Action: "show signing links", Subject: connector.Plural(n, "mandate")})
		}, func(rows []state.MandateRow) error {
			some, err := reportMandates(ctx, s, rows, links)
			if err != nil {
				return err
			}
			return do(some)
		})
	})
	a.printMore(cut, f.Limit)
	return err
}

// reportMandates returns mandates as they are printed.
func reportMandates(ctx context.Context, s *session.Session, rows []state.MandateRow, links bool) (out []mandateReport,
	err error) {
	out = make([]mandateReport, len(rows))
	for i, r := range rows {
		out[i] = mandateReport{MandateRow: r}
		if !links || r.Status != string(connector.MandateCreated) {
			continue
		}
		if out[i].Expired, err = mandatesOf(s).Expired(ctx, r.MandateID); err != nil {
			return nil, err
		}
		if out[i].Expired {
			continue
		}
		if out[i].Link, err = s.Ledger.SigningLink(ctx, r.MandateID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// parseStatus returns the mandate status of a flag, spelt as the service spells it. It accepts the documented
// statuses, "none", and every undocumented status of a mandate in the ledger.
func parseStatus(ctx context.Context, ledger *state.Ledger, flag, value string) (string, error) {
	if value == "" {
		return "", nil
	}
	for _, known := range append(slices.Clone(connector.MandateStatuses), state.NoMandate) {
		if strings.EqualFold(value, string(known)) {
			return string(known), nil
		}
	}
	undocumented, err := ledger.UndocumentedStatuses(ctx)
	if err != nil || slices.Contains(undocumented, value) {
		return value, err
	}
	valid := connector.Map(connector.MandateStatuses,
		func(s connector.MandateStatus) string { return fmt.Sprintf("%s (%s)", s, s.Label()) })
	return "", usage.Errorf("--%s %q is no mandate status; use %s", flag, value,
		strings.Join(append(valid, append(undocumented, state.NoMandate)...), ", "))
}

// printMandates prints the mandates of a list; tables have the names of the records.
func (a *app) printMandates(ctx context.Context, s *session.Session, each mandatesIn, links bool) error {
	if a.JSON() || a.CSV() {
		list := mandateListing(nil, links).On(a.Console)
		if err := each(list.Write); err != nil {
			return err
		}
		return list.End()
	}
	var mandates []mandateReport
	var records []state.RecordID
	if err := each(func(some []mandateReport) error {
		for _, m := range some {
			if mandates = append(mandates, m); m.Connection != nil {
				records = append(records, m.record())
			}
		}
		return nil
	}); err != nil {
		return err
	}
	known, err := a.labelsOf(ctx, s, records)
	if err != nil {
		return err
	}
	return mandateListing(known, links).On(a.Console).Print(mandates)
}

// record returns the record of a mandate; the zero value without one.
func (m mandateReport) record() state.RecordID {
	return state.RecordID{Connection: show.Value(m.Connection), SourceID: show.Value(m.SourceID)}
}

func mandateListing(known map[state.RecordID]connector.Label, links bool) *show.Listing[mandateReport] {
	type row = mandateReport
	l := &show.Listing[row]{Columns: []show.Column[row]{
		{Name: "mandate_id", Title: "Mandate", Cell: func(m row) string { return m.MandateID }},
		{Name: "billing_id", Cell: func(m row) string { return m.BillingID }},
		{Name: "connection", Title: "Connection", Cell: func(m row) string { return show.Value(m.Connection) }},
		{Name: "source_id", Title: "Record", Cell: func(m row) string { return show.Value(m.SourceID) }},
		{Title: "Name", Cell: func(m row) string { return known[m.record()].Name }, Sparse: true},
		{Name: "status", Title: "Status", Cell: func(m row) string { return connector.MandateStatus(m.Status).Label() },
			Stored: func(m row) string { return m.Status }},
		show.StoredMoment("status_since", "Since", func(m row) string { return m.StatusSince }),
		show.StoredMoment("first_seen_at", "", func(m row) string { return m.FirstSeenAt }),
		show.StoredMoment("last_seen_at", "", func(m row) string { return m.LastSeenAt }),
	}}
	if links {
		l.Columns = append(l.Columns, show.Column[row]{Name: "link", Title: "Signing link", Cell: func(m row) string {
			if m.Expired {
				return "expired: payersync mandates links --lost"
			}
			return m.Link
		}, Stored: func(m row) string { return m.Link }})
	}
	return l
}

// mandatesExportCmd is an earlier way to ask for the list as CSV.
func (a *app) mandatesExportCmd() *cobra.Command {
	c := a.mandatesListCmd()
	c.Use, c.Short = "export", "Write the mandates as CSV"
	c.Long = `Writes the mandates as CSV for a spreadsheet. Cells that look like a formula get a
leading apostrophe, so do not read the file back in: --output json writes the plain
values.`
	c.Example = "  payersync mandates list --export > mandates.csv"
	list := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !a.JSON() {
			a.Output = "csv"
		}
		return list(cmd, args)
	}
	return c
}

func (a *app) mandatesRequestCmd() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "request ID",
		Short: "Ask for a signing link for one payer, or fetch it again",
		Long: `Asks the billing service for a signing link for one payer, and prints it. Name the
payer by source id, key value, billing id or mandate id. After a cancellation you must
give a reason: a new mandate needs the payer's new consent. The audit log keeps your
name.`,
		Example: "  payersync mandates request C0001\n  payersync mandates request C0001 --reason 'changed bank'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPayer(cmd.Context(), args[0], func(s *session.Session, p state.Payer) error {
				return a.requestLink(cmd.Context(), s, p, reason)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log; needed after a cancellation")
	return c
}

func (a *app) requestLink(ctx context.Context, s *session.Session, p state.Payer, reason string) error {
	out, sure, err := a.act(ctx, s,
		admin.Decision{Act: connector.ActRequest, Record: state.RecordID{Connection: p.Connection, SourceID: p.SourceID}},
		asksInWalk, reason, false)
	m := out.Mandate
	switch {
	case errors.Is(err, syncer.ErrReasonNeeded):
		return usage.Errorf("the payer's mandate was cancelled; a new one takes a reason: --reason 'changed bank'")
	case err != nil:
		return fmt.Errorf("cannot ask for a signing link for %s: %w", p.SourceID, err)
	case !sure:
		return nil
	}
	return a.Answer(map[string]string{"mandate_id": m.ID, "status": string(m.Status), "link": m.URL},
		"Mandate %s is %s. Signing link:\n%s\n", show.Visible(m.ID), show.Visible(m.Status.Label()), show.Visible(m.URL))
}

func (a *app) mandatesCancelCmd() *cobra.Command {
	var reason string
	var yes bool
	c := &cobra.Command{
		Use:   "cancel ID --reason TEXT",
		Short: "Cancel one payer's mandate",
		Long: `Cancels the current mandate of one payer. Name the payer by source id, key value,
billing id or mandate id. Nothing can be debited under the mandate afterwards. At a
terminal the command asks first, and --yes answers. The audit log keeps your name and
the reason.`,
		Example: "  payersync mandates cancel C0001 --reason 'the payer asked us to'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runMandatesCancel(cmd.Context(), args, reason, yes)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func (a *app) runMandatesCancel(ctx context.Context, args []string, reason string, yes bool) error {
	if reason == "" {
		return usage.Errorf("cancelling a mandate takes a reason: --reason 'the payer asked us to'")
	}
	return a.withPayer(ctx, args[0], func(s *session.Session, p state.Payer) error {
		_, sure, err := a.act(ctx, s,
			admin.Decision{Act: connector.ActCancel, Record: state.RecordID{Connection: p.Connection, SourceID: p.SourceID}},
			asksAtTerminal, reason, yes)
		switch {
		case errors.Is(err, admin.ErrNoMandate):
			return fmt.Errorf("cannot cancel: record %s has no mandate; payersync mandates list shows all mandates",
				p.SourceID)
		case err != nil:
			return fmt.Errorf("cannot cancel the mandate of %s: %w", p.SourceID, err)
		case !sure:
			return nil
		}
		a.Print("The mandate %s is cancelled.", show.Visible(p.MandateID))
		return a.Result(map[string]string{"source_id": p.SourceID, "mandate_id": p.MandateID})
	})
}

func (a *app) mandatesReinstateCmd() *cobra.Command {
	var reason string
	var yes bool
	c := &cobra.Command{
		Use:   "reinstate ID --reason TEXT",
		Short: "Bring one payer's cancelled mandate back",
		Long: `Reinstates the cancelled mandate of one payer under its own id. Name the payer by
source id, key value, billing id or mandate id. The service must support it
(billing.dialect.reinstate). Afterwards the payer can be debited again, so ask the
payer first. At a terminal the command asks first, and --yes answers. The audit log
keeps your name and the reason.`,
		Example: "  payersync mandates reinstate C0001 --reason 'the payer called: the bank cancelled it by mistake'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runMandatesReinstate(cmd.Context(), args, reason, yes)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func (a *app) runMandatesReinstate(ctx context.Context, args []string, reason string, yes bool) error {
	if reason == "" {
		return usage.Errorf("reinstating a mandate takes a reason: --reason 'the payer asked us to'")
	}
	return a.withPayer(ctx, args[0], func(s *session.Session, p state.Payer) error {
		return a.reinstate(ctx, s, p, reason, yes)
	})
}

func (a *app) reinstate(ctx context.Context, s *session.Session, p state.Payer, reason string, yes bool) error {
	if s.Config.Billing.Dialect.Reinstate == "none" { // before anybody is asked, or noted to have done it
		return usage.Mistake{Err: billing.ErrNoReinstate}
	}
	out, sure, err := a.act(ctx, s,
		admin.Decision{Act: connector.ActReinstate, Record: state.RecordID{Connection: p.Connection, SourceID: p.SourceID}},
		asksAtTerminal, reason, yes)
	status := out.Mandate.Status
	switch {
	case errors.Is(err, admin.ErrNoMandate):
		return fmt.Errorf("cannot reinstate: record %s has no mandate; payersync mandates list shows all mandates",
			p.SourceID)
	case errors.Is(err, syncer.ErrNotCancelled):
		return fmt.Errorf("cannot reinstate the mandate of %s: %w; payersync payers show %[1]s shows its state", p.SourceID,
			err)
	case err != nil:
		return fmt.Errorf("cannot reinstate the mandate of %s: %w", p.SourceID, err)
	case !sure:
		return nil
	}
	a.Print("The mandate %s is %s.", show.Visible(p.MandateID), show.Visible(status.Label()))
	return a.Result(map[string]string{"source_id": p.SourceID, "mandate_id": p.MandateID, "status": string(status)})
}

// withPayer finds the one payer of an id and passes it on, with a session for requests to the billing
// service.
func (a *app) withPayer(ctx context.Context, id string, do func(*session.Session, state.Payer) error) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	p, err := onePayer(ctx, s, id)
	if err != nil {
		return err
	}
	return do(s, p)
}

// onePayer finds the one payer of an id.
func onePayer(ctx context.Context, s *session.Session, id string) (state.Payer, error) {
	payers, err := s.Ledger.FindPayers(ctx, id)
	switch {
	case err != nil:
		return state.Payer{}, err
	case len(payers) == 0:
		return state.Payer{}, fmt.Errorf("no payer has %q as source id, key value, billing id or mandate id; payersync payers list shows all", id)
	case len(payers) > 1:
		return state.Payer{}, usage.Errorf("%q names %d payers; use the billing id of one of them", id, len(payers))
	}
	return payers[0], nil
}
