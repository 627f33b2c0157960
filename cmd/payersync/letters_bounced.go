package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"os"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/letters/bounce"
	"payersync/connector/office"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) lettersBouncedCmd() *cobra.Command {
	var undo bool
	var reason string
	c := &cobra.Command{
		Use:   "bounced (FILE | ADDRESS | RECORD --undo)",
		Short: "Note that letters to an address come back",
		Long: `Takes a delivery report in, as a file with one mail (.eml; - for standard input), or your
word on an e-mail address. To an address that does not exist, or takes no mail, nothing
more is sent, and attention list tells of its payers, until the books have another one.
Of a full mailbox it is only noted: the next letter may arrive.

A report is believed of a letter of ours alone, by the Message-ID of the mail that came
back; of any other nothing is noted. --undo says that the address works after all. The
audit log keeps who said so; addresses are kept as hashes.`,
		Example: "  payersync mandates letters bounced report.eml\n  payersync mandates letters bounced accounts@bakery.example --reason 'returned by hand'\n  payersync mandates letters bounced C0001 --undo --reason 'they repaired it'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			by := syncer.Operator{Name: actor(), Reason: reason}
			return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
				if undo {
					return a.reviveAddress(cmd.Context(), s, args[0], by)
				}
				return a.noteBounce(cmd.Context(), s, args[0], by)
			})
		},
	}
	c.Flags().BoolVar(&undo, "undo", false, "the address, or that of the record, works after all")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

// addressOf returns the e-mail address that an argument is; "" when it is none.
func addressOf(arg string) string {
	a, err := mail.ParseAddress(arg)
	if err != nil || a.Name != "" {
		return ""
	}
	return a.Address
}

func (a *app) noteBounce(ctx context.Context, s *session.Session, arg string, by syncer.Operator) error {
	bounces := &office.Bounces{Ledger: s.Ledger}
	if address := addressOf(arg); address != "" {
		got, err := bounces.Address(ctx, address, by)
		if err != nil {
			return err
		}
		return a.showBounced(got)
	}
	report := io.NopCloser(a.In)
	if arg != "-" {
		f, err := os.Open(arg) //nolint:gosec // whoever calls it names the file; what is no report is refused, and not shown
		if err != nil {
			return usage.Errorf("cannot read the report: %q is neither an e-mail address nor a file that can be read: %v", arg, errors.Unwrap(err))
		}
		report = f
	}
	got, err := bounces.Report(ctx, report, by)
	err = errors.Join(err, report.Close())
	if errors.Is(err, bounce.ErrNoReport) || errors.Is(err, bounce.ErrNoMessage) || errors.Is(err, bounce.ErrTooLarge) {
		return usage.Errorf("cannot use the report: %v; if you know the address, name it: payersync mandates letters bounced ADDRESS", err)
	}
	if err != nil {
		return err
	}
	return a.showBounced(got)
}

func (a *app) showBounced(got office.Bounced) error {
	if a.JSON() {
		return show.JSON(a.Out, got)
	}
	said := "The report is not about a letter of ours that did not arrive; nothing was noted."
	switch {
	case got.Stopped > 0 && got.Payers > 0:
		said = fmt.Sprintf("Nothing more is sent to the address, which %s written to at; payersync attention list tells who.", isOrAre(got.Payers))
	case got.Stopped > 0:
		said = "Nothing more is sent to the address. No payer is written to at it, for all that is known."
	case got.Noted > 0:
		said = "The letter did not arrive for now; that is noted, and the next one goes out."
	}
	_, err := fmt.Fprintln(a.Out, said)
	return err
}

func isOrAre(payers int) string {
	if payers == 1 {
		return "1 payer is"
	}
	return connector.Plural(payers, "payer") + " are"
}

func (a *app) reviveAddress(ctx context.Context, s *session.Session, arg string, by syncer.Operator) error {
	if by.Reason == "" {
		return usage.Errorf("to say that an address works after all takes a reason: --reason 'they repaired it'")
	}
	bounces := &office.Bounces{Ledger: s.Ledger}
	var err error
	if address := addressOf(arg); address != "" {
		err = bounces.ReviveAddress(ctx, address, by)
	} else {
		var p state.Payer
		if p, err = onePayer(ctx, s, arg); err != nil {
			return err
		}
		err = bounces.ReviveRecord(ctx, state.RecordID{Connection: p.Connection, SourceID: p.SourceID}, by)
	}
	switch {
	case errors.Is(err, office.ErrNotBounced):
		a.Say("Nobody had said that letters to the address come back.")
		return a.Result(map[string]string{"revived": arg})
	case errors.Is(err, office.ErrNotWrittenTo):
		return fmt.Errorf("cannot take it back: %w; name the address itself", err)
	case err != nil:
		return err
	}
	a.Say("The next letter goes out to the address again.")
	return a.Result(map[string]string{"revived": arg})
}
