package state

import (
	"fmt"
	"strings"
	"time"

	"payersync/connector"
)

// WhyUndone describes the undone work of a run of the connection, such as signing links without an
// answer; "" for none. A record may count to several.
func (tx *Tx) WhyUndone(connection string) (string, error) {
	var unsent, unanswered, links, unconfirmed, again int
	if err := tx.row([]any{&unsent, &unanswered, &links, &unconfirmed, &again}, `SELECT
		(SELECT count(*) FROM changes WHERE connection = ?1 AND state = 'pending'),
		(SELECT count(*) FROM changes WHERE connection = ?1 AND lane = 'customer' AND state <> 'pending' AND `+openStates+`),
		(SELECT count(*) FROM changes WHERE connection = ?1 AND lane = 'mandate' AND state <> 'pending' AND `+openStates+`),
		(SELECT count(*) FROM payers p WHERE p.connection = ?1 AND `+isUnconfirmed+`),
		(SELECT count(*) FROM source_records WHERE connection = ?1 AND replan = 1)`, connection); err != nil {
		return "", fmt.Errorf("look what is left undone: %w", err)
	}
	var left []string
	for _, one := range []struct {
		n    int
		what string
		how  string
	}{
		{unsent, "change", "to be sent"}, {unanswered, "request", "without an answer"},
		{links, "signing link", "asked for without an answer"},
		{unconfirmed, "new customer", "not confirmed"}, {again, "record", "to be planned again"},
	} {
		if one.n > 0 {
			left = append(left, connector.Plural(one.n, one.what)+" "+one.how)
		}
	}
	return strings.Join(left, ", "), nil
}

// WhyIncomplete explains a run's incomplete end, in the shared words of its output, the log and the
// status: the cause, and the undone work.
func WhyIncomplete(problem, undone string) string {
	switch {
	case problem == "" && undone == "":
		return "it did not come to its end, and left nothing that is known to be open"
	case problem == "":
		return undone
	case undone == "":
		return problem
	}
	return strings.TrimSuffix(problem, ".") + "; left undone: " + undone
}

// NoteUndone stores a run's undone work at its end, in words without personal values. retry is when
// a run can continue; the zero time if unknown.
func (tx *Tx) NoteUndone(run int64, left string, retry time.Time) error {
	var at any
	if !retry.IsZero() {
		at = stamp(retry)
	}
	return connector.Wrap(tx.exec("UPDATE runs SET undone = ?, retry_at = ? WHERE run_id = ?", left, at, run),
		"note what run %d left undone", run)
}
