package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/health"
	"payersync/connector/queue"
	"payersync/state"
)

// lookedAtOnce is the number of accounts with a stale summary checked together: a check mostly waits for the
// database.
const lookedAtOnce = 8

// accountStatus is an account as status shows it beside others; its keys are public.
type accountStatus struct {
	Account     string             `json:"account"`
	State       state.AccountState `json:"state"`
	Problem     string             `json:"problem,omitempty"` // why it cannot be looked at
	NotOpenOn   []string           `json:"not_open_on"`       // working nodes that could not open it
	Conditions  []health.Condition `json:"conditions"`        // all problems; none for a paused or leaving account
	LastRun     *state.RunRow      `json:"last_run"`          // of all connections; null for none
	Questions   int                `json:"questions"`         // records, webhooks and plans waiting for a person
	SweptAt     time.Time          `json:"swept_at,omitzero"`
	DeliveredAt time.Time          `json:"delivered_at,omitzero"` // when the last webhook came
	LookedAt    time.Time          `json:"looked_at,omitzero"`    // when a node found this; zero for just now

	failed error
}

// newAccountStatus returns the status of an account without any facts yet.
func newAccountStatus(a state.AccountInfo) accountStatus {
	return accountStatus{Account: a.Name, State: a.State, NotOpenOn: []string{}, Conditions: []health.Condition{}}
}

// text returns the status as its account's row keeps it.
func (s accountStatus) text() string {
	text, _ := json.Marshal(s) // of texts, numbers and times
	return string(text)
}

// needsSomebody reports whether somebody should look at the account.
func (s accountStatus) needsSomebody() bool {
	return s.failed != nil || len(s.NotOpenOn) > 0 || len(s.Conditions) > 0
}

// nameAccount lets each command line name the account, because the status of all accounts shows it.
func (s *accountStatus) nameAccount() {
	s.Problem = connector.NameAccount(s.Problem, s.Account)
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.Sentence, c.Next = connector.NameAccount(c.Sentence, s.Account), connector.NameAccount(c.Next, s.Account)
		for j := range c.Commands {
			c.Commands[j] = connector.NameAccount(c.Commands[j], s.Account)
		}
	}
}

// worst returns the most urgent problem.
func (s accountStatus) worst() string {
	switch {
	case s.failed != nil:
		return s.Problem
	case len(s.NotOpenOn) > 0:
		return "It is not open on " + strings.Join(s.NotOpenOn, ", ") + "; its log has the reason."
	case len(s.Conditions) == 0:
		return ""
	}
	text := s.Conditions[0].Sentence // urgent ones come first
	if more := len(s.Conditions) - 1; more > 0 {
		text += fmt.Sprintf(" And %d more.", more)
	}
	return text
}

// fleetStatus is the output of `status --output json` for all accounts of a database; its keys are public.
type fleetStatus struct {
	Accounts []accountStatus            `json:"accounts"` // those that need attention; all with --all
	Counts   map[state.AccountState]int `json:"counts"`
	Need     int                        `json:"need_somebody"`
	Nodes    []nodeRow                  `json:"nodes"`
	Problems []string                   `json:"problems"` // of all accounts together
}

// statusOfAccounts shows how all accounts of the database are, and ends as the worst of them would.
func (a *app) statusOfAccounts(ctx context.Context, all bool) error {
	server, err := a.node.open()
	if err != nil {
		return err
	}
	accounts, err := server.Accounts(ctx)
	if err != nil {
		return err
	}
	r := fleetStatus{Accounts: []accountStatus{}, Counts: map[state.AccountState]int{}, Problems: []string{}}
	if r.Nodes, err = nodeRows(ctx, server, accounts); err != nil {
		return err
	}
	r.Problems = append(r.Problems, problemsOf(r.Nodes)...)
	code := exitDone
	found, err := a.lookAtAccounts(ctx, accounts, r.Nodes)
	if err != nil {
		return err
	}
	for _, s := range found {
		r.Counts[s.State]++
		if s.needsSomebody() {
			r.Need++
		}
		if all || s.needsSomebody() {
			r.Accounts = append(r.Accounts, s)
		}
		code = worse(code, exitCode(s.failed))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if a.JSON() {
		err = show.JSON(a.Out, r)
	} else {
		a.printFleet(r, len(accounts), all)
	}
	if err == nil && code != exitDone {
		err = exitError(code)
	}
	return err
}

// problemsOf describes the problems of the nodes.
func problemsOf(nodes []nodeRow) (problems []string) {
	if !slices.ContainsFunc(nodes, func(n nodeRow) bool { return n.State == queue.AtWork }) {
		problems = append(problems, "No node is at work, so nothing is done for any account. Start payersync serve.")
	}
	for _, n := range nodes {
		if n.State == queue.Lost {
			problems = append(problems,
				fmt.Sprintf("Node %s was last seen %s. Other nodes continue its work. Start it again, or remove it: payersync nodes forget %[1]s", n.Name, show.Ago(n.silence())))
		}
	}
	return problems
}

// lookAtAccounts returns the states of accounts, in their order: from a node's last check, or from a new
// check if the account has changed since.
func (a *app) lookAtAccounts(ctx context.Context, accounts []state.AccountInfo, nodes []nodeRow) ([]accountStatus,
	error) {
	server := a.node.server
	summaries, err := server.Summaries(ctx, false)
	if err != nil {
		return nil, err
	}
	keyless, err := server.CheckKeys(ctx)
	if err != nil {
		return nil, err
	}
	found, looking := make([]accountStatus, len(accounts)), new(errgroup.Group)
	looking.SetLimit(lookedAtOnce)
	for i, account := range accounts {
		found[i] = newAccountStatus(account)
		s, summary := &found[i], summaries[account.ID]
		switch s.failed = keyless[account.ID]; {
		case s.failed != nil || account.State == state.AccountLeaving: // what it was need not be there any more
		case !summary.Stale && json.Unmarshal([]byte(summary.Text), s) == nil:
			s.State, s.LookedAt = account.State, summary.LookedAt
		default:
			looking.Go(func() error {
				s.failed = a.lookAtAccount(ctx, s)
				return nil
			})
		}
	}
	_ = looking.Wait() // each reports its own error
	for i := range found {
		s := &found[i]
		if s.failed != nil {
			s.Problem = errorText(s.failed)
		}
		s.nameAccount()
		for _, n := range nodes {
			if n.State == queue.AtWork && slices.Contains(n.Unopened, s.Account) {
				s.NotOpenOn = append(s.NotOpenOn, n.Name)
			}
		}
	}
	return found, nil
}

// lookAtAccount finds out how an account is now.
func (a *app) lookAtAccount(ctx context.Context, r *accountStatus) error {
	return a.node.withAccount(ctx, r.Account, func(cfg *config.Config) error {
		s, err := a.openToLook(ctx, cfg)
		if err != nil {
			return err
		}
		defer s.Close()
		if r.State == state.AccountActive {
			found, err := health.Present(ctx, s.Ledger, a.expected(s))
			if err != nil {
				return err
			}
			r.Conditions = found
		}
		return r.read(ctx, s.Ledger)
	})
}

// read reads the status's facts besides conditions from an account's ledger.
func (s *accountStatus) read(ctx context.Context, ledger *state.Ledger) error {
	runs, err := ledger.LatestRuns(ctx)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if s.LastRun == nil || run.RunID > s.LastRun.RunID {
			s.LastRun = &run
		}
	}
	if s.Questions, err = admin.Questions(ctx, ledger); err != nil {
		return err
	}
	if s.SweptAt, err = ledger.LastPass(ctx); err != nil {
		return err
	}
	s.DeliveredAt, err = lastDelivery(ctx, ledger)
	return err
}

// lastDelivery returns when the last webhook came; zero for never.
func lastDelivery(ctx context.Context, ledger *state.Ledger) (time.Time, error) {
	newest, err := ledger.Inbox(ctx, state.Filter{Limit: 1})
	if err != nil || len(newest) == 0 {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339, newest[0].ReceivedAt)
}

func (a *app) printFleet(r fleetStatus, accounts int, all bool) {
	var rows [][]string
	for _, s := range r.Accounts {
		run := "never"
		if s.LastRun != nil {
			run = s.LastRun.Outcome + ", " + show.Stored(s.LastRun.StartedAt)
		}
		rows = append(rows, []string{s.Account, string(s.State), show.Visible(s.worst()), run, fmt.Sprint(s.Questions),
			show.Time(s.SweptAt), show.Time(s.DeliveredAt)})
	}
	if len(rows) > 0 {
		show.Table(a.Out, []string{"Account", "State", "Finding", "Last run", "Questions", "Last sweep", "Last webhook"},
			rows)
		fmt.Fprintln(a.Out)
	}
	var counts []string
	for _, s := range []state.AccountState{state.AccountActive, state.AccountPaused, state.AccountLeaving} {
		if n := r.Counts[s]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, s))
		}
	}
	text := fmt.Sprintf("%s: %s. Somebody should look at %d.", connector.Plural(accounts, "account"),
		strings.Join(counts, ", "), r.Need)
	switch {
	case accounts == 0:
		text = "There is no account yet: payersync accounts apply DIR makes one."
	case !all && r.Need < accounts:
		text += " --all shows the others, too."
	}
	fmt.Fprintln(a.Out, text)
	if len(r.Nodes) > 0 {
		fmt.Fprintln(a.Out, "\nNodes")
		_ = nodeListing().On(a.Console).Print(r.Nodes) // a closed reader is no error
	}
	for _, p := range r.Problems {
		fmt.Fprintf(a.Out, "\n%s\n", show.Visible(p))
	}
	if r.Need > 0 {
		fmt.Fprintln(a.Out, "\npayersync status --account NAME explains one account.")
	}
}
