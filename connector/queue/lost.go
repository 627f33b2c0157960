package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"payersync/connector"
)

// steadyTimes is the number of consecutive reports of presence a node needs before it judges others. After an outage of
// the database every node looks silent until its next report.
const steadyTimes = 3

// errUnseen means other nodes may have declared this one lost.
var errUnseen = errors.New("the node could not tell the database for a minute that it is there; other nodes may go on with its jobs, so it stops them")

// returnJobs returns the jobs of lost nodes to all nodes. Jobs of unknown nodes, for example after a restore, wait a
// minute: their node may be about to write its first row.
//
// Each job gets a new row, so a late answer of the lost node finds only the old, finished one. The lock on the rows of
// nodes decides, for both sides, whether a node reporting at that moment was lost.
const returnJobs = `WITH lost AS MATERIALIZED (
	SELECT node_id FROM river.nodes WHERE seen_at <= clock_timestamp() - $1::interval FOR UPDATE
), ended AS (
	UPDATE river.river_job j SET state = 'discarded', finalized_at = now(),
		errors = array_append(j.errors, jsonb_build_object('at', now(), 'attempt', j.attempt, 'error', 'its node was lost', 'trace', ''))
	WHERE j.state = 'running' AND (j.attempted_by[cardinality(j.attempted_by)] IN (SELECT node_id FROM lost)
		OR j.attempted_at <= now() - $1::interval AND NOT EXISTS (SELECT 1 FROM river.nodes n WHERE n.node_id = j.attempted_by[cardinality(j.attempted_by)]))
	RETURNING j.*
), returned AS (
	INSERT INTO river.river_job (state, scheduled_at, args, attempt, attempted_at, attempted_by, created_at, errors, kind, max_attempts, metadata, priority, queue, tags, unique_key, unique_states)
	SELECT 'available', now(), args, attempt, attempted_at, attempted_by, created_at, errors, kind, max_attempts, metadata, priority, queue, tags, unique_key, unique_states
	FROM ended WHERE attempt < max_attempts
	RETURNING id, kind, args
), freed AS (
	DELETE FROM river.holds WHERE held_until IS NOT NULL AND split_part(holder, ' ', 1) IN (SELECT node_id FROM lost)
), renumbered AS (
	UPDATE river.holds h SET job_id = r.id FROM returned r
	WHERE r.kind = 'slice' AND h.account = (r.args ->> 'account')::bigint AND h.job = r.args ->> 'job' AND h.held_until IS NULL
		AND h.job_id IN (SELECT id FROM ended)
)
SELECT count(*) FROM returned`

// returnLost returns the jobs of lost nodes. Then it deletes the nodes back under their name, and those lost long ago.
func (q *Queue) returnLost(ctx context.Context, name string) error {
	returned := 0
	err := q.write(ctx, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, returnJobs, q.cfg.pace.gone).Scan(&returned); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM river.nodes WHERE seen_at < now() - $1::interval OR name = $2 AND seen_at <= now() - $3::interval", lostFor, name, q.cfg.pace.gone)
		return err
	})
	if err != nil {
		return fmt.Errorf("return the jobs of lost nodes: %w", err)
	}
	if returned > 0 {
		q.cfg.Log(fmt.Sprintf("jobs of lost nodes were returned to the queue: %d", returned))
	}
	return nil
}

// stillMine reports whether a job still belongs to this node. Call it after noting the node's lease: a node declared
// lost later finds this lease over.
func (q *Queue) stillMine(ctx context.Context, row *rivertype.JobRow) (mine bool, err error) {
	err = q.cfg.Pool.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM river.river_job WHERE id = $1 AND state = 'running')",
		row.ID).Scan(&mine)
	return mine, err
}

// fence returns the fence of a job under a lease of the node.
func fence(node *connector.Lease) func() error {
	return func() error {
		if node.Over() {
			return errUnseen
		}
		return nil
	}
}
