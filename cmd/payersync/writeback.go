package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/admin"
	"payersync/connector/outbox"
	"payersync/connector/syncer"
	"payersync/connector/writeback"
)

func (a *app) writebackCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "writeback",
		Short: "Write the status of mandates back into one field of the accounting system",
		Long: `Writes none, asked, signed, active or cancelled into one field, named by the
connection's key writeback, or sends it to another system. It goes one way, and is off
without that key.`,
		Example: "  payersync writeback plan\n  payersync writeback approve 3f2a91c07be4d512\n  payersync writeback run",
	}
	return shows(subcommands(c, a.writebackPlanCmd(), a.writebackApproveCmd(), a.writebackRunCmd(), a.writebackTakeCmd()),
		a.writebackStatusCmd())
}

// writebacksOf returns the planned writes of all connections.
func writebacksOf(s *session.Session) *admin.Writebacks {
	open := func(ctx context.Context, name string) (writeback.Target, error) {
		c, err := s.Config.One(name)
		if err != nil {
			return writeback.Target{}, err
		}
		return s.OpenWriter(ctx, c)
	}
	return &admin.Writebacks{Ledger: s.Ledger, Open: open}
}

// writers opens the writers of the connections with a write-back: of one by its name, or of all.
func writers(ctx context.Context, s *session.Session, name string) ([]writeback.Target, error) {
	if name != "" {
		if err := s.Config.Has(name); err != nil {
			return nil, err
		}
	}
	var out []writeback.Target
	for _, c := range s.Config.Connections {
		switch {
		case name != "" && c.Name != name:
		case c.Writeback != nil:
			w, err := s.OpenWriter(ctx, c)
			if err != nil {
				return nil, err
			}
			out = append(out, w)
		case name != "":
			return nil, usage.Errorf("the connection %s writes nothing back: it has no key writeback; add one, as payersync help sources shows", name)
		}
	}
	return out, nil
}

// eachWriter calls do for every connection with a write-back, and says so if there is none.
func (a *app) eachWriter(ctx context.Context, s *session.Session, name string,
	do func(writeback.Target) error) error {
	all, err := writers(ctx, s, name)
	if err == nil && len(all) == 0 {
		a.Print("No connection writes back: none has the key writeback.")
	}
	if err := connector.Each(all, func(w writeback.Target) error { return do(w) }); err != nil {
		return err
	}
	return err
}

// shownWrites is how many payers a plan shows, and reads the fields of.
const shownWrites = 50

// writeRow is a payer in the output of `writeback plan`; its keys are public.
type writeRow struct {
	Connection string                `json:"connection"`
	SourceID   string                `json:"source_id"`
	Key        string                `json:"key"`
	MandateID  string                `json:"mandate_id"`
	From       connector.FieldStatus `json:"from"`
	To         connector.FieldStatus `json:"to"`
	Doing      writeback.Doing       `json:"doing"`
	Why        string                `json:"why"`
	Holds      *string               `json:"holds"` // the field's present value; null if not read
	Becomes    *string               `json:"becomes"`
}

// writePlan is a connection in `writeback plan`, before its writes; its keys are public.
type writePlan struct {
	Connection string `json:"connection"`
	Setup      string `json:"setup"`
	Payers     int    `json:"payers"`
	Due        int    `json:"due"`
	Waiting    int    `json:"waiting"`
	Stuck      int    `json:"stuck"`
	Why        string `json:"why"`
	Batch      string `json:"batch"`
}

func (a *app) writebackPlanCmd() *cobra.Command {
	connection := ""
	c := &cobra.Command{
		Use:   "plan [--connection NAME]",
		Short: "Show the planned writes, before and after, and write nothing",
		Long: fmt.Sprintf(`Shows the planned value for every payer with an outdated field, and the reason for
each value that is not written. It reads the present value of the first %d fields, if
the system can be read. Approve the waiting writes with the hash at the end.`, shownWrites),
		Example: "  payersync writeback plan\n  payersync writeback plan --connection acme --output json",
		RunE: a.runs(a.open, func(ctx context.Context, s *session.Session, _ []string) error {
			return a.eachWriter(ctx, s, connection, func(w writeback.Target) error { return a.showWritePlan(ctx, s, w) })
		}),
	}
	c.Flags().StringVar(&connection, "connection", "", "only the connection with this `NAME`")
	return c
}

func (a *app) showWritePlan(ctx context.Context, s *session.Session, w writeback.Target) error {
	var first []writeback.Item
	p, err := writeback.MakePlan(ctx, s.Ledger, w, func(i writeback.Item) {
		if len(first) < shownWrites {
			first = append(first, i)
		}
	})
	if err != nil {
		return err
	}
	out := writePlan{p.Connection, w.Writer.Setup(), p.Payers, p.Count(writeback.Due), p.Count(writeback.Waits), p.Stuck(),
		p.Why, p.Batch}
	shown, err := w.Show(ctx, s.Ledger, connector.Map(first, func(i writeback.Item) writeback.Item { return i.In(p) }))
	if err != nil {
		return fmt.Errorf("cannot read the fields of %s: %w; payersync check tells more", w.Name, err)
	}
	rows := connector.Map(shown, writeRowOf)
	if a.JSON() {
		return a.writeWritePlan(ctx, s, w, p, out, rows)
	}
	return a.printWritePlan(out, rows, p.Items())
}

func writeRowOf(i writeback.Shown) writeRow {
	return writeRow{Connection: i.Connection, SourceID: i.SourceID, Key: i.Key.Value, MandateID: i.MandateID,
		From: i.Applied, To: i.To, Doing: i.Doing, Why: i.Why, Holds: i.Holds, Becomes: i.Becomes}
}

// writeWritePlan writes a plan as JSON, payer by payer: rows are the first of them, with their fields'
// values.
func (a *app) writeWritePlan(ctx context.Context, s *session.Session, w writeback.Target, p writeback.Plan,
	figures writePlan, rows []writeRow) error {
	out := show.NewList(a.Out)
	out.Open(figures)
	out.List("writes", func() error {
		last, failed := "", error(nil)
		write := func(r writeRow) {
			if failed == nil {
				failed = out.Element(r)
			}
		}
		for _, r := range rows {
			last = r.SourceID
			write(r)
		}
		_, err := writeback.MakePlan(ctx, s.Ledger, w, func(i writeback.Item) {
			if i.SourceID > last {
				write(writeRowOf(writeback.Shown{Item: i.In(p)}))
			}
		})
		return errors.Join(err, failed)
	})
	return out.Close()
}

// printWritePlan prints a plan of so many writes, and the first of them.
func (a *app) printWritePlan(p writePlan, first []writeRow, writes int) error {
	fmt.Fprintf(a.Out, "%s  %s\n", p.Connection, show.Visible(p.Setup))
	if writes == 0 {
		fmt.Fprintf(a.Out, "  Every field says what it should, of %s.\n", connector.Plural(p.Payers, "payer"))
		return nil
	}
	rows := [][]string{}
	for _, r := range first {
		holds, becomes := "", string(r.To)
		if r.Holds != nil {
			holds = fmt.Sprintf("%q", *r.Holds)
		}
		if r.Becomes != nil {
			becomes = fmt.Sprintf("%q", *r.Becomes)
		}
		if r.Holds != nil && r.Becomes == nil || r.Doing.Stuck() {
			becomes = ""
		}
		rows = append(rows, []string{show.Visible(r.SourceID), show.Visible(r.Key), string(r.From), string(r.To),
			show.Visible(holds), show.Visible(becomes), strings.TrimSpace(string(r.Doing) + " " + show.Visible(r.Why))})
	}
	a.Rows([]string{"record", "key", "written", "status", "field holds", "becomes", "what is done"}, rows)
	if more := writes - len(rows); more > 0 {
		fmt.Fprintf(a.Out, "… and %d more; --output json has all of them.\n", more)
	}
	if p.Due > 0 {
		fmt.Fprintf(a.Out, "The next run writes to %s: payersync writeback run --connection %s\n",
			connector.Plural(p.Due, "payer"), p.Connection)
	}
	if p.Batch != "" {
		fmt.Fprintf(a.Out, "%s %s. Let exactly these go: payersync writeback approve %s\n", p.Why, waitFor(p.Waiting),
			p.Batch)
	}
	return nil
}

func waitFor(n int) string {
	if n == 1 {
		return "1 payer waits"
	}
	return fmt.Sprintf("%d payers wait", n)
}

func (a *app) writebackApproveCmd() *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use:   "approve BATCH [--reason TEXT]",
		Short: "Approve the waiting writes, exactly as shown in a plan",
		Long: `Approves the waiting writes of payersync writeback plan, by the hash at its end. If
they have changed, it approves nothing.`,
		Example: "  payersync writeback plan\n  payersync writeback approve 3f2a91c07be4d512 --reason \"looked at ten of them\"",
		Args:    cobra.ExactArgs(1),
		RunE: a.runs(a.openLedger, func(ctx context.Context, s *session.Session, args []string) error {
			return a.approveWrites(ctx, s, args[0], reason)
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "`TEXT` for the audit log")
	return c
}

func (a *app) approveWrites(ctx context.Context, s *session.Session, batch, reason string) error {
	desk := writebacksOf(s)
	for _, c := range s.Config.Connections {
		n, err := desk.Approve(ctx, c.Name, batch, actor(), reason)
		if errors.Is(err, admin.ErrWritesChanged) || errors.Is(err, admin.ErrNothingWaits) ||
			errors.Is(err, admin.ErrNoWriteback) {
			continue
		}
		if err != nil {
			return err
		}
		a.Print("%s may be written to. The next run does: payersync writeback run --connection %s",
			connector.Plural(n, "payer"), c.Name)
		return a.Result(map[string]any{"connection": c.Name, "batch": batch, "payers": n})
	}
	return fmt.Errorf("cannot approve %s: %w, or nothing waits; payersync writeback plan shows the waiting writes",
		show.Visible(batch), admin.ErrWritesChanged)
}

func (a *app) writebackRunCmd() *cobra.Command {
	connection := ""
	c := &cobra.Command{
		Use:   "run [--connection NAME]",
		Short: "Write the due statuses, and find out the outcome of earlier writes",
		Long: `Writes the statuses that are due. It reads the field right before, if the system can
be read, and keeps a value of somebody else. First writes, and large numbers of
writes, wait for approval.

payersync serve does this by schedules.writeback; use this command if you start
commands by cron. Exit status: 3 if a payer needs attention, 4 if writes wait for
approval.`,
		Example: "  payersync writeback run\n  payersync sweep; payersync writeback run --connection acme",
		RunE: a.runs(a.open, func(ctx context.Context, s *session.Session, _ []string) error {
			code := exitDone
			err := a.eachWriter(ctx, s, connection, func(w writeback.Target) error {
				one, err := a.writeBack(ctx, s, w)
				code = worse(code, one)
				return err
			})
			if err == nil && code != exitDone {
				return exitError(code)
			}
			return err
		}),
	}
	c.Flags().StringVar(&connection, "connection", "", "only the connection with this `NAME`")
	return c
}

// writeBack makes one run for a watching person, and returns its exit code.
func (a *app) writeBack(ctx context.Context, s *session.Session, w writeback.Target) (int, error) {
	progress := show.NewProgress(a.ErrOut, a.now)
	run := writeback.Run{Target: w, Ledger: s.Ledger,
		Progress: func(done, of int) { progress.Show(syncer.Progress{Stage: "writes", Done: done, Total: of}) }}
	r, err := run.Do(ctx)
	progress.End()
	if errors.Is(err, outbox.ErrBusy) {
		a.Print("%s: %s; there is nothing left to do.", w.Name, err)
		return exitDone, nil
	}
	if err != nil {
		return exitFailed, err
	}
	if a.JSON() {
		err = show.JSON(a.Out, r)
	} else {
		a.printWritten(r)
	}
	switch {
	case ctx.Err() != nil:
		return exitInterrupted, err
	case r.Err != nil:
		return exitFailed, err
	case r.Waiting > 0:
		return exitApproval, err
	case r.Stuck > 0:
		return exitAttention, err
	}
	return exitDone, err
}

func (a *app) printWritten(r writeback.Result) {
	line := fmt.Sprintf("%s written", connector.Plural(r.Written, "status"))
	for _, part := range []struct {
		n    int
		text string
	}{{r.Already, "%d said so already"}, {r.Theirs, "%d left to other people's values"}, {r.Refused, "%d refused"},
		{r.Later, "%d later"}} {
		if part.n > 0 {
			line += ", " + fmt.Sprintf(part.text, part.n)
		}
	}
	a.Hanging(r.Connection+"  ", line+".")
	if r.Waiting > 0 {
		a.Hanging("  ", fmt.Sprintf("%s %s: payersync writeback plan --connection %s", r.Why, waitFor(r.Waiting),
			r.Connection))
	}
	if r.Stuck > 0 {
		a.Hanging("  ", fmt.Sprintf("Attention needed for %s: payersync writeback --connection %s",
			connector.Plural(r.Stuck, "payer"), r.Connection))
	}
	if r.Problem != "" {
		a.Hanging("  ", "It ended early: "+show.Visible(r.Problem)+".")
	}
}

// writeProber is a writer with a test that writes nothing.
type writeProber interface {
	Probe(ctx context.Context) accounting.Probe
}

// checkWriteback tests the write-back of each connection.
func checkWriteback(ctx context.Context, s *session.Session, c config.Connection) []finding {
	if c.Writeback == nil {
		return nil
	}
	ctx, done := context.WithTimeout(ctx, checkPatience)
	defer done()
	name := "write-back " + c.Name
	w, err := s.OpenWriter(ctx, c)
	if err != nil {
		return []finding{tell(name, "", err)}
	}
	p, err := writeback.MakePlan(ctx, s.Ledger, w, nil)
	if err != nil {
		return []finding{tell(name, "", err)}
	}
	found := tell(name, w.Writer.Setup(), nil)
	if prober, can := w.Writer.(writeProber); can {
		probe := prober.Probe(ctx)
		found = finding{Check: name, OK: probe.OK, Detail: probe.Detail}
		if !probe.OK {
			found.Next = "put the connection's key writeback right, or the rights of its user, then payersync writeback plan --connection " + c.Name
		}
	}
	if n := p.Count(writeback.Waits); found.OK && n > 0 {
		found.Warning, found.Next = true,
			fmt.Sprintf("%s for approval: payersync writeback plan --connection %s", waitFor(n), c.Name)
	}
	return []finding{found}
}
