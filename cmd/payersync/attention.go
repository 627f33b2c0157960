package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

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

func (a *app) attentionCmd() *cobra.Command {
	c := &cobra.Command{
		Use:     "attention",
		Short:   "Show the records that need attention, and the ways to resolve each finding",
		Example: "  payersync attention list\n  payersync attention show C0001\n  payersync attention retry C0001 && payersync sync\n  payersync attention close C0002 --reason 'it pays until March'\n  payersync attention close --give-up C0003 --reason 'a test record'",
	}
	return subcommands(c, a.attentionListCmd(), a.attentionShowCmd(), a.attentionRetryCmd(),
		also(a.attentionCloseCmd(), "give-up", a.attentionGiveUpCmd()))
}

func (a *app) attentionListCmd() *cobra.Command {
	var f state.Filter
	var closed, later bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the findings about records, and what to do",
		Long: `Lists each finding with its record and the next step in short. payersync attention
show gives every way to resolve one of them. With --closed it lists the decisions of
people that still apply. These are records given up, payers that may stay, and closed
findings about mandates. Each has a name, a time and a reason.

Findings postponed on the pages do not appear until their time comes. --later lists
them, with date, name and reason.`,
		Example: "  payersync attention list --reason email_malformed --output json\n  payersync attention list --closed\n  payersync attention list --later",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runAttentionList(cmd, f, closed, later) },
	}
	c.Flags().StringVar(&f.Connection, "connection", "", "only this connection")
	c.Flags().StringVar(&f.State, "reason", "", "only this reason code")
	c.Flags().BoolVar(&closed, "closed", false, "the findings closed by people, and the records given up")
	c.Flags().BoolVar(&later, "later", false, "the postponed findings")
	limitFlag(c)
	return asCSV(c)
}

func (a *app) runAttentionList(cmd *cobra.Command, f state.Filter, closed, later bool) error {
	if closed && later {
		return usage.Errorf("--closed and --later are two lists; ask for one of them")
	}
	if closed && f.State != "" {
		return usage.Errorf("--closed lists decisions of people, which have no reason code; omit --reason")
	}
	return a.with(cmd.Context(), a.openReport, func(s *session.Session) error {
		f.Limit, f.PutOff, f.Alone = a.limitOf(cmd), state.NotPutOff, true
		if later {
			f.PutOff = state.OnlyPutOff
		}
		if closed {
			return a.listClosed(cmd.Context(), s, f)
		}
		return a.listAttention(cmd.Context(), s, f)
	})
}

// attentionRow is a finding in `attention list --output json`; its keys are public. Tables and CSV also have the name.
type attentionRow struct {
	state.AttentionRow
	PutOff *state.PutOff `json:"put_off,omitempty"`

	name, next string
}

func attentionListing() *show.Listing[attentionRow] {
	return &show.Listing[attentionRow]{Columns: []show.Column[attentionRow]{
		{Name: "connection", Title: "Connection", Cell: func(r attentionRow) string { return r.Connection }},
		{Name: "source_id", Title: "Record", Cell: func(r attentionRow) string { return r.SourceID }},
		{Name: "name", Title: "Name", Cell: func(r attentionRow) string { return r.name }, Sparse: true},
		{Name: "reason", Cell: func(r attentionRow) string { return r.Reason }},
		{Name: "detail", Title: "Finding", Cell: func(r attentionRow) string { return r.Detail }},
		{Name: "what_to_do", Title: "What to do", Cell: func(r attentionRow) string { return r.next }},
		show.StoredMoment("since", "", func(r attentionRow) string { return r.Since }),
	}}
}

func (a *app) listAttention(ctx context.Context, s *session.Session, f state.Filter) error {
	if err := errors.Join(s.Config.Has(f.Connection), oneOf("reason", f.State, reasons()...)); err != nil {
		return err
	}
	limit := f.Limit
	f.Limit = oneMore(limit)
	attention, err := s.Ledger.Attention(ctx, f)
	if err != nil {
		return err
	}
	if f.PutOff == state.NotPutOff {
		off, err := anyPutOff(ctx, s.Ledger, f)
		if err != nil {
			return err
		}
		if off {
			defer a.Print("Findings postponed on the pages are not listed: payersync attention list --later")
		}
	}
	attention, more := upTo(attention, limit)
	defer a.printMore(more, limit)
	rows := connector.Map(attention,
		func(r state.AttentionRow) attentionRow { return attentionRow{AttentionRow: r, PutOff: r.PutOff} })
	if a.JSON() {
		return attentionListing().On(a.Console).Print(rows)
	}
	var records []state.RecordID
	for _, r := range attention {
		if r.Connection != "" { // else it is a delivery
			records = append(records, state.RecordID{Connection: r.Connection, SourceID: r.SourceID})
		}
	}
	known, err := a.labelsOf(ctx, s, records)
	if err != nil {
		return err
	}
	pairs, err := s.Ledger.Renumberings(ctx, mostPairs)
	if err != nil {
		return err
	}
	for i, r := range attention {
		rows[i].name = known[state.RecordID{Connection: r.Connection, SourceID: r.SourceID}].Name
		rows[i].next = admin.NextFor(r, pairs)
		if r.PutOff != nil {
			rows[i].next = fmt.Sprintf("Put off until %s by %s: %s", show.Stored(r.PutOff.Until), r.PutOff.By, r.PutOff.Note)
		}
	}
	if err := attentionListing().On(a.Console).Print(rows); err != nil {
		return err
	}
	if f.State == string(connector.ReasonLeftWithMandate) && len(pairs) > 0 {
		a.Print("Payers that may have a new number in the accounting system are listed with the new record: payersync attention list --reason renumbered")
	}
	if len(rows) > 0 {
		a.Print("To see every way to resolve one, with its effect: payersync attention show RECORD")
	}
	return nil
}

// mostPairs is how many payers under new numbers a list names with both records.
const mostPairs = 1000

// anyPutOff reports whether somebody put something off of what a filter asks for.
func anyPutOff(ctx context.Context, ledger *state.Ledger, f state.Filter) (bool, error) {
	f.PutOff, f.Limit = state.OnlyPutOff, 1
	off, err := ledger.Attention(ctx, f)
	return len(off) > 0, err
}

// reasons are the codes of why a record needs a person.
func reasons() []connector.Reason { return slices.Sorted(maps.Keys(connector.Reasons)) }

func (a *app) attentionRetryCmd() *cobra.Command {
	var connection, reason, note string
	c := &cobra.Command{
		Use:   "retry [ID]",
		Short: "Let the next sync try records again although they did not change",
		Long: `Lets the next run plan a record again, for example after you corrected the cause of a
refusal in the billing service. Name it by its source id. With --reason, it does so
for every record with that reason code. This command sends nothing, and the next plan
keeps within the limits. The audit log keeps your name and your note.`,
		Example: "  payersync attention retry C0001 && payersync sync\n  payersync attention retry --reason rejected && payersync sync",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runAttentionRetry(cmd.Context(), args, connection, reason, note)
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "the records' connection; the default is all connections")
	c.Flags().StringVar(&reason, "reason", "", "every record that needs attention for this reason code")
	c.Flags().StringVar(&note, "note", "", "why, for the audit log")
	return c
}

func (a *app) runAttentionRetry(ctx context.Context, args []string, connection, reason, note string) error {
	if (len(args) == 1) == (reason != "") {
		return usage.Errorf("name one record, or a reason: payersync attention retry C0001, or payersync attention retry --reason rejected")
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		if err := errors.Join(s.Config.Has(connection), oneOf("reason", reason, reasons()...)); err != nil {
			return err
		}
		if reason != "" {
			return a.retryReason(ctx, s, state.Filter{Connection: connection, State: reason}, note)
		}
		names, err := s.Config.Named(nil)
		if connection != "" {
			names, err = s.Config.Named([]string{connection})
		}
		if err != nil {
			return err
		}
		return a.retry(ctx, s, names, args[0], note)
	})
}

// attentionOf returns the acts on findings about records.
func (a *app) attentionOf(s *session.Session) *admin.Attention {
	return &admin.Attention{Ledger: s.Ledger, Syncer: s.Syncer, Mandates: mandatesOf(s), Deliveries: deliveriesOf(s),
		Writebacks: writebacksOf(s),
		Stored: func(ctx context.Context, connection string) (syncer.Connection, error) {
			return a.storedAs(ctx, s, connection)
		}}
}

// retryReason lets the next sync retry every record found by the filter.
func (a *app) retryReason(ctx context.Context, s *session.Session, f state.Filter, note string) error {
	marked, before, err := a.attentionOf(s).RetryAll(ctx, f, syncer.Operator{Name: actor(), Reason: note})
	if err != nil {
		return err
	}
	a.Print("The next sync tries %s again.", connector.Plural(marked, "record"))
	if before > 0 {
		a.Print("%s had this decision before.", connector.Plural(before, "record"))
	}
	return a.Result(map[string]any{"reason": f.State, "records": marked})
}

func (a *app) retry(ctx context.Context, s *session.Session, connections []config.Connection, sourceID,
	note string) error {
	found, news, err := false, false, error(nil)
	for _, c := range connections {
		out, sure, not := a.act(ctx, s,
			admin.Decision{Act: connector.ActRetry, Record: state.RecordID{Connection: c.Name, SourceID: sourceID}}, asksInWalk,
			note, false)
		if errors.Is(not, admin.ErrNoSuchRecord) { // another connection may have it
			continue
		}
		if found, err = true, not; err != nil || !sure {
			break
		}
		news = news || out.News
	}
	if !found {
		err = admin.ErrNoSuchRecord
	}
	switch {
	case errors.Is(err, admin.ErrGivenUp):
		return fmt.Errorf("cannot retry %s: %w; payersync attention close --give-up %[1]s --undo takes that back",
			show.Visible(sourceID), err)
	case errors.Is(err, admin.ErrNoSuchRecord):
		return fmt.Errorf("cannot retry %q: %w; payersync attention list shows them", sourceID, err)
	case err != nil:
		return err
	case news:
		a.Print("The next sync tries record %s again.", show.Visible(sourceID))
	default:
		a.Print("The next sync tries record %s again already.", show.Visible(sourceID))
	}
	return a.Result(map[string]string{"source_id": sourceID})
}
