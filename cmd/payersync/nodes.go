package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/queue"
	"payersync/state"
)

func (a *app) nodesCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "nodes",
		Short: "List and forget the machines that serve the accounts of a database",
		Long: `Several machines may share a database. Each one that runs payersync serve is a node:
it works for all accounts, and reports every ten seconds.`,
		Example: "  payersync nodes list",
	}
	return subcommands(c, a.nodesListCmd(), a.nodesForgetCmd())
}

// nodeRow is a node as it is shown; its keys are public.
type nodeRow struct {
	Name      string          `json:"name"`
	ID        string          `json:"id"`
	State     queue.NodeState `json:"state"`
	Version   string          `json:"version"`
	Leads     bool            `json:"leads"`
	StartedAt time.Time       `json:"started_at"`
	SeenAt    time.Time       `json:"seen_at"`
	Silent    int64           `json:"seconds_silent"` // by the database's clock
	Accounts  int             `json:"accounts_open"`
	Unopened  []string        `json:"accounts_not_open"`
	Runs      int             `json:"runs_under_way"`
	Addresses []string        `json:"addresses"`
	Pages     string          `json:"pages"`               // http or https, as browsers reach its pages
	Ahead     float64         `json:"clock_seconds_ahead"` // of the database's clock
}

func (n nodeRow) silence() time.Duration { return time.Duration(n.Silent) * time.Second }

// nodesOf returns the nodes in a database.
func nodesOf(ctx context.Context, server *state.Server) ([]queue.Node, error) {
	pool, err := server.Pool(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return queue.Nodes(ctx, pool)
}

// nodeRows returns the nodes of a database; accounts are its accounts.
func nodeRows(ctx context.Context, server *state.Server, accounts []state.AccountInfo) ([]nodeRow, error) {
	nodes, err := nodesOf(ctx, server)
	if err != nil {
		return nil, err
	}
	names := map[int64]string{}
	for _, i := range accounts {
		names[i.ID] = i.Name
	}
	rows := []nodeRow{}
	for _, n := range nodes {
		row := nodeRow{n.Name, n.ID, n.State(), n.Version, n.Leads, n.StartedAt, n.SeenAt, int64(n.Silent / time.Second),
			n.Accounts, []string{}, n.Runs, n.Addresses, n.Pages, n.ClockAhead.Seconds()}
		row.Unopened = append(row.Unopened, connector.Map(n.Unopened, func(id int64) string { return names[id] })...)
		rows = append(rows, row)
	}
	return rows, nil
}

func (a *app) nodesListCmd() *cobra.Command {
	return asCSV(&cobra.Command{
		Use: "list", Short: "List the nodes, the leader, and the open accounts of each",
		Long: `Lists the nodes with their own reports: version, start, last report by the database's
clock, open accounts, accounts that failed to open, and current runs. The leader
starts the jobs that are due; any node executes them. The list warns of a node if its
clock differs from the database's by five seconds or more.

A stopped node leaves the list by itself. A node is lost after a minute without a
report: other nodes continue its work. It stays in the list for a day, until a node of
its name returns, or until payersync nodes forget.`,
		Example: "  payersync nodes list\n  payersync nodes list --output json | jq 'select(.state == \"lost\")'",
		RunE: a.onServer(func(ctx context.Context, server *state.Server, _ []string) error {
			accounts, err := server.Accounts(ctx)
			if err != nil {
				return err
			}
			rows, err := nodeRows(ctx, server, accounts)
			if err != nil {
				return err
			}
			if err := nodeListing().On(a.Console).Print(rows); err != nil || a.JSON() {
				return err
			}
			a.warnOfClocks(rows)
			return nil
		}),
	})
}

func nodeListing() *show.Listing[nodeRow] {
	return &show.Listing[nodeRow]{Empty: "There is no node: payersync serve with this configuration is one.",
		Columns: []show.Column[nodeRow]{
			{Name: "name", Title: "Node", Cell: func(n nodeRow) string { return n.Name }},
			{Name: "state", Title: "State",
				Cell: func(n nodeRow) string { return strings.ReplaceAll(string(n.State), "_", " ") }},
			{Name: "leads", Title: "Leads", Cell: func(n nodeRow) string { return map[bool]string{true: "leads"}[n.Leads] }},
			{Name: "version", Title: "Version", Cell: func(n nodeRow) string { return n.Version }},
			show.Moment("started_at", "Since", func(n nodeRow) time.Time { return n.StartedAt }),
			{Name: "seen_at", Title: "Last seen", Cell: func(n nodeRow) string { return show.Ago(n.silence()) },
				Stored: func(n nodeRow) string { return n.SeenAt.UTC().Format(time.RFC3339) }},
			show.Number("accounts_open", "Accounts", func(n nodeRow) int { return n.Accounts }),
			show.Number("accounts_not_open", "Not open", func(n nodeRow) int { return len(n.Unopened) }),
			show.Number("runs_under_way", "Runs", func(n nodeRow) int { return n.Runs }),
		}}
}

// warnOfClocks names the working nodes with a wrong clock.
func (a *app) warnOfClocks(rows []nodeRow) {
	for _, n := range rows {
		seconds, side := n.Ahead, "ahead of"
		if seconds < 0 {
			seconds, side = -seconds, "behind"
		}
		if n.State != queue.Lost && seconds >= queue.ClockTolerance.Seconds() {
			a.Print("Warning: the clock of node %s is %.0f seconds %s the database's. Set both clocks by the same time server (NTP).", show.Visible(n.Name), seconds, side)
		}
	}
}

// forgottenNodes is the output of `nodes forget --output json`.
type forgottenNodes struct {
	Forgotten int `json:"forgotten"`
}

func (a *app) nodesForgetCmd() *cobra.Command {
	return &cobra.Command{
		Use: "forget NAME", Short: "Show a lost node no more: it is known, and will not come back",
		Long: `Removes the lost nodes of a name from the list, so that status and alert rules do not
report them any more. A running node stays, and a node that was not really lost
returns by itself.`,
		Example: "  payersync nodes forget node-b:8080",
		Args:    cobra.ExactArgs(1),
		RunE: a.onServer(func(ctx context.Context, server *state.Server, args []string) error {
			pool, err := server.Pool(ctx, 1)
			if err != nil {
				return err
			}
			defer pool.Close()
			n, err := queue.Forget(ctx, pool, args[0])
			if err != nil {
				return err
			}
			if n == 0 {
				return usage.Errorf("no lost node has the name %q, so nothing was done; payersync nodes list shows the nodes",
					args[0])
			}
			a.Print("%s of the name %s is shown no more.", connector.Plural(n, "lost node"), args[0])
			return a.Result(forgottenNodes{n})
		}),
	}
}
