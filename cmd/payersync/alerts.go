package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/alarm"
	"payersync/connector/health"
	"payersync/connector/letters"
	"payersync/connector/mail"
	"payersync/connector/outbox"
	"payersync/connector/transport"
	"payersync/connector/webhook"
	"payersync/state"
)

func (a *app) alertsCmd() *cobra.Command {
	c := &cobra.Command{
		Use:     "alerts",
		Short:   "Show open problems and sent alarms, and test the ways to send them",
		Example: "  payersync alerts list\n  payersync alerts test office",
	}
	return subcommands(c, a.alertsListCmd(), a.alertsTestCmd(), a.alertsSendCmd())
}

// expected is the state expected by the configuration.
func (a *app) expected(s *session.Session) health.Expected {
	e := health.Expected{
		Jobs: a.jobs(s), Webhooks: s.Config.Billing.Webhook != nil,
		Letters: s.Config.Letters.Sender == string(letters.SenderPayersync), Time: show.Time,
		Has: func(connection string) bool { return s.Config.Has(connection) == nil }, ReliesOn: s.Config.ReliesOn,
		Writes: s.Config.WritesTo,
		Knows:  eventPaths(s).Known,
		TwoWay: s.Config.FindsTwoWay, Command: stepCommand,
	}
	e.Ways = append(e.Ways, connector.Map(s.Config.Alerts.Ways, func(w config.AlertWay) string { return w.Name })...)
	return e
}

// toldRow is an alarm sent to a way about a condition.
type toldRow struct {
	Way       string    `json:"way"`
	NoticedAt time.Time `json:"noticed_at"`
	ToldAt    time.Time `json:"told_at,omitzero"` // when the message was made; zero while it is to be told
	SentAt    time.Time `json:"sent_at,omitzero"` // when it was taken; zero while it waits
}

// alertRow is a condition in `alerts list --output json`; its keys are public.
type alertRow struct {
	health.Condition
	Told []toldRow `json:"told"`
}

func (a *app) alertsListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the open problems, their begin, and the ways that sent an alarm",
		Long: `Lists every open problem, also those without an alarm, and the ways in alerts.ways
that sent one.`,
		Example: "  payersync alerts list\n  payersync alerts list --output json | jq 'select(.urgent)'",
		RunE: a.runs(a.openReport, func(ctx context.Context, s *session.Session, _ []string) error {
			rows, err := a.alertRows(ctx, s)
			if err != nil {
				return err
			}
			if a.JSON() {
				return show.Lines(a.Out, rows)
			}
			a.printAlerts(rows)
			return nil
		}),
	}
}

func (a *app) alertRows(ctx context.Context, s *session.Session) ([]alertRow, error) {
	found, err := health.Present(ctx, s.Ledger, a.expected(s))
	if err != nil {
		return nil, err
	}
	open, err := s.Ledger.OpenAlarms(ctx)
	if err != nil {
		return nil, err
	}
	told := map[[2]string][]toldRow{}
	for _, o := range open {
		if o.OverAt.IsZero() {
			told[[2]string{o.Code, o.Subject}] = append(told[[2]string{o.Code, o.Subject}],
				toldRow{o.Way, o.NoticedAt, o.MadeAt, o.SentAt})
		}
	}
	rows := make([]alertRow, len(found))
	for i, c := range found {
		rows[i] = alertRow{c, told[[2]string{string(c.Code), c.Subject}]}
		if rows[i].Told == nil {
			rows[i].Told = []toldRow{}
		}
	}
	return rows, nil
}

func (a *app) printAlerts(rows []alertRow) {
	if len(rows) == 0 {
		a.Print("No problem is open.")
	}
	for i, r := range rows {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		lead := string(r.Code)
		if r.Urgent {
			lead = a.Toned(show.Bad, lead)
		}
		fmt.Fprintf(a.Out, "%s  %s\n", lead, show.Visible(r.Sentence))
		if !r.Since.IsZero() {
			fmt.Fprintf(a.Out, "  since    %s\n", show.Time(r.Since))
		}
		if next := strings.TrimSpace(r.Next + " " + strings.Join(r.Commands, " · ")); next != "" {
			fmt.Fprintf(a.Out, "  to do    %s\n", show.Visible(next))
		}
		for _, t := range r.Told {
			how := "is to be told"
			switch {
			case !t.SentAt.IsZero():
				how = "told on " + show.Time(t.SentAt)
			case !t.ToldAt.IsZero():
				how = "not taken yet; the message was made on " + show.Time(t.ToldAt)
			}
			fmt.Fprintf(a.Out, "  %-8s %s\n", show.Visible(t.Way), how)
		}
	}
}

func (a *app) alertsTestCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "test [WAY]",
		Short: "Send a test message by one way of telling, or by all",
		Long: `Sends a test message by the ways in alerts.ways, and prints the answer of the other
side. If the way works, the next check also sends the messages that wait for it.`,
		Example: "  payersync alerts test\n  payersync alerts test office",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withAlerts(cmd.Context(), func(t *alarm.Notifier) error {
				if names := wayNames(t.Ways); len(args) == 1 && !slices.Contains(names, args[0]) {
					return usage.Errorf("alerts.ways has no way %q%s; the configuration has %s", args[0], didYouMean(args[0], names),
						strings.Join(names, ", "))
				}
				return a.tryWays(cmd.Context(), t, args)
			})
		},
	}
}

func wayNames(ways []alarm.Way) (names []string) {
	return connector.Map(ways, func(w alarm.Way) string { return w.Name })
}

func (a *app) tryWays(ctx context.Context, t *alarm.Notifier, only []string) error {
	report := checkReport{app: a}
	for _, w := range t.Ways {
		if len(only) > 0 && w.Name != only[0] {
			continue
		}
		answer, err := t.Try(ctx, w)
		found := tell("alerts "+w.Name, "the test message was taken: "+show.Visible(answer), err)
		if err != nil {
			found.Next = "put alerts.ways right, or its server, and try again: payersync alerts test " + w.Name
		}
		report.add(found)
	}
	if report.err == nil && report.failed {
		return exitError(exitFailed)
	}
	return report.err
}

// checkAlerts says for each way whether its last message was accepted. It tells nobody anything: payersync
// alerts test does.
func (a *app) checkAlerts(ctx context.Context, s *session.Session) []finding {
	if len(s.Config.Alerts.Ways) == 0 {
		return []finding{{Check: "alerts", OK: true, Warning: true, Detail: "nobody receives alarms",
			Next: "set alerts.ways to e-mail or a webhook; then try it with payersync alerts test"}}
	}
	failed, err := health.Present(ctx, s.Ledger, a.expected(s), health.WayFailed)
	if err != nil {
		return []finding{tell("alerts", "", err)}
	}
	last, err := s.Ledger.LastMessages(ctx)
	if err != nil {
		return []finding{tell("alerts", "", err)}
	}
	var out []finding
	for _, w := range s.Config.Alerts.Ways {
		detail := "nothing had to be told yet; payersync alerts test " + w.Name + " tries it"
		if i := slices.IndexFunc(last,
			func(m state.AlarmMessage) bool { return m.Way == w.Name && !m.SentAt.IsZero() }); i >= 0 {
			detail = "took the last message on " + show.Time(last[i].SentAt)
		}
		found := tell("alerts "+w.Name, detail, nil)
		if i := slices.IndexFunc(failed, func(c health.Condition) bool { return c.Subject == w.Name }); i >= 0 {
			found = finding{Check: found.Check, Detail: failed[i].Sentence,
				Next: "put alerts.ways right, or its server, then payersync alerts test " + w.Name}
		}
		out = append(out, found)
	}
	return out
}

// sentRow is a message in `alerts send --output json`; its keys are public.
type sentRow struct {
	Way     string    `json:"way"`
	Message string    `json:"message_id"`
	OK      bool      `json:"ok"`
	Begun   int       `json:"begun"`
	Over    int       `json:"over"`
	Detail  string    `json:"detail"`
	NextAt  time.Time `json:"next_at,omitzero"`
}

func (a *app) alertsSendCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "send",
		Short: "Check for problems once, and send the alarms that are due",
		Long: `Checks for problems that began or ended since the last check, and sends alarms by the
ways in alerts.ways. payersync serve does this every minute. Use this command if
timers run sync and sweep without serve. Two processes never send the same alarm. If
the ledger cannot be opened or written, each call reports it.`,
		Example: "  payersync sync; payersync alerts send",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withAlerts(cmd.Context(), func(t *alarm.Notifier) error { return a.sendAlerts(cmd.Context(), t) })
		},
	}
}

func (a *app) sendAlerts(ctx context.Context, t *alarm.Notifier) error {
	events := make(chan alarm.MessageEvent, 2*len(t.Ways)) // a waiting message and a new one
	t.Report = func(e alarm.MessageEvent) { events <- e }
	err := t.Notify(ctx)
	close(events)
	failed, lines := false, 0
	for e := range events {
		lines++
		failed = failed || e.Err != nil
		if err := a.printSent(e); err != nil {
			return err
		}
	}
	switch {
	case errors.Is(err, outbox.ErrBusy):
		a.Print("Another payersync tells of alarms just now; there is nothing left to do.")
		return nil
	case err != nil:
		return err
	case failed:
		return exitError(exitFailed)
	case lines == 0:
		a.Print("There is nothing new to tell.")
	}
	return nil
}

func (a *app) printSent(e alarm.MessageEvent) error {
	row := sentRow{e.Way, e.Message, e.Err == nil, e.Begun, e.Over, e.Answer, e.Next}
	if e.Err != nil {
		row.Detail = e.Err.Error()
	}
	if a.JSON() {
		return show.JSON(a.Out, row)
	}
	what := fmt.Sprintf("%d new, %d over", e.Begun, e.Over)
	if e.Begun+e.Over == 0 {
		what = "what waited for it"
	}
	if e.Err != nil {
		_, err := fmt.Fprintf(a.Out, "%s was not told %s: %s. It is tried again on %s.\n", e.Way, what,
			show.Visible(row.Detail), show.Time(e.Next))
		return err
	}
	_, err := fmt.Fprintf(a.Out, "%s was told %s: %s\n", e.Way, what, show.Visible(e.Answer))
	return err
}

// withAlerts opens the ledger and the channels of alarms. If the ledger cannot be opened, it sends an alarm,
// because nobody may read the output of a timer.
func (a *app) withAlerts(ctx context.Context, do func(*alarm.Notifier) error) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if len(cfg.Alerts.Ways) == 0 {
		return usage.Errorf("nobody receives alarms: the configuration has no alerts.ways; add one, as in configs/payersync.example.yaml")
	}
	s, err := a.warnFound(session.Open(ctx, cfg, a.ledgerOptions()))
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		t, done := a.notifier(cfg, nil)
		defer done()
		return errors.Join(err, t.NotifyUnwritable(ctx, err))
	}
	defer s.Close()
	t, done := a.notifier(cfg, s)
	defer done()
	return do(t)
}

// teller returns the configured sender of alarms; without a session it knows no ledger. The function gives up
// its connections.
func (a *app) notifier(cfg *config.Config, s *session.Session) (*alarm.Notifier, func()) {
	host, _ := os.Hostname() // messages do without one
	t := &alarm.Notifier{
		Now: a.now, Installation: cmp.Or(cfg.Alerts.Name, host), Account: cfg.AccountName,
		Time: show.Time, Clean: session.NewMask(cfg.Secrets()), Command: stepCommand,
	}
	if s != nil {
		t.Ledger = s.Ledger
		t.Look = func(ctx context.Context) ([]health.Condition, error) {
			return health.Present(ctx, s.Ledger, a.expected(s))
		}
	}
	var clients []*transport.Client
	for _, w := range cfg.Alerts.Ways {
		way := alarm.Way{Name: w.Name, MinSeverity: alarm.Severity(w.MinSeverity), Names: w.Names}
		switch {
		case w.Email != nil:
			e := w.Email
			way.Sender = &alarm.Email{To: e.To, From: e.From, Server: mail.Server{
				Addr: e.Server, TLS: mail.Encryption(e.TLS), Username: e.Username, Password: e.Password.Secret, HelloName: host,
				Reach: cfg.Reach(),
			}}
		case w.Webhook != nil:
			client := cfg.Client(transport.Options{Retries: -1, Now: a.now})
			clients = append(clients, client)
			way.Sender = &alarm.Webhook{Receiver: webhook.Receiver{URL: w.Webhook.URL, Secret: w.Webhook.Secret.Secret,
				HTTP: client, Now: a.now}}
		}
		t.Ways = append(t.Ways, way)
	}
	return t, func() {
		for _, c := range clients {
			c.Close()
		}
	}
}
