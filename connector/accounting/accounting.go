// Package accounting says what a source of customers is. Each accounting system
// has a package of its own below this one, and every one of them passes the
// conformance suite in accountingtest. What is done with the records, where the
// reading position is kept and when a source is read is left to others.
package accounting

import (
	"context"
	"errors"
	"iter"
	"time"

	"payersync/connector"
)

// Source is an accounting system that customers are read from. A source only
// reads; it decides nothing and keeps no state between calls.
type Source interface {
	// Describe names the source, its organisation and the fields of its records.
	// It may read, but never writes.
	Describe(ctx context.Context) (connector.SourceInfo, error)

	// Customers yields every customer that changed at or after since, page by
	// page; the zero time asks for all of them, and a snapshot source always
	// gives all. A source id appears in at least one page and may repeat. The
	// sequence ends after the first error; only a sequence that ends without one
	// was a complete read. A record that cannot be read whole is yielded with
	// its Problem set and stops nobody else's. After an error that is ErrUndecided
	// what was yielded holds all the same.
	Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error]
}

// Marker is a Source that can tell, at much less cost than reading it takes, whether a reading
// of everything would give just what an earlier one gave.
type Marker interface {
	// Mark returns a text that stands for what a reading of everything would give now: while
	// it stays the same, so does every record of it, its problem and its origin. It depends on
	// all that decides about them, the way of reading included. "" and an error both say
	// that it cannot be told now; the source is read then, and tells of the error itself.
	Mark(ctx context.Context) (string, error)
}

// ErrUndecided ends a read behind which there is more, and nothing can tell what.
// What was yielded before it is as good as that of a complete read, and may be
// worked on; nothing is concluded about what was not.
var ErrUndecided = errors.New("what comes behind it cannot be told apart")
