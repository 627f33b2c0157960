package state

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"payersync/connector"
)

// NewRecord is a record without a payer, as a plan is about to make one of it.
type NewRecord struct {
	SourceID string
	Key      connector.Key
	Customer connector.Customer
	Likeness Likeness
}

// WithoutSimilar reports for each new record of a connection whether the ledger knows no payer that it may be. No
// payer and no customer has its key, with a scope or without, and no create with the key is under way. No
// person has decided about it, and it has no match. No unlinked customer has its name or one of its e-mail
// addresses. No payer has a likeness of it for SimilarPayers to check. Only others may be somebody, and are asked
// about one by one. For such a record the results of KeyRival, CreatesUnderWay, KeyHolders, KeyLinkedTo,
// UnscopedHolders, Accepted, Alike and SimilarPayers are empty. A first backfill would otherwise call each of them
// for every record.
func (l *Ledger) WithoutSimilar(ctx context.Context, connection string, newcomers []NewRecord) ([]bool, error) {
	known := make([]bool, len(newcomers))
	keys := map[string]*question{}
	var carried, likenesses, ids question
	for i, n := range newcomers {
		key := n.Key.Indexed()
		if keys[key.Name] == nil {
			keys[key.Name] = &question{}
		}
		keys[key.Name].add(i, key.ScopedValue())
		ids.add(i, n.SourceID)
		carried.add(i, keyTrait(n.Key))
		if n.Key.Scope != "" {
			carried.add(i, keyTrait(n.Key.Unscoped()))
		}
		for _, t := range l.shared(n.Customer) {
			carried.add(i, t.Value)
		}
		for _, h := range l.likeness(n.Likeness) {
			if h.tells() {
				likenesses.add(i, strconv.FormatInt(int64(h), 10))
			}
		}
	}
	for name, q := range keys {
		if err := l.answer(ctx, known, q,
			`(SELECT 1 FROM payers p WHERE p.key_name = ?2 AND p.key_value = j.value LIMIT 1) IS NOT NULL
			OR (SELECT 1 FROM attempts a WHERE a.key_name = ?2 AND a.key_value = j.value AND a.action = 'create' AND a.ended = '' LIMIT 1) IS NOT NULL`, name); err != nil {
			return nil, err
		}
	}
	for _, by := range []struct {
		q     *question
		where string
		args  []any
	}{
		{&ids, "(SELECT 1 FROM words w WHERE w.connection = ?2 AND w.source_id = j.value LIMIT 1) IS NOT NULL OR (SELECT 1 FROM match_candidates m WHERE m.connection = ?2 AND m.source_id = j.value LIMIT 1) IS NOT NULL", []any{connection}},
		{&carried, "(SELECT 1 FROM remote_traits t WHERE t.kind IN ('key', 'name', 'email') AND t.value = j.value LIMIT 1) IS NOT NULL", nil},
		{&likenesses, "(SELECT 1 FROM likenesses o WHERE o.hash = " + traitHash + " LIMIT 1) IS NOT NULL", nil},
	} {
		if err := l.answer(ctx, known, by.q, by.where, by.args...); err != nil {
			return nil, err
		}
	}
	for i := range known {
		known[i] = !known[i]
	}
	return known, nil
}

// question holds values that may be known, and their owners.
type question struct {
	values []string
	of     []int
}

func (q *question) add(of int, value string) {
	q.values, q.of = append(q.values, connector.Clean(value)), append(q.of, of)
}

// answer notes whose values are known by a condition on j.value. It asks for the first row of each
// value: a server runs EXISTS as a join, and may read everything for it.
func (l *Ledger) answer(ctx context.Context, known []bool, q *question, where string, args ...any) error {
	if len(q.values) == 0 {
		return nil
	}
	values, err := json.Marshal(q.values)
	if err != nil {
		return err
	}
	found, err := list(ctx, l, "SELECT j.key FROM json_each(?1) j WHERE "+where, append([]any{string(values)}, args...),
		func(i *int) []any { return []any{i} })
	if err != nil {
		return fmt.Errorf("look for whom new records may be: %w", err)
	}
	for _, i := range found {
		known[q.of[i]] = true
	}
	return nil
}
