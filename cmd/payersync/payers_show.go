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
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/mapping"
	"payersync/state"
)

func (a *app) payersShowCmd() *cobra.Command {
	var p privacy
	var connection string
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Explain one payer: record, rules, customer, requests, mandates, next step",
		Long: `Explains one payer. Name it by source id, key value, billing id, mandate id or its
whole name. The command shows the record as last read, the results of each mapping
rule, the customer, all changes with their outcomes, the mandates, the present state
and the next step. If two connections have the same id, it explains both; --connection
selects one. It reads the ledger and sends nothing. Personal values are shortened,
unless you give --show-values; signing links and bank details never appear.`,
		Example: "  payersync payers show C0001\n  payersync payers show 'Harbour Bakery Ltd'\n  payersync payers show C0001 --show-values --output json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runPayersShow(cmd.Context(), args, p, connection)
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "the record's connection; the default is all connections")
	p.flag(c)
	return c
}

func (a *app) runPayersShow(ctx context.Context, args []string, p privacy, connection string) error {
	s, err := a.mappingSession(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Config.Has(connection); err != nil {
		return err
	}
	found, err := findRecords(ctx, s.Ledger, connection, args[0])
	if err != nil {
		return err
	}
	return connector.Each(found, func(id state.RecordID) error { return a.showPayer(ctx, s, id, p) })
}

// findRecords returns the records of a text: by an id, or one record by its name. A blank connection stands
// for all.
func findRecords(ctx context.Context, ledger *state.Ledger, connection, text string) ([]state.RecordID, error) {
	elsewhere := func(id state.RecordID) bool { return connection != "" && id.Connection != connection }
	found, err := ledger.FindRecords(ctx, text)
	if found = slices.DeleteFunc(found, elsewhere); err != nil || len(found) > 0 {
		return found, err
	}
	lists := &admin.Lists{Ledger: ledger, Once: true}
	named, err := lists.Page(ctx, admin.Query{RecordFilter: state.RecordFilter{Connection: connection}, Text: text})
	if err != nil && !errors.Is(err, admin.ErrSealed) {
		return nil, err
	}
	var ids []string
	for _, r := range named.Rows {
		if r.Label != nil && strings.EqualFold(strings.TrimSpace(text), strings.TrimSpace(r.Label.Name)) {
			found = append(found, state.RecordID{Connection: r.Connection, SourceID: r.SourceID})
			ids = append(ids, r.SourceID)
		}
	}
	switch {
	case len(found) > 1:
		return nil, fmt.Errorf("cannot show %q: %d records%s have this name; show one of them by its id: %s", text,
			len(found), of(connection), strings.Join(ids, ", "))
	case len(found) == 0:
		return nil, fmt.Errorf("cannot show %q: no record%s has it as source id, key value, billing id, mandate id or whole name; payersync payers list --search finds parts of names", text, of(connection))
	}
	return found, nil
}

// of names a connection in a sentence; blank for all of them.
func of(connection string) string {
	if connection == "" {
		return ""
	}
	return " of " + connection
}

// mappingOf loads the configured mapping of a connection.
func (a *app) mappingOf(ctx context.Context, s *session.Session, connection string) (*mapping.Mapping, error) {
	conn, err := a.storedAs(ctx, s, connection)
	if err != nil {
		return nil, err
	}
	return conn.Mapping, nil
}

func (a *app) showPayer(ctx context.Context, s *session.Session, id state.RecordID, p privacy) error {
	m, whyNot := a.mappingOf(ctx, s, id.Connection)
	r, err := admin.PayerOf(ctx, s.Ledger, id, admin.Explainer{Mapping: m, NotSent: s.Config.Billing.Dialect.NotCarried},
		p.Privacy)
	r.Next = withSteps(r.Next, r.Steps)
	if err != nil {
		return err
	}
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	a.printPayer(r, whyNot)
	return nil
}

func (a *app) printPayer(r admin.Payer, whyNot error) {
	fmt.Fprintf(a.Out, "%s, record %s", r.Connection, show.Visible(r.SourceID))
	if r.Key.Value != "" {
		fmt.Fprintf(a.Out, " (%s)", show.Visible(r.Key.String()))
	}
	fmt.Fprintf(a.Out, ": %s\n", orElse(string(r.LinkState), "excluded"))
	if r.BillingID != "" {
		fmt.Fprintf(a.Out, "  customer %s\n", show.Visible(r.BillingID))
	}
	if r.Status != "" {
		fmt.Fprintf(a.Out, "  financial status %s, seen %s\n", show.Visible(r.Status), show.Time(r.SeenAt))
	}
	if len(r.Attention) == 0 {
		fmt.Fprintf(a.Out, "  %s %s\n", show.Visible(r.Stands), r.Next)
	}
	for _, n := range r.Attention {
		fmt.Fprintf(a.Out, "  ! %s %s\n", show.Visible(n.Detail), connector.Reason(n.Reason).Next())
	}
	a.printRecord(r.Record)
	a.printRules(r, whyNot)
	a.printCustomerAs("The resulting customer", r.Customer, r.NotSent)
	a.printHeldValues(r)
	if len(r.Accepted) > 0 {
		fmt.Fprintf(a.Out, "  it may differ until our value changes: %s\n", show.Visible(strings.Join(r.Accepted, ", ")))
	}
	if len(r.Ignored) > 0 {
		fmt.Fprintf(a.Out, "  left to the billing service: %s\n", strings.Join(r.Ignored, ", "))
	}
	a.printChanges(r.Changes)
	if len(r.History) > 0 {
		fmt.Fprintln(a.Out, "\nMandates")
	}
	for _, h := range r.History {
		fmt.Fprintf(a.Out, "  %s  mandate %s: %s (seen by %s)\n", show.Stored(h.ObservedAt), show.Visible(h.MandateID),
			show.Visible(connector.MandateStatus(h.ToStatus).Label()), h.Cause)
	}
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (a *app) printRecord(r admin.StoredRecord) {
	fmt.Fprintf(a.Out, "\nThe record: %s\n", strings.TrimSuffix(string(r.State)+", "+show.Visible(r.Origin), ", "))
	if r.Problem != "" {
		fmt.Fprintf(a.Out, "  %s\n", show.Visible(r.Problem))
	}
	for _, f := range r.Fields {
		fmt.Fprintf(a.Out, "  %s: %s\n", show.Visible(f.Field), show.Visible(f.Value))
	}
}

func (a *app) printRules(r admin.Payer, whyNot error) {
	if whyNot != nil {
		fmt.Fprintf(a.Out, "\nThe mapping cannot be tried on it:\n%s\n", shownLines(whyNot.Error()))
		return
	}
	if len(r.Rules) == 0 {
		return
	}
	fmt.Fprintf(a.Out, "\nThe rules, of mapping version %s\n", r.Mapping[:shortHash])
	for _, rule := range r.Rules {
		fmt.Fprintf(a.Out, "  line %-3d %s = %s\n", rule.Line, rule.Path, show.Visible(rule.Text))
		inputs := connector.Map(rule.Inputs,
			func(in admin.Field) string { return in.Field + " " + orElse(in.Value, "blank") })
		if len(inputs) > 0 {
			fmt.Fprintf(a.Out, "             from %s\n", show.Visible(strings.Join(inputs, ", ")))
		}
		switch {
		case rule.Error != "":
			fmt.Fprintf(a.Out, "             ! %s\n", show.Visible(rule.Error))
		case rule.Skipped:
			fmt.Fprintln(a.Out, "             not reached")
		default:
			fmt.Fprintf(a.Out, "             gives %s\n", show.Visible(orElse(rule.Value, "blank")))
		}
	}
}

func (a *app) printCustomerAs(title string, c *connector.Customer, notSent []string) {
	if c == nil {
		return
	}
	fmt.Fprintf(a.Out, "\n%s\n", title)
	for _, d := range connector.Diff(connector.Customer{}, *c) {
		note := ""
		if slices.Contains(notSent, d.Path) {
			note = notSentNote
		}
		fmt.Fprintf(a.Out, "  %s: %s%s\n", d.Path, show.Visible(d.To), note)
	}
}

// printHeldValues prints the customer's values at the last read, and the differences to the values sent.
func (a *app) printHeldValues(r admin.Payer) {
	holds := r.Holds()
	if len(holds) == 0 {
		return
	}
	if r.Read == nil {
		fmt.Fprintln(a.Out, "\nValues sent to the customer, and not read since")
	} else {
		fmt.Fprintf(a.Out, "\nValues of payersync in the customer, last read %s\n", show.Time(r.Read.At))
	}
	for _, h := range holds {
		note := ""
		switch {
		case slices.Contains(r.NotSent, h.Path):
			note = notSentNote
		case h.Otherwise && h.Sent == "":
			note = "  (we sent nothing)"
		case h.Otherwise:
			note = fmt.Sprintf("  (we sent %s)", show.Visible(h.Sent))
		}
		fmt.Fprintf(a.Out, "  %s: %s%s\n", h.Path, show.Visible(orElse(h.Value, "blank")), note)
	}
}

// notSentNote follows a field that the dialect cannot write.
const notSentNote = "  (not sent: the short spelling of addresses has none)"

func (a *app) printChanges(changes []state.PastChange) {
	if len(changes) == 0 {
		return
	}
	fmt.Fprintln(a.Out, "\nChanges")
	for _, c := range changes {
		fmt.Fprintf(a.Out, "  %s  %d: %s %s, run %d", show.Time(c.UpdatedAt), c.ID, c.Action, c.State, c.RunID)
		if c.Attempts > 0 {
			fmt.Fprintf(a.Out, ", %s", connector.Plural(c.Attempts, "attempt"))
		}
		if c.Plan > 0 {
			fmt.Fprintf(a.Out, ", plan %d", c.Plan)
		}
		fmt.Fprintln(a.Out)
		if c.Reason != "" {
			fmt.Fprintf(a.Out, "      %s\n", show.Visible(admin.WhyOf(c)))
		}
		if c.Action == connector.ActionCreate || c.Action == connector.ActionLink {
			continue
		}
		if c.Erased != "" {
			fmt.Fprintf(a.Out, "      %s\n", c.Erased.Sentence())
		}
		for _, d := range c.Diff { // values were made fit to be shown
			fmt.Fprintf(a.Out, "      %s: %s → %s\n", d.Path, orElse(d.From, "blank"), orElse(d.To, "blank"))
		}
	}
}
