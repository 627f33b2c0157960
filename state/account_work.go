package state

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// TouchedAccounts returns the accounts whose files, state or addresses were changed at a time or later, by name. Call
// it with a time some minutes ago: a change shows only once its transaction has ended.
func (s *Server) TouchedAccounts(ctx context.Context, since time.Time) ([]AccountInfo, error) {
	return s.accountRows(ctx, "SELECT "+accountColumns+" FROM accounts WHERE touched_at >= $1 ORDER BY name",
		stampText(since))
}

// AccountByID returns the account with a number, or fails with ErrNoAccount.
func (s *Server) AccountByID(ctx context.Context, id int64) (AccountInfo, error) {
	a, err := scanAccount(s.read.QueryRow(ctx, "SELECT "+accountColumns+" FROM accounts WHERE account_id = $1", id))
	return a, ofAccountRow(fmt.Sprint("number ", id), err)
}

// ClaimAccounts returns up to n accounts for a node to open and check now, the longest waiting
// first. No other node gets them before the lease is over, or somebody changes them.
func (s *Server) ClaimAccounts(ctx context.Context, n int, lease time.Duration) ([]AccountInfo, error) {
	now := s.Now()
	return s.accountRows(ctx, `UPDATE accounts SET look_at = $1 WHERE account_id IN (
		SELECT account_id FROM accounts WHERE look_at <= $2 ORDER BY look_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED) RETURNING `+accountColumns,
		stampText(now.Add(lease)), stampText(now), n)
}

func (s *Server) accountRows(ctx context.Context, query string, args ...any) ([]AccountInfo, error) {
	rows, err := s.write.Query(ctx, query, args...)
	if err != nil {
		return nil, refusedServer(err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (AccountInfo, error) { return scanAccount(row) })
	if err != nil {
		return nil, refusedServer(err)
	}
	return out, nil
}

// SettleAccount notes that the schedules and addresses of a version of an account are in force.
func (s *Server) SettleAccount(ctx context.Context, a AccountInfo) error {
	_, err := s.write.Exec(ctx,
		`UPDATE accounts SET settled = $1, pages_host = $2, stop_path = $3, touched_at = now FROM `+serverNow+`
		WHERE account_id = $4 AND version >= $1 AND (settled, pages_host, stop_path) IS DISTINCT FROM ($1, $2, $3)`,
		a.Version, a.PagesHost, a.StopPath, a.ID)
	if err != nil {
		return refusedServer(err)
	}
	return nil
}

// LeaveAccount notes that a leaving account has no work left, unless it was changed since.
func (s *Server) LeaveAccount(ctx context.Context, a AccountInfo) error {
	_, err := s.write.Exec(ctx,
		"UPDATE accounts SET look_at = NULL, settled = version, due_at = NULL, needs = 0, summary = '' WHERE account_id = $1 AND version = $2", a.ID, a.Version)
	if err != nil {
		return refusedServer(err)
	}
	return nil
}

// AccountSummary is the result of a check of an account.
type AccountSummary struct {
	Account  int64
	LookedAt time.Time // zero for never
	NextLook time.Time // for a node
	Needs    bool      // somebody should look
	Text     string    // for whoever shows it; nothing personal is in it
	Stale    bool      // the ledger was written to since, or its configuration was changed
}

// NoteSummary stores the result of a check of an account, in place of the earlier one. A write that
// came after the look began brings the next look forward.
func (s *Server) NoteSummary(ctx context.Context, a AccountSummary) error {
	_, err := s.write.Exec(ctx, `UPDATE accounts SET looked_at = $1, summary = $2, needs = $3,
		look_at = CASE WHEN look_at IS NULL OR settled <> version THEN look_at WHEN written_at >= $1 THEN least($4, $5) ELSE $4 END WHERE account_id = $6`,
		stampText(a.LookedAt), a.Text, bit(a.Needs), stampText(a.NextLook), stampText(s.Now().Add(lookAfterWrite)), a.Account)
	if err != nil {
		return refusedServer(err)
	}
	return nil
}

// Summaries returns the findings of the last check of each account, by number. Optionally it
// returns only the accounts that need attention.
func (s *Server) Summaries(ctx context.Context, needing bool) (map[int64]AccountSummary, error) {
	rows, err := s.read.Query(ctx,
		`SELECT account_id, looked_at, needs, summary, looked_at = '' OR settled <> version OR written_at >= looked_at FROM accounts WHERE needs = 1 OR NOT $1`, needing)
	if err != nil {
		return nil, refusedServer(err)
	}
	out := map[int64]AccountSummary{}
	var a AccountSummary
	var at string
	var needs int64
	_, err = pgx.ForEachRow(rows, []any{&a.Account, &at, &needs, &a.Text, &a.Stale}, func() error {
		a.Needs = needs == 1
		a.LookedAt, _ = time.Parse(layout, at) // the zero time for never
		out[a.Account] = a
		return nil
	})
	if err != nil {
		return nil, refusedServer(err)
	}
	return out, nil
}

const (
	lookAfterWrite = time.Minute      // until an account is looked at whose ledger was written to
	markEvery      = 10 * time.Second // how often a ledger that is written to says so
)

// mark lets nodes and status know, in the transaction of a write, that the ledger is written to.
func (e *postgres) mark(tx *Tx) error {
	e.written = time.Now() //nolint:forbidigo // it measures how long ago that was
	if e.written.Sub(e.marked) < markEvery {
		return nil
	}
	now := e.server.Now()
	err := tx.exec("UPDATE accounts SET written_at = ?1, look_at = CASE WHEN look_at > ?2 THEN ?2 ELSE look_at END WHERE account_id = ?3", stamp(now), stamp(now.Add(lookAfterWrite)), e.account)
	if err == nil {
		e.marked = e.written
	}
	return err
}

// markLast is mark for what was written since, when the ledger is closed. If it fails, the next
// check comes later.
func (e *postgres) markLast() {
	if !e.written.After(e.marked) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	now := e.server.Now()
	_, _ = e.server.write.Exec(ctx,
		"UPDATE accounts SET written_at = $1, look_at = CASE WHEN look_at > $2 THEN $2 ELSE look_at END WHERE account_id = $3",
		stampText(now), stampText(now.Add(lookAfterWrite)), e.account)
}

// DueAccounts returns the active accounts with deliveries for [Ledger.OpenDeliveries] now. One query over all
// accounts finds the candidates, and one for each of these decides.
func (s *Server) DueAccounts(ctx context.Context, gap time.Duration) (due []int64, err error) {
	if err := s.firstTime(ctx); err != nil {
		return nil, refusedServer(err)
	}
	now := s.Now()
	rows, err := s.read.Query(ctx,
		`SELECT account_id FROM accounts WHERE (due_at <= $1 OR due_at > $2) AND state = 'active' ORDER BY due_at, account_id LIMIT $3`,
		stampText(now), stampText(now.Add(longestWait+clockSlack)), mostDue)
	if err != nil {
		return nil, refusedServer(err)
	}
	candidates, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, refusedServer(err)
	}
	tell := &pgx.Batch{} // which is a transaction
	for _, account := range candidates {
		tell.Queue("SELECT set_config('payersync.account', $1, true)", strconv.FormatInt(account, 10))
		tell.Queue(postgresSQL("SELECT EXISTS ("+dueDeliveries+")"),
			dueArgs(now.UTC(), gap)...).QueryRow(func(row pgx.Row) error {
			var has bool
			err := row.Scan(&has)
			if has {
				due = append(due, account)
			}
			return err
		})
	}
	if err := s.read.SendBatch(ctx, tell).Close(); err != nil {
		return nil, fmt.Errorf("look for deliveries: %w", err)
	}
	return due, nil
}

// mostDue is how many accounts DueAccounts returns at most. Those that wait longest come first.
const mostDue = 500

// stampText is stamp for what PostgreSQL is sent without the spelling of this package; ” for no time.
func stampText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(layout)
}
