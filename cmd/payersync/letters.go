package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/letters"
	"payersync/connector/mail"
	"payersync/connector/office"
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
	return subcommands(c, a.lettersPlanCmd(), a.lettersApproveCmd(), also(also(a.lettersSendCmd(), "again", a.lettersAgainCmd()), "arrived", a.lettersArrivedCmd()),
		also(a.lettersPauseCmd(), "undo", a.lettersResumeCmd()), a.lettersStopCmd(), a.lettersContinueCmd(), a.lettersListCmd(), a.lettersShowCmd(),
		also(a.lettersPreviewCmd(), "test", a.lettersTestCmd()), a.lettersBouncedCmd())
}

// deskOf returns the sender of letters by the configuration.
func deskOf(s *session.Session) (*letters.Desk, error) {
	host, _ := os.Hostname() // mail servers do without one
	settings, err := s.Config.LetterSettings(host)
	if err != nil {
		return nil, usage.Error{Err: err}
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
func lettersOf(s *session.Session) (*office.Letters, error) {
	d, err := deskOf(s)
	return &office.Letters{Desk: d, Example: func(kind letters.Kind, language string) (office.ExampleLetter, error) {
		l, _, err := letterExample{string(kind), language}.write(s.Config)
		return office.ExampleLetter(l), err
	}}, err
}

// withLetters opens the resources of a letters command.
func (a *app) withLetters(ctx context.Context, open func(context.Context) (*session.Session, error), do func(*session.Session, *office.Letters) error) error {
	return a.with(ctx, open, func(s *session.Session) error {
		l, err := lettersOf(s)
		if err != nil {
			return err
		}
		return do(s, l)
	})
}

// letterRow is a payer with its next letter as `letters plan` prints it; its keys are public.
type letterRow struct {
	Connection string       `json:"connection"`
	SourceID   string       `json:"source_id"`
	Number     string       `json:"number"`
	Name       string       `json:"-"`
	Email      string       `json:"-"`
	MandateID  string       `json:"mandate_id"`
	What       letters.What `json:"what"`
	Why        letters.Why  `json:"why"`
	Sentence   string       `json:"sentence"`
	Step       int          `json:"step"`
	Kind       letters.Kind `json:"kind"`
	On         string       `json:"on"`
	Sent       int          `json:"sent"`
	LastAt     time.Time    `json:"last_at,omitzero"`
}

// letterPlan is the output of `letters plan --output json`; its keys are public.
type letterPlan struct {
	At     time.Time            `json:"at"`
	Opens  time.Time            `json:"opens,omitzero"` // from then on letters may leave
	Holds  []letterHold         `json:"holds"`
	Paused []string             `json:"paused"`
	Waits  letterBatch          `json:"waits_together"`
	Count  map[letters.What]int `json:"count"`
	Why    map[letters.Why]int  `json:"why"`
	shown  []letters.Next       // the last member, letters
}

type letterHold struct {
	Code       letters.HoldCode `json:"code"`
	Connection string           `json:"connection"`
	Sentence   string           `json:"sentence"`
	Continue   bool             `json:"continue"` // a person has to say payersync letters continue
}

type letterBatch struct {
	Hash    string   `json:"hash"`
	Letters int      `json:"letters"`
	Why     []string `json:"why"`
}

// letterPlanOf returns the plan's letters for display.
func (a *app) letterPlanOf(ctx context.Context, l *office.Letters, p *letters.Plan, connection string, which func(letters.Next) bool, limit int) (out letterPlan, more bool, err error) {
	out = letterPlan{At: p.At, Opens: l.Desk.Opens(p), Holds: []letterHold{}, Paused: []string{}, Waits: letterBatch{Hash: p.Batch.Hash, Letters: len(p.Batch.Letters), Why: []string{}}, Count: map[letters.What]int{}, Why: map[letters.Why]int{}}
	if out.Paused, err = pausesOf(ctx, l); err != nil {
		return out, false, err
	}
	out.Holds = append(out.Holds, connector.Map(p.Holds, func(h letters.Hold) letterHold { return letterHold{h.Code, h.Connection, h.Text, h.Person} })...)
	out.Waits.Why = append(out.Waits.Why, connector.Map(p.Batch.Why, func(b letters.Brake) string { return b.Text })...)
	for _, x := range p.Next {
		if connection != "" && x.Connection != connection {
			continue
		}
		out.Count[x.What]++
		if x.Why != "" {
			out.Why[x.Why]++
		}
	}
	out.shown = slices.DeleteFunc(p.Next, func(x letters.Next) bool { return !which(x) })
	if more = limit > 0 && len(out.shown) > limit; more {
		out.shown = out.shown[:limit]
	}
	return out, more, nil
}

// lettersAtOnce is of how many letters the labels are read at a time.
const lettersAtOnce = 500

// eachLetterRow passes on the rows of letters, one by one.
func eachLetterRow(ctx context.Context, l *office.Letters, shown []letters.Next, do func(letterRow) error) error {
	for some := range slices.Chunk(shown, lettersAtOnce) {
		named, err := l.Named(ctx, some)
		if err != nil {
			return err
		}
		for _, x := range named {
			row := letterRow{x.Connection, x.SourceID, x.Label.Number, x.Label.Name, x.Label.Email, x.MandateID, x.What, x.Why, x.Why.Sentence(), x.Step, x.Kind, "", x.Sent, x.LastAt}
			if x.On != (letters.Day{}) {
				row.On = x.On.String()
			}
			if err := do(row); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *app) lettersPlanCmd() *cobra.Command {
	var connection string
	var all bool
	var limit int
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show the letters due, the letters that wait for approval, and the reasons for the rest",
		Long: `Shows the letters due today, the letters that wait for approval, and the reasons why
letters do not leave. --all lists every payer with an unsigned mandate, with the
reason why its next letter is not due. The command asks, changes and sends nothing.`,
		Example: "  payersync letters plan\n  payersync letters plan --all --output json | jq '.why'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLetters(cmd.Context(), a.openLedger, func(s *session.Session, l *office.Letters) error {
				if err := s.Config.Has(connection); err != nil {
					return err
				}
				p, err := l.Desk.Look(cmd.Context())
				if err != nil {
					return err
				}
				plan, more, err := a.letterPlanOf(cmd.Context(), l, p, connection, func(x letters.Next) bool {
					return (connection == "" || x.Connection == connection) && (all || x.What == letters.Due || x.What == letters.Waits)
				}, a.limitOf(cmd))
				if err != nil {
					return err
				}
				defer a.tellMore(more, a.limitOf(cmd))
				if a.JSON() {
					out := show.NewList(a.Out)
					out.Open(plan)
					out.List("letters", func() error {
						return eachLetterRow(cmd.Context(), l, plan.shown, func(r letterRow) error { return out.Element(r) })
					})
					return out.Close()
				}
				return a.printLetterPlan(cmd.Context(), l, plan)
			})
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "only this connection")
	c.Flags().BoolVar(&all, "all", false, "every payer with an unsigned mandate")
	c.Flags().IntVar(&limit, "limit", 0, "at most so many; 0 for all")
	return c
}

func (a *app) printLetterPlan(ctx context.Context, l *office.Letters, p letterPlan) error {
	if err := eachLetterRow(ctx, l, p.shown, func(r letterRow) error { return a.printLetterRow(r, false) }); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%s due, %d wait for a person, %d paused, %d later, %d stopped, %d finished.\n", connector.Plural(p.Count[letters.Due], "letter"),
		p.Count[letters.Waits], p.Count[letters.Paused], p.Count[letters.Later], p.Count[letters.Stopped], p.Count[letters.Finished])
	if p.Count[letters.Due] > 0 && len(p.Holds) == 0 && !p.Opens.Equal(p.At) {
		fmt.Fprintln(a.Out, opensAt(p.Opens, p.At))
	}
	for _, h := range p.Holds {
		a.printHold(h)
	}
	for _, s := range p.Paused {
		fmt.Fprintln(a.Out, show.Visible(s))
	}
	if p.Waits.Letters > 0 {
		fmt.Fprintf(a.Out, "%s together: %s To see and approve them: payersync letters approve\n", waitTogether(p.Waits.Letters), strings.Join(p.Waits.Why, " "))
	}
	return nil
}

func (a *app) printHolds(holds []letters.Hold) {
	for _, h := range holds {
		a.printHold(letterHold{h.Code, h.Connection, h.Text, h.Person})
	}
}

func (a *app) printHold(h letterHold) {
	line := "Nothing leaves"
	if h.Connection != "" {
		line += " to payers of " + h.Connection
	}
	line += ": " + h.Sentence
	if next := h.next(); next != "" {
		line += " " + next
	}
	fmt.Fprintln(a.Out, show.Visible(line))
}

// next says how letters can leave again; "" if the configuration stops them.
func (h letterHold) next() string {
	switch {
	case h.Continue:
		return "To go on: payersync letters continue --reason TEXT"
	case h.Code == letters.HoldUnclear:
		return "List them with payersync letters list --state unclear. Then decide on each. If it arrived: payersync letters send --arrived LETTER. To send it again: payersync letters send --again LETTER."
	case h.Code == letters.HoldJournal:
		return "How nodes share the folder: payersync help many-machines"
	case h.Code == letters.HoldLinks:
		return "To add it: letters.link_hosts in the configuration"
	case h.Code == letters.HoldMapping:
		return "To see where: payersync mapping check " + h.Connection
	case h.Code == letters.HoldSource:
		return "To read them: payersync sync " + h.Connection
	case h.Code == letters.HoldSweep:
		return "To read it: payersync sweep"
	}
	return ""
}

// pausesOf lists the pauses of all letters, or of a connection's, that last until somebody takes it back.
func pausesOf(ctx context.Context, l *office.Letters) (out []string, err error) {
	stops, err := l.Pauses(ctx)
	for _, stop := range stops {
		line, resume := "Letters "+ofConnection(stop.Connection)+" are paused", "payersync letters pause --undo"
		if stop.UntilOn != "" {
			line += " until " + stop.UntilOn
		}
		if stop.Note != "" {
			line += ": " + strings.TrimSuffix(stop.Note, ".")
		}
		if stop.Connection != "" {
			resume += " --connection " + stop.Connection
		}
		out = append(out, line+". To go on: "+resume)
	}
	return out, err
}

func waitTogether(n int) string {
	if n == 1 {
		return "1 letter waits"
	}
	return fmt.Sprintf("%d letters wait", n)
}

// printLetterRow prints the line of a letter, with its address if a person approves it.
func (a *app) printLetterRow(r letterRow, addressed bool) error {
	name := strings.TrimSpace(r.Number + " " + r.Name)
	if addressed {
		name += " <" + r.Email + ">"
	}
	line := fmt.Sprintf("%-8s %-13s %s/%s  %s", r.What, r.Kind, r.Connection, r.SourceID, name)
	if r.What != letters.Due {
		line += "  (" + r.Sentence + ")"
	}
	_, err := fmt.Fprintln(a.Out, show.Visible(strings.TrimRight(line, " ")))
	return err
}

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
			return a.withLetters(cmd.Context(), a.openLedger, func(s *session.Session, l *office.Letters) error {
				by := syncer.Operator{Name: actor(), Reason: reason}
				switch {
				case len(records) > 0 && batch != "":
					return usage.Errorf("--batch names letters that wait together, and --record single ones: give one of the two")
				case len(records) > 0:
					return a.approveAlone(cmd.Context(), s, l, records, connection, yes, by)
				}
				return a.approveLetters(cmd.Context(), l, batch, yes, by)
			})
		},
	}
	c.Flags().StringVar(&batch, "batch", "", "the `HASH` of the reviewed letters; without it, those shown now")
	c.Flags().StringSliceVar(&records, "record", nil, "only the letters to these `RECORD`s, whatever they wait for")
	c.Flags().StringVar(&connection, "connection", "", "the connection of the records, if two have one of a name")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&yes, "yes", false, "ask no question")
	return c
}

func (a *app) approveLetters(ctx context.Context, l *office.Letters, batch string, yes bool, by syncer.Operator) error {
	p, err := l.Desk.Look(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(p.Batch.Letters) == 0:
		a.Say("No letter waits for approval. payersync letters plan shows due and single waiting letters.")
		return a.Result(approvedReport{})
	case batch != "" && batch != p.Batch.Hash:
		return fmt.Errorf("other letters than those of %s wait now: run payersync letters approve, and review them again", show.Visible(batch))
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
	a.Say("%s may leave while payersync serve runs, %d a minute. %s", connector.Plural(approved, "letter"), l.Desk.Settings.PerMinute, opensAt(l.Desk.Opens(p), p.At))
	return a.Result(approvedReport{p.Batch.Hash, approved})
}

// printBatch prints letters, and the first of them in full: one of each kind first.
func (a *app) printBatch(ctx context.Context, l *office.Letters, batch []letters.Next) error {
	if err := eachLetterRow(ctx, l, batch, func(r letterRow) error { return a.printLetterRow(r, true) }); err != nil || l.Desk.Settings.Templates == nil {
		return err
	}
	for _, x := range office.Examples(batch) {
		text, err := l.Text(ctx, x)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "\n--- %s to %s/%s ---\n%s\n", x.Kind, show.Visible(x.Connection), show.Visible(x.SourceID), inLines(text))
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

func (a *app) approveAlone(ctx context.Context, s *session.Session, l *office.Letters, names []string, connection string, yes bool, by syncer.Operator) error {
	p, err := l.Desk.Look(ctx)
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
	a.Say("%s may leave.", connector.Plural(approved, "letter"))
	return a.Result(approvedReport{waiting.Hash, approved})
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLetters(cmd.Context(), a.open, func(s *session.Session, l *office.Letters) error {
				l.Desk.Report = func(e letters.Event) {
					a.Say("%s/%s: %s %s", show.Visible(e.Connection), show.Visible(e.SourceID), e.Kind, show.Visible(outcomeOf(e)))
				}
				res, err := l.Desk.Run(cmd.Context())
				if errors.Is(err, letters.ErrBusy) {
					a.Say("Another payersync sends letters just now; there is nothing left to do.")
					return nil
				}
				paused, stops := pausesOf(context.WithoutCancel(cmd.Context()), l)
				if err := errors.Join(a.showSent(res, paused), err, stops, cmd.Context().Err()); err != nil {
					return err
				}
				return sentExit(res)
			})
		},
	}
}

func outcomeOf(e letters.Event) string {
	if e.State == "" {
		return "was not sent: " + e.Answer
	}
	return fmt.Sprintf("%s: %s", e.State, e.Answer)
}

// sentExit returns the exit status after sending: whether there is a finding, or a letter waits for approval.
func sentExit(r letters.Result) error {
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

func (a *app) showSent(r letters.Result, paused []string) error {
	if a.JSON() {
		out := sentLetters{r.Sent, r.Refused, r.Deferred, r.Unclear, r.Kept, r.Waiting, r.Left, r.Abandoned, r.Closed, []letterHold{}}
		out.Holds = append(out.Holds, connector.Map(r.Holds, func(h letters.Hold) letterHold { return letterHold{h.Code, h.Connection, h.Text, h.Person} })...)
		return show.JSON(a.Out, out)
	}
	if r.Closed {
		_, err := fmt.Fprintf(a.Out, "No letter leaves now: letters.window is closed. %s\n", opensAt(r.Opens, time.Time{}))
		return err
	}
	_, err := fmt.Fprintf(a.Out, "%s sent, %d refused, %d put off, %d unclear, %d looked at and not sent; %d wait for a person, %d are left.\n",
		connector.Plural(r.Sent, "letter"), r.Refused, r.Deferred, r.Unclear, r.Kept, r.Waiting, r.Left)
	if r.Abandoned > 0 {
		fmt.Fprintf(a.Out, "payersync stopped before it knew the outcome of %s: payersync letters list --state unclear\n", connector.Plural(r.Abandoned, "letter"))
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

func (a *app) lettersPauseCmd() *cobra.Command {
	var until, connection, reason string
	c := &cobra.Command{
		Use:   "pause",
		Short: "Pause all letters, or those of a connection",
		Long: `Stops all letters from now until the day of --until, or until payersync mandates
letters resume. No letters pile up: payersync skips the missed steps.`,
		Example: "  payersync letters pause\n  payersync letters pause --until 2027-01-04 --connection acme --reason 'price change'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			day, err := a.dayFlag("until", until)
			if err != nil {
				return err
			}
			return a.withLetters(cmd.Context(), a.openLedger, func(s *session.Session, l *office.Letters) error {
				if err := s.Config.Has(connection); err != nil {
					return err
				}
				if err := l.Pause(cmd.Context(), connection, day, syncer.Operator{Name: actor(), Reason: reason}); err != nil {
					return err
				}
				a.Say("Letters %s are paused%s. To go on: payersync letters pause --undo", ofConnection(connection), untilDay(day))
				return a.Result(map[string]string{"connection": connection, "until": dayText(day)})
			})
		},
	}
	c.Flags().StringVar(&until, "until", "", "the first `DATE` on which they leave again; without it until they are resumed")
	c.Flags().StringVar(&connection, "connection", "", "only this connection")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

func ofConnection(connection string) string {
	if connection == "" {
		return "to everybody"
	}
	return "of " + show.Visible(connection)
}

func untilDay(d letters.Day) string {
	if d == (letters.Day{}) {
		return ""
	}
	return " until " + d.String()
}

// toldOptOut says that the sender of the token gets no more letters.
func (a *app) toldOptOut(said state.OptingOut) error {
	if said.News {
		a.Say("The recipient of the letter with this token gets no more of them. --undo with the record takes that back.")
	} else {
		a.Say("That was noted before.")
	}
	return a.Result(map[string]bool{"news": said.News})
}

func dayText(d letters.Day) string {
	if d == (letters.Day{}) {
		return ""
	}
	return d.String()
}

func (a *app) lettersResumeCmd() *cobra.Command {
	var connection, reason string
	c := &cobra.Command{
		Use:     "resume",
		Short:   "Resume letters after a pause or a brake",
		Example: "  payersync letters pause --undo\n  payersync letters pause --undo --connection acme",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLetters(cmd.Context(), a.openLedger, func(s *session.Session, l *office.Letters) error {
				if err := s.Config.Has(connection); err != nil {
					return err
				}
				n, err := l.Resume(cmd.Context(), connection, syncer.Operator{Name: actor(), Reason: reason})
				if err != nil {
					return err
				}
				if n == 0 {
					a.Say("Letters %s were not paused.", ofConnection(connection))
				} else {
					a.Say("Letters %s leave again. Missed steps are not made up for.", ofConnection(connection))
				}
				return a.Result(map[string]int{"resumed": n})
			})
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "the pause of this connection; without it, of all")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

func (a *app) lettersStopCmd() *cobra.Command {
	var until, note, connection string
	var undo bool
	c := &cobra.Command{
		Use:   "stop RECORD",
		Short: "Stop the letters to one payer, or to one e-mail address",
		Long: `Stops letters to one payer, or to one address if you name an address, until the day of
--until or for ever. You may also give the subject of a recipient's e-mail with "stop"
and a token. The command then notes that the recipient wants no more letters. --undo
removes all stops of the payer or address, also a recipient's own and those for an
address that does not exist. The audit log keeps your name; an address is kept as a
hash.`,
		Example: "  payersync letters stop C0001 --note 'asked on the telephone'\n  payersync letters stop jo@shop.example --until 2027-01-04\n  payersync letters stop C0001 --undo",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			day, err := a.dayFlag("until", until)
			if err != nil {
				return err
			}
			return a.withLetters(cmd.Context(), a.openLedger, func(s *session.Session, l *office.Letters) error {
				if token := strings.TrimPrefix(args[0], "stop "); !undo {
					said, err := s.Ledger.OptOut(cmd.Context(), token)
					if err != nil || said.Known {
						return errors.Join(err, a.toldOptOut(said))
					}
				}
				id, address := state.RecordID{}, ""
				if strings.Contains(args[0], "@") {
					address = args[0]
				} else if id, err = oneRecord(cmd.Context(), s, args[0], connection); err != nil {
					return err
				}
				if address != "" && mail.CheckAddress(address) != nil {
					return usage.Errorf("%q is no e-mail address, and no record: name one of the two", show.Visible(address))
				}
				if undo {
					n, err := a.unstop(cmd.Context(), s, l, id, address, note)
					if err != nil {
						return err
					}
					a.Say("%s taken back.", connector.Plural(n, "stop"))
					return a.Result(map[string]int{"taken_back": n})
				}
				if address != "" {
					err = l.Desk.Stop(cmd.Context(), id, address, day, state.Entry{Actor: actor(), Action: "stop letters", Subject: "an address", Reason: note})
				} else {
					_, _, err = a.act(cmd.Context(), s, office.Decision{Act: connector.ActStopLetters, Record: id, Until: day}, asksInWalk, note, false)
				}
				if err != nil {
					return err
				}
				a.Say("No letter goes there any more%s. --undo takes that back.", untilDay(day))
				return a.Result(map[string]string{"until": dayText(day)})
			})
		},
	}
	c.Flags().StringVar(&until, "until", "", "the first `DATE` on which letters leave again; without it never")
	c.Flags().StringVar(&note, "note", "", "why, for colleagues and the audit log")
	c.Flags().StringVar(&connection, "connection", "", "the connection of the record, if two have one of this name")
	c.Flags().BoolVar(&undo, "undo", false, "take back all stops of the letters")
	return c
}

// unstop ends the stops of the letters to a payer, or to an address, and returns how many there were.
func (a *app) unstop(ctx context.Context, s *session.Session, l *office.Letters, id state.RecordID, address, note string) (int, error) {
	if address != "" {
		return l.Desk.Unstop(ctx, id, address, state.Entry{Actor: actor(), Action: "let letters go again", Subject: "an address", Reason: note})
	}
	out, _, err := a.act(ctx, s, office.Decision{Act: connector.ActAllowLetters, Record: id}, asksInWalk, note, false)
	return out.Count, err
}

func (a *app) lettersContinueCmd() *cobra.Command {
	var reason string
	var lost bool
	c := &cobra.Command{
		Use:   "continue --reason TEXT",
		Short: "Resume letters after a restore, a lost journal or a clock change",
		Long: `Some events stop all letters until you resume them: a restored ledger, if the journal
of letters is missing or differs, and a jump of the clock. First read payersync
letters plan. Letters in the journal that the ledger does not know count as
sent from then on. You must approve the next letters.

Nodes of one database share the journal. A node without it refuses while another node
has written it within a day. Mount the shared folder there. Only if you have lost that
folder, begin a new journal from the data of the database with --journal-lost.
payersync may then repeat letters known only to the lost journal, so read the next
letters before you approve them.`,
		Example: "  payersync letters continue --reason 'restored after the disk failed'\n  payersync letters continue --journal-lost --reason 'the shared volume is gone'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(reason) == "" {
				return usage.Errorf("going on takes a reason: --reason 'restored after the disk failed'")
			}
			return a.withLetters(cmd.Context(), a.openLedger, func(_ *session.Session, l *office.Letters) error {
				l.Desk.JournalLost = lost
				n, err := l.Continue(cmd.Context(), syncer.Operator{Name: actor(), Reason: reason})
				if errors.Is(err, letters.ErrBusy) {
					return errors.New("another payersync sends letters just now; try again in a few minutes")
				}
				if err != nil {
					return err
				}
				a.Say("Letters go on, and the next ones wait for your approval: payersync letters approve. The journal had %s unknown to the ledger.", connector.Plural(n, "letter"))
				return a.Result(map[string]int{"learnt": n})
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&lost, "journal-lost", false, "the journal of another node is lost: begin a new one")
	return c
}

// keptLetter is a letter as `letters list` prints it; its keys are public.
type keptLetter struct {
	ID         int64              `json:"letter"`
	Connection string             `json:"connection"`
	SourceID   string             `json:"source_id"`
	MandateID  string             `json:"mandate_id"`
	Step       int                `json:"step"`
	Kind       string             `json:"kind"`
	State      state.MessageState `json:"state"`
	MessageID  string             `json:"message_id"`
	Attempts   int                `json:"attempts"`
	SendingAt  time.Time          `json:"sending_at,omitzero"`
	EndedAt    time.Time          `json:"ended_at,omitzero"`
	Answer     string             `json:"answer"`
	Word       string             `json:"word"`
}

func keptOf(l state.Letter) keptLetter {
	return keptLetter{l.ID, l.Connection, l.SourceID, l.MandateID, l.Step, l.Kind, l.State, l.MessageID, l.Attempts, l.SendingAt, l.EndedAt, l.Answer, l.Word}
}

var letterStates = []state.MessageState{state.MessageFrozen, state.MessageSending, state.MessageSent, state.MessageRefused, state.MessageDeferred, state.MessageUnclear, state.MessageVoid}

func (a *app) lettersListCmd() *cobra.Command {
	var in, connection string
	var limit int
	c := &cobra.Command{
		Use:   "list",
		Short: "List the letters, the newest first",
		Long: `Lists the letters with their outcomes. An unclear letter may or may not have arrived,
and payersync never repeats it by itself. If it arrived, say so with payersync
letters send --arrived. To send it once more, use payersync letters send --again.`,
		Example: "  payersync letters list --state unclear\n  payersync letters list --output json | jq 'select(.state == \"refused\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in != "" {
				if err := oneOf("state", in, letterStates...); err != nil {
					return err
				}
			}
			return a.with(cmd.Context(), a.openReport, func(s *session.Session) error {
				if err := s.Config.Has(connection); err != nil {
					return err
				}
				var rows []keptLetter
				if err := s.Ledger.EachLetter(cmd.Context(), state.MessageState(in), func(l state.Letter) error {
					if connection == "" || l.Connection == connection {
						rows = append(rows, keptOf(l))
					}
					return nil
				}); err != nil {
					return err
				}
				slices.Reverse(rows)
				most := a.limitOf(cmd)
				defer a.tellMore(most > 0 && len(rows) > most, most)
				if most > 0 && len(rows) > most {
					rows = rows[:most]
				}
				return letterListing().On(a.Console).Print(rows)
			})
		},
	}
	c.Flags().StringVar(&in, "state", "", "only these: "+joined(letterStates))
	c.Flags().StringVar(&connection, "connection", "", "only this connection")
	c.Flags().IntVar(&limit, "limit", 0, "at most so many; 0 for all")
	return asCSV(c)
}

func letterListing() *show.Listing[keptLetter] {
	type row = keptLetter
	return &show.Listing[row]{Empty: "There is no such letter.", Columns: []show.Column[row]{
		show.Number("letter", "Letter", func(l row) int64 { return l.ID }),
		{Name: "state", Title: "State", Cell: func(l row) string { return string(l.State) }},
		{Name: "kind", Title: "Kind", Cell: func(l row) string { return l.Kind }},
		{Name: "connection", Title: "Connection", Cell: func(l row) string { return l.Connection }},
		{Name: "source_id", Title: "Record", Cell: func(l row) string { return l.SourceID }},
		{Name: "mandate_id", Cell: func(l row) string { return l.MandateID }},
		show.Moment("sending_at", "Sent", func(l row) time.Time { return l.SendingAt }),
		show.Moment("ended_at", "Ended", func(l row) time.Time { return l.EndedAt }),
		{Name: "answer", Title: "Answer", Cell: func(l row) string { return l.Answer }, Sparse: true},
	}}
}

// oneLetter returns the letter of an argument.
func oneLetter(ctx context.Context, s *session.Session, text string) (*state.Letter, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, usage.Errorf("%q is no number of a letter; payersync letters list shows them", text)
	}
	l, err := s.Ledger.LetterByID(ctx, id)
	if err == nil && l == nil {
		err = fmt.Errorf("there is no letter %d; payersync letters list shows them", id)
	}
	return l, err
}

func (a *app) lettersShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show LETTER",
		Short: "Show one sent letter with its outcome",
		Long: `Shows a letter by its number. Its text contains the signing link, and its owner can
sign with it: the audit log keeps your name. The text is kept for 90 days.`,
		Example: "  payersync letters show 12",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
				l, err := oneLetter(cmd.Context(), s, args[0])
				if err != nil {
					return err
				}
				if err := s.Ledger.Do(cmd.Context(), func(tx *state.Tx) error {
					return tx.Audit(state.Entry{Actor: actor(), Action: "show letter", Subject: fmt.Sprint(l.ID)})
				}); err != nil {
					return err
				}
				_, message, _ := strings.Cut(string(l.Body), "\n")
				if a.JSON() {
					return show.JSON(a.Out, struct {
						keptLetter
						Text string `json:"text"`
					}{keptOf(*l), message})
				}
				if err := letterListing().On(a.Console).Print([]keptLetter{keptOf(*l)}); err != nil {
					return err
				}
				if message == "" {
					a.Say("Its text is kept no longer.")
					return nil
				}
				_, err = fmt.Fprintf(a.Out, "\n%s\n", inLines(letters.Readable([]byte(message))))
				return err
			})
		},
	}
}

func (a *app) lettersArrivedCmd() *cobra.Command {
	return a.lettersWordCmd("send --arrived", "Note that an unclear letter has arrived", state.WordArrived,
		`Notes that an unclear letter arrived, for example because the payer or the log of the
mail server says so.`, "It counts as sent.")
}

func (a *app) lettersAgainCmd() *cobra.Command {
	return a.lettersWordCmd("send --again", "Have an unclear letter sent once more", state.WordAgain,
		`Sends a letter once more. Its outcome was unclear, or the mail server refused or
deferred it too often. The payer may get it twice. payersync first reads the customer,
as for any letter.`, "It is sent once more when its turn comes.")
}

func (a *app) lettersWordCmd(call, short, word, long, done string) *cobra.Command {
	return &cobra.Command{
		Use: word + " LETTER", Short: short, Long: long + " The audit log keeps who said so.", Example: "  payersync letters list --state unclear\n  payersync letters " + call + " 12",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withLetters(cmd.Context(), a.openLedger, func(s *session.Session, l *office.Letters) error {
				letter, err := oneLetter(cmd.Context(), s, args[0])
				if err != nil {
					return err
				}
				err = l.Say(cmd.Context(), letter.ID, word, syncer.Operator{Name: actor()})
				if errors.Is(err, state.ErrNotUnclear) {
					return fmt.Errorf("letter %d is %s, and needs no decision; payersync letters list --state unclear shows those that do", letter.ID, letter.State)
				}
				if err != nil {
					return err
				}
				a.Say("%s", done)
				return a.Result(map[string]string{"letter": fmt.Sprint(letter.ID), "word": word})
			})
		},
	}
}

// lettersJob is the name of the job for sending letters.
const lettersJob = "letters"

// sendLetters sends the due letters, and logs the results.
func sendLetters(ctx context.Context, s *session.Session) error {
	d, err := deskOf(s)
	if err != nil {
		return err
	}
	d.Report = func(e letters.Event) {
		s.Log.WithFields(logrus.Fields{"connection": e.Connection, "mandate": e.MandateID, "kind": e.Kind, "state": e.State, "answer": e.Answer}).Info("letter")
	}
	res, err := d.Run(ctx)
	if errors.Is(err, letters.ErrBusy) {
		return nil
	}
	level := logrus.DebugLevel
	if res.Sent+res.Refused+res.Deferred+res.Unclear+res.Kept+res.Abandoned > 0 {
		level = logrus.InfoLevel
	}
	s.Log.WithFields(logrus.Fields{"sent": res.Sent, "refused": res.Refused, "deferred": res.Deferred, "unclear": res.Unclear, "kept": res.Kept, "waiting": res.Waiting, "left": res.Left}).Log(level, "letters looked for")
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
	_, err := mandatesOf(s).Fetch(ctx, office.Fetching{Payers: payers, By: syncer.Operator{Name: "schedule", Reason: "their signing links are too old for the next letter"}})
	switch {
	case errors.Is(err, office.ErrNotAsked):
		return nil // they wait for a person, with a finding
	case err != nil && ctx.Err() == nil:
		s.Log.WithError(err).Warn("old signing links were not fetched again; their letters wait")
		return nil
	}
	return err
}
