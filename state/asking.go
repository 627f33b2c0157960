package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"payersync/connector"
)

// Unasked returns why the newest plan does not ask a payer for a mandate; the zero value if it asks
// or has not decided.
type Unasked struct {
	Why       connector.WhyUnasked
	Line      int // of the rule in the mapping version; 0 where it has none
	Condition int // of the rule, by its number; 0 for the whole rule
}

// AskingDecision is a person's decision whether a payer is asked for a mandate.
type AskingDecision struct {
	Decision connector.AskDecision
	Entry    // of the audit log; zero where nobody decided
}

// DecideAsking notes a person's decision whether a record's payer is asked for a mandate; the next
// plan goes by it. AskByRule takes a decision back. It drops a planned request, because the
// decision may no longer want it. It sends nothing, and reports false when the same was decided
// before.
func (tx *Tx) DecideAsking(id RecordID, decision connector.AskDecision, word Entry) (news bool, err error) {
	var known, same bool
	if err := tx.row([]any{&known, &same},
		"SELECT count(*) > 0, count(CASE WHEN asking = ?3 THEN 1 END) > 0 FROM source_records WHERE connection = ?1 AND source_id = ?2 AND forgotten = ''",
		id.Connection, id.SourceID, decision); err != nil || same {
		return false, err
	}
	if !known {
		return false, ErrNoRecord
	}
	seq, err := tx.auditDecision(word)
	if err != nil {
		return false, err
	}
	if err := tx.exec("UPDATE source_records SET asking = ?, asking_word = ?, replan = 1 WHERE connection = ? AND source_id = ?", decision, seq, id.Connection, id.SourceID); err != nil {
		return false, fmt.Errorf("decide whether the payer of record %s is asked: %w", id.SourceID, err)
	}
	if decision != connector.Ask {
		err = tx.dropPlanned(id.Connection, id.SourceID, LaneMandate)
	}
	return true, err
}

// moveAsking moves a person's decision on a payer from the old record of its customer to the new
// one.
func (tx *Tx) moveAsking(from, to RecordID) error {
	return errors.Join(
		tx.exec(`UPDATE source_records SET (asking, asking_word) = (SELECT o.asking, o.asking_word FROM source_records o WHERE o.connection = ?1 AND o.source_id = ?2)
			WHERE connection = ?3 AND source_id = ?4 AND EXISTS (SELECT 1 FROM source_records o WHERE o.connection = ?1 AND o.source_id = ?2 AND o.asking <> '')`,
			from.Connection, from.SourceID, to.Connection, to.SourceID),
		tx.exec("UPDATE source_records SET asking = '', asking_word = 0 WHERE connection = ? AND source_id = ? AND asking <> ''", from.Connection, from.SourceID))
}

// AskingOf returns a person's decision whether a record's payer is asked; the zero value for none.
func (l *Ledger) AskingOf(ctx context.Context, id RecordID) (AskingDecision, error) {
	var d AskingDecision
	var at sql.NullString
	err := l.queryRow(ctx, `SELECT r.asking, a.at, coalesce(a.actor, ''), coalesce(a.action, ''), coalesce(a.subject, ''), coalesce(a.reason, '')
		FROM source_records r LEFT JOIN audit a ON a.seq = r.asking_word WHERE r.connection = ? AND r.source_id = ? AND r.asking <> ''`, id.Connection, id.SourceID).
		Scan(&d.Decision, &at, &d.Actor, &d.Action, &d.Subject, &d.Reason)
	if errors.Is(err, sql.ErrNoRows) {
		return AskingDecision{}, nil
	}
	if err == nil {
		d.At, err = parseTime(at)
	}
	if err != nil {
		return AskingDecision{}, fmt.Errorf("read the decision whether the payer of record %s is asked: %w", id.SourceID, err)
	}
	return d, nil
}

// UnaskedCount is how many payers of a connection without a mandate the newest plan does not ask for
// one reason.
type UnaskedCount struct {
	Connection string
	Mapping    string // version
	Unasked
	Payers int
}

// UnaskedCounts returns how many payers are not asked, and why, of one connection or of all for "".
func (l *Ledger) UnaskedCounts(ctx context.Context, connection string) ([]UnaskedCount, error) {
	out, err := list(ctx, l, `SELECT connection, `+mappingTagged+`, not_asked, line, condition, payers FROM (
		SELECT r.connection AS connection, `+unaskedTag+` AS tag, `+unaskedColumns+`, count(*) AS payers
		FROM source_records r WHERE r.not_asked <> '' AND (?1 = '' OR r.connection = ?1) AND `+isUnasked+`
		GROUP BY 1, 2, 3, 4, 5) AS unasked ORDER BY 1, 6 DESC, 3, 4, 5, 2`, []any{connection},
		func(c *UnaskedCount) []any {
			return []any{&c.Connection, &c.Mapping, &c.Why, &c.Line, &c.Condition, &c.Payers}
		})
	return out, connector.Wrap(err, "count the payers that are not asked")
}

// These are why the newest plan does not ask the payer of record r: the reason with the place of its rule, the
// beginning of the mapping version of a rule, and the whole version.
const (
	unaskedColumns = `r.not_asked AS not_asked,
		CASE r.not_asked WHEN 'rule' THEN r.not_asked_line ELSE 0 END AS line, CASE r.not_asked WHEN 'rule' THEN r.not_asked_condition ELSE 0 END AS condition`
	unaskedTag    = "CASE r.not_asked WHEN 'rule' THEN substr(r.planned_mapping, 1, 16) ELSE '' END"
	mappingTagged = "coalesce((SELECT max(v.hash) FROM mapping_versions v WHERE substr(v.hash, 1, 16) = tag), tag)"
)

var unaskedMapping = "CASE r.not_asked WHEN 'rule' THEN " + strings.ReplaceAll(mappingTagged, "tag", unaskedTag) +
	" ELSE '' END"

// isUnasked is the condition that the newest plan includes record r's payer, which was not removed, without a mandate
// and without an open request for one.
const isUnasked = `r.decision = 'included' AND r.unseen = 0 AND r.forgotten = '' AND r.given_up = 0
	AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.connection = r.connection AND p.source_id = r.source_id AND p.mandate_id IS NOT NULL)
	AND NOT EXISTS (SELECT 1 FROM changes q WHERE q.connection = r.connection AND q.source_id = r.source_id AND q.lane = 'mandate' AND (q.state = 'frozen' OR q.state = 'unknown'))`
