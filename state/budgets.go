package state

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// slotLife is the time after which another request may take an in-flight slot: longer than any
// answer takes, and short for a dead process.
const slotLife = 2 * time.Minute

// slotPoll is when who finds all places taken asks again.
const slotPoll = 100 * time.Millisecond

const day = 24 * time.Hour

// TakeTurn counts one request against the scope's limits, or says from when it
// may be made. The windows, of a minute and of a day unless limits says otherwise, begin with their first
// request.
func (l *Ledger) TakeTurn(ctx context.Context, scope string, limits connector.Limits) (turn connector.Turn, err error) {
	err = l.Do(ctx, func(tx *Tx) error {
		b, err := tx.budget(scope, limits)
		if err != nil {
			return fmt.Errorf("read the request budget: %w", err)
		}
		turn = b.turn(limits, tx.now)
		if !turn.NotBefore.IsZero() {
			return nil
		}
		turn, err = tx.slot(scope, limits.Concurrent)
		if err != nil || !turn.NotBefore.IsZero() {
			return err
		}
		return tx.exec("UPDATE budgets SET minute_start = ?, minute_used = ?, day_start = ?, day_used = ? WHERE scope = ?",
			stamp(b.minute.start), b.minute.used+1, stamp(b.day.start), b.day.used+1, scope)
	})
	return turn, err
}

// EndTurn gives the place of a turn back.
func (l *Ledger) EndTurn(ctx context.Context, id int64) error {
	return l.Do(ctx, func(tx *Tx) error { return tx.exec("DELETE FROM slots WHERE slot_id = ?", id) })
}

// Reserve takes the next n requests of a pace shared by several processes, with a fixed interval.
// It returns the wait before the first. Unused reservations are lost. In the scope's row, the
// minute begins when the pace is free again.
func (l *Ledger) Reserve(ctx context.Context, scope string, n int, every time.Duration) (wait time.Duration,
	err error) {
	err = l.Do(ctx, func(tx *Tx) error {
		b, err := tx.budget(scope, connector.Limits{})
		if err != nil {
			return fmt.Errorf("read the shared pace: %w", err)
		}
		from := tx.now
		if b.minute.start.After(from) { // a time that no pace could reach was dropped when it was read
			from = b.minute.start
		}
		wait = from.Sub(tx.now)
		return tx.exec("UPDATE budgets SET minute_start = ? WHERE scope = ?", stamp(from.Add(time.Duration(n)*every)), scope)
	})
	return wait, err
}

// ParkScope lets no request of the scope through before until, a day from now at
// the latest; it never shortens what was asked for before.
func (l *Ledger) ParkScope(ctx context.Context, scope string, until time.Time) error {
	return l.Do(ctx, func(tx *Tx) error {
		if latest := tx.now.Add(day); until.After(latest) {
			until = latest
		}
		return tx.exec(`INSERT INTO budgets (scope, parked_until) VALUES (?1, ?2)
			ON CONFLICT (scope) DO UPDATE SET parked_until = excluded.parked_until
			WHERE budgets.parked_until IS NULL OR budgets.parked_until < ?2 OR budgets.parked_until > ?3`,
			scope, stamp(until), stamp(tx.now.Add(day+clockSlack)))
	})
}

// window counts the requests since its start.
type window struct {
	start time.Time
	used  int
}

// clockSlack is how far ahead of a write's own instant another's may be: writes
// are stamped before they wait for each other. A time beyond it was written by a
// clock that was set back since.
const clockSlack = time.Minute

// at returns the window at the time now. One that begins in the future would never end.
func (w window) at(now time.Time, span time.Duration) window {
	if w.start.IsZero() || w.start.After(now.Add(clockSlack)) || !now.Before(w.start.Add(span)) {
		return window{start: now}
	}
	return w
}

// Left is the rest of a budget. A limit that there is not is a nil.
type Left struct {
	Minute, Day *int
	ParkedUntil time.Time // zero unless the remote system asked for a wait that is not over
}

// BudgetLeft returns the rest of the scope's limits now.
func (l *Ledger) BudgetLeft(ctx context.Context, scope string, limits connector.Limits) (left Left, err error) {
	now := l.Now()
	b, err := scanBudget(l.queryRow(ctx, selectBudget, scope).Scan, limits, now)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return left, fmt.Errorf("read the request budget: %w", err)
	}
	if turn := b.turn(connector.Limits{}, now); turn.Parked {
		left.ParkedUntil = turn.NotBefore
	}
	for _, w := range []struct {
		limit, used int
		into        **int
	}{{limits.PerMinute, b.minute.used, &left.Minute}, {limits.PerDay, b.day.used, &left.Day}} {
		if w.limit > 0 {
			n := max(0, w.limit-w.used)
			*w.into = &n
		}
	}
	return left, nil
}

type budget struct {
	minute, day window
	parkedUntil time.Time
}

func (tx *Tx) budget(scope string, limits connector.Limits) (b budget, err error) {
	if err := tx.exec("INSERT INTO budgets (scope) VALUES (?) ON CONFLICT (scope) DO NOTHING", scope); err != nil {
		return b, err
	}
	return scanBudget(func(dest ...any) error { return tx.row(dest, selectBudget, scope) }, limits, tx.now)
}

const selectBudget = "SELECT minute_start, minute_used, day_start, day_used, parked_until FROM budgets WHERE scope = ?"

// scanBudget reads a row of selectBudget at the time now, with the windows of limits.
func scanBudget(scan func(dest ...any) error, limits connector.Limits, now time.Time) (b budget, err error) {
	var minute, daily, parked sql.NullString
	if err := scan(&minute, &b.minute.used, &daily, &b.day.used, &parked); err != nil {
		return budget{}, err
	}
	err = parseTimes(map[*time.Time]sql.NullString{&b.minute.start: minute, &b.day.start: daily, &b.parkedUntil: parked})
	b.minute, b.day = b.minute.at(now, cmp.Or(limits.Minute, time.Minute)), b.day.at(now, cmp.Or(limits.Day, day))
	return b, err
}

// turn returns when the limits allow the next request; the zero turn for now.
func (b budget) turn(limits connector.Limits, now time.Time) connector.Turn {
	switch {
	case b.parkedUntil.After(now) && !b.parkedUntil.After(now.Add(day+clockSlack)):
		return connector.Turn{NotBefore: b.parkedUntil, Parked: true}
	case limits.PerDay > 0 && b.day.used >= limits.PerDay:
		return connector.Turn{NotBefore: b.day.start.Add(cmp.Or(limits.Day, day)), Parked: true}
	case limits.PerMinute > 0 && b.minute.used >= limits.PerMinute:
		return connector.Turn{NotBefore: b.minute.start.Add(cmp.Or(limits.Minute, time.Minute))}
	}
	return connector.Turn{}
}

// slot takes a place among the requests in flight.
func (tx *Tx) slot(scope string, limit int) (turn connector.Turn, err error) {
	if limit <= 0 {
		return turn, nil
	}
	if err := tx.exec("DELETE FROM slots WHERE until <= ? OR until > ?", stamp(tx.now),
		stamp(tx.now.Add(slotLife+clockSlack))); err != nil {
		return turn, err
	}
	var taken int
	var last int64
	if err := tx.row([]any{&taken, &last},
		"SELECT count(CASE WHEN scope = ? THEN 1 END), coalesce(max(slot_id), 0) FROM slots", scope); err != nil {
		return turn, err
	}
	if taken >= limit {
		return connector.Turn{NotBefore: tx.now.Add(slotPoll)}, nil
	}
	// An id is never reused: a caller that lost its place by sleeping too long would give back another's.
	turn.ID = max(last+1, tx.now.UnixMilli())
	return turn, tx.exec("INSERT INTO slots (slot_id, scope, until) VALUES (?, ?, ?)", turn.ID, scope,
		stamp(tx.now.Add(slotLife)))
}

// parseTimes reads several times that stamp wrote.
func parseTimes(from map[*time.Time]sql.NullString) error {
	for into, text := range from {
		t, err := parseTime(text)
		if err != nil {
			return err
		}
		*into = t
	}
	return nil
}
