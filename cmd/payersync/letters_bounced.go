package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) lettersBouncedCmd() *cobra.Command {
	var undo bool
	var reason string
	c := &cobra.Command{
		Use:   "bounced (FILE | ADDRESS | RECORD --undo)",
		Short: "Note that letters to an address come back",
		Long: `Reads a delivery report, as a file with one mail (.eml; - for standard input), or
takes your word about an e-mail address. If the address does not exist or takes no
mail, payersync sends nothing more to it. attention list reports its payers until the
accounting system has another address. A full mailbox is only noted: the next letter
may arrive.

payersync accepts a report only about its own letters, by the Message-ID of the
returned mail; it ignores all others. --undo notes that the address works after all.
The audit log keeps your name; addresses are kept as hashes.`,
		Example: "  payersync letters bounced report.eml\n  payersync letters bounced accounts@bakery.example --reason 'returned by hand'\n  payersync letters bounced C0001 --undo --reason 'they repaired it'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runLettersBounced(cmd.Context(), args, undo, reason)
		},
	}
	c.Flags().BoolVar(&undo, "undo", false, "the address, or the record's address, works after all")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

func (a *app) runLettersBounced(ctx context.Context, args []string, undo bool, reason string) error {
	by := syncer.Operator{Name: actor(), Reason: reason}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		if undo {
			return a.reviveAddress(ctx, s, args[0], by)
		}
		return a.noteBounce(ctx, s, args[0], by)
	})
}

func (a *app) noteBounce(ctx context.Context, s *session.Session, arg string, by syncer.Operator) error {
	bounces := &admin.Bounces{Ledger: s.Ledger}
	if address := admin.AddressOf(arg); address != "" {
		got, err := bounces.Address(ctx, address, by)
		if err != nil {
			return err
		}
		return a.showBounced(got)
	}
	report := io.NopCloser(a.In)
	if arg != "-" {
		f, err := os.Open(arg) //nolint:gosec // the caller names the file; anything but a report is refused, and not shown
		if err != nil {
			return usage.Errorf("cannot read the report: %q is neither an e-mail address nor a readable file: %v", arg,
				errors.Unwrap(err))
		}
		report = f
	}
	got, err := bounces.Report(ctx, report, by)
	err = errors.Join(err, report.Close())
	if admin.NoReport(err) {
		return usage.Errorf("cannot use the report: %v; if you know the address, name it: payersync letters bounced ADDRESS",
			err)
	}
	if err != nil {
		return err
	}
	return a.showBounced(got)
}

func (a *app) showBounced(got admin.Bounced) error {
	return a.Answer(got, "%s\n", got.Words("payersync attention list"))
}

func (a *app) reviveAddress(ctx context.Context, s *session.Session, arg string, by syncer.Operator) error {
	if by.Reason == "" {
		return usage.Errorf("noting that an address works after all needs a reason: --reason 'they repaired it'")
	}
	var err error
	if address := admin.AddressOf(arg); address != "" {
		err = (&admin.Bounces{Ledger: s.Ledger}).ReviveAddress(ctx, address, by)
	} else {
		var p state.Payer
		if p, err = onePayer(ctx, s, arg); err != nil {
			return err
		}
		var sure bool
		if _, sure, err = a.act(ctx, s,
			admin.Decision{Act: connector.ActResume, Record: state.RecordID{Connection: p.Connection, SourceID: p.SourceID}},
			asksInWalk, by.Reason, false); err == nil && !sure {
			return nil
		}
	}
	switch {
	case errors.Is(err, admin.ErrNotBounced):
		a.Print("No returned letters were noted for the address.")
		return a.Result(map[string]string{"revived": arg})
	case errors.Is(err, admin.ErrNotWrittenTo):
		return fmt.Errorf("cannot take it back: %w; name the address itself", err)
	case err != nil:
		return err
	}
	a.Print("The next letter goes out to the address again.")
	return a.Result(map[string]string{"revived": arg})
}
