package state

import (
	"context"
	"fmt"

	"payersync/connector"
)

// MatchCandidate is an unlinked customer that a record may be.
type MatchCandidate struct {
	SourceID  string
	BillingID string
	Score     int    // from 0 to 100
	Reasons   string // codes, which match.ReasonsOf puts into words
}

// openCandidate is the condition that match candidate m still needs a decision. The record has no
// customer, and the customer exists without a payer. No person has decided about the two, or
// accepted a customer for the record.
const openCandidate = `NOT EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = m.billing_id)
	AND EXISTS (SELECT 1 FROM remote_customers c WHERE c.billing_id = m.billing_id AND c.digest <> '')
	AND NOT EXISTS (SELECT 1 FROM payers q WHERE q.connection = m.connection AND q.source_id = m.source_id AND q.billing_id IS NOT NULL)
	AND NOT EXISTS (SELECT 1 FROM words w WHERE w.connection = m.connection AND w.source_id = m.source_id
		AND (w.word = 'accept' OR w.billing_id = m.billing_id))
	AND NOT EXISTS (SELECT 1 FROM words w WHERE w.billing_id = m.billing_id AND w.word = 'accept')`

// MatchCandidates returns the open customers that a record may be, the best first. The ledger
// compares nothing itself: see SaveMatchCandidates.
func (l *Ledger) MatchCandidates(ctx context.Context, connection, sourceID string) ([]MatchCandidate, error) {
	return list(ctx, l, `SELECT m.source_id, m.billing_id, m.score, m.reasons FROM match_candidates m
		WHERE m.connection = ? AND m.source_id = ? AND `+openCandidate+" ORDER BY m.score DESC, m.billing_id",
		[]any{connection, sourceID}, (*MatchCandidate).dest)
}

// OpenMatch is a record without a customer, with its open candidates.
type OpenMatch struct {
	SourceID   string
	Since      string // since when something is told of the record, or else when it was read last
	PutOff     bool   // a person put off until later what is told of it
	Candidates []MatchCandidate
}

// OpenMatches returns a connection's records with an open match, in order, the best match first. It includes
// records on hold for other reasons.
func (l *Ledger) OpenMatches(ctx context.Context, connection string) (out []OpenMatch, err error) {
	type row struct {
		MatchCandidate
		since  string
		putOff bool
	}
	const told = "FROM attention a WHERE a.connection = m.connection AND a.source_id = m.source_id AND a.topic <> 'mandate'"
	err = each(ctx, l, `SELECT m.source_id, m.billing_id, m.score, m.reasons, coalesce((SELECT min(a.since) `+told+`), r.updated_at),
		EXISTS (SELECT 1 `+told+` AND EXISTS (SELECT 1 FROM put_off o WHERE o.connection = a.connection AND o.source_id = a.source_id AND o.reason = a.reason AND o.at >= a.since AND o.until > ?2))
		FROM match_candidates m JOIN source_records r ON r.connection = m.connection AND r.source_id = m.source_id
		WHERE m.connection = ?1 AND `+openCandidate+" ORDER BY m.source_id, m.score DESC, m.billing_id",
		[]any{connection, stamp(l.Now())},
		func(r *row) []any { return append(r.dest(), &r.since, &r.putOff) }, func(r row) error {
			if len(out) == 0 || out[len(out)-1].SourceID != r.SourceID {
				out = append(out, OpenMatch{SourceID: r.SourceID, Since: r.since, PutOff: r.putOff})
			}
			last := &out[len(out)-1]
			last.Candidates = append(last.Candidates, r.MatchCandidate)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read the customers that records may be: %w", err)
	}
	return out, nil
}

// updateOpenMatches updates the finding about a record's open matches after a decision: the finding ends with
// the last open match, and returns when a decision is taken back. The next run has the same result.
func (tx *Tx) updateOpenMatches(connection, sourceID string) error {
	var open bool
	var told connector.Reason
	if err := tx.row([]any{&open, &told}, `SELECT
		EXISTS (SELECT 1 FROM match_candidates m WHERE m.connection = ?1 AND m.source_id = ?2 AND `+openCandidate+`),
		coalesce((SELECT reason FROM attention WHERE connection = ?1 AND source_id = ?2 AND topic = 'link'), '')`, connection,
		sourceID); err != nil {
		return fmt.Errorf("look for open matches of record %s: %w", sourceID, err)
	}
	p := RecordID{connection, sourceID}.payer()
	switch {
	case !open && told == connector.ReasonLikeness:
		tx.Explain(p, TopicLink, "", "")
	case open && told == "":
		tx.Explain(p, TopicLink, connector.ReasonLikeness, "")
	}
	return nil
}

func (m *MatchCandidate) dest() []any {
	return []any{&m.SourceID, &m.BillingID, &m.Score, &m.Reasons}
}

const matchCount = "SELECT count(DISTINCT m.source_id) FROM match_candidates m WHERE m.connection = ? AND " +
	openCandidate

// MatchCount returns how many records of a connection have an open candidate.
func (l *Ledger) MatchCount(ctx context.Context, connection string) (n int, err error) {
	err = l.queryRow(ctx, matchCount, connection).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the records that may be customers: %w", err)
	}
	return n, nil
}

// UnmatchedProfiles reports whether the index has new unlinked customers since the last comparison
// with a connection's records, and up to which profile.
func (l *Ledger) UnmatchedProfiles(ctx context.Context, connection string) (newest int64, news bool, err error) {
	err = l.queryRow(ctx, `SELECT coalesce((SELECT max(saved) FROM remote_profiles), 0),
		coalesce((SELECT max(saved) FROM remote_profiles), 0) > coalesce((SELECT matched_to FROM connections WHERE name = ?), 0)`, connection).Scan(&newest, &news)
	if err != nil {
		return 0, false, fmt.Errorf("look for customers that no record was compared with: %w", err)
	}
	return newest, news, nil
}

// SaveMatchCandidates replaces the result of comparing all records of a connection with the customers of the
// index up to a profile. The next plan looks again at records with candidates that would get a new customer.
// It also looks at records on hold for a match without remaining candidates.
func (tx *Tx) SaveMatchCandidates(connection string, upTo int64, found []MatchCandidate) error {
	if err := tx.exec("DELETE FROM match_candidates WHERE connection = ?", connection); err != nil {
		return err
	}
	if err := tx.AddMatchCandidates(connection, found); err != nil {
		return err
	}
	if err := tx.exec("UPDATE connections SET matched_to = ? WHERE name = ?", upTo, connection); err != nil {
		return err
	}
	return tx.wakeMatches(connection)
}

// AddMatchCandidates keeps candidates besides those that are known.
func (tx *Tx) AddMatchCandidates(connection string, found []MatchCandidate) error {
	var rows []any
	for _, m := range found {
		rows = append(rows, connection, m.SourceID, m.BillingID, m.Score, m.Reasons)
	}
	return connector.Wrap(tx.insertRows("INSERT INTO match_candidates (connection, source_id, billing_id, score, reasons) VALUES ", "(?, ?, ?, ?, ?)", rows,
		" ON CONFLICT (connection, source_id, billing_id) DO UPDATE SET score = excluded.score, reasons = excluded.reasons"),
		"keep the customers that records may be")
}

func (tx *Tx) wakeMatches(connection string) error {
	if err := tx.exec(`UPDATE source_records SET replan = 1 WHERE connection = ?1 AND replan = 0 AND source_id IN (
		SELECT c.source_id FROM changes c WHERE c.connection = ?1 AND c.lane = 'customer' AND c.action = 'create' AND c.state = 'pending'
		  AND EXISTS (SELECT 1 FROM match_candidates m WHERE m.connection = c.connection AND m.source_id = c.source_id AND `+openCandidate+`)
		UNION SELECT a.source_id FROM attention a WHERE a.connection = ?1 AND a.reason = 'likeness'
		  AND NOT EXISTS (SELECT 1 FROM match_candidates m WHERE m.connection = a.connection AND m.source_id = a.source_id AND `+openCandidate+`))`, connection); err != nil {
		return fmt.Errorf("look for records whose matches changed: %w", err)
	}
	return nil
}
