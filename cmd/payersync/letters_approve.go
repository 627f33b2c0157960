package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/letters"
	"payersync/connector/syncer"
	"payersync/state"
)

// approvedReport is the output of `letters approve --output json`; its keys are public.
type approvedReport struct {
	Batch    string `json:"batch"`
	Approved int    `json:"approved"`
}

func (a *app) lettersApproveCmd() *cobra.Command {
	var batch, reason, connection string
	var records []string
	var yes bool
	c := &cobra.Command{
		Use:   "approve",
		Short: "Review the waiting letters, and approve exactly these",
		Long: `Lists the letters that wait together, with the reasons and three of them in full, and
approves exactly these. If another letter joins them or an address changes, review
them again. From the next day on, letters leave without approval as long as the
templates, sender, mapping and connection stay the same and no brake is on.

A letter that waits alone, because its recipient is doubtful or it begins anew about
another mandate, needs --record.`,
		Example: "  payersync letters approve\n  payersync letters approve --batch 1f0c66a9f3a1b2c4 --yes\n  payersync letters approve --record C0001 --reason 'two shops, one owner'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runLettersApprove(cmd.Context(), batch, reason, connection, records, yes)
		},
	}
	c.Flags().StringVar(&batch, "batch", "", "the `HASH` of the reviewed letters; without it, those shown now")
	c.Flags().StringSliceVar(&records, "record", nil, "only the letters to these `RECORD`s, whatever they wait for")
	c.Flags().StringVar(&connection, "connection", "", "the connection of the records, if two have one of a name")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&yes, "yes", false, "ask no question")
	return c
}

func (a *app) runLettersApprove(ctx context.Context, batch, reason, connection string, records []string, yes bool,
) error {
	return a.withLetters(ctx, a.openLedger, func(s *session.Session, l *admin.Letters) error {
		by := syncer.Operator{Name: actor(), Reason: reason}
		switch {
		case len(records) > 0 && batch != "":
			return usage.Errorf("--batch names letters that wait together, and --record single ones: give one of the two")
		case len(records) > 0:
			return a.approveAlone(ctx, s, l, records, connection, yes, by)
		}
		return a.approveLetters(ctx, l, batch, yes, by)
	})
}

func (a *app) approveLetters(ctx context.Context, l *admin.Letters, batch string, yes bool, by syncer.Operator) error {
	p, err := l.Desk.Plan(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(p.Batch.Letters) == 0:
		a.Print("No letter waits for approval. payersync letters plan shows due and single waiting letters.")
		return a.Result(approvedReport{})
	case batch != "" && batch != p.Batch.Hash:
		return fmt.Errorf("other letters than those of %s wait now: run payersync letters approve, and review them again",
			show.Visible(batch))
	}
	if !a.JSON() {
		if err := a.printBatch(ctx, l, p.Batch.Letters); err != nil {
			return err
		}
		for _, b := range p.Batch.Why {
			fmt.Fprintln(a.Out, show.Visible(b.Text))
		}
	}
	n := connector.Plural(len(p.Batch.Letters), "letter")
	sure, err := a.Confirms(ctx, yes, n+" would be let go", fmt.Sprintf("Let these %s go (%s)?", n, p.Batch.Hash))
	if err != nil || !sure {
		return err
	}
	approved, err := l.Approve(ctx, p.Batch.Hash, by)
	if errors.Is(err, letters.ErrChanged) {
		return fmt.Errorf("the letters have changed while you looked at them, and none was let go: run payersync letters approve again")
	}
	if err != nil {
		return err
	}
	a.Print("%s may leave while payersync serve runs, %d a minute. %s", connector.Plural(approved, "letter"),
		l.Desk.Settings.PerMinute, opensAt(l.Desk.Opens(p), p.At))
	return a.Result(approvedReport{p.Batch.Hash, approved})
}

// printBatch prints letters, and the first of them in full: one of each kind first.
func (a *app) printBatch(ctx context.Context, l *admin.Letters, batch []letters.Next) error {
	if err := eachLetterRow(ctx, l, batch, func(r letterRow) error { return a.printLetterRow(r, true) }); err != nil ||
		l.Desk.Settings.Templates == nil {
		return err
	}
	for _, x := range admin.Examples(batch) {
		text, err := l.Text(ctx, x)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "\n--- %s to %s/%s ---\n%s\n", x.Kind, show.Visible(x.Connection), show.Visible(x.SourceID),
			inLines(text))
	}
	return nil
}

// inLines returns a text of several lines as it may be shown.
func inLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = show.Visible(line)
	}
	return strings.Join(lines, "\n")
}

func (a *app) approveAlone(ctx context.Context, s *session.Session, l *admin.Letters, names []string,
	connection string, yes bool, by syncer.Operator) error {
	p, err := l.Desk.Plan(ctx)
	if err != nil {
		return err
	}
	var ids []state.RecordID
	for _, name := range names {
		id, err := oneRecord(ctx, s, name, connection)
		if err != nil {
			return err
		}
		if len(p.Alone([]state.RecordID{id}).Letters) == 0 {
			return fmt.Errorf("no letter to %s waits for a person; payersync letters plan --all shows why", show.Visible(name))
		}
		ids = append(ids, id)
	}
	waiting := p.Alone(ids)
	if !a.JSON() {
		if err := a.printBatch(ctx, l, waiting.Letters); err != nil {
			return err
		}
	}
	n := connector.Plural(len(waiting.Letters), "letter")
	sure, err := a.Confirms(ctx, yes, n+" would be let go", fmt.Sprintf("Let %s go?", n))
	if err != nil || !sure {
		return err
	}
	approved, err := l.ApproveAlone(ctx, ids, waiting.Hash, strings.Join(names, ", "), by)
	if errors.Is(err, letters.ErrChanged) {
		return errors.New("the letters have changed while you looked at them, and none was let go: run the same command again")
	}
	if err != nil {
		return err
	}
	a.Print("%s may leave.", connector.Plural(approved, "letter"))
	return a.Result(approvedReport{waiting.Hash, approved})
}
