package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// minPrefix is how much of a version's hash names it.
const minPrefix = 6

// Why a mapping version cannot be named.
var (
	// ErrNoMapping means that no stored mapping version is meant.
	ErrNoMapping = errors.New("the ledger has no such mapping version")
	// ErrManyMappings means that a prefix begins the hash of several versions.
	ErrManyMappings = errors.New("several mapping versions begin so")
)

// MappingVersion is the text of a mapping that a run was bound to.
type MappingVersion struct {
	Hash     string    `json:"hash"`
	Author   string    `json:"author"`   // the starter of its first run
	SavedAt  time.Time `json:"saved_at"` // when that run began
	LastUsed time.Time `json:"last_used,omitzero"`
	Runs     int       `json:"runs"` // how many used it
	Text     string    `json:"-"`
}

const versionColumns = "v.hash, v.author, v.saved_at, v.body, max(r.started_at), count(r.run_id)"

// MappingVersions returns the versions used by a connection's runs, the last used first.
func (l *Ledger) MappingVersions(ctx context.Context, connection string) ([]MappingVersion, error) {
	return l.mappings(ctx, "SELECT "+versionColumns+` FROM mapping_versions v JOIN runs r ON r.mapping_version = v.hash
		WHERE r.connection = ? GROUP BY v.hash, v.author, v.saved_at, v.body ORDER BY max(r.run_id) DESC`, connection)
}

// FindMapping returns the version whose hash begins with prefix (at least six characters), or
// ErrNoMapping or ErrManyMappings.
func (l *Ledger) FindMapping(ctx context.Context, prefix string) (MappingVersion, error) {
	found, err := l.mappings(ctx,
		"SELECT "+versionColumns+` FROM mapping_versions v LEFT JOIN runs r ON r.mapping_version = v.hash
		WHERE length(?1) >= ?2 AND substr(v.hash, 1, length(?1)) = ?1 GROUP BY v.hash, v.author, v.saved_at, v.body LIMIT 2`,
		prefix, minPrefix)
	switch {
	case err != nil:
		return MappingVersion{}, err
	case len(found) == 0:
		return MappingVersion{}, ErrNoMapping
	case len(found) > 1:
		return MappingVersion{}, ErrManyMappings
	}
	return found[0], nil
}

// MappingInForce returns the version of the connection's last run, without runs that only printed a
// plan; ErrNoMapping if there was no run.
func (l *Ledger) MappingInForce(ctx context.Context, connection string) (MappingVersion, error) {
	var hash string
	err := l.queryRow(ctx,
		"SELECT mapping_version FROM runs WHERE connection = ? AND kind <> 'plan' ORDER BY run_id DESC LIMIT 1",
		connection).Scan(&hash)
	if errors.Is(err, sql.ErrNoRows) {
		return MappingVersion{}, ErrNoMapping
	}
	if err != nil {
		return MappingVersion{}, fmt.Errorf("read the mapping in force: %w", err)
	}
	return l.FindMapping(ctx, hash)
}

func (l *Ledger) mappings(ctx context.Context, query string, args ...any) ([]MappingVersion, error) {
	type row struct {
		MappingVersion
		body        []byte
		saved, used sql.NullString
	}
	rows, err := list(ctx, l, query, args, func(r *row) []any {
		return []any{&r.Hash, &r.Author, &r.saved, &r.body, &r.used, &r.Runs}
	})
	out := make([]MappingVersion, len(rows))
	for i, r := range rows {
		out[i] = r.MappingVersion
		saved, savedErr := parseTime(r.saved)
		used, usedErr := parseTime(r.used)
		text, textErr := l.seal.open(r.body, placeOfMapping(r.Hash))
		if err := errors.Join(savedErr, usedErr, textErr); err != nil {
			return nil, fmt.Errorf("read the mapping version %s: %w", r.Hash, err)
		}
		out[i].Text, out[i].SavedAt, out[i].LastUsed = string(text), saved, used
	}
	return out, err
}

// MappingSaved is the audit log's action of a mapping that somebody saved. Its subject ends
// with the first MappingMark characters of the new version's hash.
const (
	MappingSaved = "save mapping"
	MappingMark  = 12
)

// MappingSavedBy returns the last audit line about saving a version; the zero Entry if there is
// none.
func (l *Ledger) MappingSavedBy(ctx context.Context, hash string) (Entry, error) {
	if len(hash) < MappingMark {
		return Entry{}, nil
	}
	var e Entry
	var at sql.NullString
	err := l.queryRow(ctx, "SELECT at, actor, action, subject, reason FROM audit WHERE action = ? AND substr(subject, length(subject) - ? + 1) = ? ORDER BY seq DESC LIMIT 1",
		MappingSaved, MappingMark, hash[:MappingMark]).Scan(&at, &e.Actor, &e.Action, &e.Subject, &e.Reason)
	if errors.Is(err, sql.ErrNoRows) {
		return Entry{}, nil
	}
	if err == nil {
		e.At, err = parseTime(at)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("read who saved the mapping: %w", err)
	}
	return e, nil
}

// MappingSavers returns everybody who has ever saved a version, for any connection. It includes connections
// hidden from this ledger, because several can share a mapping.
func (l *Ledger) MappingSavers(ctx context.Context, hash string) ([]string, error) {
	if len(hash) < MappingMark {
		return nil, nil
	}
	return list(ctx, l, "SELECT DISTINCT actor FROM main.audit WHERE action = ? AND substr(subject, length(subject) - ? + 1) = ?",
		[]any{MappingSaved, MappingMark, hash[:MappingMark]}, func(name *string) []any { return []any{name} })
}

// MappingProblem is an unusable mapping file; the previous version stays in force.
type MappingProblem struct {
	Connection string    `json:"connection"`
	Problem    string    `json:"problem"` // every mistake of the file, in words and with its line
	Since      time.Time `json:"since"`
}

// SetMappingProblem records the problem of a connection's mapping file, "" for none, and reports
// whether it is new. The time is that of the first mistake since the file was last right.
func (tx *Tx) SetMappingProblem(connection, problem string) (news bool, err error) {
	n, err := tx.count(`UPDATE connections SET mapping_problem = ?1,
		mapping_problem_since = CASE WHEN ?1 = '' THEN NULL ELSE coalesce(mapping_problem_since, ?2) END
		WHERE name = ?3 AND mapping_problem <> ?1`, problem, stamp(tx.now), connection)
	return n > 0, err
}

// MappingProblems returns the mapping files that cannot be used, by connection.
func (l *Ledger) MappingProblems(ctx context.Context) ([]MappingProblem, error) {
	type row struct {
		MappingProblem
		since sql.NullString
	}
	rows, err := list(ctx, l, `SELECT name, mapping_problem, mapping_problem_since FROM connections
		WHERE mapping_problem <> '' ORDER BY name`, nil,
		func(r *row) []any { return []any{&r.Connection, &r.Problem, &r.since} })
	out := make([]MappingProblem, len(rows))
	for i, r := range rows {
		out[i] = r.MappingProblem
		if out[i].Since, err = parseTime(r.since); err != nil {
			return nil, err
		}
	}
	return out, err
}
