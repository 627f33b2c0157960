package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/admin"
	"payersync/connector/letters"
	"payersync/connector/syncer"
	"payersync/state"
)

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
	return keptLetter{l.ID, l.Connection, l.SourceID, l.MandateID, l.Step, l.Kind, l.State, l.MessageID, l.Attempts,
		l.SendingAt, l.EndedAt, l.Answer, l.Word}
}

var letterStates = []state.MessageState{state.MessageFrozen, state.MessageSending, state.MessageSent,
	state.MessageRefused, state.MessageDeferred, state.MessageUnclear, state.MessageVoid}

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
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runLettersList(cmd, in, connection) },
	}
	c.Flags().StringVar(&in, "state", "", "only these: "+joined(letterStates))
	c.Flags().StringVar(&connection, "connection", "", "only this connection")
	c.Flags().IntVar(&limit, "limit", 0, "at most so many; 0 for all")
	return asCSV(c)
}

func (a *app) runLettersList(cmd *cobra.Command, in, connection string) error {
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
		defer a.printMore(most > 0 && len(rows) > most, most)
		if most > 0 && len(rows) > most {
			rows = rows[:most]
		}
		return letterListing().On(a.Console).Print(rows)
	})
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
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runLettersShow(cmd.Context(), args) },
	}
}

func (a *app) runLettersShow(ctx context.Context, args []string) error {
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		l, err := oneLetter(ctx, s, args[0])
		if err != nil {
			return err
		}
		if err := admin.Audit(ctx, s.Ledger, state.Entry{Actor: actor(), Action: "show letter", Subject: fmt.Sprint(l.ID)}); err != nil {
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
			a.Print("Its text is kept no longer.")
			return nil
		}
		_, err = fmt.Fprintf(a.Out, "\n%s\n", inLines(letters.Readable([]byte(message))))
		return err
	})
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
		Use: word + " LETTER", Short: short, Long: long + " The audit log keeps who said so.",
		Example: "  payersync letters list --state unclear\n  payersync letters " + call + " 12",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withLetters(cmd.Context(), a.openLedger, func(s *session.Session, l *admin.Letters) error {
				letter, err := oneLetter(cmd.Context(), s, args[0])
				if err != nil {
					return err
				}
				err = l.DecideOnLetter(cmd.Context(), letter.ID, word, syncer.Operator{Name: actor()})
				if errors.Is(err, state.ErrNotUnclear) {
					return fmt.Errorf("letter %d is %s, and needs no decision; payersync letters list --state unclear shows those that do", letter.ID, letter.State)
				}
				if err != nil {
					return err
				}
				a.Print("%s", done)
				return a.Result(map[string]string{"letter": fmt.Sprint(letter.ID), "word": word})
			})
		},
	}
}
