package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show the funnel, the last runs and what needs a person",
		Example: "  payersync status\n  payersync status --output json | jq .attention",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), a.openReport, func(s *session.Session) error {
				return a.status(cmd, s)
			})
		},
	}
}

// statusReport is what `status --output json` prints; its keys are public.
type statusReport struct {
	state.Funnel
	Runs      []state.RunRow         `json:"runs"`
	Problems  []state.RunProblem     `json:"problems"` // why the last run of a connection did not come to its end
	Approvals []state.Plan           `json:"approvals"`
	Rejected  []state.Plan           `json:"rejected"` // of them nothing is sent while they say the same
	Sources   []state.SourceRow      `json:"sources"`  // how the last run met each source
	Consents  []state.ConsentRow     `json:"consents"` // what persons connected, and until when it holds
	Mappings  []state.MappingProblem `json:"mappings"` // files with a mistake, while an earlier version is in force
	Config    state.Serving          `json:"config"`   // what serve made of its configuration
	Jobs      []jobRow               `json:"jobs"`     // when serve was last at work on what, and is next
	Silence   state.Silence          `json:"silence"`  // what sweeps found since the last webhook came

	PutBack      time.Time               `json:"put_back_at,omitzero"` // when the ledger was found to be an older copy, a week ago at most
	Subscription state.SubscriptionFacts `json:"subscription"`         // as the last sweep found it
}

func (a *app) status(cmd *cobra.Command, s *session.Session) error {
	var r statusReport
	var err error
	if r.Funnel, err = s.Ledger.Funnel(cmd.Context()); err != nil {
		return err
	}
	if r.Runs, err = s.Ledger.LatestRuns(cmd.Context()); err != nil {
		return err
	}
	if r.Problems, err = s.Ledger.RunProblems(cmd.Context()); err != nil {
		return err
	}
	r.Problems = slices.DeleteFunc(r.Problems, func(p state.RunProblem) bool { return s.Config.Has(p.Connection) != nil }) // nobody can do anything about it any more
	if r.Approvals, err = s.Ledger.WaitingPlans(cmd.Context()); err != nil {
		return err
	}
	if r.Rejected, err = s.Ledger.RejectedPlans(cmd.Context()); err != nil {
		return err
	}
	if r.Sources, err = s.Ledger.Sources(cmd.Context()); err != nil {
		return err
	}
	r.Sources = slices.DeleteFunc(r.Sources, func(row state.SourceRow) bool { return s.Config.Has(row.Connection) != nil })
	if r.Consents, err = s.ConsentRows(cmd.Context()); err != nil {
		return err
	}
	if r.Mappings, err = s.Ledger.MappingProblems(cmd.Context()); err != nil {
		return err
	}
	if r.Config, err = s.Ledger.Serving(cmd.Context()); err != nil {
		return err
	}
	if r.Jobs, err = a.jobRows(cmd.Context(), s); err != nil {
		return err
	}
	if r.Silence, err = silence(cmd.Context(), s); err != nil {
		return err
	}
	if r.Subscription, err = s.Ledger.Subscription(cmd.Context()); err != nil {
		return err
	}
	if r.PutBack, err = a.putBack(cmd.Context(), s); err != nil {
		return err
	}
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	a.printStatus(r)
	return nil
}

func (a *app) printStatus(r statusReport) {
	a.printCounts("Payers", r.Payers, func(s string) string { return s })
	a.printCounts("Mandates", r.Mandates, func(s string) string { return connector.MandateStatus(s).Label() })
	a.printCounts("Webhooks", r.Inbox, func(s string) string { return s })
	if len(r.Runs) > 0 {
		fmt.Fprintln(a.Out, "\nLast runs")
		show.Table(a.Out, []string{"Connection", "Kind", "Started", "Outcome", "Pulled", "Created", "Adopted", "Updated", "Links", "Held", "Failed"}, runRows(r.Runs))
	}
	if rows := jobTable(r.Jobs); len(rows) > 0 {
		fmt.Fprintln(a.Out, "\nJobs of payersync serve")
		show.Table(a.Out, []string{"Job", "Began", "Ended", "Outcome", "Next"}, rows)
	}
	if len(r.Attention) > 0 {
		fmt.Fprintln(a.Out, "\nNeeds a person")
		var rows [][]string
		for _, reason := range slices.Sorted(maps.Keys(r.Attention)) {
			rows = append(rows, []string{fmt.Sprint(r.Attention[reason]), connector.Reason(reason).Sentence(), connector.Reason(reason).Next()})
		}
		show.Table(a.Out, []string{"Records", "What is the matter", "What to do"}, rows)
	}
	if len(r.Closed) > 0 {
		fmt.Fprintln(a.Out)
		for _, kind := range slices.Sorted(maps.Keys(r.Closed)) {
			fmt.Fprintf(a.Out, "Closed by a person, %d: %s.\n", r.Closed[kind], closedMeaning[state.ClosedKind(kind)])
		}
		fmt.Fprintln(a.Out, "  payersync attention list --closed")
	}
	for _, text := range slices.Concat(putBackTexts(r.PutBack), closedSources(r.Sources, a.now()), consentTexts(r.Consents, a.now()), silenceTexts(r.Silence), subscriptionTexts(r.Subscription)) {
		fmt.Fprintf(a.Out, "\n%s\n", show.Visible(text))
	}
	for _, p := range r.Problems {
		if !saidBelow(r, p) {
			fmt.Fprintf(a.Out, "\nThe last run of %s did not come to its end: %s\n", p.Connection, show.Visible(p.Problem))
		}
	}
	if r.Config.Problem != "" {
		fmt.Fprintf(a.Out, "\nThe configuration of payersync serve cannot be used since %s; the one before stays in force.\n%s\n", show.Time(r.Config.Since), show.Visible(r.Config.Problem))
	}
	if len(r.Config.Restart) > 0 {
		fmt.Fprintf(a.Out, "\nRestart needed: %s. The values that payersync serve began with are in force.\n", strings.Join(r.Config.Restart, ", "))
	}
	for _, m := range r.Mappings {
		fmt.Fprintf(a.Out, "\nThe mapping of %s has a mistake since %s; the version before stays in force.\n%s\n  payersync mapping check %[1]s\n",
			m.Connection, show.Time(m.Since), shownLines(m.Problem))
	}
	for _, p := range r.Approvals {
		if p.Missing > 0 {
			fmt.Fprintf(a.Out, "\n%s is at a standstill since %s: %s\nIf they are meant to be gone, let them go:\n  payersync approve %d\n",
				p.Connection, show.Time(p.CreatedAt), p.Limits, p.ID)
			continue
		}
		if p.Lost > 0 {
			fmt.Fprintf(a.Out, "\n%s is at a standstill since %s: %s\nSee whom and why, and put the mapping or the records right; or if it is meant, let them go:\n  payersync plans show %d\n  payersync approve %[4]d\n",
				p.Connection, show.Time(p.CreatedAt), p.Limits, p.ID)
			continue
		}
		fmt.Fprintf(a.Out, "\nPlan %d of %s waits for approval: %s\n  payersync plans show %[1]d\n  payersync approve %[1]d\n", p.ID, p.Connection, p.Limits)
	}
	for _, p := range r.Rejected {
		fmt.Fprintf(a.Out, "\n%s: %s\n", p.Connection, show.Visible(syncer.Rejected(p)))
	}
}

// saidBelow reports whether status tells of what ended a run beside its way out.
func saidBelow(r statusReport, p state.RunProblem) bool {
	return slices.ContainsFunc(r.Approvals, func(w state.Plan) bool { return w.Connection == p.Connection && w.Standstill() }) ||
		slices.ContainsFunc(r.Rejected, func(w state.Plan) bool { return p.Problem == syncer.Rejected(w) })
}

// silence returns what sweeps found since the last webhook came; nothing where
// none is expected.
func silence(ctx context.Context, s *session.Session) (state.Silence, error) {
	if s.Config.Billing.Webhook == nil {
		return state.Silence{}, nil
	}
	return s.Ledger.Silence(ctx)
}

// silenceTexts says that webhooks seem to have stopped (fault F33). One sweep may
// come before a webhook that is on its way; the next does not.
func silenceTexts(s state.Silence) []string {
	if s.Sweeps < 2 {
		return nil
	}
	since := "No webhook has ever come"
	if s.Since != "" {
		since = "No webhook has come since " + s.Since
	}
	return []string{fmt.Sprintf("%s, while %d sweeps found %s of mandates. See payersync webhooks list; payersync webhooks subscribe subscribes again.",
		since, s.Sweeps, connector.Plural(s.Changes, "change"))}
}

// closedSources says which sources cannot be read just now.
func closedSources(sources []state.SourceRow, now time.Time) (out []string) {
	for _, s := range sources {
		switch {
		case s.State == state.SourceParked && s.ParkedUntil.After(now):
			out = append(out, fmt.Sprintf("The source of %s has used up its request limit and is not asked before %s.", s.Connection, show.Time(s.ParkedUntil)))
		case s.State == state.SourceDisconnected:
			out = append(out, fmt.Sprintf("The source of %s does not let payersync in. See payersync check, which says why and what to do.", s.Connection))
		}
	}
	return out
}

func consentTexts(consents []state.ConsentRow, now time.Time) (out []string) {
	for _, c := range consents {
		out = append(out, consentText(c, now))
	}
	return out
}

// consentText says until when a consent holds, or what to do about it.
func consentText(c state.ConsentRow, now time.Time) string {
	if c.Broken != "" {
		return fmt.Sprintf("The consent for %s no longer works: %s. Give it anew: payersync connect %[1]s", c.Connection, c.Broken)
	}
	text := fmt.Sprintf("The consent for %s was renewed on %s", c.Connection, c.RefreshedAt.Format(time.DateOnly))
	if !c.ReconnectBy.IsZero() {
		text += "; unused, it lapses on " + c.ReconnectBy.Format(time.DateOnly)
	}
	if halfGone(c, now) {
		text += fmt.Sprintf(". Nothing has used it for long: let payersync serve run, or give it anew with payersync connect %s", c.Connection)
	}
	return text + "."
}

// halfGone reports whether half of the time that a consent lasts unused is over.
func halfGone(c state.ConsentRow, now time.Time) bool {
	return !c.ReconnectBy.IsZero() && now.Sub(c.RefreshedAt) > c.ReconnectBy.Sub(c.RefreshedAt)/2
}

// shownLines returns text for a terminal, line by line.
func shownLines(text string) string {
	rows := strings.Split(text, "\n")
	for i, row := range rows {
		rows[i] = show.Visible(row)
	}
	return strings.Join(rows, "\n")
}

func (a *app) printCounts(title string, counts map[string]int, label func(string) string) {
	fmt.Fprintf(a.Out, "%-9s", title)
	if len(counts) == 0 {
		fmt.Fprintln(a.Out, " none")
		return
	}
	for i, name := range slices.Sorted(maps.Keys(counts)) {
		if i > 0 {
			fmt.Fprint(a.Out, ",")
		}
		fmt.Fprintf(a.Out, " %d %s", counts[name], show.Visible(label(name)))
	}
	fmt.Fprintln(a.Out)
}

// jobTable returns the jobs that ever began: who keeps the schedules elsewhere has none.
func jobTable(jobs []jobRow) (rows [][]string) {
	for _, j := range jobs {
		if j.BegunAt.IsZero() {
			continue
		}
		ended, outcome := show.Time(j.EndedAt), j.Outcome
		if j.BegunAt.After(j.EndedAt) {
			ended, outcome = "", "at work"
		}
		rows = append(rows, []string{j.Name, show.Time(j.BegunAt), ended, outcome, show.Time(j.NextAt)})
	}
	return rows
}

func runRows(runs []state.RunRow) [][]string {
	var rows [][]string
	for _, r := range runs {
		row := []string{r.Connection, r.Kind, show.Stored(r.StartedAt), r.Outcome}
		for _, n := range []int{r.Pulled, r.Created, r.Adopted, r.Updated, r.LinksRequested, r.Held, r.Failed} {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, row)
	}
	return rows
}
