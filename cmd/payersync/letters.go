package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
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

func (a *app) lettersCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "letters",
		Short: "Write to payers without a signature: due, waiting and stopped letters",
		Long: `If letters.sender is payersync, payersync serve sends the letters: an invitation, then
reminders by letters.steps, each once. The first letters wait for your approval.`,
		Example: "  payersync letters preview --test --to me@harbour.example\n  payersync letters plan\n  payersync letters approve",
	}
	return subcommands(c, a.lettersPlanCmd(), a.lettersApproveCmd(),
		also(also(a.lettersSendCmd(), "again", a.lettersAgainCmd()), "arrived", a.lettersArrivedCmd()),
		also(a.lettersPauseCmd(), "undo", a.lettersResumeCmd()), a.lettersStopCmd(), a.lettersContinueCmd(),
		a.lettersListCmd(), a.lettersShowCmd(),
		also(a.lettersPreviewCmd(), "test", a.lettersTestCmd()), a.lettersBouncedCmd())
}

// deskOf returns the sender of letters by the configuration.
func deskOf(s *session.Session) (*letters.Desk, error) {
	host, _ := os.Hostname() // mail servers do without one
	settings, err := s.Config.LetterSettings(host)
	if err != nil {
		return nil, usage.Mistake{Err: err}
	}
	if valid := s.Config.Billing.LinkValid.Length(); valid > 0 {
		settings.LinkValid = valid
	}
	d := &letters.Desk{Ledger: s.Ledger, Settings: *settings}
	if s.Reconciler != nil {
		d.Reader = s.Reconciler
		d.Renew = func(ctx context.Context, old []state.RecordID) error { return renewLinks(ctx, s, old) }
	}
	return d, nil
}

// lettersOf returns the service for letters.
func lettersOf(s *session.Session) (*admin.Letters, error) {
	d, err := deskOf(s)
	return &admin.Letters{Desk: d, Example: func(kind letters.Kind, language string) (admin.ExampleLetter, error) {
		l, _, err := letterExample{string(kind), language}.write(s.Config)
		return admin.ExampleLetter(l), err
	}}, err
}

// withLetters opens the resources of a letters command.
func (a *app) withLetters(ctx context.Context, open func(context.Context) (*session.Session, error),
	do func(*session.Session, *admin.Letters) error) error {
	return a.with(ctx, open, func(s *session.Session) error {
		l, err := lettersOf(s)
		if err != nil {
			return err
		}
		return do(s, l)
	})
}

// sentReport is the output of `letters send --output json`; its keys are public.
type sentLetters struct {
	Sent      int          `json:"sent"`
	Refused   int          `json:"refused"`
	Deferred  int          `json:"deferred"`
	Unclear   int          `json:"unclear"`
	Kept      int          `json:"kept"`
	Waiting   int          `json:"waiting"`
	Left      int          `json:"left"`
	Abandoned int          `json:"abandoned"`
	Closed    bool         `json:"closed"`
	Holds     []letterHold `json:"holds"`
}

func (a *app) lettersSendCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "send",
		Short: "Send the due letters once",
		Long: `Sends the letters that are due, as payersync serve does every few minutes. It reads
each customer first, and keeps to the window and pace of the configuration. Letters
that do not leave within five minutes wait for the next call. Two processes never send
at the same time.`,
		Example: "  payersync letters send",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runLettersSend(cmd.Context()) },
	}
}

func (a *app) runLettersSend(ctx context.Context) error {
	return a.withLetters(ctx, a.open, func(s *session.Session, l *admin.Letters) error {
		l.Desk.Report = func(e letters.LetterEvent) {
			a.Print("%s/%s: %s %s", show.Visible(e.Connection), show.Visible(e.SourceID), e.Kind, show.Visible(outcomeOf(e)))
		}
		res, err := l.Desk.Run(ctx)
		if errors.Is(err, letters.ErrBusy) {
			a.Print("Another payersync sends letters just now; there is nothing left to do.")
			return nil
		}
		paused, stops := pausesOf(context.WithoutCancel(ctx), l)
		if err := errors.Join(a.showSent(res, paused), err, stops, ctx.Err()); err != nil {
			return err
		}
		return sentExit(res)
	})
}

func outcomeOf(e letters.LetterEvent) string {
	if e.State == "" {
		return "was not sent: " + e.Answer
	}
	return fmt.Sprintf("%s: %s", e.State, e.Answer)
}

// sentExit returns the exit status after sending: whether there is a finding, or a letter waits for approval.
func sentExit(r letters.Counts) error {
	switch {
	case r.Refused+r.Unclear+r.Abandoned > 0:
		return exitError(exitAttention)
	case r.Waiting > 0, slices.ContainsFunc(r.Holds, func(h letters.Hold) bool { return h.Person }):
		return exitError(exitApproval)
	case slices.ContainsFunc(r.Holds, func(h letters.Hold) bool {
		return letterHold{Code: h.Code, Connection: h.Connection}.next() != ""
	}):
		return exitError(exitAttention) // nothing leaves before somebody does something
	}
	return nil
}

func (a *app) showSent(r letters.Counts, paused []string) error {
	if a.JSON() {
		out := sentLetters{r.Sent, r.Refused, r.Deferred, r.Unclear, r.Kept, r.Waiting, r.Left, r.Abandoned, r.Closed,
			[]letterHold{}}
		out.Holds = append(out.Holds,
			connector.Map(r.Holds, func(h letters.Hold) letterHold {
				return letterHold{h.Code, h.Connection, h.Text,
					h.Person}
			})...)
		return show.JSON(a.Out, out)
	}
	if r.Closed {
		_, err := fmt.Fprintf(a.Out, "No letter leaves now: letters.window is closed. %s\n", opensAt(r.Opens, time.Time{}))
		return err
	}
	_, err := fmt.Fprintf(a.Out,
		"%s sent, %d refused, %d put off, %d unclear, %d looked at and not sent; %d wait for a person, %d are left.\n",
		connector.Plural(r.Sent, "letter"), r.Refused, r.Deferred, r.Unclear, r.Kept, r.Waiting, r.Left)
	if r.Abandoned > 0 {
		fmt.Fprintf(a.Out, "payersync stopped before it knew the outcome of %s: payersync letters list --state unclear\n",
			connector.Plural(r.Abandoned, "letter"))
	}
	a.printHolds(r.Holds)
	for _, line := range paused {
		fmt.Fprintln(a.Out, show.Visible(line))
	}
	return err
}

// opensAt says when letters may leave, at a moment.
func opensAt(opens, now time.Time) string {
	switch {
	case opens.IsZero():
		return "letters.window opens on no day of the next two months; check it and letters.holidays."
	case opens.Equal(now):
		return "The window is open now."
	}
	return "The next letter may leave on " + opens.Format("Monday 2 January at 15:04 MST") + "."
}

// dayFlag reads a day in the future.
func (a *app) dayFlag(name, text string) (letters.Day, error) {
	if text == "" {
		return letters.Day{}, nil
	}
	day, err := letters.ParseDay(text)
	if err != nil {
		return day, usage.Errorf("--%s: %v", name, err)
	}
	if letters.DayOf(a.now()).Since(day) >= 0 {
		return day, usage.Errorf("--%s: %s is over, or today; name a day to come", name, day)
	}
	return day, nil
}

// lettersJob is the name of the job for sending letters.
const lettersJob = "letters"

// sendLetters sends the due letters, and logs the results.
func sendLetters(ctx context.Context, s *session.Session) error {
	d, err := deskOf(s)
	if err != nil {
		return err
	}
	d.Report = func(e letters.LetterEvent) {
		s.Log.WithFields(logrus.Fields{"connection": e.Connection, "mandate": e.MandateID, "kind": e.Kind, "state": e.State,
			"answer": e.Answer}).Info("letter")
	}
	res, err := d.Run(ctx)
	if errors.Is(err, letters.ErrBusy) {
		return nil
	}
	level := logrus.DebugLevel
	if res.Sent+res.Refused+res.Deferred+res.Unclear+res.Kept+res.Abandoned > 0 {
		level = logrus.InfoLevel
	}
	s.Log.WithFields(logrus.Fields{"sent": res.Sent, "refused": res.Refused, "deferred": res.Deferred,
		"unclear": res.Unclear, "kept": res.Kept, "waiting": res.Waiting, "left": res.Left}).Log(level, "letters looked for")
	return err
}

// renewLinks fetches links again, as far as nobody has to be asked.
func renewLinks(ctx context.Context, s *session.Session, old []state.RecordID) error {
	payers := make([]state.Payer, len(old))
	for i, id := range old {
		var err error
		if payers[i], err = s.Ledger.Payer(ctx, id.Connection, id.SourceID); err != nil {
			return err
		}
	}
	_, err := mandatesOf(s).Fetch(ctx,
		admin.Fetching{Payers: payers,
			By: syncer.Operator{Name: "schedule", Reason: "their signing links are too old for the next letter"}})
	switch {
	case errors.Is(err, admin.ErrNotAsked):
		return nil // they wait for a person, with a finding
	case err != nil && ctx.Err() == nil:
		s.Log.WithError(err).Warn("old signing links were not fetched again; their letters wait")
		return nil
	}
	return err
}
