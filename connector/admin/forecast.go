package admin

import (
	"context"
	"fmt"
	"strings"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/state"
)

// FirstRecords is how many records a mapping is tried on at once.
const FirstRecords = 200

// First tries a mapping on the first stored records, without requests. It caches the result until the ledger changes.
func (m *Mappings) First(ctx context.Context, conn syncer.Connection) (syncer.Preview, error) {
	commits, err := m.Ledger.Commits(ctx)
	if err != nil {
		return syncer.Preview{}, err
	}
	return m.Tally.first(firstOf{conn.Name, conn.Mapping.Version(), commits}, func() (syncer.Preview, error) {
		return m.Syncer.Preview(ctx, conn, syncer.PreviewOptions{Limit: 10, First: FirstRecords})
	})
}

// firstOf is the cache key of a trial on the first records.
type firstOf struct {
	connection, version string
	commits             int64
}

// firstKept is how many such trials are kept.
const firstKept = 8

// first returns the cached trial, or makes one.
func (t *Tallies) first(of firstOf, try func() (syncer.Preview, error)) (syncer.Preview, error) {
	t.mu.Lock()
	p, kept := t.firsts[of]
	t.mu.Unlock()
	if kept {
		return p, nil
	}
	p, err := try()
	if err != nil {
		return p, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for old := range t.firsts {
		if old.commits != of.commits || len(t.firsts) >= firstKept {
			delete(t.firsts, old)
		}
	}
	if t.firsts == nil {
		t.firsts = map[firstOf]syncer.Preview{}
	}
	t.firsts[of] = p
	return p, nil
}

// All tries a mapping on all stored records, in the background.
func (m *Mappings) All(ctx context.Context, conn syncer.Connection) (Tally, error) {
	name, err := m.name(ctx, "preview", conn.Name, conn.Mapping.Version())
	if err != nil {
		return Tally{}, err
	}
	return m.Tally.Begin(name, string(conn.Mapping.Text()), func(ctx context.Context, progress func(int)) (any, error) {
		return m.Syncer.Preview(ctx, conn, syncer.PreviewOptions{Limit: 10, Progress: progress})
	}), nil
}

// Tried returns the progress of a version's newest trial on all records, and whether the records have changed
// since its start; false if there is none.
func (m *Mappings) Tried(ctx context.Context, connection, hash string) (t Tally, old, found bool, err error) {
	name, err := m.name(ctx, "preview", connection, hash)
	if err != nil {
		return t, false, false, err
	}
	if t, found = m.Tally.Get(name); !found {
		t, found = m.Tally.Latest(strings.Join([]string{"preview", connection, hash, ""}, "\x1f"))
		old = true
	}
	return t, old, found, nil
}

// Profiles returns how full the fields of a connection's source are, as a count of
// []syncer.FieldProfile.
func (m *Mappings) Profiles(ctx context.Context, connection string) (Tally, error) {
	conn, err := m.Source(ctx, connection)
	if err != nil {
		return Tally{}, err
	}
	name, err := m.name(ctx, "fields", connection, "")
	if err != nil {
		return Tally{}, err
	}
	return m.Tally.Begin(name, "", func(ctx context.Context, _ func(int)) (any, error) {
		return m.Syncer.ProfileFields(ctx, conn)
	}), nil
}

// Quality returns what a mapping's rules make of the quality of all records, as a count of
// mapping.CoverageReport.
func (m *Mappings) Quality(ctx context.Context, conn syncer.Connection) (Tally, error) {
	name, err := m.name(ctx, "quality", conn.Name, conn.Mapping.Version())
	if err != nil {
		return Tally{}, err
	}
	return m.Tally.Begin(name, "", func(ctx context.Context, _ func(int)) (any, error) {
		return Covered(ctx, m.Syncer, conn)
	}), nil
}

// name returns the cache key of a count: its kind, text version and data. Only runs change the records.
func (m *Mappings) name(ctx context.Context, what, connection, hash string) (string, error) {
	runs, err := m.Ledger.LatestRuns(ctx)
	data := "no run"
	for _, r := range runs {
		if r.Connection == connection {
			data = fmt.Sprintf("%d %s", r.RunID, r.Outcome)
		}
	}
	return strings.Join([]string{what, connection, hash, data}, "\x1f"), err
}

// RuleChange is a rule of a mapping with its results for one record, before and after an edit.
type RuleChange struct {
	Path, Text    string
	Line          int // 0 for a removed rule
	Before, After string
	Changed       bool
}

// RuleChanges returns an edit's effect on a record, rule by rule. before is nil for an unreadable mapping.
func RuleChanges(ctx context.Context, ledger *state.Ledger, id state.RecordID, before, after *mapping.Mapping,
	p Privacy) ([]RuleChange, error) {
	sent := func(connector.Customer) []string { return nil }
	now, err := PayerOf(ctx, ledger, id, Explainer{after, sent}, p)
	if err != nil {
		return nil, err
	}
	was := Payer{}
	if before != nil {
		if was, err = PayerOf(ctx, ledger, id, Explainer{before, sent}, p); err != nil {
			return nil, err
		}
	}
	value := func(r Rule) string {
		switch {
		case r.Error != "":
			return r.Error
		case r.Skipped:
			return "not reached"
		}
		return r.Value
	}
	old := connector.By(was.Rules, func(r Rule) string { return r.Path })
	var out []RuleChange
	for _, r := range now.Rules {
		c := RuleChange{Path: r.Path, Text: r.Text, Line: r.Line, After: value(r), Before: value(old[r.Path])}
		c.Changed = before != nil && c.Before != c.After
		delete(old, r.Path)
		out = append(out, c)
	}
	for _, r := range was.Rules {
		if _, gone := old[r.Path]; gone {
			out = append(out, RuleChange{Path: r.Path, Text: r.Text, Before: value(r), Changed: true})
		}
	}
	return out, nil
}
