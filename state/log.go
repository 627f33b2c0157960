package state

import (
	"context"
	"database/sql"
	"fmt"
)

// LoggedEntry is a line of the audit log with its place in it.
type LoggedEntry struct {
	Seq int64
	Entry
}

// LogFilter narrows a list of lines of the audit log. Blank words and a zero line do not narrow.
type LogFilter struct {
	Actor, Action string
	Before        int64 // only lines before this one
	Limit         int   // at most so many; negative for all
}

// Log returns lines of the audit log, the newest first.
func (l *Ledger) Log(ctx context.Context, f LogFilter) ([]LoggedEntry, error) {
	type row struct {
		LoggedEntry
		at sql.NullString
	}
	rows, err := list(ctx, l, `SELECT seq, at, actor, action, subject, reason FROM audit
		WHERE (?1 = '' OR actor = ?1) AND (?2 = '' OR action = ?2) AND (?3 = 0 OR seq < ?3) ORDER BY seq DESC LIMIT ?4`,
		[]any{f.Actor, f.Action, f.Before, f.Limit},
		func(r *row) []any { return []any{&r.Seq, &r.at, &r.Actor, &r.Action, &r.Subject, &r.Reason} })
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	out := make([]LoggedEntry, len(rows))
	for i, r := range rows {
		out[i] = r.LoggedEntry
		out[i].At, _ = parseTime(r.at) // one that cannot be read hides no line
	}
	return out, nil
}

// LogChain is the result of a walk along the audit log.
type LogChain struct {
	Lines   int
	Head    string // the hash of the last line
	Altered int64  // the first line that does not follow from those before; 0 for none
}

// LogChain walks along the whole audit log and holds each line against the one before. It
// takes about a second for 300,000 lines.
func (l *Ledger) LogChain(ctx context.Context) (c LogChain, err error) {
	type row struct {
		seq                                int64
		prev, hash                         string
		at, actor, action, subject, reason sql.NullString
	}
	err = each(ctx, l, "SELECT seq, prev_hash, hash, at, actor, action, subject, reason FROM audit ORDER BY seq", nil,
		func(r *row) []any {
			return []any{&r.seq, &r.prev, &r.hash, &r.at, &r.actor, &r.action, &r.subject, &r.reason}
		},
		func(r row) error {
			want, err := link(c.Head, r.at.String, r.actor.String, r.action.String, r.subject.String, r.reason.String)
			if c.Altered == 0 && (r.prev != c.Head || r.hash != want) {
				c.Altered = r.seq
			}
			c.Lines, c.Head = c.Lines+1, r.hash
			return err
		})
	if err != nil {
		return c, fmt.Errorf("walk along the audit log: %w", err)
	}
	return c, nil
}

// LoggedWords are the people and the acts that the audit log names, for choosing among them.
func (l *Ledger) LoggedWords(ctx context.Context) (actors, actions []string, err error) {
	word := func(s *string) []any { return []any{s} }
	if actors, err = list(ctx, l, "SELECT DISTINCT actor FROM audit ORDER BY actor LIMIT 200", nil, word); err == nil {
		actions, err = list(ctx, l, "SELECT DISTINCT action FROM audit ORDER BY action LIMIT 200", nil, word)
	}
	return actors, actions, err
}

// InboxPage returns deliveries of a state (all for ""), the newest first, from before a number; 0
// for the newest. The number of each stands beside it.
func (l *Ledger) InboxPage(ctx context.Context, state string, before int64, limit int) (rows []InboxRow, ids []int64,
	err error) {
	type row struct {
		id int64
		InboxRow
	}
	found, err := list(ctx, l,
		"SELECT inbox_id, "+inboxColumns+" FROM inbox WHERE (?1 = '' OR state = ?1) AND (?2 = 0 OR inbox_id < ?2) ORDER BY inbox_id DESC LIMIT ?3",
		[]any{state, before, limit}, func(r *row) []any { return append([]any{&r.id}, r.InboxRow.dest()...) })
	for _, r := range found {
		rows, ids = append(rows, r.InboxRow), append(ids, r.id)
	}
	return rows, ids, err
}
