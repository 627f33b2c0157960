package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/health"
	"payersync/connector/readiness"
	"payersync/state"
)

func (a *app) statusCmd() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the funnel, the last runs, and everything that needs somebody",
		Long: `Shows the numbers of payers, mandates and webhooks by state, and the results of the
last runs. A list has everything that needs somebody: who must act, what happens
otherwise, and the command that lists the items. The overview of the pages shows the
same list.

With the configuration of a node, it shows the nodes, and the accounts with problems,
each in a line with the worst problem. --all shows every account, and --account one of
them in full. The exit status is 0 if payersync could check all accounts, whatever the
problems are.`,
		Example: "  payersync status\n  payersync status --output json | jq .attention\n  payersync status --config node.yaml --all",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runStatus(cmd, all) },
	}
	c.Flags().BoolVar(&all, "all", false, "with a node's configuration: every account, not only those with problems")
	return c
}

func (a *app) runStatus(cmd *cobra.Command, all bool) error {
	switch fleet := a.account == "" && config.IsNode(a.config); {
	case fleet:
		return a.statusOfAccounts(cmd.Context(), all)
	case all:
		return usage.Errorf("--all shows every account of a database, and this is one account; omit it, or name the configuration of a node with --config")
	}
	return a.with(cmd.Context(), a.openReport, func(s *session.Session) error {
		return a.status(cmd, s)
	})
}

// statusReport is the output of `status --output json`; its keys are public.
type statusReport struct {
	state.Funnel
	Runs      []state.RunRow         `json:"runs"`
	Problems  []state.RunProblem     `json:"problems"` // why the last run of a connection did not come to its end
	Approvals []state.Plan           `json:"approvals"`
	Rejected  []state.Plan           `json:"rejected"`  // of them nothing is sent while they say the same
	Sources   []state.SourceRow      `json:"sources"`   // how the last run met each source
	Consents  []state.ConsentRow     `json:"consents"`  // people's consents, and their ends
	Mappings  []state.MappingProblem `json:"mappings"`  // files with a mistake, while an earlier version is in force
	Config    state.Serving          `json:"config"`    // the state of serve's configuration
	Jobs      []jobRow               `json:"jobs"`      // the last and next times of serve's jobs
	Served    bool                   `json:"served"`    // a process keeps the schedules
	Standing  standingReport         `json:"standing"`  // as report and the pages count
	Silence   state.Silence          `json:"silence"`   // sweeps' findings since the last webhook
	NotAsked  []admin.NotAsked       `json:"not_asked"` // the number of payers not asked for a mandate, by rule

	Conditions []health.Condition `json:"conditions"` // all problems, those of the keys above included
	List       []needLine         `json:"list"`       // everything that needs somebody

	// when the ledger was found to be an older copy, a week ago at most
	PutBack      time.Time               `json:"put_back_at,omitzero"`
	Subscription state.SubscriptionFacts `json:"subscription"` // as the last sweep found it
	pairs        []state.Renumbering     // the first payers possibly there under a new number
	// refused requests to the webhook endpoint in the last days
	Refusals []state.Refusals `json:"webhook_refusals"`
}

// standingReport counts the records by class; its keys are public.
type standingReport struct {
	Records int                   `json:"records"`
	Payers  int                   `json:"payers"` // records neither removed nor excluded
	Can     int                   `json:"can_be_debited"`
	Who     map[readiness.Who]int `json:"who"` // must act
	count   *admin.Count
}

func (a *app) status(cmd *cobra.Command, s *session.Session) error {
	ctx := cmd.Context()
	var r statusReport
	for _, read := range []func() error{
		func() error { return r.readPayers(ctx, s) },
		func() error { return r.readRuns(ctx, s) },
		func() error { return a.readServing(ctx, s, &r) },
		func() error { return r.readWebhooks(ctx, s, a.refusedSince()) },
		func() (err error) {
			r.Conditions, err = health.Present(ctx, s.Ledger, a.expected(s))
			return err
		},
	} {
		if err := read(); err != nil {
			return err
		}
	}
	r.List = needLines(r.Standing.count, r.Conditions, s)
	for _, c := range r.Conditions {
		if c.Code == health.PutBack {
			r.PutBack = c.Since
		}
	}
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	a.printStatus(r)
	return nil
}

// readPayers reads the classes of the payers, and the findings for a person.
func (r *statusReport) readPayers(ctx context.Context, s *session.Session) error {
	var wrong error
	var reading sync.WaitGroup // both read all payers
	reading.Go(func() { r.Funnel, wrong = s.Ledger.Funnel(ctx) })
	count, err := admin.CountNow(ctx, s.Ledger, s.Config.Billing.LinkValid.Length())
	if reading.Wait(); err != nil || wrong != nil {
		return errors.Join(err, wrong)
	}
	r.Standing = standingReport{count.Records, count.Payers, count.Reached(admin.Active), count.Acts(), count}
	r.pairs, err = s.Ledger.Renumberings(ctx, mostNamed+1)
	return err
}

// readRuns reads the ends of the last runs, their plans, the payers these do not ask, and the state of the
// sources. It skips removed connections, about which nobody can do anything.
func (r *statusReport) readRuns(ctx context.Context, s *session.Session) (err error) {
	if r.NotAsked, err = admin.NotAskedBy(ctx, s.Ledger, "", mappingFiles(s)); err != nil {
		return err
	}
	if r.Runs, err = s.Ledger.LatestRuns(ctx); err != nil {
		return err
	}
	if r.Problems, err = s.Ledger.RunProblems(ctx); err != nil {
		return err
	}
	r.Problems = slices.DeleteFunc(r.Problems, func(p state.RunProblem) bool { return s.Config.Has(p.Connection) != nil })
	if r.Approvals, err = s.Ledger.WaitingPlans(ctx); err != nil {
		return err
	}
	if r.Rejected, err = s.Ledger.RejectedPlans(ctx); err != nil {
		return err
	}
	if r.Sources, err = s.Ledger.Sources(ctx); err != nil {
		return err
	}
	r.Sources = slices.DeleteFunc(r.Sources, func(row state.SourceRow) bool { return s.Config.Has(row.Connection) != nil })
	r.Consents, err = s.ConsentRows(ctx)
	return err
}

// readServing reads the state of serve's files, and the times of its jobs.
func (a *app) readServing(ctx context.Context, s *session.Session, r *statusReport) (err error) {
	if r.Mappings, err = s.Ledger.MappingProblems(ctx); err != nil {
		return err
	}
	if r.Config, err = s.Ledger.Serving(ctx); err != nil {
		return err
	}
	if r.Jobs, err = a.jobRows(ctx, s); err != nil {
		return err
	}
	r.Served, err = s.Ledger.IsServed(ctx)
	return err
}

// readWebhooks reads how webhooks come.
func (r *statusReport) readWebhooks(ctx context.Context, s *session.Session, since time.Time) (err error) {
	if s.Config.Billing.Webhook != nil {
		if r.Silence, err = s.Ledger.Silence(ctx); err != nil {
			return err
		}
	}
	if r.Subscription, err = s.Ledger.Subscription(ctx); err != nil {
		return err
	}
	r.Refusals, err = s.Ledger.Refusals(ctx, since)
	return err
}

func (a *app) printStatus(r statusReport) {
	if r.Standing.Records > 0 {
		fmt.Fprintln(a.Out, payersLine(r.Standing.count.Report))
		for _, n := range r.NotAsked {
			_ = a.printUnasked(n)
		}
		fmt.Fprintln(a.Out)
	}
	a.printCounts("Payers", r.Payers, func(s string) string {
		if n := r.Left[s]; n > 0 {
			return fmt.Sprintf("%s (%d removed)", s, n)
		}
		return s
	})
	a.printCounts("Mandates", r.Mandates, func(s string) string { return connector.MandateStatus(s).Label() })
	a.printCounts("Webhooks", r.Inbox, func(s string) string { return s })
	a.printRuns(r)
	a.printNeeds(r.List)
	a.printPairs(r)
	a.printPutOff(r)
	if rows := refusedRows(r.Refusals); len(rows) > 0 {
		fmt.Fprintf(a.Out, "\nWebhook requests refused in the last %d days\n", admin.RefusalsShown)
		show.Table(a.Out, []string{"Day", "Requests", "Why", "What to do"}, rows)
	}
	for _, source := range r.Sources {
		if source.MovedTo != "" {
			fmt.Fprintf(a.Out, "\n%s is closed: it moved to %s. Remove it from the configuration.\n",
				show.Visible(source.Connection), show.Visible(source.MovedTo))
		}
	}
	for _, c := range r.Consents {
		if _, bad := health.Consent(c, a.now()); !bad {
			fmt.Fprintf(a.Out, "\n%s\n", show.Visible(consentText(c)))
		}
	}
}

// printRuns prints the ends of the last runs, their unfinished work, and the jobs of serve.
func (a *app) printRuns(r statusReport) {
	if len(r.Runs) > 0 {
		fmt.Fprintln(a.Out, "\nLast runs")
		show.Table(a.Out, []string{"Connection", "Kind", "Started", "Outcome", "Pulled", "Created", "Linked", "Updated",
			"Signing links", "On hold", "Failed"}, runRows(r.Runs))
	}
	for _, p := range r.Problems {
		how, reason := "ended incomplete", p.Reason
		if p.Outcome == string(connector.RunInterrupted) {
			how, reason = "was interrupted", p.Problem
		}
		if reason == "" || r.stoppedByEdit(p.Connection) {
			continue
		}
		next := "The next run goes on with it."
		if p.RetryAt != nil {
			next = fmt.Sprintf("A run from %s on goes on with it.", show.Stored(*p.RetryAt))
		}
		fmt.Fprintf(a.Out, "Run %d of %s %s: %s. %s\n", p.RunID, show.Visible(p.Connection), how,
			show.Visible(strings.TrimSuffix(reason, ".")), next)
	}
	if rows := jobTable(r.Jobs, r.Served); len(rows) > 0 {
		fmt.Fprintln(a.Out, "\nJobs of payersync serve")
		show.Table(a.Out, []string{"Job", "Began", "Ended", "Outcome", "Next"}, rows)
		if !r.Served {
			fmt.Fprintln(a.Out, noSchedule)
		}
	}
}

// stoppedByEdit reports whether the list of what needs somebody says why runs of a connection stop.
func (r statusReport) stoppedByEdit(connection string) bool {
	return slices.ContainsFunc(r.Conditions, func(c health.Condition) bool {
		return c.Code == health.ProfileEdited && c.Connection == connection
	})
}

// printPutOff prints people's decisions in place of findings.
func (a *app) printPutOff(r statusReport) {
	if n := sum(r.PutOff); n > 0 {
		fmt.Fprintf(a.Out, "\nPut off by a person until later, beside these: %s: payersync attention list --later\n",
			connector.Plural(n, "record"))
	}
	if len(r.Closed) > 0 {
		fmt.Fprintln(a.Out)
		for _, kind := range slices.Sorted(maps.Keys(r.Closed)) {
			fmt.Fprintf(a.Out, "Closed by a person, %d: %s.\n", r.Closed[kind], closedMeaning[state.ClosedKind(kind)])
		}
		fmt.Fprintln(a.Out, "  payersync attention list --closed")
	}
}

// printPairs prints the first payers possibly there under a new number.
func (a *app) printPairs(r statusReport) {
	for i, p := range r.pairs {
		if i == mostNamed {
			fmt.Fprintln(a.Out, "There are more: payersync attention list --reason renumbered")
			break
		}
		fmt.Fprintf(a.Out, "\nRecord %s was removed, and record %s may be the same payer: payersync attention show %[2]s\n",
			show.Visible(p.Old.SourceID), show.Visible(p.New.SourceID))
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func refusedRows(counts []state.Refusals) (rows [][]string) {
	for _, c := range counts {
		r := admin.RefusedFor(c)
		rows = append(rows, []string{r.Day, fmt.Sprint(r.Count), r.Why, withSteps(r.Next, r.Steps)})
	}
	return rows
}

// consentText says until when a consent holds.
func consentText(c state.ConsentRow) string {
	text := fmt.Sprintf("The consent for %s was renewed on %s", c.Connection, c.RefreshedAt.Format(time.DateOnly))
	if !c.ReconnectBy.IsZero() {
		text += "; unused, it lapses on " + c.ReconnectBy.Format(time.DateOnly)
	}
	return text + "."
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

// jobTable returns the jobs with a first run; there are none if another scheduler runs the commands.
func jobTable(jobs []jobRow, served bool) (rows [][]string) {
	for _, j := range jobs {
		if j.BegunAt.IsZero() {
			continue
		}
		ended, outcome := show.Time(j.EndedAt), j.Outcome
		if j.BegunAt.After(j.EndedAt) {
			ended, outcome = "", "at work"
		}
		next := ""
		if served {
			next = show.Time(j.NextAt)
		}
		rows = append(rows, []string{j.Name, show.Time(j.BegunAt), ended, outcome, next})
	}
	return rows
}

func runRows(runs []state.RunRow) [][]string {
	var rows [][]string
	for _, r := range runs {
		row := []string{r.Connection, r.Kind, show.Stored(r.StartedAt), r.Outcome}
		row = append(row, connector.Map([]int{r.Pulled, r.Created, r.Adopted, r.Updated, r.LinksRequested, r.Held, r.Failed},
			func(n int) string { return fmt.Sprint(n) })...)
		rows = append(rows, row)
	}
	return rows
}
