package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

func (a *app) ledgerExportCmd() *cobra.Command {
	var connection, file string
	c := &cobra.Command{
		Use:   "export RECORD [--file FILE]",
		Short: "Export all data of one payer in the ledger",
		Long: `Writes all data of one payer in the ledger as JSON, to answer a request for access. It
has the record as last read, all sent data with times, mandates with their history,
webhooks with their bodies, and decisions of people. Name the record by source id, key
value, billing id or mandate id. The audit log keeps your name.

Three things are omitted and named as such. These are the signing link, because its
owner can sign; the bank's code for a failed mandate, because only the billing service
can explain it; and data of other people. With --file it writes a new file, readable
only by you.`,
		Example: "  payersync ledger export C0001 --file C0001.json\n  payersync ledger export C0001 --output json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runLedgerExport(cmd.Context(), args, connection, file)
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "the connection, if several have the record")
	c.Flags().StringVarP(&file, "file", "o", "", "write it to this new `FILE`")
	return c
}

func (a *app) runLedgerExport(ctx context.Context, args []string, connection, file string) error {
	if file == "" && !a.JSON() {
		return usage.Errorf("name a new file to write it to, --file C0001.json, or print it with --output json")
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		id, err := oneRecord(ctx, s, args[0], connection)
		if err != nil {
			return err
		}
		return a.exportPayer(ctx, s, id, file)
	})
}

// payerExport is the output of `ledger export`.
type payerExport struct {
	ExportedAt time.Time `json:"exported_at"`
	state.SubjectData
}

func (a *app) exportPayer(ctx context.Context, s *session.Session, id state.RecordID, file string) (err error) {
	held, err := s.Ledger.SubjectData(ctx, id)
	if err != nil {
		return err
	}
	if err := admin.Audit(ctx, s.Ledger, state.Entry{Actor: actor(), Action: "export payer", Subject: id.Connection + "/" + id.SourceID}); err != nil {
		return err
	}
	out := payerExport{a.now().UTC().Truncate(time.Second), held}
	if file == "" {
		return show.JSON(a.Out, out)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the person at the keyboard names it
	if errors.Is(err, os.ErrExist) {
		return usage.Errorf("%s exists already; name a new file", file)
	}
	if err != nil {
		return fmt.Errorf("write the data of %s: %w", show.Visible(id.SourceID), err)
	}
	if err := errors.Join(show.JSON(f, out), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the data of %s: %w", show.Visible(id.SourceID), err)
	}
	a.Print("The data of record %s of %s was written to %s, readable only by you: %s, %s, %s.", show.Visible(id.SourceID),
		id.Connection, show.Visible(file),
		connector.Plural(len(held.Changes), "change"), connector.Plural(len(held.Mandates), "mandate"),
		connector.Plural(len(held.Deliveries), "delivery"))
	for _, left := range held.LeftOut {
		a.Print("Omitted: %s", left)
	}
	return a.Result(map[string]any{"file": file, "source_id": id.SourceID, "left_out": held.LeftOut})
}
