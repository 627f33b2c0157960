package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// SignInAttempts are the wrong passwords of strangers that one counter has counted.
type SignInAttempts struct {
	Counter   string    // a keyed hash, as SignInHash returns it
	Wrong     int       // 0 for a counter that is dropped
	WaitUntil time.Time // before it, no password is checked; zero for no wait
	ExpiresAt time.Time // after it, the counter is dropped
}

// SignInHash returns a keyed hash for the sign-in to the pages. It stays the same for the ledger's
// life, after a restart and with another sealing key. kind keeps hashes of different things apart.
func (l *Ledger) SignInHash(kind string, texts ...string) string {
	return l.LetterHash("sign-in "+kind, texts...)
}

// SignInAttempts returns up to limit unexpired counters of strangers, those with the most wrong
// passwords first.
func (l *Ledger) SignInAttempts(ctx context.Context, now time.Time, limit int) ([]SignInAttempts, error) {
	return attempts(list(ctx, l, "SELECT "+attemptColumns+" AND expires_at > ? ORDER BY wrong DESC, counter LIMIT ? + 0",
		[]any{stamp(now), limit}, (*attemptRow).columns))
}

// SignInAttemptsOf returns the unexpired among these counters of strangers.
func (l *Ledger) SignInAttemptsOf(ctx context.Context, counters []string, now time.Time) ([]SignInAttempts, error) {
	return attempts(list(ctx, l, "SELECT "+attemptsOf, []any{stamp(now), jsonOf(counters)}, (*attemptRow).columns))
}

// SignInAttemptsOf is [Ledger.SignInAttemptsOf] within a write, so that no other process counts in between.
func (tx *Tx) SignInAttemptsOf(counters []string, now time.Time) ([]SignInAttempts, error) {
	var rows []attemptRow
	err := tx.each("SELECT "+attemptsOf, []any{stamp(now), jsonOf(counters)}, func(scan func(...any) error) error {
		var r attemptRow
		err := scan(r.columns()...)
		rows = append(rows, r)
		return err
	})
	return attempts(rows, err)
}

// attemptRow is a counter as its row has it.
type attemptRow struct {
	SignInAttempts
	wait, expires sql.NullString
}

const (
	attemptColumns = "counter, wrong, wait_until, expires_at FROM sign_in_attempts WHERE kind = 'stranger'"
	attemptsOf     = attemptColumns + " AND expires_at > ? AND counter IN (SELECT value FROM json_each(?))"
)

func (r *attemptRow) columns() []any { return []any{&r.Counter, &r.Wrong, &r.wait, &r.expires} }

// jsonOf returns texts as a list in JSON.
func jsonOf(texts []string) string {
	list, _ := json.Marshal(texts) // of texts
	return string(list)
}

// attempts reads the times of rows.
func attempts(rows []attemptRow, err error) ([]SignInAttempts, error) {
	out := make([]SignInAttempts, len(rows))
	for i, r := range rows {
		if err := parseTimes(map[*time.Time]sql.NullString{&r.WaitUntil: r.wait, &r.ExpiresAt: r.expires}); err != nil {
			return nil, fmt.Errorf("read the counters of wrong passwords: %w", err)
		}
		out[i] = r.SignInAttempts
	}
	return out, err
}

// KeepSignInAttempts keeps counters of strangers as they are now.
func (tx *Tx) KeepSignInAttempts(counters []SignInAttempts) error {
	type row struct {
		Counter string  `json:"counter"`
		Wrong   int     `json:"wrong"`
		Wait    *string `json:"wait"`
		Expires string  `json:"expires"`
	}
	rows := make([]row, len(counters))
	for i, c := range counters {
		rows[i] = row{Counter: c.Counter, Wrong: c.Wrong, Expires: c.ExpiresAt.UTC().Format(layout)}
		if !c.WaitUntil.IsZero() {
			text := c.WaitUntil.UTC().Format(layout)
			rows[i].Wait = &text
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	for _, query := range []string{
		"DELETE FROM sign_in_attempts WHERE counter IN (SELECT value ->> 'counter' FROM json_each(?) WHERE CAST(value ->> 'wrong' AS BIGINT) <= 0)",
		`INSERT INTO sign_in_attempts (counter, kind, wrong, wait_until, expires_at)
			SELECT value ->> 'counter', 'stranger', CAST(value ->> 'wrong' AS BIGINT), value ->> 'wait', value ->> 'expires' FROM json_each(?) WHERE CAST(value ->> 'wrong' AS BIGINT) > 0
			ON CONFLICT (counter) DO UPDATE SET wrong = excluded.wrong, wait_until = excluded.wait_until, expires_at = excluded.expires_at`,
	} {
		if err := tx.exec(query, string(text)); err != nil {
			return fmt.Errorf("keep the counters of wrong passwords: %w", err)
		}
	}
	return nil
}

// TrimSignInAttempts drops the counters that have expired, and of more than limit those of strangers with the fewest
// wrong passwords.
func (tx *Tx) TrimSignInAttempts(now time.Time, limit int) error {
	if err := tx.exec("DELETE FROM sign_in_attempts WHERE expires_at <= ?", stamp(now)); err != nil {
		return err
	}
	return tx.exec(`DELETE FROM sign_in_attempts WHERE counter IN (SELECT s.counter FROM sign_in_attempts s WHERE s.kind = 'stranger'
		ORDER BY s.wrong DESC, s.expires_at DESC, s.counter LIMIT 1000000000 OFFSET ? + 0)`, limit)
}

// TakeDeviceAttempt counts an attempt of a device before its password is checked. It reports false,
// and counts nothing, for a device that has used up its limit.
func (tx *Tx) TakeDeviceAttempt(counter string, limit int, expires time.Time) (bool, error) {
	n, err := tx.count(`INSERT INTO sign_in_attempts (counter, kind, wrong, expires_at) VALUES (?1, 'device', 1, ?2)
		ON CONFLICT (counter) DO UPDATE SET wrong = sign_in_attempts.wrong + 1 WHERE sign_in_attempts.wrong < ?3 + 0`,
		counter, stamp(expires), limit)
	return n > 0, err
}

// ReturnDeviceAttempt takes an attempt of a device back, because its password was right or was not
// checked.
func (tx *Tx) ReturnDeviceAttempt(counter string) error {
	n, err := tx.count("DELETE FROM sign_in_attempts WHERE counter = ? AND wrong <= 1", counter)
	if err != nil || n > 0 {
		return err
	}
	return tx.exec("UPDATE sign_in_attempts SET wrong = wrong - 1 WHERE counter = ?", counter)
}
