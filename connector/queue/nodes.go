package queue

import (
	"context"
	_ "embed" // the table of nodes
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"payersync/connector"
)

//go:embed nodes.sql
var nodesTable string

const (
	seenEvery  = 10 * time.Second // the time between signs of life of a node
	goneAfter  = connector.NodeLostAfter
	seenWithin = 5 * time.Second // its limit
	lostFor    = 24 * time.Hour  // how long people see a lost one
)

// Presence is a node's entry about itself.
type Presence struct {
	Name, Version string
	Addresses     []string // that it answers on
	Accounts      int      // open accounts
	Unopened      []int64  // accounts it could not open
	Runs          int      // running ones
	Pages         string   // http or https, as browsers reach its pages; "" for none
}

// Node is a node working on the queue, or recently lost.
type Node struct {
	ID string
	Presence
	StartedAt, SeenAt time.Time
	Silent            time.Duration // since then, by the database's clock
	Stopping          bool
	Leads             bool          // it starts the due jobs
	PagesKnown        bool          // one of an older release does not say how its pages are reached
	ClockAhead        time.Duration // relative to the database's clock; below 0 if behind
}

// ClockTolerance is by how much the clock of a node may differ from the database's before people are warned.
const ClockTolerance = 5 * time.Second

// NodeState says how a node is.
type NodeState string

// The states of nodes. A lost node has been silent for so long it has either stopped or cannot reach the database.
const (
	AtWork   NodeState = "at_work"
	Stopping NodeState = "stopping"
	Lost     NodeState = "lost"
)

// NodeStates are the states of nodes.
var NodeStates = []NodeState{AtWork, Stopping, Lost}

// State returns how the node is, as far as the database knows.
func (n Node) State() NodeState {
	switch {
	case n.Silent >= goneAfter:
		return Lost
	case n.Stopping:
		return Stopping
	}
	return AtWork
}

// Nodes returns the nodes by name; none if none ever served.
func Nodes(ctx context.Context, pool *pgxpool.Pool) ([]Node, error) {
	rows, err := pool.Query(ctx,
		`SELECT n.node_id, n.name, n.version, n.addresses, n.accounts, n.unopened, n.runs, n.started_at, n.seen_at, greatest(now() - n.seen_at, '0'), n.stopping,
	coalesce(to_jsonb(n) ->> 'pages', ''), to_jsonb(n) ->> 'pages' IS NOT NULL, coalesce((to_jsonb(n) ->> 'clock_seconds')::float, 0),
	EXISTS (SELECT 1 FROM river.river_leader l WHERE l.leader_id = n.node_id AND l.expires_at > now())
FROM river.nodes n ORDER BY n.name, n.started_at`)
	if err == nil {
		var nodes []Node
		nodes, err = pgx.CollectRows(rows, scanNode)
		if err == nil {
			return nodes, nil
		}
	}
	if nobodyServed(err) {
		return nil, nil
	}
	return nil, fmt.Errorf("learn which nodes there are: %w", err)
}

// nobodyServed reports whether there is no such table yet.
func nobodyServed(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == "42P01"
}

func scanNode(row pgx.CollectableRow) (n Node, err error) {
	var ahead float64
	err = row.Scan(&n.ID, &n.Name, &n.Version, &n.Addresses, &n.Accounts, &n.Unopened, &n.Runs, &n.StartedAt, &n.SeenAt,
		&n.Silent, &n.Stopping, &n.Pages, &n.PagesKnown, &ahead, &n.Leads)
	n.ClockAhead = time.Duration(ahead * float64(time.Second))
	n.StartedAt, n.SeenAt = n.StartedAt.UTC(), n.SeenAt.UTC()
	return n, err
}

// Forget removes the lost nodes of a name, and returns how many they were.
func Forget(ctx context.Context, pool *pgxpool.Pool, name string) (n int, err error) {
	done, err := pool.Exec(ctx, "DELETE FROM river.nodes WHERE name = $1 AND seen_at <= now() - $2::interval", name,
		goneAfter)
	if err != nil && !nobodyServed(err) {
		return 0, fmt.Errorf("forget the lost nodes of the name %s: %w", name, err)
	}
	return int(done.RowsAffected()), nil
}

// Nodes returns the nodes as this one sees them.
func (q *Queue) Nodes(ctx context.Context) ([]Node, error) { return Nodes(ctx, q.cfg.Pool) }

// beSeen reports the node's presence repeatedly, and its stopping once ctx has ended, until it has stopped.
func (v *visible) beSeen(ctx context.Context, stopped <-chan struct{}) {
	tick := time.NewTicker(v.cfg.pace.seen)
	defer tick.Stop()
	for stops := ctx.Done(); ; {
		select {
		case <-tick.C:
		case <-stops:
			stops = nil
		case <-stopped:
			v.removeRow(ctx)
			return
		}
		v.seen(ctx)
	}
}

// removeRow removes the node's row.
func (v *visible) removeRow(ctx context.Context) {
	v.say(ctx, func(within context.Context) error {
		_, err := v.cfg.Pool.Exec(within, "DELETE FROM river.nodes WHERE node_id = $1", v.client.ID())
		return err
	})
}

// visible reports a node's presence to the others.
type visible struct {
	*Queue
	began  time.Time
	told   bool // its failure was logged
	steady int  // how often it has succeeded in a row
}

// seen writes the node's row and, once it has done so for a while, returns the jobs of lost nodes.
func (v *visible) seen(ctx context.Context) {
	p := v.cfg.Presence()
	v.say(ctx, func(within context.Context) error { return v.record(within, p, time.Since(v.began), ctx.Err() != nil) })
	if v.steady > steadyTimes {
		v.say(ctx, func(within context.Context) error { return v.returnLost(within, p.Name) })
	}
}

func (v *visible) say(ctx context.Context, do func(ctx context.Context) error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), seenWithin)
	defer cancel()
	err := do(within)
	v.steady++
	if err != nil {
		v.steady = 0
	}
	if err != nil && !v.told {
		v.cfg.Log("other nodes and people do not see that this node is there; after a minute the others go on with its jobs: " + err.Error())
	}
	v.told = err != nil
}

// record writes the node's row. It renews the node's lease, or begins another if the node was lost meanwhile: its jobs
// are returned, and stay under the old lease.
func (v *visible) record(ctx context.Context, p Presence, age time.Duration, stopping bool) error {
	asked, known := connector.OfThisMachine(), false
	batch := &pgx.Batch{}
	batch.Queue("SELECT 1 FROM river.nodes WHERE node_id = $1 FOR UPDATE", v.client.ID())
	batch.Queue("SELECT EXISTS (SELECT 1 FROM river.nodes WHERE node_id = $1 AND seen_at > clock_timestamp() - $2::interval)", v.client.ID(), v.cfg.pace.gone).
		QueryRow(func(row pgx.Row) error { return row.Scan(&known) })
	batch.Queue(`INSERT INTO river.nodes (node_id, name, version, addresses, accounts, unopened, runs, stopping, started_at, seen_at, pages, clock_seconds)
VALUES ($1, $2, $3, coalesce($4::text[], '{}'), $5, coalesce($6::bigint[], '{}'), $7, $8, now() - $9::interval, clock_timestamp(), $10, extract(epoch FROM $11::timestamptz - clock_timestamp()))
ON CONFLICT (node_id) DO UPDATE SET addresses = excluded.addresses, accounts = excluded.accounts, unopened = excluded.unopened, runs = excluded.runs,
	stopping = excluded.stopping, seen_at = excluded.seen_at, pages = excluded.pages, clock_seconds = excluded.clock_seconds`,
		v.client.ID(), p.Name, p.Version, p.Addresses, p.Accounts, p.Unopened, p.Runs, stopping, age, p.Pages,
		v.cfg.pace.now())
	if err := v.cfg.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	if known {
		v.lease.Load().Renew(asked)
	} else {
		v.lease.Store(connector.NewLease(v.cfg.pace.gone, asked))
	}
	return nil
}
