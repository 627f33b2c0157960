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
	"payersync/connector/match"
	"payersync/connector/syncer"
	"payersync/state"
)

// sameFlags are what a person says with payers same.
type sameFlags struct {
	decision
	connection string
	into       string
	separate   bool
	undo       bool
	above      int
}

func (a *app) payersSameCmd() *cobra.Command {
	var f sameFlags
	c := &cobra.Command{
		Use:   "same [RECORD [CUSTOMER]] --reason TEXT",
		Short: "Say that a record and a customer, or two records, are the same payer",
		Long: `RECORD CUSTOMER: the customer of the billing service belongs to the record. It has no
payersync key, or the record's.

RECORD alone: the record is on hold (key_disputed), because the customer with its key
looks like somebody else. The customer is the record's all the same.

Both show the present and the new value of each field, and ask. The next run links the
customer, within the limits for plans. --above accepts every proposed match with that
score or more, unless another customer or record fits as well. --undo takes back what
you decided on RECORD and CUSTOMER, before the next run. Use 90;
connector/match/README.md gives the error rate of each level.

RECORD --into OTHER: two records of one connection are the same payer. From the next
run on, RECORD is excluded, like a record that the accounting system has merged. OTHER
stands for both. If RECORD has a customer and OTHER has none, the customer moves to
OTHER with its mandate. If both have one, payersync removes nothing in the billing
service. It reports a mandate of RECORD's customer that still holds, until you cancel
or close it. --separate takes the decision back; a moved customer stays.

Nothing is sent before the next run. The audit log keeps each yes with its reason.`,
		Example: "  payersync payers same C0001 9b2f1c --reason 'told us on the phone' && payersync sync\n" +
			"  payersync payers same C0001 --reason 'renamed in March'\n" +
			"  payersync payers same --above 90 --yes\n" +
			"  payersync payers same C0907 --into C0001 --reason 'entered twice'\n" +
			"  payersync payers same C0907 --separate --reason 'two branches after all'",
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.same(cmd.Context(), args, f, cmd.Flags().Changed("above"))
		},
	}
	c.Flags().IntVar(&f.above, "above", 0, "accept every proposed match with this `SCORE` or more")
	c.Flags().StringVar(&f.into, "into", "", "the `RECORD` that stands for both, of the same connection")
	c.Flags().BoolVar(&f.separate, "separate", false, "say that the record is a payer of its own after all")
	c.Flags().BoolVar(&f.undo, "undo", false, "take back what was decided on RECORD and CUSTOMER")
	c.Flags().StringVar(&f.connection, "connection", "", "the connection, if several have the record")
	f.flags(c)
	return c
}

// same performs what the arguments and flags of payers same say.
func (a *app) same(ctx context.Context, args []string, f sameFlags, many bool) error {
	records := f.into != "" || f.separate
	switch {
	case many != (len(args) == 0), records && len(args) != 1, f.separate && f.into != "", f.undo && len(args) != 2:
		return usage.Errorf("name a record and its customer, a record on hold, two records, or a score: payersync payers same C0001 9b2f1c, payersync payers same C0001, payersync payers same C0907 --into C0001, or payersync payers same --above %d", match.BulkLevel)
	case many && (f.above < leastBulk || f.above > 100):
		return usage.Errorf("--above is a score from %d to 100: below %[1]d something contradicts a match, or another record matches too, so you must decide on each", leastBulk)
	case many:
		return a.withReview(ctx, f.connection, func(ctx context.Context, s *session.Session, r *review) error {
			return a.acceptAbove(ctx, s, r, f.above, f.decision)
		})
	case f.reason == "" && records:
		return usage.Errorf("merging records takes a reason: --reason 'entered twice'")
	case f.reason == "":
		return usage.Errorf("linking a customer takes a reason: --reason 'renamed in March'")
	case len(args) == 1 && !records:
		return a.withPayer(ctx, args[0], func(s *session.Session, p state.Payer) error {
			return a.adopt(ctx, s, p, f.decision)
		})
	}
	return a.with(ctx, a.open, func(s *session.Session) error {
		r, err := oneRecord(ctx, s, args[0], f.connection)
		switch {
		case err != nil:
			return err
		case f.separate:
			return a.separate(ctx, s, r, f.decision)
		case records:
			return a.merge(ctx, s, r, f.into, f.decision)
		}
		if f.undo {
			return a.takeBack(ctx, s, r, args[1], f.decision)
		}
		return a.link(ctx, s, r, args[1], f.decision)
	})
}

// link proposes the customer that a person names for a record.
func (a *app) link(ctx context.Context, s *session.Session, r state.RecordID, customer string, d decision) error {
	proposal, err := a.attentionOf(s).Propose(ctx, admin.Decision{Act: connector.ActLink, Record: r, Customer: customer})
	if err != nil {
		return notLinked(r.SourceID, customer, err)
	}
	a.Print("Record %s, and customer %s.", show.Visible(r.SourceID), show.Visible(proposal.Customer))
	return a.decideOn(ctx, proposal, d)
}

// takeBack takes back what was decided on a record and a customer.
func (a *app) takeBack(ctx context.Context, s *session.Session, r state.RecordID, customer string, d decision) error {
	_, sure, err := a.act(ctx, s, admin.Decision{Act: connector.ActTakeBack, Record: r, Customer: customer}, asksInWalk,
		d.reason, d.yes)
	if err != nil {
		return fmt.Errorf("cannot take back what was decided on %s and %s: %w", show.Visible(r.SourceID),
			show.Visible(customer), err)
	}
	if sure {
		a.Print("The decision on %s and %s no longer applies.", show.Visible(r.SourceID), show.Visible(customer))
	}
	return a.Result(adoptReport{SourceID: r.SourceID, BillingID: customer, Differs: []string{},
		Diff: []connector.FieldChange{}})
}

// adoptReport is the output of `payers same --output json` about a customer.
type adoptReport struct {
	SourceID  string                  `json:"source_id"`
	BillingID string                  `json:"billing_id"`
	Differs   []string                `json:"differs"`
	Diff      []connector.FieldChange `json:"diff"`
	Accepted  bool                    `json:"accepted"`
}

func (a *app) adopt(ctx context.Context, s *session.Session, p state.Payer, d decision) error {
	proposal, err := a.attentionOf(s).Propose(ctx,
		admin.Decision{Act: connector.ActAdopt, Record: state.RecordID{Connection: p.Connection, SourceID: p.SourceID}})
	if errors.Is(err, syncer.ErrNoHolder) {
		return fmt.Errorf("cannot link a customer to %s: %w; payersync payers show prints its state",
			show.Visible(p.SourceID), err)
	}
	if err != nil {
		return err
	}
	a.Print("Customer %s carries %s, the key of record %s.", show.Visible(proposal.Customer), show.Visible(p.Key.String()),
		show.Visible(p.SourceID))
	return a.decideOn(ctx, proposal, d)
}

// decideOn asks whether a customer is the record's, and notes a yes.
func (a *app) decideOn(ctx context.Context, proposal admin.Proposal, d decision) (err error) {
	h, p := proposal.Holder, proposal.Record
	report := adoptReport{SourceID: p.SourceID, BillingID: h.Customer, Differs: append([]string{}, h.Against...),
		Diff: append([]connector.FieldChange{}, h.Diff...)}
	if report.Accepted, err = a.agrees(ctx, proposal, asksAlways, d.yes); err != nil {
		return err
	}
	if report.Accepted {
		if _, err := proposal.Perform(ctx, by(d.reason)); err != nil {
			return fmt.Errorf("cannot link a customer to %s: %w; payersync payers show prints its state",
				show.Visible(p.SourceID), err)
		}
		a.Print("The next run links it.")
	}
	return a.Result(report)
}

// notLinked says why a record is not linked to a customer, and what to do.
func notLinked(sourceID, customer string, err error) error {
	next := "payersync payers show says how it stands"
	switch {
	case errors.Is(err, state.ErrLinkedAlready):
		next = "payersync payers different unlinks the record from its present customer"
	case errors.Is(err, syncer.ErrNoCustomer):
		next = "look its id up in the billing service, or in payersync payers match"
	case errors.Is(err, syncer.ErrCarriesAnother):
		next = "remove that key from the customer in the billing service, if it is wrong"
	}
	return fmt.Errorf("cannot link %s to %s: %w; %s", show.Visible(sourceID), show.Visible(customer), err, next)
}
