package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) syncCmd() *cobra.Command {
	c := a.runCmd(connector.RunSync, &cobra.Command{
		Use:   "sync [NAME…|RECORD]",
		Args:  cobra.ArbitraryArgs,
		Short: "Make one incremental run: read, plan, apply",
		Long: `Reads the changes in each connection's accounting system, plans, and sends the plan. A
plan above the limits waits for payersync plan approve, and the command ends with exit
status 4. If far fewer records are read than known, or far fewer of them are payers
than before, nothing is sent. The command then ends with exit status 7; payersync
approve, or --yes, accepts the change. Without names all connections run. A run over
unchanged data sends nothing.

With RECORD it reads and plans the record's connection as usual, and sends only the
changes of this record; the other changes wait for the next run. The limits apply to
the whole plan, and --yes does not lift them here.`,
		Example: "  payersync sync acme\n  payersync sync C0001    # this record alone\n  */15 * * * * payersync sync --quiet --config payersync.yaml   # as a cron job",
	})
	whole := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return whole(cmd, args)
		}
		cfg, err := a.loadLocal()
		if err != nil || cfg.Has(args[0]) == nil {
			return whole(cmd, args)
		}
		if cmd.Flags().Changed("yes") {
			return usage.Errorf("--yes is for whole connections; for one record, payersync plan show names its change and payersync plan approve lets it go")
		}
		return a.syncRecord(cmd.Context(), args[0], cfg)
	}
	return c
}

// syncRecord makes a run for the changes of one record alone.
func (a *app) syncRecord(ctx context.Context, text string, cfg *config.Config) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	found, err := s.Ledger.FindRecords(ctx, text)
	if err != nil {
		return err
	}
	switch len(found) {
	case 0:
		return usage.Errorf("%w; nor did payersync read a record with that name: payersync plan reads the accounting system",
			cfg.Has(text))
	case 1:
	default:
		return usage.Errorf("%q names %d records; use an id of only one", show.Visible(text), len(found))
	}
	record := found[0]
	return a.eachConnection(ctx, s, []string{record.Connection}, func(c config.Connection) (int, error) {
		if _, err := a.passesOver(ctx, s, c.Name, true); err != nil {
			return exitCode(err), err
		}
		conn, err := s.Connection(ctx, c)
		if err != nil {
			return exitCode(err), err
		}
		if _, err := setMappingProblem(ctx, s, c, ""); err != nil {
			return exitCode(err), err
		}
		res, err := a.runOne(ctx, s, conn, syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Only: record.SourceID})
		if err != nil {
			return exitCode(err), err
		}
		code, err := codeOfRecord(ctx, s, res, record)
		return code, errors.Join(err, a.showRecordResult(res, record))
	})
}

// codeOfRecord returns the exit code for how a run of one record ended: what others need does not count.
func codeOfRecord(ctx context.Context, s *session.Session, r syncer.Result, record state.RecordID) (int, error) {
	if r.Err != nil || r.Outcome != connector.RunComplete && r.Outcome != connector.RunIncomplete {
		return codeOf(r), nil
	}
	told, err := s.Ledger.AttentionOf(ctx, record.Connection, record.SourceID)
	if err != nil {
		return exitCode(err), err
	}
	changes, err := s.Ledger.ChangesOf(ctx, record.Connection, record.SourceID)
	if err != nil {
		return exitCode(err), err
	}
	if len(told) > 0 || slices.ContainsFunc(changes, func(c state.PastChange) bool {
		return c.State == connector.ChangePending || c.State == connector.ChangeUnknown
	}) {
		return exitAttention, nil
	}
	return exitDone, nil
}

// showRecordResult prints how a run of one record ended.
func (a *app) showRecordResult(r syncer.Result, record state.RecordID) error {
	if a.JSON() {
		return a.showResult(r)
	}
	a.Print("Only record %s was to be sent. The other changes of the plan wait for the next run.",
		show.Visible(record.SourceID))
	return a.showResult(r)
}

func (a *app) backfillCmd() *cobra.Command {
	return a.runCmd(connector.RunBackfill, &cobra.Command{
		Use:   "backfill [NAME…]",
		Args:  cobra.ArbitraryArgs,
		Short: "Make one full run with progress; resumes where it stopped",
		Long: `Reads each connection's accounting system completely, plans, and sends the plan. At a
terminal it asks before it sends a plan above the limits. It also asks before it
accepts removed records, or payers that would be excluded or put on hold. --yes
approves all of that. After Ctrl-C or a power cut, run it again: it continues, and
creates no customer twice.`,
		Example: "  payersync backfill acme\n  payersync backfill --yes --output json",
	})
}

// runCmd completes a command for runs of one kind.
func (a *app) runCmd(kind connector.RunKind, c *cobra.Command) *cobra.Command {
	var yes bool
	c.Flags().BoolVar(&yes, "yes", false, "approve the plan even when it is above the limits")
	a.quietFlag(c, "print only new or worse findings than in the run before")
	c.RunE = func(cmd *cobra.Command, names []string) error {
		return a.runConnections(cmd.Context(), names,
			func(ctx context.Context, s *session.Session, conn syncer.Connection) (int, error) {
				res, err := a.runOne(ctx, s, conn,
					syncer.RunOptions{Kind: kind, Trigger: "manual",
						Approve: a.fourEyes(ctx, s, a.approver(ctx, yes, s.Config.Billing.RatePerSecond))})
				if err != nil {
					return exitCode(err), err
				}
				code := codeOf(res)
				if why := a.Unasked(); why != "" && show.IsTerminal(a.In) &&
					(code == exitApproval && !res.Plan.WaitsForDecision() || code == exitStandstill && res.Plan != nil) {
					a.Print("You were not asked: %s. payersync plan approve %d lets the plan go; with --yes this command does it by itself.", why, res.Plan.ID)
				}
				return code, a.showResult(res)
			})
	}
	return c
}

// quietFlag adds the flag to print nothing without news, for cron.
func (a *app) quietFlag(c *cobra.Command, prints string) {
	c.Flags().BoolVar(&a.Quiet, "quiet", false, prints+": no progress and no results; asks nobody")
}

// runConnections opens everything and hands each named connection to do, all of
// them without names.
func (a *app) runConnections(ctx context.Context, names []string,
	do func(context.Context, *session.Session, syncer.Connection) (int, error)) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return a.eachConnection(ctx, s, names, func(c config.Connection) (int, error) {
		if closed, err := a.passesOver(ctx, s, c.Name, len(names) > 0); closed || err != nil {
			return exitCode(err), err
		}
		conn, err := s.Connection(ctx, c)
		if err != nil {
			return exitCode(err), err
		}
		if _, err := setMappingProblem(ctx, s, c, ""); err != nil {
			return exitCode(err), err
		}
		return do(ctx, s, conn)
	})
}

// passesOver reports whether a connection gets no run, because its records moved to another one. If the
// person named it, that is an error; otherwise it is reported, and the others go on.
func (a *app) passesOver(ctx context.Context, s *session.Session, connection string, named bool) (bool, error) {
	moved, err := s.Ledger.MovedTo(ctx, connection)
	if err != nil || moved == nil {
		return false, err
	}
	why := &state.MovedError{Old: moved.Old, New: moved.New, At: moved.At}
	if named {
		return true, why
	}
	a.Print("You may take %s out of the configuration: %s", connection, errorText(why))
	return true, nil
}

// eachConnection hands each named connection to do. One connection's failure
// never keeps the others from their turn; the exit code is the most severe of all.
func (a *app) eachConnection(ctx context.Context, s *session.Session, names []string,
	do func(config.Connection) (int, error)) error {
	configured, err := s.Config.Named(names)
	if err != nil {
		return err
	}
	code := exitDone
	for _, c := range configured {
		one, err := do(c)
		if err != nil {
			a.report(fmt.Errorf("%s: %w", c.Name, err))
		}
		code = worse(code, one)
		if ctx.Err() != nil {
			return exitError(exitInterrupted)
		}
	}
	if code != exitDone {
		return exitError(code)
	}
	return nil
}

// runOne makes one run with progress on standard error.
func (a *app) runOne(ctx context.Context, s *session.Session, conn syncer.Connection, o syncer.RunOptions) (syncer.Result,
	error) {
	o.Actor, o.Holder, o.Decided = actor(), holder(), decisionsTo(s.Log)
	if !a.Quiet {
		progress := show.NewProgress(a.ErrOut, a.now)
		defer progress.End()
		o.Progress = progress.Show
	}
	res, err := s.Syncer.Run(ctx, conn, o)
	a.warnForgotten(s.Config, cmp.Or(err, res.Err))
	return res, err
}

// warnForgotten explains a restarted sandbox without the ledger's customers.
func (a *app) warnForgotten(cfg *config.Config, err error) {
	var short *reconcile.ShortListError
	if cfg.Node == nil && cfg.Billing.Profile == "sandbox" && errors.As(err, &short) && short.Listed == 0 {
		a.Print("The sandbox forgets everything when it stops. To begin anew with it: rm %s*", cfg.Ledger.Path)
	}
}

// holder names this process in its lease, for others.
func holder() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s pid %d", host, os.Getpid())
}

// approver returns the approver of a plan above the limits: --yes, the person at the terminal, or nobody.
// rate is the service's requests per second.
func (a *app) approver(ctx context.Context, yes bool, rate float64) func(state.Plan) (bool, error) {
	if yes {
		return func(state.Plan) (bool, error) { return true, nil }
	}
	if a.Unasked() != "" {
		return nil
	}
	return func(p state.Plan) (bool, error) {
		a.Print("Plan %d: %s.", p.ID, summary(p))
		if p.Missing > 0 {
			a.Print("%s", limitsText(&p))
			return a.Asks(ctx, "Let them go?")
		}
		if p.Lost > 0 {
			a.Print("It is a standstill: %s", p.Limits)
			return a.Asks(ctx, "Let these payers go and send it?")
		}
		a.Print("It is above the limits: %s", p.Limits)
		if text := sendingTime(p, rate); text != "" {
			a.Print("%s", text)
		}
		return a.Asks(ctx, "Send it?")
	}
}

func (a *app) showResult(r syncer.Result) error {
	if a.Quiet && !r.News {
		return nil
	}
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	c := r.Counts
	outcome := outcomeText(r)
	end := max(1, strings.IndexAny(outcome+".", ".:;\n"))
	fmt.Fprintf(a.Out, "Run %d of %s: %s%s\n", r.RunID, r.Connection, a.Toned(toneOf(codeOf(r)), outcome[:end]),
		outcome[end:])
	counts := fmt.Sprintf("%d read: %d unchanged, %d created, %d linked, %d updated, %d excluded, %d on hold, %d failed",
		c.Pulled, c.Unchanged, c.Created, c.Adopted, c.Updated, c.Excluded, c.Held, c.Failed)
	if c.Waiting > 0 {
		counts += fmt.Sprintf(", %d still to do", c.Waiting)
	}
	a.Hanging("  ", fmt.Sprintf("%s; %s asked for", counts, connector.Plural(c.LinksRequested, "signing link")))
	if c.Waiting > 0 && r.Outcome != connector.RunAwaitingApproval {
		fmt.Fprintf(a.Out, "  To finish it: payersync sync %s\n", r.Connection)
	}
	if c.OwnEchoes > 0 {
		a.Hanging("  ", fmt.Sprintf("%s changed only by payersync's own write-back (own echo).",
			connector.Plural(c.OwnEchoes, "record")))
	}
	if r.Note != "" && r.Reason == "" { // else the line above says it
		a.Hanging("  ", r.Note)
	}
	if c.Held+c.Failed+r.Attention > 0 {
		fmt.Fprintln(a.Out, "  Some records need attention: payersync attention list")
	}
	return nil
}

// toneOf returns how good an exit code is.
func toneOf(code int) show.Tone {
	switch code {
	case exitDone:
		return show.Good
	case exitAttention, exitApproval, exitThrottled, exitHeld:
		return show.Alert
	}
	return show.Bad
}

func outcomeText(r syncer.Result) string {
	var stands *syncer.Standstill
	switch {
	case r.Outcome == connector.RunAwaitingApproval && r.Plan.WaitsForDecision():
		wait := map[bool]string{true: "waits", false: "wait"}[r.Plan.Creates == 1]
		return fmt.Sprintf("%s of plan %d %s for a person. %s", connector.Plural(r.Plan.Creates, "new customer"), r.Plan.ID,
			wait, limitsText(r.Plan))
	case r.Outcome == connector.RunAwaitingApproval:
		return fmt.Sprintf("plan %d waits for approval. %s\n  payersync plan approve %d", r.Plan.ID, r.Plan.Limits, r.Plan.ID)
	case errors.As(r.Err, &stands):
		return "at a standstill. " + errorText(stands)
	case r.Err == nil && r.Outcome == connector.RunIncomplete && !r.RetryAt.IsZero():
		return fmt.Sprintf("incomplete: %s; run it again at %s to finish the waiting changes", r.Reason, show.Time(r.RetryAt))
	case r.Err == nil && r.Outcome == connector.RunIncomplete && r.Plan != nil && r.Plan.RejectedBy != "":
		return withSteps("incomplete: "+r.Reason, syncer.StepsOfPlan(r.Plan.ID))
	case r.Err == nil && r.Outcome == connector.RunIncomplete && r.Note != "":
		return "incomplete: " + r.Reason
	case r.Err == nil && r.Outcome == connector.RunIncomplete:
		return "incomplete: " + r.Reason + "; run it again to finish the rest"
	case r.Err == nil:
		return string(r.Outcome)
	case errors.Is(r.Err, context.Canceled):
		return "interrupted; run it again to go on"
	case r.RetryAt.IsZero():
		return fmt.Sprintf("%s: %s", r.Outcome, errorText(r.Err))
	case connector.FaultOf(r.Err) == connector.FaultThrottled:
		return fmt.Sprintf("throttled; try again at %s", show.Time(r.RetryAt))
	}
	return fmt.Sprintf("%s: %v; try again at %s", r.Outcome, r.Err, show.Time(r.RetryAt))
}
