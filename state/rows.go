package state

import (
	"database/sql"
	"fmt"
)

// scanner reads the columns of a row.
type scanner = func(dest ...any) error

// collect reads all rows of a query with read and closes them; nil for none. what begins the error of a failed query.
func collect[T any](what string, read func(scanner) (T, error)) func(*sql.Rows, error) ([]T, error) {
	return func(rows *sql.Rows, err error) (out []T, _ error) {
		if err != nil {
			return nil, readError(what, err)
		}
		defer rows.Close()
		for rows.Next() {
			r, err := read(rows.Scan)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		return out, rows.Err()
	}
}

// columns returns a reader of rows for collect that scans all columns into dest. what begins its errors.
func columns[T any](what string, dest func(*T) []any) func(scanner) (T, error) {
	return func(scan scanner) (r T, err error) {
		err = scan(dest(&r)...)
		return r, readError(what, err)
	}
}

// readError adds to an error what was read; what is "" where the error says so itself.
func readError(what string, err error) error {
	if err == nil || what == "" {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// single reads the one column of a row.
func single[T any](r row) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

// txSingle reads the one column of the row that a query of a transaction gives.
func txSingle[T any](tx *Tx, query string, args ...any) (v T, err error) {
	err = tx.row([]any{&v}, query, args...)
	return v, err
}
