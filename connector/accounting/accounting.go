// Package accounting defines a source of customers. Each accounting system has a package of its own below
// this one, and each passes the conformance suite in accountingtest. Callers decide when to read a source,
// where to store the reading position, and what to do with the records.
package accounting

import (
	"context"
	"errors"
	"iter"
	"time"

	"payersync/connector"
)

// Source is an accounting system with customers. A source only reads; it decides nothing and keeps no state
// between calls.
type Source interface {
	// Describe names the source, its organisation and the fields of its records.
	// It may read, but never writes.
	Describe(ctx context.Context) (connector.SourceInfo, error)

	// Customers yields every customer changed at or after since, page by page. The zero time asks for all of
	// them, and a snapshot source always returns all. A source id appears in at least one page and may
	// repeat. The sequence ends after the first error; without an error it was a complete read. An unreadable
	// record is yielded with its Problem set, and the others go on. After the error ErrUndecided the yielded
	// records are valid all the same.
	Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error]
}

// Marker is a Source with a cheap way to detect that a full reading would return the same as an earlier one.
type Marker interface {
	// Mark returns a fingerprint of a full reading. While it stays the same, so does every record, with its
	// problem and its origin. It depends on everything that decides about them, the way of reading included.
	// An empty mark and an error both mean unknown: the source is read then, and reports the error itself.
	Mark(ctx context.Context) (string, error)
}

// ErrUndecided ends a read that cannot continue, although more records follow. The records before it are as
// good as those of a complete read. Nothing is concluded about the rest.
var ErrUndecided = errors.New("what comes behind it cannot be told apart")
