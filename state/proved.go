package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// ProvedOrganisation is the last answer of a connection's accounting system about its organisation.
type ProvedOrganisation struct {
	ID, Name string
	At       time.Time // zero for never, or where it has to be asked anew
	By       string    // keyed hash of the credentials that it was asked with
}

// ProvedOrganisation returns the proof of a connection.
func (l *Ledger) ProvedOrganisation(ctx context.Context, connection string) (p ProvedOrganisation, err error) {
	var at sql.NullString
	err = l.queryRow(ctx, "SELECT tenant_id, tenant_name, proved_at, proved_by FROM connections WHERE name = ?",
		connection).Scan(&p.ID, &p.Name, &at, &p.By)
	if errors.Is(err, sql.ErrNoRows) {
		return p, nil
	}
	if err == nil {
		p.At, err = parseTime(at)
	}
	if err != nil {
		return p, fmt.Errorf("read the organisation of %s: %w", connection, err)
	}
	return p, nil
}

// ProveOrganisation stores the organisation that the accounting system has just named for a
// connection. It reports false, and keeps nothing, if the connection is bound to another one.
func (tx *Tx) ProveOrganisation(connection, id, by string) (bool, error) {
	n, err := tx.count("UPDATE connections SET proved_at = ?, proved_by = ? WHERE name = ? AND tenant_id = ?",
		stamp(tx.now), by, connection, id)
	if err != nil {
		return false, fmt.Errorf("keep the organisation of %s: %w", connection, err)
	}
	return n > 0, nil
}

// DoubtOrganisation has the organisation of a connection asked anew by the next run.
func (tx *Tx) DoubtOrganisation(connection string) error {
	return connector.Wrap(tx.exec("UPDATE connections SET proved_at = NULL, proved_by = '' WHERE name = ?", connection),
		"have the organisation of %s asked anew", connection)
}
