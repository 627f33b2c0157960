package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/letters"
)

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
func (a *app) letterPlanOf(ctx context.Context, l *admin.Letters, p *letters.Plan, connection string,
	which func(letters.Next) bool, limit int) (out letterPlan, more bool, err error) {
	out = letterPlan{At: p.At, Opens: l.Desk.Opens(p), Holds: []letterHold{}, Paused: []string{},
		Waits: letterBatch{Hash: p.Batch.Hash, Letters: len(p.Batch.Letters), Why: []string{}}, Count: map[letters.What]int{},
		Why: map[letters.Why]int{}}
	if out.Paused, err = pausesOf(ctx, l); err != nil {
		return out, false, err
	}
	out.Holds = append(out.Holds,
		connector.Map(p.Holds, func(h letters.Hold) letterHold {
			return letterHold{h.Code, h.Connection, h.Text,
				h.Person}
		})...)
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
func eachLetterRow(ctx context.Context, l *admin.Letters, shown []letters.Next, do func(letterRow) error) error {
	for some := range slices.Chunk(shown, lettersAtOnce) {
		named, err := l.Named(ctx, some)
		if err != nil {
			return err
		}
		for _, x := range named {
			row := letterRow{x.Connection, x.SourceID, x.Label.Number, x.Label.Name, x.Label.Email, x.MandateID, x.What, x.Why,
				x.Why.Sentence(), x.Step, x.Kind, "", x.Sent, x.LastAt}
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
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runLettersPlan(cmd, connection, all) },
	}
	c.Flags().StringVar(&connection, "connection", "", "only this connection")
	c.Flags().BoolVar(&all, "all", false, "every payer with an unsigned mandate")
	c.Flags().IntVar(&limit, "limit", 0, "at most so many; 0 for all")
	return c
}

func (a *app) runLettersPlan(cmd *cobra.Command, connection string, all bool) error {
	return a.withLetters(cmd.Context(), a.openLedger, func(s *session.Session, l *admin.Letters) error {
		if err := s.Config.Has(connection); err != nil {
			return err
		}
		p, err := l.Desk.Plan(cmd.Context())
		if err != nil {
			return err
		}
		plan, more, err := a.letterPlanOf(cmd.Context(), l, p, connection, func(x letters.Next) bool {
			return (connection == "" || x.Connection == connection) &&
				(all || x.What == letters.Due || x.What == letters.Waits)
		}, a.limitOf(cmd))
		if err != nil {
			return err
		}
		defer a.printMore(more, a.limitOf(cmd))
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
}

func (a *app) printLetterPlan(ctx context.Context, l *admin.Letters, p letterPlan) error {
	if err := eachLetterRow(ctx, l, p.shown, func(r letterRow) error { return a.printLetterRow(r, false) }); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%s due, %d wait for a person, %d paused, %d later, %d stopped, %d finished.\n",
		connector.Plural(p.Count[letters.Due], "letter"),
		p.Count[letters.Waits], p.Count[letters.Paused], p.Count[letters.Later], p.Count[letters.Stopped],
		p.Count[letters.Finished])
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
		fmt.Fprintf(a.Out, "%s together: %s To see and approve them: payersync letters approve\n",
			waitTogether(p.Waits.Letters), strings.Join(p.Waits.Why, " "))
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
func pausesOf(ctx context.Context, l *admin.Letters) (out []string, err error) {
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
