package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

// lastWord holds the flags of commands by which a person ends findings.
type lastWord struct {
	decision
	code       string // all records with this reason
	connection string
}

func (w *lastWord) flags(c *cobra.Command) {
	c.Flags().StringVar(&w.reason, "reason", "", "why, for the audit log")
	c.Flags().StringVar(&w.code, "reason-code", "", "every record that needs attention for this reason code; asks before")
	c.Flags().StringVar(&w.connection, "connection", "",
		"the records' connection; needed if several connections have the record")
	c.Flags().BoolVar(&w.yes, "yes", false, "ask no question")
}

// check returns the mistakes in the call of a command. codes are the reasons ended by it.
func (w *lastWord) check(args []string, name string, codes []connector.Reason) error {
	switch {
	case strings.TrimSpace(w.reason) == "":
		doing := map[string]string{"close": "closing takes a reason: --reason 'it pays until March'",
			"give-up":        "giving up takes a reason: --reason 'a test record'",
			"give-up --undo": "taking it back takes a reason: --reason 'it pays after all'"}[name]
		return usage.Errorf("%s", doing)
	case (len(args) > 0) == (w.code != ""):
		return usage.Errorf("name records, or one reason code: payersync attention %s C0002 C0003, or payersync attention %[1]s --reason-code %s", name, codes[0])
	}
	return oneOf("reason-code", w.code, codes...)
}

// records returns the records of a command, and whether a person wants it for all of them. Without named
// records it lists them and asks.
func (a *app) records(ctx context.Context, s *session.Session, w lastWord, args []string,
	does string) ([]state.RecordID, bool, error) {
	if err := s.Config.Has(w.connection); err != nil {
		return nil, false, err
	}
	var found []state.RecordID
	if w.code == "" {
		for _, id := range args {
			r, err := oneRecord(ctx, s, id, w.connection)
			if err != nil {
				return nil, false, err
			}
			found = append(found, r)
		}
		return found, true, nil
	}
	told, err := s.Ledger.Attention(ctx, state.Filter{Connection: w.connection, State: w.code})
	if err != nil {
		return nil, false, err
	}
	for _, t := range told {
		found = append(found, state.RecordID{Connection: t.Connection, SourceID: t.SourceID})
	}
	if len(found) == 0 {
		return nil, true, nil
	}
	if err := a.sayRecords(ctx, s, found); err != nil {
		return nil, false, err
	}
	sure, err := a.Confirms(ctx, w.yes,
		fmt.Sprintf("cannot %s %s without a yes, so nothing was noted", does, connector.Plural(len(found), "record")),
		fmt.Sprintf("%s%s all %s?", strings.ToUpper(does[:1]), does[1:], connector.Plural(len(found), "record")))
	if err == nil && !sure {
		a.Print("Nothing was noted.")
	}
	return found, sure, err
}

// mostShown is how many records are named before a question about all of them.
const mostShown = 50

// sayRecords lists records, with their names if they can be read.
func (a *app) sayRecords(ctx context.Context, s *session.Session, all []state.RecordID) error {
	first := all[:min(mostShown, len(all))]
	known, err := s.Ledger.LabelsOf(ctx, first)
	if err != nil {
		return err
	}
	for _, id := range first {
		a.Print("  %s", show.Visible(strings.TrimSpace(id.Connection+" "+id.SourceID+" "+known[id].Name)))
	}
	if more := len(all) - len(first); more > 0 {
		a.Print("  … and %d more", more)
	}
	return nil
}

// wordReport is the commands' output for each record a person decided on.
type wordReport struct {
	Connection string `json:"connection"`
	SourceID   string `json:"source_id"`
	MandateID  string `json:"mandate_id"`
	Before     bool   `json:"said_before"`
}

func (a *app) attentionCloseCmd() *cobra.Command {
	var w lastWord
	c := &cobra.Command{
		Use:   "close ID… --reason TEXT",
		Args:  cobra.ArbitraryArgs,
		Short: "Close findings about a payer: you know of them, and nothing is to be done",
		Long: `Closes findings about payers. Name a payer by source id, key value, billing id or
mandate id.

- Removed record (left_with_mandate, record_gone): the payer may stay with its
mandate. payersync reports it again when the record returns and is removed once more,
or when another mandate appears.
- Mandate (mandate_cancelled, status_unknown, link_lost, link_refused): nothing is to
be done, for example because you want no new mandate. payersync reports it again when
the mandate, its status or the last request for a signing link changes.
- Webhook subscription (write webhooks in place of a payer): you know the problem.

Nothing is sent, and the mandates stay as they are. The audit log keeps your name and
the reason. payersync attention list --closed shows closed findings. With
--reason-code the command lists all findings with that code and asks before it closes
them. To connect a record never, use payersync attention close --give-up. Other findings end
when you correct their cause: payersync attention show names the ways.`,
		Example: "  payersync attention close C0002 C0003 --reason 'they pay until March'\n  payersync attention close --reason-code mandate_cancelled --reason 'they pay by card now'",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runAttentionClose(cmd.Context(), args, w) },
	}
	w.flags(c)
	return c
}

func (a *app) runAttentionClose(ctx context.Context, args []string, w lastWord) error {
	if err := w.check(args, "close", closable()); err != nil {
		return err
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		if slices.Equal(args, []string{admin.Subscription}) {
			return a.closeSubscription(ctx, s, w.reason)
		}
		found, sure, err := a.records(ctx, s, w, args, "close")
		if err != nil || !sure {
			return err
		}
		for _, id := range found {
			if err := a.closeOne(ctx, s, id, w.reason); err != nil {
				return err
			}
		}
		return nil
	})
}

// closable are the reasons that a decision on a payer ends.
func closable() []connector.Reason {
	return slices.DeleteFunc(reasons(), func(r connector.Reason) bool { return !syncer.Closable(r) })
}

func (a *app) closeOne(ctx context.Context, s *session.Session, id state.RecordID, reason string) error {
	w, sure, err := a.act(ctx, s, admin.Decision{Act: connector.ActClose, Record: id}, asksInWalk, reason, false)
	switch {
	case errors.Is(err, syncer.ErrNothingToClose):
		return fmt.Errorf("cannot close findings about %s: %w; payersync attention show %[1]s names the ways",
			show.Visible(id.SourceID), syncer.ErrNothingToClose)
	case err != nil:
		return fmt.Errorf("cannot close findings about %s: %w", show.Visible(id.SourceID), err)
	case !sure:
		return nil
	}
	mandate := "It has no mandate."
	if w.MandateID != "" {
		mandate = fmt.Sprintf("Its mandate %s stays as it is.", show.Visible(w.MandateID))
	}
	if w.News {
		a.Print("Closed for record %s. %s", show.Visible(id.SourceID), mandate)
	} else {
		a.Print("Closed for record %s before. %s", show.Visible(id.SourceID), mandate)
	}
	return a.Result(wordReport{id.Connection, id.SourceID, w.MandateID, !w.News})
}

func (a *app) closeSubscription(ctx context.Context, s *session.Session, reason string) error {
	w, sure, err := a.act(ctx, s, admin.Decision{Act: connector.ActCloseSubscription}, asksInWalk, reason, false)
	switch {
	case err != nil:
		return fmt.Errorf("cannot close the finding about the webhook subscription: %w", err)
	case !sure:
		return nil
	case w.News:
		a.Print("Closed for the webhook subscription. Until it is back, the sweep alone finds changes.")
	default:
		a.Print("Closed for the webhook subscription before.")
	}
	return a.Result(wordReport{"", admin.Subscription, "", !w.News})
}

func (a *app) attentionGiveUpCmd() *cobra.Command {
	var w lastWord
	undo := false
	c := &cobra.Command{
		Use:   "give-up ID… --reason TEXT",
		Args:  cobra.ArbitraryArgs,
		Short: "Give records up: payersync sends nothing for them",
		Long: `Gives records up. Name them by source id, key value, billing id or mandate id.
payersync excludes them from now on, drops their planned changes, and sends nothing
more. Nothing is removed: a customer and a mandate stay as they are. payersync still
knows of requests that may arrive later. It decides anew on records with the same key,
and on their matches.

If the mapping makes other values of a record later, payersync reports it
(given_up_changed), and still sends nothing. Then give it up once more, or use --undo.
The audit log keeps your name and the reason. payersync attention list --closed shows
the records. With --reason-code the command lists all findings with that code and asks
before it gives their records up.`,
		Example: "  payersync attention close --give-up C0003 --reason 'a test record'\n  payersync attention close --give-up --reason-code email_malformed --reason 'they pay in cash'\n  payersync attention close --give-up C0003 --undo --reason 'it pays after all'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runAttentionGiveUp(cmd.Context(), args, w, undo)
		},
	}
	w.flags(c)
	c.Flags().BoolVar(&undo, "undo", false, "take the word back: the next sync decides on the record again")
	return c
}

func (a *app) runAttentionGiveUp(ctx context.Context, args []string, w lastWord, undo bool) error {
	name := "give-up"
	if undo {
		name += " --undo"
	}
	if err := w.check(args, name, givenUpFor()); err != nil {
		return err
	}
	if undo && w.code != "" && w.code != string(connector.ReasonGivenUpChanged) {
		return usage.Errorf("with --undo the reason code is %s: the one of records given up",
			connector.ReasonGivenUpChanged)
	}
	return a.with(ctx, a.mappingSession, func(s *session.Session) error {
		does := "give up"
		if undo {
			does = "take up again"
		}
		found, sure, err := a.records(ctx, s, w, args, does)
		if err != nil || !sure {
			return err
		}
		return connector.Each(found,
			func(id state.RecordID) error { return a.giveUp(ctx, s, id, undo, w.reason) })
	})
}

// givenUpFor are the reasons that giving a record up ends.
func givenUpFor() []connector.Reason {
	return slices.DeleteFunc(reasons(), func(r connector.Reason) bool {
		return !slices.ContainsFunc(r.Ways(),
			func(w connector.Way) bool { return w.Act == connector.ActGiveUp || w.Act == connector.ActTakeUp })
	})
}

func (a *app) giveUp(ctx context.Context, s *session.Session, of state.RecordID, undo bool, reason string) error {
	act := connector.ActGiveUp
	if undo {
		act = connector.ActTakeUp
	}
	w, sure, err := a.act(ctx, s, admin.Decision{Act: act, Record: of}, asksInWalk, reason, false)
	id := show.Visible(of.SourceID)
	switch {
	case errors.Is(err, syncer.ErrLeftOut):
		return fmt.Errorf("cannot give up %s: %w; payersync attention close closes its findings", id, err)
	case err != nil:
		return fmt.Errorf("cannot give up %s: %w", id, err)
	case !sure:
		return nil
	case undo && w.News:
		a.Print("Record %s is no longer given up. The next sync decides on it.", id)
	case undo:
		a.Print("Record %s is not given up.", id)
	case w.News:
		a.Print("Record %s is given up. Nothing more is sent for it.", id)
	default:
		a.Print("Record %s was given up before.", id)
	}
	if w.MandateID != "" && w.News && !undo {
		a.Print("  Its mandate %s stays as it is.", show.Visible(w.MandateID))
	}
	return a.Result(wordReport{of.Connection, of.SourceID, w.MandateID, !w.News})
}

func (a *app) listClosed(ctx context.Context, s *session.Session, f state.Filter) error {
	if err := s.Config.Has(f.Connection); err != nil {
		return err
	}
	rows, err := s.Ledger.Closed(ctx, state.RecordID{Connection: f.Connection}, oneMore(f.Limit))
	if err != nil {
		return err
	}
	rows, more := upTo(rows, f.Limit)
	defer a.printMore(more, f.Limit)
	var records []state.RecordID
	for _, r := range rows {
		if r.Connection != "" && !a.JSON() { // JSON has no names
			records = append(records, state.RecordID{Connection: r.Connection, SourceID: r.SourceID})
		}
	}
	known, err := a.labelsOf(ctx, s, records)
	if err != nil {
		return err
	}
	type row = state.ClosedRow
	list := show.Listing[row]{Columns: []show.Column[row]{
		{Name: "connection", Title: "Connection", Cell: func(r row) string { return r.Connection }},
		{Name: "source_id", Title: "Record", Cell: func(r row) string { return r.SourceID }},
		{Name: "name", Title: "Name", Cell: func(r row) string {
			return known[state.RecordID{Connection: r.Connection, SourceID: r.SourceID}].Name
		}, Sparse: true},
		{Name: "decision", Title: "Decision", Cell: func(r row) string { return closedMeaning[r.Kind] }},
		show.StoredMoment("at", "Since", func(r row) string { return r.At }),
		{Name: "by", Title: "By", Cell: func(r row) string { return r.By }},
		{Name: "why", Title: "Why", Cell: func(r row) string { return r.Why }},
	}}
	return list.On(a.Console).Print(rows)
}

// closedMeaning describes the meaning of a person's decision.
var closedMeaning = map[state.ClosedKind]string{
	state.ClosedGivenUp:      "given up: payersync excludes it",
	state.ClosedStays:        "its record has left, and it may stay as it is",
	state.ClosedMandate:      "nothing is to be done about its mandate",
	state.ClosedSubscription: "the problem of the webhook subscription is known",
}
