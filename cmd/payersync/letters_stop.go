package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/letters"
	"payersync/connector/mail"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) lettersPauseCmd() *cobra.Command {
	var until, connection, reason string
	c := &cobra.Command{
		Use:   "pause",
		Short: "Pause all letters, or those of a connection",
		Long: `Stops all letters from now until the day of --until, or until payersync mandates
letters resume. No letters pile up: payersync skips the missed steps.`,
		Example: "  payersync letters pause\n  payersync letters pause --until 2027-01-04 --connection acme --reason 'price change'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runLettersPause(cmd, until, connection, reason)
		},
	}
	c.Flags().StringVar(&until, "until", "",
		"the first `DATE` on which they leave again; without it until they are resumed")
	c.Flags().StringVar(&connection, "connection", "", "only this connection")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

func (a *app) runLettersPause(cmd *cobra.Command, until, connection, reason string) error {
	day, err := a.dayFlag("until", until)
	if err != nil {
		return err
	}
	return a.withLetters(cmd.Context(), a.openLedger, func(s *session.Session, l *admin.Letters) error {
		if err := s.Config.Has(connection); err != nil {
			return err
		}
		if err := l.Pause(cmd.Context(), connection, day, syncer.Operator{Name: actor(), Reason: reason}); err != nil {
			return err
		}
		a.Print("Letters %s are paused%s. To go on: payersync letters pause --undo", ofConnection(connection), untilDay(day))
		return a.Result(map[string]string{"connection": connection, "until": dayText(day)})
	})
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

// printOptOut says that the sender of the token gets no more letters.
func (a *app) printOptOut(said state.OptingOut) error {
	if said.News {
		a.Print("The recipient of the letter with this token gets no more of them. --undo with the record takes that back.")
	} else {
		a.Print("That was noted before.")
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
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runLettersResume(cmd, connection, reason) },
	}
	c.Flags().StringVar(&connection, "connection", "", "the pause of this connection; without it, of all")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

func (a *app) runLettersResume(cmd *cobra.Command, connection, reason string) error {
	return a.withLetters(cmd.Context(), a.openLedger, func(s *session.Session, l *admin.Letters) error {
		if err := s.Config.Has(connection); err != nil {
			return err
		}
		n, err := l.Resume(cmd.Context(), connection, syncer.Operator{Name: actor(), Reason: reason})
		if err != nil {
			return err
		}
		if n == 0 {
			a.Print("Letters %s were not paused.", ofConnection(connection))
		} else {
			a.Print("Letters %s leave again. Missed steps are not made up for.", ofConnection(connection))
		}
		return a.Result(map[string]int{"resumed": n})
	})
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
			return a.runLettersStop(cmd, args, until, note, connection, undo)
		},
	}
	c.Flags().StringVar(&until, "until", "", "the first `DATE` on which letters leave again; without it never")
	c.Flags().StringVar(&note, "note", "", "why, for colleagues and the audit log")
	c.Flags().StringVar(&connection, "connection", "", "the connection of the record, if two have one of this name")
	c.Flags().BoolVar(&undo, "undo", false, "take back all stops of the letters")
	return c
}

func (a *app) runLettersStop(cmd *cobra.Command, args []string, until, note, connection string, undo bool) error {
	day, err := a.dayFlag("until", until)
	if err != nil {
		return err
	}
	return a.withLetters(cmd.Context(), a.openLedger, func(s *session.Session, _ *admin.Letters) error {
		if token := strings.TrimPrefix(args[0], "stop "); !undo {
			said, err := s.Ledger.OptOut(cmd.Context(), token)
			if err != nil || said.Known {
				return errors.Join(err, a.printOptOut(said))
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
		of := admin.Decision{Act: connector.ActStopLetters, Record: id, Address: address, Until: day}
		if undo {
			of.Act = connector.ActAllowLetters
		}
		out, _, err := a.act(cmd.Context(), s, of, asksInWalk, note, false)
		if err != nil {
			return err
		}
		if undo {
			a.Print("%s taken back.", connector.Plural(out.Count, "stop"))
			return a.Result(map[string]int{"taken_back": out.Count})
		}
		a.Print("No letter goes there any more%s. --undo takes that back.", untilDay(day))
		return a.Result(map[string]string{"until": dayText(day)})
	})
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
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runLettersContinue(cmd, reason, lost) },
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&lost, "journal-lost", false, "the journal of another node is lost: begin a new one")
	return c
}

func (a *app) runLettersContinue(cmd *cobra.Command, reason string, lost bool) error {
	if strings.TrimSpace(reason) == "" {
		return usage.Errorf("going on takes a reason: --reason 'restored after the disk failed'")
	}
	return a.withLetters(cmd.Context(), a.openLedger, func(_ *session.Session, l *admin.Letters) error {
		l.Desk.JournalLost = lost
		n, err := l.Continue(cmd.Context(), syncer.Operator{Name: actor(), Reason: reason})
		if errors.Is(err, letters.ErrBusy) {
			return errors.New("another payersync sends letters just now; try again in a few minutes")
		}
		if err != nil {
			return err
		}
		a.Print("Letters go on, and the next ones wait for your approval: payersync letters approve. The journal had %s unknown to the ledger.", connector.Plural(n, "letter"))
		return a.Result(map[string]int{"learnt": n})
	})
}
