package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/outbox"
	"payersync/connector/writeback"
	"payersync/state"
)

func (a *app) writebackTakeCmd() *cobra.Command {
	connection, reason := "", ""
	c := &cobra.Command{
		Use:   "take RECORD --reason TEXT [--connection NAME]",
		Short: "Give the field of a record back to payersync after somebody's change",
		Long: `Notes that another person's value in the field of a record no longer counts, or that a
refused write may be tried again. The next plan shows the resulting write.`,
		Example: "  payersync writeback take C0001 --reason \"a slip of the pen\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runWritebackTake(cmd.Context(), args, connection, reason)
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "the connection with this `NAME`, if there are several")
	c.Flags().StringVar(&reason, "reason", "", "`TEXT` for the audit log")
	return c
}

func (a *app) runWritebackTake(ctx context.Context, args []string, connection, reason string) error {
	if strings.TrimSpace(reason) == "" {
		return usage.Errorf("--reason is missing: say for the audit log why the field is payersync's again")
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		all, err := writers(ctx, s, connection)
		switch {
		case err != nil:
			return err
		case len(all) > 1:
			return usage.Errorf("several connections write back; name one with --connection")
		}
		for _, w := range all {
			_, _, err := a.act(ctx, s, admin.Decision{Act: connector.ActTakeField,
				Record: state.RecordID{Connection: w.Name, SourceID: args[0]}}, asksInWalk, reason, false)
			if errors.Is(err, admin.ErrNothingToTake) {
				continue
			}
			if err == nil {
				a.Print("The field of record %s is payersync's again. See payersync writeback plan --connection %s",
					show.Visible(args[0]), w.Name)
				err = a.Result(map[string]any{"connection": w.Name, "source_id": args[0], "taken": true})
			}
			return err
		}
		return fmt.Errorf("cannot take the field of record %s: %w; payersync writeback shows the fields", show.Visible(args[0]),
			admin.ErrNothingToTake)
	})
}

// writebackJob is the name of the write-back job.
const writebackJob = "writeback"

// writeBackNow makes a run of every connection with a write-back, and logs how each ended.
func writeBackNow(ctx context.Context, s *session.Session) error {
	var problems []error
	for _, c := range s.Config.Connections {
		if c.Writeback == nil {
			continue
		}
		problems = append(problems, writeBackOne(ctx, s, c))
	}
	return errors.Join(problems...)
}

func writeBackOne(ctx context.Context, s *session.Session, c config.Connection) error {
	w, err := s.OpenWriter(ctx, c)
	if err != nil {
		return err
	}
	r, err := (&writeback.Run{Target: w, Ledger: s.Ledger}).Do(ctx)
	if errors.Is(err, outbox.ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	level := logrus.InfoLevel
	if r.Waiting+r.Stuck > 0 {
		level = logrus.WarnLevel
	}
	s.Log.WithFields(logrus.Fields{"connection": r.Connection, "written": r.Written, "already": r.Already,
		"theirs": r.Theirs, "refused": r.Refused, "waiting": r.Waiting, "later": r.Later, "stuck": r.Stuck}).Log(level,
		"write-back ended")
	return r.Err
}
