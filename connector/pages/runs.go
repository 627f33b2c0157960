package pages

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// runs lists the runs, the newest first.
func (v *visit) runs() error {
	after, _ := strconv.ParseInt(v.filled("after"), 10, 64)
	rows, err := v.ledger().RunPage(v.Context(), after, rowsShown+1)
	if err != nil {
		return err
	}
	next := ""
	if len(rows) > rowsShown {
		rows = rows[:rowsShown]
		next = strconv.FormatInt(rows[rowsShown-1].RunID, 10)
	}
	var strip *runStrip
	if after == 0 && len(rows) > 0 {
		strip = stripOf(rows[:min(stripRuns, len(rows))])
	}
	waiting, err := v.waitingRuns()
	if err != nil {
		return err
	}
	return v.show("runs", "Runs", struct {
		Rows        []state.RunDetail
		Waiting     []admin.RunRequest
		AtWork      bool              // a run is, or waits
		Wrong       []state.RunDetail // with counts that do not add up
		Strip       *runStrip
		Connections []string // those the person may start
		Pager       pager
	}{rows, waiting, len(waiting) > 0 || slices.ContainsFunc(rows, isRunning), wrongOf(rows), strip, v.startable(), v.page(next)})
}

func isRunning(r state.RunDetail) bool { return r.Outcome == string(connector.RunRunning) }

// waitingRuns returns the requested runs of visible connections that no node has begun.
func (v *visit) waitingRuns() ([]admin.RunRequest, error) {
	waiting, err := v.pages.cfg.Starter.Waiting(v.Context())
	return connector.Filter(waiting,
		func(r admin.RunRequest) bool { return slices.Contains(v.pages.cfg.Connections, r.Connection) }), err
}

// startable returns the connections open to the visitor's run requests.
func (v *visit) startable() []string {
	if v.pages.cfg.Starter == nil || !v.User.Role.May(Operator) {
		return nil
	}
	return v.pages.cfg.Connections
}

func wrongOf(rows []state.RunDetail) (out []state.RunDetail) {
	return connector.Filter(rows, func(r state.RunDetail) bool { return !r.AddsUp() })
}

// done is a count of a run that is not 0.
type done struct {
	Count int
	Word  string
}

// did returns what became of the records of a run, without the counts of 0.
func did(r state.RunDetail) []done {
	return connector.Filter([]done{
		{r.Unchanged, "unchanged"}, {r.Excluded, "excluded"}, {r.Created, "created"}, {r.Adopted, "linked"},
		{r.Updated, "updated"},
		{r.Held, "on hold"}, {r.Failed, "failed"}, {r.Waiting, "open"}, {r.LinksRequested, "to sign"},
	}, func(d done) bool { return d.Count > 0 })
}

// stripRuns is how many runs the strip shows.
const stripRuns = 30

// runStrip is a drawing of the last runs, the newest at the right.
type runStrip struct {
	Width int
	Bars  []stripBar
	Words string // its text
}

// stripBar is a run in the strip: the better it ended, the higher it is.
type stripBar struct {
	X, Y, Height int
	Kind         string
	Words        string
}

func stripOf(rows []state.RunDetail) *runStrip {
	s := &runStrip{Width: 20 * len(rows)}
	n := map[string]int{}
	for i, r := range rows {
		c := outcome(r.RunRow)
		height := map[connector.RunOutcome]int{connector.RunComplete: 32, connector.RunRunning: 20,
			connector.RunAwaitingApproval: 20}[connector.RunOutcome(r.Outcome)]
		switch {
		case height == 0:
			height = 12
		case height == 32 && c.Kind != good:
			height = 26
		}
		n[c.Word]++
		s.Bars = append(s.Bars, stripBar{20 * (len(rows) - 1 - i), 32 - height, height, c.Kind,
			fmt.Sprintf("Run %d: %s", r.RunID, c.Word)})
	}
	for _, r := range rows { // in the order of appearance
		if word := outcome(r.RunRow).Word; n[word] > 0 {
			if s.Words != "" {
				s.Words += ", "
			}
			s.Words += fmt.Sprintf("%s: %d", word, n[word])
			delete(n, word)
		}
	}
	return s
}

// took returns the duration of a run; 0 for a run in progress.
func took(r state.RunRow) time.Duration {
	if r.FinishedAt == nil {
		return 0
	}
	return since(*r.FinishedAt).Sub(since(r.StartedAt))
}

// lasted says in words how long a run took.
func lasted(r state.RunRow) string {
	switch d := took(r); {
	case r.FinishedAt == nil:
		return "–"
	case d < time.Second:
		return "under a second"
	default:
		return admin.Roughly(d)
	}
}

// why says in words why a run was made.
func why(r state.RunRow) string {
	switch r.Trigger {
	case "schedule":
		return "By schedule"
	case "catch_up":
		return "By schedule, late"
	}
	if r.Kind == string(connector.RunPlan) {
		return "Requested, plan only"
	}
	return "Requested"
}

// ranRow is a run's result for a payer.
type ranRow struct {
	Who   payerName
	Did   string
	Ended chip
	Why   string
}

// stages are the names of a run's stages.
var stages = map[string]string{
	"pull": "Reading the accounting system", "list": "Reading the billing service",
	"customers": "Reading customers one by one", "match": "Comparing customers", "plan": "Planning",
	"send":   "Sending customers",
	"verify": "Reading new customers back", "links": "Requesting signing links",
}

var noRun = problem{Status: http.StatusNotFound, Title: "There is no such run", Sentence: "No run has this number.",
	Next: "The list of runs shows every one."}

// run shows the results of one run and the records concerned.
func (v *visit) run() error {
	n, err := strconv.ParseInt(v.PathValue("n"), 10, 64)
	if err != nil {
		return noRun
	}
	ctx, ledger := v.Context(), v.ledger()
	r, err := ledger.Run(ctx, n)
	if err != nil {
		return err
	}
	if r == nil {
		return noRun
	}
	after, _ := strconv.ParseInt(v.filled("after"), 10, 64)
	changes, err := ledger.RunChanges(ctx, n, after, rowsShown+1)
	if err != nil {
		return err
	}
	next := ""
	if len(changes) > rowsShown {
		changes = changes[:rowsShown]
		next = strconv.FormatInt(changes[rowsShown-1].ID, 10)
	}
	ids := make([]state.RecordID, len(changes))
	for i, c := range changes {
		ids[i] = state.RecordID{Connection: r.Connection, SourceID: c.SourceID}
	}
	labels, err := ledger.LabelsOf(ctx, ids)
	if err != nil {
		return err
	}
	rows := make([]ranRow, len(changes))
	for i, c := range changes {
		rows[i] = ranRowOf(c, payerName{r.Connection, c.SourceID, labels[ids[i]].Name})
	}
	progress, err := v.progressOf(r)
	if err != nil {
		return err
	}
	return v.show("run", fmt.Sprintf("Run %d", n), struct {
		state.RunDetail
		Sums     []runSum
		Together int
		Progress string
		Rows     []ranRow
		Pager    pager
	}{*r, sumsOf(r), together(r), progress, rows, v.page(next)})
}

// runSum is how many records of a run came to one end.
type runSum struct {
	Word string
	N    int
}

// sumsOf returns the outcomes of a run's records: each record counts in one of them.
func sumsOf(r *state.RunDetail) []runSum {
	return []runSum{
		{"Unchanged", r.Unchanged}, {"Excluded", r.Excluded}, {"Created", r.Created}, {"Linked", r.Adopted},
		{"Updated", r.Updated},
		{"On hold", r.Held}, {"Failed", r.Failed}, {"Open", r.Waiting},
	}
}

func together(r *state.RunDetail) (n int) {
	for _, s := range sumsOf(r) {
		n += s.N
	}
	return n
}

// progressOf describes the progress of a running run; "" for any other. Only the process that makes a run knows its
// stage. The ledger has the rest.
func (v *visit) progressOf(r *state.RunDetail) (string, error) {
	if !isRunning(*r) {
		return "", nil
	}
	if v.pages.cfg.Starter != nil {
		if p, ok := v.pages.cfg.Starter.Progress(r.RunID); ok {
			switch {
			case p.Total > 0:
				return fmt.Sprintf("%s: %s of %s.", stages[p.Stage], number(p.Done), number(p.Total)), nil
			case p.Done > 0:
				return fmt.Sprintf("%s: %s.", stages[p.Stage], number(p.Done)), nil
			}
			return stages[p.Stage] + ".", nil
		}
	}
	words := "It began " + admin.Roughly(v.ledger().Now().Sub(since(r.StartedAt))) + " ago."
	all, done, err := v.ledger().RunWork(v.Context(), r.RunID)
	switch {
	case err != nil:
		return "", err
	case all == 0:
		return words + " It has planned no change yet.", nil
	}
	return fmt.Sprintf("%s %s of %s done.", words, number(done), connector.Plural(all, "change")), nil
}

func ranRowOf(c state.RunChange, who payerName) ranRow {
	row := ranRow{Who: who, Did: does[c.Action]}
	switch c.State {
	case connector.ChangeDone:
		row.Ended = chip{"✓", "Done", good}
	case connector.ChangePending:
		row.Ended = chip{"◷", "Planned", waits}
	case connector.ChangeFrozen, connector.ChangeUnknown:
		row.Ended = chip{"◷", "No answer yet", waits}
	case connector.ChangeFailed:
		row.Ended = chip{"✕", "Failed", stopped}
	default:
		row.Ended = chip{"–", "On hold", none}
	}
	if row.Why = c.Detail; row.Why == "" && c.Reason != "" {
		row.Why = c.Reason.Sentence()
	}
	return row
}

// startRun starts a run of a connection, as payersync sync does.
func (v *visit) startRun() error {
	connections, connection := v.startable(), v.filled("connection")
	if connection == "" && len(connections) == 1 {
		connection = connections[0]
	}
	if !slices.Contains(connections, connection) {
		return problem{Status: http.StatusNotFound, Title: "No run was started",
			Sentence: "There is no such connection here, or these pages start no runs.",
			Next:     "Choose a connection on the page of runs, or wait for the schedule."}
	}
	n, err := v.pages.cfg.Starter.Now(v.Context(), connection, v.User.Name)
	var at *admin.RunAtWork
	switch {
	case errors.As(err, &at) && at.Run != 0:
		return v.done(fmt.Sprintf("Run %d of %s is already in progress. No other run was started.", at.Run, connection),
			fmt.Sprintf("/runs/%d", at.Run))
	case errors.As(err, &at):
		return problem{Status: http.StatusConflict, Title: "No run was started",
			Sentence: fmt.Sprintf("Another run of %s is in progress, or waits for the accounting system or the billing service.",
				connection), Next: "Look again in a moment."}
	case err != nil:
		return problem{Status: http.StatusConflict, Title: "The run did not begin", Sentence: err.Error(),
			Next: "Nothing was read or sent. Put this right, or ask the operator of payersync.", err: err}
	case n == 0:
		return v.done(fmt.Sprintf("A run of %s starts soon.", connection), "/runs")
	}
	return v.done(fmt.Sprintf("Run %d of %s was started.", n, connection), fmt.Sprintf("/runs/%d", n))
}
