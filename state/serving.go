package state

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
)

// Serving describes the configuration of payersync serve for people.
type Serving struct {
	// why the file cannot be used, while what was in force before stays so; "" for nothing
	Problem string    `json:"problem"`
	Since   time.Time `json:"since,omitzero"` // when it was first seen so
	Restart []string  `json:"restart_needed"` // keys whose new value counts from the next start only
}

// SetServing records the mistakes in the configuration of payersync serve, "" for none, and the changes
// waiting for its next start. The time is that of the first problem since the file was last right.
func (tx *Tx) SetServing(problem string, restart []string) error {
	err := tx.exec(`UPDATE ledger SET config_problem = ?1, restart_needed = ?2,
		config_problem_since = CASE WHEN ?1 = '' THEN NULL ELSE coalesce(config_problem_since, ?3) END`, problem,
		strings.Join(restart, "\n"), stamp(tx.now))
	return connector.Wrap(err, "note what is wrong with the configuration")
}

// Serving returns the last payersync serve's result of reading its configuration.
func (l *Ledger) Serving(ctx context.Context) (Serving, error) {
	var since sql.NullString
	var restart string
	s := Serving{Restart: []string{}}
	err := l.queryRow(ctx, "SELECT config_problem, config_problem_since, restart_needed FROM ledger").Scan(&s.Problem,
		&since, &restart)
	if err != nil {
		return s, fmt.Errorf("read what is wrong with the configuration: %w", err)
	}
	if restart != "" {
		s.Restart = strings.Split(restart, "\n")
	}
	s.Since, err = parseTime(since)
	return s, err
}
