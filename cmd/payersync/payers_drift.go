package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) payersDriftCmd() *cobra.Command {
	var f state.Filter
	c := &cobra.Command{
		Use:   "drift [ID]",
		Short: "Show drift: fields changed by others in the billing service",
		Long: `Shows the payers with drift (foreign_change), or one payer: somebody else changed
their customer. It reads each customer, and prints the differing fields with the
customer's values and the record's. Values are printed in full; nothing is noted and
nothing is sent.

take, send and ignore are the three ways to resolve drift. Each needs a reason for the
audit log.`,
		Example: "  payersync payers drift\n  payersync payers drift C0001 --output json\n  payersync payers drift --take C0001 --field name --reason 'renamed in March'",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runPayersDrift(cmd, args, f) },
	}
	c.Flags().StringVar(&f.Connection, "connection", "", "only this connection")
	limitFlag(c)
	return c
}

func (a *app) runPayersDrift(cmd *cobra.Command, args []string, f state.Filter) error {
	return a.with(cmd.Context(), a.open, func(s *session.Session) error {
		if err := s.Config.Has(f.Connection); err != nil {
			return err
		}
		if len(args) == 1 {
			p, err := onePayer(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			return a.listDrift(cmd.Context(), s, []state.RecordID{{Connection: p.Connection, SourceID: p.SourceID}})
		}
		f.State = string(connector.ReasonForeignChange)
		limit := a.limitOf(cmd)
		f.Limit = oneMore(limit)
		rows, err := s.Ledger.Attention(cmd.Context(), f)
		if err != nil {
			return err
		}
		rows, more := upTo(rows, limit)
		defer a.printMore(more, limit)
		var ids []state.RecordID
		for _, r := range rows {
			ids = append(ids, state.RecordID{Connection: r.Connection, SourceID: r.SourceID})
		}
		return a.listDrift(cmd.Context(), s, ids)
	})
}

// driftReport is a payer in `payers drift --output json`.
type driftReport struct {
	Connection string       `json:"connection"`
	SourceID   string       `json:"source_id"`
	BillingID  string       `json:"billing_id"`
	Fields     []fieldDrift `json:"fields"`
	Problem    string       `json:"problem,omitempty"` // why the two cannot be compared
	Decided    string       `json:"decided,omitempty"` // take, send or ignore, if decided
}

type fieldDrift struct {
	Path   string `json:"path"`
	Theirs string `json:"theirs"`
	Ours   string `json:"ours"`
}

func reportOfDrift(d syncer.Drift) driftReport {
	r := driftReport{Connection: d.Payer.Connection, SourceID: d.Payer.SourceID, BillingID: d.Payer.BillingID,
		Fields: []fieldDrift{}}
	r.Fields = append(r.Fields,
		connector.Map(d.Fields, func(f connector.FieldChange) fieldDrift { return fieldDrift{f.Path, f.From, f.To} })...)
	return r
}

// incomparable reports whether an error is about one payer alone.
func incomparable(err error) bool {
	return errors.Is(err, syncer.ErrNothingToCompare) || errors.Is(err, syncer.ErrCustomerGone) ||
		errors.Is(err, state.ErrUnderWay)
}

func (a *app) listDrift(ctx context.Context, s *session.Session, ids []state.RecordID) error {
	reports := []driftReport{}
	for _, id := range ids {
		p, err := s.Ledger.Payer(ctx, id.Connection, id.SourceID)
		if err != nil {
			return err
		}
		d, err := a.driftOf(ctx, s, p)
		if err != nil && !incomparable(err) {
			return fmt.Errorf("cannot compare %s: %w", show.Visible(id.SourceID), err)
		}
		r := reportOfDrift(d)
		if err != nil {
			r.Problem = err.Error()
		}
		reports = append(reports, r)
	}
	if a.JSON() {
		return show.Lines(a.Out, reports)
	}
	for _, r := range reports {
		a.printDrift(r)
	}
	if len(reports) == 0 {
		a.Print("No payer has drift.")
		return nil
	}
	a.Print("Take theirs, send ours, or leave a part to the billing service:\n  payersync payers drift --take|--send|--ignore ID --reason TEXT")
	return nil
}

func (a *app) printDrift(r driftReport) {
	fmt.Fprintf(a.Out, "%s, record %s, customer %s\n", r.Connection, show.Visible(r.SourceID), show.Visible(r.BillingID))
	var rows [][]string
	for _, f := range r.Fields {
		rows = append(rows, []string{f.Path, orElse(f.Theirs, "blank"), orElse(f.Ours, "blank")})
	}
	switch {
	case r.Problem != "":
		fmt.Fprintf(a.Out, "  They cannot be compared: %s.\n", show.Visible(r.Problem))
	case len(rows) == 0:
		fmt.Fprintln(a.Out, "  Nothing of ours differs any more, or only what is not ours was changed.")
	default:
		show.Table(a.Out, []string{"Field", "Theirs", "Ours"}, rows)
	}
}

func (a *app) driftOf(ctx context.Context, s *session.Session, p state.Payer) (syncer.Drift, error) {
	conn, err := a.storedAs(ctx, s, p.Connection)
	if err != nil {
		return syncer.Drift{}, err
	}
	return s.Syncer.DriftOf(ctx, conn, p)
}

// wayOut is one of the commands to end a drift.
type wayOut struct {
	act    connector.Act
	name   string
	done   string
	adjust func(*admin.Decision) error // applies the flags; may be nil
}

// driftWay makes the command of a way out.
func (a *app) driftWay(c *cobra.Command, way wayOut) *cobra.Command {
	var reason string
	var yes bool
	c.Args = cobra.ExactArgs(1)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if reason == "" {
			return usage.Errorf("%s takes a reason: --reason 'renamed in March'", cmd.CommandPath())
		}
		return a.withPayer(cmd.Context(), args[0], func(s *session.Session, p state.Payer) error {
			d := admin.Decision{Act: way.act, Record: state.RecordID{Connection: p.Connection, SourceID: p.SourceID}}
			if way.adjust != nil {
				if err := way.adjust(&d); err != nil {
					return fmt.Errorf("nothing was noted of %s: %w", show.Visible(p.SourceID), err)
				}
			}
			proposal, err := a.attentionOf(s).Propose(cmd.Context(), d)
			if err != nil {
				return fmt.Errorf("cannot compare %s: %w", show.Visible(p.SourceID), err)
			}
			r := reportOfDrift(*proposal.Drift)
			sure, err := a.agrees(cmd.Context(), proposal, asksAlways, yes)
			if err != nil {
				return err
			}
			if sure {
				if _, err := proposal.Perform(cmd.Context(), by(reason)); err != nil {
					return fmt.Errorf("nothing was noted of %s: %w", show.Visible(p.SourceID), err)
				}
				r.Decided = way.name
				a.Print("%s", way.done)
			}
			return a.Result(r)
		})
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&yes, "yes", false, "ask no question")
	return c
}

func (a *app) driftTakeCmd() *cobra.Command {
	var fields []string
	c := &cobra.Command{
		Use:   "take ID --reason TEXT",
		Short: "Accept the customer's values; they stay until ours change",
		Long: `Accepts the customer's values of one payer, in all differing fields or in those that
you name. payersync neither reports nor overwrites them, until the record gives that
field another value. It then plans this change as usual. Nothing is sent.`,
		Example: "  payersync payers drift --take C0001 --field name --reason 'renamed in March'",
	}
	c.Flags().StringArrayVar(&fields, "field", nil, "only this field, as payers drift names it; may be given again")
	return a.driftWay(c, wayOut{
		connector.ActTakeTheirs, "take", "Theirs is kept until our value changes. Nothing was sent.",
		func(d *admin.Decision) error {
			d.Fields = fields
			return nil
		},
	})
}

func (a *app) driftSendCmd() *cobra.Command {
	return a.driftWay(&cobra.Command{
		Use:   "send ID --reason TEXT",
		Short: "Send the record as it is; the next plan shows it",
		Long: `Lets the next run send one payer's record as it is. It overwrites other people's
changes in the billing service, and cancels earlier decisions to take or ignore drift.
The plan shows the old and new value of each field, and the limits apply. Nothing is
sent before that run.`,
		Example: "  payersync payers drift --send C0001 --reason 'a typing mistake' && payersync plan",
	}, wayOut{connector.ActSendOurs, "send", "The next sync plans to send ours; payersync plan shows it.", nil})
}

func (a *app) driftIgnoreCmd() *cobra.Command {
	var parts []string
	c := &cobra.Command{
		Use:   "ignore ID --part PART --reason TEXT",
		Short: "Leave a part of one customer to the billing service from now on",
		Long: `Leaves the name, the people or the addresses of one payer's customer to the billing
service. payersync does not compare or send that part for this payer, until payers
drift send takes it back. To decide for all payers, use own in the mapping file.`,
		Example: "  payersync payers drift --ignore C0001 --part people --reason 'they keep their own contacts'",
	}
	c.Flags().StringArrayVar(&parts, "part", nil, "name, people or addresses; may be given again")
	return a.driftWay(c, wayOut{
		connector.ActIgnore, "ignore",
		"It is left to the billing service from now on. For all payers: own in the mapping file.",
		func(d *admin.Decision) error {
			if d.Parts = parts; len(parts) == 0 {
				return usage.Errorf("name a part to ignore: --part name, people or addresses")
			}
			return nil
		},
	})
}
